//! Waiting for a key.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker, ready};

use tokio::task::coop;

use crate::clock::Sleep;
use crate::core::time::Time;
use crate::shared::{Asked, Shared};
use crate::sync::{Arc, thread};
use crate::waiters::WaiterId;
use crate::{Item, Key};

/// The future of the next key: see [`WorkQueue::next`](crate::WorkQueue::next).
#[must_use = "a future does nothing unless it is awaited"]
pub struct Next<'q, K: Key> {
    shared: &'q Arc<Shared<K>>,
    id: Option<WaiterId>,
    sleep: Option<(Time, Sleep)>,
}

impl<'q, K: Key> Next<'q, K> {
    pub(crate) fn new(shared: &'q Arc<Shared<K>>) -> Self {
        Next { shared, id: None, sleep: None }
    }
}

impl<K: Key> Future for Next<'_, K> {
    type Output = Option<Item<K>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        // A worker that always finds a key lets other tasks of the runtime have their turn now and then.
        let turn = ready!(coop::poll_proceed(context));
        loop {
            match this.shared.ask(&mut this.id, context.waker()) {
                Asked::Got(taken) => {
                    turn.made_progress();
                    return Poll::Ready(Some(Item::new(this.shared, taken)));
                }
                Asked::Over => {
                    turn.made_progress();
                    return Poll::Ready(None);
                }
                Asked::Busy => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Asked::Wait(None) => {
                    this.sleep = None;
                    return Poll::Pending;
                }
                Asked::Wait(Some(time)) => {
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

impl<K: Key> Drop for Next<'_, K> {
    fn drop(&mut self) {
        self.shared.leave(&mut self.id);
    }
}

/// Waits for a key with the whole thread.
pub(crate) fn next_blocking<K: Key>(shared: &Arc<Shared<K>>) -> Option<Item<K>> {
    let waker = Waker::from(std::sync::Arc::new(Unpark(thread::current())));
    let mut waiting = Blocked { shared, id: None };
    loop {
        match shared.ask(&mut waiting.id, &waker) {
            Asked::Got(taken) => return Some(Item::new(shared, taken)),
            Asked::Over => return None,
            Asked::Busy => thread::yield_now(),
            Asked::Wait(None) => thread::park(),
            Asked::Wait(Some(time)) => {
                thread::park_timeout(shared.instant(time).saturating_duration_since(shared.clock.now()));
            }
        }
    }
}

/// A thread that waits. It is not counted any more when it has gone, also if it goes by a panic.
struct Blocked<'q, K: Key> {
    shared: &'q Shared<K>,
    id: Option<WaiterId>,
}

impl<K: Key> Drop for Blocked<'_, K> {
    fn drop(&mut self) {
        self.shared.leave(&mut self.id);
    }
}

/// Wakes a thread.
pub(crate) struct Unpark(pub(crate) thread::Thread);

impl Wake for Unpark {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
}
