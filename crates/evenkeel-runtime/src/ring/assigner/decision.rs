//! What an assigner decides: fences, nudges, and the next table.

use std::time::Duration;

use evenkeel_core::shard::ShardRange;

use super::*;
use crate::ring::plan::{PlanInput, PlanMember, PlanScope, plan};
use crate::ring::table::{MAX_MEMBERS, SliceState};

impl AssignerMachine {
    /// Returns a fence, a nudge or a deletion that is due.
    pub(super) fn next_lease_write(&mut self, now: Duration, wall: i64) -> Option<AssignerOperation> {
        if !self.may_fence(now) || !self.is_tick_due(now) {
            return None;
        }
        self.note_obligations(now);
        self.forget_absent(now);
        let candidates = self.members.iter().filter(|(name, observed)| {
            observed.lease().is_some() && observed.read_at.is_none() && !self.is_member_pending(name)
        });
        for (name, observed) in candidates {
            let version = observed.version;
            if observed.live().is_none() {
                let is_named = self.table.as_ref().is_none_or(|observed| observed.table.is_involved(name));
                if !is_named && now >= observed.counted_from + self.lease_duration {
                    return Some(AssignerOperation::Remove(name.clone(), version));
                }
                continue;
            }
            if observed.has_expired(now, wall, self.lease_duration) && !is_planted(RingDefect::NoFence) {
                return Some(AssignerOperation::Fence(name.clone(), version, FenceCause::Expired));
            }
            let age = |since: &Duration| now.saturating_sub(*since);
            let mine = || self.obligations.range((name.clone(), 0)..=(name.clone(), u64::MAX));
            if mine().any(|(_, since)| age(since) > self.drain_limit + self.lease_duration) {
                return Some(AssignerOperation::Fence(name.clone(), version, FenceCause::Evicted));
            }
            let seen = observed.live().map_or(0, |lease| lease.record.seen);
            let is_unacknowledged = mine().any(|((_, since), at)| seen < *since && age(at) > NUDGE_AFTER);
            let was_nudged = observed.nudged_at.is_some_and(|at| now < at + NUDGE_AFTER);
            if is_unacknowledged && !was_nudged {
                let name = name.clone();
                if let Some(observed) = self.members.get_mut(&name) {
                    observed.nudged_at = Some(now);
                }
                return Some(AssignerOperation::Nudge(name, version));
            }
        }
        None
    }

    /// Notes what members owe: the release of moving slices, and the acknowledgement of a new table.
    fn note_obligations(&mut self, now: Duration) {
        let mut owed = Vec::new();
        if let Some(observed) = &self.table {
            for (range, state) in observed.table.iter() {
                if let SliceState::Moving { from, since, .. } = state
                    && !self.has_released(from, *since, range)
                {
                    owed.push((from.clone(), *since));
                }
            }
            if let Some(confirmed) = observed.table.confirmed
                && observed.table.iter().any(|(_, state)| *state == SliceState::Unknown)
            {
                let late = self.live_members().filter(|(_, lease)| lease.record.seen < confirmed);
                owed.extend(late.map(|(name, _)| (name.clone(), confirmed)));
            }
        }
        self.obligations.retain(|key, _| owed.contains(key));
        for key in owed {
            self.obligations.entry(key).or_insert(now);
        }
    }

    /// Forgets members that are out and that no table names.
    fn forget_absent(&mut self, now: Duration) {
        let (table, duration) = (self.table.as_ref(), self.lease_duration);
        self.members.retain(|name, observed| {
            let is_absent = matches!(observed.lease, ObservedLease::Absent);
            let is_named =
                table.is_none_or(|observed| observed.table.members.contains(name) || observed.table.is_involved(name));
            is_named || !is_absent || !observed.is_out(now, duration)
        });
    }

    /// Returns whether a member has released a range since a revision.
    fn has_released(&self, name: &MemberName, since: u64, range: ShardRange) -> bool {
        let lease = self.members.get(name).and_then(MemberObservation::lease);
        lease.is_some_and(|lease| {
            let has_seen = lease.record.seen >= since || is_planted(RingDefect::ReleaseWithoutSeen);
            has_seen && lease.record.has_released(range)
        })
    }

    fn is_tick_due(&self, now: Duration) -> bool {
        self.is_dirty || self.decided_at.is_none_or(|at| now >= at + TABLE_GAP)
    }

