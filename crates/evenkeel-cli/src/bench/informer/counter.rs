//! The counting handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use evenkeel_cache::{Event, Handler};
use tokio::sync::oneshot;

use crate::Failure;
use crate::bench::process::Moment;

/// Counts updates, and records when the first, the last and each single update afterwards arrived.
pub(super) struct Counter {
    wanted: u64,
    notifications: Arc<AtomicU64>,
    updates: u64,
    first: Option<Result<Moment, Failure>>,
    done: Option<oneshot::Sender<Result<(Moment, Moment), Failure>>>,
    singles: usize,
    handled: Vec<u64>,
    all_handled: Option<oneshot::Sender<Vec<u64>>>,
}

/// Results of a counter.
pub(super) struct CounterResults {
    /// Arrival of the first and the last update.
    pub(super) storm: oneshot::Receiver<Result<(Moment, Moment), Failure>>,
    /// Arrival of each single update afterwards, in nanoseconds since 1970.
    pub(super) handled: oneshot::Receiver<Vec<u64>>,
}

/// Returns a counter of `wanted` updates and `singles` single ones afterwards.
pub(super) fn counter(wanted: u64, singles: usize, notifications: &Arc<AtomicU64>) -> (Counter, CounterResults) {
    let (done, storm) = oneshot::channel();
    let (all_handled, handled) = oneshot::channel();
    let counter = Counter {
        wanted,
        notifications: Arc::clone(notifications),
        updates: 0,
        first: None,
        done: Some(done),
        singles,
        handled: Vec::with_capacity(singles),
        all_handled: Some(all_handled),
    };
    (counter, CounterResults { storm, handled })
}

impl<K: 'static> Handler<K> for Counter {
    fn handle(&mut self, event: Event<K>) {
        self.notifications.fetch_add(1, Ordering::Relaxed);
        let Event::Update { old, new } = event else { return };
        // Relists and resyncs deliver unchanged objects.
        if old.resource_version() == new.resource_version() {
            return;
        }
        self.updates += 1;
        if self.updates > self.wanted {
            self.note();
            return;
        }
        if self.updates == 1 {
            self.first = Some(Moment::now());
        }
        if self.updates == self.wanted
            && let (Some(first), Some(done)) = (self.first.take(), self.done.take())
        {
            // Fails only if the program is ending.
            let _ = done.send(first.and_then(|first| Ok((first, Moment::now()?))));
        }
    }
}

impl Counter {
    #[expect(clippy::disallowed_methods, reason = "the clock that the server reads too")]
    fn note(&mut self) {
        if self.handled.len() < self.singles {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            self.handled.push(now.as_nanos() as u64);
        }
        if self.handled.len() == self.singles
            && let Some(all) = self.all_handled.take()
        {
            // As above.
            let _ = all.send(std::mem::take(&mut self.handled));
        }
    }
}
