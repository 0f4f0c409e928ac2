//! [`Listener`]: the queue of one handler, and the permit to call it.

mod latest;
mod task;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_core::Untyped;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use self::latest::{LatestItem, LatestQueue};
pub(crate) use self::task::{Callback, run, run_blocking};
use super::metrics::HandlerMetrics;
use super::observe::Observers;
use crate::Event;
use crate::handler::{Delivery, OnPanic};

/// How far a handler is behind, and what it has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lag {
    /// The number of pending notifications, the one in progress included.
    pub pending: usize,
    /// Since when the oldest is pending.
    pub since: Option<Instant>,
    /// The number of finished calls, including those that panicked.
    pub delivered: u64,
    /// The number of calls that panicked.
    pub panics: u64,
}

/// Notifications that several handlers share.
pub(crate) type EventBatch = Arc<[Event<Untyped>]>;

/// The next work of a handler.
#[derive(Debug)]
pub(crate) enum Work {
    Batch(EventBatch),
    One(Event<Untyped>),
    /// The initial notifications are complete.
    Synced,
    /// Dropped when all earlier work is done.
    Barrier(Barrier),
}

/// A sender on which nothing is sent: its receiver ends when all listeners have dropped theirs.
pub(crate) type Barrier = mpsc::Sender<std::convert::Infallible>;

impl Work {
    /// Returns the notifications.
    pub(crate) fn events(&self) -> &[Event<Untyped>] {
        match self {
            Work::Batch(batch) => batch,
            Work::One(event) => std::slice::from_ref(event),
            Work::Synced | Work::Barrier(_) => &[],
        }
    }

    /// Marks the work as done.
    pub(crate) fn done(&self, listener: &Listener) {
        if matches!(self, Work::Synced) {
            listener.set_synced(InitialSync::Done);
        }
    }
}

/// Whether a handler has processed the initial notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitialSync {
    Pending,
    Done,
    /// It never will: the handler was removed.
    Never,
}

/// The queue of one handler, and the permit to call it.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) name: String,
    pub(crate) on_panic: OnPanic,
    queue: Mutex<ListenerQueue>,
    wake: Notify,
    /// The number of pending notifications, the one in progress included.
    pending: AtomicUsize,
    permit: AtomicU8,
    synced: watch::Sender<InitialSync>,
    /// Whether the task of the handler runs.
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
    /// When the notifications in progress were queued.
    since: Option<Instant>,
    /// Work that arrived while the initial objects are copied; `None` when they are there.
    held: Option<Vec<(Instant, Work)>>,
}

