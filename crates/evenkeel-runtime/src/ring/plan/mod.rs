//! [`plan`]: which member should own which slice. A pure function: no clock, no randomness.
//!
//! In this order: free slices are assigned; leavers give their slices to others; members that joined are filled; load is
//! balanced; slices are split and merged. A slice that moves counts at its target.

mod loads;

use std::collections::BTreeSet;

use evenkeel_core::shard::ShardRange;

use super::member_record::SliceLoad;
use super::planted::{RingDefect, is_planted};
use super::table::{MAX_SLICES, MemberName, SliceState, SliceTable};
use loads::Loads;

/// The share of the weight that one round of balancing moves at most.
const BALANCE_BUDGET: f64 = 0.05;
/// How many slices per member are split for their weight, relative to the target number of slices.
const SLICE_CEILING: usize = 2;

/// What a plan is made from, besides the table.
pub(crate) struct PlanInput<'a> {
    /// The members, the oldest first.
    pub(crate) members: &'a [PlanMember],
    pub(crate) loads: &'a [SliceLoad],
    /// The target number of slices per member.
    pub(crate) slices_per_member: usize,
    /// How far above its share a member may be.
    pub(crate) imbalance: f64,
    /// The revision of the table that is made.
    pub(crate) revision: u64,
    pub(crate) scope: PlanScope,
}

/// A member as a plan sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlanMember {
    pub(crate) name: MemberName,
    pub(crate) capacity: u32,
    pub(crate) build: String,
    pub(crate) is_leaving: bool,
    /// The member is alive and can be given slices.
    pub(crate) may_gain: bool,
}

/// Which steps are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlanScope {
    /// Free slices are assigned.
    pub(crate) assign: bool,
    /// Members that have less than their share are filled to it, slice by slice.
    pub(crate) fill: bool,
    /// The imbalance has lasted for long enough.
    pub(crate) balance: bool,
    /// Slices may be split and merged.
    pub(crate) shape: bool,
}

/// What a plan tells besides the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlanReport {
    /// The load of the most loaded member relative to its share. 0 without members.
    pub(crate) imbalance: f64,
    /// Slices of a single place that weigh more than the share of a member.
    pub(crate) hot: Vec<ShardRange>,
    /// A member below its share could not be filled within the limit of simultaneous moves.
    pub(crate) is_filling: bool,
}

/// Changes the table as the members and their loads require.
pub(crate) fn plan(table: &mut SliceTable, input: &PlanInput<'_>) -> PlanReport {
    let mut planner = Planner { loads: Loads::new(table, input), input, is_filling: false };
    if input.scope.assign {
        planner.assign_free(table);
    }
    planner.serve_leavers(table);
    if input.scope.fill {
        planner.fill(table);
    }
    if input.scope.balance && !table.iter().any(|(_, state)| state.is_moving()) {
        planner.balance(table);
    }
    if input.scope.shape {
        planner.split(table);
        planner.merge(table);
    }
    let is_filling = planner.is_filling;
    let loads = Loads::new(table, input);
    PlanReport { imbalance: loads.imbalance(), hot: loads.hot(table), is_filling }
}

struct Planner<'a> {
    input: &'a PlanInput<'a>,
    loads: Loads,
    is_filling: bool,
}

