//! [`PoolState`]: connections in use, waiting requests, and when to open another connection.
//!
//! Sans-IO: the state is given what happened and returns what to do.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// The shortest interval at which a connection in use is checked for expiry.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The number of a connection within a pool. Numbers increase from 1 in the order of dials.
pub(super) type Id = u64;

/// A handle whose connection may have ended before the state was notified.
pub(super) trait Alive {
    /// Returns whether it can still be used.
    fn is_alive(&self) -> bool;
}

/// The connections of one lane on one runtime.
///
/// `H1` is a connection that carries one request at a time, `H2` the handle of one that carries many, `Waiter` a
/// request that waits for either.
pub(super) struct PoolState<H1, H2, Waiter> {
    max_idle: usize,
    max_streams: usize,
    /// Idle connections, oldest first; the youngest is used next, so that the others can expire.
    idle: Vec<Idle<H1>>,
    /// Oldest first; the first with free streams is used next, for the same reason.
    shared: Vec<Http2Slot<H2>>,
    waiting: VecDeque<Waiter>,
    /// The number of dials in progress.
    dialing: usize,
    /// The number of open connections, those in use included.
    open: usize,
    last_protocol: LastProtocol,
    /// Connections up to this number are not reused.
    retired: Id,
}

struct Idle<H1> {
    id: Id,
    since: Instant,
    connection: H1,
}

struct Http2Slot<H2> {
    id: Id,
    connection: H2,
    streams: usize,
    /// The server's stream limit; unknown until its SETTINGS arrive.
    allowed: Option<usize>,
    /// Since when there are no streams, if there are none.
    since: Instant,
}

/// The protocol of the last connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastProtocol {
    Unknown,
    H1,
    H2,
}

/// A connection for a request.
pub(super) enum Grant<H1, H2> {
    /// A whole connection.
    Http1(Id, H1),
    /// A stream on it.
    Http2(Id, H2),
}

/// What to do now, without any lock.
#[must_use]
pub(super) struct Todo<H1, H2, Waiter> {
    /// Connections for waiting requests.
    pub(super) grants: Vec<(Waiter, Grant<H1, H2>)>,
    /// The number of connections to open.
    pub(super) dials: usize,
}

/// Connections that are no longer used, to be dropped without any lock.
pub(super) struct Retired<H1, H2> {
    _idle: Vec<Idle<H1>>,
    _http2: Vec<Http2Slot<H2>>,
}

/// The result of an expiry check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// It was idle for too long and has been removed.
    Expired,
    /// Check again after this time.
    Later(Duration),
}

impl<H2> Http2Slot<H2> {
    fn has_room(&self, max: usize) -> bool {
        // Until the server's stream limit is known, one request is sent alone.
        self.streams < self.allowed.map_or(1, |allowed| allowed.min(max))
    }
}

impl<H1: Alive, H2: Alive + Clone, Waiter: Alive> PoolState<H1, H2, Waiter> {
    pub(super) fn new(max_idle: usize, max_streams: usize) -> Self {
        PoolState {
            max_idle,
            max_streams,
            idle: Vec::new(),
            shared: Vec::new(),
            waiting: VecDeque::new(),
            dialing: 0,
            open: 0,
            last_protocol: LastProtocol::Unknown,
            retired: 0,
        }
    }

    /// Returns a connection that can be used at once. Waiting requests are not overtaken.
    pub(super) fn acquire(&mut self) -> Option<Grant<H1, H2>> {
        self.forget_dead_waiters();
        if self.waiting.is_empty() { self.take() } else { None }
    }

    /// Adds a waiting request, after [`PoolState::acquire`] returned nothing.
    pub(super) fn wait(&mut self, waiter: Waiter) -> Todo<H1, H2, Waiter> {
        self.waiting.push_back(waiter);
        self.settle()
    }

    /// Adds a new HTTP/1.1 connection.
    pub(super) fn dialed_http1(&mut self, id: Id, connection: H1, now: Instant) -> Todo<H1, H2, Waiter> {
        self.dialing = self.dialing.saturating_sub(1);
        self.open += 1;
        self.last_protocol = LastProtocol::H1;
        self.give_back(id, connection, now)
    }

    /// Adds a new HTTP/2 connection.
    pub(super) fn dialed_http2(&mut self, id: Id, connection: H2, now: Instant) -> Todo<H1, H2, Waiter> {
        self.dialing = self.dialing.saturating_sub(1);
        self.open += 1;
        self.last_protocol = LastProtocol::H2;
        if id > self.retired {
            self.shared.push(Http2Slot { id, connection, streams: 0, allowed: None, since: now });
        }
        self.settle()
    }

    /// Reports a failed dial. Returns the requests that fail with it: all of them, if the connection was to be shared.
    pub(super) fn dial_failed(&mut self) -> (Vec<Waiter>, Todo<H1, H2, Waiter>) {
        self.dialing = self.dialing.saturating_sub(1);
        self.forget_dead_waiters();
        let failed =
            if self.last_protocol == LastProtocol::H1 { self.waiting.len().min(1) } else { self.waiting.len() };
        let failed = self.waiting.drain(..failed).collect();
        (failed, self.settle())
    }

