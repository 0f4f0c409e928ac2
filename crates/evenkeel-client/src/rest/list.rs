//! [`List`] and [`ListStream`]: a list that was read, and one that is decoded while it arrives.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use evenkeel_core::codec::ListDecoder;
use evenkeel_core::{ListMeta, Obj, ResourceVersion};
use futures_core::{FusedStream, Stream};
use http_body::Body as _;
use tokio::time::{Instant, Sleep, sleep_until};

use super::body::body_error;
use super::execute::{ReadDeadline, with_previous};
use super::metrics::Recorder;
use super::protobuf_fallback::ProtobufGuard;
use crate::error::{Error, RequestName};
use crate::transport::Body;

/// A list, or a page of one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct List<K> {
    /// The objects, in the server's order.
    pub items: Vec<Obj<K>>,
    /// The metadata of the list: its resource version, and the continue token of the next page.
    pub meta: ListMeta,
}

impl<K> List<K> {
    /// Iterates over the objects, in the server's order.
    pub fn iter(&self) -> std::slice::Iter<'_, Obj<K>> {
        self.items.iter()
    }

    /// Returns the number of objects on this page.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether this page has no objects. More pages may follow even so.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the resource version of the list, to start a watch from.
    pub fn resource_version(&self) -> &ResourceVersion {
        &self.meta.resource_version
    }

    /// Returns the continue token of the next page; `None` on the last page.
    pub fn continue_token(&self) -> Option<&str> {
        Some(self.meta.continue_token.as_str()).filter(|token| !token.is_empty())
    }
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

/// A list, or a page of one, decoded item by item while it arrives. Dropping it cancels the request.
///
/// - Items are in the server's order. The stream reads at most one chunk ahead: the list is never in memory as a whole.
/// - An item that cannot be decoded is an `Err` whose [`StreamError`](evenkeel_core::StreamError) is not
///   [fatal](evenkeel_core::StreamError::is_fatal), and the other items follow. See [`Error::is_about_one_item`].
/// - Any other error ends the stream.
/// - Once [`next`](Self::next) has returned `None` it always does. [`meta`](Self::meta) then returns the metadata of the
///   list, unless the list broke off: a list without metadata is not complete.
#[derive(Debug)]
pub struct ListStream<K> {
    request: RequestName,
    /// `None` once the list has ended.
    decoder: Option<ListDecoder<K>>,
    body: Body,
    received: usize,
    limit: usize,
    meta: Option<ListMeta>,
    timing: ListTiming,
    guard: Option<ProtobufGuard>,
}

/// The deadline and the metrics of a list.
#[derive(Debug)]
struct ListTiming {
    host: Box<str>,
    time: Option<ReadDeadline>,
    sleep: Option<Pin<Box<Sleep>>>,
    metrics: Option<(Recorder, Instant)>,
}

impl<K> ListStream<K> {
    /// A list of at most `limit` bytes, from this host.
    pub(super) fn new(
        request: &RequestName,
        host: &str,
        decoder: ListDecoder<K>,
        body: Body,
        limit: usize,
        guard: Option<ProtobufGuard>,
    ) -> Self {
        let timing = ListTiming { host: host.into(), time: None, sleep: None, metrics: None };
        ListStream {
            request: request.clone(),
            decoder: Some(decoder),
            body,
            received: 0,
            limit,
            meta: None,
            timing,
            guard,
        }
    }

    /// Adds a deadline, and the metrics of a request that was started at this time.
    pub(super) fn timed(mut self, time: ReadDeadline, metrics: Recorder, started: Instant) -> Self {
        self.timing.sleep = time.deadline.map(|deadline| Box::pin(sleep_until(deadline.at)));
        self.timing.time = Some(time);
        self.timing.metrics = Some((metrics, started));
        self
    }

    /// Returns the next item; `None` at the end. Cancel safe: no item is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Obj<K>, Error>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Returns the metadata of the list, once the whole list has arrived.
    pub fn meta(&self) -> Option<&ListMeta> {
        self.meta.as_ref()
    }

    fn end(&mut self) -> Option<ListDecoder<K>> {
        self.body = Body::empty();
        self.timing.sleep = None;
        if let Some((metrics, started)) = self.timing.metrics.take() {
            metrics.response_size(self.request.method(), self.received);
            metrics.request(self.request.method(), started.elapsed());
        }
        self.decoder.take()
    }

    fn fail(&mut self, error: Error) -> Poll<Option<Result<Obj<K>, Error>>> {
        self.end();
        let previous = self.timing.time.take().and_then(|time| time.previous);
        Poll::Ready(Some(Err(with_previous(error, previous))))
    }

    /// Handles the end of a body that was received completely.
    fn finish(&mut self) -> Poll<Option<Result<Obj<K>, Error>>> {
        let Some(decoder) = self.end() else { return Poll::Ready(None) };
        if self.received == 0 {
            let problem = "0-length body instead of a list".to_owned();
            return Poll::Ready(Some(Err(Error::Unreadable { request: self.request.clone(), problem })));
        }
        match decoder.finish() {
            Ok(meta) => {
                self.meta = Some(meta);
                Poll::Ready(None)
            }
            Err(source) => {
                ProtobufGuard::check_end(self.guard.as_ref(), &source);
                Poll::Ready(Some(Err(Error::Stream { request: self.request.clone(), source })))
            }
        }
    }

    /// Ready with an error once the deadline has passed.
    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<Error> {
        let Some(sleep) = &mut self.timing.sleep else { return Poll::Pending };
        ready!(sleep.as_mut().poll(context));
        let limit = self.timing.time.as_ref().and_then(|time| time.deadline).map(|deadline| deadline.limit);
        Poll::Ready(Error::Timeout { request: self.request.clone(), limit: limit.unwrap_or_default(), previous: None })
    }
}

impl<K> Stream for ListStream<K> {
    type Item = Result<Obj<K>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            let Some(decoder) = &mut this.decoder else { return Poll::Ready(None) };
            match decoder.next_item() {
                Ok(Some(item)) => return Poll::Ready(Some(Ok(item))),
                Ok(None) => {}
                Err(source) => {
                    ProtobufGuard::check_stream(this.guard.as_ref(), &source);
                    let is_fatal = source.is_fatal();
                    let error = Error::Stream { request: this.request.clone(), source };
                    return if is_fatal { this.fail(error) } else { Poll::Ready(Some(Err(error))) };
                }
            }
            match Pin::new(&mut this.body).poll_frame(context) {
                Poll::Pending => {
                    let late = ready!(this.poll_deadline(context));
                    return this.fail(late);
                }
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(chunk) = frame.into_data() else { continue };
                    this.received += chunk.len();
                    if this.received > this.limit {
                        let error = Error::TooLarge { request: this.request.clone(), limit: this.limit };
                        return this.fail(error);
                    }
                    if let Some(decoder) = &mut this.decoder {
                        decoder.push(chunk);
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    let error = body_error(error, &this.request, &this.timing.host);
                    return this.fail(error);
                }
                Poll::Ready(None) => return this.finish(),
            }
        }
    }
}

impl<K> FusedStream for ListStream<K> {
    fn is_terminated(&self) -> bool {
        self.decoder.is_none()
    }
}

#[cfg(test)]
mod tests;
