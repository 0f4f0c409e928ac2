//! [`feed`](fn@feed): a queue between two tasks.

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use evenkeel_core::{ObjectKey, ResourceVersion};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tracing::debug;

use super::{BACKLOG_LIMIT, BATCH_LIMIT, Batch, Delta, DeltaQueue, KnownObjects, is_slow};
use crate::Object;
use crate::reflector::{ReflectorStore, StoreError};

/// Puts a queue between those who produce deltas and the one who consumes them.
///
/// `known` is the store that the consumer keeps, or [`NothingKnown`](super::NothingKnown). It is asked during a push, and
/// must not push in turn. What the consumer has popped and not yet put there counts as being there. The name is for the
/// log.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_cache::queue::{Delta, Mode, NothingKnown, OrderedQueue, feed};
/// use evenkeel_cache::reflector::ReflectorStore;
/// use evenkeel_cache::{Obj, ResourceInfo};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let (mut producer, mut consumer) = feed("pods", OrderedQueue::new(Mode::Atomic), NothingKnown);
/// let pods = Arc::new(ResourceInfo::new("", "v1", "Pod", "pods", true));
/// producer.add(Obj::from_json(&pods, r#"{"metadata": {"name": "web-0", "namespace": "ns"}}"#)?)?;
/// drop(producer);
///
/// while let Some(mut popped) = consumer.pop().await {
///     for delta in popped.drain() {
///         assert!(matches!(delta, Delta::Added(pod) if pod.key().as_str() == "ns/web-0"));
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn feed(
    name: &str,
    queue: impl DeltaQueue + 'static,
    known: impl KnownObjects + Send + Sync + 'static,
) -> (Producer, Consumer) {
    let state = State { queue: Box::new(queue), producers: 1, closed: false, abandoned: false, popped: Overlay::None };
    let shared = Arc::new(Shared {
        name: name.into(),
        state: Mutex::new(state),
        known: Box::new(known),
        filled: Notify::new(),
        emptied: Notify::new(),
        synced: watch::Sender::new(None),
    });
    (Producer { shared: Arc::clone(&shared) }, Consumer { shared })
}

/// Where deltas are pushed. Cheap to clone; what is pushed by one clone comes out in the order in which it was pushed.
///
/// It is a [`ReflectorStore`]. Its pushes never wait; who can wait awaits [`room`](Self::room) before each, or is
/// [`paced`](Self::paced). They fail only when the consumer has been dropped. When the last clone is dropped the feed is [closed](Self::close).
pub struct Producer {
    shared: Arc<Shared>,
}

/// Where deltas are popped. There is one for each feed, and it hands out one batch at a time, so that nothing is ever
/// applied out of order.
pub struct Consumer {
    shared: Arc<Shared>,
}

/// Deltas to be applied. They have been processed, whatever that means, when this is dropped; they do not come back.
pub struct Popped<'a> {
    batch: Batch,
    since: Instant,
    shared: &'a Shared,
}

struct Shared {
    name: Box<str>,
    state: Mutex<State>,
    known: Box<dyn KnownObjects + Send + Sync>,
    /// Tells the consumer.
    filled: Notify,
    /// Tells producers.
    emptied: Notify,
    /// Whether it has synced, once that is settled.
    synced: watch::Sender<Option<bool>>,
}

struct State {
    queue: Box<dyn DeltaQueue>,
    producers: usize,
    closed: bool,
    /// The consumer has been dropped.
    abandoned: bool,
    popped: Overlay,
}

/// What the batch that is being processed makes of the store.
enum Overlay {
    None,
    Over(HashMap<ObjectKey, Option<Object>>),
    Instead(HashMap<ObjectKey, Option<Object>>),
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, push: impl FnOnce(&mut dyn DeltaQueue, &dyn KnownObjects)) -> Result<(), StoreError> {
        let mut state = self.lock();
        if state.abandoned {
            return Err(StoreError::new(format!("nobody reads the queue of {} any more", self.name), None));
        }
        let state = &mut *state;
        push(&mut *state.queue, &View { known: &*self.known, popped: &state.popped });
        self.note_sync(state);
        self.filled.notify_one();
        Ok(())
    }

    fn note_sync(&self, state: &State) {
        if state.queue.has_synced() {
            self.settle_sync(true);
        }
    }

    fn settle_sync(&self, synced: bool) {
        self.synced.send_if_modified(|settled| settled.is_none() && settled.replace(synced).is_none());
    }

    fn has_synced(&self) -> bool {
        *self.synced.borrow() == Some(true)
    }

    async fn wait_for_sync(&self) -> bool {
        let settled = self.synced.subscribe().wait_for(Option::is_some).await.map(|settled| *settled);
        matches!(settled, Ok(Some(true)))
    }

    fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }
}

