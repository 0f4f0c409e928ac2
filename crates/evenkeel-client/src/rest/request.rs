//! [`Request`]: one call, from its parts to its answer.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use evenkeel_core::{ListDecoder, ResourceInfo, WatchDecoder};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};
use http_body_util::BodyExt;
use serde::Serialize;

use super::answer::Answer;
use super::path::{Path, RequestError};
use super::stream::{ByteStream, List, WatchStream};
use crate::client::Client;
use crate::error::{CallName, Error};
use crate::transport::{Body, BoxError, Lane, TransportError, TransportFault};

/// One call.
///
/// Made by [`Client::request`]; sent by one of [`send`](Self::send), [`list`](Self::list), [`stream`](Self::stream) and
/// [`watch`](Self::watch), as often as wanted, also at the same time. The first mistake in building it is remembered and
/// returned by those; nothing is sent then.
#[derive(Clone, Debug)]
pub struct Request {
    client: Client,
    method: Method,
    path: String,
    query: Vec<(Cow<'static, str>, String)>,
    headers: HeaderMap,
    body: Bytes,
    fault: Option<RequestError>,
}

impl Request {
    pub(crate) fn new(client: &Client, method: Method, path: Path<'_>) -> Self {
        let (path, fault) = match path.build(client.config().server.base_path()) {
            Ok(path) => (path, None),
            Err(fault) => (String::new(), Some(fault)),
        };
        Request {
            client: client.clone(),
            method,
            path,
            query: Vec::new(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            fault,
        }
    }

    /// Remembers a mistake in how the request was put together, unless there is one already.
    pub(crate) fn fault(mut self, fault: RequestError) -> Self {
        self.fault.get_or_insert(fault);
        self
    }

    /// Adds a parameter to the query; the same name may come more than once.
    pub fn query(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        self.query.push((name.into(), value.into()));
        self
    }

    /// Sets a header, replacing what was there.
    pub fn header(mut self, name: HeaderName, value: &str) -> Self {
        match HeaderValue::from_str(value) {
            Ok(value) => {
                self.headers.insert(name, value);
            }
            Err(error) => {
                let fault = RequestError::Header { name: name.as_str().to_owned(), problem: error.to_string() };
                self.fault.get_or_insert(fault);
            }
        }
        self
    }

    /// The media types to answer in; JSON unless set.
    pub fn accept(self, media_types: &str) -> Self {
        self.header(ACCEPT, media_types)
    }

    /// Sends these bytes, which are of this media type.
    pub fn body(mut self, bytes: impl Into<Bytes>, media_type: &'static str) -> Self {
        self.body = bytes.into();
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        self
    }

    /// Sends this value as JSON.
    pub fn json<T: Serialize + ?Sized>(mut self, value: &T) -> Self {
        match serde_json::to_vec(value) {
            Ok(bytes) => self.body(bytes, "application/json"),
            Err(error) => {
                let what = std::any::type_name::<T>().to_owned();
                self.fault.get_or_insert(RequestError::Body { what, problem: error.to_string() });
                self
            }
        }
    }

    /// Sends the request and reads the whole answer.
    pub async fn send(&self) -> Result<Answer, Error> {
        let (parts, body) = self.exchange(Lane::Calls).await?.into_parts();
        let bytes = body.collect().await.map_err(|error| self.lost(error))?.to_bytes();
        Answer::read(self.call(), parts, bytes)
    }

    /// Sends the request and reads the answer as a list, item by item as it comes in.
    pub async fn list<K>(&self, info: &Arc<ResourceInfo>) -> Result<List<K>, Error> {
        let (parts, mut body) = self.exchange(Lane::Calls).await?.into_parts();
        if !parts.status.is_success() {
            let bytes = body.collect().await.map_err(|error| self.lost(error))?.to_bytes();
            return Err(Answer::failure(self.call(), &parts, &bytes));
        }
        let unreadable = |source| Error::Stream { call: self.call(), source };
        let mut decoder = ListDecoder::<K>::new(Arc::clone(info));
        let mut items = Vec::new();
        while let Some(frame) = body.frame().await {
            if let Ok(chunk) = frame.map_err(|error| self.lost(error))?.into_data() {
                decoder.push(chunk);
                while let Some(item) = decoder.next_item().map_err(unreadable)? {
                    items.push(item);
                }
            }
        }
        Ok(List { items, meta: decoder.finish().map_err(unreadable)? })
    }

    /// Sends the request and hands out the answer's bytes as they come, for as long as they come.
    pub async fn stream(&self) -> Result<ByteStream, Error> {
        let (parts, body) = self.exchange(Lane::Streams).await?.into_parts();
        if !parts.status.is_success() {
            let bytes = body.collect().await.map_err(|error| self.lost(error))?.to_bytes();
            return Err(Answer::failure(self.call(), &parts, &bytes));
        }
        Ok(ByteStream::new(self.call(), body))
    }

    /// Sends the request, which asks for a watch, and hands out its events.
    pub async fn watch<K>(&self, info: &Arc<ResourceInfo>) -> Result<WatchStream<K>, Error> {
        let (parts, body) = self.exchange(Lane::Streams).await?.into_parts();
        if !parts.status.is_success() {
            let bytes = body.collect().await.map_err(|error| self.lost(error))?.to_bytes();
            return Err(Answer::failure(self.call(), &parts, &bytes));
        }
        Ok(WatchStream::new(self.call(), WatchDecoder::new(Arc::clone(info)), body))
    }

    fn call(&self) -> CallName {
        CallName::new(&self.method, &self.path)
    }

    fn lost(&self, error: BoxError) -> Error {
        let source = match error.downcast::<TransportError>() {
            Ok(error) => *error,
            Err(error) => TransportError::new(TransportFault::Other, self.client.config().server.host(), error),
        };
        Error::Transport { call: self.call(), source, previous: None }
    }

    async fn exchange(&self, lane: Lane) -> Result<http::Response<Body>, Error> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone().into());
        }
        let mut request = http::Request::new(Body::full(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri()?;
        *request.headers_mut() = self.headers.clone();
        if !request.headers().contains_key(ACCEPT) {
            request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        }
        if lane == Lane::Streams {
            request.extensions_mut().insert(lane);
        }
        self.client.transport().send(request).await.map_err(|error| self.lost(error))
    }

    fn uri(&self) -> Result<Uri, Error> {
        let mut target = self.path.clone();
        if !self.query.is_empty() {
            target.push('?');
            let start = target.len();
            let mut pairs = form_urlencoded::Serializer::for_suffix(target, start);
            pairs.extend_pairs(&self.query);
            target = pairs.finish();
        }
        target.parse().map_err(|error: http::uri::InvalidUri| {
            RequestError::Invalid { problem: format!("the request's URL cannot be used: {error}") }.into()
        })
    }
}
