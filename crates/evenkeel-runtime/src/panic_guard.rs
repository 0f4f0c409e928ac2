//! Panics that stay where they are.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

/// Lets no panic of the future out.
pub(crate) async fn catch_panic<T>(
    mut future: Pin<Box<dyn Future<Output = T> + Send>>,
) -> Result<T, Box<dyn Any + Send>> {
    // A future that has panicked is not asked again, so nobody sees what it has left undone.
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(answer)) => Poll::Ready(Ok(answer)),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// What a panic says.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<&str>() {
        text
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text
    } else {
        "something that is no text"
    }
}
