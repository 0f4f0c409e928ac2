//! [`Request`]: one request, from its parts to its response.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_base::channels::{BoxIo, ClientHandshake, UpgradedIo};
use evenkeel_core::ResourceInfo;
use evenkeel_core::codec::{ApiKind, Codec};
use evenkeel_core::duration;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Uri};
use serde::Serialize;
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::error::RequestError;
use super::execute::{Execution, ExecutionState, Payload, ReadDeadline, UnreadResponse, with_previous};
use super::list::{List, ListStream};
use super::media::Codecs;
use super::path::Path;
use super::query::{Query, QueryValue};
use super::response::{Response, ResponseReader};
use super::retry::{ResponseMode, Retries};
use super::status_error::RequestTarget;
use super::stream::{ByteStream, WatchStream};
use super::type_meta::type_meta;
use super::url_template::UrlTemplate;
use super::warnings::WarningHandler;
use super::write_defaults::WriteRequest;
use crate::access::Access;
use crate::auth::is_secret;
use crate::client::Client;
use crate::error::{Error, RequestName};
use crate::remote::SessionError;
use crate::transport::Body;
use crate::wire::Negotiation;
use crate::write_observer::PendingWrite;

/// One request.
///
/// Created by [`Client::request`]. [`send`](Self::send), [`list`](Self::list), [`stream`](Self::stream) and
/// [`watch`](Self::watch) send it, any number of times and concurrently: each has its own retries and its own timeout. The
/// first mistake in building the request is kept and returned by those methods, without sending anything.
///
/// # Timeout
///
/// The timeout is [`Config::timeout`](crate::Config::timeout) unless [`timeout`](Self::timeout) or
/// [`no_timeout`](Self::no_timeout) is called. For `send` and `list` it covers everything: all attempts, the waits between them,
/// and reading the response. The server receives it in the query parameter `timeout`, unless the request is proxied to a pod or
/// a service. For `stream` and `watch` it ends when the response starts. It starts after the client's own rate limit has let the
/// request through.
///
/// # Retries
///
/// - A response of 429 or 5xx with a `Retry-After` in whole seconds is retried after that time, for every method. The wait is
///   capped by [`Retry::max_retry_after`](crate::config::Retry::max_retry_after).
/// - After a lost connection, `send` and `list` retry a `GET`; `watch` retries every method, also after an idle timeout; `stream`
///   retries nothing.
/// - Retries stop after [`Retry::max_retries`](crate::config::Retry::max_retries), and when the next one would start later than
///   [`Retry::max_elapsed`](crate::config::Retry::max_elapsed) after the first attempt or after the timeout. The error of the last
///   attempt is then returned at once.
///
/// So a request without a timeout takes at most `max_elapsed` and the time of its last attempt.
///
/// Dropping the future cancels the request.
#[derive(Clone)]
#[must_use = "a request does nothing until it is sent"]
pub struct Request {
    client: Client,
    name: RequestName,
    query: Query,
    headers: HeaderMap,
    payload: Payload,
    timeout: RequestTimeout,
    max_retries: Option<u32>,
    warnings: Option<Arc<dyn WarningHandler>>,
    /// Whether a program behind the API server reads the query.
    proxied: bool,
    target: RequestTarget,
    negotiation: Negotiation,
    /// The first mistake in building the request.
    invalid: Option<RequestError>,
    /// A mistake if the request is sent with `send`, but not as a watch or a stream.
    invalid_send: Option<RequestError>,
    /// The write that the request makes, if the client has write observers.
    write: Option<Box<PendingWrite>>,
    /// Whether the body states that the request is a dry run.
    has_dry_run_body: bool,
}

#[derive(Clone, Copy, Debug)]
enum RequestTimeout {
    /// The client's.
    Configured,
    Limit(Duration),
    None,
}

impl Request {
    pub(crate) fn new(client: &Client, method: Method, path: Path<'_>) -> Self {
        let invalid_send = path.preflight(&method).err();
        let write = PendingWrite::new(client.write_observers(), &method, &path).map(Box::new);
        let mut query = Query::new();
        if let Some(own) = path.own_query() {
            query.add_encoded(own);
        }
        let (name, invalid) = match path.build(client.config().server.base_path()) {
            Ok(path) => (RequestName::new(&method, path), None),
            Err(invalid) => (RequestName::new(&method, ""), Some(invalid)),
        };
        Request {
            client: client.clone(),
            name,
            query,
            headers: HeaderMap::new(),
            payload: Payload::Bytes(Bytes::new()),
            timeout: RequestTimeout::Configured,
            max_retries: None,
            warnings: None,
            proxied: path.is_proxied(),
            target: path.target(),
            negotiation: Negotiation::default(),
            invalid,
            invalid_send,
            write,
            has_dry_run_body: false,
        }
    }

