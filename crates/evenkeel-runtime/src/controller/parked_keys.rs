//! [`ParkedKeys`]: keys whose last reconcile wrote objects that the caches do not show yet.
//!
//! A reconcile that wrote leaves a [`KeyState::Held`] for its key. A worker that receives the key meanwhile parks it and continues
//! with another key. When the caches have caught up, or at a limit, the key is released. No worker waits, and no other key does.
//!
//! A key that was not parked is queued all the same if the reconcile may have missed something: it is reconciled from caches that
//! lag, or an object that it wrote may have been deleted without an event.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_base::task::scheduled;
use evenkeel_core::ObjectKey;
use evenkeel_queue::{AddOptions, Item, WorkQueue};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::history::{EnqueueReason, History};
use super::metrics::ControllerMetrics;
use super::observed_writes::AwaitedWrites;

pub(super) struct ParkedKeys {
    keys: Mutex<HashMap<ObjectKey, KeyState>>,
    waits: mpsc::UnboundedSender<(ObjectKey, AwaitedWrites)>,
    metrics: Arc<ControllerMetrics>,
}

enum KeyState {
    /// The key is not reconciled.
    Held {
        /// The item, if a worker received it meanwhile.
        parked: Option<Item<ObjectKey>>,
    },
    /// The limit has passed: the key is reconciled as any other. It is queued when the caches show the writes.
    Overdue {
        writes: AwaitedWrites,
        /// Ends the wait when it is dropped.
        _wait: oneshot::Sender<()>,
    },
}

/// Waits until the caches show the writes, and releases the keys.
pub(super) struct CacheWaiter {
    pub(super) controller: String,
    pub(super) parked_keys: Arc<ParkedKeys>,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) metrics: Arc<ControllerMetrics>,
    pub(super) limit: Duration,
    pub(super) history: History,
}

pub(super) type Waits = mpsc::UnboundedReceiver<(ObjectKey, AwaitedWrites)>;

impl ParkedKeys {
    pub(super) fn new(metrics: &Arc<ControllerMetrics>) -> (Arc<Self>, Waits) {
        // At most one wait per key is in the channel.
        let (waits, receiver) = mpsc::unbounded_channel();
        (Arc::new(ParkedKeys { keys: Mutex::default(), waits, metrics: Arc::clone(metrics) }), receiver)
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<ObjectKey, KeyState>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds the key until the caches show all writes, also those that are overdue. Must be called while the key is in flight.
    pub(super) fn hold(&self, key: &ObjectKey, mut writes: AwaitedWrites) {
        let mut keys = self.keys();
        if let Some(KeyState::Overdue { writes: earlier, .. }) =
            keys.insert(key.clone(), KeyState::Held { parked: None })
        {
            writes.add_earlier(earlier);
        }
        if let Err(refused) = self.waits.send((key.clone(), writes)) {
            // The controller is shutting down.
            keys.remove(&refused.0.0);
        }
    }

    /// Returns the item if its key is not held; otherwise parks it.
    pub(super) fn admit(&self, item: Item<ObjectKey>) -> Option<Item<ObjectKey>> {
        match self.keys().get_mut(item.key()) {
            Some(KeyState::Held { parked }) => {
                self.metrics.parked.increment(1.0);
                *parked = Some(item);
                None
            }
            Some(KeyState::Overdue { .. }) | None => Some(item),
        }
    }

    /// Releases the key. Returns its item if it was parked.
    fn release(&self, key: &ObjectKey) -> Option<Item<ObjectKey>> {
        let state = self.keys().remove(key);
        self.unpark(state)
    }

    /// Releases the key, and remembers the writes that the caches do not show. The receiver fails when the key is held again.
    fn release_overdue(
        &self,
        key: &ObjectKey,
        writes: &AwaitedWrites,
    ) -> (Option<Item<ObjectKey>>, oneshot::Receiver<()>) {
        let (wait, ended) = oneshot::channel();
        let state = self.keys().insert(key.clone(), KeyState::Overdue { writes: writes.clone(), _wait: wait });
        (self.unpark(state), ended)
    }

    fn unpark(&self, state: Option<KeyState>) -> Option<Item<ObjectKey>> {
        let Some(KeyState::Held { parked: Some(item) }) = state else { return None };
        self.metrics.parked.decrement(1.0);
        Some(item)
    }

    /// Forgets an overdue key. Returns false if it is held again.
    fn end_overdue(&self, key: &ObjectKey, ended: &mut oneshot::Receiver<()>) -> bool {
        let mut keys = self.keys();
        let is_overdue = ended.try_recv() == Err(TryRecvError::Empty);
        if is_overdue {
            keys.remove(key);
        }
        is_overdue
    }

    /// Returns the keys that are parked.
    pub(super) fn parked(&self) -> Vec<ObjectKey> {
        self.keys().iter().filter(|(_, state)| state.is_parked()).map(|(key, _)| key.clone()).collect()
    }
}

impl KeyState {
    fn is_parked(&self) -> bool {
        matches!(self, KeyState::Held { parked: Some(_) })
    }
}

impl Drop for ParkedKeys {
    fn drop(&mut self) {
        let parked = self.keys().values().filter(|state| state.is_parked()).count();
        self.metrics.parked.decrement(parked as f64);
    }
}

impl CacheWaiter {
    /// Serves waits until it is dropped, which cancels all of them.
    pub(super) async fn run(self, mut waits: Waits) {
        let waiter = Arc::new(self);
        let mut waiting = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                Some(_) = waiting.join_next(), if !waiting.is_empty() => {}
                wait = waits.recv() => {
                    let Some((key, writes)) = wait else { return };
                    waiting.spawn(scheduled(Arc::clone(&waiter).wait(key, writes)));
                }
            }
        }
    }

    async fn wait(self: Arc<Self>, key: ObjectKey, writes: AwaitedWrites) {
        let started = Instant::now();
        let seen = timeout(self.limit, writes.seen()).await.is_ok();
        self.metrics.own_write_time.record(started.elapsed());
        if seen {
            let parked = self.parked_keys.release(&key);
            if parked.is_some() || writes.may_miss_events() {
                self.queue(key, parked, true);
            }
        } else {
            self.wait_overdue(key, writes).await;
        }
    }

    async fn wait_overdue(&self, key: ObjectKey, writes: AwaitedWrites) {
        self.metrics.own_write_timeouts.increment(1);
        let (controller, limit) = (&self.controller, self.limit);
        tracing::warn!(
            controller,
            %key,
            ?limit,
            ?writes,
            "caches do not show own writes; the next reconcile may read stale data"
        );
        let (parked, mut ended) = self.parked_keys.release_overdue(&key, &writes);
        if parked.is_some() {
            self.queue(key.clone(), parked, false);
        }
        tokio::select! {
            biased;
            _ = &mut ended => return,
            () = writes.seen() => {}
        }
        if self.parked_keys.end_overdue(&key, &mut ended) {
            self.queue(key, None, true);
        }
    }

    /// Queues a released key, with the priority of its parked item.
    fn queue(&self, key: ObjectKey, parked: Option<Item<ObjectKey>>, seen: bool) {
        self.history.queued(&key, || EnqueueReason::OwnWrites { seen });
        let options = AddOptions::new();
        match parked {
            None => self.queue.add_all([key], options),
            Some(item) => {
                self.queue.add_all([key], options.priority(item.priority()));
                // Makes the added key ready. Its failures are kept.
                item.done();
            }
        }
    }
}
