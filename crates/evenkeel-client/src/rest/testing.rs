//! Responses for tests: literal ones, and scripted bodies.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use evenkeel_core::codec::{ApiKind, Codec};
use http::header::{CONTENT_TYPE, HeaderName};
use http::{Method, Response};
use http_body::Frame;

use super::media::Codecs;
use super::protobuf_fallback::ProtobufFallback;
use super::response::ResponseReader;
use super::status_error::RequestTarget;
use super::type_meta::type_meta;
use super::warnings::{Warning, WarningHandler};
use crate::config::Limits;
use crate::error::RequestName;
use crate::transport::{Body, BoxError};

/// A response with this code, media type (none if empty) and body.
pub(super) fn response(code: u16, content_type: &str, body: impl Into<Bytes>) -> Response<Body> {
    let builder = Response::builder().status(code);
    let builder = if content_type.is_empty() { builder } else { builder.header(CONTENT_TYPE, content_type) };
    builder.body(Body::full(body)).unwrap()
}

pub(super) fn with_header(mut response: Response<Body>, name: HeaderName, value: &str) -> Response<Body> {
    response.headers_mut().append(name, value.parse().unwrap());
    response
}

/// Encodes the object in this JSON as protobuf.
pub(super) fn protobuf(json: &str) -> Vec<u8> {
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    let (api_version, kind) = type_meta(&value).unwrap();
    Codec::Protobuf.encode(&value, ApiKind { api_version: &api_version, kind: &kind }).unwrap()
}

/// A request, and everything that a [`ResponseReader`] needs for its responses.
pub(super) struct ReaderFixture {
    pub(super) request: RequestName,
    pub(super) target: RequestTarget,
    pub(super) codecs: Codecs,
    pub(super) fallback: Arc<ProtobufFallback>,
    pub(super) limits: Limits,
    pub(super) warnings: Arc<RecordedWarnings>,
    handler: Arc<dyn WarningHandler>,
}

impl ReaderFixture {
    /// A request for the deployment `web`.
    pub(super) fn new(method: Method) -> Self {
        let warnings = Arc::new(RecordedWarnings::default());
        ReaderFixture {
            request: RequestName::new(&method, "/apis/apps/v1/namespaces/default/deployments/web"),
            target: RequestTarget {
                group: "apps".into(),
                resource: "deployments".into(),
                name: "web".into(),
                subresource: "".into(),
            },
            codecs: Codecs::preferring(Codec::Json),
            fallback: Arc::default(),
            limits: Limits::default(),
            handler: Arc::clone(&warnings) as _,
            warnings,
        }
    }

    pub(super) fn reader(&self) -> ResponseReader<'_> {
        ResponseReader {
            request: &self.request,
            host: "api.test",
            target: &self.target,
            codecs: self.codecs,
            fallback: &self.fallback,
            limits: &self.limits,
            warnings: [None, Some(&self.handler)],
        }
    }
}

/// Records warnings.
#[derive(Debug, Default)]
pub(super) struct RecordedWarnings(Mutex<Vec<String>>);

impl RecordedWarnings {
    pub(super) fn texts(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl WarningHandler for RecordedWarnings {
    fn warning(&self, warning: &Warning) {
        self.0.lock().unwrap().push(warning.text.clone());
    }
}

/// The next action of a [`Script`].
pub(super) enum BodyStep {
    Chunk(Bytes),
    Trailers,
    /// Pending once.
    Wait,
    /// Pending forever.
    Hang,
    Fail(BoxError),
}

/// A scripted body.
pub(super) struct Script {
    steps: VecDeque<BodyStep>,
    watched: Arc<Watched>,
}

/// Counters of a [`Script`].
#[derive(Debug, Default)]
pub(super) struct Watched {
    polled: AtomicUsize,
    dropped: AtomicUsize,
}

impl Watched {
    /// How many steps have been polled.
    pub(super) fn polled(&self) -> usize {
        self.polled.load(Ordering::SeqCst)
    }

    pub(super) fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }
}

impl Script {
    pub(super) fn body(steps: impl IntoIterator<Item = BodyStep>) -> (Body, Arc<Watched>) {
        let watched = Arc::new(Watched::default());
        let script = Script { steps: steps.into_iter().collect(), watched: Arc::clone(&watched) };
        (Body::new(script), watched)
    }

    /// A body of these chunks.
    pub(super) fn chunks<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Body {
        Script::body(chunks.into_iter().map(|chunk| BodyStep::Chunk(Bytes::copy_from_slice(chunk)))).0
    }
}

impl http_body::Body for Script {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.watched.polled.fetch_add(1, Ordering::SeqCst);
        match self.steps.pop_front() {
            None => Poll::Ready(None),
            Some(BodyStep::Chunk(chunk)) => Poll::Ready(Some(Ok(Frame::data(chunk)))),
            Some(BodyStep::Trailers) => Poll::Ready(Some(Ok(Frame::trailers(http::HeaderMap::new())))),
            Some(BodyStep::Wait) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Some(BodyStep::Hang) => {
                self.steps.push_front(BodyStep::Hang);
                Poll::Pending
            }
            Some(BodyStep::Fail(error)) => Poll::Ready(Some(Err(error))),
        }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.watched.dropped.fetch_add(1, Ordering::SeqCst);
    }
}
