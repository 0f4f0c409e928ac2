//! Flow control: how many requests run at the same time, and whose request is next.
//!
//! ```text
//! request ── SeatPool::acquire ──► seat ──► runs ──► seat dropped ──► the next flow's request
//!                 │  (fair_queue)
//!                 └─► queue full, or waited too long: 429
//! ```

mod fair_queue;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderValue, Response, StatusCode, header};
use tokio::sync::oneshot;
use tokio::time::timeout;

use self::fair_queue::{Arrival, FairQueue, Ticket};
pub(crate) use self::fair_queue::{Precedence, QueueLimits, QueueStats};
use super::request_class::RequestClass;
use crate::http_types::{Body, User};

/// The group whose requests wait for no seat of [`InFlightLimits`] (APF-001).
const MASTERS: &str = "system:masters";
/// Waiting requests of one user, and of all users, per kind of request.
const QUEUE_PER_USER: usize = 50;
const QUEUE_TOTAL: usize = 1000;
/// The longest wait for a seat: a quarter of a request's deadline.
const QUEUE_WAIT: Duration = Duration::from_secs(15);

/// Returns whether a user's requests wait for no seat of [`InFlightLimits`] (APF-001).
pub(crate) fn is_exempt(user: &User) -> bool {
    user.groups.iter().any(|group| group == MASTERS)
}

/// The limits on requests in flight (APF-001). Requests without an end, such as watches, do not count.
#[derive(Debug, Default)]
pub(crate) struct InFlightLimits {
    reads: Option<Arc<SeatPool>>,
    writes: Option<Arc<SeatPool>>,
}

impl InFlightLimits {
    /// Zero is no limit.
    pub(crate) fn new(reads: usize, writes: usize) -> Self {
        let pool = |seats: usize| {
            let limits = QueueLimits { seats, per_flow: QUEUE_PER_USER, total: QUEUE_TOTAL, exempt: QUEUE_TOTAL };
            (seats > 0).then(|| SeatPool::new(limits))
        };
        InFlightLimits { reads: pool(reads), writes: pool(writes) }
    }

    /// Waits for a seat. Returns `None` for a request that needs none.
    pub(crate) async fn admit(
        &self,
        class: RequestClass,
        flow: &str,
        user: &User,
    ) -> Result<Option<Seat>, TooManyRequests> {
        let pool = match class {
            RequestClass::Read => &self.reads,
            RequestClass::Write => &self.writes,
            RequestClass::Probe | RequestClass::LongRunning => return Ok(None),
        };
        let Some(pool) = pool else { return Ok(None) };
        if is_exempt(user) {
            return Ok(pool.try_acquire());
        }
        match timeout(QUEUE_WAIT, pool.acquire(flow, Precedence::Ordinary)).await {
            Ok(seat) => seat.map(Some),
            Err(_) => Err(TooManyRequests),
        }
    }
}

/// A request was refused for lack of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyRequests;

impl TooManyRequests {
    /// Returns the response, which is not a Status (APF-002).
    pub(crate) fn response(self) -> Response<Body> {
        plain_429("Too many requests, please try again later.\n", "1")
    }
}

/// Returns the response to a request that arrives during shutdown (APF-004).
pub(crate) fn shutting_down() -> Response<Body> {
    let mut response = plain_429("The apiserver is shutting down, please try again later.\n", "5");
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn plain_429(text: &'static str, retry_after: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::whole(text));
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static(retry_after));
    response
}

/// Seats with a fair queue in front of them.
#[derive(Debug)]
pub(crate) struct SeatPool(Mutex<PoolState>);

#[derive(Debug)]
struct PoolState {
    queue: FairQueue,
    /// The other ends of waiting requests.
    waiters: HashMap<Ticket, oneshot::Sender<Seat>>,
}

/// A seat of a [`SeatPool`]. Dropping it passes it to the next request.
#[derive(Debug)]
pub(crate) struct Seat(Arc<SeatPool>);

impl SeatPool {
    pub(crate) fn new(limits: QueueLimits) -> Arc<Self> {
        Arc::new(SeatPool(Mutex::new(PoolState { queue: FairQueue::new(limits), waiters: HashMap::new() })))
    }

    /// Takes a free seat, without waiting.
    pub(crate) fn try_acquire(self: &Arc<Self>) -> Option<Seat> {
        self.lock().queue.try_seat().then(|| Seat(Arc::clone(self)))
    }

    /// Returns the use of the seats and queues.
    pub(crate) fn stats(&self) -> QueueStats {
        self.lock().queue.stats()
    }

    /// Waits for a seat. Dropping the future leaves the queue.
    pub(crate) async fn acquire(self: &Arc<Self>, flow: &str, precedence: Precedence) -> Result<Seat, TooManyRequests> {
        let (ticket, receiver) = {
            let mut state = self.lock();
            match state.queue.arrive(flow, precedence) {
                Arrival::Seated => return Ok(Seat(Arc::clone(self))),
                Arrival::Refused => return Err(TooManyRequests),
                Arrival::Waiting(ticket) => {
                    let (sender, receiver) = oneshot::channel();
                    state.waiters.insert(ticket, sender);
                    (ticket, receiver)
                }
            }
        };
        let _queued = Queued { pool: self, flow, ticket };
        // A sender is dropped without a seat only by `Queued`, together with this future.
        receiver.await.map_err(|_| TooManyRequests)
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let next = {
            let mut state = self.0.lock();
            state.queue.release().and_then(|ticket| state.waiters.remove(&ticket))
        };
        if let Some(waiter) = next {
            // A waiter that has left returns the seat, and dropping it passes it on.
            let _ = waiter.send(Seat(Arc::clone(&self.0)));
        }
    }
}

/// Leaves the queue when a waiting request is dropped.
struct Queued<'a> {
    pool: &'a Arc<SeatPool>,
    flow: &'a str,
    ticket: Ticket,
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        if state.queue.abandon(self.flow, self.ticket) {
            state.waiters.remove(&self.ticket);
        }
    }
}
