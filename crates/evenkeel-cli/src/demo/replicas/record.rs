//! What all replicas reconcile: the proof that no two of them reconcile one key at once, and how long changes waited. It has no
//! clock of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel::core::ObjectKey;

/// The number of a replica.
pub(super) type ReplicaId = usize;

/// The reconciles of all replicas. Times are relative to the start of the demo.
#[derive(Debug, Default)]
pub(super) struct ReconcileRecord {
    keys: BTreeMap<ObjectKey, KeyRecord>,
    reconciles: u64,
    by_replica: BTreeMap<ReplicaId, u64>,
    overlaps: Vec<Overlap>,
    overlap_count: u64,
}

/// Two reconciles of one key at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Overlap {
    pub(super) key: String,
    pub(super) replicas: (ReplicaId, ReplicaId),
}

#[derive(Debug, Default)]
struct KeyRecord {
    /// The replicas that reconcile the key now.
    active: Vec<ReplicaId>,
    /// The replica that finished the last change.
    by: Option<ReplicaId>,
    /// The change that is not reconciled, and its time.
    pending: Option<(i64, Duration)>,
    /// Time of the last change that is reconciled.
    reconciled: Option<Duration>,
    /// The longest gap of the phase.
    gap: Duration,
    /// Another replica took the key in this phase.
    has_moved: bool,
}

/// How long changes waited in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gaps {
    /// Number of keys that another replica took.
    pub(super) moved: usize,
    /// Median and maximum of their longest gaps.
    pub(super) median: Duration,
    pub(super) longest: Duration,
    /// The longest gap of the keys that stayed.
    pub(super) others: Duration,
}

/// Number of overlaps that are described.
const DESCRIBED: usize = 5;

impl ReconcileRecord {
    /// Records a change of an object.
    pub(super) fn changed(&mut self, key: &ObjectKey, number: i64, now: Duration) {
        self.keys.entry(key.clone()).or_default().pending = Some((number, now));
    }

    /// Returns whether the last change of a key is not reconciled.
    pub(super) fn is_pending(&self, key: &ObjectKey) -> bool {
        self.keys.get(key).is_some_and(|record| record.pending.is_some())
    }

    /// Records that a replica starts to reconcile a key.
    pub(super) fn enter(&mut self, key: &ObjectKey, replica: ReplicaId) {
        self.reconciles += 1;
        *self.by_replica.entry(replica).or_default() += 1;
        let record = self.keys.entry(key.clone()).or_default();
        if let Some(&other) = record.active.first() {
            self.overlap_count += 1;
            if self.overlaps.len() < DESCRIBED {
                self.overlaps.push(Overlap { key: key.to_string(), replicas: (other, replica) });
            }
        }
        record.active.push(replica);
    }

    /// Records that a reconcile has ended, or was dropped.
    pub(super) fn exit(&mut self, key: &ObjectKey, replica: ReplicaId) {
        let Some(record) = self.keys.get_mut(key) else { return };
        if let Some(index) = record.active.iter().position(|other| *other == replica) {
            record.active.remove(index);
        }
    }

    /// Records that a reconcile has written what the change with this number asks for.
    pub(super) fn finish(&mut self, key: &ObjectKey, replica: ReplicaId, number: i64, now: Duration) {
        let Some(record) = self.keys.get_mut(key) else { return };
        record.has_moved |= record.by.is_some_and(|by| by != replica);
        record.by = Some(replica);
        if let Some((_, since)) = record.pending.take_if(|(pending, _)| *pending == number) {
            record.reconciled = Some(since);
            record.gap = record.gap.max(now.saturating_sub(since));
        }
    }

    /// Starts the measurements of a phase.
    pub(super) fn start_phase(&mut self) {
        for record in self.keys.values_mut() {
            (record.gap, record.has_moved) = (Duration::ZERO, false);
        }
    }

    /// Returns the number of keys, and of those with a reconciled change that is not older than `since`.
    pub(super) fn reconciled_since(&self, since: Duration) -> (usize, usize) {
        let is_new = |record: &&KeyRecord| record.reconciled.is_some_and(|change| change >= since);
        (self.keys.len(), self.keys.values().filter(is_new).count())
    }

    /// Returns the keys whose last change is not reconciled.
    pub(super) fn pending(&self) -> impl Iterator<Item = &ObjectKey> {
        self.keys.iter().filter(|(_, record)| record.pending.is_some()).map(|(key, _)| key)
    }

    /// Returns the gaps of the phase.
    pub(super) fn gaps(&self) -> Gaps {
        let gaps = |moved: bool| {
            let mut gaps: Vec<Duration> =
                self.keys.values().filter(|record| record.has_moved == moved).map(|record| record.gap).collect();
            gaps.sort_unstable();
            gaps
        };
        let (moved, others) = (gaps(true), gaps(false));
        let last = |gaps: &[Duration]| gaps.last().copied().unwrap_or_default();
        Gaps {
            moved: moved.len(),
            median: moved.get(moved.len().saturating_sub(1) / 2).copied().unwrap_or_default(),
            longest: last(&moved),
            others: last(&others),
        }
    }

    pub(super) fn reconciles(&self) -> u64 {
        self.reconciles
    }

    /// Returns the number of reconciles of a replica.
    pub(super) fn reconciles_of(&self, replica: ReplicaId) -> u64 {
        self.by_replica.get(&replica).copied().unwrap_or_default()
    }

    pub(super) fn overlaps(&self) -> u64 {
        self.overlap_count
    }

    /// Returns the first overlaps.
    pub(super) fn described_overlaps(&self) -> &[Overlap] {
        &self.overlaps
    }
}

#[cfg(test)]
mod tests;
