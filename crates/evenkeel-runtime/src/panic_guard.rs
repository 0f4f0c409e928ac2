//! Catches the panics of futures.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

/// Runs a future, and returns its panic as an error.
pub async fn catch_panic<T>(
    mut future: Pin<Box<dyn Future<Output = T> + Send + '_>>,
) -> Result<T, Box<dyn Any + Send>> {
    // A future that has panicked is not polled again, so its broken invariants are never observed.
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// Returns the message of a panic.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<&str>() {
        text
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text
    } else {
        "panic payload without a message"
    }
}
