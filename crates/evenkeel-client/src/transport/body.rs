//! [`Body`]: the body of a request or a response.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;

use super::error::BoxError;

/// The body of a request or a response: empty, in memory, or a stream.
///
/// `Debug` shows sizes, never bytes.
#[derive(Default)]
pub struct Body(Kind);

#[derive(Default)]
enum Kind {
    #[default]
    Empty,
    Full(Bytes),
    Stream(UnsyncBoxBody<Bytes, BoxError>),
}

impl Body {
    /// Returns an empty body.
    pub fn empty() -> Self {
        Body(Kind::Empty)
    }

    /// Returns a body of these bytes.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Body(Kind::Full(bytes.into()))
    }

    /// Wraps another body. A `Body` is returned as it is.
    pub fn new<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let mut slot = Some(body);
        if let Some(own) = (&mut slot as &mut dyn std::any::Any).downcast_mut::<Option<Body>>() {
            return own.take().unwrap_or_default();
        }
        slot.map_or_else(Body::empty, |body| Body(Kind::Stream(body.map_err(Into::into).boxed_unsync())))
    }

    /// Returns a copy if the bytes are in memory.
    pub(crate) fn try_clone(&self) -> Option<Body> {
        match &self.0 {
            Kind::Empty => Some(Body(Kind::Empty)),
            Kind::Full(bytes) => Some(Body(Kind::Full(bytes.clone()))),
            Kind::Stream(_) => None,
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Kind::Empty => Poll::Ready(None),
            Kind::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                self.0 = Kind::Empty;
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Kind::Stream(stream) => Pin::new(stream).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Empty => true,
            Kind::Full(bytes) => bytes.is_empty(),
            Kind::Stream(stream) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Stream(stream) => stream.size_hint(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.size_hint().exact() {
            Some(size) => write!(f, "Body({size} bytes)"),
            None => f.write_str("Body(a stream)"),
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Body::full(bytes)
    }
}
