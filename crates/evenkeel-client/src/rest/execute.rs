//! [`Execution`]: the attempts of one request, from the built request to the head of the last response.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_core::codec::Codec;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, Entry, HeaderValue};
use http::{HeaderMap, StatusCode, Uri};
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::body;
use super::error::RequestError;
use super::media::{Codecs, accept, to_json};
use super::redirect::{Redirect, redirect};
use super::response::ResponseReader;
use super::retry::{AttemptOutcome, ResponseMode, Retries, RetryDecision, retry_after};
use super::throttle::Notice;
use crate::attempt_observer::ObservedAttempt;
use crate::auth::DebugHeaders;
use crate::client::Client;
use crate::error::{Error, RequestName};
use crate::transport::{Body, BoxError, Lane, TransportError, TransportFault, UpgradesConnection, gzip};
use crate::wire::Negotiation;

/// A response that is later than this is reported. Further reports follow after twice the time, each time.
const LATE: Duration = Duration::from_secs(10);
/// A longer wait before a retry is a warning.
const LONG_WAIT: Duration = Duration::from_secs(5);
/// How much of a discarded response is read, so that its connection can be reused.
const DRAIN: usize = 2048;
/// How long that may take.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// The body of a request.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    /// Bytes that can be sent repeatedly.
    Bytes(Bytes),
    /// An object in protobuf, which can be sent repeatedly, also as JSON.
    Protobuf(Bytes),
    /// A body that can be sent once.
    Once(Arc<Mutex<Option<Body>>>),
}

impl Payload {
    pub(crate) fn is_replayable(&self) -> bool {
        matches!(self, Payload::Bytes(_) | Payload::Protobuf(_))
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Payload::Bytes(bytes) if bytes.is_empty())
    }

    /// Returns the body, and its content type if the request's headers do not contain it.
    fn take(&self, codec: Codec) -> Result<(Body, Option<HeaderValue>), RequestError> {
        match self {
            Payload::Bytes(bytes) => Ok((Body::full(bytes.clone()), None)),
            Payload::Protobuf(bytes) => {
                let bytes = match codec {
                    Codec::Protobuf => bytes.clone(),
                    _ => to_json(Codec::Protobuf, bytes).map_err(|error| {
                        let (what, problem) = ("the body".to_owned(), error.to_string());
                        RequestError::Body { what, problem }
                    })?,
                };
                Ok((Body::full(bytes), Some(HeaderValue::from_static(codec.media_type()))))
            }
            Payload::Once(body) => {
                let body = body.lock().unwrap_or_else(PoisonError::into_inner).take();
                body.map(|body| (body, None)).ok_or_else(|| RequestError::Invalid {
                    problem: "the request's body is a stream and has been sent already".to_owned(),
                })
            }
        }
    }
}

/// The deadline of a request, and the timeout that it was computed from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    pub(super) at: Instant,
    pub(super) limit: Duration,
}

impl Deadline {
    /// The deadline after this timeout; `None` if it is too far away to be represented.
    pub(super) fn after(limit: Duration) -> Option<Self> {
        Instant::now().checked_add(limit).map(|at| Deadline { at, limit })
    }
}

/// A response whose head was received and whose body was not read.
pub(super) struct UnreadResponse {
    pub(super) response: http::Response<Body>,
    /// The codec that the last attempt preferred.
    pub(super) codec: Codec,
    pub(super) time: ReadDeadline,
}

/// The deadline for reading a body.
#[derive(Debug)]
pub(super) struct ReadDeadline {
    pub(super) request: RequestName,
    pub(super) deadline: Option<Deadline>,
    /// The error of the previous attempt, which becomes part of a read error.
    pub(super) previous: Option<Box<Error>>,
}

impl ReadDeadline {
    /// Runs a read until the deadline.
    pub(super) async fn read<T>(self, reading: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let result = match self.deadline {
            None => reading.await,
            Some(deadline) => match timeout_at(deadline.at, reading).await {
                Ok(result) => result,
                Err(_) => Err(Error::Timeout { request: self.request, limit: deadline.limit, previous: None }),
            },
        };
        result.map_err(|error| with_previous(error, self.previous))
    }
}

/// Adds the error of the previous attempt, if the error has a field for it and does not have the same text.
pub(super) fn with_previous(mut error: Error, before: Option<Box<Error>>) -> Error {
    let Some(before) = before.filter(|before| before.to_string() != error.to_string()) else { return error };
    if let Error::Transport { previous, .. } | Error::Timeout { previous, .. } | Error::RateLimited { previous, .. } =
        &mut error
    {
        *previous = Some(before);
    }
    error
}

