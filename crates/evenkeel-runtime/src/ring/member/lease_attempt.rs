//! The requests of a member: one for its Lease and one for the table at a time.

use std::time::Duration;

use super::*;

/// The request for the member's own Lease.
#[derive(Clone, Copy, Debug)]
pub(super) enum LeaseAttempt {
    Idle { until: Duration },
    Sent { id: u64, request: LeaseRequest, sent: Duration, write: i64, give_up: Duration },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseRequest {
    Create,
    Update { leaving: bool },
    Read,
    Delete,
}

/// The request for the table.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TableRead {
    /// A read is due from this time.
    wanted: Option<Duration>,
    sent: Option<SentTableRead>,
}

#[derive(Clone, Copy, Debug)]
struct SentTableRead {
    id: u64,
    give_up: Duration,
    /// The revision that had been seen when the read was sent.
    seen: u64,
}

impl MemberMachine {
    /// The longest time of one request.
    fn call_timeout(&self) -> Duration {
        self.renew_deadline / 3
    }

    pub(super) fn next_request(&mut self, now: Duration, wall: i64) -> Option<MemberRequest> {
        if let LeaseAttempt::Idle { until } = self.attempt
            && (now >= until || self.urgent_at().is_some_and(|at| now >= at))
        {
            return Some(self.send(now, wall));
        }
        if let TableRead { wanted: Some(wanted), sent: None } = self.table_read
            && now >= wanted
        {
            self.last_id += 1;
            let (id, give_up) = (self.last_id, now + self.call_timeout());
            let seen = self.table.as_ref().map_or(0, |table| table.revision);
            self.table_read = TableRead { wanted: None, sent: Some(SentTableRead { id, give_up, seen }) };
            return Some(MemberRequest { id, operation: MemberOperation::ReadTable, give_up });
        }
        None
    }

    fn urgent_at(&self) -> Option<Duration> {
        let is_possible =
            self.is_urgent && self.failed_writes <= 1 && self.version.is_some() && self.phase == MemberPhase::Joined;
        is_possible.then(|| self.last_sent.map_or(Duration::ZERO, |sent| sent + URGENT_GAP))
    }

    /// Returns when [`MemberMachine::poll`] has something to do without an input.
    pub(super) fn next_wake(&self) -> Option<Duration> {
        let attempt = match self.attempt {
            LeaseAttempt::Idle { until } => self.urgent_at().map_or(until, |urgent| urgent.min(until)),
            LeaseAttempt::Sent { give_up, .. } => give_up,
        };
        let lapse = self.valid_until.filter(|_| !self.has_lapsed);
        let read = self.table_read.sent.map(|read| read.give_up).or(self.table_read.wanted);
        [Some(attempt), lapse, read].into_iter().flatten().min()
    }

    fn send(&mut self, now: Duration, wall: i64) -> MemberRequest {
        let may_delete = self.may_delete(now);
        let (request, operation) = match (&self.phase, self.version) {
            (MemberPhase::Joining, None) if !self.may_exist => {
                self.may_exist = true;
                let lease = self.lease(wall);
                if self.confirmed_write == 0 {
                    self.confirmed_write = lease.renewed;
                }
                (LeaseRequest::Create, MemberOperation::Create(lease))
            }
            (_, None) => (LeaseRequest::Read, MemberOperation::Read),
            (_, Some(version)) if may_delete => (LeaseRequest::Delete, MemberOperation::Delete(version)),
            (_, Some(version)) => {
                self.is_urgent = false;
                let request = LeaseRequest::Update { leaving: self.leaves_as.is_some() };
                (request, MemberOperation::Update(self.lease(wall), version))
            }
        };
        self.last_id += 1;
        let (id, give_up) = (self.last_id, now + self.call_timeout());
        self.last_sent = Some(now);
        self.attempt = LeaseAttempt::Sent { id, request, sent: now, write: self.last_write, give_up };
        MemberRequest { id, operation, give_up }
    }

    /// Returns whether the Lease is of no use any more: everything is released, others know, and had time to read it.
    fn may_delete(&self, now: Duration) -> bool {
        let waited = |since: Option<Duration>| since.is_some_and(|since| now >= since + self.heartbeat);
        match &self.leaves_as {
            None => false,
            // A table that is not understood is not asked who is named.
            Some(MemberEnd::UnknownFormat(_) | MemberEnd::Refused { .. }) => {
                self.holdings.is_empty() && self.leaving_since.is_some()
            }
            Some(_) => self.holdings.is_empty() && self.leaving_since.is_some() && waited(self.unnamed_since),
        }
    }

    pub(super) fn abandon_late_requests(&mut self, now: Duration) {
        if let LeaseAttempt::Sent { id, give_up, .. } = self.attempt
            && now >= give_up
        {
            self.resolve_lease(now, id, MemberResponse::Failed);
        }
        if let Some(read) = self.table_read.sent
            && now >= read.give_up
        {
            self.table_read = TableRead { wanted: Some(now + RETRY), sent: None };
        }
    }

