//! The requests of an assigner and their responses.

use std::time::Duration;

use super::*;
use crate::ring::table::SliceState;

#[derive(Clone, Debug)]
pub(super) struct PendingRequest {
    kind: RequestKind,
    pub(super) give_up: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum RequestKind {
    /// The confirmed revision of the table when the list was sent.
    List(Option<u64>),
    ReadTable,
    WriteTable(SliceTable),
    ReadMember(MemberName),
    Fence(MemberName, FenceCause),
    /// A nudge, or a deletion.
    Touch(MemberName),
}

impl RequestKind {
    fn member(&self) -> Option<&MemberName> {
        match self {
            RequestKind::ReadMember(name) | RequestKind::Fence(name, _) | RequestKind::Touch(name) => Some(name),
            RequestKind::List(_) | RequestKind::ReadTable | RequestKind::WriteTable(_) => None,
        }
    }
}

impl AssignerMachine {
    fn is_pending(&self, matches: impl Fn(&RequestKind) -> bool) -> bool {
        self.pending.values().any(|pending| matches(&pending.kind))
    }

    pub(super) fn is_member_pending(&self, name: &MemberName) -> bool {
        self.is_pending(|kind| kind.member() == Some(name))
    }

    pub(super) fn is_table_pending(&self) -> bool {
        self.is_pending(|kind| matches!(kind, RequestKind::ReadTable | RequestKind::WriteTable(_)))
    }

    pub(super) fn send(&mut self, now: Duration, operation: AssignerOperation) -> AssignerRequest {
        self.last_id += 1;
        let kind = match &operation {
            AssignerOperation::List => RequestKind::List(self.table().and_then(|table| table.confirmed)),
            AssignerOperation::ReadTable => RequestKind::ReadTable,
            AssignerOperation::CreateTable(table) | AssignerOperation::UpdateTable(table, _) => {
                RequestKind::WriteTable(table.clone())
            }
            AssignerOperation::ReadMember(name) => RequestKind::ReadMember(name.clone()),
            AssignerOperation::Fence(name, _, cause) => RequestKind::Fence(name.clone(), *cause),
            AssignerOperation::Nudge(name, _) | AssignerOperation::Remove(name, _) => RequestKind::Touch(name.clone()),
        };
        let give_up = now + self.heartbeat;
        self.pending.insert(self.last_id, PendingRequest { kind, give_up });
        AssignerRequest { id: self.last_id, operation, give_up }
    }

    /// Returns a read that is due.
    pub(super) fn next_read(&mut self, now: Duration) -> Option<AssignerOperation> {
        let has_unlisted = self.table.as_ref().is_some_and(|observed| {
            let has_unknown = || observed.table.iter().any(|(_, state)| *state == SliceState::Unknown);
            observed.table.confirmed.is_some()
                && observed.listed.map(|(at, _)| at) != observed.table.confirmed
                && has_unknown()
        });
        let lists = self.needs_list || has_unlisted;
        if lists && now >= self.list_after && !self.is_pending(|kind| matches!(kind, RequestKind::List(_))) {
            return Some(AssignerOperation::List);
        }
        let is_unsettled = self.table().is_some_and(|table| !table.iter().all(|(_, state)| state.is_held()));
        let is_due = is_unsettled && now >= self.table_read_at + self.lease_duration;
        if (self.needs_table || is_due || self.unreadable.is_some())
            && now >= self.table_after
            && !self.is_table_pending()
        {
            return Some(AssignerOperation::ReadTable);
        }
        let due = self
            .members
            .iter()
            .find(|(name, observed)| observed.read_at.is_some_and(|at| now >= at) && !self.is_member_pending(name));
        due.map(|(name, _)| AssignerOperation::ReadMember(name.clone()))
    }

    pub(super) fn abandon_late_requests(&mut self, now: Duration) {
        let late: Vec<u64> =
            self.pending.iter().filter(|(_, pending)| now >= pending.give_up).map(|(id, _)| *id).collect();
        for id in late {
            self.resolve(now, id, AssignerResponse::Failed);
        }
    }

    /// Takes the response to a request. Responses to abandoned requests are ignored. Returns the cause of a fence that succeeded.
    pub(crate) fn respond(&mut self, now: Duration, id: u64, response: AssignerResponse) -> Option<FenceCause> {
        self.abandon_late_requests(now);
        let fence = match (&response, self.pending.get(&id)) {
            (AssignerResponse::Written { .. }, Some(PendingRequest { kind: RequestKind::Fence(_, cause), .. })) => {
                Some(*cause)
            }
            _ => None,
        };
        self.resolve(now, id, response);
        fence
    }