    /// Marks the request as invalid, unless it is already.
    pub(crate) fn invalid(mut self, error: RequestError) -> Self {
        self.invalid.get_or_insert(error);
        self
    }

    /// Marks the request as a dry run by its body, which is not reported to write observers.
    pub(crate) fn dry_run_body(mut self) -> Self {
        self.write = None;
        self.has_dry_run_body = true;
        self
    }

    /// Adds a query parameter. A name may be added several times.
    pub fn query(mut self, name: impl Into<Cow<'static, str>>, value: impl QueryValue) -> Self {
        self.query.add(name, value);
        self
    }

    /// Adds query parameters.
    pub fn params(mut self, query: Query) -> Self {
        self.query.append(query);
        self
    }

    /// Sets a header, replacing earlier values. A value with control characters is an error; characters other than ASCII are
    /// sent as UTF-8. Headers with credentials are marked as sensitive: `Debug` does not show them and HTTP/2 does not index
    /// them.
    pub fn header(mut self, name: HeaderName, value: &str) -> Self {
        match HeaderValue::from_bytes(value.as_bytes()) {
            Ok(mut value) => {
                value.set_sensitive(is_secret(&name));
                self.headers.insert(name, value);
            }
            Err(_) => {
                let problem = "its value has a control character".to_owned();
                return self.invalid(RequestError::Header { name: name.as_str().to_owned(), problem });
            }
        }
        self
    }

    /// Sets the accepted media types, instead of those of [`Wire`](crate::Wire). A response in JSON or protobuf is decoded by
    /// its `Content-Type`.
    pub fn accept(self, media_types: &str) -> Self {
        self.header(ACCEPT, media_types)
    }

    /// Sets the body and its media type.
    pub fn body(mut self, bytes: impl Into<Bytes>, media_type: &'static str) -> Self {
        self.payload = Payload::Bytes(bytes.into());
        self.content_type(media_type)
    }

    /// Sets a streamed body. It can be sent once: the request is never retried, and sending it or a clone a second time is an
    /// error.
    pub fn stream_body(mut self, body: Body, media_type: &'static str) -> Self {
        self.payload = Payload::Once(Arc::new(Mutex::new(Some(body))));
        self.content_type(media_type)
    }

