//! [`ClusterMember`]: what the controller of one cluster shares with those of the others, and the turns of their workers.

use std::sync::Arc;

use evenkeel_core::ObjectKey;
use evenkeel_queue::{Item, WorkQueue};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use super::cluster::Cluster;
use crate::controller::{ControllerMetrics, UniqueName};

/// What the controllers of all clusters share: name, metrics, and the number of reconciles at a time.
pub(super) struct SharedController {
    name: Arc<UniqueName>,
    metrics: Arc<ControllerMetrics>,
    workers: Arc<Semaphore>,
}

impl SharedController {
    pub(super) fn new(name: &str, workers: usize) -> Self {
        let name = UniqueName::claim(name);
        let metrics = ControllerMetrics::new(name.as_str(), workers);
        let workers = Semaphore::new(workers.min(Semaphore::MAX_PERMITS));
        SharedController { name: Arc::new(name), metrics: Arc::new(metrics), workers: Arc::new(workers) }
    }

    pub(super) fn name(&self) -> &str {
        self.name.as_str()
    }
}

/// The membership of the controller of one cluster in a controller of several. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ClusterMember {
    cluster: Cluster,
    shared: Arc<SharedController>,
    /// The cluster's place in the line for a worker.
    line: Arc<Mutex<()>>,
}

/// A worker that reconciles a key of a cluster, until this is dropped.
#[must_use = "dropping it gives the worker to the next cluster"]
pub(crate) struct WorkerTurn {
    _worker: OwnedSemaphorePermit,
}

impl ClusterMember {
    pub(super) fn new(cluster: &Cluster, shared: &Arc<SharedController>) -> Self {
        ClusterMember { cluster: cluster.clone(), shared: Arc::clone(shared), line: Arc::default() }
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub(crate) fn name(&self) -> &Arc<UniqueName> {
        &self.shared.name
    }

    pub(crate) fn metrics(&self) -> &Arc<ControllerMetrics> {
        &self.shared.metrics
    }

    /// Returns the name of the controller, with that of the cluster unless it is the home cluster: `foos@eu-1`.
    pub(crate) fn label(&self) -> String {
        match self.cluster.is_home() {
            true => self.shared.name().to_owned(),
            false => format!("{}@{}", self.shared.name(), self.cluster.name()),
        }
    }

    /// Waits for a key of the cluster and for a worker. Returns `None` when the queue is shut down and empty.
    ///
    /// The key is taken first and the worker last, so a cluster without keys occupies no worker. One call at a time waits for each
    /// cluster, and workers are given in the order of the calls: clusters with keys take turns. While the cluster is parked, its keys
    /// stay in the queue, but for the one that had been taken.
    ///
    /// Cancel safe: a key that was taken is retried.
    pub(crate) async fn next(&self, queue: &WorkQueue<ObjectKey>) -> Option<(Item<ObjectKey>, WorkerTurn)> {
        let _place = self.line.lock().await;
        let reachability = self.cluster.reachability();
        reachability.reachable().await;
        let item = queue.next().await?;
        loop {
            reachability.reachable().await;
            // The semaphore is never closed.
            let worker = Arc::clone(&self.shared.workers).acquire_owned().await.ok()?;
            if !reachability.is_parked() {
                return Some((item, WorkerTurn { _worker: worker }));
            }
        }
    }
}
