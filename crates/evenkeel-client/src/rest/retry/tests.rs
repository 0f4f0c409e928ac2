use http::HeaderValue;
use proptest::prelude::*;

use super::*;

const CONFIG: Retry = Retry { max_retries: 10, max_retry_after: Duration::from_secs(300), max_elapsed: Duration::MAX };

fn retries(mode: ResponseMode, method: Method) -> Retries {
    Retries::new(&CONFIG, mode, &method, true)
}

fn answered(code: u16, seconds: Option<u64>) -> AttemptOutcome {
    AttemptOutcome::Responded(StatusCode::from_u16(code).unwrap(), seconds.map(Duration::from_secs))
}

fn once(mode: ResponseMode, method: Method, attempt: AttemptOutcome) -> RetryDecision {
    retries(mode, method).decide(attempt, 0.0, Duration::ZERO, None)
}

fn after(seconds: u64) -> RetryDecision {
    RetryDecision::RetryAfter(Duration::from_secs(seconds))
}

#[test]
fn rrt_001_ten_retries_unless_configured() {
    for (max_retries, expected) in [(10, 10), (1, 1), (0, 0)] {
        let config = Retry { max_retries, ..CONFIG };
        let mut retries = Retries::new(&config, ResponseMode::Whole, &Method::POST, true);
        let mut count = 0;
        while retries.decide(answered(429, Some(0)), 0.0, Duration::ZERO, None) != RetryDecision::Return {
            count += 1;
        }
        assert_eq!(count, expected);
    }
    assert_eq!(Retry::default().max_retries, 10);
}

#[test]
fn rrt_002_a_busy_response_with_a_retry_after_is_retried() {
    for mode in [ResponseMode::Whole, ResponseMode::Stream, ResponseMode::Watch] {
        for method in [Method::GET, Method::POST, Method::PATCH, Method::PUT, Method::DELETE] {
            for code in [429, 500, 502, 503, 504, 599] {
                assert_eq!(once(mode, method.clone(), answered(code, Some(7))), after(7));
                assert_eq!(once(mode, method.clone(), answered(code, None)), RetryDecision::Return);
            }
            for code in [200, 301, 400, 404, 409, 422] {
                assert_eq!(once(mode, method.clone(), answered(code, Some(7))), RetryDecision::Return);
            }
        }
    }
}

#[test]
fn rrt_003_a_retry_after_has_a_cap_a_jitter_and_the_timeout() {
    // Better than client-go, which has no cap and no jitter.
    let decide = |seconds, chance, left: Option<u64>| {
        retries(ResponseMode::Whole, Method::GET).decide(
            answered(503, Some(seconds)),
            chance,
            Duration::ZERO,
            left.map(Duration::from_secs),
        )
    };
    assert_eq!(decide(100_000, 0.0, None), after(300));
    assert_eq!(decide(100_000, 1.0, None), after(300), "the cap holds with jitter too");
    assert_eq!(decide(10, 1.0, None), after(11));
    assert_eq!(decide(10, 0.5, None), RetryDecision::RetryAfter(Duration::from_millis(10_500)));
    assert_eq!(decide(0, 1.0, None), after(0));
    assert_eq!(decide(10, 0.0, Some(11)), after(10));
    assert_eq!(decide(10, 0.0, Some(10)), RetryDecision::Return, "time would run out while waiting");
}

#[test]
fn rrt_003_no_retry_starts_after_the_maximal_elapsed_time() {
    let config = Retry { max_elapsed: Duration::from_secs(120), ..CONFIG };
    let decide = |elapsed: u64, seconds: u64| {
        let mut retries = Retries::new(&config, ResponseMode::Whole, &Method::GET, true);
        retries.decide(answered(503, Some(seconds)), 0.0, Duration::from_secs(elapsed), None)
    };
    assert_eq!(decide(0, 60), after(60));
    assert_eq!(decide(60, 60), after(60));
    assert_eq!(decide(61, 60), RetryDecision::Return);
    assert_eq!(decide(0, 121), RetryDecision::Return, "there is no point in waiting for a part of it");
    assert_eq!(decide(121, 0), RetryDecision::Return);
}

