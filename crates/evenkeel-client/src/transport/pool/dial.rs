//! Opening a connection into the pool, and removing it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::super::connect::Dial;
use super::super::error::{TransportError, TransportFault};
use super::connection::{Http1Connection, Http1Driver, Http2Connection, Http2Driver};
use super::state::{Expiry, Id};
use super::wire::{Tally, Wire};
use super::{LaneKey, PoolShared, classify};

/// A dial in progress, in a task of its own: the request that caused it may be dropped while others wait for it.
pub(super) struct Dialing {
    pool: Weak<PoolShared>,
    lane_key: LaneKey,
    id: Id,
    tally: Arc<Tally>,
    done: bool,
}

/// A new connection.
enum Made {
    Http1Connection(Http1Connection, Box<Http1Driver>),
    Http2Connection(Http2Connection, Box<Http2Driver>),
}

impl Dialing {
    pub(super) fn new(pool: &Arc<PoolShared>, lane_key: LaneKey) -> Self {
        let tally = Arc::clone(&pool.tally);
        Dialing { pool: Arc::downgrade(pool), lane_key, id: pool.next_id(), tally, done: false }
    }

    /// Opens the connection and adds it to the pool. Cancelled when the pool is dropped.
    pub(super) async fn run(mut self, dial: Arc<dyn Dial>, mut gone: watch::Receiver<()>) {
        let made = tokio::select! {
            made = self.make(&*dial) => made,
            // Nothing is ever sent: the sender is dropped with the pool.
            _ = gone.changed() => return,
        };
        let Some(pool) = self.pool.upgrade() else { return };
        self.done = true;
        let made = match made {
            Ok(made) => made,
            Err(error) => return pool.dial_failed(self.lane_key, error),
        };
        // Added before it is driven, so that its end cannot be reported before its start.
        match made {
            Made::Http1Connection(one, drive) => {
                pool.with_state(self.lane_key, |state| state.dialed_http1(self.id, one, Instant::now()));
                tokio::spawn(drive.run(self.driven(), pool.idle_timeout));
            }
            Made::Http2Connection(many, drive) => {
                pool.with_state(self.lane_key, |state| state.dialed_http2(self.id, many, Instant::now()));
                tokio::spawn(drive.run(self.driven(), pool.idle_timeout, pool.connect_timeout));
            }
        }
    }

    fn driven(&self) -> Driven {
        Driven { pool: Weak::clone(&self.pool), lane_key: self.lane_key, id: self.id }
    }

    async fn make(&self, dial: &dyn Dial) -> Result<Made, TransportError> {
        let lane = self.lane_key.lane;
        let dialed = dial.dial(lane).await?;
        let wire = Wire::new(dialed.io, Arc::clone(&self.tally), lane);
        let Some(pool) = self.pool.upgrade() else {
            return Err(TransportError::bare(TransportFault::Closed, &self.tally.host));
        };
        // The handshake writes a few bytes into an empty buffer and does not wait.
        let host = &self.tally.host;
        if dialed.http2 {
            let (many, drive) =
                pool.speech.handshake_http2(lane, wire).await.map_err(|e| classify::http2_error(host, e))?;
            Ok(Made::Http2Connection(many, Box::new(drive)))
        } else {
            let (one, drive) = pool.speech.handshake_http1(wire).await.map_err(|e| classify::http1_error(host, e))?;
            Ok(Made::Http1Connection(one, Box::new(drive)))
        }
    }
}

impl Drop for Dialing {
    /// The task was dropped or has panicked: waiting requests must fail.
    fn drop(&mut self) {
        if !self.done
            && let Some(pool) = self.pool.upgrade()
        {
            pool.dial_failed(self.lane_key, TransportError::bare(TransportFault::Connect, &self.tally.host));
        }
    }
}

impl PoolShared {
    fn dial_failed(self: &Arc<Self>, lane_key: LaneKey, error: TransportError) {
        let mut failed = Vec::new();
        self.with_state(lane_key, |state| {
            let (waiters, todo) = state.dial_failed();
            failed = waiters;
            todo
        });
        let error = Arc::new(error);
        for waiter in failed {
            waiter.refuse(Arc::clone(&error));
        }
    }
}

/// A connection as its driver sees it. The end of the driver is reported to the pool.
pub(super) struct Driven {
    pool: Weak<PoolShared>,
    lane_key: LaneKey,
    id: Id,
}

impl Driven {
    /// Returns a connection that is ready for another request.
    pub(super) fn give_back(&self, one: Http1Connection) {
        if let Some(pool) = self.pool.upgrade() {
            pool.give_back(self.lane_key, self.id, one);
        }
    }

    /// Sets the server's stream limit.
    pub(super) fn allow(&self, streams: usize) {
        if let Some(pool) = self.pool.upgrade() {
            pool.with_state(self.lane_key, |state| state.allow(self.id, streams));
        }
    }

    /// Removes the connection if it was idle for too long. Returns when to check again.
    pub(super) fn expire(&self, timeout: Duration) -> Duration {
        let expiry = self.pool.upgrade().map(|pool| pool.expire(self.lane_key, self.id, timeout));
        match expiry {
            Some(Expiry::Later(left)) => left,
            Some(Expiry::Expired) | None => timeout,
        }
    }

    /// Reports how the connection ended.
    pub(super) fn ended(&self, how: hyper::Result<()>) {
        if let (Err(error), Some(pool)) = (how, self.pool.upgrade()) {
            tracing::debug!(host = %pool.tally.host, lane = self.lane_key.lane.name(), %error, "connection closed");
        }
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.with_state(self.lane_key, |state| state.lost(self.id));
        }
    }
}