    /// Takes the response to a request. Responses to abandoned requests are ignored.
    pub(crate) fn respond(&mut self, now: Duration, id: u64, response: MemberResponse) {
        self.expire(now);
        if matches!(self.phase, MemberPhase::Over(_)) {
            return;
        }
        match self.table_read.sent {
            Some(read) if read.id == id => self.table_was_read(now, read, response),
            _ => self.resolve_lease(now, id, response),
        }
    }

    fn table_was_read(&mut self, now: Duration, read: SentTableRead, response: MemberResponse) {
        self.table_read.sent = None;
        match response {
            MemberResponse::Table(Ok(table)) if table.revision < read.seen => self.end(MemberEnd::StoreWentBack),
            MemberResponse::Table(Ok(table)) => {
                self.apply(now, Arc::new(table));
                self.note_names(now);
            }
            MemberResponse::Table(Err(error)) => self.unreadable(error),
            // What is held continues. The next table has unknown slices.
            MemberResponse::Missing => self.unnamed_since = Some(self.unnamed_since.unwrap_or(now)),
            _ => self.table_read.wanted = Some(now + RETRY),
        }
    }

    fn resolve_lease(&mut self, now: Duration, id: u64, response: MemberResponse) {
        let LeaseAttempt::Sent { id: expected, request, sent, write, .. } = self.attempt else { return };
        if id != expected {
            return;
        }
        self.attempt = LeaseAttempt::Idle { until: now };
        match (request, response) {
            (LeaseRequest::Create, MemberResponse::Written { version }) => {
                self.renewed(now, sent, write, version, false)
            }
            (LeaseRequest::Update { leaving }, MemberResponse::Written { version }) => {
                self.renewed(now, sent, write, version, leaving);
            }
            (LeaseRequest::Read, MemberResponse::Lease { version, lease }) => self.was_read(now, version, &lease),
            (LeaseRequest::Delete, MemberResponse::Written { .. } | MemberResponse::Missing) => self.left(),
            (LeaseRequest::Read, MemberResponse::Missing) => self.missing(now),
            (LeaseRequest::Read, _) => self.attempt = LeaseAttempt::Idle { until: now.max(sent + RETRY) },
            // The outcome is unknown, or another client wrote: a read tells.
            (_, response) => {
                self.version = None;
                self.failed_writes = self.failed_writes.saturating_add(1);
                if response == MemberResponse::Conflict {
                    self.want_table(now);
                }
            }
        }
    }

    fn want_table(&mut self, now: Duration) {
        self.table_read.wanted.get_or_insert(now);
    }

    fn renewed(&mut self, now: Duration, sent: Duration, write: i64, version: u64, leaving: bool) {
        let from = if is_planted(RingDefect::ValidFromResponse) { now } else { sent };
        self.phase = MemberPhase::Joined;
        self.version = Some(version);
        self.confirmed_write = write;
        self.failed_writes = 0;
        self.valid_until = self.valid_until.max(Some(from + self.renew_deadline));
        self.attempt = LeaseAttempt::Idle { until: now.max(sent + self.heartbeat) };
        if self.has_lapsed && self.is_valid(now) {
            self.has_lapsed = false;
            self.events.push_back(MemberEvent::Resumed);
        }
        self.may_start = true;
        if leaving {
            self.leaving_since.get_or_insert(now);
            self.want_table(now);
        }
    }

    fn was_read(&mut self, now: Duration, version: u64, lease: &MemberLease) {
        let is_own = self.confirmed_write <= lease.renewed && lease.renewed <= self.last_write;
        match lease.fenced {
            Some(cause) if !is_planted(RingDefect::Recreate) => return self.end(MemberEnd::Fenced(cause)),
            None if !is_own && !is_planted(RingDefect::ReusedName) => return self.end(MemberEnd::Overwritten),
            _ => {}
        }
        if self.phase == MemberPhase::Joining {
            // The creation took effect, and its response was lost. Only a write makes the member valid.
            self.phase = MemberPhase::Joined;
        }
        self.confirmed_write = lease.renewed;
        self.version = Some(version);
        // The first failure is retried at once.
        let until = if self.failed_writes > 1 { now + RETRY } else { now };
        self.attempt = LeaseAttempt::Idle { until };
    }

    fn missing(&mut self, now: Duration) {
        let is_created = self.phase != MemberPhase::Joining;
        if is_created && !is_planted(RingDefect::Recreate) {
            return self.end(MemberEnd::Deleted);
        }
        // The creation may still take effect; then the next one meets a Lease that this member wrote.
        self.phase = MemberPhase::Joining;
        self.may_exist = false;
        self.attempt = LeaseAttempt::Idle { until: now + RETRY };
    }

    fn left(&mut self) {
        let end = self.leaves_as.clone().unwrap_or(MemberEnd::Left);
        self.end(end);
    }
}
