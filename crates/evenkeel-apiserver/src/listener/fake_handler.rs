//! A handler that serves ConfigMaps and little else, enough to test the listener.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use evenkeel_core::{Reason, Status};
use http::{HeaderValue, Method, Response, StatusCode, header};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Handler;
use super::request_info::RequestInfo;
use crate::authorization::{AccessAttributes, AccessDecision, Forbidden};
use crate::faults::StoreControl;
use crate::http_types::{ApiRequest, Body, ConnectionCut, FrameStream, HandlerCall, HandlerOutcome, User};
use crate::logs::PodLogs;
use crate::metrics::{ServedResource, StoreFacts};
use crate::store::StoreStats;

#[derive(Default)]
pub(crate) struct FakeHandler(Arc<Mutex<FakeState>>, Arc<Gate>);

/// Holds the expensive requests to `/long` until it is opened.
#[derive(Default)]
pub(crate) struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
    /// How many requests have reached the gate.
    pub(crate) arrived: watch::Sender<usize>,
}

impl Gate {
    fn pass(&self) {
        self.arrived.send_modify(|arrived| *arrived += 1);
        let is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.opened.wait_while(is_open, |is_open| !*is_open));
    }

    pub(crate) fn open(&self) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }

    /// Waits until this many requests have reached the gate.
    pub(crate) async fn reached_by(&self, requests: usize) {
        let mut arrived = self.arrived.subscribe();
        arrived.wait_for(|arrived| *arrived >= requests).await.unwrap();
    }
}

#[derive(Default)]
struct FakeState {
    revision: u64,
    objects: BTreeMap<String, Value>,
    events: Vec<(u64, Bytes)>,
    compacted: u64,
    /// Incremented to end all watches.
    epoch: u64,
    wakers: Vec<Waker>,
    pub(crate) ticks: u64,
}

impl FakeHandler {
    fn lock(&self) -> MutexGuard<'_, FakeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.1
    }

    #[cfg(test)]
    pub(crate) fn ticks(&self) -> u64 {
        self.lock().ticks
    }

    #[cfg(test)]
    pub(crate) fn compacted(&self) -> u64 {
        self.lock().compacted
    }
}

impl FakeState {
    fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }

    fn record(&mut self, kind: &str, object: &mut Value) {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = Value::from(self.revision.to_string());
        let frame = frame(kind, object);
        self.events.push((self.revision, frame));
        self.wake();
    }

    fn write(&mut self, request: &ApiRequest, namespace: &str, name: &str) -> Result<(StatusCode, Value), Box<Status>> {
        let mut object: Value = serde_json::from_slice(&request.body)
            .map_err(|error| Box::new(Status::bad_request(format!("the body is not JSON: {error}"))))?;
        let given = object["metadata"]["name"].as_str().unwrap_or(name).to_owned();
        let key = format!("{namespace}/{given}");
        let exists = self.objects.contains_key(&key);
        let (kind, code) = match (request.method == Method::POST, exists) {
            (true, true) => return Err(Box::new(Status::already_exists("", "configmaps", &given))),
            (true, false) => ("ADDED", StatusCode::CREATED),
            (false, true) => ("MODIFIED", StatusCode::OK),
            (false, false) => return Err(Box::new(Status::not_found("", "configmaps", &given))),
        };
        object["kind"] = "ConfigMap".into();
        object["apiVersion"] = "v1".into();
        object["metadata"]["namespace"] = namespace.into();
        self.record(kind, &mut object);
        self.objects.insert(key, object.clone());
        Ok((code, object))
    }

    fn respond(
        &mut self,
        request: &ApiRequest,
        namespace: &str,
        name: &str,
    ) -> Result<(StatusCode, Value), Box<Status>> {
        let key = format!("{namespace}/{name}");
        let missing = || Box::new(Status::not_found("", "configmaps", name));
        match request.method {
            Method::GET if name.is_empty() => {
                let items: Vec<&Value> = self.objects.values().collect();
                let revision = self.revision.to_string();
                let list = json!({
                    "kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": revision}, "items": items,
                });
                Ok((StatusCode::OK, list))
            }
            Method::GET => Ok((StatusCode::OK, self.objects.get(&key).cloned().ok_or_else(missing)?)),
            Method::DELETE => {
                let mut object = self.objects.remove(&key).ok_or_else(missing)?;
                self.record("DELETED", &mut object);
                Ok((StatusCode::OK, serde_json::to_value(Status::success()).unwrap_or_default()))
            }
            Method::POST | Method::PUT => self.write(request, namespace, name),
            _ => Err(Box::new(Status::failure(405, Reason::METHOD_NOT_ALLOWED, "no such verb"))),
        }
    }
}

fn frame(kind: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n"))
}

fn parameter(request: &ApiRequest, name: &str) -> Option<u64> {
    let query = request.uri.query()?;
    let pair = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    pair.parse().ok()
}

/// A fixed time for the fake's logs, which stay empty.
struct FixedTime;

impl crate::env::Env for FixedTime {
    fn wall(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }

    fn monotonic(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }

    fn random(&self) -> u64 {
        0
    }
}

