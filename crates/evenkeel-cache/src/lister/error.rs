//! [`LookupError`]: why a lister returned no object.

use std::fmt;
use std::sync::Arc;

use evenkeel_core::status::{Reason, qualified};
use evenkeel_core::{ObjectKey, ResourceInfo, Status};

/// Why a [`Lister`](super::Lister) returned no object, or no lister of a namespace.
///
/// It converts into a [`Status`]: not found for an object that is not stored, service unavailable before the sync, a bad request
/// otherwise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// The object is not stored.
    #[error(transparent)]
    NotFound(NotFound),
    /// The name of the namespace is empty.
    #[error(transparent)]
    EmptyNamespace(EmptyNamespace),
    /// The namespace is not in the set of the informer, so that its store says nothing about it.
    #[error(transparent)]
    OutOfScope(OutOfScope),
    /// The informer has not synced, so that its store says nothing about objects that it does not have.
    #[error(transparent)]
    NotSynced(NotSynced),
}

impl LookupError {
    /// Returns whether the object is not stored, though its namespace is.
    pub fn is_not_found(&self) -> bool {
        matches!(self, LookupError::NotFound(_))
    }
}

impl From<LookupError> for Status {
    fn from(error: LookupError) -> Self {
        match error {
            LookupError::NotFound(missing) => missing.into(),
            LookupError::NotSynced(error) => Status::failure(503, Reason::SERVICE_UNAVAILABLE, error.to_string()),
            error => Status::failure(400, Reason::BAD_REQUEST, error.to_string()),
        }
    }
}

/// The namespace is not in the [set](crate::NamespaceSet) of the informer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot read {} in namespace {namespace:?}: the cache has {}; add the namespace to its set",
    qualified(resource.group(), resource.plural()),
    Names(namespaces)
)]
pub struct OutOfScope {
    /// The requested kind.
    pub resource: Arc<ResourceInfo>,
    /// The requested namespace.
    pub namespace: String,
    /// The namespaces of the set.
    pub namespaces: Vec<String>,
}

/// Shows the names of a set, at most ten of them.
struct Names<'a>(&'a [String]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("no namespaces"),
            names if names.len() <= 10 => write!(f, "namespaces {}", names.join(", ")),
            names => write!(f, "namespaces {} and {} more", names[..10].join(", "), names.len() - 10),
        }
    }
}

/// The informer has not synced: its store does not have the complete initial list yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot read {}: informer {informer} has not synced; start it and wait for its sync",
    qualified(resource.group(), resource.plural())
)]
pub struct NotSynced {
    /// The requested kind.
    pub resource: Arc<ResourceInfo>,
    /// The name of the informer.
    pub informer: String,
}

/// The store has no such object: it does not exist, or it is too new.
///
/// The message is the server's, `deployments.apps "web" not found`, and converts into the same [`Status`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {:?} not found", qualified(resource.group(), resource.plural()), key.name())]
pub struct NotFound {
    /// The requested kind.
    pub resource: Arc<ResourceInfo>,
    /// The requested key.
    pub key: ObjectKey,
}

impl NotFound {
    pub(super) fn new(resource: &Arc<ResourceInfo>, key: &str) -> Self {
        NotFound { resource: Arc::clone(resource), key: ObjectKey::cluster(key) }
    }
}

impl From<NotFound> for Status {
    fn from(missing: NotFound) -> Self {
        Status::not_found(missing.resource.group(), missing.resource.plural(), missing.key.name())
    }
}

/// The namespace of a lister is empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no namespace given to list {}; the lister itself reads all namespaces",
    qualified(resource.group(), resource.plural())
)]
pub struct EmptyNamespace {
    /// The requested kind.
    pub resource: Arc<ResourceInfo>,
}

impl EmptyNamespace {
    pub(super) fn new(resource: &Arc<ResourceInfo>) -> Self {
        EmptyNamespace { resource: Arc::clone(resource) }
    }
}