/// One request being sent.
pub(super) struct Execution<'a> {
    pub(super) client: &'a Client,
    pub(super) request: &'a RequestName,
    pub(super) uri: Uri,
    pub(super) headers: &'a HeaderMap,
    pub(super) payload: &'a Payload,
    pub(super) reader: ResponseReader<'a>,
    /// Falls back to JSON if the server rejects protobuf.
    pub(super) negotiation: Negotiation,
    pub(super) mode: ResponseMode,
    pub(super) span: &'a tracing::Span,
    pub(super) state: ExecutionState,
}

/// The state between attempts.
pub(super) struct ExecutionState {
    retries: Retries,
    /// The timeout, which starts when the rate limiter lets the request through.
    limit: Option<Duration>,
    deadline: Option<Deadline>,
    attempts: u32,
    /// When the first attempt was sent.
    started: Instant,
    /// When the last attempt was sent.
    sent: Instant,
    /// The generation of the credential of the last attempt.
    generation: u64,
    /// How many redirects have been followed.
    redirects: u32,
    /// The error of the previous attempt.
    previous: Option<Box<Error>>,
    /// Whether the server has rejected protobuf in the previous attempt.
    rejected: bool,
}

/// What follows an attempt.
enum NextAttempt {
    /// The attempt was the last.
    None,
    /// Follow a redirect.
    Redirect(Uri),
    /// Retry after this wait.
    Retry(Duration),
}

impl ExecutionState {
    pub(super) fn new(retries: Retries, limit: Option<Duration>) -> Self {
        let now = Instant::now();
        ExecutionState {
            retries,
            limit,
            deadline: None,
            attempts: 0,
            started: now,
            sent: now,
            generation: 0,
            redirects: 0,
            previous: None,
            rejected: false,
        }
    }

    fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.at.saturating_duration_since(Instant::now()))
    }
}

