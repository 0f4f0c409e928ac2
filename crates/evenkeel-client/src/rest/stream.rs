//! Answers that come piece by piece: [`List`], [`WatchStream`], [`ByteStream`].

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use evenkeel_core::{ListMeta, Obj, StreamError, WatchDecoder, WatchEvent};
use futures_core::Stream;
use http_body::Body as _;

use crate::error::{CallName, Error};
use crate::transport::{Body, BoxError, TransportError, TransportFault};

/// A list, or a page of one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct List<K> {
    /// The objects, in the server's order.
    pub items: Vec<Obj<K>>,
    /// What the list says of itself: its version, and where the next page begins.
    pub meta: ListMeta,
}

impl<K> IntoIterator for List<K> {
    type Item = Obj<K>;
    type IntoIter = std::vec::IntoIter<Obj<K>>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<'a, K> IntoIterator for &'a List<K> {
    type Item = &'a Obj<K>;
    type IntoIter = std::slice::Iter<'a, Obj<K>>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

/// How a watch ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum WatchEnd {
    /// The server ended it, between two events. Servers do so every now and then; watch again from the last version.
    Closed,
    /// The connection was lost, perhaps in the middle of an event. Watch again from the last version.
    Lost(TransportError),
    /// What came could not be understood, and what would have come behind it is lost too.
    Garbled(StreamError),
}

/// A watch: events as they come.
///
/// Events come in the server's order. Nothing is read ahead of what is asked for but what the connection's window holds,
/// so a slow reader slows the server down. Dropping it ends the watch.
///
/// An event that makes no sense is an `Err`, and the watch goes on. When [`next`](Self::next) has returned `None`,
/// [`end`](Self::end) says why.
#[derive(Debug)]
pub struct WatchStream<K> {
    call: CallName,
    decoder: Option<WatchDecoder<K>>,
    body: Body,
    end: Option<WatchEnd>,
}

impl<K> WatchStream<K> {
    pub(crate) fn new(call: CallName, decoder: WatchDecoder<K>, body: Body) -> Self {
        WatchStream { call, decoder: Some(decoder), body, end: None }
    }

    /// The next event; `None` when the watch has ended. May be dropped and called again: no event is lost.
    pub async fn next(&mut self) -> Option<Result<WatchEvent<K>, Error>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// How the watch ended, once it has.
    pub fn end(&self) -> Option<&WatchEnd> {
        self.end.as_ref()
    }
}

impl<K> Stream for WatchStream<K> {
    type Item = Result<WatchEvent<K>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            let Some(decoder) = &mut this.decoder else { return Poll::Ready(None) };
            match decoder.next_event() {
                Ok(Some(event)) => return Poll::Ready(Some(Ok(event))),
                Ok(None) => {}
                Err(source) if source.is_fatal() => {
                    this.decoder = None;
                    this.end = Some(WatchEnd::Garbled(source));
                    return Poll::Ready(None);
                }
                Err(source) => return Poll::Ready(Some(Err(Error::Stream { call: this.call.clone(), source }))),
            }
            match std::task::ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => {
                    if let Ok(chunk) = frame.into_data() {
                        decoder.push(chunk);
                    }
                }
                Some(Err(error)) => {
                    this.decoder = None;
                    this.end = Some(WatchEnd::Lost(transport_error(error)));
                }
                None => {
                    let finished = this.decoder.take().map_or(Ok(()), WatchDecoder::finish);
                    this.end = Some(match finished {
                        Ok(()) => WatchEnd::Closed,
                        Err(error) => WatchEnd::Lost(TransportError::new(TransportFault::Closed, "the server", error)),
                    });
                }
            }
        }
    }
}

fn transport_error(error: BoxError) -> TransportError {
    match error.downcast::<TransportError>() {
        Ok(error) => *error,
        Err(error) => TransportError::new(TransportFault::Other, "the server", error),
    }
}

/// The bytes of an answer as they come, such as a log that is followed. Dropping it ends the request.
#[derive(Debug)]
pub struct ByteStream {
    call: CallName,
    body: Body,
}

impl ByteStream {
    pub(crate) fn new(call: CallName, body: Body) -> Self {
        ByteStream { call, body }
    }

    /// The next bytes; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for ByteStream {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match std::task::ready!(Pin::new(&mut self.body).poll_frame(context)) {
                None => return Poll::Ready(None),
                Some(Ok(frame)) => {
                    if let Ok(chunk) = frame.into_data() {
                        return Poll::Ready(Some(Ok(chunk)));
                    }
                }
                Some(Err(error)) => {
                    let source = transport_error(error);
                    return Poll::Ready(Some(Err(Error::Transport {
                        call: self.call.clone(),
                        source,
                        previous: None,
                    })));
                }
            }
        }
    }
}
