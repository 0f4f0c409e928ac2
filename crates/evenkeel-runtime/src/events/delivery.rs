//! [`Delivery`]: what is to be written, when, and how often it is tried.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::EventKey;

/// Writes on their way. Those with the same id go one after the other, and of those that wait the later takes the place of the
/// earlier; those with different ids do not wait for each other. It is given the time, and sends nothing by itself.
///
/// No write is lost but by [`Verdict::Retry`] after the last attempt.
#[derive(Debug)]
pub(crate) struct Delivery<W> {
    jobs: HashMap<EventKey, Job<W>>,
    ready: VecDeque<EventKey>,
    waiting: BTreeMap<(Instant, u64), EventKey>,
    /// How often somebody has begun to wait, which tells apart those that wait for the same moment.
    waits: u64,
    out: usize,
    limits: Limits,
    is_closing: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How many ids there may be.
    pub(crate) jobs: usize,
    /// How many writes may be out at once.
    pub(crate) out: usize,
    /// How often a write is tried.
    pub(crate) attempts: u32,
}

#[derive(Debug)]
struct Job<W> {
    /// None while it is out.
    write: Option<W>,
    attempts: u32,
    /// What came while it was out.
    next: Option<W>,
}

/// How an attempt went.
#[derive(Debug)]
pub(crate) enum Verdict<W> {
    /// There is no more to do.
    Done,
    /// It may go better after this time, if there is another attempt.
    Retry(W, Duration),
}

/// What becomes of a write after an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome<W> {
    /// It is over.
    Over,
    /// It will be tried again.
    Again,
    /// It was the last attempt.
    Exhausted(W),
    /// There is no time for another one.
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

    /// Adds a write. `merge` makes one of an earlier and a later one.
    pub(crate) fn push(&mut self, id: EventKey, write: W, merge: impl FnOnce(W, W) -> W) {
        match self.jobs.entry(id) {
            Entry::Vacant(vacant) => {
                self.ready.push_back(vacant.key().clone());
                vacant.insert(Job { write: Some(write), attempts: 0, next: None });
            }
            Entry::Occupied(mut occupied) => {
                let job = occupied.get_mut();
                // What came while it was out goes before what comes now, also if it is to be tried again meanwhile.
                let is_first = job.write.is_some() && job.next.is_none();
                let place = if is_first { &mut job.write } else { &mut job.next };
                *place = Some(match place.take() {
                    Some(earlier) => merge(earlier, write),
                    None => write,
                });
            }
        }
    }

    /// Whether more may be added.
    pub(crate) fn has_room(&self) -> bool {
        self.jobs.len() < self.limits.jobs
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// When to ask again, if nothing else happens.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    /// How often the write that is out was tried before.
    pub(crate) fn attempts(&self, id: &EventKey) -> u32 {
        self.jobs.get(id).map_or(0, |job| job.attempts)
    }

    /// A write to be sent now.
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

    /// An attempt is over.
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
                // A time too far to count is as good as none at all, and that a day away is as good as that.
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

    /// From now on every write has one attempt, and nobody waits for it.
    pub(crate) fn close(&mut self) {
        self.is_closing = true;
        self.ready.extend(std::mem::take(&mut self.waiting).into_values());
    }
}

#[cfg(test)]
mod tests;
