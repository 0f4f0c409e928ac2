//! The memory budget of a server (BUD-8 to BUD-11).
//!
//! The budget has fixed shares, so that bodies in flight never fill the store and a full store never stops reads:
//!
//! | share | what | beyond it |
//! |---|---|---|
//! | 3/4 | objects, compiled definitions, history, cached encodings | writes that grow the store are refused; reads and deletes succeed |
//! | 1/8 | request bodies that are not complete or not served yet | 429 |
//! | 1/8 | response bytes that are encoded and not sent yet | encoding waits for the readers |

mod gauge;
mod metered_body;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use evenkeel_core::{Reason, Status, StatusDetails};

pub(crate) use self::gauge::Charge;
use self::gauge::Gauge;
pub(crate) use self::metered_body::{MeteredBody, charge_whole};

/// The default budget.
const DEFAULT_BUDGET: usize = 2 << 30;
/// The memory of a stored object besides its JSON: key, facts, allocation.
const OBJECT_OVERHEAD: usize = 1024;
/// The most bytes of request bodies in flight on one connection.
const CONNECTION_BODIES: usize = 32 << 20;
/// Connections with more body bytes than this leave a quarter of the share to others.
const MODEST_BODIES: usize = 4 << 20;
/// The most response bytes in flight on one connection.
const CONNECTION_RESPONSES: usize = 8 << 20;
/// How far a marked deletion may grow an object of a full store.
const DELETION_MARK: usize = 1024;

/// The memory of a server and its budget, in bytes. [`ApiServer::memory`](crate::ApiServer::memory) returns it.
///
/// The figures are counts of payload with estimates of the overhead, not the resident memory of the process. Work in
/// progress, such as a parsed body, is not part of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// The budget.
    pub budget: usize,
    /// The existing objects.
    pub objects: usize,
    /// The compiled schemas of CustomResourceDefinitions, estimated.
    pub definitions: usize,
    /// Earlier versions of objects, and events.
    pub history: usize,
    /// Encodings that are cached with objects.
    pub encodings: usize,
    /// Request bodies that are not complete or not served yet.
    pub request_bodies: usize,
    /// Encoded responses that are not sent yet.
    pub responses: usize,
    /// Writes that were refused because the store is full.
    pub refused_writes: u64,
    /// Requests that were refused because too many bodies are in flight.
    pub refused_bodies: u64,
}

impl MemoryStats {
    /// Returns the sum of all uses.
    pub fn used(&self) -> usize {
        self.objects + self.definitions + self.history + self.encodings + self.request_bodies + self.responses
    }
}

/// The memory of one server: what it uses, and what it may use.
#[derive(Debug)]
pub(crate) struct Memory {
    budget: usize,
    objects: AtomicUsize,
    definitions: AtomicUsize,
    history: AtomicUsize,
    encodings: Arc<Gauge>,
    bodies: Arc<Gauge>,
    responses: Arc<Gauge>,
    refused_writes: AtomicU64,
    refused_bodies: AtomicU64,
}

impl Default for Memory {
    fn default() -> Self {
        Memory::new(DEFAULT_BUDGET)
    }
}

impl Memory {
    pub(crate) fn new(budget: usize) -> Self {
        Memory {
            budget,
            objects: AtomicUsize::new(0),
            definitions: AtomicUsize::new(0),
            history: AtomicUsize::new(0),
            encodings: Gauge::new(usize::MAX),
            bodies: Gauge::new(budget / 8),
            responses: Gauge::new(budget / 8),
            refused_writes: AtomicU64::new(0),
            refused_bodies: AtomicU64::new(0),
        }
    }

    /// Returns the most bytes that the history may have.
    pub(crate) fn history_limit(&self) -> usize {
        self.budget / 4
    }

    /// Records the size of the store.
    pub(crate) fn set_store(&self, objects: usize, object_bytes: usize, history: usize) {
        self.objects.store(object_bytes + objects * OBJECT_OVERHEAD, Ordering::Relaxed);
        self.history.store(history, Ordering::Relaxed);
    }

    /// Records the memory of the served definitions.
    pub(crate) fn set_definitions(&self, bytes: usize) {
        self.definitions.store(bytes, Ordering::Relaxed);
    }

    /// Returns the use of the share of the store.
    fn stored(&self) -> usize {
        let counts = [&self.objects, &self.definitions, &self.history];
        counts.iter().map(|count| count.load(Ordering::Relaxed)).sum::<usize>() + self.encodings.used()
    }

