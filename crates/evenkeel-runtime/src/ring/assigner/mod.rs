//! The assigner of a ring as a state machine without clock, lock or task.
//!
//! Candidates observe; the elected one also writes. The driver passes what watches deliver, calls [`AssignerMachine::poll`] until it
//! returns `Wait`, and reports responses. Time is monotonic: a machine that was suspended counts less, never more.
//!
//! The election only avoids wasted writes. Every table write replaces exactly the version that it was decided on, and every fence
//! exactly the observed version of a Lease, so that any number of assigners at once are safe.

mod decision;
mod observation;
mod requests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::member_record::{FenceCause, MemberLease};
use super::plan::PlanReport;
use super::planted::{RingDefect, is_planted};
use super::settings::RingSettings;
use super::table::{MemberName, SliceTable, TableError};
use observation::{MemberObservation, ObservedLease};
use requests::PendingRequest;

/// The least time between two writes of the table.
const TABLE_GAP: Duration = Duration::from_millis(250);
/// How often a settled ring is looked at without a change.
const TICK: Duration = Duration::from_secs(1);
/// How long a revocation may be unacknowledged before the member is nudged.
const NUDGE_AFTER: Duration = Duration::from_secs(5);
/// How long an imbalance has to last before slices move for it, and the time between two rounds.
const BALANCE_AFTER: Duration = Duration::from_secs(300);
/// How long an announced move waits for the caches of its target.
const WARM_LIMIT: Duration = Duration::from_secs(120);
/// The time between two attempts of a read that fails.
const RETRY: Duration = Duration::from_secs(1);

/// What the driver does next.
#[derive(Debug, PartialEq)]
pub(crate) enum AssignerAction {
    /// Send this request and pass the response to [`AssignerMachine::respond`].
    Send(AssignerRequest),
    /// Wait until this time, or for an input. `None`: for an input only.
    Wait(Option<Duration>),
    /// An assigner of a later term writes the table: give the election up.
    StandDown,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AssignerRequest {
    pub(crate) id: u64,
    pub(crate) operation: AssignerOperation,
    /// When the request is abandoned.
    pub(crate) give_up: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AssignerOperation {
    /// Reads all Leases of the ring, consistently.
    List,
    ReadTable,
    ReadMember(MemberName),
    CreateTable(SliceTable),
    /// Replaces the table only if it still has this version.
    UpdateTable(SliceTable, u64),
    /// Fences a member only if its Lease still has this version.
    Fence(MemberName, u64, FenceCause),
    /// Touches the Lease of a member, so that its next renewal conflicts.
    Nudge(MemberName, u64),
    /// Deletes the Lease of a fenced member that no table names.
    Remove(MemberName, u64),
}

/// A table with its version.
pub(crate) type VersionedTable = (u64, Result<Arc<SliceTable>, TableError>);

/// The response to a request of an assigner.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AssignerResponse {
    Listed { version: u64, members: Vec<(MemberName, u64, MemberLease)>, table: Option<VersionedTable> },
    Table(VersionedTable),
    Member(u64, MemberLease),
    Written { version: u64 },
    Missing,
    Conflict,
    Failed,
}

/// The table that decisions are based on.
#[derive(Clone, Debug)]
struct ObservedTable {
    version: u64,
    table: Arc<SliceTable>,
    /// A consistent list of the Leases that was begun when this table, or a later one, was confirmed: its confirmed revision, and
    /// when the response arrived.
    listed: Option<(u64, Duration)>,
}

pub(crate) struct AssignerMachine {
    terms: Arc<str>,
    lease_duration: Duration,
    heartbeat: Duration,
    drain_limit: Duration,
    settle: Duration,
    slices_per_member: usize,
    imbalance: f64,
    /// The term, while this process is the assigner.
    term: Option<u64>,
    /// The term was compared with that of the table.
    is_term_settled: bool,
    stands_down: bool,
    members: BTreeMap<MemberName, MemberObservation>,
    table: Option<ObservedTable>,
    /// The version below which tables are ignored.
    table_floor: u64,
    /// The version of a list without a table, from which a table may be created.
    creatable_at: Option<u64>,
    unreadable: Option<TableError>,
    needs_list: bool,
    needs_table: bool,
    table_read_at: Duration,
    table_written_at: Option<Duration>,
    pending: BTreeMap<u64, PendingRequest>,
    /// No read of this kind is sent before this time.
    list_after: Duration,
    table_after: Duration,
    last_id: u64,
    /// The last successes of this process: a heartbeat, and a read or watch event.
    last_write: Option<Duration>,
    last_read: Option<Duration>,
    /// Since when a member owes the acknowledgement of a revision, or a release since it.
    obligations: BTreeMap<(MemberName, u64), Duration>,
    /// Since when a slice is announced to its target.
    announced: BTreeMap<(u64, MemberName), Duration>,
    last_join: Option<Duration>,
    first_unsettled_join: Option<Duration>,
    /// Members have joined that are not filled to their share.
    is_filling: bool,
    unbalanced_since: Option<Duration>,
    shaped_at: Option<Duration>,
    report: PlanReport,
    decided_at: Option<Duration>,
    is_dirty: bool,
}

impl AssignerMachine {
    pub(crate) fn new(settings: &RingSettings, now: Duration) -> Self {
        AssignerMachine {
            terms: settings.terms(),
            lease_duration: settings.lease_duration,
            heartbeat: settings.heartbeat,
            drain_limit: settings.drain_limit,
            settle: settings.settle,
            slices_per_member: settings.slices_per_member,
            imbalance: settings.imbalance,
            term: None,
            is_term_settled: false,
            stands_down: false,
            members: BTreeMap::new(),
            table: None,
            table_floor: 0,
            creatable_at: None,
            unreadable: None,
            needs_list: false,
            needs_table: false,
            table_read_at: now,
            table_written_at: None,
            pending: BTreeMap::new(),
            list_after: now,
            table_after: now,
            last_id: 0,
            last_write: None,
            last_read: None,
            obligations: BTreeMap::new(),
            announced: BTreeMap::new(),
            last_join: None,
            first_unsettled_join: None,
            is_filling: false,
            unbalanced_since: None,
            shaped_at: None,
            report: PlanReport::default(),
            decided_at: None,
            is_dirty: false,
        }
    }

