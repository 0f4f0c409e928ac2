//! [`ParkedKeys`]: where keys wait whose last reconcile has written what the caches do not show yet.
//!
//! A reconcile that wrote leaves a [`KeyHold`] for its key. A worker that gets the key meanwhile puts it there and goes on with
//! another; when the caches have caught up, the key goes back into the queue. No worker waits, and nobody else's key does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_core::ObjectKey;
use evenkeel_queue::{AddOptions, Item, WorkQueue};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::history::{EnqueueReason, History};
use super::metrics::ControllerMetrics;
use super::observed_writes::AwaitedWrite;
use super::watched_kind::WatchedKind;

pub(super) struct ParkedKeys {
    held: Mutex<HashMap<ObjectKey, KeyHold>>,
    waits: mpsc::UnboundedSender<(ObjectKey, Vec<AwaitedWrite>)>,
    metrics: Arc<ControllerMetrics>,
}

/// A key that is not to be reconciled yet.
#[derive(Default)]
struct KeyHold {
    /// The key itself, if a worker has got it meanwhile.
    parked: Option<Item<ObjectKey>>,
}

/// What the waiting is done with.
pub(super) struct CacheWaiter {
    pub(super) controller: String,
    pub(super) parked_keys: Arc<ParkedKeys>,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) kinds: Arc<[WatchedKind]>,
    pub(super) metrics: Arc<ControllerMetrics>,
    pub(super) limit: Duration,
    pub(super) history: History,
}

pub(super) type Waits = mpsc::UnboundedReceiver<(ObjectKey, Vec<AwaitedWrite>)>;

impl ParkedKeys {
    pub(super) fn new(metrics: &Arc<ControllerMetrics>) -> (Arc<Self>, Waits) {
        // There is at most one wait for each key.
        let (waits, to_wait_for) = mpsc::unbounded_channel();
        (Arc::new(ParkedKeys { held: Mutex::default(), waits, metrics: Arc::clone(metrics) }), to_wait_for)
    }

    fn held(&self) -> MutexGuard<'_, HashMap<ObjectKey, KeyHold>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key is not to be reconciled before all of this has come true. To be said while the key is not in the queue.
    pub(super) fn hold(&self, key: &ObjectKey, writes: Vec<AwaitedWrite>) {
        self.held().insert(key.clone(), KeyHold::default());
        if let Err(refused) = self.waits.send((key.clone(), writes)) {
            // The controller is ending.
            self.held().remove(&refused.0.0);
        }
    }

    /// The key, if it may be reconciled now; else it is parked.
    pub(super) fn admit(&self, item: Item<ObjectKey>) -> Option<Item<ObjectKey>> {
        let mut held = self.held();
        match held.get_mut(item.key()) {
            None => Some(item),
            Some(hold) => {
                self.metrics.parked.increment(1.0);
                hold.parked = Some(item);
                None
            }
        }
    }

    /// The key may be reconciled again. Answers with it if it was parked: when that is dropped, it can be handed out again.
    fn release(&self, key: &ObjectKey) -> Option<Item<ObjectKey>> {
        let item = self.held().remove(key)?.parked?;
        self.metrics.parked.decrement(1.0);
        Some(item)
    }

    /// The keys that are parked.
    pub(super) fn parked(&self) -> Vec<ObjectKey> {
        self.held().iter().filter(|(_, hold)| hold.parked.is_some()).map(|(key, _)| key.clone()).collect()
    }
}

impl Drop for ParkedKeys {
    fn drop(&mut self) {
        let parked = self.held().values().filter(|hold| hold.parked.is_some()).count();
        self.metrics.parked.decrement(parked as f64);
    }
}

impl CacheWaiter {
    /// Waits for whatever is to be waited for, for as long as this is not dropped; then all waits end.
    pub(super) async fn run(self, mut waits: Waits) {
        let cache_waiter = Arc::new(self);
        let mut waiting = JoinSet::new();
        loop {
            tokio::select! {
                wait = waits.recv() => {
                    let Some((key, writes)) = wait else { return };
                    waiting.spawn(Arc::clone(&cache_waiter).wait(key, writes));
                }
                Some(_) = waiting.join_next(), if !waiting.is_empty() => {}
            }
        }
    }

    async fn wait(self: Arc<Self>, key: ObjectKey, writes: Vec<AwaitedWrite>) {
        let begun = Instant::now();
        let all = async {
            for write in &writes {
                write.wait(&self.kinds).await;
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
                "the caches do not show what was written; the next reconcile may see what was before"
            );
        }
        self.metrics.own_write_time.record(begun.elapsed());
        if let Some(item) = self.parked_keys.release(&key) {
            self.history.queued(&key, || EnqueueReason::OwnWrites { seen });
            self.queue.add_all([key], AddOptions::new().priority(item.priority()));
            // Now it is handed out again, with the failures that it had.
            item.done();
        }
    }
}
