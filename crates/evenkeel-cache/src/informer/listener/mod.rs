//! One handler's side of an informer: what it has yet to hear, and whether it may still be called.

mod latest;
mod task;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_core::Untyped;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use self::latest::{LatestItem, LatestQueue};
pub(crate) use self::task::{Callback, run, run_blocking};
use super::metrics::HandlerMetrics;
use super::observe::Observers;
use crate::Event;
use crate::handler::{Delivery, OnPanic};

/// How far a handler is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lag {
    /// How many notifications it has yet to hear, the one that it is being told included.
    pub pending: usize,
    /// Since when the oldest of them has been waiting.
    pub since: Option<Instant>,
}

/// Notifications that many handlers share.
pub(crate) type Batch = Arc<[Event<Untyped>]>;

/// What is next for a handler.
#[derive(Debug)]
pub(crate) enum Work {
    Batch(Batch),
    One(Event<Untyped>),
    /// All that there was in the beginning has been told.
    Synced,
}

impl Work {
    /// What is to be told.
    pub(crate) fn events(&self) -> &[Event<Untyped>] {
        match self {
            Work::Batch(batch) => batch,
            Work::One(event) => std::slice::from_ref(event),
            Work::Synced => &[],
        }
    }

    /// All of it has been told.
    pub(crate) fn done(&self, listener: &Listener) {
        if matches!(self, Work::Synced) {
            listener.tell(Told::All);
        }
    }
}

/// Whether a handler has been told of all that there was in the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    NotYet,
    All,
    /// It never will be.
    Never,
}

/// One handler's side of an informer.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) name: String,
    pub(crate) on_panic: OnPanic,
    inbox: Mutex<ListenerQueue>,
    wake: Notify,
    /// Told and being told.
    pending: AtomicUsize,
    permit: AtomicU8,
    told: watch::Sender<Told>,
    /// Whether there is a task that calls the handler.
    alive: watch::Sender<bool>,
    pub(crate) panics: AtomicU64,
    pub(crate) delivered: AtomicU64,
    metrics: HandlerMetrics,
    observers: Arc<Observers>,
}

#[derive(Debug)]
struct ListenerQueue {
    waiting: PendingWork,
    ending: ListenerStop,
    /// When the notifications came that are being told.
    since: Option<Instant>,
}

#[derive(Debug)]
enum PendingWork {
    Every(VecDeque<(Instant, Work)>),
    Latest(LatestQueue),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListenerStop {
    No,
    /// Nothing more comes in; what is there is still told.
    Drain,
    /// Nothing more is told.
    Now,
}

/// States of the permit to call a handler.
mod permit {
    pub(super) const IDLE: u8 = 0;
    pub(super) const CALLING: u8 = 1;
    pub(super) const REVOKED: u8 = 2;
}

impl Listener {
    pub(crate) fn new(
        name: String,
        delivery: Delivery,
        on_panic: OnPanic,
        metrics: HandlerMetrics,
        observers: Arc<Observers>,
    ) -> Self {
        let waiting = match delivery {
            Delivery::Every => PendingWork::Every(VecDeque::new()),
            Delivery::Latest => PendingWork::Latest(LatestQueue::default()),
        };
        Listener {
            name,
            on_panic,
            inbox: Mutex::new(ListenerQueue { waiting, ending: ListenerStop::No, since: None }),
            wake: Notify::new(),
            pending: AtomicUsize::new(0),
            permit: AtomicU8::new(permit::IDLE),
            told: watch::Sender::new(Told::NotYet),
            alive: watch::Sender::new(false),
            panics: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            metrics,
            observers,
        }
    }

    /// Hands in notifications. Never blocks.
    pub(crate) fn push(&self, batch: &Batch, now: Instant) {
        if batch.is_empty() {
            return;
        }
        let mut inbox = self.inbox();
        if inbox.ending != ListenerStop::No {
            return;
        }
        match &mut inbox.waiting {
            PendingWork::Every(queue) => {
                queue.push_back((now, Work::Batch(Arc::clone(batch))));
                self.pending.fetch_add(batch.len(), Ordering::Relaxed);
            }
            PendingWork::Latest(latest) => {
                let before = latest.len();
                batch.iter().for_each(|event| latest.push(event.clone(), now));
                let after = latest.len();
                // Folding may leave fewer than there were.
                self.pending.fetch_add(after, Ordering::Relaxed);
                self.pending.fetch_sub(before, Ordering::Relaxed);
            }
        }
        self.measure(&inbox, now);
        drop(inbox);
        self.wake.notify_one();
    }

    /// Shows how far the handler is behind.
    pub(crate) fn measure_now(&self, now: Instant) {
        self.measure(&self.inbox(), now);
    }

    fn measure(&self, inbox: &ListenerQueue, now: Instant) {
        let Lag { pending, since } = self.lag_of(inbox);
        self.metrics.behind(pending, since.map(|since| now.saturating_duration_since(since)).unwrap_or_default());
    }

