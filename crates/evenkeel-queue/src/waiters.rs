//! Waiting workers, one of which is the timekeeper.
//!
//! The timekeeper has a timer for the next due key; the others are woken only when a key is ready for them. The queue has no
//! task of its own, and without waiters there is no timer.
//!
//! The timekeeper may be a future that is no longer polled. The next worker that starts to wait is therefore its deputy: its
//! timer fires a little later, and it takes the key if the timekeeper has not.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;
use std::time::Duration;

use crate::machine::time::Time;

/// Identifies a waiter. A waiter that was called needs a new id to wait again.
pub(crate) type WaiterId = u64;

#[derive(Default)]
pub(crate) struct Waiters {
    last: WaiterId,
    /// In the order of arrival.
    waiting: BTreeMap<WaiterId, Waker>,
    /// Waiters that were called for a key and have not polled since.
    called: usize,
    timekeeper: Option<Timekeeper>,
    deputy: Option<WaiterId>,
}

/// Delay of the deputy's timer after the timekeeper's.
const SLACK: Duration = Duration::from_millis(100);

struct Timekeeper {
    id: WaiterId,
    /// The time of its timer. None if it was woken to poll again.
    until: Option<Time>,
}

/// Wakers to wake after the lock is released: when this is dropped.
#[derive(Default)]
pub(crate) struct Wake {
    first: Option<Waker>,
    others: Vec<Waker>,
}

impl Wake {
    fn push(&mut self, waker: Waker) {
        match self.first {
            None => self.first = Some(waker),
            Some(_) => self.others.push(waker),
        }
    }
}

/// Wakes all wakers, even if one of them panics.
impl Drop for Wake {
    #[inline]
    fn drop(&mut self) {
        if let Some(first) = self.first.take() {
            wake(first, std::mem::take(&mut self.others));
        }
    }
}

#[inline(never)]
fn wake(first: Waker, others: Vec<Waker>) {
    for waker in std::iter::once(first).chain(others) {
        _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}

impl Waiters {
    /// Returns whether no worker waits. Those that were called do not wait any more.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Registers a waiter or updates its waker. Returns the time of the waiter's timer, if it is the timekeeper or its deputy;
    /// `next` is when the next key is due.
    ///
    /// A replaced waker is moved to `old`, to be dropped after the lock is released.
    pub(crate) fn wait(
        &mut self,
        id: &mut Option<WaiterId>,
        waker: &Waker,
        next: Option<Time>,
        old: &mut Option<Waker>,
    ) -> Option<Time> {
        if let Some(known) = id.and_then(|id| self.waiting.get_mut(&id)) {
            if !known.will_wake(waker) {
                *old = Some(std::mem::replace(known, waker.clone()));
            }
        } else {
            let waker = waker.clone();
            *old = self.leave(id);
            self.last += 1;
            self.waiting.insert(self.last, waker);
            *id = Some(self.last);
        }
        let id = (*id)?;
        self.deputy = self.deputy.filter(|deputy| *deputy != id);
        if self.timekeeper.as_ref().is_none_or(|timekeeper| timekeeper.id == id) {
            self.timekeeper = next.map(|next| Timekeeper { id, until: Some(next) });
            return next;
        }
        let late = next.filter(|_| self.deputy.is_none())?.after(SLACK);
        self.deputy = Some(id);
        Some(late)
    }

    /// Removes a waiter. Its waker must be dropped after the lock is released.
    #[must_use = "a waker is dropped without the lock"]
    #[inline]
    pub(crate) fn leave(&mut self, id: &mut Option<WaiterId>) -> Option<Waker> {
        self.remove(id.take()?)
    }

    fn remove(&mut self, id: WaiterId) -> Option<Waker> {
        let waker = self.waiting.remove(&id);
        if waker.is_none() {
            self.called -= 1;
        }
        if self.timekeeper.as_ref().is_some_and(|timekeeper| timekeeper.id == id) {
            self.timekeeper = None;
        }
        self.deputy = self.deputy.filter(|deputy| *deputy != id);
        waker
    }

    /// Calls a waiter for each ready key, and makes sure that there is a timekeeper if a key is due later.
    pub(crate) fn call(&mut self, ready: usize, next: Option<Time>, wake: &mut Wake) {
        if self.waiting.is_empty() {
            return;
        }
        while self.called < ready {
            // The timekeeper is called last: another waiter would have to be woken to replace it. Its deputy has a timer, too, and
            // is called last but one.
            let keeper = self.timekeeper.as_ref().map(|timekeeper| timekeeper.id);
            let mut ids = self.waiting.keys().copied();
            let other = ids.find(|id| Some(*id) != keeper && Some(*id) != self.deputy);
            let is_here = |id: &WaiterId| self.waiting.contains_key(id);
            let Some(id) = other.or(self.deputy.filter(is_here)).or(keeper.filter(is_here)) else { break };
            if let Some(waker) = self.waiting.remove(&id) {
                self.called += 1;
                wake.push(waker);
            }
        }
        let Some(next) = next else { return };
        let keeper = match &mut self.timekeeper {
            Some(timekeeper) if timekeeper.until.is_none_or(|until| until <= next) => return,
            Some(timekeeper) => {
                timekeeper.until = None;
                timekeeper.id
            }
            None => {
                let Some(id) = self.waiting.keys().next().copied() else { return };
                self.timekeeper = Some(Timekeeper { id, until: None });
                id
            }
        };
        if let Some(waker) = self.waiting.get(&keeper) {
            wake.push(waker.clone());
        }
    }

    /// Calls all waiters, because the queue is over.
    pub(crate) fn call_all(&mut self, wake: &mut Wake) {
        while let Some((_, waker)) = self.waiting.pop_first() {
            self.called += 1;
            wake.push(waker);
        }
    }
}
