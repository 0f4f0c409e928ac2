//! [`Delta`]: a change on its way from the reflector to the store.

use evenkeel_core::{ObjectKey, ResourceVersion, Untyped};

use crate::{Deleted, Object};

/// A change that the reflector received, on its way to the store.
#[derive(Clone, Debug)]
pub enum Delta {
    /// The watch reported that the object was added.
    Added(Object),
    /// The watch reported that the object was modified.
    Updated(Object),
    /// The object was deleted: the watch reported it, or a list does not contain it.
    Deleted(Deleted<Untyped>),
    /// A list contains the object.
    Replaced(Object),
    /// A resync redelivers the object.
    Sync(Object),
    /// A list contains these objects and no others.
    ReplacedAll {
        /// The objects, in the order of the list.
        objects: Vec<Object>,
        /// The resource version of the list.
        resource_version: ResourceVersion,
    },
    /// A resync redelivers all objects.
    SyncAll,
    /// Nothing changed up to this resource version.
    Bookmark(ResourceVersion),
}

impl Delta {
    /// Returns the key of the object; `None` if the delta is about all objects, or about none.
    pub fn key(&self) -> Option<&ObjectKey> {
        match self {
            Delta::Deleted(deleted) => Some(deleted.key()),
            delta => delta.object().map(|object| object.key()),
        }
    }

    /// Returns the current or last known state of the object; `None` if the delta is not about one object, or if no state is
    /// known.
    pub fn object(&self) -> Option<&Object> {
        match self {
            Delta::Deleted(deleted) => deleted.object(),
            delta => delta.stored_object().or(match delta {
                Delta::Sync(object) => Some(object),
                _ => None,
            }),
        }
    }

    /// Returns whether the object was deleted.
    pub(crate) fn is_deleted(&self) -> bool {
        matches!(self, Delta::Deleted(_))
    }

    /// Returns the object that applying the delta stores.
    pub(crate) fn stored_object(&self) -> Option<&Object> {
        match self {
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) => Some(object),
            _ => None,
        }
    }
}
