//! Calls that were left for the next holder of the queue's lock.
//!
//! While no worker waits, an add or a finished key concerns only calls that are still to come: the caller leaves it in the inbox,
//! and the next call that takes the queue's lock applies it first, in order. Producers then take no lock and never touch the data of
//! the queue, which stays in the caches of the workers' processors.
//!
//! The inbox is open only while that is true: [`Inbox::close`] comes before the first worker waits. A caller looks whether the
//! inbox is open before it leaves a call and once more afterwards. If the inbox was closed in between, either the closing thread
//! has found the call, or the caller finds the inbox closed and applies the call itself.

use std::sync::OnceLock;

use crate::machine::Run;
use crate::machine::keys::Slot;
use crate::sync::{AtomicBool, Ordering, Ring, fence};

/// A call without a result.
pub(crate) enum DeferredCall<K> {
    Add { hash: u64, key: K },
    Finish { slot: Slot, run: Run, forgets: bool },
}

/// The result of [`Inbox::leave`].
pub(crate) enum Left<K> {
    /// The next holder of the queue's lock applies the call.
    Behind,
    /// The inbox was closed meanwhile: the caller takes the queue's lock and applies all calls.
    Late,
    /// The inbox is closed or full: the caller takes the queue's lock for this call.
    Refused(DeferredCall<K>),
}

/// Calls that are left at most.
const CAPACITY: usize = 256;

/// Aligned to two cache lines, which processors fetch in pairs: it is read by producers and workers and seldom written.
#[repr(align(128))]
pub(crate) struct Inbox<K> {
    is_open: AtomicBool,
    /// None before the inbox is first opened: most queues have a name and never open it.
    calls: OnceLock<Ring<DeferredCall<K>>>,
}

impl<K> Inbox<K> {
    /// Returns a closed inbox.
    pub(crate) fn new() -> Self {
        Inbox { is_open: AtomicBool::new(false), calls: OnceLock::new() }
    }

    /// Leaves a call, if the inbox is open.
    #[inline]
    pub(crate) fn leave(&self, call: DeferredCall<K>) -> Left<K> {
        if !self.is_open.load(Ordering::Relaxed) {
            return Left::Refused(call);
        }
        let Some(calls) = self.calls.get() else { return Left::Refused(call) };
        if let Err(call) = calls.push(call) {
            return Left::Refused(call);
        }
        // One of the two threads sees what the other did before its fence: see `close`.
        fence(Ordering::SeqCst);
        if self.is_open.load(Ordering::Relaxed) { Left::Behind } else { Left::Late }
    }

    /// Returns whether there are calls, as far as this thread knows.
    #[inline]
    pub(crate) fn has_calls(&self) -> bool {
        self.calls.get().is_some_and(|calls| !calls.is_empty())
    }

    /// Moves all calls to `calls`, which is empty. The caller holds the queue's lock.
    #[inline]
    pub(crate) fn take(&self, calls: &mut Vec<DeferredCall<K>>) {
        let Some(left) = self.calls.get() else { return };
        // Calls that come meanwhile may stay. A pop that finds nothing costs a fence, so none is tried.
        calls.extend(std::iter::from_fn(|| left.pop()).take(left.len()));
    }

    /// Refuses calls from now on, and moves those that were left to `calls`, which is empty. The caller holds the queue's lock.
    pub(crate) fn close(&self, calls: &mut Vec<DeferredCall<K>>) {
        self.is_open.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.take(calls);
    }

    /// Accepts calls from now on. The caller holds the queue's lock.
    pub(crate) fn open(&self) {
        self.calls.get_or_init(|| Ring::new(CAPACITY));
        self.is_open.store(true, Ordering::Relaxed);
    }
}
