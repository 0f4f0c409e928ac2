//! What all handles of a queue share: the core behind a lock, and those who wait.

use std::hash::{BuildHasher, Hash};
use std::sync::PoisonError;
use std::task::Waker;
use std::time::{Duration, Instant};

use rapidhash::quality::RandomState;

use crate::Key;
use crate::clock::Clock;
use crate::core::time::Time;
use crate::core::{Core, Failed, Next, Settings, Taken};
use crate::limiter::RateLimiter;
use crate::metrics::{Metrics, Published};
use crate::sync::{Mutex, MutexGuard};
use crate::waiters::{WaiterId, Waiters, Wake};

pub(crate) struct Shared<K> {
    pub(crate) name: Option<Box<str>>,
    state: Mutex<State<K>>,
    pub(crate) limiter: Box<dyn RateLimiter<K>>,
    pub(crate) clock: Box<dyn Clock>,
    begun: Instant,
    hasher: RandomState,
    pub(crate) metrics: Option<Metrics>,
    /// Whether a key is tried again whose worker drops it without a word.
    pub(crate) retry_dropped: bool,
}

pub(crate) struct State<K> {
    pub(crate) core: Core<K>,
    waiters: Waiters,
    drainers: Waiters,
    pub(crate) published: Published,
    /// The latest time that the core was told.
    latest: Time,
}

/// What came of asking for a key.
pub(crate) enum Asked<K> {
    Got(Taken<K>),
    /// There will be no more.
    Over,
    /// Whoever asked will be woken. If there is a time, asking again then is up to it.
    Wait(Option<Time>),
    /// Ask again soon, others have had a turn.
    Busy,
}

/// What follows from a failure.
#[derive(Clone, Copy)]
pub(crate) struct BackOff {
    pub(crate) failures: u32,
    pub(crate) wait: Duration,
}

/// How often one caller may find the core busy before others get the thread.
const BUSY_TURNS: usize = 16;

impl<K: Key> Shared<K> {
    pub(crate) fn new(
        name: Option<Box<str>>,
        settings: Settings<K>,
        limiter: Box<dyn RateLimiter<K>>,
        clock: Box<dyn Clock>,
        metrics: Option<Metrics>,
        retry_dropped: bool,
    ) -> Self {
        let hasher = RandomState::default();
        let mut core = Core::new(settings, hasher);
        if metrics.is_some() {
            core.note_depths();
        }
        let state = State {
            core,
            waiters: Waiters::default(),
            drainers: Waiters::default(),
            published: Published::default(),
            latest: Time::ZERO,
        };
        let begun = clock.now();
        Shared { name, state: Mutex::new(state), limiter, clock, begun, hasher, metrics, retry_dropped }
    }

