//! The retained versions of one key.

use std::collections::VecDeque;
use std::sync::Arc;

use evenkeel_base::planted::{Defect, is_planted};

use super::record::Record;

/// A version of a key: an object, or its deletion.
#[derive(Clone, Debug)]
pub(super) enum Version {
    Live(Arc<Record>),
    /// Deleted at this revision.
    Tombstone(u64),
}

impl Version {
    pub(super) fn revision(&self) -> u64 {
        match self {
            Version::Live(record) => record.revision,
            Version::Tombstone(revision) => *revision,
        }
    }

    fn record(&self) -> Option<&Arc<Record>> {
        match self {
            Version::Live(record) => Some(record),
            Version::Tombstone(_) => None,
        }
    }
}

/// The versions of one key that reads may request, oldest first. Most keys have one, which needs no allocation.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    older: VecDeque<Version>,
    latest: Version,
}

impl Chain {
    pub(super) fn new(first: Version) -> Self {
        Chain { older: VecDeque::new(), latest: first }
    }

    pub(super) fn push(&mut self, version: Version) {
        self.older.push_back(std::mem::replace(&mut self.latest, version));
    }

    pub(super) fn latest(&self) -> Option<&Arc<Record>> {
        self.latest.record()
    }

    /// Returns the oldest version, if it is an object.
    pub(super) fn oldest(&self) -> Option<&Arc<Record>> {
        self.older.front().unwrap_or(&self.latest).record()
    }

    /// Takes back the latest version. `previous` is the object before it, if there was one. Returns whether the key itself
    /// can be dropped.
    pub(super) fn pop(&mut self, previous: Option<&Arc<Record>>) -> bool {
        match (self.older.pop_back(), previous) {
            (Some(version), _) => self.latest = version,
            (None, Some(record)) => self.latest = Version::Live(Arc::clone(record)),
            (None, None) => return true,
        }
        false
    }

    /// Returns the object at a revision.
    pub(super) fn at(&self, revision: u64) -> Option<&Arc<Record>> {
        if self.latest.revision() <= revision {
            return self.latest.record();
        }
        let newer = self.older.partition_point(|version| version.revision() <= revision);
        newer.checked_sub(1).and_then(|index| self.older.get(index)).and_then(Version::record)
    }

    /// Drops the versions that reads at `floor` and later do not need. Returns whether the key itself can be dropped.
    pub(super) fn trim(&mut self, floor: u64) -> bool {
        let needed = |version: &Version| version.revision() <= floor;
        if needed(&self.latest) {
            self.older = VecDeque::new();
            return self.latest.record().is_none() || is_planted(Defect::CompactionDropsNewest);
        }
        let keep_from = self.older.partition_point(needed).saturating_sub(1);
        self.older.drain(..keep_from);
        if matches!(self.older.front(), Some(Version::Tombstone(revision)) if *revision <= floor) {
            self.older.pop_front();
        }
        // A key that is written often keeps its capacity; one that is no longer written releases it.
        if self.older.capacity() > 4 * (self.older.len() + 1) {
            self.older.shrink_to_fit();
        }
        false
    }

    /// Returns the number of versions.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.older.len() + 1
    }
}
