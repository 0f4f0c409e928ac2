//! [`Holdings`]: the ranges that a member works on or still has to release.

use std::collections::VecDeque;

use evenkeel_core::shard::{ShardRange, ShardRanges};

use super::MemberEvent;
use crate::ring::planted::{RingDefect, is_planted};
use crate::ring::table::{MemberName, SliceState, SliceTable};

/// A range that the member has started and not yet released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holding {
    pub(crate) range: ShardRange,
    pub(crate) epoch: u64,
    /// The work of the range is stopping.
    pub(crate) is_draining: bool,
}

#[derive(Debug, Default)]
pub(super) struct Holdings {
    /// In ascending order, without overlap.
    held: Vec<Holding>,
    /// From whom ranges move to this member, for ranges that it has not started.
    predecessors: Vec<(ShardRange, MemberName)>,
    /// Ranges that caches may have had before they became this member's, and that it has not started.
    prepared: ShardRanges,
    /// The ranges that the last table has as this member's.
    granted: ShardRanges,
}

impl Holdings {
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &Holding> {
        self.held.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn ranges(&self) -> ShardRanges {
        self.held.iter().map(|holding| holding.range).collect()
    }

    /// Returns what the Lease says about these ranges: the ranges that are not released.
    pub(super) fn published(&self) -> Vec<ShardRange> {
        let released_early = |holding: &&Holding| holding.is_draining && is_planted(RingDefect::EarlyRelease);
        self.held.iter().filter(|holding| !released_early(holding)).map(|holding| holding.range).collect()
    }

    /// Stops what a new table takes away from the member.
    pub(super) fn apply(
        &mut self,
        me: &str,
        wanted: &ShardRanges,
        table: &SliceTable,
        events: &mut VecDeque<MemberEvent>,
    ) {
        self.note_prepared(me, wanted, table);
        let mut next: Vec<Holding> = Vec::with_capacity(self.held.len());
        for holding in std::mem::take(&mut self.held) {
            let mut last_slice = None;
            for index in table.index_of(holding.range.start())..table.len() {
                let Some(range) = holding.range.intersection(table.range(index)) else { break };
                let mut piece = Holding { range, ..holding };
                match table.state(index) {
                    SliceState::Held { owner, epoch, .. } if **owner == *me => piece.epoch = piece.epoch.max(*epoch),
                    SliceState::Moving { from, .. } if **from == *me => {
                        if !std::mem::replace(&mut piece.is_draining, true) {
                            events.push_back(MemberEvent::Drain { range });
                        }
                    }
                    SliceState::Unknown => {}
                    _ => {
                        events.push_back(MemberEvent::Lost { range });
                        continue;
                    }
                }
                last_slice = Some(index);
                next.push(piece);
            }
            // A merged slice holds ranges that were granted apart.
            if let Some(index) = last_slice {
                coalesce(&mut next, table.range(index));
            }
        }
        self.held = next;
        self.note_predecessors(me, table);
    }

    /// Notes which of the ranges that a table grants were `wanted` before, while another member could work on them.
    fn note_prepared(&mut self, me: &str, wanted: &ShardRanges, table: &SliceTable) {
        let is_mine = |state: &SliceState| matches!(state, SliceState::Held { owner, .. } if **owner == *me);
        let mine: ShardRanges = table.iter().filter(|(_, state)| is_mine(state)).map(|(range, _)| range).collect();
        let granted_before = self.granted.clone();
        self.prepared = self.prepared.union(&mine.difference(&granted_before).intersection(wanted)).intersection(&mine);
        self.granted = mine;
    }

    fn note_predecessors(&mut self, me: &str, table: &SliceTable) {
        let is_mine = |state: &SliceState| matches!(state, SliceState::Held { owner, .. } if **owner == *me);
        self.predecessors.retain(|(range, _)| is_mine(table.state(table.index_of(range.start()))));
        for (range, state) in table.iter() {
            if let SliceState::Moving { from, to: Some(to), .. } = state
                && **to == *me
            {
                self.predecessors.push((range, from.clone()));
            }
        }
    }

    /// Starts what the table grants, as far as `covered` contains it.
    pub(super) fn start(
        &mut self,
        me: &str,
        table: &SliceTable,
        covered: &ShardRanges,
        events: &mut VecDeque<MemberEvent>,
    ) {
        let started = self.ranges();
        for (slice, state) in table.iter() {
            let SliceState::Held { owner, epoch, .. } = state else { continue };
            if **owner != *me {
                continue;
            }
            let missing = ShardRanges::from(slice).difference(&started);
            if missing.is_empty() || !covered.covers(&missing) {
                continue;
            }
            for range in missing.iter() {
                let from = self.predecessors.iter().find(|(from, _)| from.intersection(range).is_some());
                let predecessor = from.map(|(_, name)| name.clone());
                let is_prepared = self.prepared.intersects(&range.into());
                events.push_back(MemberEvent::Granted { range, epoch: *epoch, predecessor, is_prepared });
                self.held.push(Holding { range, epoch: *epoch, is_draining: false });
            }
            self.predecessors.retain(|(range, _)| slice.intersection(*range).is_none());
            self.prepared = self.prepared.difference(&slice.into());
        }
        self.held.sort_unstable_by_key(|holding| holding.range);
    }

    /// Removes a range whose work has ended. Returns whether the member held a part of it.
    pub(super) fn drained(&mut self, range: ShardRange) -> bool {
        let mut is_released = false;
        let mut left = Vec::with_capacity(self.held.len());
        for holding in std::mem::take(&mut self.held) {
            if !holding.is_draining || holding.range.intersection(range).is_none() {
                left.push(holding);
                continue;
            }
            is_released = true;
            let rest = ShardRanges::from(holding.range).difference(&range.into());
            left.extend(rest.iter().map(|range| Holding { range, ..holding }));
        }
        self.held = left;
        is_released
    }

    /// Makes all ranges drain.
    pub(super) fn drain_all(&mut self, events: &mut VecDeque<MemberEvent>) {
        for holding in &mut self.held {
            if !std::mem::replace(&mut holding.is_draining, true) {
                events.push_back(MemberEvent::Drain { range: holding.range });
            }
        }
    }

    /// Drops everything at once.
    pub(super) fn lose_all(&mut self, events: &mut VecDeque<MemberEvent>) {
        events.extend(self.held.drain(..).map(|holding| MemberEvent::Lost { range: holding.range }));
        self.predecessors.clear();
        self.prepared = ShardRanges::empty();
    }
}

/// Joins the last two ranges if they are adjacent parts of one slice with the same state.
fn coalesce(held: &mut Vec<Holding>, slice: ShardRange) {
    if let [.., first, second] = held.as_mut_slice()
        && first.range.end() == u128::from(second.range.start())
        && (first.epoch, first.is_draining) == (second.epoch, second.is_draining)
        && slice.contains(first.range.start())
        && let Ok(joined) = ShardRange::new(first.range.start(), second.range.end())
    {
        first.range = joined;
        held.pop();
    }
}
