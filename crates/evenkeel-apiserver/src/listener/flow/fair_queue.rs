//! The fair queue: seats for requests, and a queue per flow for those that wait for one.
//!
//! Sans-IO: it knows neither tasks nor time. A caller that waits has a [`Ticket`]; [`FairQueue::release`] returns the
//! ticket that gets the seat.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// A waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ticket(u64);

/// The limits of a [`FairQueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueLimits {
    /// Requests that run at the same time.
    pub(crate) seats: usize,
    /// Waiting requests of one flow.
    pub(crate) per_flow: usize,
    /// Waiting requests of all flows.
    pub(crate) total: usize,
    /// Waiting requests at which those of exempt users are refused, too.
    pub(crate) exempt: usize,
}

/// Which limits of the queues apply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precedence {
    /// All.
    Ordinary,
    /// [`QueueLimits::exempt`] alone.
    Exempt,
    /// None: a part of the request has run. It was within the limits when it arrived.
    Begun,
}

/// The requests that found a queue full, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RefusedRequests {
    pub(crate) ordinary: u64,
    pub(crate) exempt: u64,
}

/// The use of a [`FairQueue`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueStats {
    /// Requests that run, and the limit.
    pub(crate) seated: usize,
    pub(crate) seats: usize,
    /// Requests that wait, and the limit.
    pub(crate) waiting: usize,
    pub(crate) limit: usize,
    pub(crate) refused: RefusedRequests,
}

/// What becomes of an arriving request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It runs now and must release its seat.
    Seated,
    /// It waits.
    Waiting(Ticket),
    /// A queue is full.
    Refused,
}

/// Distributes seats among flows.
///
/// Guarantees: at most `seats` requests are seated. Flows with waiting requests take turns, one request a turn, so a flow
/// with one request waits for at most one request of each other flow, however many those have. The requests of one flow
/// keep their order.
#[derive(Debug)]
pub(super) struct FairQueue {
    limits: QueueLimits,
    seated: usize,
    waiting: usize,
    next_ticket: u64,
    refused: RefusedRequests,
    /// The waiting requests by flow. No queue is empty.
    queues: HashMap<Arc<str>, VecDeque<Ticket>>,
    /// The flows with waiting requests, in the order of their turns.
    turns: VecDeque<Arc<str>>,
}

impl FairQueue {
    pub(super) fn new(limits: QueueLimits) -> Self {
        let refused = RefusedRequests::default();
        FairQueue {
            limits,
            seated: 0,
            waiting: 0,
            next_ticket: 0,
            refused,
            queues: HashMap::new(),
            turns: VecDeque::new(),
        }
    }

    /// Takes a free seat if nothing waits.
    pub(super) fn try_seat(&mut self) -> bool {
        let free = self.seated < self.limits.seats && self.waiting == 0;
        self.seated += usize::from(free);
        free
    }

    /// Takes a seat, queues the request, or refuses it if a queue is full.
    pub(super) fn arrive(&mut self, flow: &str, precedence: Precedence) -> Arrival {
        if self.try_seat() {
            return Arrival::Seated;
        }
        let queued = self.queues.get(flow).map_or(0, VecDeque::len);
        match precedence {
            Precedence::Ordinary if queued >= self.limits.per_flow || self.waiting >= self.limits.total => {
                self.refused.ordinary += 1;
                return Arrival::Refused;
            }
            Precedence::Exempt if self.waiting >= self.limits.exempt => {
                self.refused.exempt += 1;
                return Arrival::Refused;
            }
            Precedence::Ordinary | Precedence::Exempt | Precedence::Begun => {}
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.waiting += 1;
        match self.queues.get_mut(flow) {
            Some(queue) => queue.push_back(ticket),
            None => {
                let flow: Arc<str> = flow.into();
                self.turns.push_back(Arc::clone(&flow));
                self.queues.insert(flow, VecDeque::from([ticket]));
            }
        }
        Arrival::Waiting(ticket)
    }

    /// Returns the use of the seats and queues.
    pub(super) fn stats(&self) -> QueueStats {
        let QueueLimits { seats, total, exempt, .. } = self.limits;
        let limit = total.max(exempt);
        QueueStats { seated: self.seated, seats, waiting: self.waiting, limit, refused: self.refused }
    }

    /// Releases a seat. The request of the returned ticket takes it over.
    pub(super) fn release(&mut self) -> Option<Ticket> {
        let Some(flow) = self.turns.pop_front() else {
            self.seated -= 1;
            return None;
        };
        let queue = self.queues.get_mut(&flow)?;
        let ticket = queue.pop_front();
        self.waiting -= 1;
        if queue.is_empty() {
            self.queues.remove(&flow);
        } else {
            self.turns.push_back(flow);
        }
        ticket
    }

    /// Removes a request that waits no longer. Returns false if it is not queued.
    pub(super) fn abandon(&mut self, flow: &str, ticket: Ticket) -> bool {
        let Some(queue) = self.queues.get_mut(flow) else { return false };
        // The tickets of a flow ascend.
        let Ok(position) = queue.binary_search_by_key(&ticket.0, |queued| queued.0) else { return false };
        queue.remove(position);
        self.waiting -= 1;
        if queue.is_empty() {
            self.queues.remove(flow);
            self.turns.retain(|turn| **turn != *flow);
        }
        true
    }
}
