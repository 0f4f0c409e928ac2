//! [`Subscription`]: what happens, as a stream.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::core::User;
use super::listener::{Batch, Listener, Told, Work};
use super::registration::Registration;
use crate::Event;

/// What happens to the objects of an informer, as a stream: first everything that there is, then what happens.
///
/// - It is told what a handler is told, under the same promises.
/// - An event counts as told when the next one is asked for.
/// - It ends when the informer does. Dropping it is the end of it, and until then it keeps the informer running.
pub struct Subscription<K> {
    user: Arc<User>,
    listener: Arc<Listener>,
    batch: Option<(Batch, usize)>,
    /// Whether an event was handed out that is not known to be done with.
    calling: bool,
    waiting: Option<Waiting>,
    /// How many events in a row were there at once.
    streak: u32,
    kind: PhantomData<fn() -> K>,
}

/// How many events in a row are handed out before others get their turn.
const STREAK: u32 = 128;

type Waiting = Pin<Box<dyn Future<Output = Option<Work>> + Send>>;

impl<K> Subscription<K> {
    pub(super) fn new(user: Arc<User>, listener: Arc<Listener>) -> Self {
        Subscription { user, listener, batch: None, calling: false, waiting: None, streak: 0, kind: PhantomData }
    }

    /// The next event; `None` when the informer has ended. May be dropped and called again: no event is lost.
    pub async fn next(&mut self) -> Option<Event<K>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Its place in the informer: whether it has synced, and how far it is behind.
    pub fn registration(&self) -> Registration {
        Registration::new(&self.user.0, &self.listener)
    }

    /// The event that was handed out last is done with.
    fn finish(&mut self) {
        if std::mem::take(&mut self.calling) {
            self.listener.end_call();
        }
    }

    fn hand_out(&mut self, event: Event<evenkeel_core::Untyped>) -> Option<Event<K>> {
        self.calling = self.listener.begin_call();
        self.calling.then(|| event.cast())
    }
}

impl<K> Stream for Subscription<K> {
    type Item = Event<K>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event<K>>> {
        let this = &mut *self;
        this.finish();
        this.streak += 1;
        if this.streak > STREAK {
            this.streak = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            if let Some((batch, next)) = &mut this.batch {
                if let Some(event) = batch.get(*next).cloned() {
                    *next += 1;
                    return Poll::Ready(this.hand_out(event));
                }
                this.batch = None;
            }
            let waiting = this.waiting.get_or_insert_with(|| {
                let listener = Arc::clone(&this.listener);
                Box::pin(async move { listener.next().await })
            });
            let Poll::Ready(work) = waiting.as_mut().poll(context) else {
                this.streak = 0;
                return Poll::Pending;
            };
            this.waiting = None;
            match work {
                Some(Work::Batch(batch)) => this.batch = Some((batch, 0)),
                Some(Work::One(event)) => return Poll::Ready(this.hand_out(event)),
                Some(Work::Synced) => this.listener.tell(Told::All),
                None => {
                    this.listener.revoke();
                    return Poll::Ready(None);
                }
            }
        }
    }
}

// What is pinned is in a box of its own.
impl<K> Unpin for Subscription<K> {}

impl<K> Drop for Subscription<K> {
    fn drop(&mut self) {
        self.user.0.leave(&self.listener);
    }
}

impl<K> fmt::Debug for Subscription<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("registration", &self.registration()).finish()
    }
}
