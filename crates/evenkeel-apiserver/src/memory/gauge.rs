//! A count of bytes with a limit to wait for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Counts the bytes that its charges hold.
#[derive(Debug)]
pub(crate) struct Gauge {
    used: AtomicUsize,
    limit: usize,
    /// Woken whenever a charge is dropped.
    waiting: Mutex<Vec<Waker>>,
}

impl Gauge {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Gauge { used: AtomicUsize::new(0), limit, waiting: Mutex::default() })
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::SeqCst)
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn is_below_limit(&self) -> bool {
        self.used() < self.limit
    }

    /// Counts these bytes until the charge is dropped, also beyond the limit.
    pub(super) fn charge(self: &Arc<Self>, bytes: usize) -> Charge {
        self.used.fetch_add(bytes, Ordering::SeqCst);
        Charge { gauge: Arc::clone(self), bytes }
    }

    /// Ready if `condition` holds; otherwise the next dropped charge wakes the task.
    pub(super) fn poll_until(&self, cx: &mut Context<'_>, condition: impl Fn() -> bool) -> Poll<()> {
        if condition() {
            return Poll::Ready(());
        }
        {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
        }
        // A charge that was dropped before the waker was registered has woken no task.
        if condition() { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Bytes that a [`Gauge`] counts until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    gauge: Arc<Gauge>,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.gauge.used.fetch_sub(self.bytes, Ordering::SeqCst);
        let waiting = std::mem::take(&mut *self.gauge.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        waiting.into_iter().for_each(Waker::wake);
    }
}
