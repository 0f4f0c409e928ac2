//! The election as a state machine without clock, lock or task.
//!
//! The driver calls [`ElectionMachine::poll`] until it returns `Wait`, and reports each response of the lock.
//! Monotonic time, local to this process, drives every decision. Wall time is only written into records.
//!
//! Why two processes never lead at once:
//!
//! 1. A leader that sent a successful write at `s` leads until `s + renew deadline`. The write took effect at some time
//!    after `s`; the time of the response does not matter.
//! 2. Another candidate saw the resulting record at `o`, which is after the write took effect and so after `s`. It may
//!    write no earlier than `o + lease duration`, which is longer.
//! 3. That write replaces only the version it saw. If the leader has renewed meanwhile, the version differs and the
//!    write fails.
//! 4. A write that was abandoned can take effect at any later time, but only if no other write happened since its
//!    version was read, that is, if it would have been correct to send it then. It starts no term: a term starts with a
//!    response.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use evenkeel_base::planted::{Defect, is_planted};
use evenkeel_base::{Backoff, jitter};
use jiff::Timestamp;

use super::config::{JITTER, Timing};
use super::record::{Record, VersionedRecord, unlike, whole_microseconds};
use crate::environment::time_of_day;

/// The first wait after a conflict while releasing. It doubles up to the retry period.
const CONFLICT_WAIT: Duration = Duration::from_millis(10);

/// How many acquisitions of unknown outcome are remembered. An evicted one counts as another process's.
const CLAIMS: usize = 4;

/// What the driver does next.
#[derive(Debug, PartialEq)]
pub(crate) enum ElectionAction {
    /// Send this request and pass the response to [`ElectionMachine::respond`]. An earlier request is abandoned.
    Send(LockRequest),
    /// Start to lead.
    Lead(Term),
    /// Stop leading. Work under the lease stops now; then the driver calls [`ElectionMachine::leave`].
    Lost(LostReason),
    /// Wait until this time or the next response. `None`: wait for a response or a call only.
    Wait(Option<Instant>),
    /// The election is over. `released` is false if the record may still name this candidate.
    Over { released: bool },
}

/// A request to the lock.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LockRequest {
    pub(crate) id: u64,
    pub(crate) what: LockOperation,
    /// When the request is abandoned.
    pub(crate) give_up: Instant,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LockOperation {
    Get,
    Create(Record),
    /// Replaces the record only if it still has this version.
    Update(Record, String),
}

/// The response to a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LockResponse {
    /// The record that was read or written.
    Held(VersionedRecord),
    /// There is no record.
    Missing,
    /// The record has another version.
    Conflict,
    /// Any other failure. Whether the request took effect is unknown.
    Failed,
}

/// One term of leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    /// The number of the term. It increases with each term.
    pub(crate) number: i32,
    /// The start of the term by the wall clock. Together with the number it identifies the term.
    pub(crate) acquired: Timestamp,
}

/// Why a leader stopped leading.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostReason {
    /// No renewal succeeded in time.
    Expired,
    /// The record names another holder although the term was still valid.
    Taken {
        /// The new holder. Empty if the record was cleared.
        by: String,
    },
    /// A coordinated election prefers another leader.
    EndOfTerm {
        /// The preferred leader.
        preferred: String,
    },
}

pub(crate) struct ElectionMachine {
    timing: Timing,
    identity: String,
    coordinated: bool,
    release_on_leave: bool,
    phase: ElectionPhase,
    /// `None` while there is nothing to attempt.
    step: Option<Attempt>,
    last_id: u64,
    observed: Option<Observed>,
    /// The highest term number seen so far, so that a Lease that is deleted and recreated does not restart the
    /// numbers.
    highest: Option<i32>,
    /// Terms this candidate may have written, with or without a response.
    claims: VecDeque<Term>,
    /// An acquisition of unknown outcome was sent.
    uncertain: bool,
    slow_paths: u64,
}

#[derive(Debug)]
enum ElectionPhase {
    Campaigning,
    Leading {
        term: Term,
        valid_until: Instant,
        announced: bool,
    },
    /// The term has ended and its work is stopping. Holds the reason until the driver has taken it.
    Lost(Option<LostReason>),
    Releasing {
        until: Instant,
        /// The number of conflicts, for the backoff.
        conflicts: u32,
    },
    Over {
        released: bool,
    },
}

