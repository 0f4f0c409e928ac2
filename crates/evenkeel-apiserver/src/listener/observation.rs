//! [`Observation`]: records one request in the request log, the metrics and the audit log.
//!
//! ```text
//! Observation::start ── authenticated ── acts_as ── authorized ── request_body ── finish ──► response
//!                                                                        │
//!                                 body of known length: at once ◄────────┤
//!                                 stream, session: at its end   ◄────────┘  Completion
//! ```
//!
//! A request that ends without a response (a fault, a client that went away, a panic) is recorded when it is dropped.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri};
use http_body::Body as _;
use tokio::time::Instant;

use super::RequestRecord;
use super::request_info::RequestInfo;
use super::service::{AUDIT_ID, Caller, ServerShared};
use crate::audit::{AuditRequest, RequestHead};
use crate::env::{self, Env};
use crate::http_types::{Body, ConnectionCut, FrameStream, User};
use crate::metrics::{InFlightGuard, Series};

/// The time after which a request is reported as slow. Long-running requests never are.
const SLOW: Duration = Duration::from_secs(1);

/// Slow requests are reported once per interval.
pub(crate) const SLOW_INTERVAL: Duration = Duration::from_secs(1);

/// The target of the request log in `tracing`.
const REQUESTS: &str = "evenkeel_apiserver::requests";

/// Observes one request.
pub(crate) struct Observation<'a> {
    shared: &'a ServerShared,
    info: RequestInfo<'a>,
    /// `None` once it is logged.
    record: Option<RequestRecord>,
    is_authenticated: bool,
    head: Option<RequestHead>,
    /// `None` once the response is under way.
    completion: Option<Completion>,
}

impl<'a> Observation<'a> {
    pub(crate) fn start(
        shared: &'a ServerShared,
        caller: &Caller,
        method: &Method,
        uri: &'a Uri,
        headers: &HeaderMap,
    ) -> Self {
        let info = RequestInfo::of(method, uri, headers);
        let series = shared.metrics.series(&info, |info| shared.handler.served(info));
        let head = shared.audit.as_ref().map(|_| {
            let peer = match caller {
                Caller::InProcess(_) => None,
                Caller::Network(peer) => Some(peer.address.ip()),
            };
            let given = headers.get(AUDIT_ID).and_then(|id| id.to_str().ok()).filter(|id| !id.is_empty());
            let id = given.map_or_else(|| env::uuid(|| shared.env.random()), str::to_owned);
            RequestHead::new(uri, headers, peer, &id, shared.env.wall())
        });
        let completion = Completion {
            _in_flight: shared.metrics.enter(&info, &series),
            series,
            clock: CompletionClock(Arc::clone(&shared.env)),
            started: shared.env.monotonic(),
            audit: None,
            status: None,
            size: matches!(info.metric_verb, "GET" | "LIST").then_some(0),
        };
        let record = RequestRecord {
            time: shared.env.wall(),
            method: method.clone(),
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
            user: String::new(),
            status: None,
            latency: Duration::ZERO,
            bytes: None,
        };
        let record = Some(record);
        Observation { shared, info, record, is_authenticated: false, head, completion: Some(completion) }
    }

