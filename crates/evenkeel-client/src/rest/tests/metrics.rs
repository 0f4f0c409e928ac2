//! Metrics, under client-go's names.

use std::collections::BTreeMap;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use super::*;
use crate::config::Throttle;

/// The recorded metrics: name and labels, with the value or the values.
fn recorded(run: impl Future<Output = ()>) -> BTreeMap<String, Vec<f64>> {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    ::metrics::with_local_recorder(&recorder, || runtime.block_on(run));
    let mut all = BTreeMap::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let labels: Vec<String> =
            key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{}{{{}}}", key.key().name(), labels.join(","));
        let values = match value {
            DebugValue::Counter(count) => vec![count as f64],
            DebugValue::Gauge(value) => vec![value.into_inner()],
            DebugValue::Histogram(values) => values.into_iter().map(|value| value.into_inner()).collect(),
        };
        all.insert(name, values);
    }
    all
}

#[test]
fn mt_004_attempts_and_retries_are_counted() {
    let all = recorded(async {
        let steps = [
            ScriptStep::later(429, "1"),
            ScriptStep::Fail(TransportFault::Closed),
            ScriptStep::ok(),
            ScriptStep::code(418),
        ];
        let script = Script::new(steps);
        let client = script.client();
        get(&client).send().await.unwrap();
        get(&client).send().await.unwrap_err();
    });
    let requests = |code: &str| {
        all.get(&format!("rest_client_requests_total{{code={code},method=GET,host=api.example:6443}}")).cloned()
    };
    let retries = |code: &str| {
        all.get(&format!("rest_client_request_retries_total{{code={code},verb=GET,host=api.example:6443}}")).cloned()
    };
    assert_eq!(requests("429"), Some(vec![1.0]));
    assert_eq!(requests("<error>"), Some(vec![1.0]));
    assert_eq!(requests("200"), Some(vec![1.0]));
    assert_eq!(requests("418"), Some(vec![1.0]));
    assert_eq!(retries("429"), None, "the first attempt is no retry");
    assert_eq!(retries("<error>"), Some(vec![1.0]));
    assert_eq!(retries("200"), Some(vec![1.0]));
    assert_eq!(retries("418"), None);
}

#[test]
fn rrt_012_every_attempt_is_counted_for_streams_too() {
    let all = recorded(async {
        let script = Script::new([ScriptStep::later(503, "0"), ScriptStep::ok(), ScriptStep::code(200)]);
        get(&script.client()).stream().await.unwrap();
        get(&script.client()).watch::<()>(&pods()).await.unwrap();
    });
    assert_eq!(all["rest_client_requests_total{code=503,method=GET,host=api.example:6443}"], [1.0]);
    assert_eq!(all["rest_client_requests_total{code=200,method=GET,host=api.example:6443}"], [2.0]);
    assert!(!all.contains_key("rest_client_request_duration_seconds{verb=GET,host=api.example:6443}"));
}

#[test]
fn mt_004_a_redirect_is_no_retry() {
    let all = recorded(async {
        let script = Script::new([ScriptStep::code(302).header("location", "/there")]);
        let client = script.client_with(|config| config.redirects = crate::config::Redirects::SameOrigin);
        get(&client).send().await.unwrap();
    });
    assert_eq!(all["rest_client_requests_total{code=302,method=GET,host=api.example:6443}"], [1.0]);
    assert_eq!(all["rest_client_requests_total{code=200,method=GET,host=api.example:6443}"], [1.0]);
    assert!(!all.keys().any(|key| key.starts_with("rest_client_request_retries_total")));
}

#[test]
fn mt_002_requests_and_waits_are_measured() {
    let all = recorded(async {
        let script =
            Script::new([ScriptStep::later(429, "0"), ScriptStep::Fail(TransportFault::Closed), ScriptStep::ok()]);
        let client = script.client_with(|config| config.throttle = Some(Throttle { qps: 1.0, burst: 2 }));
        get(&client).send().await.unwrap();
    });
    let took = &all["rest_client_request_duration_seconds{verb=GET,host=api.example:6443}"];
    assert_eq!(took.len(), 1);
    assert!((1.0..1.1).contains(&took[0]), "{took:?}");
    let waited = &all["rest_client_rate_limiter_duration_seconds{verb=GET,host=api.example:6443}"];
    assert_eq!(waited.len(), 3, "one per attempt: {waited:?}");
    assert_eq!(
        super::super::metrics::LATENCY_BUCKETS,
        [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0]
    );
}

