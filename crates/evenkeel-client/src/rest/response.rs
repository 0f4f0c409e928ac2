//! [`Response`]: a successful response, read to its end; and [`ResponseReader`], which decodes responses.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_core::codec::{Codec, ListDecoder, WatchDecoder};
use evenkeel_core::{DecodeError, Obj, ResourceInfo, Status};
use http::header::CONTENT_TYPE;
use http::{StatusCode, response};
use serde::de::DeserializeOwned;

use super::body::BodyReader;
use super::list::{List, ListStream};
use super::media::{Codecs, MediaError, to_json};
use super::protobuf_fallback::{ProtobufFallback, ProtobufGuard};
use super::sanitize::escaped;
use super::status_error::{RequestTarget, failure_in, is_failure, malformed_response, status_error};
use super::stream::{ByteStream, WatchStream};
use super::warnings::{self, Warning, WarningHandler};
use crate::config::Limits;
use crate::error::{Error, RequestName};
use crate::transport::Body;

/// A successful response, read to its end. Every other response is an [`Error`].
///
/// `Debug` shows the size of the body, never its bytes.
pub struct Response {
    request: RequestName,
    head: response::Parts,
    body: Bytes,
    codec: Result<Codec, MediaError>,
    /// Whether it is the response of a subresource, such as a scale, which may be of any kind.
    is_subresource: bool,
    guard: Option<ProtobufGuard>,
}

impl Response {
    /// Returns the HTTP status: 200, 201 or another 2xx.
    pub fn status(&self) -> StatusCode {
        self.head.status
    }

    /// Returns whether the request created the object.
    pub fn was_created(&self) -> bool {
        self.head.status == StatusCode::CREATED
    }

    /// Returns the headers.
    pub fn headers(&self) -> &http::HeaderMap {
        &self.head.headers
    }

    /// Returns the `Content-Type`, if there is one in ASCII.
    pub fn content_type(&self) -> Option<&str> {
        self.head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok())
    }

    /// Returns the server's warnings. The [handler](super::WarningHandler) has received them already.
    pub fn warnings(&self) -> Vec<Warning> {
        warnings::parse(&self.head.headers)
    }

    /// Returns the body, encoded as [`content_type`](Self::content_type) states.
    pub fn bytes(&self) -> &Bytes {
        &self.body
    }

    /// Decodes the body as an object.
    ///
    /// The object must be of the requested kind. An object without a kind is accepted, as is the metadata of an object (if
    /// that was requested), and a subresource of any kind. A `Status` is an error: the one that it states, if it states a
    /// failure.
    pub fn object<K>(self, info: &Arc<ResourceInfo>) -> Result<Obj<K>, Error> {
        let codec = self.codec(info.kind())?;
        match Obj::decode(codec, info, self.body.clone()) {
            Ok(object) if self.is_subresource || is_of_kind(&object, info) => Ok(object),
            decoded => Err(self.mismatch(codec, info, decoded.map(|object| name_of(&object)))),
        }
    }

    /// Decodes the body as a list.
    pub fn list<K>(self, info: &Arc<ResourceInfo>) -> Result<List<K>, Error> {
        let unreadable = |source| {
            ProtobufGuard::check_stream(self.guard.as_ref(), &source);
            Error::Stream { request: self.request.clone(), source }
        };
        let codec = self.codec(info.kind())?;
        let mut decoder = ListDecoder::new(codec, Arc::clone(info));
        decoder.push(self.body.clone());
        let mut items = Vec::new();
        while let Some(item) = decoder.next_item().map_err(unreadable)? {
            items.push(item);
        }
        let meta = decoder.finish().map_err(|source| {
            ProtobufGuard::check_end(self.guard.as_ref(), &source);
            Error::Stream { request: self.request.clone(), source }
        })?;
        Ok(List { items, meta })
    }

    /// Decodes the `Status` that a request without an object returns, such as some deletes; `None` if the body is anything
    /// else. A `Status` that states a failure is that error.
    pub fn decode_status(&self) -> Result<Option<Status>, Error> {
        let status = self.codec("Status")?.decode_status(&self.body);
        match status {
            Some(status) if is_failure(&status) => {
                Err(Error::Api { request: self.request.clone(), status: Box::new(status) })
            }
            other => Ok(other),
        }
    }

    /// Decodes the body into any type that can be deserialized from JSON, whatever its encoding. A protobuf message without a
    /// known kind cannot be decoded.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let what = std::any::type_name::<T>();
        let json = to_json(self.codec(what)?, &self.body).map_err(|problem| {
            self.guard.iter().for_each(ProtobufGuard::fall_back);
            self.unreadable(format!("it is no {what}: {problem}"))
        })?;
        serde_json::from_slice(&json).map_err(|error| {
            self.unreadable(format!("it is no {what} (line {}, column {})", error.line(), error.column()))
        })
    }

    /// The codec for the body, which must not be empty.
    fn codec(&self, expected: &str) -> Result<Codec, Error> {
        if self.body.is_empty() {
            return Err(self.unreadable(format!("0-length body instead of {expected}")));
        }
        self.codec.clone().map_err(|error| self.unreadable(error.to_string()))
    }

    /// The codec for the body, if there is a body and a codec for it.
    pub(crate) fn known_codec(&self) -> Option<Codec> {
        self.codec.as_ref().ok().copied().filter(|_| !self.body.is_empty())
    }

    #[cold]
    fn mismatch(self, codec: Codec, info: &ResourceInfo, decoded: Result<String, DecodeError>) -> Error {
        if let Some(status) = failure_in(codec, &self.body) {
            return Error::Api { request: self.request, status: Box::new(status) };
        }
        if let Err(error) = &decoded {
            ProtobufGuard::check(self.guard.as_ref(), error);
        }
        let source = decoded.map_or_else(
            |error| error,
            |found| DecodeError::OtherKind {
                expected: full_name(info.api_version(), info.kind()).into(),
                found: found.into(),
            },
        );
        Error::Decode { request: self.request, source }
    }

    #[cold]
    pub(crate) fn unreadable(&self, problem: String) -> Error {
        Error::Unreadable { request: self.request.clone(), problem }
    }
}

