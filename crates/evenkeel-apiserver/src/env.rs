//! The source of time and randomness of the server.

use std::time::Duration;

use jiff::Timestamp;

/// Provides the time of day, a monotonic clock and randomness.
///
/// Everything that the requests do not determine enters here. The same requests with the same `Env` therefore give the
/// same responses to the byte, including uids, generated names, resource versions and timestamps.
pub trait Env: Send + Sync + 'static {
    /// Returns the time of day, for timestamps such as `creationTimestamp`.
    fn wall(&self) -> Timestamp;

    /// Returns the time since a fixed point. It never decreases.
    fn monotonic(&self) -> Duration;

    /// Returns 64 random bits.
    fn random(&self) -> u64;
}

/// Formats a time as RFC 3339 in UTC with whole seconds, as in `metadata.creationTimestamp`.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Formats a time as RFC 3339 in UTC with microseconds, as in the `renewTime` of a Lease.
pub(crate) fn rfc3339_micro(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// Returns a random (version 4) UUID.
pub(crate) fn uuid(random: impl Fn() -> u64) -> String {
    let (high, low) = (random(), random());
    let high = (high & 0xffff_ffff_ffff_0fff) | 0x4000;
    let low = (low & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
    let bits = (u128::from(high) << 64) | u128::from(low);
    let mut text = String::with_capacity(36);
    for digit in 0..32_u32 {
        if matches!(digit, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        // Only four bits are left.
        let value = (bits >> (124 - 4 * digit)) as u32 & 15;
        text.extend(char::from_digit(value, 16));
    }
    text
}
