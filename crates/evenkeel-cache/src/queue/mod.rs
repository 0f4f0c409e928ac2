//! What lies between reflector and store: queues of [`Delta`]s.
//!
//! A queue is a state machine: it has no lock, no clock and no memory of the store, which is handed to it as
//! [`KnownObjects`] where it matters. Whoever drives it pops a [`Batch`], applies it, and says so with
//! [`processed`](DeltaQueue::processed). An informer drives its queue itself; for those who pair a producer and a consumer of
//! their own there is [`feed`](fn@feed).
//!
//! | queue | what comes out |
//! |---|---|
//! | [`OrderedQueue`] | every delta, in the order in which they came; a list as one, or object by object |
//! | [`DeltaFifo`] | all deltas of an object at once, objects in the order in which they came |

mod delta_fifo;
mod feed;
pub(crate) mod initial_count;
mod ordered;

use std::fmt;
use std::time::Duration;

pub use delta_fifo::{DeltaFifo, MAX_DELTAS_PER_KEY};
pub use feed::{Consumer, Popped, Producer, feed};
pub use ordered::{Mode, OrderedQueue};

use evenkeel_core::{ObjectKey, ResourceVersion, Untyped};

use crate::{Deleted, Object};

/// How many deltas a batch should hold at most.
pub const BATCH_LIMIT: usize = 1000;

/// How many entries may be queued before whoever produces them should wait.
pub const BACKLOG_LIMIT: usize = 2 * BATCH_LIMIT;

/// A queue that has been emptied keeps room for this many entries at most: a list of a hundred thousand leaves no trace.
pub(crate) const ROOM_KEPT: usize = 2 * BACKLOG_LIMIT;

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

impl Delta {
    /// Which object this is about; `None` if it is about all of them, or none.
    pub fn key(&self) -> Option<&ObjectKey> {
        match self {
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) | Delta::Sync(object) => {
                Some(object.key())
            }
            Delta::Deleted(deleted) => Some(deleted.key()),
            Delta::ReplacedAll { .. } | Delta::SyncAll | Delta::Bookmark(_) => None,
        }
    }

    /// The object as it is now, or as it was last known to be; `None` if this is not about one object, or if nothing is
    /// known of it.
    pub fn object(&self) -> Option<&Object> {
        match self {
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) | Delta::Sync(object) => {
                Some(object)
            }
            Delta::Deleted(deleted) => deleted.object(),
            Delta::ReplacedAll { .. } | Delta::SyncAll | Delta::Bookmark(_) => None,
        }
    }

    /// Whether the object is gone.
    pub fn is_deleted(&self) -> bool {
        matches!(self, Delta::Deleted(_))
    }
}

/// Deltas to be applied together, oldest first.
///
/// - It is either about single objects, or it is one delta that is about all of them: [`Delta::ReplacedAll`],
///   [`Delta::SyncAll`] and [`Delta::Bookmark`] come alone.
/// - What belongs to the first list and what does not are never in one batch.
/// - An [`OrderedQueue`] tells of an object at most once in a batch. A [`DeltaFifo`] tells all that it has of one, one
///   after the other.
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
///
/// It must show what has been popped: who pushes between [`pop`](DeltaQueue::pop) and
/// [`processed`](DeltaQueue::processed) hands a queue that [asks](DeltaQueue::asks_for_known) a store in which the popped
/// batch counts as applied. Otherwise what is neither queued nor stored yet would be missed.
pub trait KnownObjects {
    /// The object, if it is there.
    fn get(&self, key: &ObjectKey) -> Option<Object>;

    /// Which objects there are, in any order.
    fn keys(&self) -> Vec<ObjectKey>;
}

/// A store that knows nothing. A queue that is handed this one tells no more of deletions than it finds in the queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct NothingKnown;

impl KnownObjects for NothingKnown {
    fn get(&self, _: &ObjectKey) -> Option<Object> {
        None
    }

    fn keys(&self) -> Vec<ObjectKey> {
        Vec::new()
    }
}

/// A queue of deltas.
///
/// - Pushing never fails and never blocks. How much may be queued is for the driver to limit, by popping.
/// - What has been popped is not put back: that would move the reader back in time.
/// - What has been popped is not kept.
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

    /// A batch with this [`count`](Batch::count) has been applied, or given up. Batches are processed in the order in
    /// which they were popped.
    fn processed(&mut self, count: usize);

    /// Takes back the vector of a batch, to be filled anew.
    fn recycle(&mut self, deltas: Vec<Delta>) {
        drop(deltas);
    }

    /// Whether everything that the first list brought has been processed, or something was pushed before any list. Once
    /// true, it stays true.
    fn has_synced(&self) -> bool;

    /// Whether the [`KnownObjects`] that it is handed make a difference.
    fn asks_for_known(&self) -> bool {
        true
    }

    /// How many entries are queued.
    fn len(&self) -> usize;

    /// Whether nothing is queued.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The vector of a batch, ready to be filled anew, unless it is uncommonly large.
pub(crate) fn emptied(mut deltas: Vec<Delta>) -> Vec<Delta> {
    deltas.clear();
    deltas.shrink_to(ROOM_KEPT);
    deltas
}

/// Whether a reader that took this long for so many entries, with so many waiting, should be told of in the log.
pub(crate) fn is_slow(waiting: usize, taken: usize, time: Duration) -> bool {
    const EACH: Duration = Duration::from_millis(100);
    const AT_MOST: Duration = Duration::from_secs(1);
    let allowance = EACH.saturating_mul(u32::try_from(taken).unwrap_or(u32::MAX)).min(AT_MOST);
    waiting > 10 && time > allowance
}

#[cfg(test)]
mod properties;
#[cfg(test)]
pub(crate) mod testing;