    fn resolve(&mut self, now: Duration, id: u64, response: AssignerResponse) {
        let Some(PendingRequest { kind, .. }) = self.pending.remove(&id) else { return };
        self.is_dirty = true;
        if !matches!(response, AssignerResponse::Failed) {
            self.note_read(now);
        }
        match kind {
            RequestKind::List(confirmed) => self.listed(now, confirmed, response),
            RequestKind::ReadTable => self.table_was_read(now, response),
            RequestKind::WriteTable(table) => self.table_was_written(now, table, response),
            RequestKind::ReadMember(name) => self.member_was_read(now, &name, response),
            RequestKind::Fence(name, cause) => self.fenced(now, &name, cause, response),
            RequestKind::Touch(name) => {
                if !matches!(response, AssignerResponse::Written { .. }) {
                    self.read_member(now + RETRY, &name);
                }
            }
        }
    }

    fn listed(&mut self, now: Duration, confirmed: Option<u64>, response: AssignerResponse) {
        let AssignerResponse::Listed { version, members, table } = response else {
            self.list_after = now + RETRY;
            return;
        };
        self.needs_list = false;
        let names: Vec<MemberName> = members.iter().map(|(name, ..)| name.clone()).collect();
        for (name, version, lease) in members {
            self.observe_member(now, &name, version, lease);
        }
        if let Some((_, Ok(table))) = &table {
            self.compare_terms(table.term);
        }
        match table {
            Some(table) => self.observe_read_table(now, table),
            None if version >= self.table_floor => {
                self.table_is_missing();
                self.needs_list = false;
                self.table_floor = version;
                self.creatable_at = Some(version);
            }
            // The list is older than what is known of the table.
            None => self.needs_list = self.table.is_none(),
        }
        self.is_term_settled = true;
        self.read_unknown_owners(now);
        // The list is consistent: what it does not have is deleted, or was created after it.
        for (name, observed) in &mut self.members {
            if !names.contains(name) && observed.version <= version {
                observed.deleted(now);
                observed.read_at = None;
            }
        }
        if let Some(observed) = &mut self.table
            && confirmed.is_some()
            && observed.table.confirmed == confirmed
            && observed.listed.map(|(at, _)| at) != confirmed
        {
            observed.listed = confirmed.map(|confirmed| (confirmed, now));
        }
    }

    fn table_was_read(&mut self, now: Duration, response: AssignerResponse) {
        match response {
            AssignerResponse::Table(table) => {
                self.needs_table = false;
                self.table_read_at = now;
                self.table_after = now + if self.unreadable.is_some() { self.lease_duration } else { RETRY };
                self.observe_read_table(now, table);
            }
            AssignerResponse::Missing => {
                self.needs_table = false;
                self.table_read_at = now;
                self.table_is_missing();
            }
            _ => self.table_after = now + RETRY,
        }
    }

    fn table_was_written(&mut self, now: Duration, table: SliceTable, response: AssignerResponse) {
        match response {
            AssignerResponse::Written { version } => self.observe_table(now, (version, Ok(Arc::new(table)))),
            AssignerResponse::Missing => self.table_is_missing(),
            // Another assigner was faster, or the outcome is unknown.
            _ => {
                self.creatable_at = None;
                self.needs_table = true;
                self.table_after = now;
            }
        }
    }

    fn read_member(&mut self, at: Duration, name: &MemberName) {
        if let Some(observed) = self.members.get_mut(name) {
            observed.read_at = Some(at);
        }
    }

    fn member_was_read(&mut self, now: Duration, name: &MemberName, response: AssignerResponse) {
        let Some(observed) = self.members.get_mut(name) else { return };
        match response {
            AssignerResponse::Member(version, lease) => {
                observed.read_at = None;
                self.observe_member(now, name, version, lease);
            }
            AssignerResponse::Missing => {
                observed.read_at = None;
                observed.deleted(now);
            }
            _ => observed.read_at = Some(now + RETRY),
        }
    }

    fn fenced(&mut self, now: Duration, name: &MemberName, cause: FenceCause, response: AssignerResponse) {
        let Some(observed) = self.members.get_mut(name) else { return };
        match (response, observed.lease().cloned()) {
            (AssignerResponse::Written { version }, Some(lease)) => {
                observed.observe(now, version, MemberLease { fenced: Some(cause), ..lease });
            }
            (AssignerResponse::Missing, _) => observed.deleted(now),
            (AssignerResponse::Conflict, _) => observed.read_at = Some(now),
            _ => observed.read_at = Some(now + RETRY),
        }
    }
}
