//! A server in this process, and a client with which tests read like sentences.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use evenkeel_apiserver::{ApiServer, Body, Builder, Env, Faults, InProcess};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use proptest::test_runner::{Config as ProptestConfig, RngSeed};
use serde_json::{Value, json};
use tokio::time::Instant;
use tower_service::Service;

use crate::wire;

/// The Accept headers of a metadata client in JSON, for a list and for everything else.
pub(crate) const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
pub(crate) const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// The Accept header of kubectl for a list.
pub(crate) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,\
     application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// Both clocks follow tokio's, and chance is a counter: every run is the same.
struct VirtualWorld {
    start: Instant,
    chance: AtomicU64,
}

impl Env for VirtualWorld {
    fn wall(&self) -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap() + self.start.elapsed()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn random(&self) -> u64 {
        evenkeel_base::hash::spread(self.chance.fetch_add(1, Ordering::Relaxed))
    }
}

/// A server and its administrator.
pub(crate) struct Api {
    server: ApiServer,
}

/// A buffered response.
#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) code: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Value,
}

impl TestResponse {
    /// Returns the body of a response that must be a success.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!((200..300).contains(&self.code), "{} {}", self.code, self.body);
        self.body
    }

    /// Returns the message of a response that must have this code.
    #[track_caller]
    pub(crate) fn refused(self, code: u16) -> String {
        assert_eq!(self.code, code, "{}", self.body);
        assert_eq!(self.body["kind"], "Status", "{}", self.body);
        assert_eq!(self.body["code"], code, "{}", self.body);
        self.body["message"].as_str().unwrap_or_default().to_owned()
    }
}

impl Api {
    pub(crate) async fn start() -> Self {
        Self::with(|builder| builder).await
    }

    /// A server with other settings than the usual ones.
    pub(crate) async fn with(change: impl FnOnce(Builder) -> Builder) -> Self {
        let world = VirtualWorld { start: Instant::now(), chance: AtomicU64::new(1) };
        let builder = ApiServer::builder().in_process_only().env(world);
        Api { server: change(builder).start().await.unwrap() }
    }

    pub(crate) fn service(&self) -> InProcess {
        self.server.service()
    }

    pub(crate) fn faults(&self) -> &Faults {
        self.server.faults()
    }

    pub(crate) async fn shutdown(self) {
        self.server.shutdown().await;
    }

    /// Sends a request and returns when the headers have arrived.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        self.server.service().call(request).await.unwrap()
    }

    pub(crate) async fn http_types(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> TestResponse {
        let (head, body) = self.send(method, path, headers, body).await.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = match head.headers.get("content-type") {
            Some(media) if media == wire::PROTOBUF => wire::object(&bytes),
            _ => serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        };
        TestResponse { code: head.status.as_u16(), headers: head.headers, body }
    }

    pub(crate) async fn get(&self, path: &str) -> TestResponse {
        self.http_types("GET", path, &[], None).await
    }

    pub(crate) async fn get_as(&self, accept: &str, path: &str) -> TestResponse {
        self.http_types("GET", path, &[("accept", accept)], None).await
    }

    /// A list that must be there.
    pub(crate) async fn list(&self, path: &str) -> List {
        List(self.get(path).await.ok())
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> TestResponse {
        self.http_types("POST", path, &[("content-type", "application/json")], Some(&body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> TestResponse {
        self.http_types("PUT", path, &[("content-type", "application/json")], Some(&body)).await
    }

    /// Sends a merge patch.
    pub(crate) async fn patch(&self, path: &str, body: Value) -> TestResponse {
        self.http_types("PATCH", path, &[("content-type", "application/merge-patch+json")], Some(&body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> TestResponse {
        self.http_types("DELETE", path, &[], None).await
    }

    /// Creates a ConfigMap in the default namespace and returns its resource version.
    pub(crate) async fn add(&self, name: &str, labels: Value) -> u64 {
        self.add_to("default", name, labels).await
    }

    pub(crate) async fn add_to(&self, namespace: &str, name: &str, labels: Value) -> u64 {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        version(&self.post(&path, config_map(name, labels)).await.ok())
    }

    /// Changes a ConfigMap of the default namespace and returns its resource version.
    pub(crate) async fn touch(&self, name: &str, data: &str) -> u64 {
        version(&self.patch(&format!("{CONFIG_MAPS}/{name}"), json!({"data": {"k": data}})).await.ok())
    }

    /// Deletes a ConfigMap of the default namespace.
    pub(crate) async fn remove(&self, name: &str) {
        self.delete(&format!("{CONFIG_MAPS}/{name}")).await.ok();
    }

    pub(crate) async fn add_namespace(&self, name: &str) {
        let namespace = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}});
        self.post("/api/v1/namespaces", namespace).await.ok();
    }

    /// The resource version of the present.
    pub(crate) async fn now(&self) -> u64 {
        self.list("/api/v1/nodes").await.version()
    }

    /// Opens a watch that must be accepted. `path` has no `watch` parameter yet.
    pub(crate) async fn watch(&self, path: &str) -> Watch {
        self.watch_as("application/json", path).await
    }

    pub(crate) async fn watch_as(&self, accept: &str, path: &str) -> Watch {
        let response = self.send("GET", &watching(path), &[("accept", accept)], None).await;
        assert_eq!(response.status(), 200);
        let media = response.headers()["content-type"].clone();
        let wanted = if accept.contains(wire::PROTOBUF) { wire::PROTOBUF_STREAM } else { "application/json" };
        assert_eq!(media, wanted);
        Watch { binary: wanted == wire::PROTOBUF_STREAM, ..Watch::new(response.into_body()) }
    }

    /// Returns the response to a watch that is refused.
    pub(crate) async fn refused_watch(&self, path: &str) -> TestResponse {
        let response = self.get(&watching(path)).await;
        assert_ne!(response.code, 200, "{}", response.body);
        response
    }
}

fn watching(path: &str) -> String {
    let separator = if path.contains('?') { '&' } else { '?' };
    format!("{path}{separator}watch=true")
}

/// The response of a list.
#[derive(Clone, Debug)]
pub(crate) struct List(pub(crate) Value);

impl List {
    pub(crate) fn names(&self) -> Vec<&str> {
        self.0["items"].as_array().unwrap().iter().map(name).collect()
    }

    pub(crate) fn version(&self) -> u64 {
        version(&self.0)
    }

    /// The token of the next page; empty if this is the last.
    pub(crate) fn next(&self) -> &str {
        self.0["metadata"]["continue"].as_str().unwrap_or_default()
    }

    pub(crate) fn remaining(&self) -> Option<u64> {
        self.0["metadata"]["remainingItemCount"].as_u64()
    }
}

pub(crate) fn config_map(name: &str, labels: Value) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "labels": labels}})
}

