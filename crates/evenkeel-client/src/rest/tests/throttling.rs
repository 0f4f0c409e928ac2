//! The client-side rate limit.

use super::*;
use crate::config::Throttle;
use crate::error::Error;

fn one_per_second(config: &mut Config) {
    config.throttle = Some(Throttle { qps: 1.0, burst: 1 });
}

#[tokio::test(start_paused = true)]
async fn chc_01_waiting_for_the_limiter_is_no_timeout() {
    let script = Script::new([ScriptStep::ok(), ScriptStep::ok(), ScriptStep::later(429, "0")]);
    let client = script.client_with(one_per_second);
    get(&client).send().await.unwrap();
    let request = get(&client).timeout(Duration::from_millis(300));
    request.send().await.unwrap();
    assert!((1000..=1001).contains(&script.times()[1]), "{:?}", script.times());

    // The wait of a retry is within the timeout. Its token would be too late, which is an error at once.
    tokio::time::advance(Duration::from_secs(1)).await;
    let started = Instant::now();
    let error = request.send().await.unwrap_err();
    let Error::RateLimited { wait, previous: Some(previous), .. } = &error else { panic!("{error:?}") };
    assert!(*wait > Duration::from_millis(900));
    assert_eq!(previous.status().unwrap().code, 429);
    assert!(error.to_string().contains("the client's rate limit would delay it"), "{error}");
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn lim_001_a_burst_passes_and_then_the_rate_holds() {
    let script = Script::new([]);
    let client = script.client_with(|config| config.throttle = Some(Throttle { qps: 10.0, burst: 3 }));
    for _ in 0..6 {
        get(&client).send().await.unwrap();
    }
    let times = script.times();
    assert_eq!(&times[..3], [0, 0, 0]);
    for (place, time) in times[3..].iter().enumerate() {
        let due = 100 * (place as u128 + 1);
        assert!((due..=due + 3).contains(time), "{times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn lim_002_the_timeout_starts_after_the_limiter() {
    let script = Script::new([ScriptStep::ok(), ScriptStep::Hang]);
    let client = script.client_with(one_per_second);
    get(&client).send().await.unwrap();
    let error = get(&client).timeout(Duration::from_millis(300)).send().await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }));
    assert!((1300..=1302).contains(&script.started.elapsed().as_millis()));
}

#[tokio::test(start_paused = true)]
async fn lim_003_a_watch_is_throttled_only_when_retried() {
    let script = Script::new([
        ScriptStep::ok(),
        ScriptStep::code(200),
        ScriptStep::Fail(TransportFault::Closed),
        ScriptStep::code(200),
    ]);
    let client = script.client_with(|config| config.throttle = Some(Throttle { qps: 0.1, burst: 1 }));
    get(&client).send().await.unwrap();
    get(&client).watch::<()>(&pods()).await.unwrap();
    assert_eq!(script.times(), [0, 0], "no token is left, and none was needed");
    get(&client).watch::<()>(&pods()).await.unwrap();
    let times = script.times();
    assert_eq!(times[2], 0);
    assert!((10_000..=10_002).contains(&times[3]), "{times:?}");
    let started = Instant::now();
    get(&client).stream().await.unwrap();
    assert!(started.elapsed().as_millis() >= 9_990, "a stream waits for its first token");
}

#[tokio::test(start_paused = true)]
async fn cfg_007_there_is_no_limit_unless_one_is_set_and_an_explicit_limiter_wins() {
    let script = Script::new([]);
    assert!(script.client().limiter().is_none());
    let limited = script.client_with(|config| config.throttle = Some(Throttle::default()));
    assert!((limited.limiter().unwrap().qps() - 5.0).abs() < f32::EPSILON);
    assert_eq!(Throttle::default().burst, 10);
    let mut config = Script::config();
    one_per_second(&mut config);
    let explicit = RateLimiter::new(Throttle { qps: 7.0, burst: 1 }).unwrap();
    let client = ClientBuilder::service(config, script).rate_limiter(explicit).build().unwrap();
    assert!((client.limiter().unwrap().qps() - 7.0).abs() < f32::EPSILON);
}

#[tokio::test(start_paused = true)]
async fn cfg_008_a_limit_of_zero_is_an_error() {
    let mut config = Script::config();
    config.throttle = Some(Throttle { qps: 5.0, burst: 0 });
    let error = ClientBuilder::service(config, Script::new([])).build().unwrap_err();
    assert!(error.to_string().contains("throttle.burst"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn cfg_009_all_requests_of_a_client_share_one_limit() {
    // Better than client-go, where every group has its own bucket by default.
    let script = Script::new([]);
    let client = script.client_with(one_per_second);
    let other = client.clone();
    client.request(Method::GET, Path::raw("/api/v1/pods")).send().await.unwrap();
    other.request(Method::GET, Path::raw("/apis/apps/v1/deployments")).send().await.unwrap();
    assert!(script.times()[1] >= 1000);
}

#[tokio::test(start_paused = true)]
async fn fc_010_a_dropped_request_leaves_its_token_to_others() {
    let script = Script::new([]);
    let client = script.client_with(one_per_second);
    get(&client).send().await.unwrap();
    let request = get(&client);
    assert!(tokio::time::timeout(Duration::from_millis(500), request.send()).await.is_err());
    get(&client).send().await.unwrap();
    assert!((1000..=1001).contains(&script.times()[1]), "{:?}", script.times());
}
