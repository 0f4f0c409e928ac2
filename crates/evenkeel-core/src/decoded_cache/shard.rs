//! [`CacheShard`]: a table of cached values, and the order in which they are evicted.
//!
//! The order is S3-FIFO. A new value is on probation. To evict, the shard takes the oldest value on probation, and drops it unless it
//! was read twice since: then it becomes protected. A value that is decoded again soon after it was dropped is protected at once.
//! Protected values are evicted by CLOCK, and only while those on probation take less than their part. So a pass over all objects
//! leaves the protected values, and a read changes a counter only.
//!
//! While there is room, the oldest values on probation become protected unread. So those on probation are always few, and a pass over
//! all objects drops each value soon: its memory is reused while it may still be in the processor's cache.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use super::GOLDEN_RATIO;

/// Values on probation are evicted first while they take more than one part in so many: 2 MiB of the default budget.
const PROBATION_PART: usize = 32;
/// A value on probation that was read so often becomes protected. Reads by two handlers of one notification do not suffice.
const READS_TO_PROTECT: u8 = 2;
/// Reads are counted up to this number: a protected value survives as many rounds of the clock.
const MOST_READS: u8 = 3;
/// The number of stale queue entries that are tolerated in a small shard.
const STALE: usize = 64;

type DecodedValue = Arc<dyn Any + Send + Sync>;

/// A value and its estimated size.
pub(super) struct CachedValue {
    value: DecodedValue,
    bytes: usize,
    reads: u8,
    is_protected: bool,
    /// Distinguishes the value from an earlier one of the same address.
    ticket: u64,
}

impl CachedValue {
    pub(super) fn new(value: DecodedValue, bytes: usize) -> Self {
        CachedValue { value, bytes, reads: 0, is_protected: false, ticket: 0 }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// One part of the cache.
pub(super) struct CacheShard {
    values: HashMap<usize, CachedValue, AddressHash>,
    probation: VecDeque<(usize, u64)>,
    protected: VecDeque<(usize, u64)>,
    /// The objects whose values were evicted on probation most recently, at most as many as there are values.
    dropped: HashMap<usize, u64, AddressHash>,
    dropped_order: VecDeque<(usize, u64)>,
    bytes: usize,
    probation_bytes: usize,
    tickets: u64,
    /// The number of queue entries whose value was removed.
    stale: usize,
}

impl CacheShard {
    pub(super) const fn new() -> Self {
        CacheShard {
            values: HashMap::with_hasher(AddressHash),
            probation: VecDeque::new(),
            protected: VecDeque::new(),
            dropped: HashMap::with_hasher(AddressHash),
            dropped_order: VecDeque::new(),
            bytes: 0,
            probation_bytes: 0,
            tickets: 0,
            stale: 0,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn get(&mut self, object: usize) -> Option<&DecodedValue> {
        let cached = self.values.get_mut(&object)?;
        cached.reads = (cached.reads + 1).min(MOST_READS);
        Some(&cached.value)
    }

    /// Adds the value of an object that has none, to a shard whose part of the budget is `share`.
    pub(super) fn insert(&mut self, object: usize, mut value: CachedValue, share: usize) {
        self.tickets += 1;
        value.ticket = self.tickets;
        self.bytes += value.bytes;
        value.is_protected = self.dropped.remove(&object).is_some();
        if value.is_protected {
            self.protected.push_back((object, value.ticket));
        } else {
            self.probation.push_back((object, value.ticket));
            self.probation_bytes += value.bytes;
        }
        self.values.insert(object, value);
        while self.bytes <= share && self.probation_bytes > share / PROBATION_PART {
            let Some((oldest, ticket)) = self.probation.pop_front() else { break };
            self.protect(oldest, ticket);
        }
    }

    /// Removes the value of an object.
    pub(super) fn remove(&mut self, object: usize) -> Option<CachedValue> {
        let removed = self.take(object)?;
        self.stale += 1;
        if self.stale > self.values.len() + STALE {
            let values = &self.values;
            let is_live = |(object, ticket): &(usize, u64)| is_current(values.get(object), *ticket);
            self.probation.retain(is_live);
            self.protected.retain(is_live);
            self.stale = 0;
        }
        Some(removed)
    }

    /// Removes the value that is least worth keeping.
    pub(super) fn evict(&mut self) -> Option<CachedValue> {
        loop {
            let on_probation =
                self.protected.is_empty() || self.probation_bytes.saturating_mul(PROBATION_PART) > self.bytes;
            let queue = if on_probation { &mut self.probation } else { &mut self.protected };
            let (object, ticket) = queue.pop_front()?;
            match self.values.get_mut(&object).filter(|cached| cached.ticket == ticket) {
                None => self.stale = self.stale.saturating_sub(1),
                Some(cached) if on_probation => {
                    if cached.reads < READS_TO_PROTECT {
                        self.note_dropped(object, ticket);
                        return self.take(object);
                    }
                    self.protect(object, ticket);
                }
                Some(cached) if cached.reads == 0 => return self.take(object),
                Some(cached) => {
                    cached.reads -= 1;
                    self.protected.push_back((object, ticket));
                }
            }
        }
    }

    /// Protects a value that has left the queue of those on probation, unless it was removed.
    fn protect(&mut self, object: usize, ticket: u64) {
        match self.values.get_mut(&object).filter(|cached| cached.ticket == ticket) {
            None => self.stale = self.stale.saturating_sub(1),
            Some(cached) => {
                cached.reads = 0;
                cached.is_protected = true;
                self.probation_bytes -= cached.bytes;
                self.protected.push_back((object, ticket));
            }
        }
    }

    fn note_dropped(&mut self, object: usize, ticket: u64) {
        self.dropped.insert(object, ticket);
        self.dropped_order.push_back((object, ticket));
        while self.dropped_order.len() > self.values.len() {
            let Some((oldest, ticket)) = self.dropped_order.pop_front() else { break };
            if self.dropped.get(&oldest) == Some(&ticket) {
                self.dropped.remove(&oldest);
            }
        }
    }

    fn take(&mut self, object: usize) -> Option<CachedValue> {
        let taken = self.values.remove(&object)?;
        self.bytes -= taken.bytes;
        if !taken.is_protected {
            self.probation_bytes -= taken.bytes;
        }
        Some(taken)
    }

    /// Returns the length of the queues.
    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.probation.len() + self.protected.len() + self.dropped_order.len()
    }
}

fn is_current(cached: Option<&CachedValue>, ticket: u64) -> bool {
    cached.is_some_and(|cached| cached.ticket == ticket)
}

/// Mixes the bits of an address.
pub(super) fn hash(object: usize) -> u64 {
    let mixed = (object as u64 >> 4).wrapping_mul(GOLDEN_RATIO);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// Hashes addresses, which the program cannot choose, by [`hash`].
#[derive(Clone, Copy)]
struct AddressHash;

struct AddressHasher(u64);

impl BuildHasher for AddressHash {
    type Hasher = AddressHasher;

    fn build_hasher(&self) -> AddressHasher {
        AddressHasher(0)
    }
}

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(GOLDEN_RATIO));
    }

    fn write_usize(&mut self, object: usize) {
        // The upper bits chose the shard.
        self.0 = hash(object).rotate_left(u64::BITS / 2);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
