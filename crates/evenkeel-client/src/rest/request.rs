//! [`Request`]: one call, from its parts to its answer.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_core::ResourceInfo;
use evenkeel_core::codec::{ApiKind, Codec};
use evenkeel_core::duration;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};
use serde::Serialize;
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::answer::Answer;
use super::error::RequestError;
use super::exchange::{Exchange, Payload, Progress};
use super::failure::Target;
use super::list_stream::ListStream;
use super::media::Codecs;
use super::path::Path;
use super::query::{Query, QueryValue};
use super::reader::Reader;
use super::reply::{Reply, TimeLeft, after};
use super::retry::{Retries, Terminal};
use super::stated_kind::stated_kind;
use super::stream::{ByteStream, List, WatchStream};
use super::template::UrlTemplate;
use super::warnings::WarningHandler;
use crate::auth::is_secret;
use crate::client::Client;
use crate::error::{CallName, Error};
use crate::transport::Body;
use crate::wire::{Form, Terms};
use crate::write_observer::PendingWrite;

/// One call.
///
/// Made by [`Client::request`]; sent by one of [`send`](Self::send), [`list`](Self::list), [`stream`](Self::stream) and
/// [`watch`](Self::watch), as often as wanted, also at the same time: each sending has retries and a time of its own.
/// The first mistake in building it is remembered and returned by those; nothing is sent then.
///
/// # Time
///
/// Without a word on it a call has the time of [`Config::timeout`](crate::Config::timeout); [`timeout`](Self::timeout)
/// and [`no_timeout`](Self::no_timeout) say otherwise. For `send` and `list` that is the time for everything: all
/// attempts, the waits between them, and reading the answer; the server is told with the parameter `timeout`, unless the
/// call is for a program that it leads to by proxy. For
/// `stream` and `watch` it is the time until the answer begins: a stream lasts for as long as it lasts. The client's own
/// rate limit is waited for before the time begins.
///
/// # Retries
///
/// An answer of 429 or 5xx that says in whole seconds when to come back (`Retry-After`) is obeyed, whatever the method,
/// up to [`Retry::max_retry_after`](crate::config::Retry::max_retry_after). If the connection is lost, `send` and `list`
/// repeat a `GET`, and `watch` repeats whatever it was, as it also does if nothing came for too long; `stream` repeats
/// nothing. When there is no time left for the wait, the last error is returned at once.
///
/// Dropping the future of a call ends the call.
#[derive(Clone)]
#[must_use = "a request does nothing until it is sent"]
pub struct Request {
    client: Client,
    call: CallName,
    query: Query,
    headers: HeaderMap,
    payload: Payload,
    timeout: Timeout,
    max_retries: Option<u32>,
    warnings: Option<Arc<dyn WarningHandler>>,
    /// Whether somebody else than the API server reads the query.
    proxied: bool,
    target: Target,
    terms: Terms,
    fault: Option<RequestError>,
    /// What is wrong with it as a call, but not as a watch or a stream.
    preflight: Option<RequestError>,
    /// The write that it makes, if the client has observers of writes.
    write: Option<Box<PendingWrite>>,
}

#[derive(Clone, Copy, Debug)]
enum Timeout {
    /// As the client is configured.
    Configured,
    Limit(Duration),
    None,
}

impl Request {
    pub(crate) fn new(client: &Client, method: Method, path: Path<'_>) -> Self {
        let preflight = path.preflight(&method).err();
        let write = PendingWrite::new(client.write_observers(), &method, &path).map(Box::new);
        let mut query = Query::new();
        if let Some(own) = path.own_query() {
            query.add_encoded(own);
        }
        let (call, fault) = match path.build(client.config().server.base_path()) {
            Ok(path) => (CallName::new(&method, path), None),
            Err(fault) => (CallName::new(&method, ""), Some(fault)),
        };
        Request {
            client: client.clone(),
            call,
            query,
            headers: HeaderMap::new(),
            payload: Payload::Bytes(Bytes::new()),
            timeout: Timeout::Configured,
            max_retries: None,
            warnings: None,
            proxied: path.is_proxied(),
            target: path.target(),
            terms: Terms::default(),
            fault,
            preflight,
            write,
        }
    }

    /// Remembers a mistake in how the request was put together, unless there is one already.
    pub(crate) fn fault(mut self, fault: RequestError) -> Self {
        self.fault.get_or_insert(fault);
        self
    }

    /// States that the request stores nothing, also if its query does not say so.
    pub(crate) fn without_effect(mut self) -> Self {
        self.write = None;
        self
    }

    /// Adds a parameter to the query; the same name may come more than once.
    pub fn query(mut self, name: impl Into<Cow<'static, str>>, value: impl QueryValue) -> Self {
        self.query.add(name, value);
        self
    }

