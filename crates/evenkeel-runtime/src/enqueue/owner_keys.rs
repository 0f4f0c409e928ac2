//! [`OwnerKeys`]: maps an object to the keys of its owners.

use evenkeel_core::{Header, ObjectKey, ResourceInfo};
use evenkeel_queue::WorkQueue;

use super::Enqueue;

/// Maps an object to the keys of its owners of one kind. See [`enqueue_owner`](super::enqueue_owner).
#[derive(Clone, Debug)]
pub struct OwnerKeys {
    group: Box<str>,
    kind: Box<str>,
    namespaced: bool,
    controllers_only: bool,
}

impl OwnerKeys {
    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the keys of the owner references of an object. May contain duplicates.
    pub(super) fn of(&self, object: &Header) -> impl Iterator<Item = ObjectKey> {
        object
            .owner_references()
            .filter(|owner| (owner.controller || !self.controllers_only) && !owner.name.is_empty())
            .filter(|owner| owner.kind == &*self.kind && group(owner.api_version) == &*self.group)
            .filter_map(|owner| match (self.namespaced, object.key().namespace()) {
                (true, Some(namespace)) => Some(ObjectKey::namespaced(namespace, owner.name)),
                (true, None) => None,
                (false, _) => Some(ObjectKey::cluster(owner.name)),
            })
    }
}

/// Returns the group of an API version: the part before the slash; empty for the core group.
fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

impl Enqueue<ObjectKey, OwnerKeys> {
    /// Returns [`enqueue_owner`](super::enqueue_owner) for owners of a kind that is known only at run time.
    pub fn owner_of(queue: &WorkQueue<ObjectKey>, owner: &ResourceInfo) -> Self {
        let owners = OwnerKeys {
            group: owner.group().into(),
            kind: owner.kind().into(),
            namespaced: owner.namespaced(),
            controllers_only: true,
        };
        Enqueue::new(queue, owners)
    }

    /// Adds all owners of the kind, not only the one that controls the object.
    #[must_use]
    pub fn any_owner(mut self) -> Self {
        self.keys.controllers_only = false;
        self
    }
}