    /// Returns a write of the table that is due.
    pub(super) fn next_table_write(&mut self, now: Duration, term: u64) -> Option<AssignerOperation> {
        let is_paced = self.table_written_at.is_some_and(|at| now < at + TABLE_GAP);
        if is_paced || self.needs_table || self.is_table_pending() || !self.is_term_settled || !self.is_tick_due(now) {
            return None;
        }
        if let (None, Some(listed)) = (&self.table, self.creatable_at) {
            self.creatable_at = None;
            self.table_written_at = Some(now);
            let members: Vec<MemberName> =
                self.live_members().map(|(name, _)| name.clone()).take(MAX_MEMBERS).collect();
            let count = self.slices_per_member * members.len().max(1);
            let table = SliceTable::unknown(listed, term, Arc::clone(&self.terms), members, count);
            return Some(AssignerOperation::CreateTable(table));
        }
        self.decided_at = Some(now);
        self.is_dirty = false;
        let ObservedTable { version, table, listed } = self.table.clone()?;
        let mut next = table.succeeded_by(version, term);
        next.confirmed.get_or_insert(version);
        self.resolve_unknown(now, &table, listed, &mut next);
        self.advance(now, &mut next);
        self.update_members(&mut next);
        self.plan(now, &mut next);
        if next.succeeded_by(table.revision, table.term) == *table {
            return None;
        }
        self.table_written_at = Some(now);
        Some(AssignerOperation::UpdateTable(next, version))
    }

    /// Gives unknown slices to the members that report them, and frees the rest once nothing else can be working on them.
    fn resolve_unknown(&self, now: Duration, old: &SliceTable, listed: Option<(u64, Duration)>, next: &mut SliceTable) {
        let Some(confirmed) = old.confirmed else { return };
        let Some((_, listed_at)) = listed.filter(|(at, _)| *at == confirmed) else { return };
        let reporting = self.members.iter().filter(|(name, _)| !self.is_out(name, now));
        let reports: Vec<(MemberName, ShardRange)> = reporting
            .filter_map(|(name, observed)| Some((name, observed.live()?)))
            .filter(|(_, lease)| lease.record.seen >= confirmed)
            .flat_map(|(name, lease)| lease.record.holds.iter().map(|range| (name.clone(), *range)))
            .collect();
        for (owner, range) in reports {
            for index in next.index_of(range.start()).. {
                if index >= next.len() {
                    break;
                }
                let Some(part) = next.range(index).intersection(range) else { break };
                if *next.state(index) != SliceState::Unknown {
                    continue;
                }
                next.split_at(part.start());
                if let Ok(end) = u64::try_from(part.end()) {
                    next.split_at(end);
                }
                let at = next.index_of(part.start());
                *next.state_mut(at) = SliceState::Held { owner: owner.clone(), epoch: next.revision, next: None };
            }
        }
        let is_clear = |observed: &MemberObservation| match observed.live() {
            Some(lease) => lease.record.seen >= confirmed,
            None => observed.is_out(now, self.lease_duration),
        };
        let waited = now >= listed_at + self.lease_duration;
        if (waited && self.members.values().all(is_clear)) || is_planted(RingDefect::RebuildNow) {
            for index in 0..next.len() {
                if *next.state(index) == SliceState::Unknown {
                    *next.state_mut(index) = SliceState::Free;
                }
            }
        }
    }

    /// Moves each slice on as far as its members allow.
    fn advance(&mut self, now: Duration, next: &mut SliceTable) {
        let mut announced = BTreeMap::new();
        for index in 0..next.len() {
            let (range, revision) = (next.range(index), next.revision);
            let state = match next.state(index).clone() {
                SliceState::Held { owner, .. } if self.is_out(&owner, now) => SliceState::Free,
                SliceState::Held { owner, epoch, next: Some(target) } if !self.may_gain(&target) => {
                    SliceState::Held { owner, epoch, next: None }
                }
                SliceState::Held { owner, epoch, next: Some(target) } => {
                    let key = (range.start(), target.clone());
                    let since = self.announced.get(&key).copied().unwrap_or(now);
                    if self.is_warm(&target, range) || now >= since + self.warm_limit(&owner) {
                        SliceState::Moving { from: owner, epoch, since: revision, to: Some(target) }
                    } else {
                        announced.insert(key, since);
                        SliceState::Held { owner, epoch, next: Some(target) }
                    }
                }
                SliceState::Moving { from, epoch, since, to } => {
                    let to = to.filter(|target| self.may_gain(target));
                    let is_released = self.is_out(&from, now) || self.has_released(&from, since, range);
                    let owner_stays = self
                        .members
                        .get(&from)
                        .and_then(MemberObservation::live)
                        .is_some_and(|lease| !lease.record.leaving);
                    match to {
                        Some(owner) if is_released => SliceState::Held { owner, epoch: revision, next: None },
                        None if is_released => SliceState::Free,
                        None if owner_stays => SliceState::Held { owner: from, epoch: revision, next: None },
                        to => SliceState::Moving { from, epoch, since, to },
                    }
                }
                state => state,
            };
            *next.state_mut(index) = state;
        }
        self.announced = announced;
    }

