//! Where an [`Api`](super::Api) looks: in one namespace, in all of them, or where there are none. A part of its type, so
//! that creating a Pod in no namespace does not compile.

use std::sync::Arc;

use evenkeel_core::StaticScope;
use kube_core::{ClusterResourceScope, NamespaceResourceScope};

use crate::rest::RequestError;

/// One namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespaced(pub(super) Arc<str>);

/// All namespaces at once. Objects can be listed and watched, but not named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct All;

/// A kind that lives in no namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster;

/// A kind of which only the program's input says where it lives. What the other scopes have checked when the program is
/// compiled is checked when a request is made: naming an object of a namespaced kind without a namespace is an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Any {
    pub(super) namespace: Option<Arc<str>>,
    pub(super) namespaced: bool,
}

/// Where an API looks. Implemented by [`Namespaced`], [`All`], [`Cluster`] and [`Any`], and by nothing else.
pub trait Scope: sealed::Sealed + Clone + Send + Sync + 'static {
    /// The namespace, if it is one.
    fn namespace(&self) -> Option<&str>;
}

/// A scope in which a name is enough to find an object.
pub trait Addressable: Scope {
    /// The namespace, or why there is none where one is needed.
    #[doc(hidden)]
    fn address(&self) -> Result<Option<&str>, RequestError>;
}

/// Where the API of a kind starts to look: all namespaces for a kind that lives in them.
pub trait Start: StaticScope {
    /// The scope.
    type Scope: Scope;

    /// Its one value.
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
    RequestError::Invalid {
        problem: "an object of this kind is found by its namespace and name, and no namespace is given".into(),
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Namespaced {}
    impl Sealed for super::All {}
    impl Sealed for super::Cluster {}
    impl Sealed for super::Any {}
}
