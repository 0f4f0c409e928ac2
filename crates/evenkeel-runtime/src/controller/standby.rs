//! [`StandbyController`]: a controller that has everything at hand, and waits for its turn.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;

use evenkeel_core::Obj;

use super::Deleted;
use super::context::Context;
use super::error::ControllerError;
use super::next::{Next, ReconcileError};
use super::started::{Reconcile, StartedController};

/// A controller whose informers run and whose queue is full, and that does nothing else: see [`Controller::standby`](super::Controller::standby).
///
/// It is for replicas that stand by. [`lead`](Self::lead) begins to work. If this is dropped, it ends.
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
#[must_use = "it ends when it is dropped"]
pub struct StandbyController<K> {
    pub(super) started: StartedController,
    pub(super) deleted: Option<Deleted>,
    pub(super) kind: PhantomData<fn() -> K>,
}

impl<K: 'static> StandbyController<K> {
    /// What the controller is called.
    pub fn name(&self) -> &str {
        self.started.shared.name.as_str()
    }

    /// Waits until everything that the controller looks at is there, and its queue is full. There is no need to: who
    /// [leads](Self::lead) waits for it as well.
    ///
    /// # Errors
    /// If that takes too long: [`Controller::sync_timeout`](super::Controller::sync_timeout); or if an informer that others use too has ended.
    pub async fn ready(&self) -> Result<(), ControllerError> {
        self.started.synced().await
    }

    /// As [`ready`](Self::ready), for whoever does not have this at hand while waiting.
    pub(crate) fn readiness(&self) -> impl Future<Output = Result<(), ControllerError>> + Send + use<K> {
        self.started.readiness()
    }

    /// How many keys wait for somebody to lead.
    pub fn backlog(&self) -> usize {
        self.started.queue.len()
    }

    /// Works until `shutdown`: see [`Controller::run`](super::Controller::run).
    ///
    /// # Errors
    /// As [`Controller::run`](super::Controller::run).
    pub async fn lead<F, Fut>(self, shutdown: impl Future + Send, reconcile: F) -> Result<(), ControllerError>
    where
        F: Fn(Obj<K>, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Next, ReconcileError>> + Send + 'static,
    {
        let StandbyController { started, deleted, .. } = self;
        let reconcile = Arc::new(reconcile);
        let reconcile: Reconcile = Arc::new(move |context: Context| {
            let (reconcile, deleted) = (Arc::clone(&reconcile), deleted.clone());
            Box::pin(async move {
                let object = context.primary::<K>().and_then(|objects| objects.get(context.key()));
                match (object, deleted) {
                    (Some(object), _) => reconcile(object, context).await,
                    (None, Some(deleted)) => deleted(context.key().clone(), context).await,
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
