//! [`EngagementPlan`]: the task of a controller in one cluster. It starts the caches, reconciles, and tries again with backoff.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;

use evenkeel_cache::source::BoxFuture;
use evenkeel_core::Obj;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::cluster::{Attachment, Cluster};
use super::failure::ClusterFailure;
use super::member::{ClusterMember, SharedController};
use super::template::ControllerTemplate;
use crate::controller::{Context, Controller, ControllerError, Next, ReconcileError};
use crate::panic_guard::panic_message;

/// Reconciles an object of any cluster.
pub(super) type ReconcileObject<K> =
    Arc<dyn Fn(Obj<K>, Context) -> BoxFuture<'static, Result<Next, ReconcileError>> + Send + Sync>;

/// What a controller does in every cluster.
pub(super) struct EngagementPlan<K> {
    pub(super) template: ControllerTemplate<K>,
    pub(super) shared: Arc<SharedController>,
    /// The number of workers that one cluster may use.
    pub(super) workers: usize,
    pub(super) reconcile: ReconcileObject<K>,
}

/// Requests an engagement to end.
#[derive(Clone)]
pub(super) struct EngagementStop {
    cluster: Cluster,
    /// Whether the controller shuts down.
    shutdown: watch::Receiver<bool>,
}

impl EngagementStop {
    pub(super) fn new(cluster: &Cluster, shutdown: &watch::Sender<bool>) -> Self {
        EngagementStop { cluster: cluster.clone(), shutdown: shutdown.subscribe() }
    }

    /// Waits until the cluster is disengaged or the controller shuts down.
    async fn requested(self) {
        let EngagementStop { cluster, mut shutdown } = self;
        tokio::select! {
            biased;
            () = cluster.disengaged() => {}
            // A dropped sender counts as a shutdown.
            _ = shutdown.wait_for(|shutdown| *shutdown) => {}
        }
    }

    fn is_requested(&self) -> bool {
        !self.cluster.is_engaged() || *self.shutdown.borrow()
    }
}

impl<K: 'static> EngagementPlan<K> {
    /// Reconciles the objects of a cluster until that is to stop. Failures are retried with backoff. `predecessor` resolves when the
    /// controller has left the previous cluster of that name.
    ///
    /// # Errors
    /// Returns an error if the controller does not drain within its grace period.
    pub(super) async fn run(
        self: Arc<Self>,
        attachment: Attachment,
        stop: EngagementStop,
        predecessor: impl Future<Output = ()> + Send,
    ) -> Result<(), ControllerError> {
        predecessor.await;
        let (cluster, controller) = (attachment.cluster.name(), self.shared.name());
        while !stop.is_requested() {
            let error = match self.attempt(&attachment, &stop).await {
                Ok(()) => break,
                Err(error) if stop.is_requested() => return Err(error),
                Err(error) => error,
            };
            let now = Instant::now();
            let until = attachment.record.failed(ClusterFailure::new(&error, now));
            tracing::warn!(cluster, controller, %error, retry_in = ?until - now, "cluster not engaged; retrying");
            tokio::select! {
                biased;
                () = stop.clone().requested() => break,
                () = sleep_until(until) => {}
            }
        }
        tracing::debug!(cluster, controller, "cluster left");
        Ok(())
    }

    /// Runs one controller. Returns `Ok` when that is to stop.
    async fn attempt(&self, attachment: &Attachment, stop: &EngagementStop) -> Result<(), ControllerError> {
        let standby = self.controller(&attachment.cluster)?.standby()?;
        attachment.record.start(standby.queue(), standby.informers());
        let (ready, reconcile) = (standby.readiness(), Arc::clone(&self.reconcile));
        let stopped = stop.clone().requested();
        let mut leading = pin!(standby.lead(stopped, move |object, context| reconcile(object, context)));
        tokio::select! {
            biased;
            ended = &mut leading => return ended,
            // If the caches do not sync, `leading` returns the error.
            Ok(()) = ready => {
                attachment.record.synced();
                let (cluster, controller) = (attachment.cluster.name(), self.shared.name());
                tracing::info!(cluster, controller, "caches of the cluster have synced");
            }
        }
        leading.await
    }

    /// Builds the controller of a cluster. A panic of the program's configuration counts as an error of this cluster alone.
    fn controller(&self, cluster: &Cluster) -> Result<Controller<K>, ControllerError> {
        let build = || self.template.build(cluster, &self.shared, self.workers);
        catch_unwind(AssertUnwindSafe(build)).map_err(|panic| ControllerError::InvalidConfig {
            controller: ClusterMember::new(cluster, &self.shared).label(),
            problem: format!("panic: {}", panic_message(&*panic)),
        })
    }
}