/// The progress of one attempt to read or write the record.
#[derive(Clone, Copy, Debug)]
enum Attempt {
    /// Idle between two attempts.
    Idle { until: Instant },
    /// About to send a request of an attempt that started at `began`.
    Next { plan: RequestPlan, began: Instant },
    /// Sent; waiting for the response.
    Sent { id: u64, plan: RequestPlan, began: Instant, sent: Instant, give_up: Instant },
    /// The attempt failed.
    Failed { began: Instant },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestPlan {
    Get,
    /// Creates the missing record, for a new term or for the current one.
    Create(Option<Term>),
    /// Replaces the record to start this term.
    Take(Option<Term>),
    /// Renews without reading first.
    FastRenew,
    Renew,
    Release,
}

struct Observed {
    /// `None` if there was no object.
    held: Option<VersionedRecord>,
    at: Instant,
    /// The lease duration of the record: candidates do not try to take the lease before it is over.
    lasts: Duration,
}

impl ElectionMachine {
    /// Returns an idle candidate.
    pub(crate) fn new(timing: Timing, identity: String, coordinated: bool, release_on_leave: bool) -> Self {
        ElectionMachine {
            timing,
            identity,
            coordinated,
            release_on_leave,
            phase: ElectionPhase::Over { released: true },
            step: None,
            last_id: 0,
            observed: None,
            highest: None,
            claims: VecDeque::new(),
            uncertain: false,
            slow_paths: 0,
        }
    }

    /// Starts to campaign.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.phase = ElectionPhase::Campaigning;
        self.step = Some(Attempt::Idle { until: now });
    }

    /// Leaves the election. The caller has stopped all work under the lease. The record is not renewed any more.
    pub(crate) fn leave(&mut self, now: Instant) {
        let may_hold = match self.phase {
            ElectionPhase::Leading { .. } | ElectionPhase::Lost(_) => true,
            ElectionPhase::Campaigning => self.uncertain || self.is_acquiring(),
            ElectionPhase::Releasing { .. } | ElectionPhase::Over { .. } => return,
        };
        if may_hold && self.release_on_leave {
            let until = now + self.timing.renew_deadline;
            self.phase = ElectionPhase::Releasing { until, conflicts: 0 };
            self.step = Some(Attempt::Idle { until: now });
        } else {
            self.over(!may_hold);
        }
    }

    /// Returns what to do next. `random` is between 0 and 1.
    pub(crate) fn poll(&mut self, now: Instant, wall: Timestamp, random: f64) -> ElectionAction {
        self.expire(now);
        match &mut self.phase {
            ElectionPhase::Leading { term, announced, .. } if !*announced => {
                *announced = true;
                return ElectionAction::Lead(*term);
            }
            ElectionPhase::Lost(why) => {
                return match why.take() {
                    Some(why) => ElectionAction::Lost(why),
                    None => ElectionAction::Wait(None),
                };
            }
            ElectionPhase::Over { released } => return ElectionAction::Over { released: *released },
            _ => {}
        }
        self.schedule_retry(now, random);
        match self.step {
            Some(Attempt::Idle { until }) if now < until => self.wait(until),
            Some(Attempt::Idle { .. } | Attempt::Failed { .. }) => {
                let plan = self.first_plan();
                self.send(plan, now, now, wall)
            }
            Some(Attempt::Next { plan, began }) => self.send(plan, began, now, wall),
            Some(Attempt::Sent { give_up, .. }) => self.wait(give_up),
            None => ElectionAction::Wait(None),
        }
    }

    /// Takes the response to a request. Responses to abandoned requests are ignored.
    pub(crate) fn respond(&mut self, now: Instant, id: u64, response: LockResponse) {
        // An expired term stays expired, even if the response would have extended it.
        self.expire(now);
        self.resolve(now, id, response);
    }

    fn resolve(&mut self, now: Instant, id: u64, answer: LockResponse) {
        let Some(Attempt::Sent { id: expected, plan, began, sent, .. }) = self.step else { return };
        if id != expected {
            return;
        }
        self.step = match plan {
            RequestPlan::Get => self.got(now, began, answer),
            RequestPlan::Create(term) | RequestPlan::Take(term) => self.acquired(now, began, sent, term, answer),
            RequestPlan::FastRenew | RequestPlan::Renew => self.renewal_answered(now, began, sent, plan, answer),
            RequestPlan::Release => self.released(now, answer),
        };
    }

    /// Returns when the term expires, if this candidate leads.
    pub(crate) fn valid_until(&self) -> Option<Instant> {
        match self.phase {
            ElectionPhase::Leading { valid_until, .. } => Some(valid_until),
            _ => None,
        }
    }

