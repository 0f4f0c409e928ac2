//! [`Processor`]: sends notifications to the listeners of an informer, and tracks when each is due for a resync.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use evenkeel_core::Untyped;
use tokio::time::Instant;

use super::listener::{Callback, EventBatch, Listener};
use super::resync::{ResyncCheck, ResyncSchedule};
use crate::Event;
use crate::event::Notifications;

/// The listeners of an informer.
pub(super) struct Processor {
    check: ResyncCheck,
    /// The check period that the reflector knows, and its waker for changes.
    reported_period: Duration,
    reflector: Option<Waker>,
    entries: Vec<ListenerEntry>,
}

/// A registered listener.
pub(super) struct ListenerEntry {
    pub(super) listener: Arc<Listener>,
    schedule: ResyncSchedule,
    /// Whether the listener was due at the last resync check, and receives unchanged objects of lists.
    syncing: bool,
    /// The number of writes to the store when the listener joined. Earlier notifications are in its initial objects.
    joined: u64,
    /// The handler, until the informer starts.
    pub(super) waiting: Option<HandlerRunner>,
}

/// A handler that is not started yet.
pub(super) struct HandlerRunner {
    pub(super) callback: Callback,
    pub(super) blocking: bool,
}

impl Processor {
    pub(super) fn new(resync: Duration) -> Self {
        Processor { check: ResyncCheck::new(resync), reported_period: resync, reflector: None, entries: Vec::new() }
    }

    /// Adds a listener that has the objects of the store at write number `joined`.
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
            self.reflector.take().into_iter().for_each(Waker::wake);
        }
        self.entries.push(ListenerEntry { listener, schedule, syncing: true, joined, waiting });
    }

    /// Removes a listener. The caller drops the entry without the lock, as it may contain a handler.
    #[must_use]
    pub(super) fn leave(&mut self, listener: &Arc<Listener>) -> Option<ListenerEntry> {
        let position = self.entries.iter().position(|entry| Arc::ptr_eq(&entry.listener, listener))?;
        Some(self.entries.remove(position))
    }

    pub(super) fn clear(&mut self) -> Vec<ListenerEntry> {
        std::mem::take(&mut self.entries)
    }

    pub(super) fn entries(&self) -> &[ListenerEntry] {
        &self.entries
    }

    /// Fixes the resync check period, and returns the handlers to start.
    pub(super) fn start(&mut self) -> Vec<(Arc<Listener>, HandlerRunner)> {
        self.check.start();
        let take = |entry: &mut ListenerEntry| entry.waiting.take().map(|runner| (Arc::clone(&entry.listener), runner));
        self.entries.iter_mut().filter_map(take).collect()
    }

    /// Returns the resync check period; zero for never.
    pub(super) fn check_period(&mut self) -> Duration {
        self.reported_period = self.check.period();
        self.reported_period
    }

    /// Returns the resync check period when it differs from the one that the reflector knows.
    pub(super) fn poll_check_period(&mut self, context: &Context<'_>) -> Poll<Duration> {
        if self.reported_period != self.check.period() {
            return Poll::Ready(self.check_period());
        }
        if !self.reflector.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            self.reflector = Some(context.waker().clone());
        }
        Poll::Pending
    }

    /// Returns the resync period of a listener; zero for never.
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
        let all: EventBatch = events.into();
        let mut changed: Option<EventBatch> = None;
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

    /// Returns whether a listener has more than one pending notification.
    pub(super) fn is_any_behind(&self) -> bool {
        self.entries.iter().any(|entry| entry.listener.lag().pending > 1)
    }

    /// Updates the lag metrics of all listeners.
    pub(super) fn measure(&self, now: Instant) {
        self.entries.iter().for_each(|entry| entry.listener.measure_now(now));
    }

    /// Notifies all listeners that the initial list is complete.
    pub(super) fn synced(&mut self, now: Instant) {
        for entry in &self.entries {
            entry.listener.push_synced(now);
        }
    }
}

/// Returns the events about objects that have changed.
fn changed_events(events: &EventBatch, unchanged: &[usize]) -> EventBatch {
    let mut skip = unchanged.iter().peekable();
    let is_changed = |(index, _): &(usize, &Event<Untyped>)| skip.next_if_eq(&index).is_none();
    events.iter().enumerate().filter(is_changed).map(|(_, event)| event.clone()).collect()
}
