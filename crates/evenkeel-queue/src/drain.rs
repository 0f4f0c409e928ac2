//! An end in good order.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::Key;
use crate::clock::Sleep;
use crate::next::Unpark;
use crate::shared::Shared;
use crate::sync::{Arc, thread};
use crate::waiters::WaiterId;

/// How a queue is to be drained: see [`WorkQueue::drain`](crate::WorkQueue::drain).
///
/// The draining has begun when this exists. Await it, or call [`wait`](Self::wait), to know when it has ended.
#[must_use = "awaiting it tells when the queue is empty"]
pub struct Drain<K: Key> {
    shared: Arc<Shared<K>>,
    deadline: Option<Instant>,
}

/// A queue was not drained.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DrainError {
    /// It took longer than it was allowed to. The draining goes on.
    #[error("the queue is not drained yet: {ready} keys are ready and {in_flight} are being processed")]
    OutOfTime {
        /// Keys that nobody has taken.
        ready: usize,
        /// Keys that workers have.
        in_flight: usize,
    },
    /// The queue was shut down meanwhile, which does not wait for anything.
    #[error(
        "the queue was shut down before it was drained: {ready} keys are ready and {in_flight} are being processed"
    )]
    ShutDown {
        /// Keys that nobody has taken.
        ready: usize,
        /// Keys that workers have.
        in_flight: usize,
    },
}

impl<K: Key> Drain<K> {
    pub(crate) fn new(shared: Arc<Shared<K>>) -> Self {
        Drain { shared, deadline: None }
    }

    /// Waits no longer than that.
    ///
    /// To await it then takes a runtime of tokio with timers, or it panics, unless the queue was built with another clock.
    /// [`wait`](Self::wait) needs none.
    pub fn within(mut self, limit: Duration) -> Self {
        self.deadline = self.shared.clock.now().checked_add(limit);
        self
    }

    /// Waits with the whole thread, for use without a runtime.
    pub fn wait(self) -> Result<(), DrainError> {
        let waker = Waker::from(std::sync::Arc::new(Unpark(thread::current())));
        // Leaves when it is dropped.
        let mut waiting = DrainFuture { shared: self.shared, id: None, sleep: None };
        let drained = loop {
            if let Some(drained) = waiting.shared.ask_drained(&mut waiting.id, &waker) {
                break Some(drained);
            }
            match self.deadline.map(|deadline| deadline.saturating_duration_since(waiting.shared.clock.now())) {
                None => thread::park(),
                Some(Duration::ZERO) => break None,
                Some(left) => thread::park_timeout(left),
            }
        };
        outcome(&waiting.shared, drained)
    }
}

impl<K: Key> IntoFuture for Drain<K> {
    type Output = Result<(), DrainError>;
    type IntoFuture = DrainFuture<K>;

    fn into_future(self) -> DrainFuture<K> {
        let sleep = self.deadline.map(|deadline| self.shared.clock.sleep_until(deadline));
        DrainFuture { shared: self.shared, id: None, sleep }
    }
}

/// The future of the end of a queue.
#[must_use = "a future does nothing unless it is awaited"]
pub struct DrainFuture<K: Key> {
    shared: Arc<Shared<K>>,
    id: Option<WaiterId>,
    sleep: Option<Sleep>,
}

impl<K: Key> Future for DrainFuture<K> {
    type Output = Result<(), DrainError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(drained) = this.shared.ask_drained(&mut this.id, context.waker()) {
            return Poll::Ready(outcome(&this.shared, Some(drained)));
        }
        match &mut this.sleep {
            Some(sleep) => sleep.as_mut().poll(context).map(|()| outcome(&this.shared, None)),
            None => Poll::Pending,
        }
    }
}

impl<K: Key> Drop for DrainFuture<K> {
    fn drop(&mut self) {
        self.shared.leave_drain(&mut self.id);
    }
}

fn outcome<K: Key>(shared: &Shared<K>, drained: Option<bool>) -> Result<(), DrainError> {
    let (ready, in_flight) =
        shared.look(|state| (state.machine.depth() + state.machine.waiting(), state.machine.processing()));
    match drained {
        Some(true) => Ok(()),
        Some(false) => Err(DrainError::ShutDown { ready, in_flight }),
        None => Err(DrainError::OutOfTime { ready, in_flight }),
    }
}
