//! [`channel`](fn@channel): a delta queue between two tasks.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use evenkeel_core::{ObjectKey, Untyped};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tracing::debug;

use crate::delta::Delta;
use crate::delta_queue::{BACKLOG_LIMIT, BATCH_LIMIT, Batch, DeltaQueue, InFlight, StoreView};
use crate::reflector::{DeltaSink, SinkError, SinkRequest};
use crate::{Indexer, Object};

/// Returns the two ends of a delta queue: a [`Reflector`](crate::parts::Reflector) writes to the producer, and the program
/// applies what the consumer returns.
///
/// `store` is the store that the consumer writes. The queue reads it during a push; a batch that is popped and not yet
/// processed counts as stored. `name` appears in logs and errors.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_cache::compat::channel;
/// use evenkeel_cache::delta::Delta;
/// use evenkeel_cache::parts::{ListMode, OrderedQueue};
/// use evenkeel_cache::parts::DeltaSink;
/// use evenkeel_cache::{Obj, ResourceInfo, Store};
/// use k8s_openapi::api::core::v1::Pod;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let store = Store::<Pod>::new([]);
/// let (mut producer, mut consumer) = channel("pods", OrderedQueue::new(ListMode::Atomic), store.indexer());
/// let pods = Arc::new(ResourceInfo::of::<Pod>());
/// producer.push(Delta::Added(Obj::from_json(&pods, r#"{"metadata": {"name": "web-0", "namespace": "ns"}}"#)?))?;
/// drop(producer);
///
/// while let Some(mut popped) = consumer.pop().await {
///     for delta in popped.drain() {
///         if let Delta::Added(pod) = delta {
///             store.put(pod.cast());
///         }
///     }
/// }
/// assert!(store.get("ns/web-0").is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn channel<K>(name: &str, queue: impl Into<DeltaQueue>, store: Indexer<K>) -> (Producer, Consumer) {
    let state = ChannelState {
        queue: queue.into(),
        producers: 1,
        closed: false,
        abandoned: false,
        in_flight: None,
        reflector: None,
    };
    let shared = Arc::new(ChannelShared {
        name: name.into(),
        state: Mutex::new(state),
        store: store.cast(),
        filled: Notify::new(),
        emptied: Notify::new(),
        synced: watch::Sender::new(None),
    });
    (Producer { shared: Arc::clone(&shared) }, Consumer { shared })
}

/// The end of a [`channel`](fn@channel) that deltas are pushed to: the [`DeltaSink`] of a reflector. Cheap to clone; the deltas
/// of one clone keep their order.
///
/// Pushes never wait. A producer that can wait awaits [`room`](Self::room) before each push, or is [`paced`](Self::paced).
/// A push fails only when the consumer was dropped, which also stops a reflector that writes here. Dropping the last clone
/// [closes](Self::close) the channel.
pub struct Producer {
    shared: Arc<ChannelShared>,
}

/// The end of a [`channel`](fn@channel) that deltas are popped from. There is one per channel, and it returns one batch at a
/// time, so deltas are always applied in order.
pub struct Consumer {
    shared: Arc<ChannelShared>,
}

/// A popped batch. Dropping it marks the batch as processed; it is not returned again.
pub struct Popped<'a> {
    batch: Batch,
    since: Instant,
    shared: &'a ChannelShared,
}

struct ChannelShared {
    name: Box<str>,
    state: Mutex<ChannelState>,
    store: Indexer<Untyped>,
    /// Wakes the consumer.
    filled: Notify,
    /// Wakes producers.
    emptied: Notify,
    /// Whether the channel has synced, once that is decided.
    synced: watch::Sender<Option<bool>>,
}

struct ChannelState {
    queue: DeltaQueue,
    producers: usize,
    closed: bool,
    /// The consumer was dropped.
    abandoned: bool,
    in_flight: Option<InFlight>,
    /// The task of a reflector that writes here, to be woken when the consumer is dropped.
    reflector: Option<Waker>,
}

