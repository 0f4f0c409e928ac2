//! A reflector and its counter.

use std::fmt::Debug;
use std::hash::Hash;
use std::io::Write;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ResourceExt};
use kube::runtime::reflector::{Store, store::Writer};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, reflector};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use crate::process::Moment;

/// Settings of all reflectors.
pub(crate) struct Setup {
    pub(crate) client: Client,
    pub(crate) config: watcher::Config,
    pub(crate) notifications: Arc<AtomicU64>,
    /// Whether managedFields are stripped.
    pub(crate) light: bool,
}

/// A reflector of any kind.
pub(crate) struct Reflection {
    pub(crate) ready: oneshot::Receiver<()>,
    pub(crate) len: Box<dyn Fn() -> usize>,
    /// Its store, if it is one of pods.
    pub(crate) pods: Option<Store<Pod>>,
}

/// The number of updates to wait for, and the receivers of the results.
pub(crate) struct Wanted {
    updates: u64,
    singles: usize,
    storm: Option<oneshot::Sender<(Moment, Moment)>>,
    handled: Option<oneshot::Sender<Vec<u64>>>,
}

/// The results.
pub(crate) struct CounterResults {
    /// Arrival of the first and the last update.
    pub(crate) storm: oneshot::Receiver<(Moment, Moment)>,
    /// Arrival of each single update afterwards, in nanoseconds since 1970.
    pub(crate) handled: oneshot::Receiver<Vec<u64>>,
}

pub(crate) fn wanted(updates: u64, singles: usize) -> (Wanted, CounterResults) {
    let (storm, storm_told) = oneshot::channel();
    let (handled, handled_told) = oneshot::channel();
    let wanted = Wanted { updates, singles, storm: Some(storm), handled: Some(handled) };
    (wanted, CounterResults { storm: storm_told, handled: handled_told })
}

impl Setup {
    /// Starts a reflector.
    pub(crate) fn start<K>(&self, api: Api<K>, kind: K::DynamicType, wanted: Wanted) -> (Reflection, Store<K>)
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Eq + Hash + Clone + Send + Sync + Unpin,
    {
        let writer = Writer::<K>::new(kind);
        let (store, own) = (writer.as_reader(), writer.as_reader());
        let (results, ready) = oneshot::channel();
        let (notifications, config) = (Arc::clone(&self.notifications), self.config.clone());
        let watch = watcher::watcher(api, config);
        if self.light {
            let lighter = watch.modify(|object| object.managed_fields_mut().clear());
            tokio::spawn(count(reflector(writer, lighter).default_backoff(), notifications, results, wanted));
        } else {
            tokio::spawn(count(reflector(writer, watch).default_backoff(), notifications, results, wanted));
        }
        (Reflection { ready, len: Box::new(move || own.len()), pods: None }, store)
    }
}

/// Receives every change, counts updates and records their arrival. Failures are printed; the stream continues after
/// them. Objects repeated by a relist are not updates.
async fn count<K>(
    events: impl futures_util::Stream<Item = watcher::Result<Event<K>>>,
    notifications: Arc<AtomicU64>,
    ready: oneshot::Sender<()>,
    mut wanted: Wanted,
) {
    let mut events = pin!(events);
    let (mut ready, mut updates, mut first, mut handled) = (Some(ready), 0, None, Vec::with_capacity(wanted.singles));
    while let Some(event) = events.next().await {
        notifications.fetch_add(1, Ordering::Relaxed);
        match event {
            Ok(Event::InitDone) => {
                if let Some(ready) = ready.take() {
                    // Fails only if the program is ending; so below.
                    let _ = ready.send(());
                }
            }
            Ok(Event::Apply(_)) => {
                updates += 1;
                if updates > wanted.updates {
                    if handled.len() < wanted.singles {
                        handled.push(now());
                    }
                    if handled.len() == wanted.singles
                        && let Some(results) = wanted.handled.take()
                    {
                        let _ = results.send(std::mem::take(&mut handled));
                    }
                    continue;
                }
                if updates == 1 {
                    first = Some(Moment::now());
                }
                if updates == wanted.updates
                    && let (Some(first), Some(results)) = (first.take(), wanted.storm.take())
                {
                    let _ = results.send((first, Moment::now()));
                }
            }
            Ok(_) => {}
            Err(error) => drop(writeln!(std::io::stderr(), "{error}")),
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}
