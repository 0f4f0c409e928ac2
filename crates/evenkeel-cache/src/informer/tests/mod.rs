//! Informers of a fake source, in virtual time.

mod consistency;
mod handlers;
mod holds;
mod lifecycle;
mod metrics;
mod namespaces;
mod namespaces_changed;
mod observe;
mod panics;
mod processing;
mod removal;
mod resyncs;
mod stalled;
mod transforms;
mod updates;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_core::{Obj, Untyped};
use tokio::sync::watch;

use super::testing::{object, pods, tell};
use super::{InformerOptions, RunningInformers, SharedInformer};
use crate::handler::{Handler, HandlerOptions};
use crate::testing::FakeSource;
use crate::{Event, Object};

/// The kind does not matter in these tests.
type Informer = SharedInformer<Untyped>;

/// Records its notifications.
#[derive(Clone, Debug, Default)]
struct Recorder {
    log: Arc<Mutex<Vec<String>>>,
    received: watch::Sender<usize>,
}

impl Recorder {
    fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Returns and removes the notifications so far.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    /// Returns and removes the notifications so far, sorted: lists and resyncs have no particular order.
    fn take_sorted(&self) -> Vec<String> {
        let mut log = self.take();
        log.sort();
        log
    }

    /// Waits for this many notifications in total.
    async fn received(&self, events: usize) {
        self.received.subscribe().wait_for(|received| *received >= events).await.unwrap();
    }

    fn note(&self, event: &Event<Untyped>) {
        self.log.lock().unwrap().push(tell(event));
        self.received.send_modify(|received| *received += 1);
    }
}

impl Handler<Untyped> for Recorder {
    fn handle(&mut self, event: Event<Untyped>) {
        self.note(&event);
    }
}

fn source() -> FakeSource {
    FakeSource::new(pods())
}

fn options() -> InformerOptions<Untyped> {
    InformerOptions::new()
}

fn informer_of(source: &FakeSource, options: InformerOptions<Untyped>) -> Informer {
    Informer::new(source.clone(), source.resource(), options)
}

/// Returns a pod; the source sets its version.
fn pod(name: &str) -> Object {
    object(name, 0)
}

/// Returns a pod with a label.
fn labelled(name: &str, value: &str, uid: &str) -> Object {
    let json = format!(r#"{{"metadata":{{"name":"{name}","uid":"{uid}","labels":{{"l":"{value}"}}}}}}"#);
    Obj::from_json(&pods(), json).unwrap()
}

/// Runs all tasks until they wait. (Virtual time passes only then.)
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Starts an informer of this source, with a recorder that has processed the initial list.
async fn started(source: &FakeSource, options: HandlerOptions) -> (Informer, RunningInformers, Recorder) {
    let informer = informer_of(source, InformerOptions::new());
    let recorder = Recorder::default();
    let registration = informer.add_handler(recorder.clone().with(options)).unwrap();
    let running = informer.start();
    registration.synced().await.unwrap();
    (informer, running, recorder)
}

/// Returns the names and versions of the stored objects.
fn stored(informer: &Informer) -> Vec<String> {
    let name = |object: &Object| format!("{}@{}", object.key(), object.resource_version());
    let mut names: Vec<String> = informer.indexer().list().iter().map(name).collect();
    names.sort();
    names
}
