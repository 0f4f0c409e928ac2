//! The values that [`Obj::typed`](crate::Obj::typed) decoded, cached within a budget in bytes.
//!
//! A decoded pod takes eight times the memory of its JSON, so caching all values would undo what encoded payloads save. Caching none
//! would decode an object once per handler, and again on every reconcile of the same objects.
//!
//! # Guarantees
//!
//! - All objects of the process share one budget: [`DEFAULT_BUDGET`], or what [`set_budget`] sets. The size of a value is estimated
//!   from the size of its payload.
//! - While all decoded values fit the budget, no object is decoded twice.
//! - Beyond it, values are evicted by use. A value that was not read again since it was decoded is evicted before others, so that
//!   reading all objects once does not evict those that are read often.
//! - The value of a dropped object is dropped with it. A value that is larger than the budget is not cached.
//!
//! # Metrics
//!
//! | name | what |
//! |---|---|
//! | [`BYTES`] | estimated bytes of the cached values |
//! | [`BUDGET_BYTES`] | the budget |
//! | [`DECODES`] | objects that `typed` decoded |
//! | [`EVICTIONS`] | values that were evicted. If it grows steadily, raise the budget, or read the objects through a view of the informer |

mod shard;

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use self::shard::{CacheShard, CachedValue};

/// The default budget: 64 MiB, which is about 1,400 decoded pods.
pub const DEFAULT_BUDGET: usize = 64 << 20;

/// Gauge of the estimated bytes of the cached values.
pub const BYTES: &str = "decoded_cache_bytes";
/// Gauge of the budget in bytes.
pub const BUDGET_BYTES: &str = "decoded_cache_budget_bytes";
/// Counts objects that `typed` decoded.
pub const DECODES: &str = "decoded_cache_decodes_total";
/// Counts values that were evicted to stay within the budget.
pub const EVICTIONS: &str = "decoded_cache_evictions_total";

/// The number of parts with a lock of their own.
const SHARDS: usize = 16;
/// What a value takes besides itself: its entry in the table and in a queue.
const OVERHEAD: usize = 128;

/// 2^64 divided by the golden ratio: the multiplier of Fibonacci hashing.
pub(crate) const GOLDEN_RATIO: u64 = 0x9E37_79B9_7F4A_7C15;

/// The cache of all objects of the process.
pub(crate) static DECODED_CACHE: DecodedCache = DecodedCache::new(DEFAULT_BUDGET);

/// Sets the budget of the values that [`Obj::typed`](crate::Obj::typed) decodes, for all objects of the process. A smaller budget
/// evicts values at once. Zero disables the cache: every call of `typed` decodes.
///
/// ```
/// evenkeel_core::decoded_cache::set_budget(256 << 20); // for a program that reads five thousand pods repeatedly
/// ```
pub fn set_budget(bytes: usize) {
    DECODED_CACHE.set_budget(bytes);
}

/// Describes the metrics to the recorder. Informers do this themselves.
pub fn describe() {
    describe_gauge!(BYTES, Unit::Bytes, "Estimated bytes of the cached values that typed() decoded.");
    describe_gauge!(BUDGET_BYTES, Unit::Bytes, "Budget of the cached values that typed() decoded.");
    describe_counter!(DECODES, Unit::Count, "Objects that typed() decoded.");
    describe_counter!(EVICTIONS, Unit::Count, "Decoded values that were evicted to stay within the budget.");
}

/// A cache of decoded values. The address of an object identifies it: it is removed before its memory is reused.
pub(crate) struct DecodedCache {
    shards: [Mutex<CacheShard>; SHARDS],
    budget: AtomicUsize,
    used: AtomicUsize,
}

impl DecodedCache {
    const fn new(budget: usize) -> Self {
        DecodedCache {
            shards: [const { Mutex::new(CacheShard::new()) }; SHARDS],
            budget: AtomicUsize::new(budget),
            used: AtomicUsize::new(0),
        }
    }