/// Returns whether an object is of the requested kind, or the metadata of one.
fn is_of_kind<K>(object: &Obj<K>, info: &ResourceInfo) -> bool {
    let is_kind = object.kind() == info.kind() && object.api_version() == info.api_version();
    is_kind || (object.kind() == "PartialObjectMetadata" && object.api_version().starts_with("meta.k8s.io/"))
}

fn name_of<K>(object: &Obj<K>) -> String {
    escaped(full_name(object.api_version(), object.kind()).as_bytes(), 256)
}

/// `apps/v1 Deployment`.
fn full_name(api_version: &str, kind: &str) -> String {
    format!("{api_version} {kind}")
}

impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Response({}: {}, {} bytes)", self.request, self.head.status, self.body.len())
    }
}

/// Decodes the responses to one request.
///
/// A 2xx status is a success, everything else an error. Warnings are delivered once, and only if the response has an encoding
/// that the client reads: otherwise it is not from an API server.
#[derive(Clone, Copy)]
pub(super) struct ResponseReader<'a> {
    pub(super) request: &'a RequestName,
    pub(super) host: &'a str,
    pub(super) target: &'a RequestTarget,
    pub(super) codecs: Codecs,
    pub(super) fallback: &'a Arc<ProtobufFallback>,
    pub(super) limits: &'a Limits,
    /// The handlers of the request and of the client. The first one that is set receives the warnings, else the process-wide
    /// default.
    pub(super) warnings: [Option<&'a Arc<dyn WarningHandler>>; 2],
}

impl<'a> ResponseReader<'a> {
    /// Reads a response to its end.
    pub(super) async fn whole(self, response: http::Response<Body>) -> Result<Response, Error> {
        let (head, body) = self.success(response).await?;
        let codec = match self.codecs.of_response(&head.headers) {
            Err(malformed @ MediaError::Malformed(_)) => return Err(malformed_response(self.request, &malformed)),
            codec => codec,
        };
        self.warn(&head);
        let body = self.body(body).whole(self.limits.object).await?;
        let guard = codec.as_ref().ok().and_then(|codec| self.guard(*codec));
        let is_subresource = self.target.is_other_kind();
        Ok(Response { request: self.request.clone(), head, body, codec, is_subresource, guard })
    }

