//! A connection on its way into the pool, and on its way out.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::super::connect::Dial;
use super::super::error::{TransportError, TransportFault};
use super::book::{Expiry, Id};
use super::conn::{DriveMany, DriveOne, Many, One};
use super::wire::{Tally, Wire};
use super::{Inner, Place, classify};

/// A connection being made, by a task of its own: whoever asked for it may lose interest, others may have gained some.
pub(super) struct Dialing {
    pool: Weak<Inner>,
    place: Place,
    id: Id,
    tally: Arc<Tally>,
    done: bool,
}

/// A connection just made.
enum Made {
    One(One, Box<DriveOne>),
    Many(Many, Box<DriveMany>),
}

impl Dialing {
    pub(super) fn new(pool: &Arc<Inner>, place: Place) -> Self {
        let tally = Arc::clone(&pool.tally);
        Dialing { pool: Arc::downgrade(pool), place, id: pool.next_id(), tally, done: false }
    }

    /// Makes the connection and hands it to the pool. Called off when the pool is gone.
    pub(super) async fn run(mut self, dial: Arc<dyn Dial>, mut gone: watch::Receiver<()>) {
        let made = tokio::select! {
            made = self.make(&*dial) => made,
            // Nothing is ever sent there: the sender can only go away, and the pool with it.
            _ = gone.changed() => return,
        };
        let Some(pool) = self.pool.upgrade() else { return };
        self.done = true;
        let made = match made {
            Ok(made) => made,
            Err(error) => return pool.dial_failed(self.place, error),
        };
        // In the book before it is driven, so that its end cannot be heard of before its beginning.
        match made {
            Made::One(one, drive) => {
                pool.with_book(self.place, |book| book.dialed_one(self.id, one, Instant::now()));
                tokio::spawn(drive.run(self.driven(), pool.idle_timeout));
            }
            Made::Many(many, drive) => {
                pool.with_book(self.place, |book| book.dialed_many(self.id, many, Instant::now()));
                tokio::spawn(drive.run(self.driven(), pool.idle_timeout, pool.connect_timeout));
            }
        }
    }

    fn driven(&self) -> Driven {
        Driven { pool: Weak::clone(&self.pool), place: self.place, id: self.id }
    }

    async fn make(&self, dial: &dyn Dial) -> Result<Made, TransportError> {
        let lane = self.place.lane;
        let dialed = dial.dial(lane).await?;
        let wire = Wire::new(dialed.io, Arc::clone(&self.tally), lane);
        let Some(pool) = self.pool.upgrade() else {
            return Err(TransportError::bare(TransportFault::Closed, &self.tally.host));
        };
        // This writes a few bytes into an empty buffer, and waits for nothing.
        let host = &self.tally.host;
        if dialed.http2 {
            let (many, drive) =
                pool.speech.speak_http2(lane, wire).await.map_err(|e| classify::http2_error(host, e))?;
            Ok(Made::Many(many, Box::new(drive)))
        } else {
            let (one, drive) = pool.speech.speak_http1(wire).await.map_err(|e| classify::http1_error(host, e))?;
            Ok(Made::One(one, Box::new(drive)))
        }
    }
}

impl Drop for Dialing {
    /// The task was dropped, or has panicked: nobody shall wait for it.
    fn drop(&mut self) {
        if !self.done
            && let Some(pool) = self.pool.upgrade()
        {
            pool.dial_failed(self.place, TransportError::bare(TransportFault::Connect, &self.tally.host));
        }
    }
}

impl Inner {
    fn dial_failed(self: &Arc<Self>, place: Place, error: TransportError) {
        let mut bereft = Vec::new();
        self.with_book(place, |book| {
            let (waiters, todo) = book.dial_failed();
            bereft = waiters;
            todo
        });
        let error = Arc::new(error);
        for waiter in bereft {
            waiter.refuse(Arc::clone(&error));
        }
    }
}

/// A connection as its driver sees it. When the driver ends, for whatever reason, the book hears of it.
pub(super) struct Driven {
    pool: Weak<Inner>,
    place: Place,
    id: Id,
}

impl Driven {
    /// The connection is ready for another request.
    pub(super) fn give_back(&self, one: One) {
        if let Some(pool) = self.pool.upgrade() {
            pool.give_back(self.place, self.id, one);
        }
    }

    /// The server allows this many streams.
    pub(super) fn allow(&self, streams: usize) {
        if let Some(pool) = self.pool.upgrade() {
            pool.with_book(self.place, |book| book.allow(self.id, streams));
        }
    }

    /// Takes the connection out of its book if it was unused for too long. Says when to ask again.
    pub(super) fn expire(&self, timeout: Duration) -> Duration {
        let expiry = self.pool.upgrade().map(|pool| pool.expire(self.place, self.id, timeout));
        match expiry {
            Some(Expiry::Later(left)) => left,
            Some(Expiry::Expired) | None => timeout,
        }
    }

    /// How it ended.
    pub(super) fn ended(&self, how: hyper::Result<()>) {
        if let (Err(error), Some(pool)) = (how, self.pool.upgrade()) {
            tracing::debug!(host = %pool.tally.host, lane = self.place.lane.name(), %error, "a connection ended");
        }
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.with_book(self.place, |book| book.lost(self.id));
        }
    }
}
