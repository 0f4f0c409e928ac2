use http::Method;
use serde_json::{Value, json};

use super::*;
use crate::engine::Settings;
use crate::env::Env;
use crate::http_types::ApiRequest;

/// A clock that stands still.
struct FixedEnv;

impl Env for FixedEnv {
    fn wall(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn random(&self) -> u64 {
        7
    }
}

struct Fixture(Arc<ApiEngine>);

impl Fixture {
    fn new() -> Self {
        Fixture(ApiEngine::new(Settings::default(), Arc::new(FixedEnv)))
    }

    fn send(&self, method: &str, path: &str, body: &Value, may_take_long: bool) -> HandlerOutcome {
        let mut headers = http::HeaderMap::new();
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        headers.insert("content-type", media.parse().unwrap());
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Arc::new(ApiRequest {
            method: method.parse::<Method>().unwrap(),
            uri: path.parse().unwrap(),
            headers,
            body: body.into(),
            user: Default::default(),
            state: Default::default(),
        });
        self.0.dispatch(&request, HandlerCall { waited: false, may_take_long })
    }

    fn is_expensive(&self, method: &str, path: &str, body: &Value) -> bool {
        matches!(self.send(method, path, body, false), HandlerOutcome::TakesLong)
    }

    fn create(&self, path: &str, object: &Value) {
        match self.send("POST", path, object, true) {
            HandlerOutcome::Response(response) => assert_eq!(response.status(), 201, "{path}"),
            _ => panic!("no response to a create"),
        }
    }
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str, size: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": "x".repeat(size)}})
}

#[test]
fn small_requests_run_in_place() {
    let engine = Fixture::new();
    assert!(!engine.is_expensive("POST", MAPS, &map("small", 100)));
    let one = format!("{MAPS}/small");
    for (method, path, body) in [
        ("GET", one.as_str(), Value::Null),
        ("GET", MAPS, Value::Null),
        ("GET", "/version", Value::Null),
        ("PATCH", one.as_str(), json!({"data": {"key": "new"}})),
        ("PUT", one.as_str(), map("small", 200)),
        ("DELETE", MAPS, Value::Null),
    ] {
        assert!(!engine.is_expensive(method, path, &body), "{method} {path}");
    }
    assert!(!engine.is_expensive("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "new"}})));
}

#[test]
fn large_bodies_and_objects_are_expensive() {
    let engine = Fixture::new();
    assert!(engine.is_expensive("POST", MAPS, &map("large", LARGE_OBJECT)));
    engine.create(MAPS, &map("large", LARGE_OBJECT));
    let one = format!("{MAPS}/large");
    assert!(engine.is_expensive("GET", &one, &Value::Null));
    assert!(!engine.is_expensive("GET", MAPS, &Value::Null));
    engine.create(MAPS, &map("larger", LARGE_COLLECTION_BYTES));
    assert!(engine.is_expensive("GET", MAPS, &Value::Null));
    assert!(engine.is_expensive("PATCH", &one, &json!({"data": {"other": "small"}})));
}

#[test]
fn work_on_many_objects_is_expensive() {
    let engine = Fixture::new();
    assert!(engine.is_expensive("DELETE", "/api/v1/namespaces/default", &Value::Null));
    for number in 0..=LARGE_DELETION {
        engine.create(MAPS, &map(&format!("map-{number}"), 1));
    }
    assert!(engine.is_expensive("DELETE", MAPS, &Value::Null));
    assert!(!engine.is_expensive("GET", MAPS, &Value::Null));
    for number in 0..=LARGE_COLLECTION {
        engine.create(MAPS, &map(&format!("more-{number}"), 1));
    }
    assert!(engine.is_expensive("GET", MAPS, &Value::Null));
    assert!(engine.is_expensive("GET", &format!("{MAPS}?watch=1"), &Value::Null));
    assert!(!engine.is_expensive("GET", &format!("{MAPS}?watch=1&resourceVersion=9"), &Value::Null));
}

#[test]
fn requests_that_wait_for_a_lock_are_expensive() {
    let engine = Fixture::new();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
                         "spec": {"ports": [{"port": 80}]}});
    assert!(engine.is_expensive("POST", "/api/v1/namespaces/default/services", &service));
    engine.create("/api/v1/namespaces", &json!({"metadata": {"name": "leaving"}}));
    let held = "/api/v1/namespaces/leaving/configmaps";
    let mut object = map("held", 1);
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    engine.create(held, &object);
    engine.send("DELETE", "/api/v1/namespaces/leaving", &Value::Null, true);
    let release = json!({"metadata": {"finalizers": null}});
    assert!(engine.is_expensive("PATCH", &format!("{held}/held"), &release), "it removes the namespace");
}

#[test]
fn custom_resources_with_slow_writes_are_expensive_until_they_are_fast_again() {
    let slow = SlowResources::default();
    let widgets: Arc<str> = "widgets.example.com".into();
    slow.record(&widgets, Duration::from_millis(2));
    assert!(!slow.contains(&widgets));
    slow.record(&widgets, SLOW);
    assert!(slow.contains(&widgets));
    slow.record(&widgets, Duration::from_millis(2));
    assert!(slow.contains(&widgets), "neither slow nor fast");
    slow.record(&widgets, Duration::from_micros(900));
    assert!(!slow.contains(&widgets));
    for number in 0..MAX_SLOW * 2 {
        slow.record(&format!("{number}.example.com").into(), SLOW);
    }
    assert!(slow.0.read().unwrap().len() <= MAX_SLOW);
}
