use std::pin::pin;
use std::task::{Context, Waker};

use proptest::prelude::*;

use super::*;

fn limiter(qps: f32, burst: u32) -> RateLimiter {
    RateLimiter::new(Throttle { qps, burst }).unwrap()
}

const MS: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn fc_008_the_bucket_starts_full_and_fills_at_its_rate_up_to_its_size() {
    let limiter = limiter(1.0, 3);
    let take = || (0..5).filter(|_| limiter.try_accept()).count();
    assert_eq!(take(), 3);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(take(), 2);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(take(), 3);
}

#[tokio::test(start_paused = true)]
async fn fc_009_accept_waits_for_its_token() {
    let limiter = limiter(10.0, 5);
    let started = Instant::now();
    for _ in 0..16 {
        limiter.accept().await;
    }
    let took = started.elapsed();
    assert!((1100 * MS..1120 * MS).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn fc_009_concurrent_waiters_do_not_exceed_the_rate() {
    let limiter = limiter(100.0, 1);
    let started = Instant::now();
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move {
                for _ in 0..10 {
                    limiter.accept().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let took = started.elapsed();
    assert!((990 * MS..1200 * MS).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn fc_010_a_wait_that_would_be_too_long_fails_at_once_and_takes_nothing() {
    let limiter = limiter(1.0, 1);
    assert!(limiter.try_accept());
    let started = Instant::now();
    let error = limiter.wait(Some(started + 300 * MS)).await.unwrap_err();
    assert_eq!(error.wait, Duration::from_secs(1));
    assert_eq!(started.elapsed(), Duration::ZERO);
    let waited = limiter.wait(Some(started + 1001 * MS)).await.unwrap();
    assert!((1000 * MS..=1001 * MS).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn fc_010_waiters_count_and_a_cancelled_one_leaves_its_token() {
    let limiter = limiter(1.0, 1);
    assert!(limiter.try_accept());
    let started = Instant::now();
    let spawn = |limiter: &RateLimiter| {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.accept().await })
    };
    let first = spawn(&limiter);
    tokio::task::yield_now().await;
    let second = spawn(&limiter);
    tokio::task::yield_now().await;
    assert!(!limiter.try_accept(), "a new request does not overtake waiters");
    let error = limiter.wait(Some(started + 2900 * MS)).await.unwrap_err();
    assert_eq!(error.wait, Duration::from_secs(3), "two are ahead");
    tokio::time::advance(500 * MS).await;
    first.abort();
    let waited = second.await.unwrap();
    assert!((1000 * MS..=1002 * MS).contains(&waited), "the second moves up: {waited:?}");
    assert!(first.await.unwrap_err().is_cancelled());
    assert!(!limiter.try_accept());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(limiter.try_accept());
}

#[tokio::test(start_paused = true)]
async fn fc_010_a_token_belongs_to_the_waiter_and_not_to_a_new_request() {
    let limiter = limiter(1.0, 1);
    assert!(limiter.try_accept());
    let mut context = Context::from_waker(Waker::noop());
    let mut first = pin!(limiter.accept());
    assert!(first.as_mut().poll(&mut context).is_pending());
    tokio::time::advance(Duration::from_secs(1)).await;
    let mut second = pin!(limiter.accept());
    assert!(second.as_mut().poll(&mut context).is_pending(), "the token is not the latecomer's");
    assert!(first.as_mut().poll(&mut context).is_ready());
    assert!(second.as_mut().poll(&mut context).is_pending());
}

#[tokio::test(start_paused = true)]
async fn fc_011_no_token_is_lost_to_rounding() {
    let limiter = limiter(1.0 / 1.031_425, 1);
    for round in 0..60 {
        assert!(limiter.try_accept(), "round {round}");
        tokio::time::advance(Duration::from_secs(2)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn fc_012_the_limiter_returns_its_rate() {
    let limiter = limiter(7.5, 2);
    assert!((limiter.qps() - 7.5).abs() < f32::EPSILON);
    assert_eq!(format!("{limiter:?}"), "RateLimiter(Throttle { qps: 7.5, burst: 2 })");
}

#[tokio::test(start_paused = true)]
async fn fc_013_all_time_is_of_one_clock() {
    // Better than client-go, whose Wait uses the real clock even if another one was injected.
    let limiter = limiter(0.001, 1);
    assert!(limiter.try_accept());
    assert!(!limiter.try_accept());
    let waited = limiter.wait(None).await.unwrap();
    assert!((999_999 * MS..1_000_010 * MS).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn fc_014_test_limiters_pass_everything_or_nothing() {
    let always = RateLimiter::always();
    for _ in 0..10_000 {
        assert!(always.try_accept());
    }
    assert_eq!(always.accept().await, Duration::ZERO);
    assert!(always.wait(Some(Instant::now())).await.is_ok());

    let never = RateLimiter::never();
    assert!(!never.try_accept());
    assert!(never.wait(Some(Instant::now() + Duration::from_secs(3600))).await.is_err());
    let patience = Duration::from_secs(86_400);
    assert!(tokio::time::timeout(patience, never.accept()).await.is_err());
    assert!((always.qps() - 1.0).abs() < f32::EPSILON);
    assert!((never.qps() - 1.0).abs() < f32::EPSILON);
}

#[test]
fn cfg_008_a_limit_without_a_burst_is_an_error() {
    for throttle in [
        Throttle { qps: 5.0, burst: 0 },
        Throttle { qps: 0.0, burst: 10 },
        Throttle { qps: -1.0, burst: 10 },
        Throttle { qps: f32::NAN, burst: 10 },
        Throttle { qps: f32::INFINITY, burst: 10 },
    ] {
        assert!(RateLimiter::new(throttle).is_err(), "{throttle:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn lim_004_long_waits_are_logged_once_in_ten_seconds() {
    let log = ThrottleLog::default();
    let start = Instant::now();
    assert_eq!(log.notice(50 * MS, start), Notice::Silent);
    assert_eq!(log.notice(51 * MS, start), Notice::Debug);
    assert_eq!(log.notice(1000 * MS, start), Notice::Debug);
    let logged =
        (0..1000).filter(|second| log.notice(1001 * MS, start + Duration::from_secs(*second)) == Notice::Info).count();
    assert_eq!(logged, 100);
}

proptest! {
    #[test]
    fn fc_008_no_stretch_of_time_sees_more_than_the_burst_and_the_rate(
        qps in 0.1..100.0_f64, burst in 1_u32..20, pauses in prop::collection::vec(0_u64..3000, 1..100),
    ) {
        let mut bucket = TokenBucket::per_second(qps, burst).unwrap();
        let mut taken: Vec<f64> = Vec::new();
        let mut now = Duration::ZERO;
        for pause in pauses {
            now += Duration::from_millis(pause);
            if !bucket.try_take(now) {
                now += bucket.wait_for(now, 1);
                prop_assert!(bucket.try_take(now), "it is there when it was said to be");
            }
            taken.push(now.as_secs_f64());
        }
        for (first, begin) in taken.iter().enumerate() {
            for (last, end) in taken.iter().enumerate().skip(first) {
                let most = f64::from(burst) + qps * (end - begin);
                prop_assert!((last - first + 1) as f64 <= most + 0.01);
            }
        }
    }
}
