//! What passes between the fronts and the engine: a whole request in, a response (whole or streaming) out.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;

/// Who is asking, as authentication found it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The user's name.
    pub name: String,
    /// The user's uid; often empty.
    pub uid: String,
    /// The groups the user is in.
    pub groups: Vec<String>,
    /// Whatever else the authenticator knows.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// A request whose body has arrived whole.
#[derive(Debug)]
pub(crate) struct ApiRequest {
    pub(crate) method: http::Method,
    pub(crate) uri: http::Uri,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) user: User,
}

/// What the engine makes of a [`ApiRequest`].
pub(crate) enum HandlerOutcome {
    /// The answer; its body may be a stream.
    Response(http::Response<Body>),
    /// The call asks for state that is not there yet: hand it in again when the store has reached this revision, or
    /// after three seconds with `waited` set.
    AwaitRevision {
        /// The revision to wait for.
        revision: u64,
        /// How long the client gives the request, if it says so (URL-10).
        allotted: Option<Duration>,
    },
    /// More work than a thread should be held for: let others run, then go on with this.
    Unfinished(Box<dyn FnOnce() -> HandlerOutcome + Send>),
}

impl HandlerOutcome {
    /// The same with a last touch to the answer, whenever it comes.
    pub(crate) fn with(self, touch: impl FnOnce(&mut http::Response<Body>) + Send + 'static) -> HandlerOutcome {
        match self {
            HandlerOutcome::Response(mut answer) => {
                touch(&mut answer);
                HandlerOutcome::Response(answer)
            }
            HandlerOutcome::Unfinished(rest) => HandlerOutcome::Unfinished(Box::new(move || rest().with(touch))),
            waiting @ HandlerOutcome::AwaitRevision { .. } => waiting,
        }
    }
}

/// The body of a response.
///
/// A whole answer is one frame. A watch is a frame per event, whole; it ends when the watch does. A long list
/// is a frame per batch of items.
pub struct Body(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Stream(Pin<Box<dyn FrameStream>>),
}

/// A body that is made as it is read.
pub(crate) trait FrameStream: Send {
    /// The next frame, or `None` at the end. An error cuts the connection.
    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ConnectionCut>>>;
}

/// The stream ends here, in the middle, as if the connection had broken. Only faults do this.
///
/// Its source is an [`io::Error`] of the kind that a broken connection gives, so that a client in this process can treat
/// the one like the other.
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
    /// A body of these bytes.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Body(Kind::Whole((!bytes.is_empty()).then_some(bytes)))
    }

    pub(crate) fn stream(stream: impl FrameStream + 'static) -> Self {
        Body(Kind::Stream(Box::pin(stream)))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = ConnectionCut;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ConnectionCut>>> {
        match &mut self.get_mut().0 {
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Stream(stream) => {
                stream.as_mut().poll_frame(cx).map(|frame| frame.map(|bytes| bytes.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Kind::Whole(None))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => http_body::SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Kind::Stream(_) => http_body::SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Kind::Whole(bytes) => write!(f, "Body({} bytes)", bytes.as_ref().map_or(0, Bytes::len)),
            Kind::Stream(_) => f.write_str("Body(stream)"),
        }
    }
}
