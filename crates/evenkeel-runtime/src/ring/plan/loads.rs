//! [`Loads`]: the weight of slices and of members, as shares of the whole.

use std::collections::BTreeMap;

use evenkeel_core::shard::{PLACES, ShardRange};

use super::PlanInput;
use crate::ring::planted::{RingDefect, is_planted};
use crate::ring::table::{MemberName, SliceTable};

pub(super) struct Loads {
    /// By slice. The sum is 1.
    weights: Vec<f64>,
    medians: BTreeMap<u64, u64>,
    /// Members that can be given slices, in the order of their age.
    members: Vec<MemberLoad>,
    imbalance: f64,
}

struct MemberLoad {
    name: MemberName,
    build: String,
    capacity: f64,
    load: f64,
}

impl Loads {
    pub(super) fn new(table: &SliceTable, input: &PlanInput<'_>) -> Self {
        let can_gain =
            input.members.iter().filter(|member| member.may_gain && !member.is_leaving && member.capacity > 0);
        let members = can_gain.map(|member| MemberLoad {
            name: member.name.clone(),
            build: member.build.clone(),
            capacity: member.capacity.into(),
            load: 0.0,
        });
        let medians = input.loads.iter().filter_map(|load| Some((load.start, load.median?))).collect();
        let mut loads =
            Loads { weights: weights(table, input), medians, members: members.collect(), imbalance: input.imbalance };
        for (index, (_, state)) in table.iter().enumerate() {
            let counted = match is_planted(RingDefect::CountsAtSource) {
                true => state.owner(),
                false => state.settles_at(),
            };
            if let Some(member) = counted.cloned() {
                loads.add(&member, loads.weight(index));
            }
        }
        loads
    }

    pub(super) fn weight(&self, index: usize) -> f64 {
        self.weights.get(index).copied().unwrap_or(0.0)
    }

    pub(super) fn median(&self, start: u64) -> Option<u64> {
        self.medians.get(&start).copied()
    }

    pub(super) fn add(&mut self, member: &MemberName, weight: f64) {
        if let Some(member) = self.members.iter_mut().find(|other| other.name == *member) {
            member.load += weight;
        }
    }

    pub(super) fn move_weight(&mut self, from: &MemberName, to: &MemberName, weight: f64) {
        self.add(from, -weight);
        self.add(to, weight);
    }

    fn member(&self, name: &MemberName) -> Option<&MemberLoad> {
        self.members.iter().find(|member| member.name == *name)
    }

    pub(super) fn load(&self, name: &MemberName) -> f64 {
        self.member(name).map_or(0.0, |member| member.load)
    }

    /// Returns the share that a member should have.
    pub(super) fn share(&self, name: &MemberName) -> f64 {
        let capacity: f64 = self.members.iter().map(|member| member.capacity).sum();
        self.member(name).map_or(0.0, |member| member.capacity / capacity)
    }

    /// Returns the load of a member with an additional weight, per capacity.
    pub(super) fn relative(&self, name: &MemberName, more: f64) -> f64 {
        self.member(name).map_or(f64::INFINITY, |member| (member.load + more) / member.capacity)
    }

    /// Returns the members that can be given slices, those with the lowest load first.
    pub(super) fn gainers(&self) -> Vec<MemberName> {
        let mut names: Vec<MemberName> = self.members.iter().map(|member| member.name.clone()).collect();
        names.sort_by(|a, b| self.relative(a, 0.0).total_cmp(&self.relative(b, 0.0)));
        names
    }

    pub(super) fn most_loaded(&self) -> Option<MemberName> {
        self.gainers().pop()
    }

    pub(super) fn least_loaded(&self) -> Option<MemberName> {
        self.gainers().into_iter().next()
    }

    /// Returns the member that a slice should go to: the one with the lowest load, of the preferred build if one has room.
    pub(super) fn best_target(&self, weight: f64, build: Option<&str>) -> Option<MemberName> {
        let has_room =
            |member: &&MemberLoad| member.load + weight <= (1.0 + self.imbalance) * self.share(&member.name) + 1e-9;
        let relative = |member: &&MemberLoad| (member.load + weight) / member.capacity;
        let lowest = |a: &&MemberLoad, b: &&MemberLoad| relative(a).total_cmp(&relative(b));
        let preferred =
            self.members.iter().filter(|member| build == Some(&*member.build)).filter(has_room).min_by(lowest);
        preferred.or_else(|| self.members.iter().min_by(lowest)).map(|member| member.name.clone())
    }

    /// Returns the highest load relative to the share of its member.
    pub(super) fn imbalance(&self) -> f64 {
        self.members.iter().map(|member| member.load / self.share(&member.name)).fold(0.0, f64::max)
    }

    /// Returns the slices of one place that weigh more than the smallest share of a member.
    pub(super) fn hot(&self, table: &SliceTable) -> Vec<ShardRange> {
        let share = self.members.iter().map(|member| self.share(&member.name)).fold(1.0, f64::min);
        let is_hot = |(index, (range, _)): &(usize, (ShardRange, _))| range.width() == 1 && self.weight(*index) > share;
        table.iter().enumerate().filter(is_hot).map(|(_, (range, _))| range).collect()
    }
}

/// Returns the weight of each slice: the mean of its shares of the objects and of the time of reconciles. Without any reports, its
/// share of the places.
fn weights(table: &SliceTable, input: &PlanInput<'_>) -> Vec<f64> {
    let reported: BTreeMap<u64, (f64, f64)> =
        input.loads.iter().map(|load| (load.start, (load.objects as f64, load.busy.max(0.0)))).collect();
    let of = |range: ShardRange| reported.get(&range.start()).copied().unwrap_or_default();
    let (mut objects, mut busy) = (0.0, 0.0);
    for (range, _) in table.iter() {
        let (slice_objects, slice_busy) = of(range);
        objects += slice_objects;
        busy += slice_busy;
    }
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let kinds = f64::from(u8::from(objects > 0.0) + u8::from(busy > 0.0));
    let weigh = |range: ShardRange| {
        let (slice_objects, slice_busy) = of(range);
        match kinds > 0.0 {
            true => (share(slice_objects, objects) + share(slice_busy, busy)) / kinds,
            false => range.width() as f64 / PLACES as f64,
        }
    };
    table.iter().map(|(range, _)| weigh(range)).collect()
}
