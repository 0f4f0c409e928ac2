//! Who is to be told: the listeners of an informer, and when each is due for a resync.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use evenkeel_core::Untyped;
use tokio::time::Instant;

use super::listener::{Batch, Callback, Listener};
use super::resync::{ResyncCheck, ResyncSchedule};
use crate::Event;
use crate::event::Notifications;

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

    /// Determines which listeners are due for a resync; returns whether any is.
    pub(super) fn check_resync(&mut self, now: Instant) -> bool {
        let mut any_due = false;
        for entry in &mut self.entries {
            entry.syncing = entry.schedule.is_due(now);
            any_due |= entry.syncing;
        }
        any_due
    }

    /// Sends notifications to the listeners.
    ///
    /// A listener that joined at this state of the store or later has the objects already, except for a resync. A listener
    /// that was not due at the last resync check does not receive events about unchanged objects.
    pub(super) fn distribute(&mut self, notifications: Notifications, now: Instant) {
        let Notifications { events, unchanged, commit, is_resync } = notifications;
        if events.is_empty() {
            return;
        }
        self.entries.retain(|entry| !entry.listener.is_revoked());
        let all: Batch = events.into();
        let mut changed: Option<Batch> = None;
        for entry in &self.entries {
            match (is_resync, entry.syncing) {
                (true, true) => entry.listener.push(&all, now),
                (true, false) => {}
                (false, _) if entry.joined >= commit => {}
                (false, false) if !unchanged.is_empty() => {
                    entry.listener.push(changed.get_or_insert_with(|| changed_events(&all, &unchanged)), now);
                }
                (false, _) => entry.listener.push(&all, now),
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

/// Returns the events about objects that have changed.
fn changed_events(events: &Batch, unchanged: &[usize]) -> Batch {
    let mut skip = unchanged.iter().peekable();
    let is_changed = |(index, _): &(usize, &Event<Untyped>)| skip.next_if_eq(&index).is_none();
    events.iter().enumerate().filter(is_changed).map(|(_, event)| event.clone()).collect()
}
