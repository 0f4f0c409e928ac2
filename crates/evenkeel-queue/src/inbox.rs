//! Calls that were left for the next holder of the queue's lock.
//!
//! While no worker waits, an add or a finished key concerns only calls that are still to come: the caller leaves it in the inbox,
//! and the next call that takes the queue's lock applies it first, in order. Producers then take a lock for the time of one push
//! and never touch the data of the queue, which stays in the caches of the workers' processors.
//!
//! The inbox is open only while that is true: [`Inbox::close`] comes before the first worker waits. Whether it is open is decided
//! under the lock of the inbox, so that no call is left behind. That lock is taken inside of the queue's lock or without it, never
//! the other way round.

use crate::machine::Run;
use crate::machine::keys::Slot;
use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering, lock};

/// A call without a result.
pub(crate) enum DeferredCall<K> {
    Add { hash: u64, key: K },
    Finish { slot: Slot, run: Run, forgets: bool },
}

/// The result of [`Inbox::leave`].
pub(crate) enum Left<K> {
    /// The next holder of the queue's lock applies the call.
    Behind,
    /// As `Behind`, and the caller applies all calls if the queue's lock is free.
    Many,
    /// As `Behind`, and the caller waits for the queue's lock and applies all calls.
    Full,
    /// The inbox is closed.
    Refused(DeferredCall<K>),
}

/// Calls after which a caller applies them if the queue's lock is free.
const MANY: usize = 32;

/// Calls that are left at most, and one more for each concurrent caller.
const FULL: usize = 256;

/// Aligned to two cache lines, which processors fetch in pairs: producers and workers write to different ones.
#[repr(align(128))]
pub(crate) struct Inbox<K> {
    contents: Mutex<Contents<K>>,
    /// A copy of [`Contents::is_open`], which may be read late.
    looks_open: AtomicBool,
    /// Whether there may be calls. Never false for a thread that knows of a call in the inbox.
    has_calls: AtomicBool,
}

struct Contents<K> {
    calls: Vec<DeferredCall<K>>,
    is_open: bool,
}

impl<K> Inbox<K> {
    /// Returns a closed inbox.
    pub(crate) fn new() -> Self {
        let contents = Mutex::new(Contents { calls: Vec::new(), is_open: false });
        Inbox { contents, looks_open: AtomicBool::new(false), has_calls: AtomicBool::new(false) }
    }

    /// Leaves a call, if the inbox is open.
    #[inline]
    pub(crate) fn leave(&self, call: DeferredCall<K>) -> Left<K> {
        if !self.looks_open.load(Ordering::Relaxed) {
            return Left::Refused(call);
        }
        let mut contents = self.lock();
        if !contents.is_open {
            return Left::Refused(call);
        }
        contents.calls.push(call);
        let count = contents.calls.len();
        if count == 1 {
            self.has_calls.store(true, Ordering::Relaxed);
        }
        drop(contents);
        match count {
            ..MANY => Left::Behind,
            MANY..FULL => Left::Many,
            _ => Left::Full,
        }
    }

    /// Returns whether there are calls, as far as this thread knows.
    #[inline]
    pub(crate) fn has_calls(&self) -> bool {
        self.has_calls.load(Ordering::Relaxed)
    }

    /// Moves all calls to `calls`, which is empty.
    #[inline]
    pub(crate) fn take(&self, calls: &mut Vec<DeferredCall<K>>) {
        if self.has_calls() {
            self.empty(&mut self.lock(), calls);
        }
    }

    /// Refuses calls from now on, and moves those that were left to `calls`, which is empty.
    pub(crate) fn close(&self, calls: &mut Vec<DeferredCall<K>>) {
        let mut contents = self.lock();
        contents.is_open = false;
        self.looks_open.store(false, Ordering::Relaxed);
        self.empty(&mut contents, calls);
    }

    /// Accepts calls from now on.
    pub(crate) fn open(&self) {
        self.lock().is_open = true;
        self.looks_open.store(true, Ordering::Relaxed);
    }

    fn empty(&self, contents: &mut Contents<K>, calls: &mut Vec<DeferredCall<K>>) {
        self.has_calls.store(false, Ordering::Relaxed);
        std::mem::swap(&mut contents.calls, calls);
    }

    fn lock(&self) -> MutexGuard<'_, Contents<K>> {
        lock(&self.contents)
    }
}
