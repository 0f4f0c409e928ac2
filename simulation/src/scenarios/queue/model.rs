//! [`QueueModel`]: what a queue owes its users, key by key.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel::queue::DrainDelayed;
use evenkeel_sim::Process;
use tokio::time::Instant;

use super::Key;

const NO_KEY_LOST: &str = "no key lost in queue";
const ONE_WORKER: &str = "at most one worker per key";
const STOP: &str = "stop means stop";

/// A worker that waits gets a key that is ready within this time: another worker that gave up may have had the timer.
const SLACK: Duration = Duration::from_millis(150);

/// Follows the calls of a queue, and fails the run when the queue does not do what they demand. Calls of the queue do not wait, so a
/// call and its note here are one step.
pub(super) struct QueueModel {
    process: Process,
    state: Mutex<ModelState>,
}

#[derive(Default)]
struct ModelState {
    keys: BTreeMap<Key, KeyModel>,
    /// The wait that the limiter has returned last, until it is used.
    drawn_wait: Option<(Key, Duration)>,
    is_stopped: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct KeyModel {
    /// Since when the key is to be handed out; during a run, after it.
    ready: Option<Ready>,
    delayed: Option<Delay>,
    in_flight: bool,
    failures: u32,
}

#[derive(Clone, Copy, Debug)]
struct Ready {
    since: Instant,
    /// Only because a backoff has ended during a run: a failure of that run starts another one instead.
    is_retry: bool,
}

#[derive(Clone, Copy, Debug)]
struct Delay {
    until: Instant,
    is_backoff: bool,
}

impl KeyModel {
    fn add(&mut self, now: Instant) {
        self.advance(now);
        let since = self.ready.map_or(now, |ready| ready.since);
        self.ready = Some(Ready { since, is_retry: false });
    }

    /// Of two delays the earlier one counts.
    fn delay(&mut self, wait: Duration, is_backoff: bool, now: Instant) {
        self.advance(now);
        if wait.is_zero() {
            return self.add(now);
        }
        if is_backoff && self.ready.is_some_and(|ready| self.in_flight && ready.is_retry) {
            self.ready = None;
        }
        let until = now + wait;
        if self.delayed.is_none_or(|delay| until < delay.until || (is_backoff && until == delay.until)) {
            self.delayed = Some(Delay { until, is_backoff });
        }
    }

