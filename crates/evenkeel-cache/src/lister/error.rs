//! What a read can miss: [`NotFound`], [`EmptyNamespace`].

use std::sync::Arc;

use evenkeel_core::status::qualified;
use evenkeel_core::{ObjectKey, ResourceInfo, Status};

/// There is no such object in the store: it does not exist, or it is too new, or the informer has not synced.
///
/// It reads like the server's own words, `deployments.apps "web" not found`, and can be turned into the same [`Status`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {:?} not found", qualified(resource.group(), resource.plural()), key.name())]
pub struct NotFound {
    /// The kind that was asked for.
    pub resource: Arc<ResourceInfo>,
    /// The key that was looked for.
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

/// Objects of one namespace were asked for, and the name of the namespace is empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no namespace is given in which to look for {}: the lister itself reads all of them",
    qualified(resource.group(), resource.plural())
)]
pub struct EmptyNamespace {
    /// The kind that was asked for.
    pub resource: Arc<ResourceInfo>,
}

impl EmptyNamespace {
    pub(super) fn new(resource: &Arc<ResourceInfo>) -> Self {
        EmptyNamespace { resource: Arc::clone(resource) }
    }
}
