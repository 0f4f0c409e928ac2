//! [`Cluster`]: one engaged cluster, and the controllers that are attached to it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_client::{Client, ObservedAttempt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::engagement_record::EngagementRecord;
use super::key::HOME;
use super::reachability::{self, Reachability};
use super::status::ClusterStatus;

/// One engaged cluster: its name, its client and its status. Cheap to clone; clones are the same instance.
///
/// A cluster that is engaged again with another client is another instance.
#[derive(Clone)]
pub struct Cluster(Arc<ClusterInstance>);

struct ClusterInstance {
    name: Arc<str>,
    /// Reports its attempts to `reachability`.
    client: Client,
    engaged_at: Instant,
    reachability: Arc<Reachability>,
    is_disengaged: watch::Sender<bool>,
    /// Each attached controller holds a receiver.
    attached: watch::Sender<()>,
    controllers: Mutex<BTreeMap<String, Arc<EngagementRecord>>>,
}

impl Cluster {
    pub(super) fn new(name: Arc<str>, client: &Client) -> Self {
        let reachability = Arc::<Reachability>::default();
        let client = client.with_attempt_observer({
            let (name, reachability) = (Arc::clone(&name), Arc::clone(&reachability));
            move |attempt: &ObservedAttempt<'_>| reachability.observe(&name, attempt)
        });
        Cluster(Arc::new(ClusterInstance {
            name,
            client,
            engaged_at: Instant::now(),
            reachability,
            is_disengaged: watch::Sender::new(false),
            attached: watch::Sender::new(()),
            controllers: Mutex::default(),
        }))
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns whether this is the home cluster.
    pub fn is_home(&self) -> bool {
        self.name() == HOME
    }

    /// Returns the client. The outcomes of its requests count for the [status](Self::status).
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// Returns whether the cluster is engaged.
    pub fn is_engaged(&self) -> bool {
        !*self.0.is_disengaged.borrow()
    }

    /// Waits until the cluster is disengaged or replaced.
    pub async fn disengaged(&self) {
        // The sender is a field of `self`, so the wait does not fail.
        let _ = self.0.is_disengaged.subscribe().wait_for(|is_disengaged| *is_disengaged).await;
    }

    /// Returns what is known of the cluster: whether its caches have synced, and why not.
    pub fn status(&self) -> ClusterStatus {
        let records: Vec<_> =
            self.controllers().iter().map(|(controller, record)| (controller.clone(), Arc::clone(record))).collect();
        let is_parked = self.reachability().is_parked();
        let controllers: BTreeMap<_, _> =
            records.into_iter().map(|(controller, record)| (controller, record.status())).collect();
        let failures = controllers.values().filter_map(|status| status.last_failure.as_ref());
        let last_failure = failures.cloned().chain(self.reachability().last_failure()).max_by_key(|failure| failure.at);
        let ready = controllers.values().filter_map(|status| status.queue.map(|queue| queue.ready));
        ClusterStatus {
            name: self.name().to_owned(),
            engaged_at: Some(self.0.engaged_at),
            is_synced: controllers.values().all(|status| status.is_synced()),
            is_parked,
            parked_keys: if is_parked { ready.sum() } else { 0 },
            requests: self.reachability().counts(),
            last_failure,
            rejected: None,
            controllers,
        }
    }

    pub(super) fn reachability(&self) -> &Arc<Reachability> {
        &self.0.reachability
    }

    fn controllers(&self) -> MutexGuard<'_, BTreeMap<String, Arc<EngagementRecord>>> {
        self.0.controllers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether both are the same instance.
    pub(super) fn is(&self, other: &Cluster) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Probes the cluster while its keys are parked.
    pub(super) async fn probe(self) {
        let ClusterInstance { name, client, reachability, .. } = &*self.0;
        reachability::probe(Arc::clone(name), client.clone(), Arc::clone(reachability)).await;
    }

    /// Has all controllers leave the cluster.
    pub(super) fn disengage(&self) {
        self.0.is_disengaged.send_replace(true);
    }

    /// Waits until no controller is attached. Must be called after [`disengage`](Self::disengage).
    pub(super) async fn abandoned(&self) {
        self.0.attached.closed().await;
    }

    /// Attaches a controller, unless the cluster is disengaged.
    pub(super) fn attach(&self, controller: &str) -> Option<Attachment> {
        // Before the check: a cluster that is disengaged after it waits for this receiver.
        let attached = self.0.attached.subscribe();
        if !self.is_engaged() {
            return None;
        }
        let record = Arc::<EngagementRecord>::default();
        self.controllers().insert(controller.to_owned(), Arc::clone(&record));
        let (cluster, controller) = (self.clone(), controller.to_owned());
        Some(Attachment { cluster, controller, record, _attached: attached })
    }
}

/// A controller that is attached to a cluster. Dropping it detaches it.
pub(super) struct Attachment {
    pub(super) cluster: Cluster,
    controller: String,
    pub(super) record: Arc<EngagementRecord>,
    _attached: watch::Receiver<()>,
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let mut controllers = self.cluster.controllers();
        if controllers.get(&self.controller).is_some_and(|record| Arc::ptr_eq(record, &self.record)) {
            controllers.remove(&self.controller);
        }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("name", &self.0.name)
            .field("client", &self.0.client)
            .field("is_engaged", &self.is_engaged())
            .finish_non_exhaustive()
    }
}
