//! [`Book`]: who has which connection, who waits for one, and when another one is to be made.
//!
//! No I/O and no clock in here: the book is told what happened and answers with what to do.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// A connection that is in use is not asked about more often than this, however short a time it may be unused.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Which connection of a pool. Numbers grow from 1 in the order in which connections are begun.
pub(super) type Id = u64;

/// Something that may have ended without the book having heard of it yet.
pub(super) trait Alive {
    /// Whether it is still of use.
    fn is_alive(&self) -> bool;
}

/// The connections of one lane on one runtime.
///
/// `One` is a connection that carries one request at a time, `Many` the handle of one that carries many, `Waiter`
/// somebody who waits for either.
pub(super) struct Book<One, Many, Waiter> {
    max_idle: usize,
    max_streams: usize,
    /// Unused, oldest first; the youngest is used next, so that the others can grow old and go.
    idle: Vec<Idle<One>>,
    /// Oldest first; the first with room is used next, for the same reason.
    shared: Vec<Shared<Many>>,
    waiting: VecDeque<Waiter>,
    /// How many connections are being made.
    dialing: usize,
    /// How many connections there are, those in use included.
    open: usize,
    speaks: Speaks,
    /// Connections up to this one are not used again.
    retired: Id,
}

struct Idle<One> {
    id: Id,
    since: Instant,
    connection: One,
}

struct Shared<Many> {
    id: Id,
    connection: Many,
    streams: usize,
    /// What the server allows; unknown until it has said so.
    allowed: Option<usize>,
    /// Since when there are no streams, if there are none.
    since: Instant,
}

/// What the server spoke last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaks {
    Unknown,
    One,
    Many,
}

/// A connection for a request.
pub(super) enum Grant<One, Many> {
    /// All of it.
    One(Id, One),
    /// A stream on it.
    Many(Id, Many),
}

/// What is to be done now, outside of any lock.
#[must_use]
pub(super) struct Todo<One, Many, Waiter> {
    /// Who gets what.
    pub(super) grants: Vec<(Waiter, Grant<One, Many>)>,
    /// How many connections are to be made.
    pub(super) dials: usize,
}

/// Connections that are used no more. They are only there to be dropped, outside of any lock.
pub(super) struct Retired<One, Many> {
    _ones: Vec<Idle<One>>,
    _manys: Vec<Shared<Many>>,
}

/// What becomes of a connection whose time may have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// It was unused for too long and is no longer in the book.
    Expired,
    /// Ask again after this time.
    Later(Duration),
}

impl<Many> Shared<Many> {
    fn has_room(&self, max: usize) -> bool {
        // As long as the server has not said how much it bears, the first request goes ahead alone.
        self.streams < self.allowed.map_or(1, |allowed| allowed.min(max))
    }
}

impl<One: Alive, Many: Alive + Clone, Waiter: Alive> Book<One, Many, Waiter> {
    pub(super) fn new(max_idle: usize, max_streams: usize) -> Self {
        Book {
            max_idle,
            max_streams,
            idle: Vec::new(),
            shared: Vec::new(),
            waiting: VecDeque::new(),
            dialing: 0,
            open: 0,
            speaks: Speaks::Unknown,
            retired: 0,
        }
    }

    /// A connection that can be used at once. Nobody overtakes those who wait already.
    pub(super) fn ask(&mut self) -> Option<Grant<One, Many>> {
        self.forget_dead_waiters();
        if self.waiting.is_empty() { self.take() } else { None }
    }

    /// Somebody waits, after [`Book::ask`] had nothing.
    pub(super) fn wait(&mut self, waiter: Waiter) -> Todo<One, Many, Waiter> {
        self.waiting.push_back(waiter);
        self.settle()
    }

    /// A connection for one request at a time was made.
    pub(super) fn dialed_one(&mut self, id: Id, connection: One, now: Instant) -> Todo<One, Many, Waiter> {
        self.dialing = self.dialing.saturating_sub(1);
        self.open += 1;
        self.speaks = Speaks::One;
        self.give_back(id, connection, now)
    }

