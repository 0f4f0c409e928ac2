//! [`Validating`]: hooks that check objects.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::hook::{Hook, HookHandler, HookKind, ReviewFault, ReviewFuture, Reviewed, verdict_of};
use super::request::{AdmissionRequest, Operation};
use super::verdict::{HookError, Verdict};

type Checked = Pin<Box<dyn Future<Output = Result<Verdict, HookError>> + Send>>;
/// Checks the new object of a create, or the stored one of a delete.
type CheckOne<K> = Box<dyn Fn(Arc<K>, AdmissionRequest) -> Checked + Send + Sync>;
/// Checks the stored and the new object of an update.
type CheckTwo<K> = Box<dyn Fn(Arc<K>, Arc<K>, AdmissionRequest) -> Checked + Send + Sync>;
type CheckRequest = Box<dyn Fn(AdmissionRequest) -> Checked + Send + Sync>;

/// The functions of a validating hook. controller-runtime's `CustomValidator`.
///
/// All functions of an operation run, in the order in which they were added. The request is refused if one refuses; the reasons
/// are joined, one line each, and all warnings and annotations are kept. An operation without a function is allowed, and its
/// objects are not decoded.
///
/// Objects are decoded without `metadata.managedFields`, which take as long to decode as the rest of a pod.
/// [`AdmissionRequest::object`] and [`AdmissionRequest::old_object`] have them.
pub struct Validating<K> {
    create: Vec<CheckOne<K>>,
    update: Vec<CheckTwo<K>>,
    delete: Vec<CheckOne<K>>,
    connect: Vec<CheckRequest>,
}

