//! A connection in the hands of a request, and of the body of its answer.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::super::error::TransportError;
use super::book::{Grant, Id};
use super::conn::{Engine, Many, One};
use super::wire::Tally;
use super::{Inner, Place, classify};

/// Where a connection in use belongs, counted while it is in use.
pub(super) struct Ticket {
    pool: Weak<Inner>,
    tally: Arc<Tally>,
    place: Place,
    id: Id,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.tally.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection for one request. Dropped before the request was sent, it goes back as it is.
pub(super) enum Lease {
    One(OneLease),
    Many(ManyLease),
}

impl Lease {
    pub(super) fn new(pool: &Arc<Inner>, place: Place, grant: Grant<One, Many>) -> Self {
        let ticket = |id| {
            pool.tally.in_flight.fetch_add(1, Ordering::Relaxed);
            Ticket { pool: Arc::downgrade(pool), tally: Arc::clone(&pool.tally), place, id }
        };
        match grant {
            Grant::One(id, one) => {
                Lease::One(OneLease { one: Some(one), touched: false, sent_whole: false, ticket: ticket(id) })
            }
            Grant::Many(id, many) => Lease::Many(ManyLease { many, slot: Slot(ticket(id)) }),
        }
    }
}

/// All of an HTTP/1.1 connection. Dropped in the middle of an exchange it closes the connection: what is still on its way
/// belongs to nobody.
pub(super) struct OneLease {
    one: Option<One>,
    touched: bool,
    /// Whether the request lay in memory as a whole when it was sent.
    pub(super) sent_whole: bool,
    ticket: Ticket,
}

impl OneLease {
    /// The connection, for a request that begins now.
    pub(super) fn begin(&mut self) -> Option<&mut One> {
        self.touched = true;
        self.one.as_mut()
    }

    /// Where it belongs.
    pub(super) fn place(&self) -> Place {
        self.ticket.place
    }

    /// The exchange is over: the connection is free for another.
    pub(super) fn finish(&mut self) {
        let Some(mut one) = self.one.take() else { return };
        one.used = true;
        if !one.sender.is_ready() {
            one.go_home();
        } else if let Some(pool) = self.ticket.pool.upgrade() {
            pool.give_back(self.ticket.place, self.ticket.id, one);
        }
    }
}

impl Drop for OneLease {
    fn drop(&mut self) {
        if !self.touched
            && let (Some(one), Some(pool)) = (self.one.take(), self.ticket.pool.upgrade())
        {
            pool.give_back(self.ticket.place, self.ticket.id, one);
        }
    }
}

/// A stream of an HTTP/2 connection.
pub(super) struct ManyLease {
    pub(super) many: Many,
    pub(super) slot: Slot,
}

/// A stream's place on its connection, free again when this is dropped.
pub(super) struct Slot(Ticket);

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(pool) = self.0.pool.upgrade() {
            pool.with_book(self.0.place, |book| book.stream_done(self.0.id, Instant::now()));
        }
    }
}

/// What is held until an answer has been read.
pub(super) enum Hold {
    One(OneLease),
    Many(Slot),
}

/// The body of an answer, which lets go of its connection when it ends.
pub(super) struct PoolBody {
    incoming: Incoming,
    hold: Option<Hold>,
    /// Of a connection that is this body's alone, and on which there is nothing left to send.
    engine: Option<Weak<Engine>>,
    tally: Arc<Tally>,
}

impl PoolBody {
    pub(super) fn new(incoming: Incoming, hold: Hold, tally: Arc<Tally>) -> Self {
        let engine = match &hold {
            Hold::One(lease) if lease.sent_whole => lease.one.as_ref().map(|one| Weak::clone(&one.engine)),
            Hold::One(_) => None,
            Hold::Many(_) => None,
        };
        PoolBody { incoming, hold: Some(hold), engine, tally }
    }

    /// The next frame. If there is none yet, it is looked for.
    fn poll_incoming(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.incoming).poll_frame(context);
        if frame.is_pending()
            && let Some(engine) = self.engine.as_ref().and_then(Weak::upgrade)
        {
            engine.look(context);
            drop(engine);
            return Pin::new(&mut self.incoming).poll_frame(context);
        }
        frame
    }

    fn let_go(&mut self) {
        match self.hold.take() {
            Some(Hold::One(mut lease)) => lease.finish(),
            Some(Hold::Many(slot)) => drop(slot),
            None => {}
        }
        self.resume();
    }

    /// Nobody looks for more of this body: the connection is its task's again.
    fn resume(&mut self) {
        if let Some(engine) = self.engine.take().and_then(|engine| engine.upgrade()) {
            engine.resume();
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
                    Some(Hold::One(_)) => classify::http1_error(&self.tally.host, error),
                    Some(Hold::Many(_)) | None => classify::http2_error(&self.tally.host, error),
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
        // Many readers stop at the last byte and never ask for the end behind it.
        if self.incoming.is_end_stream() {
            self.let_go();
        }
        // What is dropped in the middle closes the connection, which its task has to do.
        self.hold = None;
        self.resume();
    }
}
