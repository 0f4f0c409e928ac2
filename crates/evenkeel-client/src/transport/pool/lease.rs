//! A connection in use by a request and the body of its response.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::super::error::TransportError;
use super::connection::{Http1Connection, Http2Connection, SharedConnection};
use super::state::{Grant, Id};
use super::wire::Tally;
use super::{LaneKey, PoolShared, classify};

/// The pool of a connection in use; counts it as in flight.
pub(super) struct PoolTicket {
    pool: Weak<PoolShared>,
    tally: Arc<Tally>,
    lane_key: LaneKey,
    id: Id,
}

impl Drop for PoolTicket {
    fn drop(&mut self) {
        self.tally.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection for one request. Dropped before the request was sent, it returns to the pool.
pub(super) enum Lease {
    Http1Connection(Http1Lease),
    Http2Connection(Http2Lease),
}

impl Lease {
    pub(super) fn new(
        pool: &Arc<PoolShared>,
        lane_key: LaneKey,
        grant: Grant<Http1Connection, Http2Connection>,
    ) -> Self {
        let ticket = |id| {
            pool.tally.in_flight.fetch_add(1, Ordering::Relaxed);
            PoolTicket { pool: Arc::downgrade(pool), tally: Arc::clone(&pool.tally), lane_key, id }
        };
        match grant {
            Grant::Http1(id, one) => Lease::Http1Connection(Http1Lease {
                one: Some(one),
                touched: false,
                sent_whole: false,
                ticket: ticket(id),
            }),
            Grant::Http2(id, many) => Lease::Http2Connection(Http2Lease { many, slot: Slot(ticket(id)) }),
        }
    }
}

/// A whole HTTP/1.1 connection. Dropped during a request it closes the connection: bytes in flight cannot be assigned
/// to another request.
pub(super) struct Http1Lease {
    one: Option<Http1Connection>,
    touched: bool,
    /// Whether the whole request was in memory when it was sent.
    pub(super) sent_whole: bool,
    ticket: PoolTicket,
}

impl Http1Lease {
    /// Returns the connection for a new request.
    pub(super) fn begin(&mut self) -> Option<&mut Http1Connection> {
        self.touched = true;
        self.one.as_mut()
    }

    /// Returns its pool.
    pub(super) fn lane_key(&self) -> LaneKey {
        self.ticket.lane_key
    }

    /// Returns the connection to the pool after the response.
    pub(super) fn finish(&mut self) {
        let Some(mut one) = self.one.take() else { return };
        one.used = true;
        if !one.sender.is_ready() {
            one.return_to_driver();
        } else if let Some(pool) = self.ticket.pool.upgrade() {
            pool.give_back(self.ticket.lane_key, self.ticket.id, one);
        }
    }
}

impl Drop for Http1Lease {
    fn drop(&mut self) {
        if !self.touched
            && let (Some(one), Some(pool)) = (self.one.take(), self.ticket.pool.upgrade())
        {
            pool.give_back(self.ticket.lane_key, self.ticket.id, one);
        }
    }
}

/// A stream of an HTTP/2 connection.
pub(super) struct Http2Lease {
    pub(super) many: Http2Connection,
    pub(super) slot: Slot,
}

/// A stream's slot on its connection, freed on drop.
pub(super) struct Slot(PoolTicket);

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(pool) = self.0.pool.upgrade() {
            pool.with_state(self.0.lane_key, |state| state.stream_done(self.0.id, Instant::now()));
        }
    }
}

/// What a response holds until it has been read.
pub(super) enum Hold {
    Http1Connection(Http1Lease),
    Http2Connection(Slot),
}

/// The body of a response, which releases its connection when it ends.
pub(super) struct PoolBody {
    incoming: Incoming,
    hold: Option<Hold>,
    /// Set if this body has the connection to itself and the request was sent completely.
    shared_connection: Option<Weak<SharedConnection>>,
    tally: Arc<Tally>,
}

impl PoolBody {
    pub(super) fn new(incoming: Incoming, hold: Hold, tally: Arc<Tally>) -> Self {
        let shared_connection = match &hold {
            Hold::Http1Connection(lease) if lease.sent_whole => {
                lease.one.as_ref().map(|one| Weak::clone(&one.shared_connection))
            }
            Hold::Http1Connection(_) => None,
            Hold::Http2Connection(_) => None,
        };
        PoolBody { incoming, hold: Some(hold), shared_connection, tally }
    }

    /// Polls the next frame, driving the connection if there is none yet.
    fn poll_incoming(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.incoming).poll_frame(context);
        if frame.is_pending()
            && let Some(shared_connection) = self.shared_connection.as_ref().and_then(Weak::upgrade)
        {
            shared_connection.look(context);
            drop(shared_connection);
            return Pin::new(&mut self.incoming).poll_frame(context);
        }
        frame
    }

    fn let_go(&mut self) {
        match self.hold.take() {
            Some(Hold::Http1Connection(mut lease)) => lease.finish(),
            Some(Hold::Http2Connection(slot)) => drop(slot),
            None => {}
        }
        self.resume();
    }

    /// Returns the driving of the connection to its task.
    fn resume(&mut self) {
        if let Some(shared_connection) =
            self.shared_connection.take().and_then(|shared_connection| shared_connection.upgrade())
        {
            shared_connection.resume();
        }
    }
}

impl HttpBody for PoolBody {
    type Data = Bytes;
    type Error = TransportError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TransportError>>> {
        match std::task::ready!(self.poll_incoming(context)) {
            Some(Ok(frame)) => Poll::Ready(Some(Ok(frame))),
            Some(Err(error)) => {
                let error = match self.hold.take() {
                    Some(Hold::Http1Connection(_)) => classify::http1_error(&self.tally.host, error),
                    Some(Hold::Http2Connection(_)) | None => classify::http2_error(&self.tally.host, error),
                };
                self.resume();
                Poll::Ready(Some(Err(error)))
            }
            None => {
                self.let_go();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl Drop for PoolBody {
    fn drop(&mut self) {
        // Many readers stop at the last byte and never poll for the end.
        if self.incoming.is_end_stream() {
            self.let_go();
        }
        // A body dropped midway closes the connection, which its task does.
        self.hold = None;
        self.resume();
    }
}