    /// Returns when the last successful write was sent, if this candidate leads.
    pub(crate) fn renewed_at(&self) -> Option<Instant> {
        self.valid_until()?.checked_sub(self.timing.renew_deadline)
    }

    /// Returns the last observed leader. Empty if the record has no holder.
    pub(crate) fn holder(&self) -> Option<&str> {
        let held = self.observed.as_ref()?.held.as_ref()?;
        Some(&held.record.holder)
    }

    /// Returns how many renewals had to read the record first.
    pub(crate) fn slow_paths(&self) -> u64 {
        self.slow_paths
    }

    fn is_acquiring(&self) -> bool {
        matches!(self.step, Some(Attempt::Sent { plan: RequestPlan::Create(_) | RequestPlan::Take(_), .. }))
    }

    fn over(&mut self, released: bool) {
        self.phase = ElectionPhase::Over { released };
        self.step = None;
    }

    fn lose(&mut self, why: LostReason) {
        self.phase = ElectionPhase::Lost(Some(why));
        self.step = None;
    }

    /// Applies what the passage of time alone decides.
    fn expire(&mut self, now: Instant) {
        match self.phase {
            ElectionPhase::Leading { valid_until, announced: true, .. } if now >= valid_until => {
                self.lose(LostReason::Expired)
            }
            // Expired before it was announced.
            ElectionPhase::Leading { valid_until, .. } if now >= valid_until => {
                self.phase = ElectionPhase::Campaigning;
                self.uncertain = true;
                self.step = Some(Attempt::Failed { began: now });
            }
            ElectionPhase::Releasing { until, .. } if now >= until => self.over(false),
            _ => {}
        }
        if let Some(Attempt::Sent { id, give_up, .. }) = self.step
            && now >= give_up
        {
            self.resolve(now, id, LockResponse::Failed);
        }
    }

    /// Schedules the next attempt after a failure. Leaders retry as soon as possible; candidates add jitter.
    fn schedule_retry(&mut self, now: Instant, random: f64) {
        if let Some(Attempt::Failed { began }) = self.step {
            let period = self.timing.retry_period;
            let until = match self.phase {
                ElectionPhase::Leading { .. } => now.max(began + period),
                _ => now + jitter(period, JITTER, random),
            };
            self.step = Some(Attempt::Idle { until });
        }
    }

    fn wait(&self, until: Instant) -> ElectionAction {
        let end = match self.phase {
            ElectionPhase::Leading { valid_until, .. } => valid_until,
            ElectionPhase::Releasing { until, .. } => until,
            _ => until,
        };
        ElectionAction::Wait(Some(until.min(end)))
    }

    fn first_plan(&mut self) -> RequestPlan {
        match self.phase {
            ElectionPhase::Leading { .. } if !self.coordinated => RequestPlan::FastRenew,
            ElectionPhase::Leading { .. } => {
                self.slow_paths += 1;
                RequestPlan::Get
            }
            _ => RequestPlan::Get,
        }
    }

    fn send(&mut self, plan: RequestPlan, began: Instant, now: Instant, wall: Timestamp) -> ElectionAction {
        let (plan, what) = self.operation_of(plan, whole_microseconds(wall));
        self.last_id += 1;
        let mut give_up = now + self.timing.call_timeout();
        match self.phase {
            ElectionPhase::Leading { valid_until: end, .. } | ElectionPhase::Releasing { until: end, .. } => {
                give_up = give_up.min(end)
            }
            _ => {}
        }
        self.step = Some(Attempt::Sent { id: self.last_id, plan, began, sent: now, give_up });
        ElectionAction::Send(LockRequest { id: self.last_id, what, give_up })
    }

    /// Translates a plan into a lock operation. A plan that starts a term is returned with that term.
    fn operation_of(&mut self, plan: RequestPlan, wall: Timestamp) -> (RequestPlan, LockOperation) {
        let held = self.observed.as_ref().and_then(|observed| observed.held.clone());
        let Some(VersionedRecord { record: old, version }) = held else {
            return match plan {
                RequestPlan::Create(going_on) => {
                    let term = going_on.unwrap_or_else(|| self.claim(wall));
                    (RequestPlan::Create(Some(term)), LockOperation::Create(self.record(term, wall)))
                }
                // All other plans replace a record that was seen.
                _ => (RequestPlan::Get, LockOperation::Get),
            };
        };
        let renewed_at = unlike(wall, old.renew_time);
        match plan {
            RequestPlan::Get | RequestPlan::Create(_) => (RequestPlan::Get, LockOperation::Get),
            RequestPlan::Take(_) => {
                let term = self.claim(renewed_at);
                (
                    RequestPlan::Take(Some(term)),
                    LockOperation::Update(self.carry_over(self.record(term, renewed_at), old), version),
                )
            }
            RequestPlan::FastRenew | RequestPlan::Renew => {
                let term = Term { number: old.transitions, acquired: old.acquire_time.unwrap_or(renewed_at) };
                (plan, LockOperation::Update(self.carry_over(self.record(term, renewed_at), old), version))
            }
            RequestPlan::Release => {
                let free = Record {
                    lease_seconds: 1,
                    acquire_time: Some(renewed_at),
                    renew_time: Some(renewed_at),
                    transitions: old.transitions,
                    ..Record::default()
                };
                (plan, LockOperation::Update(self.carry_over(free, old), version))
            }
        }
    }

