//! Retries, their waits and their errors.

use std::error::Error as _;

use super::*;
use crate::config::{Auth, Retry};
use crate::error::Error;

#[tokio::test(start_paused = true)]
async fn rrt_001_at_most_eleven_attempts_unless_configured() {
    let script = Script::always(ScriptStep::later(429, "0"));
    let error = get(&script.client()).send().await.unwrap_err();
    assert_eq!(error.status().unwrap().code, 429);
    assert_eq!(script.seen().len(), 11);

    get(&script.client()).max_retries(2).send().await.unwrap_err();
    assert_eq!(script.seen().len(), 3);
    get(&script.client()).max_retries(0).send().await.unwrap_err();
    assert_eq!(script.seen().len(), 1);
    get(&script.client_with(|config| config.retry = Retry { max_retries: 4, ..Retry::default() }))
        .send()
        .await
        .unwrap_err();
    assert_eq!(script.seen().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn rrt_007_a_retry_waits_for_the_retry_after() {
    let script = Script::new([ScriptStep::later(503, "10"), ScriptStep::later(429, "0")]);
    get(&script.client()).send().await.unwrap();
    let times = script.times();
    assert_eq!(times.len(), 3);
    assert!((10_000..=11_001).contains(&times[1]), "ten seconds and a little: {times:?}");
    assert_eq!(times[2], times[1]);
}

#[tokio::test(start_paused = true)]
async fn chc_02_a_date_is_no_retry_after() {
    let script = Script::always(ScriptStep::later(503, "Wed, 21 Oct 2026 07:28:00 GMT"));
    let error = get(&script.client()).send().await.unwrap_err();
    assert_eq!(script.count(), 1);
    assert_eq!(error.status().unwrap().code, 503);
    assert_eq!(error.status().unwrap().retry_after(), None);
}

#[tokio::test(start_paused = true)]
async fn chc_03_bytes_are_sent_again_in_full_and_streams_are_not() {
    let steps = || {
        [
            ScriptStep::later(429, "0"),
            ScriptStep::later(429, "0"),
            ScriptStep::later(429, "0"),
            ScriptStep::code(201).body("{}"),
        ]
    };
    let bytes = Bytes::from(vec![b'x'; 4000]);

    let script = Script::new(steps());
    let request = script.client().request(Method::POST, Path::raw("/things")).body(bytes.clone(), "text/plain");
    assert!(request.send().await.unwrap().was_created());
    let seen = script.seen();
    assert_eq!(seen.len(), 4);
    assert!(seen.iter().all(|seen| seen.body == bytes && seen.headers["content-type"] == "text/plain"));

    let script = Script::new(steps());
    let request = script.client().request(Method::POST, Path::raw("/things"));
    let request = request.stream_body(Body::full(bytes.clone()), "text/plain");
    let error = request.send().await.unwrap_err();
    assert_eq!(error.status().unwrap().code, 429);
    assert_eq!(script.seen().len(), 1);
    let again = request.clone().send().await.unwrap_err();
    assert_eq!(again.to_string(), "the request's body is a stream and has been sent already");
    assert_eq!(script.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn chc_04_requests_that_are_retried_after_a_reset() {
    let script = Script::always(ScriptStep::Fail(TransportFault::Reset));
    let client = script.client();

    get(&client).send().await.unwrap_err();
    let times: Vec<u128> = script.seen().iter().map(|seen| seen.at.as_millis()).collect();
    assert_eq!(times, (0..11).map(|second| second * 1000).collect::<Vec<u128>>(), "one second apart");

    post(&client).send().await.unwrap_err();
    assert_eq!(script.seen().len(), 1);

    get(&client).stream().await.unwrap_err();
    assert_eq!(script.seen().len(), 1);

    // Better than client-go, which returns an empty closed watch as if the server had ended it.
    let error = get(&client).watch::<()>(&pods()).await.unwrap_err();
    assert!(matches!(&error, Error::Transport { source, .. } if source.fault() == TransportFault::Reset));
    assert_eq!(script.seen().len(), 11);
}

#[tokio::test(start_paused = true)]
async fn wch_010_a_watch_is_retried_after_timeouts_and_after_retry_after() {
    let script =
        Script::new([ScriptStep::Fail(TransportFault::Timeout), ScriptStep::later(429, "3"), ScriptStep::code(200)]);
    let mut watch = get(&script.client()).watch::<()>(&pods()).await.unwrap();
    assert!(watch.next().await.is_none());
    let seen = script.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|seen| seen.lane == Lane::Streams));

    let script = Script::always(ScriptStep::later(429, "1"));
    let error = get(&script.client()).watch::<()>(&pods()).await.unwrap_err();
    assert_eq!(error.status().unwrap().code, 429);
    assert_eq!(script.count(), 11);
}

#[tokio::test(start_paused = true)]
async fn rrt_004_a_refused_connection_is_not_retried() {
    for fault in [TransportFault::Refused, TransportFault::Resolve, TransportFault::Tls, TransportFault::StreamReset] {
        let script = Script::always(ScriptStep::Fail(fault));
        get(&script.client()).send().await.unwrap_err();
        get(&script.client()).watch::<()>(&pods()).await.unwrap_err();
        assert_eq!(script.count(), 2, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn rrt_005_errors_are_classified_by_kind_and_not_by_message() {
    use std::io::ErrorKind;
    for (kind, fault, attempts) in [
        (ErrorKind::ConnectionReset, TransportFault::Reset, 11),
        (ErrorKind::UnexpectedEof, TransportFault::Closed, 11),
        (ErrorKind::BrokenPipe, TransportFault::Closed, 11),
        (ErrorKind::ConnectionRefused, TransportFault::Refused, 1),
        (ErrorKind::TimedOut, TransportFault::Timeout, 1),
        (ErrorKind::Other, TransportFault::Other, 1),
    ] {
        let script = Script::always(ScriptStep::Foreign(kind, "connection reset by peer"));
        let error = get(&script.client()).send().await.unwrap_err();
        let Error::Transport { source, .. } = &error else { panic!("{error:?}") };
        assert_eq!((source.fault(), source.host(), script.count()), (fault, "api.example", attempts));
    }
}

#[tokio::test(start_paused = true)]
async fn chc_05_the_error_of_the_previous_attempt_is_returned() {
    // The timeout ends during the second attempt.
    let script = Script::new([ScriptStep::Fail(TransportFault::Closed), ScriptStep::Hang]);
    let error = get(&script.client()).timeout(Duration::from_millis(1500)).send().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "GET /version: no response within 1.5s (previous attempt: GET /version: api.example closed the connection before \
         its answer was complete)"
    );
    assert!(matches!(error, Error::Timeout { previous: Some(_), .. }));

    // The timeout would end during the wait: the error is returned at once.
    let script = Script::new([ScriptStep::Fail(TransportFault::Closed)]);
    let error = get(&script.client()).timeout(Duration::from_millis(500)).send().await.unwrap_err();
    assert!(matches!(&error, Error::Transport { source, .. } if source.fault() == TransportFault::Closed), "{error}");
    assert_eq!(script.started.elapsed(), Duration::ZERO);
    assert_eq!(script.count(), 1);

    // Dropping the future cancels the request.
    let script = Script::always(ScriptStep::Fail(TransportFault::Closed));
    let request = get(&script.client());
    assert!(tokio::time::timeout(Duration::from_millis(1500), request.send()).await.is_err());
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(script.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn rrt_009_the_error_of_the_attempt_before_is_kept_if_it_is_another() {
    let script = Script::new([ScriptStep::Fail(TransportFault::Closed), ScriptStep::Fail(TransportFault::Refused)]);
    let error = get(&script.client()).send().await.unwrap_err();
    let Error::Transport { source, previous: Some(previous), .. } = &error else { panic!("{error:?}") };
    assert_eq!(source.fault(), TransportFault::Refused);
    assert!(previous.to_string().contains("closed the connection"));
    assert!(error.source().is_none(), "the text is complete by itself");

    let script = Script::new([ScriptStep::later(429, "0"), ScriptStep::Fail(TransportFault::Refused)]);
    let error = get(&script.client()).send().await.unwrap_err();
    let Error::Transport { previous: Some(previous), .. } = &error else { panic!("{error:?}") };
    assert_eq!(previous.status().unwrap().code, 429);

    let script = Script::always(ScriptStep::Fail(TransportFault::Closed));
    let error = get(&script.client()).send().await.unwrap_err();
    assert!(matches!(error, Error::Transport { previous: None, .. }), "not twice the same");

    let script = Script::new([ScriptStep::later(429, "0"), ScriptStep::Cut]);
    let error = get(&script.client()).send().await.unwrap_err();
    let Error::Transport { source, previous: Some(_), .. } = &error else { panic!("{error:?}") };
    assert_eq!(source.fault(), TransportFault::Closed, "a body that breaks off is not tried again");
    assert_eq!(script.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn rrt_008_little_of_a_discarded_response_is_read() {
    let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"busy","reason":"TooManyRequests","code":429}"#;
    let script = Script::new([ScriptStep::later(429, "0").body(status), ScriptStep::Fail(TransportFault::Refused)]);
    let error = get(&script.client()).send().await.unwrap_err();
    assert!(error.to_string().contains("busy"), "{error}");

    // A body that never ends delays the request only briefly.
    let script = Script::new([ScriptStep::Fail(TransportFault::Closed)]);
    let hanging = Hanging(script.clone());
    let client = ClientBuilder::service(Script::config(), hanging).build().unwrap();
    get(&client).send().await.unwrap();
    assert!(script.started.elapsed() <= Duration::from_secs(3));
}

/// Responds to the first request with `Retry-After: 0` and a body that never ends.
#[derive(Clone)]
struct Hanging(Script);

impl tower_service::Service<http::Request<Body>> for Hanging {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let step = self.0.steps.lock().unwrap().pop_front();
        if step.is_some() {
            let response = http::Response::builder().status(429).header("retry-after", "0");
            let response = response.body(Body::new(Dangling { cut: false }));
            return Box::pin(async move { Ok(response?) });
        }
        self.0.call(request)
    }
}

#[tokio::test(start_paused = true)]
async fn rrt_010_one_timeout_covers_all_attempts() {
    let script = Script::new([ScriptStep::later(503, "1"), ScriptStep::later(503, "1"), ScriptStep::Hang]);
    let error = get(&script.client_with(|config| config.timeout = Some(Duration::from_secs(5)))).send().await;
    assert!(matches!(error, Err(Error::Timeout { limit, .. }) if limit == Duration::from_secs(5)));
    assert_eq!(script.started.elapsed().as_secs(), 5);

    let script = Script::new([ScriptStep::HangInBody]);
    let error = get(&script.client()).timeout(Duration::from_secs(5)).send().await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "reading counts too");
    let script = Script::new([ScriptStep::HangInBody]);
    let error = get(&script.client()).timeout(Duration::from_secs(5)).list::<()>(&pods()).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "reading counts too");
}

#[tokio::test(start_paused = true)]
async fn rrt_011_the_timeout_of_a_stream_ends_when_it_starts() {
    // Better than client-go, where the client's timeout ends every watch and every log.
    let script = Script::new([ScriptStep::HangInBody, ScriptStep::HangInBody, ScriptStep::Hang, ScriptStep::Hang]);
    let client = script.client_with(|config| config.timeout = Some(Duration::from_secs(5)));
    let mut watch = get(&client).watch::<()>(&pods()).await.unwrap();
    let mut stream = get(&client).stream().await.unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(3600), watch.next()).await.is_err());
    assert!(tokio::time::timeout(Duration::from_secs(3600), stream.next()).await.is_err());
    assert!(matches!(get(&client).watch::<()>(&pods()).await, Err(Error::Timeout { .. })));
    assert!(matches!(get(&client).stream().await, Err(Error::Timeout { .. })));
}

#[tokio::test(start_paused = true)]
async fn rrt_013_one_request_can_be_sent_many_times_at_once() {
    let script = Script::always(ScriptStep::later(429, "0"));
    let request = get(&script.client()).max_retries(9);
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let request = request.clone();
            tokio::spawn(async move { request.send().await })
        })
        .collect();
    for request in calls {
        assert!(request.await.unwrap().is_err());
    }
    assert_eq!(script.count(), 200, "each has retries of its own");
}

