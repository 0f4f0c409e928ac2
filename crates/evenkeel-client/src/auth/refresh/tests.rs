//! The refresher with a scripted source, in virtual time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::HeaderValue;
use tokio::time::{advance, sleep};

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Returns `Bearer 1`, `Bearer 2` and so on, each after ten seconds.
#[derive(Default)]
struct Counter {
    started: AtomicUsize,
    lifetime: Option<Duration>,
    /// The number of the first calls that fail.
    failing: usize,
    /// The number of the first calls that panic.
    panicking: usize,
}

impl CredentialSource for Arc<Counter> {
    fn fetch(&self) -> Fetching<'_> {
        Box::pin(async {
            let number = self.started.fetch_add(1, Ordering::SeqCst) + 1;
            sleep(10 * SECOND).await;
            assert!(number > self.panicking, "as scripted");
            if number <= self.failing {
                return Err(CredentialProblem::InvalidToken);
            }
            let authorization = HeaderValue::try_from(format!("Bearer {number}")).unwrap();
            Ok(Fetched { authorization: Some(authorization), lifetime: self.lifetime })
        })
    }
}

fn refresher(counter: Counter) -> (Arc<Refresher>, Arc<Counter>) {
    let counter = Arc::new(counter);
    (Refresher::new(Arc::clone(&counter)), counter)
}

async fn token(refresher: &Arc<Refresher>) -> String {
    refresher.credential().await.unwrap().authorization.unwrap().to_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn exe_011_concurrent_requests_share_one_refresh() {
    let (refresher, counter) = refresher(Counter::default());
    let requests: Vec<_> = (0..50)
        .map(|_| {
            let refresher = Arc::clone(&refresher);
            tokio::spawn(async move { token(&refresher).await })
        })
        .collect();
    for request in requests {
        assert_eq!(request.await.unwrap(), "Bearer 1");
    }
    assert_eq!(counter.started.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_neither_cancels_nor_repeats_the_refresh() {
    let (refresher, counter) = refresher(Counter::default());
    let dropped = tokio::time::timeout(SECOND, refresher.credential()).await;
    assert!(dropped.is_err(), "the request was dropped");
    let started = Instant::now();
    assert_eq!(token(&refresher).await, "Bearer 1");
    assert_eq!(started.elapsed(), 9 * SECOND, "the refresh continued without it");
    assert_eq!(counter.started.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn exe_013_a_refresh_ahead_of_the_expiry_delays_no_request() {
    let (refresher, counter) = refresher(Counter { lifetime: Some(10 * MINUTE), ..Counter::default() });
    assert_eq!(token(&refresher).await, "Bearer 1");
    advance(9 * MINUTE + 30 * SECOND).await;
    let started = Instant::now();
    assert_eq!(token(&refresher).await, "Bearer 1");
    assert_eq!(started.elapsed(), Duration::ZERO, "the old one is still valid");
    sleep(11 * SECOND).await;
    assert_eq!(token(&refresher).await, "Bearer 2");
    assert_eq!((started.elapsed(), counter.started.load(Ordering::SeqCst)), (11 * SECOND, 2));
}

#[tokio::test(start_paused = true)]
async fn waiting_requests_share_an_error_and_later_ones_get_it_at_once() {
    let (refresher, counter) = refresher(Counter { failing: 1, ..Counter::default() });
    let other = tokio::spawn({
        let refresher = Arc::clone(&refresher);
        async move { refresher.credential().await }
    });
    let error = refresher.credential().await.unwrap_err();
    assert!(Arc::ptr_eq(&error, &other.await.unwrap().unwrap_err()));
    let started = Instant::now();
    for _ in 0..1000 {
        assert!(Arc::ptr_eq(&error, &refresher.credential().await.unwrap_err()));
    }
    assert_eq!((started.elapsed(), counter.started.load(Ordering::SeqCst)), (Duration::ZERO, 1), "no hammering");
    advance(SECOND).await;
    assert_eq!(token(&refresher).await, "Bearer 2");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_panics_is_an_error() {
    let (refresher, _) = refresher(Counter { panicking: 1, ..Counter::default() });
    let error = refresher.credential().await.unwrap_err();
    assert!(matches!(*error, CredentialProblem::Panicked), "{error}");
    advance(SECOND).await;
    assert_eq!(token(&refresher).await, "Bearer 2");
}

#[test]
fn a_refresh_whose_runtime_shuts_down_is_started_again_by_another() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (refresher, counter) = refresher(Counter::default());
    let first = runtime();
    first.block_on(async { tokio::time::timeout(SECOND, refresher.credential()).await.unwrap_err() });
    drop(first);
    assert_eq!(runtime().block_on(token(&refresher)), "Bearer 2");
    assert_eq!(counter.started.load(Ordering::SeqCst), 2);
}
