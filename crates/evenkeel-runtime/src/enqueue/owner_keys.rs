//! [`OwnerKeys`]: who owns an object.

use evenkeel_core::{Header, ObjectKey, ResourceInfo};
use evenkeel_queue::WorkQueue;

use super::Enqueue;

/// The keys of the owners of one kind. See [`enqueue_owner`](super::enqueue_owner).
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

    /// The keys of the owners that this object names, perhaps one of them twice.
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

/// The group of an API version: what is before the slash, or the core group, which has no name.
fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

impl Enqueue<ObjectKey, OwnerKeys> {
    /// [`enqueue_owner`](super::enqueue_owner) for owners of a kind that is only known at run time.
    pub fn owner_of(queue: &WorkQueue<ObjectKey>, owner: &ResourceInfo) -> Self {
        let owners = OwnerKeys {
            group: owner.group().into(),
            kind: owner.kind().into(),
            namespaced: owner.namespaced(),
            controllers_only: true,
        };
        Enqueue::new(queue, owners)
    }

    /// All owners of the kind, not only the one that controls the object.
    #[must_use]
    pub fn any_owner(mut self) -> Self {
        self.keys.controllers_only = false;
        self
    }
}
