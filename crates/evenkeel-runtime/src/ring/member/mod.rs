//! A member of a ring as a state machine without clock, lock or task.
//!
//! The driver calls [`MemberMachine::poll`] until it returns `Wait`, and reports responses, tables, and the ends of drains.
//! Time is the elapsed time of a clock of the process, which never runs slower than a monotonic clock. Wall time is only written.
//!
//! Why a member never works on what another one owns:
//!
//! 1. A member works while `now < valid_until + grace`, and `valid_until` is the renew deadline after the *sending* of a write
//!    that succeeded.
//! 2. It starts a range only if its newest table names it as the owner. It releases a range by a write whose content was
//!    computed after the last poll of its last reconcile.
//! 3. A write fails once the Lease is fenced or deleted. Then the member drops everything and never uses its name again.

mod holdings;
mod lease_attempt;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::shard::{ShardRange, ShardRanges};

use super::member_record::{FenceCause, MemberLease, MemberRecord, SliceLoad, WrittenVersions};
use super::planted::{RingDefect, is_planted};
use super::settings::RingSettings;
use super::table::{FORMAT, MemberName, SliceState, SliceTable, TableError};
pub(crate) use holdings::Holding;
use holdings::Holdings;
use lease_attempt::{LeaseAttempt, TableRead};

/// The time between an urgent write and the write before it.
const URGENT_GAP: Duration = Duration::from_millis(100);
/// The time between two attempts of a request that fails.
const RETRY: Duration = Duration::from_secs(1);
/// How long a member publishes what it has written to a released range.
const WRITTEN_KEPT: Duration = Duration::from_secs(600);
/// How many released ranges a member publishes.
const WRITTEN_RANGES: usize = 64;

/// What the driver does next.
#[derive(Debug, PartialEq)]
pub(crate) enum MemberAction {
    /// Send this request and pass the response to [`MemberMachine::respond`].
    Send(MemberRequest),
    /// Tell the user of the ring.
    Event(MemberEvent),
    /// Wait until this time, or for a response or a call.
    Wait(Option<Duration>),
    /// This life is over. Work that is left is dropped.
    Over(MemberEnd),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MemberRequest {
    pub(crate) id: u64,
    pub(crate) operation: MemberOperation,
    /// When the request is abandoned.
    pub(crate) give_up: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MemberOperation {
    Create(MemberLease),
    /// Replaces the member's Lease only if it still has this version.
    Update(MemberLease, u64),
    /// Reads the member's Lease.
    Read,
    /// Deletes the member's Lease only if it still has this version.
    Delete(u64),
    /// Reads the table.
    ReadTable,
}

/// The response to a request of a member.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MemberResponse {
    Written {
        version: u64,
    },
    Lease {
        version: u64,
        lease: MemberLease,
    },
    Table(Result<SliceTable, TableError>),
    /// There is no such object, or it was deleted.
    Missing,
    /// The object has another version, or exists already.
    Conflict,
    /// Any other failure. Whether a write took effect is unknown.
    Failed,
}

/// What changed for the user of the ring.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MemberEvent {
    /// Work on the range may start. It has moved here from `predecessor`, if the move was observed. `is_prepared`: caches may have had
    /// it before, while another member worked on it.
    Granted { range: ShardRange, epoch: u64, predecessor: Option<MemberName>, is_prepared: bool },
    /// The range moves to another member. The work has to end; then the driver calls [`MemberMachine::drained`].
    Drain { range: ShardRange },
    /// The range belongs to another member, or this life is over. The work is dropped at once.
    Lost { range: ShardRange },
    /// The Lease was not renewed in time. All work is cancelled; a renewal resumes it.
    Lapsed,
    /// The Lease is valid again, for the same ranges and epochs.
    Resumed,
    /// The table cannot be read. What is held continues, and nothing starts.
    Unreadable(TableError),
}

/// Why the life of a member is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MemberEnd {
    /// The member left, and released everything.
    Left,
    /// The assigner fenced the member.
    Fenced(FenceCause),
    /// The Lease was deleted.
    Deleted,
    /// Another process wrote the Lease, or the store was restored.
    Overwritten,
    /// The store has an older table than it had.
    StoreWentBack,
    /// The settings of the ring differ.
    Refused { theirs: Arc<str> },
    /// The table has a format that this program does not know.
    UnknownFormat(TableError),
}

#[derive(Clone, Debug, PartialEq)]
enum MemberPhase {
    /// The Lease does not exist, as far as is known.
    Joining,
    Joined,
    Over(MemberEnd),
}