impl Producer {
    /// Waits while [`BACKLOG_LIMIT`] entries or more are queued. Returns at once if the consumer has been dropped.
    pub async fn room(&self) {
        loop {
            // Before looking, so that what happens after it is not missed.
            let emptied = self.shared.emptied.notified();
            if self.has_room() {
                return;
            }
            emptied.await;
        }
    }

    /// Lets this work go on only while there is [`room`](Self::room): for a reflector, say, that writes to a clone.
    ///
    /// How much more than [`BACKLOG_LIMIT`] can be queued depends on how much the work does between two waits.
    pub async fn paced<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        loop {
            self.room().await;
            let step = poll_fn(|context| match self.has_room() {
                true => work.as_mut().poll(context).map(Some),
                false => Poll::Ready(None),
            });
            if let Some(output) = step.await {
                return output;
            }
        }
    }

    fn has_room(&self) -> bool {
        let state = self.shared.lock();
        state.queue.len() < BACKLOG_LIMIT || state.abandoned
    }

    /// Says that nothing more will come. What is queued, and even what is pushed from now on, can still be popped.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Whether all that the first list brought has been processed.
    pub fn has_synced(&self) -> bool {
        self.shared.has_synced()
    }

    /// Waits until all that the first list brought has been processed; false if the consumer was dropped before.
    pub async fn wait_for_sync(&self) -> bool {
        self.shared.wait_for_sync().await
    }

    /// How many entries are queued.
    pub fn len(&self) -> usize {
        self.shared.lock().queue.len()
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl ReflectorStore for Producer {
    fn add(&mut self, object: Object) -> Result<(), StoreError> {
        self.shared.push(|queue, _| queue.add(object))
    }

    fn update(&mut self, object: Object) -> Result<(), StoreError> {
        self.shared.push(|queue, _| queue.update(object))
    }

    fn delete(&mut self, object: Object) -> Result<(), StoreError> {
        self.shared.push(|queue, known| queue.delete(object.into(), known))
    }

    fn replace(&mut self, objects: Vec<Object>, version: ResourceVersion) -> Result<(), StoreError> {
        self.shared.push(|queue, known| queue.replace(objects, version, known))
    }

    fn resync(&mut self, _: Instant) -> Result<(), StoreError> {
        self.shared.push(|queue, known| queue.resync(known))
    }

    fn bookmark(&mut self, version: &ResourceVersion) {
        // Nobody is left to miss it if this fails.
        let _ = self.shared.push(|queue, _| queue.bookmark(version.clone()));
    }

    fn known(&self, key: &ObjectKey) -> Option<Object> {
        self.shared.known.get(key)
    }
}

impl Clone for Producer {
    fn clone(&self) -> Self {
        self.shared.lock().producers += 1;
        Producer { shared: Arc::clone(&self.shared) }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let left = {
            let mut state = self.shared.lock();
            state.producers -= 1;
            state.producers
        };
        if left == 0 {
            self.shared.close();
        }
    }
}

impl Consumer {
    /// The next deltas, at most about [`BATCH_LIMIT`] of them. Waits while there are none; `None` when there are none and
    /// the feed is closed. Dropping the future loses nothing.
    pub async fn pop(&mut self) -> Option<Popped<'_>> {
        let batch = loop {
            let filled = self.shared.filled.notified();
            {
                let mut state = self.shared.lock();
                if let Some(batch) = self.shared.pop(&mut state) {
                    break batch;
                }
                if state.closed {
                    return None;
                }
            }
            filled.await;
        };
        Some(Popped { batch, since: Instant::now(), shared: &self.shared })
    }

    /// The next deltas, if there are any.
    pub fn try_pop(&mut self) -> Option<Popped<'_>> {
        let batch = self.shared.pop(&mut self.shared.lock())?;
        Some(Popped { batch, since: Instant::now(), shared: &self.shared })
    }

    /// Says that nothing more need come, as [`Producer::close`] does.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Whether all that the first list brought has been processed.
    pub fn has_synced(&self) -> bool {
        self.shared.has_synced()
    }
}