    /// Reads a list, decoding items as they arrive. Returns it with its size in bytes. One item that is no object fails the
    /// list.
    pub(super) async fn list<K>(
        self,
        info: &Arc<ResourceInfo>,
        response: http::Response<Body>,
    ) -> Result<(List<K>, usize), Error> {
        let (head, body) = self.success(response).await?;
        let codec = self.codec(&head, self.codecs.of_response(&head.headers))?;
        let guard = self.guard(codec);
        let unreadable = |source| {
            ProtobufGuard::check_stream(guard.as_ref(), &source);
            Error::Stream { request: self.request.clone(), source }
        };
        let mut decoder = ListDecoder::<K>::new(codec, Arc::clone(info)).max_item_bytes(self.limits.frame);
        let mut items = Vec::new();
        let mut body = self.body(body);
        while let Some(chunk) = body.chunk(self.limits.list).await? {
            decoder.push(chunk);
            while let Some(item) = decoder.next_item().map_err(unreadable)? {
                items.push(item);
            }
        }
        let received = body.received();
        if received == 0 {
            let problem = format!("0-length body instead of a list of {}", info.kind());
            return Err(Error::Unreadable { request: self.request.clone(), problem });
        }
        let meta = decoder.finish().map_err(|source| {
            ProtobufGuard::check_end(guard.as_ref(), &source);
            Error::Stream { request: self.request.clone(), source }
        })?;
        Ok((List { items, meta }, received))
    }

    /// Starts reading a list item by item.
    pub(super) async fn list_stream<K>(
        self,
        info: &Arc<ResourceInfo>,
        response: http::Response<Body>,
    ) -> Result<ListStream<K>, Error> {
        let (head, body) = self.success(response).await?;
        let codec = self.codec(&head, self.codecs.of_response(&head.headers))?;
        let decoder = ListDecoder::new(codec, Arc::clone(info)).max_item_bytes(self.limits.frame);
        Ok(ListStream::new(self.request, self.host, decoder, body, self.limits.list, self.guard(codec)))
    }

    /// Starts reading a watch.
    pub(super) async fn watch<K>(
        self,
        info: &Arc<ResourceInfo>,
        response: http::Response<Body>,
    ) -> Result<WatchStream<K>, Error> {
        let (head, body) = self.success(response).await?;
        let codec = self.codec(&head, self.codecs.of_watch(&head.headers))?;
        let decoder = WatchDecoder::new(codec, Arc::clone(info)).max_event_bytes(self.limits.frame);
        Ok(WatchStream::new(self.request.clone(), decoder, body, self.guard(codec)))
    }

    /// Starts reading bytes of any media type.
    pub(super) async fn stream(self, response: http::Response<Body>) -> Result<ByteStream, Error> {
        let (head, body) = self.success(response).await?;
        self.warn(&head);
        Ok(ByteStream::new(self.request.clone(), body))
    }

    /// Converts a response that is no success, of whose body this much was read.
    pub(super) fn status_error(self, head: &response::Parts, body: &[u8]) -> Error {
        status_error(self.request, self.target, &self.codecs, head, body)
    }

    /// Returns the response if it is a success, else its error.
    async fn success(self, response: http::Response<Body>) -> Result<(response::Parts, Body), Error> {
        let (head, body) = response.into_parts();
        if head.status.is_success() {
            return Ok((head, body));
        }
        let body = self.body(body).prefix(self.limits.error).await?;
        if self.codecs.of_response(&head.headers).is_ok() {
            self.warn(&head);
        }
        Err(self.status_error(&head, &body))
    }

    /// The codec of a success. A response without one is an error.
    fn codec(self, head: &response::Parts, codec: Result<Codec, MediaError>) -> Result<Codec, Error> {
        match codec {
            Ok(codec) => {
                self.warn(head);
                Ok(codec)
            }
            Err(malformed @ MediaError::Malformed(_)) => Err(malformed_response(self.request, &malformed)),
            Err(unknown) => Err(Error::Unreadable { request: self.request.clone(), problem: unknown.to_string() }),
        }
    }

    /// The guard for a response in protobuf.
    fn guard(self, codec: Codec) -> Option<ProtobufGuard> {
        let is_protobuf = codec != Codec::Json;
        // A proxied program and a raw path say nothing about a resource.
        let is_resource = !self.target.resource.is_empty() && &*self.target.subresource != "proxy";
        let RequestTarget { group, resource, .. } = self.target;
        (is_protobuf && is_resource).then(|| ProtobufGuard::new(self.fallback, group, resource))
    }

    fn warn(self, head: &response::Parts) {
        warnings::deliver(&head.headers, self.warnings);
    }

    fn body(self, body: Body) -> BodyReader<'a> {
        BodyReader::new(self.request, self.host, body)
    }
}

#[cfg(test)]
mod tests;