    /// Returns the cached value of an object, if it was decoded as `K`.
    pub(crate) fn get<K: Any + Send + Sync>(&self, object: usize) -> Option<Arc<K>> {
        if self.used() == 0 {
            return None;
        }
        let value = Arc::clone(self.shard(shard_of(object)).get(object)?);
        value.downcast().ok()
    }

    /// Caches a value of about this size, and evicts others if it does not fit the budget.
    pub(crate) fn put<K: Any + Send + Sync>(&self, object: usize, value: &Arc<K>, bytes: usize) {
        let bytes = bytes.saturating_add(OVERHEAD);
        let mut evicted = 0;
        if bytes <= self.budget() {
            let own = shard_of(object);
            // Counted before another thread can evict it.
            self.used.fetch_add(bytes, Ordering::Relaxed);
            let mut shard = self.shard(own);
            // Another thread may have cached the object meanwhile, or another type of it: that value is replaced.
            let replaced = shard.remove(object);
            shard.insert(object, CachedValue::new(Arc::clone(value) as Arc<_>, bytes), self.budget() / SHARDS);
            drop(shard);
            self.forget(replaced);
            evicted = self.shrink(own, bytes);
        }
        counter!(DECODES).increment(1);
        counter!(EVICTIONS).increment(evicted);
        self.publish();
    }

    /// Removes the value of a dropped object.
    pub(crate) fn remove(&self, object: usize) {
        // The objects of most programs are never decoded.
        if self.used() == 0 {
            return;
        }
        let removed = self.shard(shard_of(object)).remove(object);
        if removed.is_some() {
            self.forget(removed);
            gauge!(BYTES).set(self.used() as f64);
        }
    }

    fn set_budget(&self, bytes: usize) {
        self.budget.store(bytes, Ordering::Relaxed);
        let evicted = self.shrink(0, 0);
        counter!(EVICTIONS).increment(evicted);
        self.publish();
    }

    /// Evicts values until the budget is kept, after a value of `added` bytes came to the shard `own`. Returns the number of evicted
    /// values.
    fn shrink(&self, own: usize, added: usize) -> u64 {
        let budget = self.budget();
        let mut evicted = 0;
        // Shards with more than their share first, which keeps them even.
        let share = budget / SHARDS;
        for shard in own..own + SHARDS {
            let share = if shard == own { share.saturating_add(added) } else { share };
            while self.used() > budget && self.evict(shard, share) {
                evicted += 1;
            }
        }
        // Then one value of each, if a large one was added, and of its own shard last.
        let mut is_any = true;
        while self.used() > budget && is_any {
            is_any = false;
            for shard in own + 1..own + SHARDS {
                if self.used() > budget && self.evict(shard, 0) {
                    is_any = true;
                    evicted += 1;
                }
            }
        }
        while self.used() > budget && self.evict(own, 0) {
            evicted += 1;
        }
        evicted
    }

    /// Evicts a value of a shard with more bytes than `share`. Returns whether it did.
    fn evict(&self, shard: usize, share: usize) -> bool {
        let mut shard = self.shard(shard);
        let value = if shard.bytes() > share { shard.evict() } else { None };
        // Dropped after the lock: dropping a large object takes longer than a lookup.
        drop(shard);
        let is_evicted = value.is_some();
        self.forget(value);
        is_evicted
    }

    fn forget(&self, value: Option<CachedValue>) {
        if let Some(value) = value {
            self.used.fetch_sub(value.bytes(), Ordering::Relaxed);
        }
    }

    fn publish(&self) {
        gauge!(BYTES).set(self.used() as f64);
        gauge!(BUDGET_BYTES).set(self.budget() as f64);
    }

    fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn budget(&self) -> usize {
        self.budget.load(Ordering::Relaxed)
    }

    fn shard(&self, index: usize) -> MutexGuard<'_, CacheShard> {
        // No foreign code runs while a shard is locked.
        self.shards[index % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the shard of an object.
fn shard_of(object: usize) -> usize {
    (shard::hash(object) >> (u64::BITS - SHARDS.ilog2())) as usize
}

#[cfg(test)]
mod tests;
