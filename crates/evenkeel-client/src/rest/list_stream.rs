//! [`ListStream`]: a list whose items are handed out as they come in.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use evenkeel_core::codec::ListDecoder;
use evenkeel_core::{ListMeta, Obj};
use futures_core::{FusedStream, Stream};
use http_body::Body as _;
use tokio::time::{Instant, Sleep, sleep_until};

use super::content::body_error;
use super::metrics::Recorder;
use super::refusals::Distrust;
use super::reply::{TimeLeft, after};
use crate::error::{CallName, Error};
use crate::transport::Body;

/// A list, or a page of one, item by item as it comes in. Dropping it ends the request.
///
/// - Items come in the server's order, and nothing is read ahead of what is asked for but one chunk: the list is never in
///   memory as a whole.
/// - An item that makes no sense is an `Err` whose [`StreamError`](evenkeel_core::StreamError) is not
///   [fatal](evenkeel_core::StreamError::is_fatal), and the others still come. See [`Error::is_about_one_item`].
/// - Any other error is the last thing that comes.
/// - When [`next`](Self::next) has returned `None` it does so for ever. Then [`meta`](Self::meta) has what the list says of
///   itself, its version above all, unless the list broke off: without it, the list is not complete.
#[derive(Debug)]
pub struct ListStream<K> {
    call: CallName,
    /// `None` once the list is over.
    decoder: Option<ListDecoder<K>>,
    body: Body,
    received: usize,
    limit: usize,
    meta: Option<ListMeta>,
    pace: Pace,
    distrust: Option<Distrust>,
}

/// When the list has to be over, and who is told when it is.
#[derive(Debug)]
struct Pace {
    host: Box<str>,
    time: Option<TimeLeft>,
    sleep: Option<Pin<Box<Sleep>>>,
    metrics: Option<(Recorder, Instant)>,
}

impl<K> ListStream<K> {
    /// A list of at most `limit` bytes, from this host.
    pub(super) fn new(
        call: &CallName,
        host: &str,
        decoder: ListDecoder<K>,
        body: Body,
        limit: usize,
        distrust: Option<Distrust>,
    ) -> Self {
        let pace = Pace { host: host.into(), time: None, sleep: None, metrics: None };
        ListStream { call: call.clone(), decoder: Some(decoder), body, received: 0, limit, meta: None, pace, distrust }
    }

    /// The same list, which has only so much time, and is measured since it was asked for.
    pub(super) fn paced(mut self, time: TimeLeft, metrics: Recorder, asked: Instant) -> Self {
        self.pace.sleep = time.deadline.map(|deadline| Box::pin(sleep_until(deadline.at)));
        self.pace.time = Some(time);
        self.pace.metrics = Some((metrics, asked));
        self
    }

    /// The next item; `None` when there are no more. May be dropped and called again: no item is lost.
    pub async fn next(&mut self) -> Option<Result<Obj<K>, Error>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// What the list says of itself, once all of it has come.
    pub fn meta(&self) -> Option<&ListMeta> {
        self.meta.as_ref()
    }

    fn over(&mut self) -> Option<ListDecoder<K>> {
        self.body = Body::empty();
        self.pace.sleep = None;
        if let Some((metrics, asked)) = self.pace.metrics.take() {
            metrics.received(self.call.method(), self.received);
            metrics.call(self.call.method(), asked.elapsed());
        }
        self.decoder.take()
    }

    fn fail(&mut self, error: Error) -> Poll<Option<Result<Obj<K>, Error>>> {
        self.over();
        let previous = self.pace.time.take().and_then(|time| time.previous);
        Poll::Ready(Some(Err(after(error, previous))))
    }

    /// The end of a body that was sent to its end.
    fn finish(&mut self) -> Poll<Option<Result<Obj<K>, Error>>> {
        let Some(decoder) = self.over() else { return Poll::Ready(None) };
        if self.received == 0 {
            let problem = "0-length body instead of a list".to_owned();
            return Poll::Ready(Some(Err(Error::Unreadable { call: self.call.clone(), problem })));
        }
        match decoder.finish() {
            Ok(meta) => {
                self.meta = Some(meta);
                Poll::Ready(None)
            }
            Err(source) => {
                Distrust::look_at_end(self.distrust.as_ref(), &source);
                Poll::Ready(Some(Err(Error::Stream { call: self.call.clone(), source })))
            }
        }
    }

    /// Whether the time for the list is over.
    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<Error> {
        let Some(sleep) = &mut self.pace.sleep else { return Poll::Pending };
        ready!(sleep.as_mut().poll(context));
        let limit = self.pace.time.as_ref().and_then(|time| time.deadline).map(|deadline| deadline.limit);
        Poll::Ready(Error::Timeout { call: self.call.clone(), limit: limit.unwrap_or_default(), previous: None })
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
                    Distrust::look_at_stream(this.distrust.as_ref(), &source);
                    let is_fatal = source.is_fatal();
                    let error = Error::Stream { call: this.call.clone(), source };
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
                        let error = Error::TooLarge { call: this.call.clone(), limit: this.limit };
                        return this.fail(error);
                    }
                    if let Some(decoder) = &mut this.decoder {
                        decoder.push(chunk);
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    let error = body_error(error, &this.call, &this.pace.host);
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
