//! [`RingShared`]: what the driver, handles, guards and the stream of slices share.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use evenkeel_core::shard::{ShardRange, ShardRanges};
use tokio::sync::{Notify, watch};

use super::clock::RingClock;
use super::member_record::{SliceLoad, WrittenVersions};
use super::slices::SliceEvent;
use super::table::{MAX_SLICES, MemberName, SliceTable};

/// How far the reader of slices may be behind before it is disconnected.
const MOST_EVENTS: usize = 2 * MAX_SLICES;

/// A range that work may run in.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WorkRange {
    pub(super) range: ShardRange,
    pub(super) epoch: u64,
    /// The number of the grant: work of an earlier grant of the same range is another one.
    pub(super) grant: u64,
    /// No work starts any more.
    pub(super) is_draining: bool,
    /// No work is polled any more.
    pub(super) is_closed: bool,
}

/// The state of this process in the ring.
#[derive(Clone, Debug, Default)]
pub(super) struct RingView {
    pub(super) member: Option<MemberName>,
    /// By the clock of the ring.
    pub(super) valid_until: Option<Duration>,
    pub(super) work: Vec<WorkRange>,
    pub(super) table: Option<Arc<SliceTable>>,
}

impl RingView {
    pub(super) fn work_at(&self, place: u64) -> Option<&WorkRange> {
        self.work.iter().find(|work| work.range.contains(place))
    }
}

/// What users of the ring tell the driver.
#[derive(Debug, Default)]
pub(super) struct Reports {
    pub(super) covered: Option<ShardRanges>,
    pub(super) load: Option<Vec<SliceLoad>>,
    pub(super) released: Vec<(u64, WrittenVersions)>,
}

#[derive(Debug, Default)]
struct EventQueue {
    events: VecDeque<SliceEvent>,
    waker: Option<Waker>,
    /// A stream reads the events.
    is_read: bool,
    is_closed: bool,
}

#[derive(Debug)]
pub(super) struct RingShared {
    pub(super) ring: Arc<str>,
    pub(super) clock: RingClock,
    pub(super) grace: Duration,
    pub(super) view: watch::Sender<RingView>,
    pub(super) wanted: watch::Sender<ShardRanges>,
    reports: Mutex<Reports>,
    /// Wakes the driver: there are reports, or work has ended.
    pub(super) reported: Notify,
    running: Mutex<Running>,
    events: Mutex<EventQueue>,
}

/// The futures that guards poll, by a number.
#[derive(Debug, Default)]
struct Running {
    last: u64,
    places: BTreeMap<u64, u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RingShared {
    pub(super) fn new(ring: &str, grace: Duration) -> Self {
        RingShared {
            ring: ring.into(),
            clock: RingClock::new(),
            grace,
            view: watch::Sender::new(RingView::default()),
            wanted: watch::Sender::new(ShardRanges::empty()),
            reports: Mutex::default(),
            reported: Notify::new(),
            running: Mutex::default(),
            events: Mutex::default(),
        }
    }

    pub(super) fn report(&self, change: impl FnOnce(&mut Reports)) {
        change(&mut lock(&self.reports));
        self.reported.notify_one();
    }

    pub(super) fn take_reports(&self) -> Reports {
        std::mem::take(&mut lock(&self.reports))
    }

    /// Returns how long work at a place may be polled without another renewal, if it may be polled now.
    pub(super) fn remaining(&self, place: u64, grant: u64) -> Option<Duration> {
        let view = self.view.borrow();
        view.work_at(place).filter(|work| work.grant == grant && !work.is_closed)?;
        let end = view.valid_until? + self.grace;
        end.checked_sub(self.clock.now()).filter(|left| !left.is_zero())
    }

    /// Returns whether the Lease is valid, so that work may start.
    pub(super) fn is_valid(&self) -> bool {
        self.view.borrow().valid_until.is_some_and(|until| self.clock.now() < until)
    }

    pub(super) fn started(&self, place: u64) -> u64 {
        let mut running = lock(&self.running);
        running.last += 1;
        let number = running.last;
        running.places.insert(number, place);
        number
    }

    pub(super) fn ended(&self, number: u64) {
        lock(&self.running).places.remove(&number);
        self.reported.notify_one();
    }

    /// Returns how many guarded futures have places in a range.
    pub(super) fn running_in(&self, range: ShardRange) -> usize {
        lock(&self.running).places.values().filter(|place| range.contains(**place)).count()
    }

    /// Connects a reader of events. Returns whether there was none.
    pub(super) fn connect(&self) -> bool {
        !std::mem::replace(&mut lock(&self.events).is_read, true)
    }

    pub(super) fn disconnect(&self) {
        let dropped = {
            let mut queue = lock(&self.events);
            queue.is_read = false;
            std::mem::take(&mut queue.events)
        };
        // Guards of drains take other locks.
        drop(dropped);
    }

    /// Passes an event to the reader. Without one, it is dropped, which releases what drains.
    pub(super) fn emit(&self, event: SliceEvent) {
        let mut queue = lock(&self.events);
        if !queue.is_read || queue.is_closed {
            drop(queue);
            drop(event);
            return;
        }
        queue.events.push_back(event);
        if queue.events.len() > MOST_EVENTS {
            tracing::error!(ring = %self.ring, "the events of the ring are not read; disconnecting their reader");
            queue.is_closed = true;
        }
        if let Some(waker) = queue.waker.take() {
            waker.wake();
        }
    }

    /// Lets readers end once they have read everything, or read on.
    pub(super) fn close_events(&self, is_closed: bool) {
        let mut queue = lock(&self.events);
        queue.is_closed = is_closed;
        if let Some(waker) = queue.waker.take() {
            waker.wake();
        }
    }

    pub(super) fn poll_event(&self, waker: &Waker) -> std::task::Poll<Option<SliceEvent>> {
        let mut queue = lock(&self.events);
        match queue.events.pop_front() {
            Some(event) => std::task::Poll::Ready(Some(event)),
            None if queue.is_closed => std::task::Poll::Ready(None),
            None => {
                queue.waker = Some(waker.clone());
                std::task::Poll::Pending
            }
        }
    }
}