    /// Adds these parameters to the query.
    pub fn params(mut self, query: Query) -> Self {
        self.query.append(query);
        self
    }

    /// Sets a header, replacing what was there. A value with control characters is a mistake; other letters than ASCII's
    /// are sent as UTF-8. Values of headers that hold credentials are marked as sensitive, so that nobody shows them and
    /// HTTP/2 keeps no copy of them.
    pub fn header(mut self, name: HeaderName, value: &str) -> Self {
        match HeaderValue::from_bytes(value.as_bytes()) {
            Ok(mut value) => {
                value.set_sensitive(is_secret(&name));
                self.headers.insert(name, value);
            }
            Err(_) => {
                let problem = "its value has a control character".to_owned();
                return self.fault(RequestError::Header { name: name.as_str().to_owned(), problem });
            }
        }
        self
    }

    /// The media types to answer in, instead of those that [`Wire`](crate::Wire) stands for. An answer in JSON or
    /// protobuf is read as what it says it is.
    pub fn accept(self, media_types: &str) -> Self {
        self.header(ACCEPT, media_types)
    }

    /// Sends these bytes, which are of this media type.
    pub fn body(mut self, bytes: impl Into<Bytes>, media_type: &'static str) -> Self {
        self.payload = Payload::Bytes(bytes.into());
        self.content_type(media_type)
    }

    /// Sends a body that is made while it is sent. It can be sent once: the call is never repeated, and a second one of
    /// this request, or of a clone, fails.
    pub fn stream_body(mut self, body: Body, media_type: &'static str) -> Self {
        self.payload = Payload::Once(Arc::new(Mutex::new(Some(body))));
        self.content_type(media_type)
    }