    /// Refuses a write that grows the store beyond its share, as kube-apiserver does when the disk quota of etcd is
    /// exhausted. `previous` is the size of the object before the write, if it exists. A write that does not grow the
    /// object succeeds, and so does the mark of a deletion.
    pub(crate) fn admit_write(&self, previous: Option<usize>, new: usize, deleting: bool) -> Result<(), Status> {
        let allowance = if deleting { DELETION_MARK } else { 0 };
        if previous.is_some_and(|previous| new <= previous.saturating_add(allowance)) {
            return Ok(());
        }
        let overhead = if previous.is_none() { OBJECT_OVERHEAD } else { 0 };
        let growth = new.saturating_sub(previous.unwrap_or(0)).saturating_add(overhead);
        if self.stored().saturating_add(growth) <= self.budget / 4 * 3 {
            return Ok(());
        }
        if self.refused_writes.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(budget = self.budget, "the store is full; refusing writes until objects are deleted");
        }
        Err(Status::failure(500, Reason::default(), "etcdserver: mvcc: database space exceeded"))
    }

    /// Charges an encoding that is cached with an object; none if the store is full.
    pub(crate) fn charge_encoding(&self, bytes: usize) -> Option<Charge> {
        (self.stored() + bytes <= self.budget / 4 * 3).then(|| self.encodings.charge(bytes))
    }

    pub(crate) fn stats(&self) -> MemoryStats {
        MemoryStats {
            budget: self.budget,
            objects: self.objects.load(Ordering::Relaxed),
            definitions: self.definitions.load(Ordering::Relaxed),
            history: self.history.load(Ordering::Relaxed),
            encodings: self.encodings.used(),
            request_bodies: self.bodies.used(),
            responses: self.responses.used(),
            refused_writes: self.refused_writes.load(Ordering::Relaxed),
            refused_bodies: self.refused_bodies.load(Ordering::Relaxed),
        }
    }
}

/// The bodies in flight on one connection.
#[derive(Debug)]
pub(crate) struct ConnectionMemory {
    server: Arc<Memory>,
    bodies: Arc<Gauge>,
    responses: Arc<Gauge>,
}

impl ConnectionMemory {
    pub(crate) fn new(server: Arc<Memory>) -> Self {
        let (bodies, responses) = (Gauge::new(CONNECTION_BODIES), Gauge::new(CONNECTION_RESPONSES));
        ConnectionMemory { server, bodies, responses }
    }

    /// Charges bytes of a request body, or returns a 429.
    fn charge_body(&self, bytes: usize) -> Result<BodyCharge, Box<Status>> {
        let own = self.bodies.used() + bytes;
        let share = if own > MODEST_BODIES { self.server.bodies.limit() / 4 * 3 } else { self.server.bodies.limit() };
        if own > self.bodies.limit() || self.server.bodies.used() + bytes > share {
            self.server.refused_bodies.fetch_add(1, Ordering::Relaxed);
            return Err(Box::new(too_many_bodies()));
        }
        Ok(BodyCharge { _connection: self.bodies.charge(bytes), _server: self.server.bodies.charge(bytes) })
    }

    /// Charges response bytes, however many are in flight.
    fn charge_response(&self, bytes: usize) -> BodyCharge {
        BodyCharge { _connection: self.responses.charge(bytes), _server: self.server.responses.charge(bytes) }
    }

    /// Ready if more of a response may be encoded. A connection that has read everything is always ready.
    pub(crate) fn poll_response(&self, cx: &mut Context<'_>) -> Poll<()> {
        // A connection whose bytes are in flight has a charge to wait for; one without is ready.
        self.responses.poll_until(cx, || {
            self.responses.used() == 0 || (self.responses.is_below_limit() && self.server.responses.is_below_limit())
        })
    }
}

/// The text and the wait are those of kube-apiserver's limits.
fn too_many_bodies() -> Status {
    let message = "Too many requests, please try again later.";
    let details = StatusDetails { retry_after_seconds: 1, ..StatusDetails::default() };
    Status::failure(429, Reason::TOO_MANY_REQUESTS, message).with_details(details)
}

/// Bytes in flight, until dropped.
#[derive(Debug)]
pub(crate) struct BodyCharge {
    _connection: Charge,
    _server: Charge,
}

/// Counts the bytes of one request body while it is read, and until it is served.
#[derive(Debug, Default)]
pub(crate) struct BodyMeter {
    connection: Option<Arc<ConnectionMemory>>,
    charged: usize,
    charges: Vec<BodyCharge>,
}

impl BodyMeter {
    /// Returns a meter for a body of this connection. In-process bodies are the caller's own memory.
    pub(crate) fn new(connection: Option<Arc<ConnectionMemory>>) -> Self {
        BodyMeter { connection, ..BodyMeter::default() }
    }

    /// Charges growth of the body to this many bytes.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), Box<Status>> {
        if let Some(connection) = &self.connection
            && bytes > self.charged
        {
            self.charges.push(connection.charge_body(bytes - self.charged)?);
            self.charged = bytes;
        }
        Ok(())
    }
}
