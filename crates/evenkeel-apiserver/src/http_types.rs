//! The types between the listener and the engine: a buffered request, and a response whose body may be a stream.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use evenkeel_base::channels::BoxIo;
use http_body::Frame;

use crate::memory::{self, ConnectionMemory, MeteredBody};
use crate::outbound::OutboundCall;
use crate::request_state::RequestState;

/// An authenticated user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The user's name.
    pub name: String,
    /// The user's uid; often empty.
    pub uid: String,
    /// The groups the user is in.
    pub groups: Vec<String>,
    /// Further attributes from the authenticator.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// A request whose body is complete.
#[derive(Debug)]
pub(crate) struct ApiRequest {
    pub(crate) method: http::Method,
    pub(crate) uri: http::Uri,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) user: User,
    /// What the request keeps from one run to the next.
    pub(crate) state: RequestState,
}

/// The circumstances of a call of the handler.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HandlerCall {
    /// The wait for an [`HandlerOutcome::AwaitRevision`] has timed out.
    pub(crate) waited: bool,
    /// The call may take long: no other request waits for its thread.
    pub(crate) may_take_long: bool,
}

/// The result of handling an [`ApiRequest`].
pub(crate) enum HandlerOutcome {
    /// The response; its body may be a stream.
    Response(http::Response<Body>),
    /// The store has not reached the requested revision. The caller retries the request when the store reaches it, or
    /// after three seconds with `waited` set.
    AwaitRevision {
        /// The revision to wait for.
        revision: u64,
    },
    /// The connection is upgraded.
    Upgrade(Upgrade),
    /// The request is expensive, and nothing of it has been done. The caller passes it again with
    /// [`HandlerCall::may_take_long`].
    TakesLong,
    /// A long operation that yields. The caller lets other tasks run, then calls the continuation.
    Unfinished(Continuation),
    /// The request needs the results of calls. The caller makes them, keeps the results in [`ApiRequest::state`], then calls
    /// the continuation.
    NeedsCalls {
        /// The calls, which may be made at the same time.
        calls: Vec<OutboundCall>,
        /// Runs the request again, or the rest of it.
        then: Continuation,
    },
}

/// The rest of a request's handling.
pub(crate) type Continuation = Box<dyn FnOnce() -> HandlerOutcome + Send>;

impl HandlerOutcome {
    /// Changes the response when it is made.
    pub(crate) fn with(self, edit: impl FnOnce(&mut http::Response<Body>) + Send + 'static) -> HandlerOutcome {
        match self {
            HandlerOutcome::Response(mut response) => {
                edit(&mut response);
                HandlerOutcome::Response(response)
            }
            HandlerOutcome::Unfinished(rest) => HandlerOutcome::Unfinished(Box::new(move || rest().with(edit))),
            HandlerOutcome::NeedsCalls { calls, then } => {
                HandlerOutcome::NeedsCalls { calls, then: Box::new(move || then().with(edit)) }
            }
            other @ (HandlerOutcome::AwaitRevision { .. } | HandlerOutcome::Upgrade(_) | HandlerOutcome::TakesLong) => {
                other
            }
        }
    }
}

/// The response that upgrades a connection, and what runs on it.
pub(crate) struct Upgrade {
    /// The headers of the response.
    pub(crate) headers: http::HeaderMap,
    /// Runs on the upgraded connection until it ends.
    pub(crate) run: Box<dyn FnOnce(BoxIo) -> SessionFuture + Send>,
}

/// Runs on an upgraded connection until it ends.
pub(crate) type SessionFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The body of a response.
///
/// A buffered response is one frame. A watch is one frame per event and ends with the watch. A long list is one frame
/// per chunk of items.
pub struct Body(BodyKind);

enum BodyKind {
    Whole(Option<Bytes>),
    Stream(Pin<Box<dyn FrameStream>>),
    /// A stream that needs calls. The listener drives it, and no other code reads it.
    Calling(Box<dyn CallingStream>),
}

