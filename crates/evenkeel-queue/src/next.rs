//! Waiting for a key: [`NextItem`] for tasks, [`next_blocking`] for threads.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker, ready};

use tokio::task::coop;

use crate::clock::Sleep;
use crate::machine::time::Time;
use crate::shared::{NextPoll, Shared};
use crate::sync::{Arc, thread};
use crate::waiters::WaiterId;
use crate::{Item, Key};

/// The future of the next item: see [`WorkQueue::next`](crate::WorkQueue::next).
#[must_use = "a future does nothing unless it is awaited"]
pub struct NextItem<'q, K: Key> {
    shared: &'q Arc<Shared<K>>,
    id: Option<WaiterId>,
    sleep: Option<(Time, Sleep)>,
}

impl<'q, K: Key> NextItem<'q, K> {
    pub(crate) fn new(shared: &'q Arc<Shared<K>>) -> Self {
        NextItem { shared, id: None, sleep: None }
    }
}

impl<K: Key> Future for NextItem<'_, K> {
    type Output = Option<Item<K>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        // A worker that always finds a key yields to other tasks of the runtime.
        let turn = ready!(coop::poll_proceed(context));
        loop {
            match this.shared.poll_next(&mut this.id, context.waker()) {
                NextPoll::Got(taken) => {
                    turn.made_progress();
                    return Poll::Ready(Some(Item::new(this.shared, taken)));
                }
                NextPoll::Over => {
                    turn.made_progress();
                    return Poll::Ready(None);
                }
                NextPoll::Busy => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                NextPoll::Wait(None) => {
                    this.sleep = None;
                    return Poll::Pending;
                }
                NextPoll::Wait(Some(time)) => {
                    let (_, sleep) = match &mut this.sleep {
                        Some(known) if known.0 == time => known,
                        other => other.insert((time, this.shared.clock.sleep_until(this.shared.instant(time)))),
                    };
                    if sleep.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    this.sleep = None;
                }
            }
        }
    }
}

impl<K: Key> Drop for NextItem<'_, K> {
    fn drop(&mut self) {
        self.shared.leave(&mut self.id);
    }
}

/// Blocks the thread until a key is ready.
pub(crate) fn next_blocking<K: Key>(shared: &Arc<Shared<K>>) -> Option<Item<K>> {
    // A waker costs an allocation, which a worker that finds a key does not need.
    if let Some(taken) = shared.take_or_spin() {
        return Some(Item::new(shared, taken));
    }
    let waker = Waker::from(std::sync::Arc::new(Unpark(thread::current())));
    let mut waiting = Blocked { shared, id: None };
    loop {
        match shared.poll_next(&mut waiting.id, &waker) {
            NextPoll::Got(taken) => return Some(Item::new(shared, taken)),
            NextPoll::Over => return None,
            NextPoll::Busy => thread::yield_now(),
            NextPoll::Wait(None) => thread::park(),
            NextPoll::Wait(Some(time)) => {
                thread::park_timeout(shared.instant(time).saturating_duration_since(shared.clock.now()));
            }
        }
    }
}

/// A blocked thread. Its drop removes the waiter, also during a panic.
struct Blocked<'q, K: Key> {
    shared: &'q Shared<K>,
    id: Option<WaiterId>,
}

impl<K: Key> Drop for Blocked<'_, K> {
    fn drop(&mut self) {
        self.shared.leave(&mut self.id);
    }
}

/// A waker that unparks a thread.
pub(crate) struct Unpark(pub(crate) thread::Thread);

impl Wake for Unpark {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
}
