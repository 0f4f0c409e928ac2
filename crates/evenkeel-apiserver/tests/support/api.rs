//! An in-process server for tests: a method and a path in, a response out.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, Body, Builder, Env, InProcess, User};
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

/// The start time of every test: 2030-01-01T00:00:00Z.
pub(crate) const START: i64 = 1_893_456_000;

/// Time that follows tokio's clock from [`START`], and random numbers that a test may set.
#[derive(Clone)]
pub(crate) struct TestEnv {
    start: tokio::time::Instant,
    random: Arc<Mutex<RandomNumbers>>,
}

#[derive(Default)]
struct RandomNumbers {
    next: VecDeque<u64>,
    counting: bool,
    last: u64,
}

impl TestEnv {
    /// Returns an environment in which every random number differs.
    pub(crate) fn new() -> Self {
        let random = Arc::new(Mutex::new(RandomNumbers { counting: true, ..RandomNumbers::default() }));
        TestEnv { start: tokio::time::Instant::now(), random }
    }

    /// Returns an environment in which every random number is zero unless [`TestEnv::set_random`] sets it.
    pub(crate) fn with_zeros() -> Self {
        TestEnv { start: tokio::time::Instant::now(), random: Arc::default() }
    }

    /// Sets the next random numbers.
    pub(crate) fn set_random(&self, numbers: impl IntoIterator<Item = u64>) {
        self.random.lock().unwrap().next.extend(numbers);
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
        let mut random = self.random.lock().unwrap();
        if let Some(number) = random.next.pop_front() {
            return number;
        }
        if random.counting {
            random.last = random.last.wrapping_add(evenkeel_base::hash::GOLDEN_RATIO);
        }
        random.last
    }
}

/// A server and an in-process service of it.
pub(crate) struct Api {
    pub(crate) server: ApiServer,
    service: InProcess,
}

/// A cloneable handle for other tasks.
#[derive(Clone)]
pub(crate) struct Handle(InProcess);

/// A buffered response.
#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    /// Null if the text is not JSON.
    pub(crate) body: Value,
}

impl TestResponse {
    /// Returns the body of a response that must have this code.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.body
    }

    /// Returns the message of a Status that must have this code and reason.
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
    /// Starts a server with default settings at [`START`].
    pub(crate) async fn start() -> Self {
        Self::with(ApiServer::builder().env(TestEnv::new())).await
    }

    pub(crate) async fn with(builder: Builder) -> Self {
        Self::listening(builder.in_process_only()).await
    }

    /// Starts a server with the listener of the builder.
    pub(crate) async fn listening(builder: Builder) -> Self {
        let server = builder.start().await.unwrap();
        let service = server.service();
        Api { server, service }
    }

    /// Returns a handle for requests of another user.
    pub(crate) fn acting_as(&self, name: &str, groups: &[&str]) -> Handle {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Handle(self.service.acting_as(User { name: name.to_owned(), groups, ..User::default() }))
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
    ) -> TestResponse {
        self.handle().send(method, path, headers, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> TestResponse {
        self.handle().get(path).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> TestResponse {
        self.send("POST", path, &[], body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> TestResponse {
        self.handle().put(path, body).await
    }

    /// Sends a merge patch.
    pub(crate) async fn patch(&self, path: &str, body: &Value) -> TestResponse {
        self.send("PATCH", path, &[("content-type", MERGE)], body.to_string()).await
    }

    /// Sends a strategic merge patch.
    pub(crate) async fn strategic(&self, path: &str, body: &Value) -> TestResponse {
        self.send("PATCH", path, &[("content-type", STRATEGIC)], body.to_string()).await
    }

    /// Sends a server-side apply; the path names the field manager.
    pub(crate) async fn apply(&self, path: &str, intent: &Value) -> TestResponse {
        self.send("PATCH", path, &[("content-type", APPLY)], intent.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> TestResponse {
        self.send("DELETE", path, &[], "").await
    }

    /// Sends a delete with options in its body.
    pub(crate) async fn delete_with(&self, path: &str, options: &Value) -> TestResponse {
        self.send("DELETE", path, &[], options.to_string()).await
    }

    /// Returns the current revision of a collection.
    pub(crate) async fn revision(&self, path: &str) -> u64 {
        let list = self.get(path).await.expect(200);
        list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    }

    /// Opens a watch from the current revision of a collection.
    pub(crate) async fn watch(&self, path: &str) -> Watch {
        let revision = self.revision(path).await;
        let uri = format!("{path}?watch=true&resourceVersion={revision}");
        let request = Request::builder().uri(uri).body(Full::new(Bytes::new())).unwrap();
        let response = self.service.clone().call(request).await.unwrap();
        assert_eq!(response.status(), 200);
        Watch { body: response.into_body() }
    }
}

impl Api {
    /// Opens a watch that starts with the present objects.
    pub(crate) async fn watch_from_start(&self, path: &str) -> Watch {
        let request = Request::builder().uri(format!("{path}?watch=true")).body(Full::new(Bytes::new())).unwrap();
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
    ) -> TestResponse {
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
        TestResponse { status: parts.status.as_u16(), headers: parts.headers, text, body }
    }

    pub(crate) async fn get(&self, path: &str) -> TestResponse {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> TestResponse {
        self.send("PUT", path, &[], body.to_string()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> TestResponse {
        self.send("POST", path, &[], body.to_string()).await
    }

    /// Sends a merge patch.
    pub(crate) async fn patch(&self, path: &str, body: &Value) -> TestResponse {
        self.send("PATCH", path, &[("content-type", MERGE)], body.to_string()).await
    }

    /// Sends a server-side apply; the path names the field manager.
    pub(crate) async fn apply(&self, path: &str, intent: &Value) -> TestResponse {
        self.send("PATCH", path, &[("content-type", APPLY)], intent.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> TestResponse {
        self.send("DELETE", path, &[], "").await
    }
}

/// An open watch.
pub(crate) struct Watch {
    body: Body,
}

impl Watch {
    /// Returns the available events without waiting.
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

    /// Waits for the next frame and returns its events; none at the end.
    pub(crate) async fn next(&mut self) -> Vec<Value> {
        let Some(frame) = self.body.frame().await else { return Vec::new() };
        let frame = frame.unwrap().into_data().unwrap();
        let lines = frame.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice::<Value>(line).unwrap()).collect()
    }

    /// Returns the types of the available events, such as `ADDED MODIFIED`.
    pub(crate) fn types(&mut self) -> String {
        let events = self.events();
        let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        types.join(" ")
    }
}

/// Returns the resource version of an object as a number.
#[track_caller]
pub(crate) fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}
