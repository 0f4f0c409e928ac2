//! [`SystemEnv`]: the clocks and the randomness of the system.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_base::hash::GOLDEN_RATIO;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::env::Env;

/// The clocks of the system, and random numbers from a seed of the system's entropy.
///
/// The monotonic clock is tokio's. When a test pauses or advances it, the time of day follows.
#[derive(Debug)]
pub(super) struct SystemEnv {
    start: Instant,
    real_start: std::time::Instant,
    state: AtomicU64,
}

impl SystemEnv {
    #[expect(clippy::disallowed_methods, reason = "the real clock enters the server here")]
    pub(super) fn new() -> Self {
        use std::hash::{BuildHasher, Hasher};
        // The standard library seeds its hash maps with the system's entropy.
        let seed = std::collections::hash_map::RandomState::new().build_hasher().finish();
        SystemEnv { start: Instant::now(), real_start: std::time::Instant::now(), state: AtomicU64::new(seed) }
    }

    #[expect(clippy::disallowed_methods, reason = "the real clock enters the server here")]
    pub(super) fn time_of_day() -> Timestamp {
        Timestamp::now()
    }
}

impl Env for SystemEnv {
    fn wall(&self) -> Timestamp {
        let ahead = self.start.elapsed().saturating_sub(self.real_start.elapsed());
        let now = Self::time_of_day();
        // Reading two clocks takes time; only a clock that a test advanced is ahead by more.
        if ahead < Duration::from_millis(10) { now } else { now.checked_add(ahead).unwrap_or(now) }
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    /// SplitMix64: every call takes the next state, so threads never get the same number.
    fn random(&self) -> u64 {
        let mut z = self.state.fetch_add(GOLDEN_RATIO, Ordering::Relaxed).wrapping_add(GOLDEN_RATIO);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
