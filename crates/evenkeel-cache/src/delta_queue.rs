//! [`DeltaQueue`]: holds the deltas between the reflector and the store.
//!
//! A queue is a state machine without locks, clocks or I/O. It does not remember the store: [`DeltaQueue::push`] takes it as
//! an argument. The driver of a queue pops a [`Batch`], applies it, and reports it with [`DeltaQueue::processed`].
//!
//! | queue | a batch holds |
//! |---|---|
//! | [`OrderedQueue`] | every delta, in watch order; a list as one delta, or one delta per object |
//! | [`DeltaFifo`] | all deltas of an object together, objects in the order of their first delta |

use std::collections::HashMap;

use evenkeel_core::ObjectKey;

use crate::compat::Fifo;
use crate::delta::Delta;
use crate::delta_fifo::DeltaFifo;
use crate::ordered_queue::OrderedQueue;
use crate::store::Table;
use crate::{Indexer, Object};

/// The default limit of deltas per batch.
pub const BATCH_LIMIT: usize = 1000;

/// The number of queued entries from which on producers wait.
pub(crate) const BACKLOG_LIMIT: usize = 2 * BATCH_LIMIT;

/// The capacity that an empty queue retains at most. A list of a hundred thousand objects leaves no memory behind.
pub(crate) const RETAINED_CAPACITY: usize = 2 * BACKLOG_LIMIT;

/// Deltas to apply together, oldest first.
///
/// - A batch is either about single objects, or it is one delta about all objects: [`Delta::ReplacedAll`],
///   [`Delta::SyncAll`] and [`Delta::Bookmark`] are always alone.
/// - A batch is either part of the initial list or not.
/// - A batch of an [`OrderedQueue`] has at most one delta per object. A batch of a [`DeltaFifo`] has all deltas of an object,
///   one after the other.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The deltas.
    pub deltas: Vec<Delta>,
    /// Whether they are part of the initial list.
    pub initial: bool,
    /// The argument of [`DeltaQueue::processed`].
    pub count: usize,
}

/// A queue of deltas between a reflector and a store.
///
/// - Pushing never fails and never blocks. The driver limits the length by popping.
/// - A popped batch is not put back: that would move the consumer back in time.
/// - The queue does not retain a popped batch.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_cache::delta::Delta;
/// use evenkeel_cache::parts::{BATCH_LIMIT, DeltaFifo, DeltaQueue};
/// use evenkeel_cache::{Obj, ResourceInfo, Store};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let info = Arc::new(ResourceInfo::of::<Pod>());
/// let pod = |version: &str| {
///     let json = format!(r#"{{"metadata": {{"name": "web-0", "namespace": "ns", "resourceVersion": "{version}"}}}}"#);
///     Obj::from_json(&info, json)
/// };
/// let store = Store::<Pod>::new([]);
/// let mut queue = DeltaQueue::from(DeltaFifo::new());
/// queue.push(Delta::Added(pod("7")?), &store);
/// queue.push(Delta::Updated(pod("8")?), &store);
///
/// let batch = queue.pop(BATCH_LIMIT).unwrap();
/// assert!(matches!(&batch.deltas[..], [Delta::Added(_), Delta::Updated(_)]));
/// queue.processed(batch.count);
/// assert!(queue.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum DeltaQueue {
    /// In watch order.
    Ordered(OrderedQueue),
    /// By object.
    Keyed(DeltaFifo),
    /// The last state of each object.
    Latest(Fifo),
}

/// Delegates to the queue that is inside.
macro_rules! each {
    ($queue:expr, $inner:ident => $call:expr) => {
        match $queue {
            DeltaQueue::Ordered($inner) => $call,
            DeltaQueue::Keyed($inner) => $call,
            DeltaQueue::Latest($inner) => $call,
        }
    };
}

impl DeltaQueue {
    /// Queues a delta.
    ///
    /// `store` is the store that the deltas are applied to. A queue that splits lists and resyncs into objects reads it. It
    /// must contain every batch that was popped before.
    pub fn push<K>(&mut self, delta: Delta, store: &Indexer<K>) {
        self.push_over(delta, &StoreView::new(store.table(), None));
    }

    pub(crate) fn push_over(&mut self, delta: Delta, store: &StoreView<'_>) {
        each!(self, queue => queue.push(delta, store));
    }

    /// Returns the next deltas, at most about `limit` of them; `None` if the queue is empty.
    pub fn pop(&mut self, limit: usize) -> Option<Batch> {
        each!(self, queue => queue.pop(limit))
    }

    /// Reports that a batch with this [`count`](Batch::count) was applied or dropped. Batches are reported in the order in
    /// which they were popped.
    pub fn processed(&mut self, count: usize) {
        each!(self, queue => queue.processed(count));
    }

