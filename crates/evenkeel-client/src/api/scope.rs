//! The scope of an [`Api`](super::Api): one namespace, all namespaces, or the cluster. It is part of the type, so that
//! creating a Pod without a namespace does not compile.

use std::sync::Arc;

use evenkeel_core::StaticScope;
use kube_core::{ClusterResourceScope, NamespaceResourceScope};

use crate::rest::RequestError;

/// One namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespaced(pub(super) Arc<str>);

/// All namespaces. Objects can be listed and watched, but not named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct All;

/// The scope of a cluster-scoped kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster;

/// The scope of a kind that is only known at run time. What the compiler checks for the other scopes is checked when a
/// request is sent: naming an object of a namespaced kind without a namespace is an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Any {
    pub(super) namespace: Option<Arc<str>>,
    pub(super) namespaced: bool,
}

/// The scope of an API. Implemented by [`Namespaced`], [`All`], [`Cluster`] and [`Any`] only.
pub trait Scope: sealed::Sealed + Clone + Send + Sync + 'static {
    /// Returns the namespace, if the scope is one.
    fn namespace(&self) -> Option<&str>;
}

/// A scope in which a name identifies an object.
#[diagnostic::on_unimplemented(
    message = "an object of a namespaced kind can only be named within a namespace",
    label = "no namespace is given",
    note = "add `.namespace(…)`, as in `client.api::<Pod>().namespace(\"default\").get(\"web-0\")`, or `.default_namespace()`"
)]
pub trait Addressable: Scope {
    /// Returns the namespace, or an error if there is none where one is needed.
    #[doc(hidden)]
    fn address(&self) -> Result<Option<&str>, RequestError>;
}

/// The initial scope of a kind: all namespaces for a namespaced kind.
pub trait Start: StaticScope {
    /// The scope.
    type Scope: Scope;

    /// Returns the scope.
    #[doc(hidden)]
    fn scope() -> Self::Scope;
}

impl Start for NamespaceResourceScope {
    type Scope = All;

    fn scope() -> All {
        All
    }
}

impl Start for ClusterResourceScope {
    type Scope = Cluster;

    fn scope() -> Cluster {
        Cluster
    }
}

impl Scope for Namespaced {
    fn namespace(&self) -> Option<&str> {
        Some(&self.0)
    }
}

impl Addressable for Namespaced {
    fn address(&self) -> Result<Option<&str>, RequestError> {
        match &*self.0 {
            "" => Err(no_namespace()),
            namespace => Ok(Some(namespace)),
        }
    }
}

impl Scope for All {
    fn namespace(&self) -> Option<&str> {
        None
    }
}

impl Scope for Cluster {
    fn namespace(&self) -> Option<&str> {
        None
    }
}

impl Addressable for Cluster {
    fn address(&self) -> Result<Option<&str>, RequestError> {
        Ok(None)
    }
}

impl Scope for Any {
    fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

impl Addressable for Any {
    fn address(&self) -> Result<Option<&str>, RequestError> {
        match self.namespace.as_deref() {
            None | Some("") if self.namespaced => Err(no_namespace()),
            namespace => Ok(namespace),
        }
    }
}

fn no_namespace() -> RequestError {
    RequestError::Invalid { problem: "the kind is namespaced, and no namespace is given: add `.namespace(…)`".into() }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Namespaced {}
    impl Sealed for super::All {}
    impl Sealed for super::Cluster {}
    impl Sealed for super::Any {}
}
