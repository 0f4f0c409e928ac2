//! [`Histogram`]: counts of values below fixed bounds, without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// A histogram with the upper bounds `BOUNDS`, in the unit of its values. `N` is one more than the number of bounds.
#[derive(Debug)]
pub(crate) struct Histogram<const N: usize> {
    bounds: &'static [u64],
    counts: [AtomicU64; N],
    sum: AtomicU64,
}

impl<const N: usize> Histogram<N> {
    /// Returns an empty histogram. `bounds` are ascending; there are `N - 1`.
    pub(crate) fn new(bounds: &'static [u64]) -> Self {
        debug_assert_eq!(bounds.len() + 1, N);
        Histogram { bounds, counts: std::array::from_fn(|_| AtomicU64::new(0)), sum: AtomicU64::new(0) }
    }

    pub(crate) fn observe(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket.min(N - 1)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Returns the cumulative counts and the sum of the values; `None` without values.
    pub(crate) fn read(&self) -> Option<([u64; N], u64)> {
        let mut total = 0;
        let counts = std::array::from_fn(|bucket| {
            total += self.counts[bucket].load(Ordering::Relaxed);
            total
        });
        (total > 0).then(|| (counts, self.sum.load(Ordering::Relaxed)))
    }
}
