//! [`WarmController`]: a controller that has everything at hand, and waits for its turn.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;

use evenkeel_core::Obj;

use super::Deleted;
use super::context::Context;
use super::engine::{Engine, Reconcile};
use super::error::ControllerError;
use super::next::{Failure, Next};

/// A controller whose informers run and whose queue is full, and that does nothing else: see [`Controller::warm`](super::Controller::warm).
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
/// let standby = Controller::<Pod>::new(&client).warm()?;
/// elected.await;
/// standby.lead(lost, |pod, _| async move { println!("{}", pod.key()); Ok(Next::done()) }).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "it ends when it is dropped"]
pub struct WarmController<K> {
    pub(super) engine: Engine,
    pub(super) deleted: Option<Deleted>,
    pub(super) kind: PhantomData<fn() -> K>,
}

impl<K: 'static> WarmController<K> {
    /// What the controller is called.
    pub fn name(&self) -> &str {
        self.engine.shared.name.as_str()
    }

    /// Waits until everything that the controller looks at is there, and its queue is full. There is no need to: who
    /// [leads](Self::lead) waits for it as well.
    ///
    /// # Errors
    /// If that takes too long: [`Controller::sync_timeout`](super::Controller::sync_timeout); or if an informer that others use too has ended.
    pub async fn ready(&self) -> Result<(), ControllerError> {
        self.engine.synced().await
    }

    /// As [`ready`](Self::ready), for whoever does not have this at hand while waiting.
    pub(crate) fn readiness(&self) -> impl Future<Output = Result<(), ControllerError>> + Send + use<K> {
        self.engine.readiness()
    }

    /// How many keys wait for somebody to lead.
    pub fn backlog(&self) -> usize {
        self.engine.queue.len()
    }

    /// Works until `shutdown`: see [`Controller::run`](super::Controller::run).
    ///
    /// # Errors
    /// As [`Controller::run`](super::Controller::run).
    pub async fn lead<F, Fut>(self, shutdown: impl Future + Send, reconcile: F) -> Result<(), ControllerError>
    where
        F: Fn(Obj<K>, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Next, Failure>> + Send + 'static,
    {
        let WarmController { engine, deleted, .. } = self;
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
        engine.run(shutdown, reconcile).await
    }
}

impl<K> fmt::Debug for WarmController<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WarmController").field("name", &self.engine.shared.name.as_str()).finish_non_exhaustive()
    }
}
