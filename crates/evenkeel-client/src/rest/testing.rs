//! Answers for tests: literal ones, and bodies that come chunk by chunk.

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

use super::failure::Target;
use super::media::Codecs;
use super::reader::Reader;
use super::refusals::Refusals;
use super::stated_kind::stated_kind;
use super::warnings::{Warning, WarningHandler};
use crate::config::Limits;
use crate::error::CallName;
use crate::transport::{Body, BoxError};
use crate::wire::Form;

/// An answer with this code, media type (none if empty) and body.
pub(super) fn response(code: u16, content_type: &str, body: impl Into<Bytes>) -> Response<Body> {
    let builder = Response::builder().status(code);
    let builder = if content_type.is_empty() { builder } else { builder.header(CONTENT_TYPE, content_type) };
    builder.body(Body::full(body)).unwrap()
}

pub(super) fn with_header(mut response: Response<Body>, name: HeaderName, value: &str) -> Response<Body> {
    response.headers_mut().append(name, value.parse().unwrap());
    response
}

/// The object in this JSON, which says what it is, in protobuf.
pub(super) fn protobuf(json: &str) -> Vec<u8> {
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    let (api_version, kind) = stated_kind(&value).unwrap();
    Codec::Protobuf.encode(&value, ApiKind { api_version: &api_version, kind: &kind }).unwrap()
}

/// A call, and everything that a [`Reader`] needs for its answers.
pub(super) struct Scene {
    pub(super) call: CallName,
    pub(super) target: Target,
    pub(super) codecs: Codecs,
    pub(super) refusals: Arc<Refusals>,
    pub(super) limits: Limits,
    pub(super) heard: Arc<Heard>,
    handler: Arc<dyn WarningHandler>,
}

impl Scene {
    /// A call about the deployment `web`.
    pub(super) fn new(method: Method) -> Self {
        let heard = Arc::new(Heard::default());
        Scene {
            call: CallName::new(&method, "/apis/apps/v1/namespaces/default/deployments/web"),
            target: Target {
                group: "apps".into(),
                resource: "deployments".into(),
                name: "web".into(),
                subresource: "".into(),
            },
            codecs: Codecs::preferring(Form::Json),
            refusals: Arc::default(),
            limits: Limits::default(),
            handler: Arc::clone(&heard) as _,
            heard,
        }
    }

    pub(super) fn reader(&self) -> Reader<'_> {
        Reader {
            call: &self.call,
            host: "api.test",
            target: &self.target,
            codecs: self.codecs,
            refusals: &self.refusals,
            limits: &self.limits,
            warnings: [None, Some(&self.handler)],
        }
    }
}

/// Remembers the warnings that it hears.
#[derive(Debug, Default)]
pub(super) struct Heard(Mutex<Vec<String>>);

impl Heard {
    pub(super) fn texts(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl WarningHandler for Heard {
    fn warning(&self, warning: &Warning) {
        self.0.lock().unwrap().push(warning.text.clone());
    }
}

/// What a [`Script`] does next.
pub(super) enum Step {
    Chunk(Bytes),
    Trailers,
    /// Nothing yet; it can be polled again.
    Wait,
    /// Nothing, for ever.
    Hang,
    Fail(BoxError),
}

/// A body that does what it is told.
pub(super) struct Script {
    steps: VecDeque<Step>,
    watched: Arc<Watched>,
}

/// What happens to a [`Script`].
#[derive(Debug, Default)]
pub(super) struct Watched {
    polled: AtomicUsize,
    dropped: AtomicUsize,
}

impl Watched {
    /// How many steps have been asked for.
    pub(super) fn polled(&self) -> usize {
        self.polled.load(Ordering::SeqCst)
    }

    pub(super) fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }
}

impl Script {
    pub(super) fn body(steps: impl IntoIterator<Item = Step>) -> (Body, Arc<Watched>) {
        let watched = Arc::new(Watched::default());
        let script = Script { steps: steps.into_iter().collect(), watched: Arc::clone(&watched) };
        (Body::new(script), watched)
    }

    /// A body of these chunks.
    pub(super) fn chunks<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Body {
        Script::body(chunks.into_iter().map(|chunk| Step::Chunk(Bytes::copy_from_slice(chunk)))).0
    }
}

impl http_body::Body for Script {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.watched.polled.fetch_add(1, Ordering::SeqCst);
        match self.steps.pop_front() {
            None => Poll::Ready(None),
            Some(Step::Chunk(chunk)) => Poll::Ready(Some(Ok(Frame::data(chunk)))),
            Some(Step::Trailers) => Poll::Ready(Some(Ok(Frame::trailers(http::HeaderMap::new())))),
            Some(Step::Wait) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Some(Step::Hang) => {
                self.steps.push_front(Step::Hang);
                Poll::Pending
            }
            Some(Step::Fail(error)) => Poll::Ready(Some(Err(error))),
        }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.watched.dropped.fetch_add(1, Ordering::SeqCst);
    }
}