pub(crate) struct MemberMachine {
    name: MemberName,
    terms: Arc<str>,
    capacity: u32,
    build: String,
    heartbeat: Duration,
    renew_deadline: Duration,
    phase: MemberPhase,
    attempt: LeaseAttempt,
    table_read: TableRead,
    last_id: u64,
    /// The version of the Lease. `None`: it has to be read before it is written.
    version: Option<u64>,
    /// `renewed` of the newest write that is known to have taken effect, and of the last one sent.
    confirmed_write: i64,
    last_write: i64,
    last_sent: Option<Duration>,
    /// How many writes in a row did not succeed.
    failed_writes: u32,
    /// A creation was sent whose outcome is unknown.
    may_exist: bool,
    valid_until: Option<Duration>,
    has_lapsed: bool,
    lapses: u64,
    table: Option<Arc<SliceTable>>,
    /// The last table could not be read: nothing starts.
    is_unreadable: bool,
    holdings: Holdings,
    covered: ShardRanges,
    load: Vec<SliceLoad>,
    written: VecDeque<(Duration, WrittenVersions)>,
    /// How this life ends once everything is released.
    leaves_as: Option<MemberEnd>,
    /// Since when a confirmed write says that the member leaves.
    leaving_since: Option<Duration>,
    /// Since when no table names the member, while it leaves.
    unnamed_since: Option<Duration>,
    may_start: bool,
    /// The content of the Lease should be written before the next heartbeat.
    is_urgent: bool,
    events: VecDeque<MemberEvent>,
}

impl MemberMachine {
    /// Returns a member that joins at once.
    pub(crate) fn new(name: MemberName, settings: &RingSettings, build: String, now: Duration) -> Self {
        MemberMachine {
            name,
            terms: settings.terms(),
            capacity: settings.capacity,
            build,
            heartbeat: settings.heartbeat,
            renew_deadline: settings.renew_deadline,
            phase: MemberPhase::Joining,
            attempt: LeaseAttempt::Idle { until: now },
            table_read: TableRead::default(),
            last_id: 0,
            version: None,
            confirmed_write: 0,
            last_write: 0,
            last_sent: None,
            failed_writes: 0,
            may_exist: false,
            valid_until: None,
            has_lapsed: false,
            lapses: 0,
            table: None,
            is_unreadable: false,
            holdings: Holdings::default(),
            covered: ShardRanges::empty(),
            load: Vec::new(),
            written: VecDeque::new(),
            leaves_as: None,
            leaving_since: None,
            unnamed_since: None,
            may_start: false,
            is_urgent: false,
            events: VecDeque::new(),
        }
    }

    pub(crate) fn name(&self) -> &MemberName {
        &self.name
    }

    /// Returns when the validity ends. Work may start before this time only, and is polled until a grace after it.
    pub(crate) fn valid_until(&self) -> Option<Duration> {
        self.valid_until
    }

    pub(crate) fn is_valid(&self, now: Duration) -> bool {
        self.phase == MemberPhase::Joined && self.valid_until.is_some_and(|until| now < until)
    }

    pub(crate) fn holdings(&self) -> impl ExactSizeIterator<Item = &Holding> {
        self.holdings.iter()
    }

    pub(crate) fn table(&self) -> Option<&Arc<SliceTable>> {
        self.table.as_ref()
    }

    /// Returns how many times the validity ended without a renewal.
    pub(crate) fn lapses(&self) -> u64 {
        self.lapses
    }

    /// Returns the places whose objects the member's caches should contain: held, granted, and moving to it.
    pub(crate) fn wanted(&self) -> ShardRanges {
        let named = self.table.as_ref().map_or_else(ShardRanges::empty, |table| table.wanted_by(&self.name));
        named.union(&self.holdings.ranges())
    }

    /// Sets the places that the caches cover.
    pub(crate) fn cover(&mut self, covered: ShardRanges) {
        if covered != self.covered {
            self.covered = covered;
            self.may_start = true;
            // The move of an announced slice waits for this.
            self.is_urgent |= self.table.as_ref().is_some_and(|table| {
                let next_is_me = |state: &SliceState| matches!(state, SliceState::Held { next: Some(next), .. } if *next == self.name);
                table.iter().any(|(_, state)| next_is_me(state))
            });
        }
    }

    /// Sets the load that the next heartbeat publishes.
    pub(crate) fn set_load(&mut self, load: Vec<SliceLoad>) {
        self.load = load;
    }

    /// Notes that the work of a draining range has ended: nothing of it is polled again.
    pub(crate) fn drained(&mut self, now: Duration, written: WrittenVersions) {
        if self.holdings.drained(written.range) {
            if !written.versions.is_empty() || written.loose {
                self.written.truncate(WRITTEN_RANGES - 1);
                self.written.push_front((now, written));
            }
            self.is_urgent = true;
            self.may_start = true;
        }
    }

