//! From a request that is built to the head of its answer: attempts, the waits between them, and when to give up.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_core::codec::Codec;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, Entry, HeaderValue};
use http::{HeaderMap, Response, StatusCode, Uri};
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::content;
use super::error::RequestError;
use super::media::{Codecs, accept, codec, to_json};
use super::reader::Reader;
use super::redirect::{Redirect, redirect};
use super::reply::{Deadline, Reply, TimeLeft, after};
use super::retry::{Attempt, Decision, Retries, Terminal, retry_after};
use super::throttle::Notice;
use crate::auth::DebugHeaders;
use crate::client::Client;
use crate::error::{CallName, Error};
use crate::transport::{Body, BoxError, Lane, TransportError};
use crate::wire::{Form, Terms};

/// How much of an answer that nobody wants is read, so that its connection can be used again.
const DRAIN: usize = 2048;
/// How long that may take.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// What a request sends.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    /// These bytes, as often as needed.
    Bytes(Bytes),
    /// These bytes, which are a value in protobuf, as often as needed; or the same value in JSON.
    Protobuf(Bytes),
    /// A body that can be sent once.
    Once(Arc<Mutex<Option<Body>>>),
}

impl Payload {
    pub(crate) fn is_replayable(&self) -> bool {
        matches!(self, Payload::Bytes(_) | Payload::Protobuf(_))
    }

    /// The body, and what it is, if the request's headers do not say that.
    fn take(&self, form: Form) -> Result<(Body, Option<HeaderValue>), RequestError> {
        match self {
            Payload::Bytes(bytes) => Ok((Body::full(bytes.clone()), None)),
            Payload::Protobuf(bytes) => {
                let bytes = match form {
                    Form::Protobuf => bytes.clone(),
                    Form::Json => to_json(Codec::Protobuf, bytes).map_err(|error| {
                        let (what, problem) = ("the body".to_owned(), error.to_string());
                        RequestError::Body { what, problem }
                    })?,
                };
                Ok((Body::full(bytes), Some(HeaderValue::from_static(codec(form).media_type()))))
            }
            Payload::Once(body) => {
                let body = body.lock().unwrap_or_else(PoisonError::into_inner).take();
                body.map(|body| (body, None)).ok_or_else(|| RequestError::Invalid {
                    problem: "the request's body is a stream, and has been sent already".to_owned(),
                })
            }
        }
    }
}

/// One call on its way.
pub(crate) struct Exchange<'a> {
    pub(crate) client: &'a Client,
    pub(crate) call: &'a CallName,
    pub(crate) uri: Uri,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) payload: &'a Payload,
    pub(super) reader: Reader<'a>,
    /// What is asked for. If the server does not like the form, another one.
    pub(crate) terms: Terms,
    pub(crate) terminal: Terminal,
    pub(crate) span: &'a tracing::Span,
    pub(crate) progress: Progress,
}

/// How far a call has come.
pub(crate) struct Progress {
    retries: Retries,
    /// The time that the call has, which begins when it is let through by the limiter.
    limit: Option<Duration>,
    deadline: Option<Deadline>,
    /// How many attempts there have been.
    attempts: u32,
    /// When the last one was sent.
    sent: Instant,
    /// How many redirects have been followed.
    redirects: u32,
    /// The error of the last attempt that was not the last.
    previous: Option<Box<Error>>,
    /// Whether the server has refused what it was asked for or sent in protobuf.
    refused: bool,
}

/// What to do after an attempt.
enum Next {
    /// Nothing: it was the last one.
    Return,
    /// Ask there.
    Elsewhere(Uri),
    /// Wait for so long, and try again.
    Again(Duration),
}

impl Progress {
    pub(crate) fn new(retries: Retries, limit: Option<Duration>) -> Self {
        Progress {
            retries,
            limit,
            deadline: None,
            attempts: 0,
            sent: Instant::now(),
            redirects: 0,
            previous: None,
            refused: false,
        }
    }

    fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.at.saturating_duration_since(Instant::now()))
    }
}

