//! [`Drain`], an orderly shutdown.

use std::future::Future;
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

/// A drain in progress: see [`WorkQueue::drain`](crate::WorkQueue::drain).
///
/// Draining has started when this exists. Await it, or call [`wait`](Self::wait), for its end.
#[must_use = "draining has started; await it for its end"]
pub struct Drain<K: Key> {
    shared: Arc<Shared<K>>,
    deadline: Option<Instant>,
    id: Option<WaiterId>,
    sleep: Option<Sleep>,
}

/// A queue was not drained.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DrainError {
    /// The limit of [`Drain::within`] has passed. Draining continues.
    #[error("queue not drained in time: {ready} keys ready, {in_flight} in flight")]
    OutOfTime {
        /// Keys that are not handed out.
        ready: usize,
        /// Keys in flight.
        in_flight: usize,
    },
    /// The queue was shut down meanwhile, which waits for nothing.
    #[error("queue shut down before it was drained: {ready} keys ready, {in_flight} in flight")]
    ShutDown {
        /// Keys that are not handed out.
        ready: usize,
        /// Keys in flight.
        in_flight: usize,
    },
}

impl<K: Key> Drain<K> {
    pub(crate) fn new(shared: Arc<Shared<K>>) -> Self {
        Drain { shared, deadline: None, id: None, sleep: None }
    }

    /// Limits the wait. [`DrainError::OutOfTime`] is the result after that; draining continues.
    ///
    /// Awaiting the drain then panics outside of a tokio runtime with timers, unless the queue has another clock.
    /// [`wait`](Self::wait) needs no runtime.
    pub fn within(mut self, limit: Duration) -> Self {
        self.deadline = self.shared.clock.now().checked_add(limit);
        self
    }

    /// Blocks the thread until the end. Needs no runtime.
    pub fn wait(mut self) -> Result<(), DrainError> {
        let waker = Waker::from(std::sync::Arc::new(Unpark(thread::current())));
        let drained = loop {
            if let Some(drained) = self.shared.poll_drained(&mut self.id, &waker) {
                break Some(drained);
            }
            match self.deadline.map(|deadline| deadline.saturating_duration_since(self.shared.clock.now())) {
                None => thread::park(),
                Some(Duration::ZERO) => break None,
                Some(left) => thread::park_timeout(left),
            }
        };
        self.result(drained)
    }

    fn result(&self, drained: Option<bool>) -> Result<(), DrainError> {
        let (ready, in_flight) = self.shared.look(|state| {
            let machine = &state.machine;
            (machine.depth() + machine.waiting(), machine.processing())
        });
        match drained {
            Some(true) => Ok(()),
            Some(false) => Err(DrainError::ShutDown { ready, in_flight }),
            None => Err(DrainError::OutOfTime { ready, in_flight }),
        }
    }
}

impl<K: Key> Future for Drain<K> {
    type Output = Result<(), DrainError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(drained) = this.shared.poll_drained(&mut this.id, context.waker()) {
            return Poll::Ready(this.result(Some(drained)));
        }
        let Some(deadline) = this.deadline else { return Poll::Pending };
        let sleep = this.sleep.get_or_insert_with(|| this.shared.clock.sleep_until(deadline));
        sleep.as_mut().poll(context).map(|()| this.result(None))
    }
}

impl<K: Key> Drop for Drain<K> {
    fn drop(&mut self) {
        self.shared.leave_drain(&mut self.id);
    }
}
