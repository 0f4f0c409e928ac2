//! For tests of controllers: [`eventually`], which polls until a condition holds.
//!
//! Other parts for tests: an API server in the process, with faults and a clock (`evenkeel_apiserver`), a [fake event
//! recorder](crate::events::fake), and tokio's virtual time, which all timers here use.
//!
//! ```
//! # use std::sync::atomic::{AtomicU32, Ordering};
//! use evenkeel_runtime::testing::eventually;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), evenkeel_runtime::testing::ConditionTimeout> {
//! # let pods = AtomicU32::new(3);
//! let running = eventually("three pods run", async || Some(pods.load(Ordering::Relaxed)).filter(|pods| *pods == 3));
//! assert_eq!(running.await?, 3);
//! # Ok(())
//! # }
//! ```

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long a condition may take to hold.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The time between two checks.
const PERIOD: Duration = Duration::from_millis(10);

/// A condition did not hold in time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("condition not met after {waited:?} and {checks} checks: {condition}")]
#[non_exhaustive]
pub struct ConditionTimeout {
    /// The condition.
    pub condition: String,
    /// How long it was polled.
    pub waited: Duration,
    /// How often it was polled.
    pub checks: u64,
}

/// Calls `check` every 10 ms until it returns a value, and returns the value. `condition` names it in the error.
///
/// Gives up after 30 seconds. In a test whose time is paused these are virtual seconds, which pass at once when all tasks wait.
///
/// # Errors
/// Returns an error if `check` returned no value in time.
pub async fn eventually<T>(
    condition: impl Into<String>,
    mut check: impl AsyncFnMut() -> Option<T>,
) -> Result<T, ConditionTimeout> {
    let started = Instant::now();
    let mut checks = 0;
    loop {
        checks += 1;
        if let Some(value) = check().await {
            return Ok(value);
        }
        let waited = started.elapsed();
        if waited >= TIMEOUT {
            return Err(ConditionTimeout { condition: condition.into(), waited, checks });
        }
        sleep(PERIOD).await;
    }
}

#[cfg(test)]
mod tests;
