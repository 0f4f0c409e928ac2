//! Who is to be told: the listeners of an informer, and when each is due for a resync.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use evenkeel_core::Untyped;
use tokio::time::Instant;

use super::listener::{Batch, Callback, Listener};
use super::resync::{ResyncCheck, ResyncSchedule};
use crate::{Event, Object};

/// The listeners of an informer.
pub(super) struct Processor {
    check: ResyncCheck,
    /// The check period that the driver knows of, and who to wake when it is another.
    known_period: Duration,
    driver: Option<Waker>,
    entries: Vec<ListenerEntry>,
}

/// A listener's place.
pub(super) struct ListenerEntry {
    pub(super) listener: Arc<Listener>,
    schedule: ResyncSchedule,
    /// Whether it hears of objects that a list brought and that have not changed.
    syncing: bool,
    /// The state of the store that it was told of when it came. What led to that state is not notifications to it.
    joined: u64,
    /// The handler, as long as nothing runs.
    pub(super) waiting: Option<HandlerRunner>,
}

/// A handler that has yet to be started.
pub(super) struct HandlerRunner {
    pub(super) callback: Callback,
    pub(super) blocking: bool,
}

/// Notifications in order.
#[derive(Debug, Default)]
pub(super) struct Notifications {
    events: Vec<Event<Untyped>>,
    /// Which of the events tell of objects that a list brought and that have not changed.
    unchanged: Vec<usize>,
}

/// Who hears of something.
pub(super) enum Recipients {
    /// Everybody; but of what has not changed, only those who were due for a resync when last looked at.
    All,
    /// Those who are due for a resync.
    Due,
}

impl Notifications {
    pub(super) fn with_capacity(events: usize) -> Self {
        Notifications { events: Vec::with_capacity(events), unchanged: Vec::new() }
    }

    pub(super) fn push(&mut self, event: Event<Untyped>) {
        self.events.push(event);
    }

    /// Tells of an object that a list brought: new, changed, or the same as before.
    pub(super) fn push_listed(&mut self, previous: Option<Object>, object: Object, initial: bool) {
        match previous {
            None => self.events.push(Event::Add { object, initial }),
            Some(old) => {
                if old.resource_version() == object.resource_version() {
                    self.unchanged.push(self.events.len());
                }
                self.events.push(Event::Update { old, new: object });
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(super) fn events(&self) -> &[Event<Untyped>] {
        &self.events
    }

    /// The events that tell of a change.
    fn changes(events: &Batch, unchanged: &[usize]) -> Batch {
        let mut skip = unchanged.iter().peekable();
        let is_change = |(index, _): &(usize, &Event<Untyped>)| skip.next_if_eq(&index).is_none();
        events.iter().enumerate().filter(is_change).map(|(_, event)| event.clone()).collect()
    }
}

impl Processor {
    pub(super) fn new(resync: Duration) -> Self {
        Processor { check: ResyncCheck::new(resync), known_period: resync, driver: None, entries: Vec::new() }
    }

    /// Takes a listener in, who has been told of everything up to this state of the store.
    pub(super) fn join(
        &mut self,
        listener: Arc<Listener>,
        resync: Option<Duration>,
        joined: u64,
        waiting: Option<HandlerRunner>,
        now: Instant,
    ) {
        let before = self.check.period();
        let schedule = self.check.admit(resync, now);
        if self.check.period() != before {
            for entry in &mut self.entries {
                entry.schedule.derive(self.check.period(), now);
            }
            self.driver.take().into_iter().for_each(Waker::wake);
        }
        self.entries.push(ListenerEntry { listener, schedule, syncing: true, joined, waiting });
    }

    /// Lets a listener go. What is handed back may be a handler, whose end is no business of the processor's.
    #[must_use]
    pub(super) fn leave(&mut self, listener: &Arc<Listener>) -> Option<ListenerEntry> {
        let place = self.entries.iter().position(|entry| Arc::ptr_eq(&entry.listener, listener))?;
        Some(self.entries.remove(place))
    }

    pub(super) fn clear(&mut self) -> Vec<ListenerEntry> {
        std::mem::take(&mut self.entries)
    }

    pub(super) fn entries(&self) -> &[ListenerEntry] {
        &self.entries
    }

    /// The informer starts: how often to look for resyncs is settled now, and these are the handlers to start.
    pub(super) fn start(&mut self) -> Vec<(Arc<Listener>, HandlerRunner)> {
        self.check.start();
        let take = |entry: &mut ListenerEntry| entry.waiting.take().map(|runner| (Arc::clone(&entry.listener), runner));
        self.entries.iter_mut().filter_map(take).collect()
    }

    /// How often to look for resyncs; zero for never.
    pub(super) fn check_period(&mut self) -> Duration {
        self.known_period = self.check.period();
        self.known_period
    }

    /// How often to look for resyncs, if that is not what the driver knows.
    pub(super) fn poll_check_period(&mut self, context: &Context<'_>) -> Poll<Duration> {
        if self.known_period != self.check.period() {
            return Poll::Ready(self.check_period());
        }
        if !self.driver.as_ref().is_some_and(|driver| driver.will_wake(context.waker())) {
            self.driver = Some(context.waker().clone());
        }
        Poll::Pending
    }

    /// The period that a listener gets; zero for never.
    pub(super) fn period_of(&self, listener: &Arc<Listener>) -> Option<Duration> {
        let entry = self.entries.iter().find(|entry| Arc::ptr_eq(&entry.listener, listener))?;
        (!entry.listener.is_revoked()).then(|| entry.schedule.period())
    }

    /// Looks who is due for a resync; answers whether anybody is.
    pub(super) fn look(&mut self, now: Instant) -> bool {
        let mut anybody = false;
        for entry in &mut self.entries {
            entry.syncing = entry.schedule.is_due(now);
            anybody |= entry.syncing;
        }
        anybody
    }

    /// Hands out notifications of what led to state `commit` of the store.
    pub(super) fn tell(&mut self, notifications: Notifications, commit: u64, recipients: &Recipients, now: Instant) {
        let Notifications { events, unchanged } = notifications;
        if events.is_empty() {
            return;
        }
        self.entries.retain(|entry| !entry.listener.is_revoked());
        let all: Batch = events.into();
        let mut changes: Option<Batch> = None;
        for entry in &self.entries {
            if entry.joined >= commit && !matches!(recipients, Recipients::Due) {
                continue;
            }
            match recipients {
                Recipients::All if entry.syncing || unchanged.is_empty() => entry.listener.push(&all, now),
                Recipients::All => {
                    entry.listener.push(changes.get_or_insert_with(|| Notifications::changes(&all, &unchanged)), now);
                }
                Recipients::Due if entry.syncing => entry.listener.push(&all, now),
                Recipients::Due => {}
            }
        }
    }

    /// Shows how far everybody is behind.
    pub(super) fn measure(&self, now: Instant) {
        self.entries.iter().for_each(|entry| entry.listener.measure_now(now));
    }

    /// Tells everybody that the first list is complete.
    pub(super) fn synced(&mut self, now: Instant) {
        for entry in &self.entries {
            entry.listener.push_synced(now);
        }
    }
}
