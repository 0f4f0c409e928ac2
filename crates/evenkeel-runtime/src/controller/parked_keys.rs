//! [`ParkedKeys`]: keys whose last reconcile wrote objects that the caches do not show yet.
//!
//! A reconcile that wrote leaves a [`KeyHold`] for its key. A worker that receives the key meanwhile parks it and continues with
//! another key. When the caches have caught up, the key is added to the queue again. No worker waits, and no other key does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_base::task::scheduled;
use evenkeel_core::ObjectKey;
use evenkeel_queue::{AddOptions, Item, WorkQueue};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::history::{EnqueueReason, History};
use super::metrics::ControllerMetrics;
use super::observed_writes::AwaitedWrite;

pub(super) struct ParkedKeys {
    holds: Mutex<HashMap<ObjectKey, KeyHold>>,
    waits: mpsc::UnboundedSender<(ObjectKey, Vec<AwaitedWrite>)>,
    metrics: Arc<ControllerMetrics>,
}

/// Keeps a key from being reconciled.
#[derive(Default)]
struct KeyHold {
    /// The item, if a worker received it meanwhile.
    parked: Option<Item<ObjectKey>>,
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

pub(super) type Waits = mpsc::UnboundedReceiver<(ObjectKey, Vec<AwaitedWrite>)>;

impl ParkedKeys {
    pub(super) fn new(metrics: &Arc<ControllerMetrics>) -> (Arc<Self>, Waits) {
        // At most one wait per key is in the channel.
        let (waits, receiver) = mpsc::unbounded_channel();
        (Arc::new(ParkedKeys { holds: Mutex::default(), waits, metrics: Arc::clone(metrics) }), receiver)
    }

    fn holds(&self) -> MutexGuard<'_, HashMap<ObjectKey, KeyHold>> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds the key until the caches show all writes. Must be called while the key is in flight.
    pub(super) fn hold(&self, key: &ObjectKey, writes: Vec<AwaitedWrite>) {
        self.holds().insert(key.clone(), KeyHold::default());
        if let Err(refused) = self.waits.send((key.clone(), writes)) {
            // The controller is shutting down.
            self.holds().remove(&refused.0.0);
        }
    }

    /// Returns the item if its key is not held; otherwise parks it.
    pub(super) fn admit(&self, item: Item<ObjectKey>) -> Option<Item<ObjectKey>> {
        let mut holds = self.holds();
        match holds.get_mut(item.key()) {
            None => Some(item),
            Some(hold) => {
                self.metrics.parked.increment(1.0);
                hold.parked = Some(item);
                None
            }
        }
    }

    /// Releases the key. Returns its item if it was parked.
    fn release(&self, key: &ObjectKey) -> Option<Item<ObjectKey>> {
        let item = self.holds().remove(key)?.parked?;
        self.metrics.parked.decrement(1.0);
        Some(item)
    }

    /// Returns the keys that are parked.
    pub(super) fn parked(&self) -> Vec<ObjectKey> {
        self.holds().iter().filter(|(_, hold)| hold.parked.is_some()).map(|(key, _)| key.clone()).collect()
    }
}

impl Drop for ParkedKeys {
    fn drop(&mut self) {
        let parked = self.holds().values().filter(|hold| hold.parked.is_some()).count();
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

    async fn wait(self: Arc<Self>, key: ObjectKey, writes: Vec<AwaitedWrite>) {
        let started = Instant::now();
        let all = async {
            for write in &writes {
                write.wait().await;
            }
        };
        let seen = timeout(self.limit, all).await.is_ok();
        if !seen {
            self.metrics.own_write_timeouts.increment(1);
            let (controller, limit) = (&self.controller, self.limit);
            tracing::warn!(
                controller,
                %key,
                ?limit,
                ?writes,
                "caches do not show own writes; the next reconcile may read stale data"
            );
        }
        self.metrics.own_write_time.record(started.elapsed());
        if let Some(item) = self.parked_keys.release(&key) {
            self.history.queued(&key, || EnqueueReason::OwnWrites { seen });
            self.queue.add_all([key], AddOptions::new().priority(item.priority()));
            // Makes the added key ready. Its failures are kept.
            item.done();
        }
    }
}