    fn record(&self, term: Term, wall: Timestamp) -> Record {
        Record {
            holder: self.identity.clone(),
            lease_seconds: self.timing.lease_seconds(),
            acquire_time: Some(term.acquired),
            renew_time: Some(wall),
            transitions: term.number,
            ..Record::default()
        }
    }

    /// Keeps the fields of a coordinated election. Other elections clear them.
    fn carry_over(&self, record: Record, old: Record) -> Record {
        match self.coordinated {
            true => Record { strategy: old.strategy, preferred_holder: old.preferred_holder, ..record },
            false => record,
        }
    }

    /// Starts a new term, numbered above every term seen so far.
    fn claim(&mut self, wall: Timestamp) -> Term {
        let number = self.highest.map_or(0, |highest| highest.max(-1).saturating_add(1));
        let term = Term { number, acquired: wall };
        if self.claims.len() == CLAIMS {
            self.claims.pop_front();
        }
        self.claims.push_back(term);
        term
    }

    /// Returns whether this candidate wrote the record. The identity alone is not enough: another process may have the
    /// same one. In a coordinated election it is, because the server writes it.
    fn is_ours(&self, record: &Record) -> bool {
        record.holder == self.identity
            && (self.coordinated
                || self
                    .claims
                    .iter()
                    .any(|claim| claim.number == record.transitions && Some(claim.acquired) == record.acquire_time))
    }

    /// Only an observed change restarts the lease duration; the time it was written does not matter.
    fn observe(&mut self, now: Instant, held: Option<VersionedRecord>) {
        if let Some(held) = &held {
            self.highest = self.highest.max(Some(held.record.transitions));
        }
        let lasts = match (&self.observed, &held) {
            (None, None) => return,
            (Some(observed), held) if observed.held == *held => return,
            (_, Some(held)) => Duration::from_secs(held.record.lease_seconds.try_into().unwrap_or(0)),
            (Some(observed), None) => observed.lasts,
        };
        self.observed = Some(Observed { held, at: now, lasts });
    }

    fn is_unexpired(&self, now: Instant) -> bool {
        let Some(observed) = &self.observed else { return false };
        match observed.held.as_ref().and_then(|held| held.record.renew_time) {
            Some(renewed) if is_planted(Defect::RenewTimeTrusted) => {
                renewed.checked_add(observed.lasts).is_ok_and(|end| time_of_day() < end)
            }
            _ => now < observed.at + observed.lasts,
        }
    }

    fn got(&mut self, now: Instant, began: Instant, answer: LockResponse) -> Option<Attempt> {
        let held = match answer {
            LockResponse::Held(held) => Some(held),
            LockResponse::Missing => None,
            LockResponse::Conflict | LockResponse::Failed => {
                return match self.phase {
                    ElectionPhase::Releasing { .. } => self.done(false),
                    _ => Some(Attempt::Failed { began }),
                };
            }
        };
        self.observe(now, held.clone());
        let plan = match self.phase {
            ElectionPhase::Campaigning => self.may_acquire(now, held.as_ref()),
            ElectionPhase::Leading { term, .. } => match self.may_renew(now, term, held.as_ref()) {
                Ok(plan) => plan,
                Err(why) => {
                    self.lose(why);
                    return None;
                }
            },
            ElectionPhase::Releasing { .. } => match held {
                Some(held) if self.is_ours(&held.record) || is_planted(Defect::ReleasesRivalLease) => {
                    Some(RequestPlan::Release)
                }
                Some(_) => return self.done(true),
                None => return self.done(false),
            },
            ElectionPhase::Lost(_) | ElectionPhase::Over { .. } => return None,
        };
        Some(match plan {
            Some(plan) => Attempt::Next { plan, began },
            None => Attempt::Failed { began },
        })
    }

