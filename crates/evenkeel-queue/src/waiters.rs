//! Those who wait for a key, and who of them keeps the time.
//!
//! The one that keeps the time is woken when a key is due; the others are only woken when there is a key for them. No task
//! runs for the queue, and while nobody waits, nobody has to be woken.

use std::collections::BTreeMap;
use std::task::Waker;

use crate::core::time::Time;

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
}

struct Timekeeper {
    id: WaiterId,
    /// What it sleeps until. None if it has been woken to see for itself.
    until: Option<Time>,
}

/// Whom to wake when the lock has been released.
#[derive(Default)]
#[must_use]
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

    pub(crate) fn wake(self) {
        if let Some(waker) = self.first {
            waker.wake();
        }
        self.others.into_iter().for_each(Waker::wake);
    }
}

impl Waiters {
    /// Begins to wait, or goes on. Answers with whether to keep the time, given when the next key is due.
    pub(crate) fn wait(&mut self, id: &mut Option<WaiterId>, waker: &Waker, next: Option<Time>) -> bool {
        if let Some(known) = id.and_then(|id| self.waiting.get_mut(&id)) {
            known.clone_from(waker);
        } else {
            self.leave(id);
            self.last += 1;
            self.waiting.insert(self.last, waker.clone());
            *id = Some(self.last);
        }
        let Some(id) = *id else { return false };
        match &mut self.timekeeper {
            Some(timekeeper) if timekeeper.id != id => false,
            timekeeper => {
                *timekeeper = next.map(|next| Timekeeper { id, until: Some(next) });
                next.is_some()
            }
        }
    }

    /// Waits no longer, having got what it wanted or not.
    pub(crate) fn leave(&mut self, id: &mut Option<WaiterId>) {
        let Some(id) = id.take() else { return };
        if self.waiting.remove(&id).is_none() {
            self.called -= 1;
        }
        if self.timekeeper.as_ref().is_some_and(|timekeeper| timekeeper.id == id) {
            self.timekeeper = None;
        }
    }

    /// Calls as many as there are keys for, and sees to it that somebody keeps the time if a key is due later.
    pub(crate) fn call(&mut self, ready: usize, next: Option<Time>, wake: &mut Wake) {
        if self.waiting.is_empty() {
            return;
        }
        while self.called < ready {
            // The one that keeps the time is called last, because somebody else would have to be woken to do that.
            let keeper = self.timekeeper.as_ref().map(|timekeeper| timekeeper.id);
            let mut ids = self.waiting.keys().copied();
            let Some(id) = ids.find(|id| Some(*id) != keeper).or(keeper.filter(|id| self.waiting.contains_key(id)))
            else {
                break;
            };
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