    /// Starts to write, as the elected assigner of this term.
    pub(crate) fn activate(&mut self, term: u64) {
        self.term = Some(term);
        self.is_term_settled = false;
        self.stands_down = false;
        self.needs_list = true;
        self.is_dirty = true;
        // Whether members are below their share for long is not known.
        self.is_filling = true;
    }

    /// Stops writing. Observations continue.
    pub(crate) fn deactivate(&mut self) {
        self.term = None;
        self.pending.clear();
    }

    pub(crate) fn is_active(&self) -> bool {
        self.term.is_some()
    }

    pub(crate) fn table(&self) -> Option<&Arc<SliceTable>> {
        self.table.as_ref().map(|observed| &observed.table)
    }

    pub(crate) fn report(&self) -> &PlanReport {
        &self.report
    }

    /// Returns the observed members that are not fenced, with their Leases.
    pub(crate) fn live_members(&self) -> impl Iterator<Item = (&MemberName, &MemberLease)> {
        self.members.iter().filter_map(|(name, observed)| Some((name, observed.live()?)))
    }

    /// Notes a successful heartbeat of this process.
    pub(crate) fn note_write(&mut self, now: Duration) {
        let before = self.last_write.replace(now);
        self.restart_after_gap(now, before);
    }

    fn note_read(&mut self, now: Duration) {
        let before = self.last_read.replace(now);
        self.restart_after_gap(now, before);
    }

    /// Restarts all counts after a gap: what was observed before it may have been caused by an outage that hit the members too.
    fn restart_after_gap(&mut self, now: Duration, before: Option<Duration>) {
        let is_gap = before.is_none_or(|before| now > before + 2 * self.heartbeat);
        if is_gap && !is_planted(RingDefect::CountsOverGap) {
            for observed in self.members.values_mut() {
                observed.counted_from = now;
            }
            for since in self.obligations.values_mut() {
                *since = now;
            }
        }
    }

    fn may_fence(&self, now: Duration) -> bool {
        let is_recent = |last: Option<Duration>| last.is_some_and(|last| now <= last + 2 * self.heartbeat);
        is_planted(RingDefect::CountsOverGap) || (is_recent(self.last_write) && is_recent(self.last_read))
    }

    /// Takes the Lease of a member from a watch or a read.
    pub(crate) fn observe_member(&mut self, now: Duration, name: &MemberName, version: u64, lease: MemberLease) {
        self.note_read(now);
        if !self.members.contains_key(name) {
            self.members.insert(name.clone(), MemberObservation { read_at: None, ..MemberObservation::unread(now) });
        }
        let is_named = self.table().is_some_and(|table| table.members.contains(name));
        let Some(observed) = self.members.get_mut(name) else { return };
        let is_new = observed.live().is_none();
        observed.observe(now, version, lease);
        if is_new && observed.live().is_some() && !is_named {
            self.joined(now);
        }
        self.is_dirty = true;
    }

    fn joined(&mut self, now: Duration) {
        self.last_join = Some(now);
        self.first_unsettled_join.get_or_insert(now);
        self.is_filling = true;
    }

