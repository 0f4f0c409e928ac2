//! [`Mutating`]: hooks that change objects.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::hook::{Hook, HookHandler, HookKind, ReviewFault, ReviewFuture, Reviewed, verdict_of};
use super::request::{AdmissionRequest, Operation};
use super::verdict::{HookError, Verdict};
use crate::patch;

/// The functions of a mutating hook. They run in the order in which they were added, each on what the one before has made, until
/// one refuses. Fields that the type `K` does not have are left as they are.
///
/// Objects are decoded without `metadata.managedFields`, which are left as they are. [`AdmissionRequest::object`] has them.
pub struct Mutating<K> {
    steps: Vec<Step<K>>,
}

/// Changes an object without waiting.
type ChangeFn<K> = dyn Fn(&mut K, &AdmissionRequest) -> Result<Verdict, HookError> + Send + Sync;

enum Step<K> {
    Function(Box<ChangeFn<K>>),
    Defaulter(Box<dyn ErasedDefaulter<K>>),
}

/// Changes objects, asynchronously. controller-runtime's `CustomDefaulter`. A function that does not wait is shorter with
/// [`Hook::apply`].
///
/// It has to be idempotent: API servers may call a webhook twice for one request.
///
/// ```
/// use evenkeel_webhook::{AdmissionRequest, Defaulter, Hook, HookError, Verdict};
/// use k8s_openapi::api::core::v1::Pod;
///
/// struct Placement; // would have a client or a lister
///
/// impl Defaulter<Pod> for Placement {
///     async fn default(&self, pod: &mut Pod, _: &AdmissionRequest) -> Result<Verdict, HookError> {
///         let spec = pod.spec.get_or_insert_default();
///         spec.scheduler_name.get_or_insert_with(|| "packing".to_owned());
///         Ok(Verdict::allow())
///     }
/// }
///
/// let hook = Hook::mutating::<Pod>().apply_async(Placement);
/// # drop(hook);
/// ```
pub trait Defaulter<K>: Send + Sync + 'static {
    /// Changes the object, or refuses the request.
    fn default(
        &self,
        object: &mut K,
        request: &AdmissionRequest,
    ) -> impl Future<Output = Result<Verdict, HookError>> + Send;
}

trait ErasedDefaulter<K>: Send + Sync {
    fn default<'a>(
        &'a self,
        object: &'a mut K,
        request: &'a AdmissionRequest,
    ) -> Pin<Box<dyn Future<Output = Result<Verdict, HookError>> + Send + 'a>>;
}

impl<K: Send, D: Defaulter<K>> ErasedDefaulter<K> for D {
    fn default<'a>(
        &'a self,
        object: &'a mut K,
        request: &'a AdmissionRequest,
    ) -> Pin<Box<dyn Future<Output = Result<Verdict, HookError>> + Send + 'a>> {
        Box::pin(Defaulter::default(self, object, request))
    }
}

impl<K: Send + 'static> Hook<Mutating<K>> {
    /// Adds a function that changes the object. It has to be idempotent, and must not block.
    ///
    /// It runs for creates and updates. An error refuses the request.
    pub fn apply<F, V>(self, function: F) -> Self
    where
        F: Fn(&mut K, &AdmissionRequest) -> Result<V, HookError> + Send + Sync + 'static,
        V: Into<Verdict>,
    {
        let step = move |object: &mut K, request: &AdmissionRequest| function(object, request).map(Into::into);
        self.map(|handler| handler.steps.push(Step::Function(Box::new(step))))
    }

    /// Adds a [`Defaulter`].
    pub fn apply_async(self, defaulter: impl Defaulter<K>) -> Self {
        self.map(|handler| handler.steps.push(Step::Defaulter(Box::new(defaulter))))
    }
}

impl<K> HookHandler for Mutating<K>
where
    K: Clone + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    fn kind(&self) -> HookKind {
        HookKind::Mutating
    }

    fn operations(&self) -> Vec<&'static str> {
        vec!["CREATE", "UPDATE"]
    }

    fn review<'a>(&'a self, request: &'a AdmissionRequest) -> ReviewFuture<'a> {
        Box::pin(self.mutate(request))
    }
}

impl<K> Mutating<K>
where
    K: Clone + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    async fn mutate(&self, request: &AdmissionRequest) -> Result<Reviewed, ReviewFault> {
        match request.operation() {
            Operation::Create | Operation::Update => {}
            // API servers reject patches of these.
            Operation::Delete | Operation::Connect => return Ok(Verdict::allow().into()),
            Operation::Other(_) => return Err(ReviewFault::unknown_operation(request)),
        }
        let before: K =
            request.object_for_hook().map_err(ReviewFault::internal)?.ok_or_else(ReviewFault::no_content)?;
        let mut after = before.clone();
        let mut verdict = Verdict::allow();
        for step in &self.steps {
            let returned = match step {
                Step::Function(function) => function(&mut after, request),
                Step::Defaulter(defaulter) => defaulter.default(&mut after, request).await,
            };
            verdict.join(verdict_of(returned)?);
            if !verdict.is_allowed() {
                return Ok(verdict.into());
            }
        }
        if before == after {
            return Ok(verdict.into());
        }
        let raw = request.raw_object().ok_or_else(ReviewFault::no_content)?;
        let patch = patch::of_change(raw, &before, &after)
            .map_err(|error| ReviewFault::internal(format_args!("cannot make the patch: {error}")))?;
        Ok(Reviewed { verdict, patch })
    }
}

impl<K> Default for Mutating<K> {
    fn default() -> Self {
        Mutating { steps: Vec::new() }
    }
}

impl<K> fmt::Debug for Mutating<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutating").field("functions", &self.steps.len()).finish()
    }
}
