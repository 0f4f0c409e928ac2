use std::cell::RefCell;
use std::future::{pending, ready};

use tokio::time::{Instant, sleep};

use super::*;
use crate::retry::DEFAULT_BACKOFF;

const SECOND: Duration = Duration::from_secs(1);

/// The start times, in milliseconds, of a body that takes this long and is stopped after ten seconds.
async fn starts(pace: Pace, body: Duration) -> Vec<u128> {
    let begin = Instant::now();
    let starts = RefCell::new(Vec::new());
    repeat(pace, sleep(SECOND * 10), async || {
        starts.borrow_mut().push(begin.elapsed().as_millis());
        sleep(body).await;
    })
    .await;
    starts.into_inner()
}

#[tokio::test(start_paused = true)]
async fn wa_005_the_period_starts_at_the_end_or_at_the_start_of_the_body() {
    let body = Duration::from_secs(1);
    assert_eq!(starts(Pace::Sliding(SECOND * 3), body).await, [0, 4000, 8000]);
    assert_eq!(starts(Pace::Fixed(SECOND * 3), body).await, [0, 3000, 6000, 9000]);
    assert_eq!(starts(Pace::Fixed(SECOND), SECOND * 4).await, [0, 4000, 8000], "no pause after a body that took long");
}

#[tokio::test(start_paused = true)]
async fn wa_005_a_stopped_loop_never_runs() {
    repeat(Pace::Sliding(SECOND), ready(()), async || panic!("ran")).await;
}

async fn poll_times(immediate: bool, stop: impl Future, body: Duration) -> (Vec<u128>, Result<(), PollError<()>>) {
    let begin = Instant::now();
    let times = RefCell::new(Vec::new());
    let result = poll_until(SECOND, immediate, stop, async || {
        times.borrow_mut().push(begin.elapsed().as_millis());
        sleep(body).await;
        Ok(false)
    });
    let result = result.await;
    (times.into_inner(), result)
}

#[tokio::test(start_paused = true)]
async fn wa_006_an_immediate_poll_runs_once_even_if_stopped() {
    let stopped = Err(PollError::Interrupted(Interrupted::Stopped));
    assert_eq!(poll_times(true, ready(()), Duration::ZERO).await, (vec![0], stopped.clone()));
    assert_eq!(poll_times(false, ready(()), Duration::ZERO).await, (vec![], stopped.clone()));
    assert_eq!(poll_times(true, sleep(SECOND * 2), Duration::ZERO).await, (vec![0, 1000], stopped));
}

#[tokio::test(start_paused = true)]
async fn wa_006_later_runs_start_on_fixed_ticks() {
    let stop = || sleep(Duration::from_millis(4500));
    assert_eq!(poll_times(false, stop(), Duration::from_millis(400)).await.0, [1000, 2000, 3000, 4000]);
    let (times, _) = poll_times(false, sleep(SECOND * 8), Duration::from_millis(2500)).await;
    assert_eq!(times, [1000, 3500, 6000], "a tick that was missed is made up for");
}

#[tokio::test(start_paused = true)]
async fn wa_006_success_and_failure_end_the_poll() {
    assert_eq!(poll_until(SECOND, true, pending::<()>(), async || Ok::<_, ()>(true)).await, Ok(()));
    let failed = poll_until(SECOND, true, pending::<()>(), async || Err("broken")).await;
    assert_eq!(failed, Err(PollError::Condition("broken")));
}

#[tokio::test(start_paused = true)]
async fn wa_003_a_backoff_has_so_many_runs_and_no_wait_after_the_last() {
    let times = RefCell::new(Vec::new());
    let begin = Instant::now();
    let backoff = Backoff { jitter: 0.0, ..DEFAULT_BACKOFF };
    let never = poll_with_backoff(backoff, async || {
        times.borrow_mut().push(begin.elapsed().as_millis());
        Ok::<_, ()>(false)
    });
    assert_eq!(never.await, Err(PollError::Interrupted(Interrupted::TimedOut)));
    assert_eq!(*times.borrow(), [0, 10, 60, 310]);
    assert_eq!(begin.elapsed().as_millis(), 310);

    let none = Backoff { steps: 0, ..backoff };
    let never = poll_with_backoff(none, async || -> Result<bool, ()> { panic!("ran") }).await;
    assert_eq!(never, Err(PollError::Interrupted(Interrupted::TimedOut)));
    assert_eq!(poll_with_backoff(backoff, async || Ok::<_, ()>(true)).await, Ok(()));
    assert_eq!(poll_with_backoff(backoff, async || Err("broken")).await, Err(PollError::Condition("broken")));
}

#[derive(Debug, thiserror::Error)]
#[error("something larger failed")]
struct Wrapped(#[source] Interrupted);

#[tokio::test(start_paused = true)]
async fn wa_004_interruptions_are_recognized_when_wrapped() {
    let elapsed = tokio::time::timeout(SECOND, pending::<()>()).await.unwrap_err();
    assert!(is_interrupted(&elapsed));
    assert!(is_interrupted(&Interrupted::Stopped) && is_interrupted(&Interrupted::TimedOut));
    assert!(is_interrupted(&Wrapped(Interrupted::TimedOut)));
    assert!(is_interrupted(&PollError::<std::fmt::Error>::Interrupted(Interrupted::TimedOut)));
    assert!(!is_interrupted(&std::io::Error::other("Interrupted")));
    assert_eq!(Interrupted::TimedOut.to_string(), "timed out waiting for the condition");
}

#[tokio::test(start_paused = true)]
async fn wa_007_a_panic_stays_with_the_task_that_caused_it() {
    // Better: there is no background task whose crash handler could end the process.
    let task = tokio::spawn(async {
        repeat(Pace::Sliding(SECOND), pending::<()>(), async || panic!("a bad callback")).await;
    });
    assert!(task.await.unwrap_err().is_panic());
}

#[tokio::test(start_paused = true)]
async fn un_007_a_limit_of_zero_is_none() {
    let begin = Instant::now();
    assert_eq!(optional_timeout(Duration::ZERO, sleep(SECOND * 3600)).await, Ok(()));
    assert_eq!(begin.elapsed(), SECOND * 3600);
    assert_eq!(optional_timeout(SECOND, pending::<()>()).await, Err(Interrupted::TimedOut));
}