#[test]
fn rrt_004_lost_connections_that_are_retried() {
    use TransportFault::*;
    let all = [
        Resolve,
        Refused,
        Connect,
        ConnectTimeout,
        Proxy,
        Tls,
        Credentials,
        Reset,
        Closed,
        Http2Lost,
        StreamReset,
        Timeout,
        Protocol,
        Other,
    ];
    for fault in all {
        let lost = matches!(fault, Reset | Closed | Http2Lost);
        let late = matches!(fault, Timeout | ConnectTimeout);
        let expect = |again: bool| if again { after(1) } else { RetryDecision::Return };
        let failed = AttemptOutcome::Failed(fault);
        assert_eq!(once(ResponseMode::Whole, Method::GET, failed), expect(lost), "{fault:?}");
        assert_eq!(once(ResponseMode::Whole, Method::POST, failed), RetryDecision::Return, "{fault:?}");
        assert_eq!(once(ResponseMode::Whole, Method::DELETE, failed), RetryDecision::Return, "{fault:?}");
        assert_eq!(once(ResponseMode::Stream, Method::GET, failed), RetryDecision::Return, "{fault:?}");
        assert_eq!(once(ResponseMode::Watch, Method::GET, failed), expect(lost || late), "{fault:?}");
        assert_eq!(once(ResponseMode::Watch, Method::POST, failed), expect(lost || late), "{fault:?}");
    }
}

#[test]
fn rrt_006_a_streamed_body_is_sent_once() {
    let mut retries = Retries::new(&CONFIG, ResponseMode::Whole, &Method::POST, false);
    assert_eq!(retries.decide(answered(429, Some(0)), 0.0, Duration::ZERO, None), RetryDecision::Return);
}

#[test]
fn sec_46_retry_after_is_whole_seconds() {
    let parse = |text: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_str(text).unwrap());
        retry_after(&headers)
    };
    assert_eq!(parse("0"), Some(Duration::ZERO));
    assert_eq!(parse("120"), Some(Duration::from_secs(120)));
    assert_eq!(parse("99999999999999999999999999"), Some(Duration::from_secs(u64::MAX)), "capped when it is obeyed");
    for garbage in ["", "-1", "+1", "1.5", "1s", "soon", "Wed, 21 Oct 2026 07:28:00 GMT", "0x10", "1 2"] {
        assert_eq!(parse(garbage), None, "{garbage:?}");
    }
    assert_eq!(retry_after(&HeaderMap::new()), None);
    let forever = AttemptOutcome::Responded(StatusCode::SERVICE_UNAVAILABLE, parse("99999999999999999999999999"));
    assert_eq!(once(ResponseMode::Whole, Method::GET, forever), after(300));
}

proptest! {
    #[test]
    fn rrt_003_waits_and_retries_are_bounded_for_every_retry_after(
        seconds in any::<u64>(), chance in -1.0..2.0_f64, max_retries in 0_u32..20, cap in 0_u64..1000,
        left in prop::option::of(0_u64..2000),
    ) {
        let (cap, left) = (Duration::from_secs(cap), left.map(Duration::from_secs));
        let config = Retry { max_retries, max_retry_after: cap, max_elapsed: Duration::MAX };
        let mut retries = Retries::new(&config, ResponseMode::Whole, &Method::GET, true);
        let mut count = 0;
        while let RetryDecision::RetryAfter(wait) = retries.decide(answered(429, Some(seconds)), chance, Duration::ZERO, left) {
            count += 1;
            prop_assert!(wait <= cap);
            prop_assert!(wait >= Duration::from_secs(seconds).min(cap), "never earlier than the server wants");
            prop_assert!(left.is_none_or(|left| wait < left));
        }
        prop_assert!(count == 0 || count == max_retries);
    }
}
