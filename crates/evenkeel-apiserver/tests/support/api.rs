//! The server without a socket, for tests that read like sentences: a method and a path in, an answer out.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, Body, Builder, Env, InProcess};
use http::{HeaderMap, Request};
use http_body::Body as _;
use http_body_util::{BodyExt, Full};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tower_service::Service;

pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// When every test begins: 2030-01-01T00:00:00Z.
pub(crate) const START: i64 = 1_893_456_000;

/// Time that passes with tokio's clock from [`START`], and numbers that are said beforehand.
#[derive(Clone)]
pub(crate) struct TestEnv {
    start: tokio::time::Instant,
    chance: Arc<Mutex<Chance>>,
}

#[derive(Default)]
struct Chance {
    said: VecDeque<u64>,
    counting: bool,
    last: u64,
}

impl TestEnv {
    /// Every number is another.
    pub(crate) fn new() -> Self {
        let chance = Arc::new(Mutex::new(Chance { counting: true, ..Chance::default() }));
        TestEnv { start: tokio::time::Instant::now(), chance }
    }

    /// Every number is zero, unless [`TestEnv::say`] says otherwise.
    pub(crate) fn without_chance() -> Self {
        TestEnv { start: tokio::time::Instant::now(), chance: Arc::default() }
    }

    /// The next numbers.
    pub(crate) fn say(&self, numbers: impl IntoIterator<Item = u64>) {
        self.chance.lock().unwrap().said.extend(numbers);
    }
}

impl Env for TestEnv {
    fn wall(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.start.elapsed()).unwrap();
        Timestamp::from_second(START).unwrap().checked_add(passed).unwrap()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn random(&self) -> u64 {
        let mut chance = self.chance.lock().unwrap();
        if let Some(number) = chance.said.pop_front() {
            return number;
        }
        if chance.counting {
            chance.last = chance.last.wrapping_add(0x9e37_79b9_7f4a_7c15);
        }
        chance.last
    }
}

/// A server and the way to speak to it.
pub(crate) struct Api {
    pub(crate) server: ApiServer,
    service: InProcess,
}

/// A way to speak to a server that can go to another task.
#[derive(Clone)]
pub(crate) struct Handle(InProcess);

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    /// Null if the text is no JSON.
    pub(crate) body: Value,
}

impl Answer {
    /// The body, of an answer with this code.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.body
    }

    /// The message of a Status with this code and reason.
    #[track_caller]
    pub(crate) fn refusal(&self, status: u16, reason: &str) -> &str {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.body["kind"], "Status", "{}", self.text);
        assert_eq!(self.body["status"], "Failure", "{}", self.text);
        assert_eq!(self.body["code"], status, "{}", self.text);
        assert_eq!(self.body["reason"].as_str().unwrap_or_default(), reason, "{}", self.text);
        self.body["message"].as_str().unwrap()
    }

    pub(crate) fn warnings(&self) -> Vec<&str> {
        self.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

impl Api {
    /// A server with nothing special, at [`START`].
    pub(crate) async fn start() -> Self {
        Self::with(ApiServer::builder().env(TestEnv::new())).await
    }

    pub(crate) async fn with(builder: Builder) -> Self {
        let server = builder.in_process_only().start().await.unwrap();
        let service = server.service();
        Api { server, service }
    }

    pub(crate) fn handle(&self) -> Handle {
        Handle(self.service.clone())
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        self.handle().send(method, path, headers, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.handle().get(path).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[], body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.handle().put(path, body).await
    }

    /// A merge patch.
    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Answer {
        self.send("PATCH", path, &[("content-type", MERGE)], body.to_string()).await
    }

    /// A strategic merge patch.
    pub(crate) async fn strategic(&self, path: &str, body: &Value) -> Answer {
        self.send("PATCH", path, &[("content-type", STRATEGIC)], body.to_string()).await
    }

    /// A server-side apply; the path says who applies.
    pub(crate) async fn apply(&self, path: &str, intent: &Value) -> Answer {
        self.send("PATCH", path, &[("content-type", APPLY)], intent.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], "").await
    }

    /// A delete with options in its body.
    pub(crate) async fn delete_with(&self, path: &str, options: &Value) -> Answer {
        self.send("DELETE", path, &[], options.to_string()).await
    }

    /// The revision at which a collection is now.
    pub(crate) async fn revision(&self, path: &str) -> u64 {
        let list = self.get(path).await.expect(200);
        list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    }

    /// A watch of what happens in a collection from now on.
    pub(crate) async fn watch(&self, path: &str) -> Watch {
        let revision = self.revision(path).await;
        let uri = format!("{path}?watch=true&resourceVersion={revision}");
        let request = Request::builder().uri(uri).body(Full::new(Bytes::new())).unwrap();
        let response = self.service.clone().call(request).await.unwrap();
        assert_eq!(response.status(), 200);
        Watch { body: response.into_body() }
    }
}

impl Handle {
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        let response = self.0.clone().call(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Answer { status: parts.status.as_u16(), headers: parts.headers, text, body }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send("PUT", path, &[], body.to_string()).await
    }
}

/// An open watch.
pub(crate) struct Watch {
    body: Body,
}

impl Watch {
    /// The events that are there, without waiting for more.
    pub(crate) fn events(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(frame)) = Pin::new(&mut self.body).poll_frame(&mut context) {
            let frame = frame.unwrap().into_data().unwrap();
            let lines = frame.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            events.extend(lines.map(|line| serde_json::from_slice::<Value>(line).unwrap()));
        }
        events
    }

    /// The types of the events that are there, such as `ADDED MODIFIED`.
    pub(crate) fn types(&mut self) -> String {
        let events = self.events();
        let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        types.join(" ")
    }
}

/// The resource version of an object, as a number.
#[track_caller]
pub(crate) fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}