impl Handler for FakeHandler {
    fn handle(&self, request: &Arc<ApiRequest>, call: HandlerCall) -> HandlerOutcome {
        let path: Vec<&str> = request.uri.path().trim_matches('/').split('/').collect();
        if path == ["long"] {
            if !call.may_take_long {
                return HandlerOutcome::TakesLong;
            }
            self.1.pass();
            return HandlerOutcome::Response(Response::new(Body::whole("done")));
        }
        let mut state = self.lock();
        let revision = parameter(request, "resourceVersion").unwrap_or(0);
        let watch = request.uri.query().is_some_and(|query| query.contains("watch=1") || query.contains("watch=true"));
        let result = match path.as_slice() {
            ["readyz"] => return HandlerOutcome::Response(Response::new(Body::whole("ok"))),
            ["whoami"] => Ok((
                StatusCode::OK,
                json!({"name": request.user.name, "groups": request.user.groups, "size": request.body.len()}),
            )),
            ["large"] => Ok((StatusCode::OK, Value::from("x".repeat(300_000)))),
            ["frames"] => {
                let frames = Frames(Bytes::from(vec![b'x'; FRAME]), FRAMES);
                return HandlerOutcome::Response(Response::new(Body::stream(frames)));
            }
            ["api", "v1", "namespaces", _, "configmaps"] if watch => {
                drop(state);
                let stream = FakeWatch::open(Arc::clone(&self.0), revision);
                return HandlerOutcome::Response(json_response(StatusCode::OK, Body::stream(stream)));
            }
            ["api", "v1", "namespaces", _, "configmaps"] if revision > state.revision && !call.waited => {
                return HandlerOutcome::AwaitRevision { revision };
            }
            ["api", "v1", "namespaces", _, "configmaps"] if revision > state.revision => {
                Err(Box::new(Status::failure(504, Reason::TIMEOUT, "Timeout: Too large resource version")))
            }
            ["api", "v1", "namespaces", namespace, "configmaps"] => state.respond(request, namespace, ""),
            ["api", "v1", "namespaces", namespace, "configmaps", name] => state.respond(request, namespace, name),
            _ => Err(Box::new(Status::failure(
                404,
                Reason::NOT_FOUND,
                "the server could not find the requested resource",
            ))),
        };
        HandlerOutcome::Response(match result {
            Ok((code, value)) => json_response(code, Body::whole(value.to_string())),
            Err(status) => crate::negotiate::status_response(&status),
        })
    }

    fn authorize(&self, _: &AccessAttributes<'_>) -> AccessDecision {
        AccessDecision::UNLIMITED
    }

    fn authorize_request(&self, _: &User, _: &RequestInfo<'_>, _: Option<&str>) -> Result<String, Forbidden> {
        Ok(String::new())
    }

    fn poll_revision(&self, revision: u64, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.revision >= revision {
            return Poll::Ready(());
        }
        state.wakers.push(cx.waker().clone());
        Poll::Pending
    }

    fn tick(&self) {
        self.lock().ticks += 1;
    }

    fn served(&self, info: &RequestInfo<'_>) -> Option<ServedResource> {
        (info.resource == "configmaps").then_some(ServedResource { deprecated: false })
    }

    fn store_facts(&self) -> StoreFacts {
        StoreFacts::default()
    }

    fn stats(&self) -> StoreStats {
        StoreStats::default()
    }

    fn logs(&self) -> PodLogs {
        PodLogs::new(Arc::new(FixedTime))
    }

    fn user_of_token(&self, _: &[u8]) -> Option<User> {
        None
    }

    fn close_watches(&self) {
        let mut state = self.lock();
        state.epoch += 1;
        state.wake();
    }

    fn snapshot(&self) -> crate::engine::Snapshot {
        crate::engine::Snapshot::empty()
    }

    fn restore(&self, _: &crate::engine::Snapshot) {}
}

fn json_response(code: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A long body of many equal frames.
struct Frames(Bytes, usize);

pub(crate) const FRAME: usize = 64 * 1024;
pub(crate) const FRAMES: usize = 200;

impl FrameStream for Frames {
    fn poll_frame(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ConnectionCut>>> {
        let Some(left) = self.1.checked_sub(1) else {
            return Poll::Ready(None);
        };
        self.1 = left;
        Poll::Ready(Some(Ok(self.0.clone())))
    }
}

struct FakeWatch {
    state: Arc<Mutex<FakeState>>,
    initial: std::vec::IntoIter<Bytes>,
    after: u64,
    epoch: u64,
}

impl FakeWatch {
    fn open(state: Arc<Mutex<FakeState>>, revision: u64) -> Self {
        let (initial, after, epoch) = {
            let now = state.lock().unwrap_or_else(PoisonError::into_inner);
            match revision {
                0 => {
                    let initial: Vec<Bytes> = now.objects.values().map(|object| frame("ADDED", object)).collect();
                    (initial, now.revision, now.epoch)
                }
                revision => (Vec::new(), revision, now.epoch),
            }
        };
        FakeWatch { state, initial: initial.into_iter(), after, epoch }
    }
}

impl FrameStream for FakeWatch {
    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ConnectionCut>>> {
        let this = self.get_mut();
        if let Some(frame) = this.initial.next() {
            return Poll::Ready(Some(Ok(frame)));
        }
        let mut state = this.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((revision, frame)) = state.events.iter().find(|(revision, _)| *revision > this.after) {
            this.after = *revision;
            return Poll::Ready(Some(Ok(frame.clone())));
        }
        if state.epoch != this.epoch {
            return Poll::Ready(None);
        }
        state.wakers.push(cx.waker().clone());
        Poll::Pending
    }
}

impl StoreControl for FakeHandler {
    fn compact_now(&self) {
        let mut state = self.lock();
        state.compacted = state.revision;
    }

    fn compact(&self, revision: u64) {
        self.lock().compacted = revision;
    }

    fn lag_replica(&self, _revisions: u64) {}

    fn freeze_replica(&self, _revision: Option<u64>) {}

    fn reset_history(&self) {
        self.lock().events.clear();
    }
}