#[test]
fn mt_003_bodies_are_measured() {
    let all = recorded(async {
        let list = r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}"#;
        let script = Script::new([ScriptStep::code(201).body("12345"), ScriptStep::ok().body(list)]);
        let client = script.client();
        client.request(Method::POST, Path::raw("/things")).body("123", "text/plain").send().await.unwrap();
        get(&client).list::<()>(&pods()).await.unwrap();
    });
    assert_eq!(all["rest_client_request_size_bytes{verb=POST,host=api.example:6443}"], [3.0]);
    assert_eq!(all["rest_client_response_size_bytes{verb=POST,host=api.example:6443}"], [5.0]);
    assert_eq!(all["rest_client_response_size_bytes{verb=GET,host=api.example:6443}"], [61.0]);
    assert!(!all.contains_key("rest_client_request_size_bytes{verb=GET,host=api.example:6443}"));
    assert_eq!(super::super::metrics::SIZE_BUCKETS.len(), 11);
}

#[test]
fn mt_007_the_resolution_of_names_is_timed() {
    // Better than client-go, which defines this metric and never registers it.
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    ::metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let connections = crate::config::Connections::default();
            crate::transport::connect::tcp_connect("localhost", port, &connections).await.unwrap();
        });
    });
    let all = snapshotter.snapshot().into_vec();
    let found = all.iter().find(|(key, ..)| key.key().name() == super::super::metrics::DNS).expect("the metric");
    let labels: Vec<_> = found.0.key().labels().map(|label| (label.key(), label.value())).collect();
    assert_eq!(labels, [("host", "localhost")]);
    assert!(matches!(&found.3, DebugValue::Histogram(values) if values.len() == 1));
    assert_eq!(super::super::metrics::DNS_BUCKETS[..], super::super::metrics::LATENCY_BUCKETS[..11]);
}

#[test]
fn mt_001_metrics_describe_themselves() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    ::metrics::with_local_recorder(&recorder, || {
        super::super::metrics::describe();
        ::metrics::counter!(super::super::metrics::REQUESTS).increment(0);
    });
    let described = snapshotter.snapshot().into_vec();
    let (key, unit, description, _) = &described[0];
    assert_eq!(key.key().name(), "rest_client_requests_total");
    assert_eq!(*unit, Some(::metrics::Unit::Count));
    assert!(description.as_ref().is_some_and(|text| text.contains("code, method and host")));
}

#[test]
fn sec_5_no_label_has_a_name_or_a_value_of_a_request() {
    let all = recorded(async {
        let script = Script::new([]);
        let info = pods();
        let client = script.client();
        let path = Path::resource(&info).namespace("hunter2").name("hunter2");
        client.request(Method::GET, path).query("token", "hunter2").send().await.unwrap();
    });
    assert!(!all.is_empty());
    assert!(all.keys().all(|key| !key.contains("hunter2")));
}

#[test]
fn sec_84_late_responses_and_waits_before_retries_are_counted_while_they_last() {
    let key = |name: &str| format!("{name}{{verb=GET,host=api.example:6443}}");
    let all = recorded(async {
        let client = Script::always(ScriptStep::Hang).client();
        let request = get(&client);
        let late = tokio::time::timeout(Duration::from_secs(35), request.send());
        assert!(late.await.is_err());
    });
    assert_eq!(all.get(&key("rest_client_late_responses_total")), Some(&vec![2.0]), "after 10 s and 30 s");
    let all = recorded(async {
        let client = Script::new([ScriptStep::later(429, "86400")]).client();
        let request = get(&client);
        let waiting = tokio::time::timeout(Duration::from_secs(5), request.send());
        assert!(waiting.await.is_err());
    });
    assert_eq!(all.get(&key("rest_client_retry_wait_duration_seconds")), Some(&vec![60.0]), "a day is cut to a minute");
}