    /// Sends this value as JSON.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Self {
        match Codec::Json.encode(&value, ApiKind::default()) {
            Ok(bytes) => self.body(bytes, Codec::Json.media_type()),
            Err(error) => {
                let what = std::any::type_name::<T>().to_owned();
                self.fault(RequestError::Body { what, problem: error.to_string() })
            }
        }
    }

    /// Asks for this, and sends [values](Self::value) in this form.
    pub(crate) fn terms(mut self, terms: Terms) -> Self {
        self.terms = terms;
        self
    }

    /// Sends this value, in protobuf if that is the form to send in, and it has one. Should the server not read it, the
    /// same is sent as JSON.
    pub(crate) fn value<T: Serialize + ?Sized>(mut self, value: &T) -> Self {
        if self.terms.send == Form::Json || self.client.refusals().include(&self.target.group) {
            return self.json(value);
        }
        let encoded = stated_kind(value).map(|(api_version, kind)| {
            let kind = ApiKind { api_version: &api_version, kind: &kind };
            Codec::Protobuf.encode(&value, kind)
        });
        match encoded {
            Some(Ok(bytes)) => {
                self.payload = Payload::Protobuf(bytes.into());
                self
            }
            // Should anything be wrong with it, the server has the better words.
            Some(Err(error)) => {
                tracing::debug!(call = %self.call, %error, "sending JSON");
                self.json(value)
            }
            None => self.json(value),
        }
    }

    /// Gives the call this much time; zero is the same as [`no_timeout`](Self::no_timeout).
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = if limit.is_zero() { Timeout::None } else { Timeout::Limit(limit) };
        self
    }

    /// Gives the call all the time it takes, whatever the client's configuration says.
    pub fn no_timeout(mut self) -> Self {
        self.timeout = Timeout::None;
        self
    }

    /// How often the call is repeated at most; 0 never.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = Some(retries);
        self
    }

    /// Who hears the server's warnings about this call, instead of whom the client's configuration names.
    pub fn warnings(mut self, handler: Arc<dyn WarningHandler>) -> Self {
        self.warnings = Some(handler);
        self
    }

    /// Sends the request and reads the whole answer.
    pub async fn send(&self) -> Result<Answer, Error> {
        let outcome = self.timed(async |span| {
            if let Some(fault) = &self.preflight {
                return Err(fault.clone().into());
            }
            let Reply { response, form, time } = self.exchange(Terminal::Call, span).await?;
            let answer = time.read(self.reader(form).answer(response)).await?;
            self.client.metrics().received(self.call.method(), answer.bytes().len());
            Ok(answer)
        });
        let outcome = outcome.await;
        if let Some(write) = self.write.as_deref().filter(|_| self.query.get("dryRun").is_none_or(str::is_empty)) {
            write.report(&self.headers, outcome.as_ref());
        }
        outcome
    }

    /// Sends the request and reads the answer as a list, item by item as it comes in. One item that is no object fails
    /// all of it, with an error that names the item.
    pub async fn list<K>(&self, info: &Arc<ResourceInfo>) -> Result<List<K>, Error> {
        self.timed(async |span| {
            let Reply { response, form, time } = self.exchange(Terminal::Call, span).await?;
            let (list, received) = time.read(self.reader(form).list(info, response)).await?;
            self.client.metrics().received(self.call.method(), received);
            Ok(list)
        })
        .await
    }

    /// Sends the request and hands out the items of the list that it is answered with, as they come in. The time that the
    /// request has is for all of them.
    pub async fn list_stream<K>(&self, info: &Arc<ResourceInfo>) -> Result<ListStream<K>, Error> {
        let (asked, span) = (Instant::now(), self.span());
        let opening = async {
            let Reply { response, form, mut time } = self.exchange(Terminal::Call, &span).await?;
            let opening = TimeLeft { call: time.call.clone(), deadline: time.deadline, previous: None };
            match opening.read(self.reader(form).list_stream(info, response)).await {
                Ok(stream) => Ok(stream.paced(time, self.client.metrics().clone(), asked)),
                Err(error) => Err(after(error, time.previous.take())),
            }
        };
        let result = opening.instrument(span.clone()).await;
        if result.is_err() {
            self.client.metrics().call(self.call.method(), asked.elapsed());
        }
        result
    }

    /// Sends the request and hands out the answer's bytes as they come, for as long as they come.
    pub async fn stream(&self) -> Result<ByteStream, Error> {
        let span = self.span();
        let opening = async {
            let Reply { response, form, time } = self.exchange(Terminal::Stream, &span).await?;
            time.read(self.reader(form).stream(response)).await
        };
        opening.instrument(span.clone()).await
    }

    /// Sends the request, which asks for a watch, and hands out its events.
    ///
    /// If no attempt gets an answer, that is an error, never a watch without events.
    pub async fn watch<K>(&self, info: &Arc<ResourceInfo>) -> Result<WatchStream<K>, Error> {
        let span = self.span();
        let opening = async {
            let Reply { response, form, time } = self.exchange(Terminal::Watch, &span).await?;
            time.read(self.reader(form).watch(info, response)).await
        };
        opening.instrument(span.clone()).await
    }

    /// What reads answers to the request, which asks for this form.
    fn reader(&self, form: Form) -> Reader<'_> {
        let config = self.client.config();
        Reader {
            call: &self.call,
            host: config.server.host(),
            target: &self.target,
            codecs: Codecs::preferring(form),
            refusals: self.client.refusals(),
            limits: &config.limits,
            warnings: [self.warnings.as_ref(), config.warnings.as_ref()],
        }
    }

    fn content_type(mut self, media_type: &'static str) -> Self {
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        self
    }

    /// A call that is over when its answer has been read.
    async fn timed<T>(&self, call: impl AsyncFnOnce(&Span) -> Result<T, Error>) -> Result<T, Error> {
        let started = Instant::now();
        let span = self.span();
        let result = call(&span).instrument(span.clone()).await;
        self.client.metrics().call(self.call.method(), started.elapsed());
        result
    }

    async fn exchange(&self, terminal: Terminal, span: &Span) -> Result<Reply, Error> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone().into());
        }
        let config = self.client.config();
        let limit = match self.timeout {
            Timeout::Configured => config.timeout.filter(|limit| !limit.is_zero()),
            Timeout::Limit(limit) => Some(limit),
            Timeout::None => None,
        };
        let mut retry = config.retry;
        retry.max_retries = self.max_retries.unwrap_or(retry.max_retries);
        let method = self.call.method();
        let retries = Retries::new(&retry, terminal, method, self.payload.is_replayable());
        let is_refused = self.client.refusals().include(&self.target.group);
        let terms = if is_refused { self.terms.in_json() } else { self.terms };
        Exchange {
            client: &self.client,
            call: &self.call,
            uri: self.uri(limit.filter(|_| terminal == Terminal::Call && !self.proxied))?,
            headers: &self.headers,
            payload: &self.payload,
            reader: self.reader(terms.accept),
            terms,
            terminal,
            span,
            progress: Progress::new(retries, limit),
        }
        .run()
        .await
    }

    fn uri(&self, limit: Option<Duration>) -> Result<Uri, RequestError> {
        let url = self.query.url(self.call.path(), limit.map(|limit| ("timeout", duration::to_text(limit))));
        Uri::try_from(url)
            .map_err(|error| RequestError::Invalid { problem: format!("the request's URL cannot be used: {error}") })
    }

    fn span(&self) -> Span {
        let base = self.client.config().server.base_path();
        let template = UrlTemplate { base, path: self.call.path(), query: &self.query };
        tracing::debug_span!(
            "evenkeel.request",
            method = %self.call.method(),
            url = %template,
            status = Empty,
            attempts = Empty,
        )
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("call", &self.call)
            .field("query", &self.query)
            .field("timeout", &self.timeout)
            .field("max_retries", &self.max_retries)
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}