impl ChannelShared {
    fn lock(&self) -> MutexGuard<'_, ChannelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, delta: Delta) -> Result<(), SinkError> {
        let mut state = self.lock();
        if state.abandoned {
            return Err(SinkError::Closed { name: self.name.to_string() });
        }
        let state = &mut *state;
        state.queue.push_over(delta, &StoreView::new(self.store.table(), state.in_flight.as_ref()));
        self.update_synced(state);
        self.filled.notify_one();
        Ok(())
    }

    fn update_synced(&self, state: &ChannelState) {
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
    /// Waits while 2,000 entries or more are queued. Returns at once if the consumer was dropped.
    pub async fn room(&self) {
        loop {
            // Registered before the check, so that no wake-up is lost.
            let emptied = self.shared.emptied.notified();
            if self.has_room() {
                return;
            }
            emptied.await;
        }
    }

    /// Polls `work` only while there is [`room`](Self::room), for example the reflector that writes to a clone.
    ///
    /// The queue can exceed 2,000 entries by as many as `work` pushes between two waits.
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

    /// Closes the channel. Queued deltas, and deltas that are pushed later, can still be popped.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Returns whether the whole initial list was processed.
    pub fn has_synced(&self) -> bool {
        self.shared.has_synced()
    }

    /// Waits until the whole initial list was processed. Returns false if the consumer was dropped before.
    pub async fn wait_for_sync(&self) -> bool {
        self.shared.wait_for_sync().await
    }

    /// Returns the number of queued entries.
    pub fn len(&self) -> usize {
        self.shared.lock().queue.len()
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl DeltaSink for Producer {
    fn push(&mut self, delta: Delta) -> Result<(), SinkError> {
        self.shared.push(delta)
    }

    fn known(&self, key: &ObjectKey) -> Option<Object> {
        self.shared.store.get(key)
    }

    fn poll_request(&mut self, context: &mut Context<'_>) -> Poll<SinkRequest> {
        let mut state = self.shared.lock();
        if state.abandoned {
            return Poll::Ready(SinkRequest::Stop);
        }
        if !state.reflector.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            state.reflector = Some(context.waker().clone());
        }
        Poll::Pending
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
    /// Returns the next deltas, at most about [`BATCH_LIMIT`] of them. Waits while the queue is empty; `None` when it is empty
    /// and the channel is closed. Cancel safe.
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

    /// Returns the next deltas, if there are any.
    pub fn try_pop(&mut self) -> Option<Popped<'_>> {
        let batch = self.shared.pop(&mut self.shared.lock())?;
        Some(Popped { batch, since: Instant::now(), shared: &self.shared })
    }

    /// Closes the channel, as [`Producer::close`] does.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Returns whether the whole initial list was processed.
    pub fn has_synced(&self) -> bool {
        self.shared.has_synced()
    }
}

impl ChannelShared {
    fn pop(&self, state: &mut ChannelState) -> Option<Batch> {
        let before = state.queue.len();
        let batch = state.queue.pop(BATCH_LIMIT)?;
        if state.queue.reads_store() {
            state.in_flight = Some(in_flight(&batch.deltas));
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
        while state.queue.pop(BATCH_LIMIT).is_some() {}
        let reflector = state.reflector.take();
        drop(state);
        reflector.into_iter().for_each(Waker::wake);
        self.shared.settle_sync(false);
        self.shared.emptied.notify_waiters();
    }
}

impl Popped<'_> {
    /// Returns the deltas, oldest first.
    pub fn deltas(&self) -> &[Delta] {
        &self.batch.deltas
    }

    /// Removes the deltas, oldest first.
    pub fn drain(&mut self) -> impl ExactSizeIterator<Item = Delta> + use<'_> {
        self.batch.deltas.drain(..)
    }

    /// Returns whether the deltas are part of the initial list.
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
            state.in_flight = None;
            state.queue.processed(self.batch.count);
            state.queue.recycle(deltas);
            self.shared.update_synced(&state);
            state.queue.len()
        };
        let time = self.since.elapsed();
        if is_slow(waiting, self.batch.count, time) {
            debug!(queue = %self.shared.name, waiting, processed = self.batch.count, ?time, "consumer processes deltas slowly");
        }
    }
}

/// Returns what deltas make of the store.
fn in_flight(deltas: &[Delta]) -> InFlight {
    let mut objects = InFlight::new();
    for delta in deltas {
        if let Some(key) = delta.key() {
            let object = delta.object().filter(|_| !delta.is_deleted());
            objects.insert(key.clone(), object.cloned());
        }
    }
    objects
}

/// Returns whether it is worth a log entry that a consumer took `time` for `processed` entries while others waited.
fn is_slow(waiting: usize, processed: usize, time: Duration) -> bool {
    const EACH: Duration = Duration::from_millis(100);
    const AT_MOST: Duration = Duration::from_secs(1);
    let allowance = EACH.saturating_mul(u32::try_from(processed).unwrap_or(u32::MAX)).min(AT_MOST);
    waiting > 10 && time > allowance
}

impl fmt::Debug for ChannelShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("name", &self.name).field("queued", &self.lock().queue.len()).finish()
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