impl Execution<'_> {
    /// Sends the request, retries it as needed, and returns the head of the last response, whatever its status.
    pub(super) async fn run(mut self) -> Result<UnreadResponse, Error> {
        // The first token is awaited before the timeout starts: the client's own throttling is no reason to fail. Watches are
        // few and long, and not throttled.
        if self.mode != ResponseMode::Watch {
            self.throttle().await?;
        }
        self.state.started = Instant::now();
        self.state.deadline = self.state.limit.and_then(Deadline::after);
        let outcome = match self.state.deadline {
            None => self.attempts().await,
            Some(deadline) => match timeout_at(deadline.at, self.attempts()).await {
                Ok(outcome) => outcome,
                Err(_) => Err(Error::Timeout { request: self.request.clone(), limit: deadline.limit, previous: None }),
            },
        };
        self.span.record("attempts", self.state.attempts);
        let ExecutionState { deadline, previous, .. } = self.state;
        let response = match outcome {
            Ok(response) => response,
            Err(error) => return Err(with_previous(error, previous)),
        };
        self.span.record("status", response.status().as_u16());
        let time = ReadDeadline { request: self.request.clone(), deadline, previous };
        Ok(UnreadResponse { response, codec: self.negotiation.accept, time })
    }

    async fn attempts(&mut self) -> Result<http::Response<Body>, Error> {
        loop {
            let outcome = self.attempt().await?;
            match (self.next(&outcome)?, outcome) {
                (NextAttempt::None, Ok(response)) => return Ok(response),
                (NextAttempt::None, Err(source)) => return Err(self.transport_error(source)),
                (NextAttempt::Redirect(target), outcome) => {
                    self.uri = target;
                    self.state.redirects += 1;
                    if let Ok(response) = outcome {
                        self.discard(response).await;
                    }
                }
                (NextAttempt::Retry(wait), outcome) => {
                    let error = match outcome {
                        Ok(response) => self.discard(response).await,
                        Err(source) => self.transport_error(source),
                    };
                    self.state.previous = Some(Box::new(error));
                    if !wait.is_zero() {
                        sleep(wait).await;
                    }
                    self.throttle().await?;
                }
            }
        }
    }

    /// Decides what follows an attempt.
    fn next(&mut self, outcome: &Result<http::Response<Body>, TransportError>) -> Result<NextAttempt, Error> {
        let attempt = self.state.attempts;
        let outcome = match outcome {
            Ok(response) if self.has_new_credentials(response.status()) => {
                tracing::debug!(attempt, "unauthorized; retrying with a fresh token");
                return Ok(NextAttempt::Retry(Duration::ZERO));
            }
            Ok(response) if self.is_protobuf_rejected(response.status()) => {
                tracing::debug!(attempt, "protobuf rejected; retrying in JSON");
                return Ok(NextAttempt::Retry(Duration::ZERO));
            }
            Ok(response) => match self.redirected(response)? {
                Some(target) => return Ok(NextAttempt::Redirect(target)),
                None => AttemptOutcome::Responded(response.status(), retry_after(response.headers())),
            },
            Err(error) => AttemptOutcome::Failed(error.fault()),
        };
        let (elapsed, time_left) = (self.state.started.elapsed(), self.state.time_left());
        match self.state.retries.decide(outcome, fastrand::f64(), elapsed, time_left) {
            RetryDecision::Return => Ok(NextAttempt::None),
            RetryDecision::RetryAfter(wait) => {
                if wait >= LONG_WAIT {
                    tracing::warn!(attempt, ?outcome, retry_in = ?wait, "server requested a long wait; retrying after it");
                } else {
                    tracing::debug!(attempt, ?outcome, retry_in = ?wait, "retrying");
                }
                self.client.metrics().retry_wait(self.request.method(), wait);
                Ok(NextAttempt::Retry(wait))
            }
        }
    }

    /// Sends one attempt. The outer error means that the request could not be built.
    async fn attempt(&mut self) -> Result<Result<http::Response<Body>, TransportError>, Error> {
        let (body, content_type) = self.payload.take(self.negotiation.send)?;
        let method = self.request.method();
        let size = body.size_hint().exact().and_then(|size| usize::try_from(size).ok());
        let mut request = http::Request::new(body);
        *request.method_mut() = method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        if let Entry::Vacant(vacant) = request.headers_mut().entry(ACCEPT) {
            vacant.insert(accept(self.negotiation.shape, self.negotiation.accept));
        }
        if let Some(content_type) = content_type {
            request.headers_mut().insert(CONTENT_TYPE, content_type);
        }
        let config = self.client.config();
        // Streams are never compressed: an event would wait in the compressor for the next ones.
        let is_compressed = config.compression && self.mode == ResponseMode::Whole;
        if let Entry::Vacant(vacant) = request.headers_mut().entry(ACCEPT_ENCODING) {
            vacant.insert(HeaderValue::from_static(if is_compressed { gzip::ACCEPTED } else { "identity" }));
        }
        if self.mode != ResponseMode::Whole {
            request.extensions_mut().insert(Lane::Streams);
        }
        if self.mode == ResponseMode::Upgrade {
            request.extensions_mut().insert(UpgradesConnection);
        }
        if let Some(credentials) = self.client.credentials() {
            match credentials.apply(request.headers_mut()).await {
                Ok(generation) => self.state.generation = generation,
                Err(error) => {
                    let host = config.server.host();
                    return Ok(Err(TransportError::new(TransportFault::Credentials, host, error)));
                }
            }
        }
        self.state.attempts += 1;
        tracing::trace!(attempt = self.state.attempts, headers = ?DebugHeaders(request.headers()), "sending request");
        self.state.sent = Instant::now();
        let outcome = self.send(request).await;
        self.log(&outcome);
        let metrics = self.client.metrics();
        let status = outcome.as_ref().ok().map(http::Response::status);
        // A redirect is no retry.
        metrics.attempt(method, status, self.state.attempts - self.state.redirects);
        if let Some(size) = size.filter(|size| *size > 0 && status.is_some()) {
            metrics.request_size(method, size);
        }
        let outcome = outcome.map_err(|error| TransportError::from_any(error, config.server.host()));
        for observer in self.client.attempt_observers().iter() {
            let outcome = outcome.as_ref().map(http::Response::status);
            observer.observe(&ObservedAttempt { request: self.request, outcome });
        }
        match outcome {
            Ok(response) => Ok(Ok(body::wrap(response, self.request, config, self.mode)?)),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Waits for the head of the response. Reports one that is late: the server may hang, or send informational responses
    /// without end.
    async fn send(&self, request: http::Request<Body>) -> Result<http::Response<Body>, BoxError> {
        let mut sending = self.client.transport().send(request);
        let mut patience = LATE;
        loop {
            if let Ok(outcome) = timeout(patience, &mut sending).await {
                return outcome;
            }
            let (attempt, waited) = (self.state.attempts, self.state.sent.elapsed());
            tracing::warn!(attempt, ?waited, "no response yet; still waiting");
            self.client.metrics().late(self.request.method());
            patience = patience.saturating_mul(2);
        }
    }

    /// Logs an attempt. The span contains method and URL. Bodies, and values in the URL, are never logged.
    fn log(&self, outcome: &Result<http::Response<Body>, BoxError>) {
        let attempt = self.state.attempts;
        match outcome {
            Ok(response) => {
                let took = self.state.sent.elapsed();
                tracing::debug!(attempt, status = response.status().as_u16(), ?took, "response received");
                tracing::trace!(attempt, headers = ?DebugHeaders(response.headers()), "response headers");
            }
            Err(error) => tracing::debug!(attempt, took = ?self.state.sent.elapsed(), %error, "no response"),
        }
    }

    /// Returns whether the server rejected the credentials and new ones may help: a token in a file is read again, an exec
    /// plugin runs again. A request with its own `Authorization` header was not sent with the client's credentials.
    fn has_new_credentials(&mut self, status: StatusCode) -> bool {
        let (sent, generation) = (self.state.sent, self.state.generation);
        status == StatusCode::UNAUTHORIZED
            && !self.headers.contains_key(AUTHORIZATION)
            && self.client.credentials().is_some_and(|credentials| credentials.invalidate(sent, generation))
            && self.state.retries.reauthorize()
    }

    /// Returns whether the server rejected protobuf and the request is to be repeated in JSON: once, and in addition to the
    /// other retries. The fallback is kept for later requests unless JSON is rejected as well.
    fn is_protobuf_rejected(&mut self, status: StatusCode) -> bool {
        let is_rejected = match status {
            StatusCode::UNSUPPORTED_MEDIA_TYPE => self.sent_protobuf(),
            StatusCode::NOT_ACCEPTABLE => self.requested_protobuf(),
            _ => {
                if std::mem::take(&mut self.state.rejected) {
                    self.fall_back_to_json();
                }
                return false;
            }
        };
        if !is_rejected {
            return false;
        }
        // A server may find out that it cannot encode the response after it carried out the request.
        let may_be_done = status == StatusCode::NOT_ACCEPTABLE && !self.request.method().is_safe();
        if may_be_done || !self.state.retries.renegotiate() {
            self.fall_back_to_json();
            return false;
        }
        self.state.rejected = true;
        self.negotiation = self.negotiation.in_json();
        self.reader.codecs = Codecs::preferring(Codec::Json);
        true
    }

    fn fall_back_to_json(&self) {
        self.client.protobuf_fallback().rejected(&self.reader.target.group);
    }

    fn requested_protobuf(&self) -> bool {
        self.negotiation.accept == Codec::Protobuf && !self.headers.contains_key(ACCEPT)
    }

    fn sent_protobuf(&self) -> bool {
        self.negotiation.send == Codec::Protobuf && matches!(self.payload, Payload::Protobuf(_))
    }

    /// Returns the location to follow, if the response is a redirect that may be followed.
    fn redirected(&self, response: &http::Response<Body>) -> Result<Option<Uri>, Error> {
        let config = self.client.config();
        let (code, followed) = (response.status(), self.state.redirects);
        let method = self.request.method();
        match redirect(config.redirects, &config.server, method, &self.uri, followed, code, response.headers()) {
            Redirect::None => Ok(None),
            Redirect::Follow(target) => Ok(Some(target)),
            Redirect::Refuse(location) => Err(Error::Redirected { request: self.request.clone(), code, location }),
        }
    }

    /// Waits for a token of the client's rate limiter, if it has one.
    async fn throttle(&mut self) -> Result<(), Error> {
        let Some(limiter) = self.client.limiter() else { return Ok(()) };
        let method = self.request.method();
        let waited = match limiter.wait(self.state.deadline.map(|deadline| deadline.at)).await {
            Ok(waited) => waited,
            Err(late) => {
                return Err(Error::RateLimited { request: self.request.clone(), wait: late.wait, previous: None });
            }
        };
        self.client.metrics().throttled(method, waited);
        let reason = "client-side rate limit, not the server";
        match self.client.throttle_log().notice(waited, Instant::now()) {
            Notice::Silent => {}
            Notice::Debug => tracing::debug!(?waited, request = %self.request, reason, "request throttled"),
            Notice::Info => tracing::info!(?waited, request = %self.request, reason, "request throttled"),
        }
        Ok(())
    }

    /// Converts a response that is not the last one into its error. A small part of the body is read, for the error and so that
    /// the connection can be reused.
    async fn discard(&self, response: http::Response<Body>) -> Error {
        let (parts, mut body) = response.into_parts();
        let mut read = Vec::new();
        if body.size_hint().lower() <= DRAIN as u64 {
            let drain = async {
                while let Some(Ok(frame)) = body.frame().await {
                    let Ok(data) = frame.into_data() else { continue };
                    read.extend_from_slice(data.get(..DRAIN - read.len()).unwrap_or(&data));
                    if read.len() >= DRAIN {
                        break;
                    }
                }
            };
            // The connection is closed if this takes too long.
            let _ = timeout(DRAIN_TIME, drain).await;
        }
        self.reader.status_error(&parts, &read)
    }

    fn transport_error(&self, source: TransportError) -> Error {
        Error::Transport { request: self.request.clone(), source, previous: None }
    }
}