    /// Returns a connection that is free for its next request.
    pub(super) fn give_back(&mut self, id: Id, connection: H1, now: Instant) -> Todo<H1, H2, Waiter> {
        if id > self.retired {
            self.idle.push(Idle { id, since: now, connection });
        }
        let todo = self.settle();
        if self.idle.len() > self.max_idle {
            self.idle.remove(0);
        }
        todo
    }

    /// Reports the end of a stream.
    pub(super) fn stream_done(&mut self, id: Id, now: Instant) -> Todo<H1, H2, Waiter> {
        if let Some(shared) = self.shared.iter_mut().find(|shared| shared.id == id) {
            shared.streams = shared.streams.saturating_sub(1);
            shared.since = now;
        }
        self.settle()
    }

    /// Sets the server's stream limit.
    pub(super) fn allow(&mut self, id: Id, streams: usize) -> Todo<H1, H2, Waiter> {
        if let Some(shared) = self.shared.iter_mut().find(|shared| shared.id == id) {
            shared.allowed = Some(streams);
        }
        self.settle()
    }

    /// Removes a connection that has ended.
    pub(super) fn lost(&mut self, id: Id) -> Todo<H1, H2, Waiter> {
        self.open = self.open.saturating_sub(1);
        self.idle.retain(|idle| idle.id != id);
        self.shared.retain(|shared| shared.id != id);
        self.settle()
    }

    /// Drops all idle connections: the server has closed one of them, and the others of that age are suspect.
    pub(super) fn forget_idle(&mut self) -> Todo<H1, H2, Waiter> {
        self.idle.clear();
        self.settle()
    }

    /// Removes a connection that was idle for `timeout`.
    pub(super) fn expire(&mut self, id: Id, now: Instant, timeout: Duration) -> Expiry {
        let idle = self.idle.iter().find(|idle| idle.id == id).map(|idle| idle.since);
        let shared = self.shared.iter().find(|shared| shared.id == id && shared.streams == 0);
        if let Some(since) = idle.or(shared.map(|shared| shared.since)) {
            let age = now.saturating_duration_since(since);
            if age < timeout {
                return Expiry::Later(timeout - age);
            }
            self.idle.retain(|idle| idle.id != id);
            self.shared.retain(|shared| shared.id != id);
            return Expiry::Expired;
        }
        Expiry::Later(timeout.max(ASK_AGAIN))
    }

    /// Removes all connections numbered up to `last`, and accepts none of them back. Those in use end when their use
    /// ends. The caller drops what was removed.
    pub(super) fn retire(&mut self, last: Id) -> (Retired<H1, H2>, Todo<H1, H2, Waiter>) {
        self.retired = last;
        let retired = Retired { _idle: std::mem::take(&mut self.idle), _http2: std::mem::take(&mut self.shared) };
        // A request may have waited for a free stream on one of them.
        (retired, self.settle())
    }

    /// Returns whether the state has no connection, dial or waiting request.
    pub(super) fn is_empty(&self) -> bool {
        self.open == 0 && self.dialing == 0 && self.waiting.is_empty()
    }

    /// Takes a connection that can be used at once.
    fn take(&mut self) -> Option<Grant<H1, H2>> {
        self.shared.retain(|shared| shared.connection.is_alive());
        if let Some(shared) = self.shared.iter_mut().find(|shared| shared.has_room(self.max_streams)) {
            shared.streams += 1;
            return Some(Grant::Http2(shared.id, shared.connection.clone()));
        }
        while let Some(idle) = self.idle.pop() {
            if idle.connection.is_alive() {
                return Some(Grant::Http1(idle.id, idle.connection));
            }
        }
        None
    }

    fn forget_dead_waiters(&mut self) {
        while self.waiting.front().is_some_and(|waiter| !waiter.is_alive()) {
            self.waiting.pop_front();
        }
    }

    /// Assigns free connections to waiting requests and decides how many to open for the rest.
    fn settle(&mut self) -> Todo<H1, H2, Waiter> {
        let mut grants = Vec::new();
        loop {
            self.forget_dead_waiters();
            if self.waiting.is_empty() {
                return Todo { grants, dials: 0 };
            }
            let Some(grant) = self.take() else { break };
            if let Some(waiter) = self.waiting.pop_front() {
                grants.push((waiter, grant));
            }
        }
        let wanted = match self.last_protocol {
            LastProtocol::H1 => self.waiting.len(),
            // One at a time: it most likely serves all. A connection whose stream limit is not known yet counts as a
            // dial in progress.
            _ if self.shared.iter().any(|shared| shared.allowed.is_none()) => 0,
            _ => 1,
        };
        let dials = wanted.saturating_sub(self.dialing);
        self.dialing += dials;
        Todo { grants, dials }
    }
}

#[cfg(test)]
mod tests;