pub(crate) fn pod(name: &str) -> Value {
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "labels": {"app": "web"}},
           "spec": {"containers": [{"name": "c", "image": "nginx"}]}})
}

/// A definition of `Widget` in `example.com`, namespaced, in the versions `v1` (stored) and `v2`.
pub(crate) fn widget_definition() -> Value {
    let version = |name: &str, stored: bool| {
        json!({"name": name, "served": true, "storage": stored,
               "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                   "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}},
               "selectableFields": [{"jsonPath": ".spec.color"}],
               "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                   "spec": {"type": "object", "properties": {
                       "color": {"type": "string"}, "replicas": {"type": "integer"}}},
                   "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}})
    };
    json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
           "metadata": {"name": "widgets.example.com"},
           "spec": {"group": "example.com", "scope": "Namespaced",
                    "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
                    "versions": [version("v1", true), version("v2", false)]}})
}

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

pub(crate) fn widget(name: &str, spec: Value) -> Value {
    json!({"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": name}, "spec": spec})
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub(crate) fn generation(object: &Value) -> Option<u64> {
    object["metadata"]["generation"].as_u64()
}

pub(crate) fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// An open watch.
pub(crate) struct Watch {
    body: Body,
    /// Events are protobuf messages, not lines.
    binary: bool,
    /// The received part of an incomplete event.
    rest: BytesMut,
    events: VecDeque<Event>,
    ended: bool,
}

impl Watch {
    pub(crate) fn new(body: Body) -> Self {
        Watch { body, binary: false, rest: BytesMut::new(), events: VecDeque::new(), ended: false }
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        while self.binary
            && let Some(frame) = wire::take_frame(&mut self.rest)
        {
            let (kind, object) = wire::event(&frame);
            self.events.push_back(Event { kind, object });
        }
        while !self.binary
            && let Some(end) = self.rest.iter().position(|byte| *byte == b'\n')
        {
            self.events.push_back(Event::read(&self.rest.split_to(end + 1)));
        }
    }

    /// Waits for the next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        while self.events.is_empty() && !self.ended {
            match self.body.frame().await {
                Some(frame) => self.feed(&frame.unwrap().into_data().unwrap()),
                None => self.ended = true,
            }
        }
        self.events.pop_front()
    }

    /// The next event that is there already.
    pub(crate) fn ready(&mut self) -> Option<Event> {
        let mut context = Context::from_waker(Waker::noop());
        while self.events.is_empty() && !self.ended {
            let mut frame = std::pin::pin!(self.body.frame());
            match frame.as_mut().poll(&mut context) {
                Poll::Pending => return None,
                Poll::Ready(None) => self.ended = true,
                Poll::Ready(Some(frame)) => self.feed(&frame.unwrap().into_data().unwrap()),
            }
        }
        self.events.pop_front()
    }

    /// Every event that is there already, as `TYPE name`.
    pub(crate) fn all_ready(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.ready()).map(|event| event.to_string()).collect()
    }

    /// The next frame of the body, as it is.
    pub(crate) async fn frame(&mut self) -> Bytes {
        self.body.frame().await.unwrap().unwrap().into_data().unwrap()
    }

    /// Nothing is to be read, and the watch is open.
    #[track_caller]
    pub(crate) fn is_silent(&mut self) -> bool {
        self.ready().is_none() && !self.ended
    }

    /// The watch has ended, with nothing left to read.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.ready().is_none() && self.ended
    }
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) kind: String,
    pub(crate) object: Value,
}

impl Event {
    fn read(line: &[u8]) -> Self {
        let Value::Object(mut event) = serde_json::from_slice(line).unwrap() else { panic!("an event is an object") };
        assert_eq!(event.len(), 2, "an event is a type and an object: {event:?}");
        let Some(Value::String(kind)) = event.remove("type") else { panic!("an event has a type") };
        Event { kind, object: event.remove("object").unwrap() }
    }

    pub(crate) fn version(&self) -> u64 {
        version(&self.object)
    }

    pub(crate) fn name(&self) -> &str {
        name(&self.object)
    }

    pub(crate) fn ends_initial_events(&self) -> bool {
        self.kind == "BOOKMARK"
            && self.object["metadata"]["annotations"]["k8s.io/initial-events-end"].as_str() == Some("true")
    }
}

/// `ADDED a`; a bookmark is `BOOKMARK`.
impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            "" => f.write_str(&self.kind),
            name => write!(f, "{} {name}", self.kind),
        }
    }
}

/// Lets this much virtual time pass.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// This many cases, the same ones in every run.
pub(crate) fn repeatable(cases: u32) -> ProptestConfig {
    let rng_seed = RngSeed::Fixed(0x5eed);
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}