impl Shared {
    fn pop(&self, state: &mut State) -> Option<Batch> {
        let before = state.queue.len();
        let batch = state.queue.pop(BATCH_LIMIT)?;
        if state.queue.asks_for_known() {
            state.popped = Overlay::of(&batch.deltas);
        }
        if before >= BACKLOG_LIMIT && state.queue.len() < BACKLOG_LIMIT {
            self.emptied.notify_waiters();
        }
        Some(batch)
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.abandoned = true;
        // What nobody will ever see need not be kept.
        while state.queue.pop(BATCH_LIMIT).is_some() {}
        drop(state);
        self.shared.settle_sync(false);
        self.shared.emptied.notify_waiters();
    }
}

impl Popped<'_> {
    /// The deltas, oldest first.
    pub fn deltas(&self) -> &[Delta] {
        &self.batch.deltas
    }

    /// Takes the deltas out, oldest first.
    pub fn drain(&mut self) -> impl ExactSizeIterator<Item = Delta> + use<'_> {
        self.batch.deltas.drain(..)
    }

    /// Whether they are part of the first list.
    pub fn is_initial(&self) -> bool {
        self.batch.initial
    }
}

impl Drop for Popped<'_> {
    fn drop(&mut self) {
        let mut deltas = std::mem::take(&mut self.batch.deltas);
        deltas.clear();
        let waiting = {
            let mut state = self.shared.lock();
            state.popped = Overlay::None;
            state.queue.processed(self.batch.count);
            state.queue.recycle(deltas);
            self.shared.note_sync(&state);
            state.queue.len()
        };
        let time = self.since.elapsed();
        if is_slow(waiting, self.batch.count, time) {
            debug!(queue = %self.shared.name, waiting, taken = self.batch.count, ?time, "slow to process deltas");
        }
    }
}

impl Overlay {
    fn of(deltas: &[Delta]) -> Overlay {
        let mut overlay = Overlay::Over(HashMap::new());
        for delta in deltas {
            match (delta, &mut overlay) {
                (Delta::ReplacedAll { objects, .. }, _) => {
                    let present = |object: &Object| (object.key().clone(), Some(object.clone()));
                    overlay = Overlay::Instead(objects.iter().map(present).collect());
                }
                (_, Overlay::Over(objects) | Overlay::Instead(objects)) => {
                    if let Some(key) = delta.key() {
                        let object = delta.object().filter(|_| !delta.is_deleted());
                        objects.insert(key.clone(), object.cloned());
                    }
                }
                (_, Overlay::None) => {}
            }
        }
        overlay
    }
}

/// The store as it is when the batch that is being processed has been applied.
struct View<'a> {
    known: &'a dyn KnownObjects,
    popped: &'a Overlay,
}

impl KnownObjects for View<'_> {
    fn get(&self, key: &ObjectKey) -> Option<Object> {
        match self.popped {
            Overlay::None => self.known.get(key),
            Overlay::Over(objects) => objects.get(key).cloned().unwrap_or_else(|| self.known.get(key)),
            Overlay::Instead(objects) => objects.get(key).cloned().flatten(),
        }
    }

    fn keys(&self) -> Vec<ObjectKey> {
        let present = |objects: &HashMap<ObjectKey, Option<Object>>| {
            let present = objects.iter().filter(|(_, object)| object.is_some());
            present.map(|(key, _)| key.clone()).collect::<Vec<_>>()
        };
        match self.popped {
            Overlay::None => self.known.keys(),
            Overlay::Over(objects) => {
                let mut keys = self.known.keys();
                keys.retain(|key| !objects.contains_key(key));
                keys.extend(present(objects));
                keys
            }
            Overlay::Instead(objects) => present(objects),
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("name", &self.name).field("queued", &self.lock().queue.len()).finish()
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Producer").field(&self.shared).finish()
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Consumer").field(&self.shared).finish()
    }
}

impl fmt::Debug for Popped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Popped").field(&self.batch).finish()
    }
}

#[cfg(test)]
mod tests;