    /// Returns the parts of the request.
    pub(crate) fn info(&self) -> &RequestInfo<'a> {
        &self.info
    }

    /// Returns the value of the response's `Audit-Id` header, if it must be the same as in the audit log.
    pub(crate) fn audit_id(&self) -> Option<HeaderValue> {
        self.head.as_ref().and_then(|head| HeaderValue::try_from(&head.audit_id).ok())
    }

    /// Notes the user that the credentials name.
    pub(crate) fn authenticated(&mut self, user: &User) {
        self.is_authenticated = true;
        if let (Some(log), Some(head), Some(completion)) = (&self.shared.audit, &self.head, &mut self.completion) {
            completion.audit = AuditRequest::receive(log, &self.info, head.clone(), user);
        }
    }

    /// Notes the user that the request acts as, and the verb that allowed it.
    pub(crate) fn acts_as(&mut self, user: &User, constraint: Option<String>) {
        if let Some(record) = &mut self.record {
            record.user.clone_from(&user.name);
        }
        if let Some(audit) = self.audit() {
            audit.acts_as(user, constraint);
        }
    }

    /// Notes that the user may send the request, and why.
    pub(crate) fn authorized(&mut self, reason: String) {
        if let Some(audit) = self.audit() {
            audit.decide("allow", reason);
        }
    }

    /// Notes that the user may not send the request, and why.
    pub(crate) fn forbidden(&mut self, reason: String) {
        if let Some(audit) = self.audit() {
            audit.decide("forbid", reason);
        }
    }

    /// Notes the body of the request.
    pub(crate) fn request_body(&mut self, body: &Bytes, headers: &HeaderMap) {
        if let Some(audit) = self.audit() {
            audit.request_body(body, headers);
        }
    }

    /// Notes the annotations of admission.
    pub(crate) fn annotations(&mut self, annotations: BTreeMap<String, String>) {
        if let Some(audit) = self.audit() {
            audit.annotate(annotations);
        }
    }

    fn audit(&mut self) -> Option<&mut AuditRequest> {
        self.completion.as_mut()?.audit.as_mut()
    }

    /// Records the response, now or at its end.
    pub(crate) fn finish(
        mut self,
        outcome: Result<Response<Body>, ConnectionCut>,
    ) -> Result<Response<Body>, ConnectionCut> {
        let Some(mut completion) = self.completion.take() else { return outcome };
        let Ok(mut response) = outcome else {
            self.log(completion.elapsed(), None, None);
            return outcome;
        };
        let status = response.status();
        let size = response.body().size_hint().exact();
        self.log(completion.elapsed(), Some(status), size);
        completion.status = Some(status);
        self.audit_response(&mut completion, &response);
        if let Some(end) = response.extensions_mut().remove::<SessionEnd>() {
            end.set(completion);
            return Ok(response);
        }
        if let Some(size) = size {
            completion.add_bytes(size);
            return Ok(response);
        }
        let is_watch = self.info.verb == "watch" && status == StatusCode::OK;
        Ok(response.map(|inner| Body::stream(ObservedBody { inner, completion: Some(completion), is_watch })))
    }

    fn audit_response(&mut self, completion: &mut Completion, response: &Response<Body>) {
        let status = response.status();
        let Some(audit) = &mut completion.audit else {
            if status == StatusCode::UNAUTHORIZED
                && !self.is_authenticated
                && let (Some(log), Some(head)) = (&self.shared.audit, self.head.take())
            {
                AuditRequest::refuse(log, &self.info, head, self.shared.env.wall());
            }
            return;
        };
        if let Some(body) = response.body().as_whole() {
            audit.response_body(status, body);
        }
        if self.info.is_long_running() && !status.is_client_error() && !status.is_server_error() {
            audit.start(status, self.shared.env.wall());
        }
    }

    /// Returns how many slow requests were not reported since the last report, if this one is to be reported.
    fn admit_slow(&self) -> Option<u64> {
        self.shared.slow_requests.lock().unwrap_or_else(PoisonError::into_inner).admit(Instant::now())
    }

    /// Writes the request log.
    fn log(&mut self, latency: Duration, status: Option<StatusCode>, bytes: Option<u64>) {
        let Some(record) = self.record.take() else { return };
        let record = RequestRecord { latency, status, bytes, ..record };
        let RequestRecord { method, path, user, .. } = &record;
        let status = status.map(|status| status.as_u16());
        let is_slow = latency >= SLOW && !self.info.is_long_running();
        if is_slow && let Some(omitted) = self.admit_slow() {
            tracing::warn!(target: REQUESTS, %method, path, status, user, ?latency, bytes, omitted, "slow request");
        } else {
            tracing::debug!(target: REQUESTS, %method, path, status, user, ?latency, bytes, "request");
        }
        #[cfg(feature = "client")]
        if let Some(logs) = &self.shared.access_logs {
            logs.record(&record);
        }
        self.shared.request_log.push(record);
    }
}

impl Drop for Observation<'_> {
    fn drop(&mut self) {
        // The request was cancelled, or its handler panicked.
        if let Some(completion) = self.completion.take() {
            self.log(completion.elapsed(), None, None);
        }
    }
}

/// Records a response at its end, when it is dropped.
#[derive(Debug)]
pub(crate) struct Completion {
    series: Arc<Series>,
    _in_flight: InFlightGuard,
    clock: CompletionClock,
    started: Duration,
    audit: Option<AuditRequest>,
    status: Option<StatusCode>,
    /// The bytes of the response to a read.
    size: Option<u64>,
}

/// The clocks of the server.
struct CompletionClock(Arc<dyn Env>);

impl std::fmt::Debug for CompletionClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CompletionClock")
    }
}

impl Completion {
    fn elapsed(&self) -> Duration {
        self.clock.0.monotonic().saturating_sub(self.started)
    }

    fn add_bytes(&mut self, bytes: u64) {
        if let Some(size) = &mut self.size {
            *size += bytes;
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        let has_panicked = self.status.is_none() && std::thread::panicking();
        let code = self.status.or(has_panicked.then_some(StatusCode::INTERNAL_SERVER_ERROR));
        if let Some(code) = code {
            self.series.observe(code.as_u16(), self.elapsed(), self.size);
        }
        if let Some(audit) = &mut self.audit {
            let now = self.clock.0.wall();
            if has_panicked {
                audit.panicked(now);
            } else {
                audit.complete(code, now);
            }
        }
    }
}

/// Records the end of a session on an upgraded connection. The session and the response share it; the last one to drop it
/// ends the request.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionEnd(Arc<OnceLock<Completion>>);

impl SessionEnd {
    fn set(&self, completion: Completion) {
        // A response is finished once.
        let _ = self.0.set(completion);
    }
}

/// A streamed body that records its end.
struct ObservedBody {
    inner: Body,
    /// `None` after the end.
    completion: Option<Completion>,
    /// Whether each frame is an event.
    is_watch: bool,
}

impl FrameStream for ObservedBody {
    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ConnectionCut>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        // The frames of this server's bodies are data.
        let bytes = frame.map(|frame| frame.map(|frame| frame.into_data().unwrap_or_default()));
        match (&bytes, &mut self.completion) {
            (Some(Ok(bytes)), Some(completion)) => {
                completion.add_bytes(bytes.len() as u64);
                if self.is_watch
                    && let Some(completion) = &self.completion
                {
                    completion.series.watch_events.fetch_add(1, Ordering::Relaxed);
                }
            }
            _ => self.completion = None,
        }
        Poll::Ready(bytes)
    }
}
