use std::cell::{Cell, RefCell};
use std::future::ready;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use evenkeel_core::Status;
use tokio::time::{Instant, sleep};

use super::*;
use crate::error::RequestName;

fn request() -> RequestName {
    RequestName::new(&http::Method::PUT, "/api/v1/namespaces/ns/pods/a")
}

fn conflict() -> Error {
    Error::Api {
        request: request(),
        status: Box::new(Status::conflict("", "pods", "a", "the object has been modified")),
    }
}

fn forbidden() -> Error {
    Error::Api { request: request(), status: Box::new(Status::forbidden("", "pods", "a", "no")) }
}

/// An error type of a user.
#[derive(Debug, thiserror::Error)]
enum Own {
    #[error("conflict {0}")]
    Conflict(u32),
    #[error("cancelled")]
    Cancelled(#[source] Interrupted),
}

impl Conflict for Own {
    fn is_conflict(&self) -> bool {
        matches!(self, Own::Conflict(_))
    }
}

/// Runs a script of outcomes; returns the result and the number of attempts.
async fn scripted<E: Conflict>(script: Vec<Result<u32, E>>) -> (Result<u32, RetryError<E>>, usize) {
    let script = RefCell::new(script.into_iter());
    let attempts = Cell::new(0);
    let result = retry_on_conflict(async || {
        attempts.update(|attempts| attempts + 1);
        script.borrow_mut().next().expect("no more attempts than the script has")
    });
    let result = result.await;
    (result, attempts.get())
}

#[tokio::test(start_paused = true)]
async fn rt_002_success_and_permanent_errors_are_returned_at_once() {
    let begin = Instant::now();
    let (result, attempts) = scripted::<Error>(vec![Ok(7)]).await;
    assert_eq!((result.unwrap(), attempts), (7, 1));
    let (result, attempts) = scripted(vec![Err(forbidden())]).await;
    assert_eq!(attempts, 1);
    assert!(
        matches!(&result, Err(RetryError::Failed { error: Error::Api { status, .. }, previous: None }) if status.is_forbidden())
    );
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn rt_002_the_last_error_is_returned_when_attempts_run_out() {
    let begin = Instant::now();
    let (result, _) = scripted((0..5).map(|n| Err(Own::Conflict(n))).collect()).await;
    let error = result.unwrap_err();
    assert!(matches!(error, RetryError::Exhausted { last: Own::Conflict(4), attempts: 5 }));
    assert!(!error.is_interrupted(), "it is the conflict, not a timeout");
    assert_eq!(error.to_string(), "given up after 5 attempts: conflict 4");
    // Timers count in milliseconds, and round up.
    let waited = begin.elapsed();
    assert!((Duration::from_millis(40)..=Duration::from_millis(48)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn rt_003_conflicts_are_retried() {
    let (result, attempts) = scripted(vec![Err(conflict()), Err(conflict()), Ok(1)]).await;
    assert_eq!((result.unwrap(), attempts), (1, 3));
    let bare = Error::Api { request: request(), status: Box::new(Status::failure(409, "".into(), "")) };
    let (result, attempts) = scripted(vec![Err(bare), Ok(1)]).await;
    assert_eq!((result.unwrap(), attempts), (1, 2));
    let exists = Error::Api { request: request(), status: Box::new(Status::already_exists("", "pods", "a")) };
    let (result, attempts) = scripted(vec![Err(exists)]).await;
    assert!(Error::from(result.unwrap_err()).is_already_exists());
    assert_eq!(attempts, 1, "what exists already is no conflict");
}

#[tokio::test(start_paused = true)]
async fn rt_004_an_interruption_in_the_first_attempt_is_returned_as_it_is() {
    let (result, _) = scripted(vec![Err(Own::Cancelled(Interrupted::Stopped))]).await;
    let error = result.unwrap_err();
    assert!(error.is_interrupted());
    assert!(matches!(error.into_error(), Some(Own::Cancelled(_))));
}

#[tokio::test(start_paused = true)]
async fn qhc_12_a_cancellation_is_not_masked_by_the_conflict_before() {
    let (result, attempts) = scripted(vec![Err(Own::Conflict(1)), Err(Own::Cancelled(Interrupted::Stopped))]).await;
    assert_eq!(attempts, 2);
    let error = result.unwrap_err();
    assert_eq!(error.to_string(), "cancelled");
    assert!(error.is_interrupted());
    let cause = std::error::Error::source(&error).unwrap();
    assert!(matches!(cause.downcast_ref(), Some(Own::Conflict(1))));
}

#[tokio::test(start_paused = true)]
async fn rt_005_the_final_error_is_returned_with_the_conflict_as_its_source() {
    // Better: client-go returns the conflict and drops the final error.
    let (result, _) = scripted(vec![Err(conflict()), Err(forbidden())]).await;
    let error = Error::from(result.unwrap_err());
    assert!(error.status().unwrap().is_forbidden() && !error.is_conflict(), "{error}");
    let cause = std::error::Error::source(&error).unwrap();
    assert!(cause.downcast_ref::<Error>().unwrap().is_conflict());
}

#[tokio::test(start_paused = true)]
async fn rt_006_a_signal_cancels_waits_and_attempts() {
    // Better: it can be cancelled, also during a wait.
    let slow = Backoff { duration: Duration::from_secs(60), ..DEFAULT_RETRY };
    let begin = Instant::now();
    let stopped = Retry::new(slow).stop_on(sleep(Duration::from_secs(1)));
    let error = stopped.run(|_| true, async || Err::<(), _>(Own::Conflict(1))).await.unwrap_err();
    assert!(matches!(error, RetryError::Stopped { last: Some(Own::Conflict(1)) }));
    assert!(error.is_interrupted() && is_interrupted(&error));
    assert_eq!(begin.elapsed(), Duration::from_secs(1));

    let hanging = Retry::new(slow).stop_on(sleep(Duration::from_secs(1)));
    let error = hanging.run(|_: &Own| true, async || std::future::pending::<Result<(), _>>().await).await.unwrap_err();
    assert!(matches!(error, RetryError::Stopped { last: None }));

    let never = Retry::new(slow).stop_on(ready(()));
    never.run(|_: &Own| true, || -> std::future::Ready<Result<(), _>> { panic!("begun") }).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn rt_007_no_steps_are_no_attempts() {
    let none = Backoff { steps: 0, ..DEFAULT_RETRY };
    let error = retry(none, |_: &Own| true, async || -> Result<(), _> { panic!("ran") }).await.unwrap_err();
    assert!(matches!(error, RetryError::NoAttempts) && error.is_interrupted());
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "timed out waiting for the condition");
    assert!(is_interrupted(&Error::from(RetryError::NoAttempts)));
}

#[tokio::test(start_paused = true)]
async fn retries_can_be_spawned_and_borrow_what_they_use() {
    let task = tokio::spawn(async move {
        let attempts = AtomicU32::new(0);
        let last = retry_on_conflict(async || {
            tokio::task::yield_now().await;
            match attempts.fetch_add(1, Ordering::Relaxed) {
                0 | 1 => Err(conflict()),
                last => Ok(last),
            }
        });
        Ok::<_, Error>(last.await?)
    });
    assert_eq!(task.await.unwrap().unwrap(), 2);
}