    fn is_warm(&self, name: &MemberName, range: ShardRange) -> bool {
        self.members.get(name).and_then(MemberObservation::live).is_some_and(|lease| lease.record.is_warm(range))
    }

    /// A leaver does not wait for longer than its work may take to stop.
    fn warm_limit(&self, owner: &MemberName) -> Duration {
        let lease = self.members.get(owner).and_then(MemberObservation::live);
        match lease.is_some_and(|lease| lease.record.leaving) {
            true => self.drain_limit.min(WARM_LIMIT),
            false => WARM_LIMIT,
        }
    }

    /// Adds members that joined, and removes those that are out or left.
    fn update_members(&self, next: &mut SliceTable) {
        let involved = next.involved();
        let stays = |name: &MemberName| {
            let live = self.members.get(name).and_then(MemberObservation::live);
            involved.contains(name) || live.is_some_and(|lease| !lease.record.leaving && self.fits(lease))
        };
        next.members.retain(stays);
        for (name, lease) in self.live_members() {
            if next.members.len() < MAX_MEMBERS
                && !lease.record.leaving
                && self.fits(lease)
                && !next.members.contains(name)
            {
                next.members.push(name.clone());
            }
        }
        // Members that hold a slice of a new table, and were not in the list that it was made of.
        for name in involved {
            if !next.members.contains(&name) {
                next.members.push(name);
            }
        }
    }

    fn plan(&mut self, now: Duration, next: &mut SliceTable) {
        let is_settled = self.last_join.is_none_or(|last| now >= last + self.settle)
            || self.first_unsettled_join.is_some_and(|first| now >= first + 3 * self.settle);
        if is_settled {
            self.first_unsettled_join = None;
        }
        let has_gaps = next.iter().any(|(_, state)| !state.is_held());
        // The loads of parts are known some heartbeats after a split.
        let is_measured = self.shaped_at.is_none_or(|at| now >= at + 2 * self.heartbeat);
        let is_due = |since: Option<Duration>, after| since.is_some_and(|since| now >= since + after);
        let scope = PlanScope {
            assign: is_settled,
            fill: is_settled && self.is_filling && !has_gaps && is_measured,
            balance: is_settled && is_measured && is_due(self.unbalanced_since, BALANCE_AFTER),
            shape: is_settled && !has_gaps && self.shaped_at.is_none_or(|at| now >= at + self.lease_duration),
        };
        let members: Vec<PlanMember> = next.members.iter().filter_map(|name| self.plan_member(name)).collect();
        let loads: Vec<_> = self.live_members().flat_map(|(_, lease)| lease.record.load.iter().cloned()).collect();
        let input = PlanInput {
            members: &members,
            loads: &loads,
            slices_per_member: self.slices_per_member,
            imbalance: self.imbalance,
            revision: next.revision,
            scope,
        };
        let before = next.clone();
        self.report = plan(next, &input);
        if scope.fill {
            self.is_filling = self.report.is_filling || before != *next;
        }
        if scope.shape && before.len() != next.len() {
            self.shaped_at = Some(now);
        }
        let is_unbalanced = self.report.imbalance > 1.0 + self.imbalance;
        self.unbalanced_since = match self.unbalanced_since {
            _ if !is_unbalanced => None,
            Some(_) if scope.balance => Some(now),
            since => since.or(Some(now)),
        };
    }

    fn plan_member(&self, name: &MemberName) -> Option<PlanMember> {
        let lease = self.members.get(name).and_then(MemberObservation::live)?;
        Some(PlanMember {
            name: name.clone(),
            capacity: lease.record.capacity,
            build: lease.record.build.clone(),
            is_leaving: lease.record.leaving,
            may_gain: self.may_gain(name),
        })
    }
}
