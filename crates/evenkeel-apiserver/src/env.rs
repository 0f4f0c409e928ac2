//! The only way by which time and chance reach the server.

use std::time::Duration;

use jiff::Timestamp;

/// What the server's engine asks of the world: the time of day, a clock that never goes back, and randomness.
///
/// Everything that is not determined by the requests enters here, so the same requests with the same `Env` give the
/// same answers to the byte: uids, generated names, resource versions and timestamps included.
pub trait Env: Send + Sync + 'static {
    /// The time of day, for `creationTimestamp` and its like.
    fn wall(&self) -> Timestamp;

    /// Time since some fixed point; never goes back.
    fn monotonic(&self) -> Duration;

    /// Sixty-four random bits.
    fn random(&self) -> u64;
}

/// RFC 3339 in UTC with whole seconds, as in `metadata.creationTimestamp`.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// RFC 3339 in UTC with six digits of a second, as in a Lease's `renewTime`.
pub(crate) fn rfc3339_micro(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// A random (version 4) UUID.
pub(crate) fn uuid(env: &dyn Env) -> String {
    let (high, low) = (env.random(), env.random());
    let high = (high & 0xffff_ffff_ffff_0fff) | 0x4000;
    let low = (low & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}
