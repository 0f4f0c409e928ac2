//! [`ShardWrites`]: the highest versions that reconciles wrote, by place, for the next owner of a place.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_core::shard::ShardRange;
use tokio::time::Instant;

/// How long writes are remembered. Caches show them long before.
const KEPT: Duration = Duration::from_secs(600);
/// The most entries. Beyond that all are forgotten, and every place counts as loose.
const MOST: usize = 100_000;

/// The highest versions that were written, by place and resource.
#[derive(Debug, Default)]
pub(super) struct ShardWrites(Mutex<WriteTable>);

#[derive(Debug, Default)]
struct WriteTable {
    versions: HashMap<u64, BTreeMap<String, Written>>,
    /// Places with writes whose outcome is not known, and when they were sent at the latest.
    loose: BTreeMap<u64, Instant>,
    entries: usize,
    next_sweep: Option<Instant>,
    /// When entries were forgotten early.
    overflowed: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Written {
    version: u64,
    at: Instant,
}

impl ShardWrites {
    fn lock(&self) -> MutexGuard<'_, WriteTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a write. Versions that are no numbers have no order, and are loose.
    pub(super) fn add(&self, place: u64, resource: &str, version: &str, now: Instant) {
        let Ok(version) = version.parse::<u64>() else { return self.loosen(place, now) };
        let mut table = self.lock();
        table.sweep(now);
        let of_place = table.versions.entry(place).or_default();
        let is_new = match of_place.get_mut(resource) {
            Some(written) => {
                *written = Written { version: written.version.max(version), at: now };
                false
            }
            None => of_place.insert(resource.to_owned(), Written { version, at: now }).is_none(),
        };
        table.entries += usize::from(is_new);
    }

    /// Records that a reconcile was dropped: what it sent may take effect later.
    pub(super) fn loosen(&self, place: u64, now: Instant) {
        let mut table = self.lock();
        table.sweep(now);
        table.loose.insert(place, now);
    }

    /// Returns the highest versions by resource in a range.
    pub(super) fn in_range(&self, range: ShardRange, now: Instant) -> BTreeMap<String, u64> {
        let mut table = self.lock();
        table.sweep(now);
        let mut highest: BTreeMap<String, u64> = BTreeMap::new();
        for (_, versions) in table.versions.iter().filter(|(place, _)| range.contains(**place)) {
            for (resource, written) in versions {
                let known = highest.entry(resource.clone()).or_default();
                *known = (*known).max(written.version);
            }
        }
        highest
    }

    /// Returns whether there are writes in a range whose outcome is not known.
    pub(super) fn is_loose(&self, range: ShardRange) -> bool {
        let table = self.lock();
        table.overflowed.is_some() || table.loose.keys().any(|place| range.contains(*place))
    }
}

impl WriteTable {
    /// Forgets what is old, once in a while, or when there is too much.
    fn sweep(&mut self, now: Instant) {
        let is_due = self.next_sweep.is_none_or(|due| now >= due);
        if !is_due && self.entries < MOST && self.loose.len() < MOST {
            return;
        }
        self.next_sweep = Some(now + KEPT / 10);
        let is_kept = |at: Instant| now.saturating_duration_since(at) < KEPT;
        self.overflowed = self.overflowed.filter(|at| is_kept(*at));
        self.loose.retain(|_, at| is_kept(*at));
        self.versions.retain(|_, versions| {
            versions.retain(|_, written| is_kept(written.at));
            !versions.is_empty()
        });
        self.entries = self.versions.values().map(BTreeMap::len).sum();
        if self.entries >= MOST || self.loose.len() >= MOST {
            self.versions.clear();
            self.loose.clear();
            self.entries = 0;
            self.overflowed = Some(now);
        }
    }
}

#[cfg(test)]
mod tests;
