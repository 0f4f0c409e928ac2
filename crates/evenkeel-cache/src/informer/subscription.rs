//! [`Subscription`]: notifications as a stream.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::listener::{EventBatch, InitialSync, Listener, Work};
use super::registration::Registration;
use super::shared::InformerShared;
use crate::Event;

/// A stream of notifications: the stored objects first, then the changes.
///
/// - The guarantees are those of a handler.
/// - An event counts as delivered when the next one is polled.
/// - The stream ends when the informer stops. Dropping it removes its listener and stops nothing else.
pub struct Subscription<K> {
    shared: Arc<InformerShared>,
    listener: Arc<Listener>,
    batch: Option<(EventBatch, usize)>,
    /// Whether an event was yielded that does not count as delivered yet.
    calling: bool,
    waiting: Option<Waiting>,
    /// Number of events yielded in a row without waiting.
    streak: u32,
    kind: PhantomData<fn() -> K>,
}

/// Number of events that are yielded in a row before other tasks run.
const STREAK: u32 = 128;

type Waiting = Pin<Box<dyn Future<Output = Option<Work>> + Send>>;

impl<K> Subscription<K> {
    pub(super) fn new(shared: Arc<InformerShared>, listener: Arc<Listener>) -> Self {
        Subscription { shared, listener, batch: None, calling: false, waiting: None, streak: 0, kind: PhantomData }
    }

    /// Returns the next event; `None` when the informer has stopped. Cancel safe: no event is lost.
    pub async fn next(&mut self) -> Option<Event<K>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Returns the registration: whether the stream has synced, and how far it is behind.
    pub fn registration(&self) -> Registration {
        Registration::new(&self.shared, &self.listener)
    }

    /// Counts the event that was yielded last as delivered.
    fn finish(&mut self) {
        if std::mem::take(&mut self.calling) {
            self.listener.end_call();
        }
    }

    fn yield_event(&mut self, event: Event<evenkeel_core::Untyped>) -> Option<Event<K>> {
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
                    return Poll::Ready(this.yield_event(event));
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
                Some(Work::One(event)) => return Poll::Ready(this.yield_event(event)),
                Some(Work::Barrier(_)) => {}
                Some(Work::Synced) => this.listener.set_synced(InitialSync::Done),
                None => {
                    this.listener.revoke();
                    return Poll::Ready(None);
                }
            }
        }
    }
}

// The pinned future is boxed.
impl<K> Unpin for Subscription<K> {}

impl<K> Drop for Subscription<K> {
    fn drop(&mut self) {
        self.shared.remove_listener(&self.listener);
    }
}

impl<K> fmt::Debug for Subscription<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("registration", &self.registration()).finish()
    }
}
