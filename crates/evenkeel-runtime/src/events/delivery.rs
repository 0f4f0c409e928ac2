//! [`Delivery`]: schedules writes and their retries.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::EventKey;

/// Schedules writes. Writes with the same id are sent one after another; a later one replaces an earlier one that
/// waits. Different ids do not wait for each other. It is given the time and sends nothing itself.
///
/// No write is lost except by [`Verdict::Retry`] after the last attempt.
#[derive(Debug)]
pub(crate) struct Delivery<W> {
    jobs: HashMap<EventKey, Job<W>>,
    ready: VecDeque<EventKey>,
    waiting: BTreeMap<(Instant, u64), EventKey>,
    /// Counts waits, to order writes that wait for the same time.
    waits: u64,
    out: usize,
    limits: Limits,
    is_closing: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The maximum number of ids.
    pub(crate) jobs: usize,
    /// The maximum number of writes in flight.
    pub(crate) out: usize,
    /// The maximum number of attempts per write.
    pub(crate) attempts: u32,
}

#[derive(Debug)]
struct Job<W> {
    /// `None` while it is in flight.
    write: Option<W>,
    attempts: u32,
    /// The write that arrived while it was in flight.
    next: Option<W>,
}

/// The result of an attempt.
#[derive(Debug)]
pub(crate) enum Verdict<W> {
    /// Nothing more to do.
    Done,
    /// Retry after this time, if there is an attempt left.
    Retry(W, Duration),
}

/// What happens to a write after an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome<W> {
    /// It is finished.
    Over,
    /// It will be retried.
    Again,
    /// That was the last attempt.
    Exhausted(W),
    /// The delivery is closed; there is no further attempt.
    OutOfTime(W),
}

impl<W> Delivery<W> {
    pub(crate) fn new(limits: Limits) -> Self {
        Delivery {
            jobs: HashMap::new(),
            ready: VecDeque::new(),
            waiting: BTreeMap::new(),
            waits: 0,
            out: 0,
            limits,
            is_closing: false,
        }
    }

    /// Adds a write. `merge` combines an earlier and a later one.
    pub(crate) fn push(&mut self, id: EventKey, write: W, merge: impl FnOnce(W, W) -> W) {
        match self.jobs.entry(id) {
            Entry::Vacant(vacant) => {
                self.ready.push_back(vacant.key().clone());
                vacant.insert(Job { write: Some(write), attempts: 0, next: None });
            }
            Entry::Occupied(mut occupied) => {
                let job = occupied.get_mut();
                // A write that arrived while another was in flight precedes this one, even if that other is to be
                // retried.
                let is_first = job.write.is_some() && job.next.is_none();
                let place = if is_first { &mut job.write } else { &mut job.next };
                *place = Some(match place.take() {
                    Some(earlier) => merge(earlier, write),
                    None => write,
                });
            }
        }
    }

    /// Returns whether more may be added.
    pub(crate) fn has_room(&self) -> bool {
        self.jobs.len() < self.limits.jobs
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns when the next write is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    /// Returns how many attempts the write in flight had before.
    pub(crate) fn attempts(&self, id: &EventKey) -> u32 {
        self.jobs.get(id).map_or(0, |job| job.attempts)
    }

    /// Returns a write to send now.
    pub(crate) fn take(&mut self, now: Instant) -> Option<(EventKey, W)> {
        while let Some(due) = self.waiting.first_entry().filter(|due| due.key().0 <= now) {
            self.ready.push_back(due.remove());
        }
        if self.out >= self.limits.out {
            return None;
        }
        loop {
            let id = self.ready.pop_front()?;
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            if let Some(write) = job.write.take() {
                self.out += 1;
                return Some((id, write));
            }
        }
    }

    /// Takes the result of an attempt.
    pub(crate) fn done(&mut self, id: &EventKey, verdict: Verdict<W>, now: Instant) -> Outcome<W> {
        self.out = self.out.saturating_sub(1);
        let Some(job) = self.jobs.get_mut(id) else { return Outcome::Over };
        job.attempts += 1;
        let outcome = match verdict {
            Verdict::Done => Outcome::Over,
            Verdict::Retry(write, _) if self.is_closing => Outcome::OutOfTime(write),
            Verdict::Retry(write, _) if job.attempts >= self.limits.attempts => Outcome::Exhausted(write),
            Verdict::Retry(write, wait) => {
                job.write = Some(write);
                self.waits += 1;
                // A time that overflows is replaced by one day from now.
                let due = now.checked_add(wait).unwrap_or(now + Duration::from_secs(86_400));
                self.waiting.insert((due, self.waits), id.clone());
                return Outcome::Again;
            }
        };
        match job.next.take() {
            Some(next) => {
                *job = Job { write: Some(next), attempts: 0, next: None };
                self.ready.push_back(id.clone());
            }
            None => drop(self.jobs.remove(id)),
        }
        outcome
    }

    /// From now on every write has one attempt, without a delay.
    pub(crate) fn close(&mut self) {
        self.is_closing = true;
        self.ready.extend(std::mem::take(&mut self.waiting).into_values());
    }
}

#[cfg(test)]
mod tests;
