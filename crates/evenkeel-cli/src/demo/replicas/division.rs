//! How the replicas divide the hash space, and what changes from one table to the next.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::core::shard::PLACES;
use evenkeel::ring::{RingTable, SliceStage};

/// A table of the ring, with the identities of the replicas instead of the names of their members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Division {
    pub(super) revision: u64,
    /// The oldest first.
    pub(super) members: Vec<String>,
    pub(super) slices: Vec<Slice>,
}

/// A slice of the hash space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) start: u64,
    pub(super) end: u128,
    pub(super) owner: Option<String>,
    /// The replica that the slice moves to.
    pub(super) target: Option<String>,
}

/// A change from one table to the next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    Joined(String),
    Left(String),
    /// Slices got another owner; without `from`, they had none before.
    Moved {
        from: Option<String>,
        to: String,
        slices: usize,
        share: f64,
    },
    /// Slices lost their owner.
    Unowned {
        owner: String,
        slices: usize,
    },
}

impl Division {
    pub(super) fn of(table: &RingTable) -> Self {
        let identity = |member: &Option<String>| member.as_deref().map(|member| identity(member).to_owned());
        let slices = table.slices.iter().map(|slice| Slice {
            start: slice.range.start(),
            end: slice.range.end(),
            owner: identity(&slice.owner),
            target: if slice.stage == SliceStage::Held { None } else { identity(&slice.target) },
        });
        Division {
            revision: table.revision,
            members: table.members.iter().map(|member| self::identity(&member.name).to_owned()).collect(),
            slices: slices.collect(),
        }
    }

    /// Returns the slice that contains a place.
    pub(super) fn slice_at(&self, place: u64) -> Option<&Slice> {
        self.slices.iter().find(|slice| (u128::from(slice.start)..slice.end).contains(&u128::from(place)))
    }

    /// Returns the share of a replica, and the number of its slices.
    pub(super) fn share_of(&self, replica: &str) -> (f64, usize) {
        let owned = self.slices.iter().filter(|slice| slice.owner.as_deref() == Some(replica));
        owned.fold((0.0, 0), |(share, slices), slice| (share + slice.share(), slices + 1))
    }

    /// Returns the share without an owner that is one of these replicas.
    pub(super) fn unowned_share(&self, live: &BTreeSet<String>) -> f64 {
        let unowned = self.slices.iter().filter(|slice| slice.owner.as_ref().is_none_or(|owner| !live.contains(owner)));
        unowned.map(Slice::share).sum()
    }

    /// Returns the number of slices that move.
    pub(super) fn moving(&self) -> usize {
        self.slices.iter().filter(|slice| slice.target.is_some()).count()
    }

    /// Returns why the ring is not settled: exactly these replicas are members, each owns something, nothing moves.
    pub(super) fn unsettled(&self, live: &BTreeSet<String>) -> Option<String> {
        let members: BTreeSet<String> = self.members.iter().cloned().collect();
        if members != *live || self.members.len() != live.len() {
            return Some(format!("the members are {}", self.members.join(", ")));
        }
        let unowned = self.unowned_share(live);
        if unowned > 0.0 {
            return Some(format!("{} of the hash space has no owner", percent(unowned)));
        }
        if self.moving() > 0 {
            return Some(format!("{} slices are moving", self.moving()));
        }
        let idle = live.iter().find(|replica| self.share_of(replica).1 == 0);
        idle.map(|replica| format!("{replica} owns nothing"))
    }

    /// Returns what is different in a later table.
    pub(super) fn changes(&self, after: &Division) -> Vec<Change> {
        let is_new = |replica: &&String| !self.members.contains(replica);
        let mut changes: Vec<Change> = after.members.iter().filter(is_new).cloned().map(Change::Joined).collect();
        let (mut moved, mut unowned) = (BTreeMap::new(), BTreeMap::new());
        for slice in &after.slices {
            let before = self.slice_at(slice.start).and_then(|slice| slice.owner.clone());
            if before == slice.owner {
                continue;
            }
            match (&slice.owner, before) {
                (Some(to), from) => {
                    let (slices, share) = moved.entry((from, to.clone())).or_insert((0, 0.0));
                    (*slices, *share) = (*slices + 1, *share + slice.share());
                }
                (None, Some(owner)) => *unowned.entry(owner).or_insert(0) += 1,
                (None, None) => {}
            }
        }
        changes.extend(unowned.into_iter().map(|(owner, slices)| Change::Unowned { owner, slices }));
        let moves = moved.into_iter();
        changes.extend(moves.map(|((from, to), (slices, share))| Change::Moved { from, to, slices, share }));
        let is_gone = |replica: &&String| !after.members.contains(replica);
        changes.extend(self.members.iter().filter(is_gone).cloned().map(Change::Left));
        changes
    }
}

impl Slice {
    pub(super) fn share(&self) -> f64 {
        (self.end - u128::from(self.start)) as f64 / PLACES as f64
    }
}

impl Change {
    /// Describes the change. A crashed replica does not leave: its lease expires.
    pub(super) fn text(&self, crashed: &BTreeSet<String>) -> String {
        let slices = |count: usize| if count == 1 { "slice".to_owned() } else { format!("{count} slices") };
        match self {
            Change::Joined(replica) => format!("{replica}: member joined"),
            Change::Left(replica) if crashed.contains(replica) => format!("{replica}: lease expired; member removed"),
            Change::Left(replica) => format!("{replica}: member left"),
            Change::Moved { from: None, to, slices: count, share } => {
                format!("{to}: {} granted ({})", slices(*count), percent(*share))
            }
            Change::Moved { from: Some(from), to, slices: count, share } => {
                let why = if crashed.contains(from) { "lease expired; " } else { "" };
                format!("{from}: {why}{} moved to {to} ({})", slices(*count), percent(*share))
            }
            Change::Unowned { owner, slices: count } => {
                let why = if crashed.contains(owner) { "lease expired; " } else { "" };
                format!("{owner}: {why}{} without an owner", slices(*count))
            }
        }
    }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Returns the identity in the name of a member.
fn identity(member: &str) -> &str {
    member.rsplit_once('-').map_or(member, |(identity, _)| identity)
}

#[cfg(test)]
mod tests;
