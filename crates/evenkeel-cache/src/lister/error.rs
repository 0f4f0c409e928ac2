//! Errors of listers: [`NotFound`], [`EmptyNamespace`].

use std::sync::Arc;

use evenkeel_core::status::qualified;
use evenkeel_core::{ObjectKey, ResourceInfo, Status};

/// The store has no such object: it does not exist, or it is too new, or the informer has not synced.
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