#[tokio::test]
async fn trn_016_after_a_401_a_token_file_is_read_again_once() {
    // Better than client-go, which uses the old token for up to a minute.
    let path = std::env::temp_dir().join(format!("evenkeel-token-{}-{}", std::process::id(), fastrand::u64(..)));
    std::fs::write(&path, "old").unwrap();
    let script = Script::always(ScriptStep::code(401));
    let client = script.client_with(|config| config.auth = Auth::TokenFile { path: path.clone(), fallback: None });
    std::fs::write(&path, "new").unwrap();
    let error = post(&client).send().await.unwrap_err();
    assert_eq!(error.status().unwrap().code, 401);
    let tokens: Vec<_> = script.seen().into_iter().map(|seen| seen.headers["authorization"].clone()).collect();
    assert_eq!(tokens, ["Bearer old", "Bearer new"], "once more, and no more");

    let own = post(&client).header(http::header::AUTHORIZATION, "Bearer mine");
    own.send().await.unwrap_err();
    assert_eq!(script.seen().len(), 1, "not our token, not our business");
    post(&client).max_retries(0).send().await.unwrap_err();
    assert_eq!(script.seen().len(), 1);
    post(&script.client_with(|config| config.auth = Auth::Token("t".into()))).send().await.unwrap_err();
    assert_eq!(script.seen().len(), 1, "a token that cannot change is not tried again");
    std::fs::remove_file(path).unwrap();
}

#[tokio::test(start_paused = true)]
async fn rrt_003_retries_of_a_request_without_a_timeout_are_bounded() {
    let script = Script::always(ScriptStep::later(503, "300"));
    let started = Instant::now();
    let error = get(&script.client()).send().await.unwrap_err();
    assert_eq!(error.status().unwrap().code, 503, "the error of the last attempt is returned");
    assert!(started.elapsed() <= Retry::default().max_elapsed, "{:?}", started.elapsed());
    assert!(script.count() > 1, "it is retried while there is time");

    let script = Script::always(ScriptStep::later(503, "300"));
    let started = Instant::now();
    let client = script.client_with(|config| {
        config.retry.max_retry_after = Duration::from_secs(300);
        config.retry.max_elapsed = Duration::from_secs(1000);
    });
    get(&client).send().await.unwrap_err();
    assert_eq!(script.count(), 4, "both bounds can be configured");
    assert!(started.elapsed() <= Duration::from_secs(1000));
}