    /// Leaves the ring: the slices move to other members, and the Lease is deleted after that.
    pub(crate) fn leave(&mut self) {
        if self.leaves_as.is_none() {
            self.leaves_as = Some(MemberEnd::Left);
            self.is_urgent = true;
        }
    }

    /// Takes a table that a watch delivered.
    pub(crate) fn observe_table(&mut self, now: Duration, table: Result<Arc<SliceTable>, TableError>) {
        if matches!(self.phase, MemberPhase::Over(_)) {
            return;
        }
        match table {
            Ok(table) => self.apply(now, table),
            Err(error) => self.unreadable(error),
        }
    }

    fn unreadable(&mut self, error: TableError) {
        self.is_unreadable = true;
        if matches!(error, TableError::UnknownFormat { .. }) {
            self.leaves_as.get_or_insert(MemberEnd::UnknownFormat(error.clone()));
            self.holdings.drain_all(&mut self.events);
            self.is_urgent = true;
        }
        self.events.push_back(MemberEvent::Unreadable(error));
    }

    fn apply(&mut self, now: Duration, table: Arc<SliceTable>) {
        let seen = self.table.as_ref().map_or(0, |table| table.revision);
        if table.revision <= seen && !(is_planted(RingDefect::OlderTable) && table.revision < seen) {
            return;
        }
        if table.terms != self.terms {
            self.leaves_as.get_or_insert(MemberEnd::Refused { theirs: Arc::clone(&table.terms) });
            self.holdings.drain_all(&mut self.events);
            self.is_urgent = true;
        }
        self.is_unreadable = false;
        let wanted = self.wanted();
        self.holdings.apply(&self.name, &wanted, &table, &mut self.events);
        // A range that moves away and was not started is released by `seen` alone.
        let held = self.holdings.ranges();
        self.is_urgent |= table.iter().any(|(range, state)| {
            matches!(state, SliceState::Moving { from, .. } if *from == self.name) && !held.intersects(&range.into())
        });
        self.table = Some(table);
        self.may_start = true;
        self.note_names(now);
    }

    /// Notes whether the table names this member, for its leave.
    fn note_names(&mut self, now: Duration) {
        let is_named = self.table.as_ref().is_some_and(|table| table.is_involved(&self.name));
        self.unnamed_since = (!is_named).then(|| self.unnamed_since.unwrap_or(now));
    }

    /// Returns what to do next. `wall` is the time of day in microseconds, which is only written.
    pub(crate) fn poll(&mut self, now: Duration, wall: i64) -> MemberAction {
        self.expire(now);
        if self.may_start && self.is_valid(now) && !self.is_unreadable && self.leaves_as.is_none() {
            self.may_start = false;
            if let Some(table) = &self.table {
                self.holdings.start(&self.name, table, &self.covered, &mut self.events);
            }
        }
        if let Some(event) = self.events.pop_front() {
            return MemberAction::Event(event);
        }
        if let MemberPhase::Over(end) = &self.phase {
            return MemberAction::Over(end.clone());
        }
        if let Some(request) = self.next_request(now, wall) {
            return MemberAction::Send(request);
        }
        MemberAction::Wait(self.next_wake())
    }

    /// Applies what the passage of time alone decides.
    fn expire(&mut self, now: Duration) {
        if let Some(until) = self.valid_until
            && now >= until
            && !self.has_lapsed
            && self.phase == MemberPhase::Joined
        {
            self.has_lapsed = true;
            self.lapses += 1;
            self.events.push_back(MemberEvent::Lapsed);
        }
        self.abandon_late_requests(now);
        while self.written.back().is_some_and(|(at, _)| now >= *at + WRITTEN_KEPT) {
            self.written.pop_back();
        }
    }

    /// Ends this life. All work is dropped.
    fn end(&mut self, end: MemberEnd) {
        self.holdings.lose_all(&mut self.events);
        self.phase = MemberPhase::Over(end);
    }

    /// Returns the content of the Lease as of now.
    fn lease(&mut self, wall: i64) -> MemberLease {
        self.last_write = wall.max(self.last_write + 1);
        let wanted = self.wanted();
        let record = MemberRecord {
            speaks: vec![FORMAT],
            by: self.terms.to_string(),
            seen: self.table.as_ref().map_or(0, |table| table.revision),
            holds: self.holdings.published(),
            warm: self.covered.intersection(&wanted).iter().collect(),
            leaving: self.leaves_as.is_some(),
            capacity: self.capacity,
            load: self.load.clone(),
            build: self.build.clone(),
            written: self.written.iter().map(|(_, written)| written.clone()).collect(),
        };
        MemberLease { record: Arc::new(record), renewed: self.last_write, fenced: None }
    }
}

#[cfg(test)]
mod tests;