    /// A call has panicked.
    fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
        self.metrics.panicked();
    }

    /// What has been handed in so far is all that there was in the beginning.
    pub(crate) fn push_synced(&self, now: Instant) {
        let mut inbox = self.inbox();
        match &mut inbox.waiting {
            PendingWork::Every(queue) => queue.push_back((now, Work::Synced)),
            PendingWork::Latest(latest) => latest.push_synced(),
        }
        drop(inbox);
        self.wake.notify_one();
    }

    /// What is next to be told; `None` when there will be nothing more. May be dropped and called again: nothing is lost.
    pub(crate) async fn next(&self) -> Option<Work> {
        loop {
            let woken = self.wake.notified();
            {
                let mut inbox = self.inbox();
                if inbox.ending == ListenerStop::Now {
                    return None;
                }
                if let Some(work) = inbox.take() {
                    self.measure(&inbox, Instant::now());
                    return Some(work);
                }
                inbox.since = None;
                self.measure(&inbox, Instant::now());
                if inbox.ending == ListenerStop::Drain {
                    return None;
                }
            }
            woken.await;
        }
    }

    /// How many notifications the handler has yet to hear, the one that it is being told included.
    fn pending(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    /// Asks to make one call. If this is true, [`end_call`](Self::end_call) has to follow; if not, no call may be made any
    /// more.
    pub(crate) fn begin_call(&self) -> bool {
        self.permit.compare_exchange(permit::IDLE, permit::CALLING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The call has returned. Answers whether more may follow.
    pub(crate) fn end_call(&self) -> bool {
        // Nothing is pending any more if it was revoked meanwhile.
        let _ = self.pending.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |pending| pending.checked_sub(1));
        self.delivered.fetch_add(1, Ordering::Relaxed);
        self.permit.compare_exchange(permit::CALLING, permit::IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Lets what is waiting be told, and nothing after that.
    pub(crate) fn drain(&self) {
        let mut inbox = self.inbox();
        if inbox.ending == ListenerStop::No {
            inbox.ending = ListenerStop::Drain;
        }
        drop(inbox);
        self.wake.notify_one();
    }

    /// Ends it: a call that is being made runs to its end, and no other begins once this has returned.
    pub(crate) fn revoke(&self) {
        self.permit.store(permit::REVOKED, Ordering::Release);
        let mut inbox = self.inbox();
        inbox.ending = ListenerStop::Now;
        let discarded = std::mem::replace(&mut inbox.waiting, PendingWork::Every(VecDeque::new()));
        inbox.since = None;
        drop(inbox);
        self.pending.store(0, Ordering::Relaxed);
        self.metrics.behind(0, Duration::ZERO);
        // Not under the lock: there may be many objects in it.
        drop(discarded);
        self.tell(Told::Never);
        self.wake.notify_one();
    }

    /// Says whether all that there was in the beginning has been told. The first word is the last.
    pub(crate) fn tell(&self, told: Told) {
        self.told.send_if_modified(|now| {
            let changes = *now == Told::NotYet && told != Told::NotYet;
            if changes {
                *now = told;
            }
            changes
        });
    }

    pub(crate) fn told(&self) -> watch::Receiver<Told> {
        self.told.subscribe()
    }

    pub(crate) fn is_told(&self) -> bool {
        *self.told.borrow() == Told::All
    }

    /// Says whether there is a task that calls the handler.
    pub(crate) fn set_alive(&self, alive: bool) {
        self.alive.send_replace(alive);
    }

    /// Waits until there is no task that calls the handler.
    pub(crate) async fn dropped(&self) {
        // The sender lives in here.
        let _ = self.alive.subscribe().wait_for(|alive| !alive).await;
    }

    pub(crate) fn is_revoked(&self) -> bool {
        self.permit.load(Ordering::Acquire) == permit::REVOKED
    }

    pub(crate) fn lag(&self) -> Lag {
        self.lag_of(&self.inbox())
    }

    fn lag_of(&self, inbox: &ListenerQueue) -> Lag {
        let waiting = match &inbox.waiting {
            PendingWork::Every(queue) => queue.front().map(|(since, _)| *since),
            PendingWork::Latest(latest) => latest.since(),
        };
        let pending = self.pending();
        Lag { pending, since: inbox.since.or(waiting).filter(|_| pending > 0) }
    }

    fn inbox(&self) -> MutexGuard<'_, ListenerQueue> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ListenerQueue {
    fn take(&mut self) -> Option<Work> {
        match &mut self.waiting {
            PendingWork::Every(queue) => {
                let (since, work) = queue.pop_front()?;
                self.since = Some(since);
                Some(work)
            }
            PendingWork::Latest(latest) => Some(match latest.pop()? {
                LatestItem::Event(event, since) => {
                    self.since = Some(since);
                    Work::One(event)
                }
                LatestItem::Synced => Work::Synced,
            }),
        }
    }
}