    fn may_acquire(&self, now: Instant, held: Option<&VersionedRecord>) -> Option<RequestPlan> {
        let left_alone = self.is_unexpired(now);
        match held {
            None if self.coordinated => None,
            // After a Lease was deleted, its leader may not have noticed yet.
            None => (!left_alone).then_some(RequestPlan::Create(None)),
            Some(held) if self.coordinated => {
                let chosen = self.is_ours(&held.record) && held.record.preferred_holder.is_empty();
                (chosen && self.is_fresh(now)).then_some(RequestPlan::Take(None))
            }
            Some(held) => {
                let may = held.record.is_free() || self.is_ours(&held.record) || !left_alone;
                may.then_some(RequestPlan::Take(None))
            }
        }
    }

    fn may_renew(
        &self,
        now: Instant,
        term: Term,
        held: Option<&VersionedRecord>,
    ) -> Result<Option<RequestPlan>, LostReason> {
        let Some(VersionedRecord { record, .. }) = held else {
            return Ok((!self.coordinated).then_some(RequestPlan::Create(Some(term))));
        };
        let goes_on =
            self.coordinated || (record.transitions == term.number && record.acquire_time == Some(term.acquired));
        if record.holder != self.identity || !goes_on {
            return Err(LostReason::Taken { by: record.holder.clone() });
        }
        if self.coordinated && !record.preferred_holder.is_empty() {
            return Err(LostReason::EndOfTerm { preferred: record.preferred_holder.clone() });
        }
        Ok((!self.coordinated || self.is_fresh(now)).then_some(RequestPlan::Renew))
    }

    /// Returns whether a coordinated election still regards the record as valid.
    fn is_fresh(&self, now: Instant) -> bool {
        self.observed.as_ref().is_some_and(|observed| now <= observed.at + observed.lasts)
    }

    fn acquired(
        &mut self,
        now: Instant,
        began: Instant,
        sent: Instant,
        term: Option<Term>,
        answer: LockResponse,
    ) -> Option<Attempt> {
        if let ElectionPhase::Leading { .. } = self.phase {
            return self.renewal_answered(now, began, sent, RequestPlan::Renew, answer);
        }
        match (answer, term) {
            (LockResponse::Held(held), Some(term)) => {
                self.observe(now, Some(held));
                let valid_until = self.term_end(sent, now);
                self.phase = ElectionPhase::Leading { term, valid_until, announced: false };
                self.uncertain = false;
                Some(Attempt::Idle { until: now.max(sent + self.timing.retry_period) })
            }
            (LockResponse::Missing | LockResponse::Conflict, _) => Some(Attempt::Failed { began }),
            _ => {
                self.uncertain = true;
                Some(Attempt::Failed { began })
            }
        }
    }

    /// Returns when a term ends whose last write was sent at this time and answered now.
    fn term_end(&self, sent: Instant, now: Instant) -> Instant {
        let from = if is_planted(Defect::ValidFromResponse) { now } else { sent };
        from + self.timing.renew_deadline
    }

    fn renewal_answered(
        &mut self,
        now: Instant,
        began: Instant,
        sent: Instant,
        plan: RequestPlan,
        answer: LockResponse,
    ) -> Option<Attempt> {
        let end = self.term_end(sent, now);
        if let (LockResponse::Held(held), ElectionPhase::Leading { valid_until, .. }) = (&answer, &mut self.phase) {
            *valid_until = end;
            self.observe(now, Some(held.clone()));
            return Some(Attempt::Idle { until: now.max(sent + self.timing.retry_period) });
        }
        if plan == RequestPlan::FastRenew {
            self.slow_paths += 1;
            return Some(Attempt::Next { plan: RequestPlan::Get, began });
        }
        Some(Attempt::Failed { began })
    }

    fn released(&mut self, now: Instant, answer: LockResponse) -> Option<Attempt> {
        match answer {
            LockResponse::Held(held) => {
                self.observe(now, Some(held));
                self.done(true)
            }
            LockResponse::Conflict => match &mut self.phase {
                ElectionPhase::Releasing { conflicts, .. } => {
                    *conflicts = conflicts.saturating_add(1);
                    let backoff = Backoff::doubling(CONFLICT_WAIT, self.timing.retry_period);
                    Some(Attempt::Idle { until: now + backoff.wait(*conflicts) })
                }
                _ => None,
            },
            LockResponse::Missing | LockResponse::Failed => self.done(false),
        }
    }

    fn done(&mut self, released: bool) -> Option<Attempt> {
        self.over(released);
        None
    }
}

#[cfg(test)]
mod tests;