    /// Makes the key ready if its delay is over.
    fn advance(&mut self, now: Instant) {
        if let Some(Delay { until, is_backoff }) = self.delayed.filter(|delay| delay.until <= now) {
            self.delayed = None;
            let is_retry = is_backoff && self.in_flight && self.ready.is_none();
            let since = self.ready.map_or(until, |ready| ready.since);
            self.ready = Some(Ready { since, is_retry });
        }
    }
}

impl QueueModel {
    pub(super) fn new(process: Process) -> Self {
        QueueModel { process, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, ModelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the model of a key, unless the queue is stopped: it ignores adds then.
    fn change(&self, key: Key, change: impl FnOnce(&mut KeyModel, Instant)) {
        let mut state = self.lock();
        if !state.is_stopped {
            change(state.keys.entry(key).or_default(), Instant::now());
        }
    }

    pub(super) fn adds(&self, key: Key) {
        self.process.note(format!("adds {key}"));
        self.change(key, KeyModel::add);
    }

    pub(super) fn adds_after(&self, key: Key, wait: Duration) {
        self.process.note(format!("adds {key} after {wait:?}"));
        self.change(key, |model, now| model.delay(wait, false, now));
    }

    /// Notes a wait that the limiter returns.
    pub(super) fn backs_off(&self, key: Key, wait: Duration) {
        self.lock().drawn_wait = Some((key, wait));
    }

    /// Notes a failure, and that the key returns after its backoff.
    pub(super) fn fails(&self, key: Key, failures: u32) {
        let drawn = self.lock().drawn_wait.take();
        self.process.note(match drawn {
            Some((key, wait)) => format!("retries {key} after {wait:?}"),
            None => format!("retries {key} with its backoff"),
        });
        self.change(key, |model, now| match drawn {
            Some((_, wait)) => model.delay(wait, true, now),
            // The current backoff continues.
            None => model.advance(now),
        });
        self.counts(key, failures, 1);
    }

    /// Checks and notes the failures that the queue has counted. They are kept until the key is forgotten.
    fn counts(&self, key: Key, failures: u32, at_most_more: u32) {
        let mut state = self.lock();
        let is_stopped = state.is_stopped;
        let model = state.keys.entry(key).or_default();
        let before = std::mem::replace(&mut model.failures, failures);
        drop(state);
        // A key that leaves a queue that shuts down takes its failures with it.
        if !(before..=before + at_most_more).contains(&failures) && !is_stopped {
            self.process.fail(NO_KEY_LOST, format!("{key} had {before} failures, and has {failures}"));
        }
    }

    /// Notes that a worker got a key, for which it had waited since then.
    pub(super) fn takes(&self, key: Key, failures: u32, since: Instant) {
        self.process.note(format!("takes {key}"));
        let now = Instant::now();
        let (before, ready) = {
            let mut state = self.lock();
            let model = state.keys.entry(key).or_default();
            model.advance(now);
            let before = *model;
            model.in_flight = true;
            (before, model.ready.take())
        };
        if before.in_flight {
            return self.process.fail(ONE_WORKER, format!("{key} is handed out while another worker has it"));
        }
        match (ready, before.delayed) {
            (Some(Ready { since: ready, .. }), _) => {
                let late = now.saturating_duration_since(ready.max(since));
                if late > SLACK {
                    self.process.fail(NO_KEY_LOST, format!("{key} is handed out {late:?} late"));
                }
            }
            (None, Some(Delay { until, .. })) => {
                let early = until.saturating_duration_since(now);
                self.process.fail(NO_KEY_LOST, format!("{key} is handed out {early:?} early"));
            }
            (None, None) => self.process.fail(NO_KEY_LOST, format!("{key} is handed out again without an add")),
        }
        self.counts(key, failures, 0);
    }

    fn finish(&self, key: Key, what: &str) {
        self.process.note(format!("finishes {key}{what}"));
        let mut state = self.lock();
        let model = state.keys.entry(key).or_default();
        model.in_flight = false;
        if let Some(ready) = &mut model.ready {
            ready.since = Instant::now();
        }
    }

    /// Notes that a key has succeeded: its failures are forgotten.
    pub(super) fn forgets(&self, key: Key) {
        let mut state = self.lock();
        let model = state.keys.entry(key).or_default();
        model.failures = 0;
        if let Some(delay) = &mut model.delayed {
            delay.is_backoff = false;
        }
    }

    /// Notes that a worker has finished a key.
    pub(super) fn finishes(&self, key: Key, failures: u32) {
        self.change(key, KeyModel::advance);
        self.finish(key, "");
        self.counts(key, failures, 0);
    }

    /// Notes that a worker has failed.
    pub(super) fn finishes_failed(&self, key: Key, failures: u32) {
        self.fails(key, failures);
        self.finish(key, ": failed");
    }

    /// Notes that a worker has finished a key, which returns after a while.
    pub(super) fn finishes_until(&self, key: Key, wait: Duration, failures: u32) {
        self.change(key, |model, now| model.delay(wait, false, now));
        self.finish(key, &format!(" for {wait:?}"));
        self.counts(key, failures, 0);
    }

    /// Notes that the queue is shut down: it takes no more keys, and does this with those that are delayed.
    pub(super) fn stops(&self, delayed: DrainDelayed) {
        self.process.note(format!("stops the queue; delayed keys: {delayed:?}"));
        let now = Instant::now();
        let mut state = self.lock();
        state.is_stopped = true;
        for model in state.keys.values_mut() {
            model.advance(now);
            if model.delayed.take().is_some() && delayed == DrainDelayed::Flush {
                model.ready.get_or_insert(Ready { since: now, is_retry: false });
            }
        }
    }

    /// Returns how many keys are to be handed out, and how many are in flight.
    fn left(&self) -> (usize, usize) {
        let state = self.lock();
        let ready = state.keys.values().filter(|model| model.ready.is_some()).count();
        (ready, state.keys.values().filter(|model| model.in_flight).count())
    }

    /// Checks that nothing is left when a drain has ended.
    pub(super) fn drained(&self) {
        self.process.note("is drained");
        let (ready, in_flight) = self.left();
        if in_flight > 0 {
            self.process.fail(STOP, format!("the queue is drained, and {in_flight} keys are in flight"));
        } else if ready > 0 {
            self.process.fail(NO_KEY_LOST, format!("the queue is drained, and {ready} keys were not handed out"));
        }
    }

    /// Checks what a drain reports that takes too long.
    pub(super) fn out_of_time(&self, ready: usize, in_flight: usize) {
        let left = self.left();
        if left != (ready, in_flight) {
            let expected = format!("{} keys are ready, {} in flight", left.0, left.1);
            self.process.fail(NO_KEY_LOST, format!("{expected}; a drain reports {ready} and {in_flight}"));
        }
    }

    /// Checks that all keys have been handed out when the workers have ended.
    pub(super) fn ended(&self) {
        for (key, model) in &self.lock().keys {
            if model.ready.is_some() {
                self.process.fail(NO_KEY_LOST, format!("{key} is never handed out"));
            }
        }
    }
}