    /// A connection for many requests was made.
    pub(super) fn dialed_many(&mut self, id: Id, connection: Many, now: Instant) -> Todo<One, Many, Waiter> {
        self.dialing = self.dialing.saturating_sub(1);
        self.open += 1;
        self.speaks = Speaks::Many;
        if id > self.retired {
            self.shared.push(Shared { id, connection, streams: 0, allowed: None, since: now });
        }
        self.settle()
    }

    /// A connection could not be made. Who waited for it hears so: all, if it was to be shared.
    pub(super) fn dial_failed(&mut self) -> (Vec<Waiter>, Todo<One, Many, Waiter>) {
        self.dialing = self.dialing.saturating_sub(1);
        self.forget_dead_waiters();
        let bereft = if self.speaks == Speaks::One { self.waiting.len().min(1) } else { self.waiting.len() };
        let bereft = self.waiting.drain(..bereft).collect();
        (bereft, self.settle())
    }

    /// A connection is free for its next request.
    pub(super) fn give_back(&mut self, id: Id, connection: One, now: Instant) -> Todo<One, Many, Waiter> {
        if id > self.retired {
            self.idle.push(Idle { id, since: now, connection });
        }
        let todo = self.settle();
        if self.idle.len() > self.max_idle {
            self.idle.remove(0);
        }
        todo
    }

    /// A stream ended.
    pub(super) fn stream_done(&mut self, id: Id, now: Instant) -> Todo<One, Many, Waiter> {
        if let Some(shared) = self.shared.iter_mut().find(|shared| shared.id == id) {
            shared.streams = shared.streams.saturating_sub(1);
            shared.since = now;
        }
        self.settle()
    }

    /// The server said how many streams it allows.
    pub(super) fn allow(&mut self, id: Id, streams: usize) -> Todo<One, Many, Waiter> {
        if let Some(shared) = self.shared.iter_mut().find(|shared| shared.id == id) {
            shared.allowed = Some(streams);
        }
        self.settle()
    }

    /// A connection is gone.
    pub(super) fn lost(&mut self, id: Id) -> Todo<One, Many, Waiter> {
        self.open = self.open.saturating_sub(1);
        self.idle.retain(|idle| idle.id != id);
        self.shared.retain(|shared| shared.id != id);
        self.settle()
    }

    /// The server has closed an unused connection on us: the others of that age are not to be trusted either.
    pub(super) fn forget_idle(&mut self) -> Todo<One, Many, Waiter> {
        self.idle.clear();
        self.settle()
    }

    /// Takes a connection out of the book if nobody has used it for `timeout`.
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

    /// Takes all connections out of the book that have numbers up to `last`, and takes none of them back. Those in use end
    /// when their use ends. What was taken out is for the caller to drop.
    pub(super) fn retire(&mut self, last: Id) -> (Retired<One, Many>, Todo<One, Many, Waiter>) {
        self.retired = last;
        let retired = Retired { _ones: std::mem::take(&mut self.idle), _manys: std::mem::take(&mut self.shared) };
        // Somebody may have waited for room on one of them.
        (retired, self.settle())
    }

    /// Whether nothing is left that the book could be asked about.
    pub(super) fn is_empty(&self) -> bool {
        self.open == 0 && self.dialing == 0 && self.waiting.is_empty()
    }

    /// A connection that can be used at once.
    fn take(&mut self) -> Option<Grant<One, Many>> {
        self.shared.retain(|shared| shared.connection.is_alive());
        if let Some(shared) = self.shared.iter_mut().find(|shared| shared.has_room(self.max_streams)) {
            shared.streams += 1;
            return Some(Grant::Many(shared.id, shared.connection.clone()));
        }
        while let Some(idle) = self.idle.pop() {
            if idle.connection.is_alive() {
                return Some(Grant::One(idle.id, idle.connection));
            }
        }
        None
    }

    fn forget_dead_waiters(&mut self) {
        while self.waiting.front().is_some_and(|waiter| !waiter.is_alive()) {
            self.waiting.pop_front();
        }
    }

    /// Hands out what there is, and decides how many connections are to be made for those who still wait.
    fn settle(&mut self) -> Todo<One, Many, Waiter> {
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
        let wanted = match self.speaks {
            Speaks::One => self.waiting.len(),
            // One at a time: it will most likely do for all. A connection whose server has not yet said how much it bears
            // is as good as one being made.
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
