//! [`Reconciler`]: a reconcile with fields and an error type of its own.

use std::future::Future;
use std::sync::Arc;

use evenkeel_cache::source::BoxFuture;
use evenkeel_core::Obj;

use super::context::Context;
use super::next::Next;
use super::reconcile_error::ReconcileError;

/// Reconciles the objects of kind `K`: a struct with fields, or a function with an error type of its own.
/// [`reconcile_with`] makes it what [`Controller::run`](super::Controller::run), [`lead`](super::StandbyController::lead) and
/// [`Manager::controller`](crate::Manager::controller) take.
///
/// ```
/// # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_core::Obj;
/// use evenkeel_runtime::controller::{Reconciler, reconcile_with};
/// use evenkeel_runtime::manager::shutdown_signal;
/// use evenkeel_runtime::{Context, Controller, Next};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// struct Greeter {
///     greeting: String,
/// }
///
/// impl Reconciler<ConfigMap> for Greeter {
///     type Error = evenkeel_client::Error; // or `anyhow::Error`, or one of your own
///
///     async fn reconcile(&self, map: Obj<ConfigMap>, ctx: Context) -> Result<Next, Self::Error> {
///         let data = map.typed()?.data.clone().unwrap_or_default();
///         println!("{}, {}: {} entries, attempt {}", self.greeting, map.key(), data.len(), ctx.attempt());
///         Ok(Next::done())
///     }
/// }
///
/// let greeter = Greeter { greeting: "hello".to_owned() };
/// Controller::<ConfigMap>::new(&client).run(shutdown_signal()?, reconcile_with(greeter)).await?;
/// # Ok(())
/// # }
/// ```
pub trait Reconciler<K>: Send + Sync + 'static {
    /// The error of a reconcile: everything that converts to `Box<dyn Error + Send + Sync>`, or [`ReconcileError`].
    type Error: Into<ReconcileError>;

    /// Reconciles an object: see [`Controller::run`](super::Controller::run). An implementation may be an `async fn`.
    fn reconcile(&self, object: Obj<K>, context: Context) -> impl Future<Output = Result<Next, Self::Error>> + Send;
}

impl<K, F, Fut, E> Reconciler<K> for F
where
    F: Fn(Obj<K>, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Next, E>> + Send,
    E: Into<ReconcileError>,
{
    type Error = E;

    fn reconcile(&self, object: Obj<K>, context: Context) -> impl Future<Output = Result<Next, E>> + Send {
        self(object, context)
    }
}

/// Returns a reconcile function that calls a [`Reconciler`], which may also be a function with another error type:
///
/// ```
/// # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_core::Obj;
/// use evenkeel_runtime::controller::reconcile_with;
/// use evenkeel_runtime::manager::shutdown_signal;
/// use evenkeel_runtime::{Context, Controller, Next};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// async fn reconcile(map: Obj<ConfigMap>, _: Context) -> Result<Next, evenkeel_client::Error> {
///     println!("{:?}", map.typed()?.data);
///     Ok(Next::done())
/// }
///
/// Controller::<ConfigMap>::new(&client).run(shutdown_signal()?, reconcile_with(reconcile)).await?;
/// # Ok(())
/// # }
/// ```
///
/// Closures and functions that return [`ReconcileError`] need no conversion: their error type is inferred.
pub fn reconcile_with<K: 'static, R: Reconciler<K>>(
    reconciler: R,
) -> impl Fn(Obj<K>, Context) -> BoxFuture<'static, Result<Next, ReconcileError>> + Clone + Send + Sync + 'static {
    let reconciler = Arc::new(reconciler);
    move |object, context| {
        let reconciler = Arc::clone(&reconciler);
        Box::pin(async move { reconciler.reconcile(object, context).await.map_err(Into::into) })
    }
}
