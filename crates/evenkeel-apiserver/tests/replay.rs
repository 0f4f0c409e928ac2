//! The same requests, clock and seed give the same responses to the byte.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, Env};
use http::Request;
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use serde_json::{Value, json};
use tower_service::Service;

/// An environment with a manual clock and a seeded random generator.
#[derive(Clone)]
struct Script(Arc<(AtomicU64, AtomicU64)>);

impl Script {
    fn new(seed: u64) -> Self {
        Script(Arc::new((AtomicU64::new(0), AtomicU64::new(seed))))
    }

    fn pass(&self, seconds: u64) {
        self.0.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Env for Script {
    fn wall(&self) -> Timestamp {
        let seconds = i64::try_from(self.0.0.load(Ordering::SeqCst)).unwrap();
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0.0.load(Ordering::SeqCst))
    }

    fn random(&self) -> u64 {
        let step = self.0.1.fetch_add(evenkeel_base::hash::GOLDEN_RATIO, Ordering::SeqCst);
        let mixed = (step ^ (step >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 31)
    }
}

/// Requests of every kind: method, path, media type, body. `{token}` is the continue token of the last list.
fn tape() -> Vec<(&'static str, String, &'static str, String)> {
    let json = "application/json";
    let merge = "application/merge-patch+json";
    let mut tape = Vec::new();
    let mut add = |method, path: &str, media, body: Value| {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        tape.push((method, path.to_owned(), media, body));
    };
    let maps = "/api/v1/namespaces/default/configmaps";
    let pods = "/api/v1/namespaces/default/pods";
    let foos = "/apis/example.com/v1/namespaces/default/foos";
    for _ in 0..4 {
        add("POST", maps, json, json!({"metadata": {"generateName": "made-"}, "data": {"a": "b"}}));
    }
    add("POST", maps, json, json!({"metadata": {"name": "one", "labels": {"a": "b"}}}));
    add("POST", maps, json, json!({"metadata": {"name": "one"}}));
    add("POST", maps, json, json!({"metadata": {"name": "Not Valid"}}));
    add("PATCH", &format!("{maps}/one"), merge, json!({"data": {"x": "y"}}));
    add("PATCH", &format!("{maps}/one"), "application/json-patch+json", json!([{"op": "remove", "path": "/data/x"}]));
    add("PATCH", &format!("{maps}/one"), "application/apply-patch+yaml", json!({}));
    add("GET", &format!("{maps}?limit=2"), "", Value::Null);
    add("GET", &format!("{maps}?limit=2&continue={{token}}"), "", Value::Null);
    add("GET", &format!("{maps}?labelSelector=a%3Db"), "", Value::Null);
    let container = json!({"name": "c", "image": "nginx"});
    add("POST", pods, json, json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [container]}}));
    add("DELETE", &format!("{pods}/p"), json, json!({"gracePeriodSeconds": 5}));
    add("GET", &format!("{pods}/p"), "", Value::Null);
    add("DELETE", &format!("{pods}/p"), json, json!({"gracePeriodSeconds": 0}));
    add(
        "POST",
        "/api/v1/namespaces/default/services",
        json,
        json!({
        "metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}),
    );
    add(
        "POST",
        "/apis/apps/v1/namespaces/default/deployments",
        json,
        json!({"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}}}),
    );
    add(
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        json,
        json!({
        "metadata": {"name": "foos.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"}, "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}),
    );
    add("POST", foos, json, json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"generateName": "f-"}}));
    for path in
        ["/apis", "/api/v1", "/apis/example.com/v1", "/openapi/v3", "/openapi/v3/apis/example.com/v1", "/version"]
    {
        add("GET", path, "", Value::Null);
    }
    add("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos.example.com", "", Value::Null);
    add("POST", "/api/v1/namespaces", json, json!({"metadata": {"name": "two"}}));
    add(
        "POST",
        "/api/v1/namespaces/two/secrets",
        json,
        json!({"metadata": {"generateName": "s-"}, "stringData": {"a": "b"}}),
    );
    add("DELETE", "/api/v1/namespaces/two", "", Value::Null);
    add("DELETE", &format!("{maps}?labelSelector=a"), "", Value::Null);
    add("GET", &format!("{maps}/one"), "", Value::Null);
    tape
}

/// Plays the tape on a new server and returns all its responses.
async fn play(seed: u64) -> Vec<String> {
    let script = Script::new(seed);
    let server = ApiServer::builder().in_process_only().env(script.clone()).start().await.unwrap();
    let mut service = server.service();
    let mut send = async |method: &str, path: &str, media: &str, accept: &str, body: String| {
        let mut request = Request::builder().method(method).uri(path).header("user-agent", "tape/1");
        for (name, value) in [("content-type", media), ("accept", accept)] {
            if !value.is_empty() {
                request = request.header(name, value);
            }
        }
        service.call(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap()
    };
    let watched = "/api/v1/namespaces/default/configmaps?watch=true&allowWatchBookmarks=true";
    let watch = send("GET", watched, "", "", String::new()).await;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let mut said = Vec::new();
    let mut token = String::new();
    for (method, path, media, body) in tape() {
        script.pass(1);
        let path = path.replace("{token}", &token);
        let forms: &[&str] = if method == "GET" { &["", table, "application/yaml"] } else { &[""] };
        for accept in forms {
            let response = send(method, &path, media, accept, body.clone()).await;
            let head = format!("{method} {path} {} {:?}", response.status(), response.headers());
            let text = String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
            if let Ok(value) = serde_json::from_str::<Value>(&text)
                && let Some(next) = value["metadata"]["continue"].as_str()
            {
                token = next.to_owned();
            }
            said.push(format!("{head}\n{text}"));
        }
    }
    // The watches of a dropped server end after the last event.
    drop(server);
    let events = watch.into_body().collect().await.unwrap().to_bytes();
    said.push(String::from_utf8(events.to_vec()).unwrap());
    said
}

#[tokio::test(start_paused = true)]
async fn arc_2_the_same_tape_gives_the_same_bytes() {
    let (first, second) = (play(7).await, play(7).await);
    for (one, other) in first.iter().zip(&second) {
        assert_eq!(one, other);
    }
    assert_eq!(first.len(), second.len());
    let all = first.join("\n");
    assert!(all.contains("\"generateName\":\"made-\""), "names were made");
    assert!(all.contains("audit-id"), "headers were compared");
    let changes = first.last().unwrap().lines().filter(|line| !line.contains("BOOKMARK"));
    assert_eq!(changes.count(), 8, "the watch saw the changes");

    let other = play(8).await;
    assert_ne!(first[0], other[0], "another seed gives other uids");
}