    /// Takes back the vector of a batch, to be filled again.
    pub(crate) fn recycle(&mut self, deltas: Vec<Delta>) {
        each!(self, queue => queue.recycle(deltas));
    }

    /// Returns whether the whole initial list was processed, or something was pushed before any list. Once true, it stays
    /// true.
    pub fn has_synced(&self) -> bool {
        each!(self, queue => queue.has_synced())
    }

    /// Returns whether [`push`](Self::push) reads the store.
    pub(crate) fn reads_store(&self) -> bool {
        match self {
            DeltaQueue::Ordered(queue) => queue.reads_store(),
            DeltaQueue::Keyed(_) => true,
            DeltaQueue::Latest(_) => false,
        }
    }

    /// Returns the number of queued entries: deltas of an [`OrderedQueue`], else objects.
    pub fn len(&self) -> usize {
        each!(self, queue => queue.len())
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<OrderedQueue> for DeltaQueue {
    fn from(queue: OrderedQueue) -> Self {
        DeltaQueue::Ordered(queue)
    }
}

impl From<DeltaFifo> for DeltaQueue {
    fn from(queue: DeltaFifo) -> Self {
        DeltaQueue::Keyed(queue)
    }
}

impl From<Fifo> for DeltaQueue {
    fn from(queue: Fifo) -> Self {
        DeltaQueue::Latest(queue)
    }
}

/// The objects that a batch in flight stores, or `None` for those that it deletes.
pub(crate) type InFlight = HashMap<ObjectKey, Option<Object>>;

/// The store as a queue sees it: a batch in flight counts as applied. Otherwise an object that is neither queued nor stored
/// yet would be missed.
#[derive(Clone, Copy)]
pub(crate) struct StoreView<'a> {
    table: &'a Table,
    in_flight: Option<&'a InFlight>,
}

impl<'a> StoreView<'a> {
    pub(crate) fn new(table: &'a Table, in_flight: Option<&'a InFlight>) -> Self {
        StoreView { table, in_flight }
    }

    pub(crate) fn contains(&self, key: &ObjectKey) -> bool {
        match self.in_flight.and_then(|in_flight| in_flight.get(key)) {
            Some(object) => object.is_some(),
            None => self.table.contains(key.as_str()),
        }
    }

    /// Returns all objects, in no particular order.
    pub(crate) fn objects(&self) -> Vec<Object> {
        let mut objects = self.table.list();
        if let Some(in_flight) = self.in_flight {
            objects.retain(|object| !in_flight.contains_key(object.key()));
            objects.extend(in_flight.values().flatten().cloned());
        }
        objects
    }
}

/// Counts the entries of the initial list on their way through a queue.
///
/// All entries that are queued when the first list arrives are initial, and leave the queue before all others. So two
/// numbers suffice: how many are not yet popped, and how many are not yet processed.
#[derive(Debug, Default)]
pub(crate) struct InitialCount {
    started: bool,
    queued: usize,
    unprocessed: usize,
}

impl InitialCount {
    /// Records a delta that is not a list.
    pub(crate) fn event(&mut self) {
        self.started = true;
    }

    /// Records a list, after which `queued` entries are queued.
    pub(crate) fn list(&mut self, queued: usize) {
        if !self.started {
            *self = InitialCount { started: true, queued, unprocessed: queued };
        }
    }

    /// Records a list of `queued` entries that replaced all queued entries.
    pub(crate) fn list_instead(&mut self, queued: usize) {
        if !self.started || self.queued > 0 {
            let unprocessed = self.unprocessed - self.queued + queued;
            *self = InitialCount { started: true, queued, unprocessed };
        }
    }

    /// Records that `count` entries were popped.
    pub(crate) fn popped(&mut self, count: usize) {
        self.queued = self.queued.saturating_sub(count);
    }

    /// Records that `count` entries were processed.
    pub(crate) fn processed(&mut self, count: usize) {
        self.unprocessed = self.unprocessed.saturating_sub(count).max(self.queued);
    }

    /// Returns whether all initial entries were processed.
    pub(crate) fn is_done(&self) -> bool {
        self.started && self.unprocessed == 0
    }

    /// Returns whether the next batch is initial, and how many of the `queued` entries it may have at most.
    pub(crate) fn next(&self, limit: usize, queued: usize) -> (bool, usize) {
        // Before the first delta nothing has synced, and nothing is counted either.
        let initial = self.queued > 0 || !self.started;
        let end = if self.queued > 0 { self.queued } else { queued };
        (initial, end.min(limit.max(1)).min(queued))
    }
}

/// Returns the vector of a batch, emptied, with limited capacity.
pub(crate) fn emptied(mut deltas: Vec<Delta>) -> Vec<Delta> {
    deltas.clear();
    deltas.shrink_to(RETAINED_CAPACITY);
    deltas
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