    /// Sets the body to this value as JSON.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Self {
        match Codec::Json.encode(&value, ApiKind::default()) {
            Ok(bytes) => self.body(bytes, Codec::Json.media_type()),
            Err(error) => {
                let what = std::any::type_name::<T>().to_owned();
                self.invalid(RequestError::Body { what, problem: error.to_string() })
            }
        }
    }

    /// Sets the content negotiation.
    pub(crate) fn negotiation(mut self, negotiation: Negotiation) -> Self {
        self.negotiation = negotiation;
        self
    }

    /// Sets the body to this value, in protobuf if that is negotiated and the value has a protobuf encoding. If the server
    /// rejects it, the same value is sent as JSON.
    pub(crate) fn value<T: Serialize + ?Sized>(mut self, value: &T) -> Self {
        if self.negotiation.send == Codec::Json || self.uses_json() {
            return self.json(value);
        }
        let encoded = type_meta(value).map(|(api_version, kind)| {
            let kind = ApiKind { api_version: &api_version, kind: &kind };
            Codec::Protobuf.encode(&value, kind)
        });
        match encoded {
            Some(Ok(bytes)) => {
                self.payload = Payload::Protobuf(bytes.into());
                self
            }
            // The server has the better error if the value is invalid.
            Some(Err(error)) => {
                tracing::debug!(request = %self.name, %error, "no protobuf encoding; sending JSON");
                self.json(value)
            }
            None => self.json(value),
        }
    }

    /// Sets the timeout; zero is the same as [`no_timeout`](Self::no_timeout).
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = if limit.is_zero() { RequestTimeout::None } else { RequestTimeout::Limit(limit) };
        self
    }

    /// Removes the timeout, whatever the client's configuration.
    pub fn no_timeout(mut self) -> Self {
        self.timeout = RequestTimeout::None;
        self
    }

    /// Sets the maximal number of retries; 0 for none.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = Some(retries);
        self
    }

    /// Sets the handler of the server's warnings, instead of the client's.
    pub fn warnings(mut self, handler: Arc<dyn WarningHandler>) -> Self {
        self.warnings = Some(handler);
        self
    }

    /// Sends the request and reads the whole response.
    pub async fn send(&self) -> Result<Response, Error> {
        let outcome = self.timed(async |span| {
            if let Some(invalid) = &self.invalid_send {
                return Err(invalid.clone().into());
            }
            let UnreadResponse { response, codec, time } = self.execute(ResponseMode::Whole, span).await?;
            let response = time.read(self.reader(codec).whole(response)).await?;
            self.client.metrics().response_size(self.name.method(), response.bytes().len());
            Ok(response)
        });
        let outcome = outcome.await;
        let is_dry_run = self.client.is_dry_run() || self.query.get("dryRun").is_some_and(|value| !value.is_empty());
        if let Some(write) = self.write.as_deref().filter(|_| !is_dry_run) {
            write.report(&self.headers, outcome.as_ref());
        }
        outcome
    }

    /// Sends the request and decodes the response as a list while it arrives. An item that is no object fails the list, with an
    /// error that names the item.
    pub async fn list<K>(&self, info: &Arc<ResourceInfo>) -> Result<List<K>, Error> {
        self.timed(async |span| {
            let UnreadResponse { response, codec, time } = self.execute(ResponseMode::Whole, span).await?;
            let (list, received) = time.read(self.reader(codec).list(info, response)).await?;
            self.client.metrics().response_size(self.name.method(), received);
            Ok(list)
        })
        .await
    }

    /// Sends the request and returns the items of the list as they arrive. The timeout covers the whole list.
    pub async fn list_stream<K>(&self, info: &Arc<ResourceInfo>) -> Result<ListStream<K>, Error> {
        let (started, span) = (Instant::now(), self.span());
        let opening = async {
            let UnreadResponse { response, codec, mut time } = self.execute(ResponseMode::Whole, &span).await?;
            let opening = ReadDeadline { request: time.request.clone(), deadline: time.deadline, previous: None };
            match opening.read(self.reader(codec).list_stream(info, response)).await {
                Ok(stream) => Ok(stream.timed(time, self.client.metrics().clone(), started)),
                Err(error) => Err(with_previous(error, time.previous.take())),
            }
        };
        let result = opening.instrument(span.clone()).await;
        if result.is_err() {
            self.client.metrics().request(self.name.method(), started.elapsed());
        }
        result
    }

    /// Sends the request and returns the bytes of the response as they arrive.
    pub async fn stream(&self) -> Result<ByteStream, Error> {
        let span = self.span();
        let opening = async {
            let UnreadResponse { response, codec, time } = self.execute(ResponseMode::Stream, &span).await?;
            time.read(self.reader(codec).stream(response)).await
        };
        opening.instrument(span.clone()).await
    }

    /// Sends the request, which must be a watch, and returns its events.
    ///
    /// A watch that could not be opened is an error, never a watch without events.
    pub async fn watch<K>(&self, info: &Arc<ResourceInfo>) -> Result<WatchStream<K>, Error> {
        let span = self.span();
        let opening = async {
            let UnreadResponse { response, codec, time } = self.execute(ResponseMode::Watch, &span).await?;
            time.read(self.reader(codec).watch(info, response)).await
        };
        opening.instrument(span.clone()).await
    }

    /// Sends the request as the handshake of a WebSocket. Returns the connection and the chosen subprotocol.
    pub(crate) async fn upgrade(mut self, protocols: &'static [&'static str]) -> Result<(BoxIo, &'static str), Error> {
        let handshake = ClientHandshake::new(protocols);
        for (name, value) in handshake.headers() {
            self = self.header(name, &value);
        }
        let span = self.span();
        let opening = async {
            let UnreadResponse { response, codec, time } = self.execute(ResponseMode::Upgrade, &span).await?;
            let failed = |source| Error::Session { request: self.name.clone(), source };
            if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                let code = response.status();
                time.read(self.reader(codec).whole(response)).await?;
                return Err(failed(SessionError::NotUpgraded { code }));
            }
            let protocol = handshake.check(response.headers()).map_err(|error| failed(error.into()))?;
            let io = response.extensions().get::<UpgradedIo>().and_then(UpgradedIo::take);
            Ok((io.ok_or_else(|| failed(SessionError::NoConnection))?, protocol))
        };
        opening.instrument(span.clone()).await
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn name(&self) -> &RequestName {
        &self.name
    }

    fn reader(&self, codec: Codec) -> ResponseReader<'_> {
        let config = self.client.config();
        ResponseReader {
            request: &self.name,
            host: config.server.host(),
            target: &self.target,
            codecs: Codecs::preferring(codec),
            fallback: self.client.protobuf_fallback(),
            limits: &config.limits,
            warnings: [self.warnings.as_ref(), config.warnings.as_ref()],
        }
    }

    fn content_type(mut self, media_type: &'static str) -> Self {
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        self
    }

    /// Returns whether an earlier response made the client fall back to JSON for this resource.
    fn uses_json(&self) -> bool {
        self.client.protobuf_fallback().applies_to(&self.target.group, &self.target.resource)
    }

    /// Measures a request that ends when its response has been read.
    async fn timed<T>(&self, request: impl AsyncFnOnce(&Span) -> Result<T, Error>) -> Result<T, Error> {
        let started = Instant::now();
        let span = self.span();
        let result = request(&span).instrument(span.clone()).await;
        self.client.metrics().request(self.name.method(), started.elapsed());
        result
    }

    async fn execute(&self, mode: ResponseMode, span: &Span) -> Result<UnreadResponse, Error> {
        if let Some(invalid) = &self.invalid {
            return Err(invalid.clone().into());
        }
        let config = self.client.config();
        let limit = match self.timeout {
            RequestTimeout::Configured => config.timeout.filter(|limit| !limit.is_zero()),
            RequestTimeout::Limit(limit) => Some(limit),
            RequestTimeout::None => None,
        };
        let mut retry = config.retry;
        retry.max_retries = self.max_retries.unwrap_or(retry.max_retries);
        let retries = Retries::new(&retry, mode, self.name.method(), self.payload.is_replayable());
        let negotiation = if self.uses_json() { self.negotiation.in_json() } else { self.negotiation };
        let uri = self.uri(limit.filter(|_| mode == ResponseMode::Whole && !self.proxied))?;
        // Noted before it is sent, because it may be dropped before it is answered.
        let recorded = self.client.access_recorder().map(|recorder| (recorder, self.access(mode)));
        if let Some((recorder, access)) = &recorded {
            recorder.record(access);
        }
        let outcome = Execution {
            client: &self.client,
            request: &self.name,
            uri,
            headers: &self.headers,
            payload: &self.payload,
            reader: self.reader(negotiation.accept),
            negotiation,
            mode,
            span,
            state: ExecutionState::new(retries, limit),
        }
        .run()
        .await;
        if let (Some((recorder, access)), Ok(unread)) = (&recorded, &outcome)
            && unread.response.status() == StatusCode::CREATED
        {
            recorder.record_created(access);
        }
        outcome
    }

    /// Returns what the request uses of the API.
    fn access(&self, mode: ResponseMode) -> Access {
        let path = self.name.path();
        let path = path.strip_prefix(self.client.config().server.base_path()).unwrap_or(path);
        let is_watch = mode == ResponseMode::Watch || matches!(self.query.get("watch"), Some("true" | "1"));
        Access::of_request(self.name.method(), path, &self.query, is_watch)
    }

    fn uri(&self, limit: Option<Duration>) -> Result<Uri, RequestError> {
        let query = self.completed_query()?;
        let url = query.url(self.name.path(), limit.map(|limit| ("timeout", duration::to_text(limit))));
        Uri::try_from(url)
            .map_err(|error| RequestError::Invalid { problem: format!("the request's URL is invalid: {error}") })
    }

    /// Returns the query with the client's defaults of writes.
    fn completed_query(&self) -> Result<Cow<'_, Query>, RequestError> {
        let Some(defaults) = self.client.write_defaults().filter(|_| !self.proxied) else {
            return Ok(Cow::Borrowed(&self.query));
        };
        let media_type = self.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let request = WriteRequest {
            method: self.name.method(),
            is_apply: media_type.is_some_and(|media_type| media_type.starts_with(b"application/apply-patch+")),
            has_other_body: !self.has_dry_run_body && !self.payload.is_empty(),
        };
        defaults.complete(request, &self.query)
    }

    fn span(&self) -> Span {
        let base = self.client.config().server.base_path();
        let template = UrlTemplate { base, path: self.name.path(), query: &self.query };
        tracing::debug_span!(
            "evenkeel.request",
            method = %self.name.method(),
            url = %template,
            status = Empty,
            attempts = Empty,
        )
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("request", &self.name)
            .field("query", &self.query)
            .field("timeout", &self.timeout)
            .field("max_retries", &self.max_retries)
            .field("invalid", &self.invalid)
            .finish_non_exhaustive()
    }
}