    /// What the queue is called in logs.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("unnamed")
    }

    pub(crate) fn hash(&self, key: &K) -> u64
    where
        K: Hash,
    {
        self.hasher.hash_one(key)
    }

    /// Looks at the core, or does something to it that nobody waits for.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut State<K>) -> T) -> T {
        look(&mut self.lock())
    }

    /// Does something to the core, and wakes those whom it concerns. If it is `timed`, the time is read even if the core does
    /// not need it.
    pub(crate) fn change<T>(&self, timed: bool, change: impl FnOnce(&mut Core<K>, Time) -> T) -> T {
        let (mut state, now) = self.lock_at(timed);
        let result = change(&mut state.core, now);
        self.settle(state);
        result
    }

    /// Counts a failure and asks the limiter, without the lock, how long to wait, unless that is known from the last failure.
    /// None if the queue is shutting down.
    pub(crate) fn back_off(&self, hash: u64, key: &K) -> Option<BackOff> {
        let (mut state, now) = self.lock_at(true);
        let failed = state.core.is_running().then(|| state.core.fail(hash, key, now));
        drop(state);
        let Failed { failures, until } = failed?;
        let wait = match until {
            Some(until) => until.since(now),
            None => self.limiter.when(key, failures, self.instant(now)),
        };
        Some(BackOff { failures, wait })
    }

    /// Asks for a key. Whoever has to wait keeps the number it is given, and gives it back when asking again.
    pub(crate) fn ask(&self, id: &mut Option<WaiterId>, waker: &Waker) -> Asked<K> {
        for _ in 0..BUSY_TURNS {
            let (mut state, now) = self.lock_at(false);
            let asked = match state.core.take(now) {
                Next::Busy => {
                    drop(state);
                    continue;
                }
                Next::Empty => {
                    let next = state.core.next_time();
                    let is_timekeeper = state.waiters.wait(id, waker, next);
                    Asked::Wait(next.filter(|_| is_timekeeper))
                }
                Next::Over => {
                    state.waiters.leave(id);
                    Asked::Over
                }
                Next::Taken(taken) => {
                    state.waiters.leave(id);
                    Asked::Got(taken)
                }
            };
            self.settle(state);
            if let (Asked::Got(taken), Some(metrics)) = (&asked, &self.metrics) {
                metrics.taken(taken.waited);
            }
            return asked;
        }
        Asked::Busy
    }

    /// Takes a key if there is one.
    pub(crate) fn try_take(&self) -> Option<Taken<K>> {
        loop {
            let (mut state, now) = self.lock_at(false);
            let next = state.core.take(now);
            self.settle(state);
            match next {
                Next::Taken(taken) => {
                    if let Some(metrics) = &self.metrics {
                        metrics.taken(taken.waited);
                    }
                    return Some(taken);
                }
                Next::Empty | Next::Over => return None,
                Next::Busy => {}
            }
        }
    }

    /// Whoever asked does not want a key any more.
    pub(crate) fn leave(&self, id: &mut Option<WaiterId>) {
        if id.is_some() {
            let mut state = self.lock();
            state.waiters.leave(id);
            self.settle(state);
        }
    }

    /// Waits for the end. True if everything is done, false if the queue was shut down before.
    pub(crate) fn ask_drained(&self, id: &mut Option<WaiterId>, waker: &Waker) -> Option<bool> {
        let mut state = self.lock();
        let drained = match state.core.is_drained() {
            true => Some(true),
            false => state.core.is_shut_down().then_some(false),
        };
        match drained {
            Some(_) => state.drainers.leave(id),
            None => _ = state.drainers.wait(id, waker, None),
        }
        drained
    }

    pub(crate) fn leave_drain(&self, id: &mut Option<WaiterId>) {
        if id.is_some() {
            self.lock().drainers.leave(id);
        }
    }

    /// When it is that time of the core.
    pub(crate) fn instant(&self, time: Time) -> Instant {
        let wait = Duration::from_micros(time.micros());
        self.begun.checked_add(wait).unwrap_or(self.begun)
    }

    /// What time it is, for a look.
    pub(crate) fn now(&self) -> Time {
        let passed = self.clock.now().saturating_duration_since(self.begun);
        let seconds = passed.as_secs().saturating_mul(1_000_000);
        Time::from_micros(seconds.saturating_add(u64::from(passed.subsec_micros())))
    }

    /// Wakes whom a change concerns, when the lock is released.
    fn settle(&self, mut state: MutexGuard<'_, State<K>>) {
        let mut wake = Wake::default();
        let State { core, waiters, drainers, published, .. } = &mut *state;
        if core.is_over() {
            waiters.call_all(&mut wake);
            if core.is_drained() || core.is_shut_down() {
                drainers.call_all(&mut wake);
            }
        } else {
            waiters.call(core.len(), core.next_time(), &mut wake);
            if core.is_shut_down() {
                drainers.call_all(&mut wake);
            }
        }
        if let Some(metrics) = &self.metrics {
            metrics.publish(core, published);
        }
        drop(state);
        wake.wake();
    }

    /// Takes the lock, and the time: if it is wanted, if metrics want it, or if the core needs it. If not, it is zero.
    ///
    /// The clock is read before the lock is taken if that is possible, so that the lock is held for less long. Somebody else
    /// may then have been there with a later time.
    fn lock_at(&self, timed: bool) -> (MutexGuard<'_, State<K>>, Time) {
        let mut now = (timed || self.metrics.is_some()).then(|| self.now());
        let mut state = self.lock();
        if now.is_none() && state.core.needs_time() {
            now = Some(self.now());
        }
        let now = now.map(|now| {
            state.latest = state.latest.max(now);
            state.latest
        });
        (state, now.unwrap_or_default())
    }

    /// A panic while the lock was held can only have come from code of the user, and the core was whole when that was called.
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