impl Planner<'_> {
    /// How many slices may move at once: a tenth, and at least those of one member.
    fn free_moves(&self, table: &SliceTable) -> usize {
        let moving = table.iter().filter(|(_, state)| state.is_moving()).count();
        (table.len() / 10).max(self.input.slices_per_member).saturating_sub(moving)
    }

    fn assign_free(&mut self, table: &mut SliceTable) {
        let mut free: Vec<usize> = (0..table.len()).filter(|index| *table.state(*index) == SliceState::Free).collect();
        // The heaviest first; equal ones in the order of their places.
        free.sort_by(|a, b| self.loads.weight(*b).total_cmp(&self.loads.weight(*a)));
        for index in free {
            let Some(owner) = self.loads.best_target(self.loads.weight(index), None) else { return };
            self.loads.add(&owner, self.loads.weight(index));
            *table.state_mut(index) = SliceState::Held { owner, epoch: self.input.revision, next: None };
        }
    }

    fn serve_leavers(&mut self, table: &mut SliceTable) {
        let mut free_moves = self.free_moves(table);
        let leaving: BTreeSet<&MemberName> =
            self.input.members.iter().filter(|member| member.is_leaving).map(|member| &member.name).collect();
        for index in 0..table.len() {
            let SliceState::Held { owner, epoch, next: None } = table.state(index).clone() else { continue };
            if !leaving.contains(&owner) || free_moves == 0 {
                continue;
            }
            free_moves -= 1;
            let weight = self.loads.weight(index);
            let newest = self.input.members.iter().rfind(|member| member.may_gain && !member.is_leaving);
            let target = self.loads.best_target(weight, newest.map(|member| &*member.build));
            *table.state_mut(index) = match target {
                Some(target) => {
                    self.loads.move_weight(&owner, &target, weight);
                    SliceState::Held { owner, epoch, next: Some(target) }
                }
                None => SliceState::Moving { from: owner, epoch, since: self.input.revision, to: None },
            };
        }
    }

    /// Fills members that are below their share. The weight that moves to one is at most its share and one slice.
    fn fill(&mut self, table: &mut SliceTable) {
        let mut free_moves = self.free_moves(table);
        for joiner in self.loads.gainers() {
            while let Some(index) = self.slice_for(table, &joiner) {
                if free_moves == 0 {
                    self.is_filling = true;
                    return;
                }
                free_moves -= 1;
                self.announce(table, index, &joiner);
            }
        }
    }

    /// Returns a slice that a member below its share should get from the member with the highest load.
    fn slice_for(&self, table: &SliceTable, joiner: &MemberName) -> Option<usize> {
        let missing = self.loads.share(joiner) - self.loads.load(joiner);
        let donor = self.loads.most_loaded().filter(|donor| donor != joiner)?;
        let improves = |index: &usize| {
            self.loads.relative(joiner, self.loads.weight(*index)) < self.loads.relative(&donor, 0.0) - 1e-9
        };
        let slices = self.settled_slices(table, &donor);
        let by_weight = |a: &usize, b: &usize| self.loads.weight(*a).total_cmp(&self.loads.weight(*b)).then(b.cmp(a));
        let fits = slices.iter().copied().filter(|index| self.loads.weight(*index) <= missing + 1e-9).max_by(by_weight);
        // One slice more than the share, if the share is not reached.
        let overshoots = slices.iter().copied().filter(|_| missing > 1e-9).min_by(by_weight);
        fits.filter(|index| self.loads.weight(*index) > 0.0 && missing > 1e-9).or(overshoots).filter(improves)
    }

    fn balance(&mut self, table: &mut SliceTable) {
        let mut budget = BALANCE_BUDGET;
        for _ in 0..self.free_moves(table) {
            if self.loads.imbalance() <= 1.0 + self.input.imbalance {
                return;
            }
            let (Some(donor), Some(target)) = (self.loads.most_loaded(), self.loads.least_loaded()) else { return };
            let slices = self.settled_slices(table, &donor);
            let fits = |index: &usize| {
                let weight = self.loads.weight(*index);
                let improves = self.loads.relative(&target, weight) < self.loads.relative(&donor, 0.0) - 1e-9;
                weight > 0.0 && weight <= budget && improves
            };
            let by_weight =
                |a: &usize, b: &usize| self.loads.weight(*a).total_cmp(&self.loads.weight(*b)).then(b.cmp(a));
            let Some(index) = slices.into_iter().filter(fits).max_by(by_weight) else { return };
            budget -= self.loads.weight(index);
            self.announce(table, index, &target);
        }
    }

    fn announce(&mut self, table: &mut SliceTable, index: usize, target: &MemberName) {
        let SliceState::Held { owner, epoch, .. } = table.state(index).clone() else { return };
        if is_planted(RingDefect::CountsAtSource) {
            // The load of the source stays, so that it looks as if it still had too much.
        } else {
            self.loads.move_weight(&owner, target, self.loads.weight(index));
        }
        *table.state_mut(index) = SliceState::Held { owner, epoch, next: Some(target.clone()) };
    }

    /// Returns the slices that a member holds and that do not move.
    fn settled_slices(&self, table: &SliceTable, member: &MemberName) -> Vec<usize> {
        let is_settled = |index: &usize| matches!(table.state(*index), SliceState::Held { owner, next: None, .. } if owner == member);
        (0..table.len()).filter(is_settled).collect()
    }

    /// Splits slices until there are enough, and those that are far above the mean.
    fn split(&mut self, table: &mut SliceTable) {
        let members = self.loads.gainers().len();
        let target = (members * self.input.slices_per_member).min(MAX_SLICES);
        let ceiling = (target * SLICE_CEILING).min(MAX_SLICES);
        let mut wanted: Vec<(f64, u64)> = (0..table.len())
            .filter(|index| matches!(table.state(*index), SliceState::Held { next: None, .. }))
            .map(|index| (self.loads.weight(index), table.range(index).start()))
            .collect();
        wanted.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mean = 1.0 / target.max(1) as f64;
        // At most one part of each slice is split, as the loads of the parts are not known yet.
        for (weight, start) in wanted.into_iter().take(members.max(1)) {
            let count = table.len();
            if !(count < target || (weight > 2.0 * mean && count < ceiling)) {
                return;
            }
            let range = table.range(table.index_of(start));
            if let Some(at) = split_point(range, self.loads.median(start)) {
                table.split_at(at);
            }
        }
    }

    /// Merges neighbours of one owner that weigh little together, if there are too many slices.
    fn merge(&mut self, table: &mut SliceTable) {
        let target = self.loads.gainers().len() * self.input.slices_per_member;
        if target == 0 || table.len() <= target * SLICE_CEILING {
            return;
        }
        let loads = Loads::new(table, self.input);
        let mean = 1.0 / target as f64;
        let mut surplus = table.len() - target * SLICE_CEILING;
        for index in (0..table.len() - 1).rev() {
            if surplus > 0 && loads.weight(index) + loads.weight(index + 1) < mean / 2.0 {
                let before = table.len();
                table.merge_after(index);
                surplus -= before - table.len();
            }
        }
    }
}

/// Returns where to split a slice: at the median of its weight, or in the middle. `None` if it has a single place.
fn split_point(range: ShardRange, median: Option<u64>) -> Option<u64> {
    let middle = || u64::try_from(u128::from(range.start()) + range.width() / 2).ok();
    let at = match median.filter(|median| range.contains(*median)) {
        // Half of the weight is at the first place.
        Some(median) if median == range.start() => median.checked_add(1)?,
        Some(median) => median,
        None => middle()?,
    };
    (at > range.start() && range.contains(at)).then_some(at)
}

#[cfg(test)]
mod tests;
