//! Those who wait for a key, and who of them keeps the time.
//!
//! The one that keeps the time is woken when a key is due; the others are only woken when there is a key for them. No task
//! runs for the queue, and while nobody waits, nobody has to be woken.
//!
//! One that waits may be a future that nobody polls any more. So the next one that begins to wait is the deputy of the one that
//! keeps the time: it wakes up by itself a little later, and if a key is still there, takes it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;
use std::time::Duration;

use crate::machine::time::Time;

/// The number of a waiter. A waiter that has been called has to ask for a new one.
pub(crate) type WaiterId = u64;

#[derive(Default)]
pub(crate) struct Waiters {
    last: WaiterId,
    /// In the order in which they came.
    waiting: BTreeMap<WaiterId, Waker>,
    /// How many have been called to take a key and have not come yet.
    called: usize,
    timekeeper: Option<Timekeeper>,
    deputy: Option<WaiterId>,
}

/// So much later than the one that keeps the time, its deputy wakes up.
const SLACK: Duration = Duration::from_millis(100);

struct Timekeeper {
    id: WaiterId,
    /// What it sleeps until. None if it has been woken to see for itself.
    until: Option<Time>,
}

/// Whom to wake when the lock has been released, which is when this is dropped.
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

/// Wakes them. If one waker panics, the others are woken nevertheless.
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
    /// Begins to wait, or goes on. Answers with when to ask again, if that is up to the waiter, given when the next key is due.
    ///
    /// A waker that is not needed any more goes to `old`, to be dropped when the lock is released.
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

    /// Waits no longer, having got what it wanted or not. The waker is to be dropped when the lock is released.
    #[must_use = "dropping a waker may be anything"]
    pub(crate) fn leave(&mut self, id: &mut Option<WaiterId>) -> Option<Waker> {
        let id = id.take()?;
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

    /// Calls as many as there are keys for, and sees to it that somebody keeps the time if a key is due later.
    pub(crate) fn call(&mut self, ready: usize, next: Option<Time>, wake: &mut Wake) {
        if self.waiting.is_empty() {
            return;
        }
        while self.called < ready {
            // The one that keeps the time is called last, because somebody else would have to be woken to do that. Its deputy
            // has a timer too, which would be for nothing.
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

    /// Calls everybody, because there will be no more keys, or something else that all have to know.
    pub(crate) fn call_all(&mut self, wake: &mut Wake) {
        while let Some((_, waker)) = self.waiting.pop_first() {
            self.called += 1;
            wake.push(waker);
        }
    }
}