/// A body that needs the results of calls while it is produced.
pub(crate) trait CallingStream: Send {
    /// Returns the next step. After [`StreamStep::Calls`] the results are in [`CallingStream::state`] when it is polled again.
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<StreamStep>;

    /// Returns where the results of calls are kept.
    fn state(&self) -> &RequestState;
}

/// A step of a [`CallingStream`].
#[derive(Debug)]
pub(crate) enum StreamStep {
    Frame(Bytes),
    Calls(Vec<OutboundCall>),
    End,
}

/// A body that is produced while it is read.
pub(crate) trait FrameStream: Send {
    /// Returns the next frame, or `None` at the end. An error cuts the connection.
    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ConnectionCut>>>;
}

/// The body ends early, as if the connection had broken. Only injected faults do this.
///
/// Its source is the [`io::Error`] of a broken connection, so that an in-process client treats both alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionCut;

impl std::fmt::Display for ConnectionCut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection was cut by an injected fault")
    }
}

impl std::error::Error for ConnectionCut {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        static BROKEN: LazyLock<io::Error> = LazyLock::new(|| io::ErrorKind::UnexpectedEof.into());
        Some(&*BROKEN)
    }
}

impl Body {
    /// Returns a body of these bytes.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Body(BodyKind::Whole((!bytes.is_empty()).then_some(bytes)))
    }

    /// Returns the bytes, unless the body is a stream.
    pub(crate) fn as_whole(&self) -> Option<&Bytes> {
        static EMPTY: Bytes = Bytes::new();
        match &self.0 {
            BodyKind::Whole(bytes) => Some(bytes.as_ref().unwrap_or(&EMPTY)),
            BodyKind::Stream(_) | BodyKind::Calling(_) => None,
        }
    }

    /// Returns a body that needs calls while it is produced.
    pub(crate) fn calling(stream: impl CallingStream + 'static) -> Self {
        Body(BodyKind::Calling(Box::new(stream)))
    }

    /// Lets `drive` turn a body that needs calls into one that makes them.
    pub(crate) fn driven(self, drive: impl FnOnce(Box<dyn CallingStream>) -> Body) -> Self {
        match self.0 {
            BodyKind::Calling(stream) => drive(stream),
            other => Body(other),
        }
    }

    /// Counts the bytes of this body as in flight on a connection: those of a complete body now, those of a stream while it
    /// is encoded.
    pub(crate) fn metered(self, connection: &Arc<ConnectionMemory>) -> Self {
        match self.0 {
            BodyKind::Whole(bytes) => memory::charge_whole(bytes.unwrap_or_default(), connection),
            BodyKind::Stream(_) | BodyKind::Calling(_) => Body::stream(MeteredBody::new(self, Arc::clone(connection))),
        }
    }

    pub(crate) fn stream(stream: impl FrameStream + 'static) -> Self {
        Body(BodyKind::Stream(Box::pin(stream)))
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Body::whole(bytes)
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = ConnectionCut;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ConnectionCut>>> {
        match &mut self.get_mut().0 {
            BodyKind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            BodyKind::Stream(stream) => {
                stream.as_mut().poll_frame(cx).map(|frame| frame.map(|bytes| bytes.map(Frame::data)))
            }
            BodyKind::Calling(stream) => match stream.poll_step(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(StreamStep::Frame(bytes)) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Poll::Ready(StreamStep::Calls(_)) => Poll::Ready(Some(Err(ConnectionCut))),
                Poll::Ready(StreamStep::End) => Poll::Ready(None),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, BodyKind::Whole(None))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match &self.0 {
            BodyKind::Whole(bytes) => http_body::SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            BodyKind::Stream(_) | BodyKind::Calling(_) => http_body::SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            BodyKind::Whole(bytes) => write!(f, "Body({} bytes)", bytes.as_ref().map_or(0, Bytes::len)),
            BodyKind::Stream(_) | BodyKind::Calling(_) => f.write_str("Body(stream)"),
        }
    }
}