    /// Takes the deletion of a member's Lease, which a watch delivered.
    pub(crate) fn observe_deleted_member(&mut self, now: Duration, name: &MemberName) {
        self.note_read(now);
        if let Some(observed) = self.members.get_mut(name) {
            observed.deleted(now);
            self.is_dirty = true;
        }
    }

    /// Notes that a relist, which may be of an old state, does not have a member's Lease: it is read.
    pub(crate) fn observe_missing_member(&mut self, now: Duration, name: &MemberName) {
        self.note_read(now);
        if let Some(observed) = self.members.get_mut(name).filter(|observed| observed.lease().is_some()) {
            observed.read_at.get_or_insert(now);
        }
    }

    /// Notes that a relist, which may be of an old state, does not have the table: it is read.
    pub(crate) fn observe_missing_table(&mut self, now: Duration) {
        self.note_read(now);
        self.needs_table = true;
    }

    /// Takes a table from a watch or a read.
    pub(crate) fn observe_table(&mut self, now: Duration, (version, table): VersionedTable) {
        self.note_read(now);
        if version <= self.table_floor {
            return;
        }
        self.table_floor = version;
        self.creatable_at = None;
        self.is_dirty = true;
        match table {
            Ok(table) => {
                self.unreadable = None;
                self.compare_terms(table.term);
                let listed = self.table.as_ref().and_then(|observed| observed.listed);
                self.table = Some(ObservedTable { version, table, listed });
                self.read_unknown_owners(now);
            }
            Err(error) => {
                self.unreadable = Some(error);
                self.table = None;
            }
        }
    }

    /// Takes a table from a consistent read. It counts although its version is known if a late response to an older read had told
    /// that there is none.
    fn observe_read_table(&mut self, now: Duration, table: VersionedTable) {
        if self.table.is_none() && table.0 == self.table_floor {
            self.table_floor -= 1;
        }
        self.observe_table(now, table);
    }

    /// Takes the deletion of the table, which a watch delivered with this version.
    pub(crate) fn observe_deleted_table(&mut self, now: Duration, version: u64) {
        self.note_read(now);
        if version > self.table_floor {
            self.table_floor = version;
            self.table_is_missing();
        }
    }

    fn table_is_missing(&mut self) {
        self.table = None;
        self.unreadable = None;
        self.needs_list = true;
        self.is_dirty = true;
    }

    /// The first table after the election may have any term: the numbers of terms restart if the election's Lease is deleted. A
    /// higher term later is that of another assigner.
    fn compare_terms(&mut self, term: u64) {
        let Some(own) = self.term else { return };
        match self.is_term_settled {
            false => self.term = Some(own.max(term)),
            true => self.stands_down |= term > own,
        }
    }

    /// Makes owners whose Leases were never observed be read.
    fn read_unknown_owners(&mut self, now: Duration) {
        let Some(observed) = &self.table else { return };
        let unread: Vec<MemberName> =
            observed.table.involved().into_iter().filter(|name| !self.members.contains_key(name)).collect();
        for name in unread {
            self.members.insert(name, MemberObservation::unread(now));
        }
    }

    fn is_out(&self, name: &MemberName, now: Duration) -> bool {
        self.members.get(name).is_some_and(|observed| observed.is_out(now, self.lease_duration))
    }

    /// Returns whether a member may be given slices.
    fn may_gain(&self, name: &MemberName) -> bool {
        let live = self.members.get(name).and_then(MemberObservation::live);
        live.is_some_and(|lease| !lease.record.leaving && lease.record.capacity > 0 && self.fits(lease))
    }

    /// Returns whether a member has the settings of the ring, and reads the format of its table.
    fn fits(&self, lease: &MemberLease) -> bool {
        *lease.record.by == *self.terms && lease.record.speaks.contains(&super::table::FORMAT)
    }

    /// Returns what to do next. `wall` is the time of day in microseconds.
    pub(crate) fn poll(&mut self, now: Duration, wall: i64) -> AssignerAction {
        self.abandon_late_requests(now);
        let Some(term) = self.term else { return AssignerAction::Wait(None) };
        if self.stands_down {
            return AssignerAction::StandDown;
        }
        let request = self
            .next_read(now)
            .or_else(|| self.next_lease_write(now, wall))
            .or_else(|| self.next_table_write(now, term));
        match request {
            Some(operation) => AssignerAction::Send(self.send(now, operation)),
            None => AssignerAction::Wait(Some(self.next_wake(now))),
        }
    }

    fn next_wake(&self, now: Duration) -> Duration {
        let is_settled = self.table().is_some_and(|table| table.is_settled());
        let tick = if is_settled && !self.is_dirty { TICK } else { TABLE_GAP };
        let give_up = self.pending.values().map(|pending| pending.give_up).min();
        give_up.map_or(now + tick, |give_up| give_up.min(now + tick))
    }
}

#[cfg(test)]
mod tests;
