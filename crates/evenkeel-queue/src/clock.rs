//! Where the time comes from.

use std::future::Future;
use std::pin::Pin;
use std::time::Instant;

/// What a queue knows the time from, and what wakes it when a key is due.
///
/// [`TokioClock`] is what queues use unless told otherwise. A clock of one's own makes for tests and simulations in a time of
/// their own.
pub trait Clock: Send + Sync + 'static {
    /// What time it is. Never earlier than what was said before.
    fn now(&self) -> Instant;

    /// Completes when it is `time`, or later.
    fn sleep_until(&self, time: Instant) -> Sleep;
}

/// What completes when it is time.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tokio's clock: the real time, or the virtual one of a runtime that is paused.
///
/// Outside of a runtime it can say what time it is, which is all that blocking use of a queue needs.
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
