//! [`Clock`].

use std::future::Future;
use std::pin::Pin;
use std::time::Instant;

/// A source of time and timers.
///
/// The default is [`TokioClock`]. Tests and simulations implement their own.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time, which never decreases.
    fn now(&self) -> Instant;

    /// Returns a future that completes at `time` or later.
    fn sleep_until(&self, time: Instant) -> Sleep;
}

/// The future of a timer.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tokio's clock: real time, or the virtual time of a paused runtime.
///
/// `now` also works outside of a runtime, which is all that blocking workers need.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioClock;

impl Clock for TokioClock {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn sleep_until(&self, time: Instant) -> Sleep {
        Box::pin(tokio::time::sleep_until(time.into()))
    }
}
