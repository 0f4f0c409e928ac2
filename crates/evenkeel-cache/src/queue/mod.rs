//! What lies between reflector and store: queues of [`Delta`]s.
//!
//! A queue is a state machine: it has no lock, no clock and no memory of the store, which is handed to it as
//! [`KnownObjects`] where it matters. Whoever drives it pops a [`Batch`], applies it, and says so with
//! [`processed`](DeltaQueue::processed).

use std::fmt;

use evenkeel_core::{ObjectKey, ResourceVersion, Untyped};

use crate::{Deleted, Object};

/// One thing that the reflector has heard of.
#[derive(Clone, Debug)]
pub enum Delta {
    /// A watch says that the object has come.
    Added(Object),
    /// A watch says that the object has changed.
    Updated(Object),
    /// The object is gone: a watch says so, or a list has it no longer.
    Deleted(Deleted<Untyped>),
    /// A list has the object.
    Replaced(Object),
    /// A resync tells of the object again.
    Sync(Object),
    /// A list has these objects and no others.
    ReplacedAll {
        /// The objects, in the order of the list.
        objects: Vec<Object>,
        /// The version of the list.
        resource_version: ResourceVersion,
    },
    /// A resync tells of all objects again.
    SyncAll,
    /// Nothing has happened up to this version.
    Bookmark(ResourceVersion),
}

/// Deltas to be applied together, oldest first.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The deltas.
    pub deltas: Vec<Delta>,
    /// Whether they are part of the first list.
    pub initial: bool,
    /// What to tell [`DeltaQueue::processed`].
    pub count: usize,
}

/// The store as a queue sees it.
pub trait KnownObjects {
    /// The object, if it is there.
    fn get(&self, key: &ObjectKey) -> Option<Object>;

    /// Which objects there are, in any order.
    fn keys(&self) -> Vec<ObjectKey>;
}

/// A queue of deltas.
///
/// Pushing never fails and never blocks. How much may be queued is for the driver to limit, by popping.
pub trait DeltaQueue: Send + fmt::Debug {
    /// A watch says that the object has come.
    fn add(&mut self, object: Object);

    /// A watch says that the object has changed.
    fn update(&mut self, object: Object);

    /// The object is gone.
    fn delete(&mut self, deleted: Deleted<Untyped>, known: &dyn KnownObjects);

    /// A list has these objects and no others.
    fn replace(&mut self, objects: Vec<Object>, version: ResourceVersion, known: &dyn KnownObjects);

    /// It is time to tell of all objects again.
    fn resync(&mut self, known: &dyn KnownObjects);

    /// Nothing has happened up to this version.
    fn bookmark(&mut self, version: ResourceVersion);

    /// The next deltas, at most about `limit` of them; `None` if there are none.
    fn pop(&mut self, limit: usize) -> Option<Batch>;

    /// A batch with this [`count`](Batch::count) has been applied, or given up.
    fn processed(&mut self, count: usize);

    /// Whether everything that the first list brought has been processed.
    fn has_synced(&self) -> bool;

    /// How many entries are queued.
    fn len(&self) -> usize;

    /// Whether nothing is queued.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
