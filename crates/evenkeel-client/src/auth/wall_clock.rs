//! The wall clock, on which credentials state their expiry.

use std::time::Duration;

use jiff::Timestamp;

/// Returns the time of day.
#[expect(clippy::disallowed_methods, reason = "expiries are times of day; the real clock enters here")]
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}

/// Returns the time until this expiry; the expiry as an error if it has passed.
pub(super) fn lifetime(expires: Option<Timestamp>) -> Result<Option<Duration>, Timestamp> {
    let Some(at) = expires else { return Ok(None) };
    match Duration::try_from(at.duration_since(now())) {
        Ok(lifetime) => Ok(Some(lifetime)),
        // It is negative.
        Err(_) => Err(at),
    }
}