impl<K: 'static> Hook<Validating<K>> {
    /// Adds a function that checks objects that are created. An error refuses the request.
    pub fn on_create<F, Fut, V>(self, check: F) -> Self
    where
        F: Fn(Arc<K>, AdmissionRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<V, HookError>> + Send + 'static,
        V: Into<Verdict>,
    {
        self.map(|handler| handler.create.push(Box::new(move |new, request| boxed(check(new, request)))))
    }

    /// Adds a function that checks objects that are created or updated. It gets the new object; the stored one is
    /// [`AdmissionRequest::old_object`]. An error refuses the request.
    ///
    /// ```
    /// use evenkeel_webhook::Hook;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// let hook = Hook::validating::<ConfigMap>().on_write(|map, _| async move {
    ///     if map.data.is_none() { Err("data is missing".into()) } else { Ok(()) }
    /// });
    /// # drop(hook);
    /// ```
    pub fn on_write<F, Fut, V>(self, check: F) -> Self
    where
        F: Fn(Arc<K>, AdmissionRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<V, HookError>> + Send + 'static,
        V: Into<Verdict>,
    {
        let check = Arc::new(check);
        let on_update = Arc::clone(&check);
        self.on_create(move |new, request| check(new, request))
            .on_update(move |_, new, request| on_update(new, request))
    }

    /// Adds a function that checks updates. It gets the stored object, then the new one. An error refuses the request.
    pub fn on_update<F, Fut, V>(self, check: F) -> Self
    where
        F: Fn(Arc<K>, Arc<K>, AdmissionRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<V, HookError>> + Send + 'static,
        V: Into<Verdict>,
    {
        self.map(|handler| handler.update.push(Box::new(move |old, new, request| boxed(check(old, new, request)))))
    }

    /// Adds a function that checks deletes. It gets the stored object. An error refuses the request.
    pub fn on_delete<F, Fut, V>(self, check: F) -> Self
    where
        F: Fn(Arc<K>, AdmissionRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<V, HookError>> + Send + 'static,
        V: Into<Verdict>,
    {
        self.map(|handler| handler.delete.push(Box::new(move |old, request| boxed(check(old, request)))))
    }

    /// Adds a function that checks connects to a subresource such as `pods/exec`. [`AdmissionRequest::object`] has the options.
    /// An error refuses the request.
    pub fn on_connect<F, Fut, V>(self, check: F) -> Self
    where
        F: Fn(AdmissionRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<V, HookError>> + Send + 'static,
        V: Into<Verdict>,
    {
        self.map(|handler| handler.connect.push(Box::new(move |request| boxed(check(request)))))
    }
}

fn boxed<V: Into<Verdict>>(check: impl Future<Output = Result<V, HookError>> + Send + 'static) -> Checked {
    Box::pin(async move { check.await.map(Into::into) })
}

impl<K: DeserializeOwned + Send + Sync + 'static> HookHandler for Validating<K> {
    fn kind(&self) -> HookKind {
        HookKind::Validating
    }

    fn operations(&self) -> Vec<&'static str> {
        let operations = [
            ("CREATE", self.create.is_empty()),
            ("UPDATE", self.update.is_empty()),
            ("DELETE", self.delete.is_empty()),
            ("CONNECT", self.connect.is_empty()),
        ];
        operations.into_iter().filter(|(_, is_unused)| !is_unused).map(|(name, _)| name).collect()
    }

    fn review<'a>(&'a self, request: &'a AdmissionRequest) -> ReviewFuture<'a> {
        Box::pin(self.validate(request))
    }
}

impl<K: DeserializeOwned + Send + Sync + 'static> Validating<K> {
    async fn validate(&self, request: &AdmissionRequest) -> Result<Reviewed, ReviewFault> {
        let allowed = || Ok(Verdict::allow().into());
        match request.operation() {
            Operation::Create if self.create.is_empty() => allowed(),
            Operation::Update if self.update.is_empty() => allowed(),
            Operation::Delete if self.delete.is_empty() => allowed(),
            Operation::Create => {
                let new = new_object(request)?;
                run_all(self.create.iter().map(|check| check(Arc::clone(&new), request.clone()))).await
            }
            Operation::Update => {
                let new = new_object(request)?;
                let old = old_object(request)?;
                let checks = self.update.iter();
                run_all(checks.map(|check| check(Arc::clone(&old), Arc::clone(&new), request.clone()))).await
            }
            Operation::Delete => {
                let old = old_object(request)?;
                run_all(self.delete.iter().map(|check| check(Arc::clone(&old), request.clone()))).await
            }
            Operation::Connect => run_all(self.connect.iter().map(|check| check(request.clone()))).await,
            Operation::Other(_) => Err(ReviewFault::unknown_operation(request)),
        }
    }
}

fn new_object<K: DeserializeOwned>(request: &AdmissionRequest) -> Result<Arc<K>, ReviewFault> {
    request.object_for_hook().map_err(ReviewFault::internal)?.map(Arc::new).ok_or_else(ReviewFault::no_content)
}

fn old_object<K: DeserializeOwned>(request: &AdmissionRequest) -> Result<Arc<K>, ReviewFault> {
    request.old_object_for_hook().map_err(ReviewFault::internal)?.map(Arc::new).ok_or_else(ReviewFault::no_content)
}

/// Runs checks one after the other and joins their verdicts. A refusal counts more than a fault of another check: it would be
/// a refusal whatever that one had returned.
async fn run_all(checks: impl Iterator<Item = Checked>) -> Result<Reviewed, ReviewFault> {
    let mut verdict = Verdict::allow();
    let mut fault = None;
    for check in checks {
        match verdict_of(check.await) {
            Ok(next) => verdict.join(next),
            Err(next) => fault = fault.or(Some(next)),
        }
    }
    match fault {
        Some(fault) if verdict.is_allowed() => Err(fault),
        _ => Ok(verdict.into()),
    }
}

impl<K> Default for Validating<K> {
    fn default() -> Self {
        Validating { create: Vec::new(), update: Vec::new(), delete: Vec::new(), connect: Vec::new() }
    }
}

impl<K> fmt::Debug for Validating<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Validating")
            .field("create", &self.create.len())
            .field("update", &self.update.len())
            .field("delete", &self.delete.len())
            .field("connect", &self.connect.len())
            .finish()
    }
}
