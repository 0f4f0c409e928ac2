//! [`Parking`]: where keys wait whose last reconcile has written what the caches do not show yet.
//!
//! A reconcile that wrote leaves a [`Held`] for its key. A worker that gets the key meanwhile puts it there and goes on with
//! another; when the caches have caught up, the key goes back into the queue. No worker waits, and nobody else's key does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_core::ObjectKey;
use evenkeel_queue::{Add, Item, WorkQueue};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::journal::{Journal, Why};
use super::metrics::Metrics;
use super::notes::Want;
use super::view::View;

pub(super) struct Parking {
    held: Mutex<HashMap<ObjectKey, Held>>,
    waits: mpsc::UnboundedSender<(ObjectKey, Vec<Want>)>,
    metrics: Arc<Metrics>,
}

/// A key that is not to be reconciled yet.
#[derive(Default)]
struct Held {
    /// The key itself, if a worker has got it meanwhile.
    parked: Option<Item<ObjectKey>>,
}

/// What the waiting is done with.
pub(super) struct Attendant {
    pub(super) controller: String,
    pub(super) parking: Arc<Parking>,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) views: Arc<[View]>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) limit: Duration,
    pub(super) journal: Journal,
}

pub(super) type Waits = mpsc::UnboundedReceiver<(ObjectKey, Vec<Want>)>;

impl Parking {
    pub(super) fn new(metrics: &Arc<Metrics>) -> (Arc<Self>, Waits) {
        // There is at most one wait for each key.
        let (waits, to_wait_for) = mpsc::unbounded_channel();
        (Arc::new(Parking { held: Mutex::default(), waits, metrics: Arc::clone(metrics) }), to_wait_for)
    }

    fn held(&self) -> MutexGuard<'_, HashMap<ObjectKey, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key is not to be reconciled before all of this has come true. To be said while the key is not in the queue.
    pub(super) fn hold(&self, key: &ObjectKey, wants: Vec<Want>) {
        self.held().insert(key.clone(), Held::default());
        if let Err(refused) = self.waits.send((key.clone(), wants)) {
            // The controller is ending.
            self.held().remove(&refused.0.0);
        }
    }

    /// The key, if it may be reconciled now; else it is parked.
    pub(super) fn admit(&self, item: Item<ObjectKey>) -> Option<Item<ObjectKey>> {
        let mut held = self.held();
        match held.get_mut(item.key()) {
            None => Some(item),
            Some(place) => {
                self.metrics.parked.increment(1.0);
                place.parked = Some(item);
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
        self.held().iter().filter(|(_, place)| place.parked.is_some()).map(|(key, _)| key.clone()).collect()
    }
}

impl Drop for Parking {
    fn drop(&mut self) {
        let parked = self.held().values().filter(|place| place.parked.is_some()).count();
        self.metrics.parked.decrement(parked as f64);
    }
}

impl Attendant {
    /// Waits for whatever is to be waited for, for as long as this is not dropped; then all waits end.
    pub(super) async fn run(self, mut waits: Waits) {
        let attendant = Arc::new(self);
        let mut waiting = JoinSet::new();
        loop {
            tokio::select! {
                wait = waits.recv() => {
                    let Some((key, wants)) = wait else { return };
                    waiting.spawn(Arc::clone(&attendant).wait(key, wants));
                }
                Some(_) = waiting.join_next(), if !waiting.is_empty() => {}
            }
        }
    }

    async fn wait(self: Arc<Self>, key: ObjectKey, wants: Vec<Want>) {
        let begun = Instant::now();
        let all = async {
            for want in &wants {
                want.come_true(&self.views).await;
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
                ?wants,
                "the caches do not show what was written; the next reconcile may see what was before"
            );
        }
        self.metrics.own_write_time.record(begun.elapsed());
        if let Some(item) = self.parking.release(&key) {
            self.journal.queued(&key, || Why::OwnWrites { seen });
            self.queue.add_all([key], Add::new().priority(item.priority()));
            // Now it is handed out again, with the failures that it had.
            drop(item);
        }
    }
}