#[derive(Debug)]
enum PendingWork {
    Every(VecDeque<(Instant, Work)>),
    Latest(LatestQueue),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListenerStop {
    No,
    /// Queued notifications are delivered; new ones are dropped.
    Drain,
    /// Nothing more is delivered.
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
            queue: Mutex::new(ListenerQueue { waiting, ending: ListenerStop::No, since: None, held: None }),
            wake: Notify::new(),
            pending: AtomicUsize::new(0),
            permit: AtomicU8::new(permit::IDLE),
            synced: watch::Sender::new(InitialSync::Pending),
            alive: watch::Sender::new(false),
            panics: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            metrics,
            observers,
        }
    }

    /// Queues notifications. Never blocks.
    pub(crate) fn push(&self, batch: &EventBatch, now: Instant) {
        if batch.is_empty() {
            return;
        }
        let mut queue_state = self.lock();
        if queue_state.ending != ListenerStop::No {
            return;
        }
        match &mut queue_state.held {
            Some(held) => held.push((now, Work::Batch(Arc::clone(batch)))),
            None => self.enqueue(&mut queue_state, batch, now),
        }
        self.measure(&queue_state, now);
        drop(queue_state);
        self.wake.notify_one();
    }

    fn enqueue(&self, queue_state: &mut ListenerQueue, batch: &EventBatch, now: Instant) {
        match &mut queue_state.waiting {
            PendingWork::Every(queue) => {
                queue.push_back((now, Work::Batch(Arc::clone(batch))));
                self.pending.fetch_add(batch.len(), Ordering::Relaxed);
            }
            PendingWork::Latest(latest) => {
                let before = latest.len();
                batch.iter().for_each(|event| latest.push(event.clone(), now));
                let after = latest.len();
                // Merging may leave fewer than before.
                self.pending.fetch_add(after, Ordering::Relaxed);
                self.pending.fetch_sub(before, Ordering::Relaxed);
            }
        }
    }

    /// Holds back all work until [`release`](Self::release): the initial objects come first, and copying them takes a while.
    pub(crate) fn hold(&self) {
        self.lock().held = Some(Vec::new());
    }

    /// Queues the initial notifications, then the work that was held back.
    pub(crate) fn release(&self, initial: &EventBatch, synced: bool, now: Instant) {
        // Folded without the lock, which the process loop takes for each notification.
        let mut latest = LatestQueue::default();
        let is_latest = matches!(self.lock().waiting, PendingWork::Latest(_));
        if is_latest {
            initial.iter().for_each(|event| latest.push(event.clone(), now));
        }
        let mut queue_state = self.lock();
        let held = queue_state.held.take().unwrap_or_default();
        if queue_state.ending == ListenerStop::Now {
            return;
        }
        match &mut queue_state.waiting {
            PendingWork::Latest(own) => {
                self.pending.fetch_add(latest.len(), Ordering::Relaxed);
                *own = latest;
            }
            PendingWork::Every(_) if initial.is_empty() => {}
            PendingWork::Every(_) => self.enqueue(&mut queue_state, initial, now),
        }
        if synced {
            queue_state.push_synced(now);
        }
        for (at, work) in held {
            match work {
                Work::Batch(batch) => self.enqueue(&mut queue_state, &batch, at),
                Work::One(_) => {}
                Work::Synced => queue_state.push_synced(at),
                Work::Barrier(barrier) => queue_state.push_barrier(barrier, at),
            }
        }
        self.measure(&queue_state, now);
        drop(queue_state);
        self.wake.notify_one();
    }

    /// Updates the lag metrics.
    pub(crate) fn measure_now(&self, now: Instant) {
        self.measure(&self.lock(), now);
    }

    fn measure(&self, queue_state: &ListenerQueue, now: Instant) {
        let Lag { pending, since, .. } = self.lag_of(queue_state);
        self.metrics.behind(pending, since.map(|since| now.saturating_duration_since(since)).unwrap_or_default());
    }

    /// Counts a call that panicked.
    fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
        self.metrics.panicked();
    }

    /// Marks the end of the initial notifications.
    pub(crate) fn push_synced(&self, now: Instant) {
        let mut queue_state = self.lock();
        match &mut queue_state.held {
            Some(held) => held.push((now, Work::Synced)),
            None => queue_state.push_synced(now),
        }
        drop(queue_state);
        self.wake.notify_one();
    }

    /// Queues a barrier, if a task calls the handler.
    pub(crate) fn push_barrier(&self, barrier: &Barrier, now: Instant) {
        if !*self.alive.borrow() {
            return;
        }
        let mut queue_state = self.lock();
        if queue_state.ending == ListenerStop::Now {
            return;
        }
        match &mut queue_state.held {
            Some(held) => held.push((now, Work::Barrier(barrier.clone()))),
            None => queue_state.push_barrier(barrier.clone(), now),
        }
        drop(queue_state);
        self.wake.notify_one();
    }

    /// Returns the next work; `None` when the listener has stopped. Cancel safe.
    pub(crate) async fn next(&self) -> Option<Work> {
        loop {
            let woken = self.wake.notified();
            {
                let mut queue_state = self.lock();
                if queue_state.ending == ListenerStop::Now {
                    return None;
                }
                if let Some(work) = queue_state.take() {
                    self.measure(&queue_state, Instant::now());
                    return Some(work);
                }
                queue_state.since = None;
                self.measure(&queue_state, Instant::now());
                if queue_state.ending == ListenerStop::Drain && queue_state.held.is_none() {
                    return None;
                }
            }
            woken.await;
        }
    }

    /// Returns the number of pending notifications, the one in progress included.
    fn pending(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    /// Requests permission for one call. If granted, [`end_call`](Self::end_call) must follow; if not, no further call is permitted.
    pub(crate) fn begin_call(&self) -> bool {
        self.permit.compare_exchange(permit::IDLE, permit::CALLING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Records the end of a call. Returns whether more may follow.
    pub(crate) fn end_call(&self) -> bool {
        // A revoked listener has no pending notifications.
        let _ = self.pending.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |pending| pending.checked_sub(1));
        self.delivered.fetch_add(1, Ordering::Relaxed);
        self.permit.compare_exchange(permit::CALLING, permit::IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Stops after the queued notifications are delivered.
    pub(crate) fn drain(&self) {
        let mut queue_state = self.lock();
        if queue_state.ending == ListenerStop::No {
            queue_state.ending = ListenerStop::Drain;
        }
        drop(queue_state);
        self.wake.notify_one();
    }

    /// Stops at once: a call in progress completes, and no other starts once this has returned.
    pub(crate) fn revoke(&self) {
        self.permit.store(permit::REVOKED, Ordering::Release);
        let mut queue_state = self.lock();
        queue_state.ending = ListenerStop::Now;
        let discarded = std::mem::replace(&mut queue_state.waiting, PendingWork::Every(VecDeque::new()));
        queue_state.since = None;
        drop(queue_state);
        self.pending.store(0, Ordering::Relaxed);
        self.metrics.behind(0, Duration::ZERO);
        // Dropped without the lock: it may hold many objects.
        drop(discarded);
        self.set_synced(InitialSync::Never);
        self.wake.notify_one();
    }

    /// Sets whether the initial notifications were processed. Only the first call has an effect.
    pub(crate) fn set_synced(&self, synced: InitialSync) {
        self.synced.send_if_modified(|current| {
            let changes = *current == InitialSync::Pending && synced != InitialSync::Pending;
            if changes {
                *current = synced;
            }
            changes
        });
    }

    pub(crate) fn synced(&self) -> watch::Receiver<InitialSync> {
        self.synced.subscribe()
    }

    pub(crate) fn is_synced(&self) -> bool {
        *self.synced.borrow() == InitialSync::Done
    }

    /// Sets whether the task of the handler runs.
    pub(crate) fn set_alive(&self, alive: bool) {
        self.alive.send_replace(alive);
    }

    /// Waits until the task of the handler has ended.
    pub(crate) async fn dropped(&self) {
        // `self` holds the sender.
        let _ = self.alive.subscribe().wait_for(|alive| !alive).await;
    }

    pub(crate) fn is_revoked(&self) -> bool {
        self.permit.load(Ordering::Acquire) == permit::REVOKED
    }

    pub(crate) fn lag(&self) -> Lag {
        self.lag_of(&self.lock())
    }

    fn lag_of(&self, queue_state: &ListenerQueue) -> Lag {
        let waiting = match &queue_state.waiting {
            PendingWork::Every(queue) => queue.front().map(|(since, _)| *since),
            PendingWork::Latest(latest) => latest.since(),
        };
        let pending = self.pending();
        Lag {
            pending,
            since: queue_state.since.or(waiting).filter(|_| pending > 0),
            delivered: self.delivered.load(Ordering::Relaxed),
            panics: self.panics.load(Ordering::Relaxed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ListenerQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ListenerQueue {
    fn push_synced(&mut self, now: Instant) {
        match &mut self.waiting {
            PendingWork::Every(queue) => queue.push_back((now, Work::Synced)),
            PendingWork::Latest(latest) => latest.push_synced(),
        }
    }

    fn push_barrier(&mut self, barrier: Barrier, now: Instant) {
        match &mut self.waiting {
            PendingWork::Every(queue) => queue.push_back((now, Work::Barrier(barrier))),
            PendingWork::Latest(latest) => latest.push_barrier(barrier),
        }
    }

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
                LatestItem::Barrier(barrier) => Work::Barrier(barrier),
            }),
        }
    }
}
