//! For tests of controllers: [`eventually`], which waits for condition a controller does.
//!
//! What else a test needs is there already: an API server in the process, with faults and a clock (`evenkeel_apiserver`), a
//! [recorder that writes to memory](crate::events::fake), and the virtual time of tokio, in which everything here waits.
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

/// How long something may take before a test gives up.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How often it is looked for.
const PERIOD: Duration = Duration::from_millis(10);

/// What was waited for did not come.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("waited {waited:?} and looked {attempts} times, and it never came that {condition}")]
#[non_exhaustive]
pub struct ConditionTimeout {
    /// What was waited for.
    pub condition: String,
    /// For how long.
    pub waited: Duration,
    /// How often it was looked for.
    pub attempts: u64,
}

/// Looks again and again, every 10 ms, until there is something to be seen, and answers with it. `condition` completes the sentence
/// "it never came that …".
///
/// It gives up after 30 seconds. In a test whose time is paused these are seconds of that time, and pass at once when nothing
/// else is to be done.
///
/// # Errors
/// If it never came.
pub async fn eventually<T>(
    condition: impl Into<String>,
    mut check: impl AsyncFnMut() -> Option<T>,
) -> Result<T, ConditionTimeout> {
    let begun = Instant::now();
    let mut attempts = 0;
    loop {
        attempts += 1;
        if let Some(seen) = check().await {
            return Ok(seen);
        }
        let waited = begun.elapsed();
        if waited >= TIMEOUT {
            return Err(ConditionTimeout { condition: condition.into(), waited, attempts });
        }
        sleep(PERIOD).await;
    }
}

#[cfg(test)]
mod tests;
