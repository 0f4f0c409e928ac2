//! [`StandbyController`]: a controller whose caches and queue are filled, and whose workers have not started.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;

use evenkeel_cache::{InformerFactory, RunningInformers};
use evenkeel_core::{Obj, ObjectKey};
use evenkeel_queue::WorkQueue;

use super::OnDeleted;
use super::context::Context;
use super::error::ControllerError;
use super::handle::ControllerHandle;
use super::next::Next;
use super::reconcile_error::ReconcileError;
use super::started::StartedController;
use super::workers::Reconcile;

/// How a controller stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StopReport {
    /// The number of keys that were queued, delayed or parked, and that were not reconciled any more.
    pub dropped_keys: usize,
}

/// A controller whose informers run and whose queue fills, and which reconciles nothing yet: see
/// [`Controller::standby`](super::Controller::standby).
///
/// For replicas that wait to become leader. [`lead`](Self::lead) starts the workers. Dropping this stops the informers.
///
/// ```
/// # async fn example(
/// #     client: evenkeel_client::Client,
/// #     elected: impl Future<Output = ()>,
/// #     lost: impl Future<Output = ()> + Send,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_runtime::{Controller, Next};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let standby = Controller::<Pod>::new(&client).standby()?;
/// elected.await;
/// standby.lead(lost, |pod, _| async move { println!("{}", pod.key()); Ok(Next::done()) }).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping it stops the informers"]
pub struct StandbyController<K> {
    pub(super) started: StartedController,
    pub(super) on_deleted: Option<OnDeleted>,
    pub(super) kind: PhantomData<fn() -> K>,
}

impl<K: 'static> StandbyController<K> {
    /// Takes the handle of the informers that the controller started for others, which then outlive it.
    pub(crate) fn take_running(&mut self) -> RunningInformers {
        std::mem::take(&mut self.started.running)
    }

    /// Returns the queue.
    pub(crate) fn queue(&self) -> &WorkQueue<ObjectKey> {
        &self.started.queue
    }

    /// Returns the factory of the controller's informers.
    pub(crate) fn informers(&self) -> &InformerFactory {
        &self.started.informers
    }

    /// Returns the name of the controller.
    pub fn name(&self) -> &str {
        self.started.shared.name.as_str()
    }

    /// Waits until all caches have synced and the queue contains the initial list. Optional: [`lead`](Self::lead) waits for it as
    /// well.
    ///
    /// # Errors
    /// Returns an error if that exceeds [`Controller::sync_timeout`](super::Controller::sync_timeout), or if a shared informer has
    /// stopped.
    pub async fn ready(&self) -> Result<(), ControllerError> {
        self.started.synced().await
    }

    /// Returns [`ready`](Self::ready) as a future that does not borrow the controller.
    pub(crate) fn readiness(&self) -> impl Future<Output = Result<(), ControllerError>> + Send + use<K> {
        self.started.readiness()
    }

    /// Returns a handle that adds sources, and reports whether the controller is ready.
    pub fn handle(&self) -> ControllerHandle {
        self.started.handle()
    }

    /// Returns the number of keys in the queue.
    pub fn backlog(&self) -> usize {
        self.started.queue.len()
    }

    /// Reconciles until `shutdown` resolves: see [`Controller::run`](super::Controller::run).
    ///
    /// # Errors
    /// As [`Controller::run`](super::Controller::run).
    pub async fn lead<F, Fut>(self, shutdown: impl Future + Send, reconcile: F) -> Result<(), ControllerError>
    where
        F: Fn(Obj<K>, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Next, ReconcileError>> + Send + 'static,
    {
        self.lead_and_report(shutdown, reconcile).await.map(drop)
    }

    /// Does the same as [`lead`](Self::lead), and returns what was left undone.
    pub(crate) async fn lead_and_report<F, Fut>(
        self,
        shutdown: impl Future + Send,
        reconcile: F,
    ) -> Result<StopReport, ControllerError>
    where
        F: Fn(Obj<K>, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Next, ReconcileError>> + Send + 'static,
    {
        let StandbyController { started, on_deleted, .. } = self;
        let reconcile = Arc::new(reconcile);
        let reconcile: Reconcile = Arc::new(move |context: Context| {
            let (reconcile, on_deleted) = (Arc::clone(&reconcile), on_deleted.clone());
            Box::pin(async move {
                let objects = context.primary::<K>();
                let object = objects.as_ref().and_then(|objects| objects.get(context.key()));
                // After the read: an object that left with its namespace is not deleted.
                let is_in_scope = objects.is_none_or(|objects| objects.is_in_scope(context.key()));
                match (object, on_deleted) {
                    _ if !is_in_scope => Ok(Next::done()),
                    (Some(object), _) => reconcile(object, context).await,
                    (None, Some(on_deleted)) => on_deleted(context.key().clone(), context).await,
                    (None, None) => Ok(Next::done()),
                }
            })
        });
        let shutdown = pin!(async move {
            let _ = shutdown.await;
        });
        started.run(shutdown, reconcile).await
    }
}

impl<K> fmt::Debug for StandbyController<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StandbyController").field("name", &self.started.shared.name.as_str()).finish_non_exhaustive()
    }
}