impl Exchange<'_> {
    /// Sends the request, as often as it takes, and returns the head of the last answer, whatever it says.
    pub(crate) async fn run(mut self) -> Result<Reply, Error> {
        // The first token is waited for before the call's time begins: being held back by ourselves is no reason to fail.
        // Watches are few and long, and not held back at all.
        if self.terminal != Terminal::Watch {
            self.throttle().await?;
        }
        self.progress.deadline = self.progress.limit.and_then(Deadline::after);
        let outcome = match self.progress.deadline {
            None => self.attempts().await,
            Some(deadline) => match timeout_at(deadline.at, self.attempts()).await {
                Ok(outcome) => outcome,
                Err(_) => Err(Error::Timeout { call: self.call.clone(), limit: deadline.limit, previous: None }),
            },
        };
        self.span.record("attempts", self.progress.attempts);
        let Progress { deadline, previous, .. } = self.progress;
        let response = match outcome {
            Ok(response) => response,
            Err(error) => return Err(after(error, previous)),
        };
        self.span.record("status", response.status().as_u16());
        let form = self.terms.accept;
        Ok(Reply { response, form, time: TimeLeft { call: self.call.clone(), deadline, previous } })
    }

    async fn attempts(&mut self) -> Result<Response<Body>, Error> {
        loop {
            let outcome = self.attempt().await?;
            match (self.next(&outcome)?, outcome) {
                (Next::Return, Ok(response)) => return Ok(response),
                (Next::Return, Err(source)) => return Err(self.lost(source)),
                (Next::Elsewhere(target), outcome) => {
                    self.uri = target;
                    self.progress.redirects += 1;
                    if let Ok(response) = outcome {
                        self.discard(response).await;
                    }
                }
                (Next::Again(wait), outcome) => {
                    let error = match outcome {
                        Ok(response) => self.discard(response).await,
                        Err(source) => self.lost(source),
                    };
                    self.progress.previous = Some(Box::new(error));
                    if !wait.is_zero() {
                        sleep(wait).await;
                    }
                    self.throttle().await?;
                }
            }
        }
    }

    /// What to do after an attempt.
    fn next(&mut self, outcome: &Result<Response<Body>, TransportError>) -> Result<Next, Error> {
        let number = self.progress.attempts;
        let attempt = match outcome {
            Ok(response) if self.has_new_credentials(response.status()) => {
                tracing::debug!(
                    attempt = number,
                    "the server does not know who we are: trying again with a fresh token"
                );
                return Ok(Next::Again(Duration::ZERO));
            }
            Ok(response) if self.is_refused(response.status()) => {
                tracing::debug!(attempt = number, "the server refuses protobuf: trying again with JSON");
                return Ok(Next::Again(Duration::ZERO));
            }
            Ok(response) => match self.redirected(response)? {
                Some(target) => return Ok(Next::Elsewhere(target)),
                None => Attempt::Answered(response.status(), retry_after(response.headers())),
            },
            Err(error) => Attempt::Failed(error.fault()),
        };
        let time_left = self.progress.time_left();
        match self.progress.retries.decide(attempt, fastrand::f64(), time_left) {
            Decision::Return => Ok(Next::Return),
            Decision::RetryAfter(wait) => {
                tracing::debug!(attempt = number, outcome = ?attempt, ?wait, "trying again");
                Ok(Next::Again(wait))
            }
        }
    }

    /// One attempt. The outer error says that there could not even be one.
    async fn attempt(&mut self) -> Result<Result<Response<Body>, TransportError>, Error> {
        let (body, content_type) = self.payload.take(self.terms.send)?;
        let method = self.call.method();
        let size = body.size_hint().exact().and_then(|size| usize::try_from(size).ok());
        let mut request = http::Request::new(body);
        *request.method_mut() = method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        if let Entry::Vacant(vacant) = request.headers_mut().entry(ACCEPT) {
            vacant.insert(accept(self.terms.part, self.terms.accept));
        }
        if let Some(content_type) = content_type {
            request.headers_mut().insert(CONTENT_TYPE, content_type);
        }
        content::ask(request.headers_mut(), self.client.config(), self.terminal);
        if self.terminal != Terminal::Call {
            request.extensions_mut().insert(Lane::Streams);
        }
        if let Some(credentials) = self.client.credentials() {
            credentials.apply(request.headers_mut()).await;
        }
        self.progress.attempts += 1;
        tracing::trace!(attempt = self.progress.attempts, headers = ?DebugHeaders(request.headers()), "sending");
        self.progress.sent = Instant::now();
        let outcome = self.client.transport().send(request).await;
        self.log(&outcome);
        let metrics = self.client.metrics();
        let status = outcome.as_ref().ok().map(Response::status);
        // Going on to where the server points is no retry.
        metrics.attempt(method, status, self.progress.attempts - self.progress.redirects);
        if let Some(size) = size.filter(|size| *size > 0 && status.is_some()) {
            metrics.sent(method, size);
        }
        let config = self.client.config();
        match outcome {
            Ok(response) => Ok(Ok(content::receive(response, self.call, config, self.terminal)?)),
            Err(error) => Ok(Err(TransportError::from_any(error, config.server.host()))),
        }
    }

    /// Method and URL are the span's. Bodies, and values in the URL, are never logged.
    fn log(&self, outcome: &Result<Response<Body>, BoxError>) {
        let attempt = self.progress.attempts;
        match outcome {
            Ok(response) => {
                let took = self.progress.sent.elapsed();
                tracing::debug!(attempt, status = response.status().as_u16(), ?took, "answered");
                tracing::trace!(attempt, headers = ?DebugHeaders(response.headers()), "answered with headers");
            }
            Err(error) => tracing::debug!(attempt, took = ?self.progress.sent.elapsed(), %error, "no answer"),
        }
    }

    /// Whether the server did not believe who we are, and there is a chance that it will now: a token in a file is read
    /// again. A request that brought its own `Authorization` was not sent with ours.
    fn has_new_credentials(&mut self, status: StatusCode) -> bool {
        status == StatusCode::UNAUTHORIZED
            && !self.headers.contains_key(AUTHORIZATION)
            && self.client.credentials().is_some_and(|credentials| credentials.invalidate(self.progress.sent))
            && self.progress.retries.reauthorize()
    }

    /// Whether the server does not understand protobuf, so that the request is to be sent again without any: once, and
    /// besides the other retries. It is remembered that it does not, unless it understands JSON no better.
    fn is_refused(&mut self, status: StatusCode) -> bool {
        let is_refusal = match status {
            StatusCode::UNSUPPORTED_MEDIA_TYPE => self.sent_protobuf(),
            StatusCode::NOT_ACCEPTABLE => self.asked_for_protobuf(),
            _ => {
                if std::mem::take(&mut self.progress.refused) {
                    self.remember_refusal();
                }
                return false;
            }
        };
        if !is_refusal {
            return false;
        }
        // That it has nothing to answer with, a server may find out after it has done what it was asked to do.
        let is_done = status == StatusCode::NOT_ACCEPTABLE && !self.call.method().is_safe();
        if is_done || !self.progress.retries.renegotiate() {
            self.remember_refusal();
            return false;
        }
        self.progress.refused = true;
        self.terms = self.terms.in_json();
        self.reader.codecs = Codecs::preferring(Form::Json);
        true
    }

    fn remember_refusal(&self) {
        self.client.refusals().note(&self.reader.target.group, "it refuses protobuf");
    }

    fn asked_for_protobuf(&self) -> bool {
        self.terms.accept == Form::Protobuf && !self.headers.contains_key(ACCEPT)
    }

    fn sent_protobuf(&self) -> bool {
        self.terms.send == Form::Protobuf && matches!(self.payload, Payload::Protobuf(_))
    }

    /// Where the answer points to, if we go there.
    fn redirected(&self, response: &Response<Body>) -> Result<Option<Uri>, Error> {
        let config = self.client.config();
        let (code, followed) = (response.status(), self.progress.redirects);
        let method = self.call.method();
        match redirect(config.redirects, &config.server, method, &self.uri, followed, code, response.headers()) {
            Redirect::None => Ok(None),
            Redirect::Follow(target) => Ok(Some(target)),
            Redirect::Refuse(location) => Err(Error::Redirected { call: self.call.clone(), code, location }),
        }
    }

    /// Waits for a token of the client's limiter, if it has one.
    async fn throttle(&mut self) -> Result<(), Error> {
        let Some(limiter) = self.client.limiter() else { return Ok(()) };
        let method = self.call.method();
        let waited = match limiter.wait(self.progress.deadline.map(|deadline| deadline.at)).await {
            Ok(waited) => waited,
            Err(late) => {
                return Err(Error::RateLimited { call: self.call.clone(), wait: late.wait, previous: None });
            }
        };
        self.client.metrics().limited(method, waited);
        let reason = "the client's own rate limit, not the server";
        match self.client.throttle_log().notice(waited, Instant::now()) {
            Notice::Silent => {}
            Notice::Debug => tracing::debug!(?waited, call = %self.call, reason, "a request had to wait"),
            Notice::Info => tracing::info!(?waited, call = %self.call, reason, "a request had to wait for long"),
        }
        Ok(())
    }

    /// The error that an answer stands for which is not the last one. A little of it is read, for the error's sake and so
    /// that the connection can be used again.
    async fn discard(&self, response: Response<Body>) -> Error {
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
            // If it takes too long the connection is closed instead.
            let _ = timeout(DRAIN_TIME, drain).await;
        }
        self.reader.refusal(&parts, &read)
    }

    fn lost(&self, source: TransportError) -> Error {
        Error::Transport { call: self.call.clone(), source, previous: None }
    }
}
