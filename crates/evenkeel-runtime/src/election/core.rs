//! The election as a state machine: no clock, no lock, no task.
//!
//! Whoever drives it asks [`Core::poll`] what to do until the answer is to wait, and tells it what the API answered. Time comes
//! in two kinds. Monotonic time decides everything, and is this process's own. Wall time is written into records and decides
//! nothing.
//!
//! Why no two lead at once, in four steps:
//!
//! 1. A leader that sent a write at `s`, which succeeded, leads until `s + renew deadline`. The write took effect at some time
//!    after `s`; when its answer came plays no part.
//! 2. Another candidate saw the record that the write made at `o`, which is after the write took effect and so after `s`. It may
//!    write no earlier than `o + lease duration`, which is longer.
//! 3. What it then writes replaces the version which it saw. If the leader has renewed meanwhile, there is another version and
//!    the write fails.
//! 4. A write that was given up can take effect at any later time, but only if nobody has written since its version was read,
//!    that is, if it would have been right to send it then. It starts no term: a term starts with an answer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::config::{JITTER, Timing};
use super::record::{Held, Record, unlike, whole_microseconds};

/// The first pause after a conflict while releasing. It doubles each time.
const CONFLICT_PAUSE: Duration = Duration::from_millis(10);

/// So many acquisitions whose outcome may not be known are remembered. One that is forgotten counts as somebody else's.
const CLAIMS: usize = 4;

/// What is to be done next.
#[derive(Debug, PartialEq)]
pub(crate) enum Do {
    /// Send this, and tell [`Core::answer`] what came of it. Whatever was sent before is given up.
    Send(Call),
    /// Begin to lead.
    Lead(Term),
    /// Cease to lead. What is done in the name of the lease ends now; then [`Core::leave`] is called.
    Lost(LostReason),
    /// Nothing before this time, unless an answer comes. Without a time: nothing until told otherwise.
    Wait(Option<Instant>),
    /// Nothing more. Says whether the lock is free of us, as far as is known.
    Over { released: bool },
}

/// A request to the lock.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: u64,
    pub(crate) what: What,
    /// When its answer is of no more use.
    pub(crate) give_up: Instant,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    Get,
    Create(Record),
    /// Only if the object has still this version.
    Update(Record, String),
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// The record that is there, or that was written.
    Held(Held),
    /// There is none.
    Missing,
    /// Another version is there.
    Conflict,
    /// Anything else. Whether it took effect is not known.
    Failed,
}

/// One term of leading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    /// The number that grows with each term.
    pub(crate) number: i32,
    /// When it began, by the wall clock. With the number, this is how a term is recognised.
    pub(crate) acquired: Timestamp,
}

/// Why a leader no longer leads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostReason {
    /// No renewal succeeded in time.
    Expired,
    /// Somebody else's name is in the record, though our time was not over.
    Taken {
        /// Whose. Empty if the record was cleared.
        by: String,
    },
    /// A coordinated election wants somebody else to lead.
    EndOfTerm {
        /// Whom.
        preferred: String,
    },
}

pub(crate) struct Core {
    timing: Timing,
    identity: String,
    coordinated: bool,
    release_on_leave: bool,
    phase: Phase,
    /// `None` where there is nothing to be tried.
    step: Option<Step>,
    last_id: u64,
    observed: Option<Observed>,
    /// The highest number of a term that was ever seen. A lease that is deleted and made again does not start over.
    highest: Option<i32>,
    /// How we would recognise a record that we wrote, whether or not we were told that it was written.
    claims: VecDeque<Term>,
    /// An acquisition was sent and its outcome is not known.
    uncertain: bool,
    slow_paths: u64,
}

#[derive(Debug)]
enum Phase {
    Campaigning,
    Leading {
        term: Term,
        valid_until: Instant,
        announced: bool,
    },
    /// The term has ended, and what was done in its name is ending. Holds why until that was told.
    Lost(Option<LostReason>),
    Releasing {
        until: Instant,
        pause: Duration,
    },
    Over {
        released: bool,
    },
}

/// Where we are within an attempt.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Between two attempts.
    Rest { until: Instant },
    /// About to send, in an attempt that began then.
    Next { plan: Plan, began: Instant },
    /// Sent, and no answer yet.
    Sent { id: u64, plan: Plan, began: Instant, sent: Instant, give_up: Instant },
    /// The attempt failed.
    Failed { began: Instant },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Get,
    /// Makes the lease that is missing: for a new term, or for the one that goes on.
    Create(Option<Term>),
    /// Replaces what is there, to begin this term.
    Take(Option<Term>),
    /// Renews without having looked first.
    FastRenew,
    Renew,
    Release,
}

struct Observed {
    /// `None` if there was no object.
    held: Option<Held>,
    at: Instant,
    /// How long it is left alone.
    lasts: Duration,
}

impl Core {
    /// A candidate that does nothing yet.
    pub(crate) fn new(timing: Timing, identity: String, coordinated: bool, release_on_leave: bool) -> Self {
        Core {
            timing,
            identity,
            coordinated,
            release_on_leave,
            phase: Phase::Over { released: true },
            step: None,
            last_id: 0,
            observed: None,
            highest: None,
            claims: VecDeque::new(),
            uncertain: false,
            slow_paths: 0,
        }
    }

    /// Begins to campaign.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.phase = Phase::Campaigning;
        self.step = Some(Step::Rest { until: now });
    }

    /// Leaves the election: what was done in the name of the lease has ended, or nothing was. Nothing more will be renewed.
    pub(crate) fn leave(&mut self, now: Instant) {
        let may_hold = match self.phase {
            Phase::Leading { .. } | Phase::Lost(_) => true,
            Phase::Campaigning => self.uncertain || self.is_acquiring(),
            Phase::Releasing { .. } | Phase::Over { .. } => return,
        };
        if may_hold && self.release_on_leave {
            let until = now + self.timing.renew_deadline;
            self.phase = Phase::Releasing { until, pause: CONFLICT_PAUSE };
            self.step = Some(Step::Rest { until: now });
        } else {
            self.over(!may_hold);
        }
    }

    /// What to do next. `random` is between 0 and 1.
    pub(crate) fn poll(&mut self, now: Instant, wall: Timestamp, random: f64) -> Do {
        self.notice_the_time(now);
        match &mut self.phase {
            Phase::Leading { term, announced, .. } if !*announced => {
                *announced = true;
                return Do::Lead(*term);
            }
            Phase::Lost(why) => {
                return match why.take() {
                    Some(why) => Do::Lost(why),
                    None => Do::Wait(None),
                };
            }
            Phase::Over { released } => return Do::Over { released: *released },
            _ => {}
        }
        self.notice_failure(now, random);
        match self.step {
            Some(Step::Rest { until }) if now < until => self.wait(until),
            Some(Step::Rest { .. } | Step::Failed { .. }) => {
                let plan = self.first_plan();
                self.send(plan, now, now, wall)
            }
            Some(Step::Next { plan, began }) => self.send(plan, began, now, wall),
            Some(Step::Sent { give_up, .. }) => self.wait(give_up),
            None => Do::Wait(None),
        }
    }

    /// What came of a call. Answers to calls that were given up are ignored.
    pub(crate) fn answer(&mut self, now: Instant, id: u64, answer: Answer) {
        // A term that is over stays over, even if the answer says that it might have gone on.
        self.notice_the_time(now);
        self.resolve(now, id, answer);
    }

    fn resolve(&mut self, now: Instant, id: u64, answer: Answer) {
        let Some(Step::Sent { id: expected, plan, began, sent, .. }) = self.step else { return };
        if id != expected {
            return;
        }
        self.step = match plan {
            Plan::Get => self.got(now, began, answer),
            Plan::Create(term) | Plan::Take(term) => self.acquired(now, began, sent, term, answer),
            Plan::FastRenew | Plan::Renew => self.renewed(now, began, sent, plan, answer),
            Plan::Release => self.released(now, answer),
        };
    }

    /// Until when we lead, if we do.
    pub(crate) fn valid_until(&self) -> Option<Instant> {
        match self.phase {
            Phase::Leading { valid_until, .. } => Some(valid_until),
            _ => None,
        }
    }

    /// When the write was sent that we lead by, if we do.
    pub(crate) fn renewed_at(&self) -> Option<Instant> {
        self.valid_until()?.checked_sub(self.timing.renew_deadline)
    }

    /// Who leads as far as is known. Empty if nobody does.
    pub(crate) fn holder(&self) -> Option<&str> {
        let held = self.observed.as_ref()?.held.as_ref()?;
        Some(&held.record.holder)
    }

    /// How many renewals had to look first.
    pub(crate) fn slow_paths(&self) -> u64 {
        self.slow_paths
    }

    fn is_acquiring(&self) -> bool {
        matches!(self.step, Some(Step::Sent { plan: Plan::Create(_) | Plan::Take(_), .. }))
    }

    fn over(&mut self, released: bool) {
        self.phase = Phase::Over { released };
        self.step = None;
    }

    fn lose(&mut self, why: LostReason) {
        self.phase = Phase::Lost(Some(why));
        self.step = None;
    }

    /// What the passing of time alone decides.
    fn notice_the_time(&mut self, now: Instant) {
        match self.phase {
            Phase::Leading { valid_until, announced: true, .. } if now >= valid_until => self.lose(LostReason::Expired),
            // Over before anybody knew of it.
            Phase::Leading { valid_until, .. } if now >= valid_until => {
                self.phase = Phase::Campaigning;
                self.uncertain = true;
                self.step = Some(Step::Failed { began: now });
            }
            Phase::Releasing { until, .. } if now >= until => self.over(false),
            _ => {}
        }
        if let Some(Step::Sent { id, give_up, .. }) = self.step
            && now >= give_up
        {
            self.resolve(now, id, Answer::Failed);
        }
    }

    /// When to try again after a failure. Those who lead have no time to lose; others keep out of each other's way.
    fn notice_failure(&mut self, now: Instant, random: f64) {
        if let Some(Step::Failed { began }) = self.step {
            let period = self.timing.retry_period;
            let until = match self.phase {
                Phase::Leading { .. } => now.max(began + period),
                _ => now + period + period.mul_f64(JITTER * random.clamp(0.0, 1.0)),
            };
            self.step = Some(Step::Rest { until });
        }
    }

    fn wait(&self, until: Instant) -> Do {
        let end = match self.phase {
            Phase::Leading { valid_until, .. } => valid_until,
            Phase::Releasing { until, .. } => until,
            _ => until,
        };
        Do::Wait(Some(until.min(end)))
    }

    fn first_plan(&mut self) -> Plan {
        match self.phase {
            Phase::Leading { .. } if !self.coordinated => Plan::FastRenew,
            Phase::Leading { .. } => {
                self.slow_paths += 1;
                Plan::Get
            }
            _ => Plan::Get,
        }
    }

    fn send(&mut self, plan: Plan, began: Instant, now: Instant, wall: Timestamp) -> Do {
        let (plan, what) = self.write(plan, whole_microseconds(wall));
        self.last_id += 1;
        let mut give_up = now + self.timing.call_timeout();
        match self.phase {
            Phase::Leading { valid_until: end, .. } | Phase::Releasing { until: end, .. } => give_up = give_up.min(end),
            _ => {}
        }
        self.step = Some(Step::Sent { id: self.last_id, plan, began, sent: now, give_up });
        Do::Send(Call { id: self.last_id, what, give_up })
    }

    /// What a plan is in words of the lock. A plan to begin a term learns which one.
    fn write(&mut self, plan: Plan, wall: Timestamp) -> (Plan, What) {
        let held = self.observed.as_ref().and_then(|observed| observed.held.clone());
        let Some(Held { record: old, version }) = held else {
            return match plan {
                Plan::Create(going_on) => {
                    let term = going_on.unwrap_or_else(|| self.claim(wall));
                    (Plan::Create(Some(term)), What::Create(self.record(term, wall)))
                }
                // The others replace something that was seen.
                _ => (Plan::Get, What::Get),
            };
        };
        let renewed_at = unlike(wall, old.renew_time);
        match plan {
            Plan::Get | Plan::Create(_) => (Plan::Get, What::Get),
            Plan::Take(_) => {
                let term = self.claim(renewed_at);
                (Plan::Take(Some(term)), What::Update(self.carry_over(self.record(term, renewed_at), old), version))
            }
            Plan::FastRenew | Plan::Renew => {
                let term = Term { number: old.transitions, acquired: old.acquire_time.unwrap_or(renewed_at) };
                (plan, What::Update(self.carry_over(self.record(term, renewed_at), old), version))
            }
            Plan::Release => {
                let free = Record {
                    lease_seconds: 1,
                    acquire_time: Some(renewed_at),
                    renew_time: Some(renewed_at),
                    transitions: old.transitions,
                    ..Record::default()
                };
                (plan, What::Update(self.carry_over(free, old), version))
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

    /// A coordinated election keeps its own notes in the lease. Without one they mean nothing and are cleared.
    fn carry_over(&self, record: Record, old: Record) -> Record {
        match self.coordinated {
            true => Record { strategy: old.strategy, preferred_holder: old.preferred_holder, ..record },
            false => record,
        }
    }

    /// A new term, with a higher number than any that was seen.
    fn claim(&mut self, wall: Timestamp) -> Term {
        let number = self.highest.map_or(0, |highest| highest.max(-1).saturating_add(1));
        let term = Term { number, acquired: wall };
        if self.claims.len() == CLAIMS {
            self.claims.pop_front();
        }
        self.claims.push_back(term);
        term
    }

    /// Whether a record is of our own writing. Our name in it is not enough: another process may have been given the same name.
    /// In a coordinated election it is, because there the server writes our name.
    fn is_ours(&self, record: &Record) -> bool {
        record.holder == self.identity
            && (self.coordinated
                || self
                    .claims
                    .iter()
                    .any(|claim| claim.number == record.transitions && Some(claim.acquired) == record.acquire_time))
    }

    /// Only what is seen to change counts as news; when it was written does not matter.
    fn observe(&mut self, now: Instant, held: Option<Held>) {
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

    fn is_left_alone(&self, now: Instant) -> bool {
        self.observed.as_ref().is_some_and(|observed| now < observed.at + observed.lasts)
    }

    fn got(&mut self, now: Instant, began: Instant, answer: Answer) -> Option<Step> {
        let held = match answer {
            Answer::Held(held) => Some(held),
            Answer::Missing => None,
            Answer::Conflict | Answer::Failed => {
                return match self.phase {
                    Phase::Releasing { .. } => self.done(false),
                    _ => Some(Step::Failed { began }),
                };
            }
        };
        self.observe(now, held.clone());
        let plan = match self.phase {
            Phase::Campaigning => self.may_acquire(now, held.as_ref()),
            Phase::Leading { term, .. } => match self.may_renew(now, term, held.as_ref()) {
                Ok(plan) => plan,
                Err(why) => {
                    self.lose(why);
                    return None;
                }
            },
            Phase::Releasing { .. } => match held {
                Some(held) if self.is_ours(&held.record) => Some(Plan::Release),
                Some(_) => return self.done(true),
                None => return self.done(false),
            },
            Phase::Lost(_) | Phase::Over { .. } => return None,
        };
        Some(match plan {
            Some(plan) => Step::Next { plan, began },
            None => Step::Failed { began },
        })
    }

    fn may_acquire(&self, now: Instant, held: Option<&Held>) -> Option<Plan> {
        let left_alone = self.is_left_alone(now);
        match held {
            None if self.coordinated => None,
            // Where there was a lease, somebody may lead who has not noticed yet that it is gone.
            None => (!left_alone).then_some(Plan::Create(None)),
            Some(held) if self.coordinated => {
                let chosen = self.is_ours(&held.record) && held.record.preferred_holder.is_empty();
                (chosen && self.is_fresh(now)).then_some(Plan::Take(None))
            }
            Some(held) => {
                let may = held.record.is_free() || self.is_ours(&held.record) || !left_alone;
                may.then_some(Plan::Take(None))
            }
        }
    }

    fn may_renew(&self, now: Instant, term: Term, held: Option<&Held>) -> Result<Option<Plan>, LostReason> {
        let Some(Held { record, .. }) = held else {
            return Ok((!self.coordinated).then_some(Plan::Create(Some(term))));
        };
        let goes_on =
            self.coordinated || (record.transitions == term.number && record.acquire_time == Some(term.acquired));
        if record.holder != self.identity || !goes_on {
            return Err(LostReason::Taken { by: record.holder.clone() });
        }
        if self.coordinated && !record.preferred_holder.is_empty() {
            return Err(LostReason::EndOfTerm { preferred: record.preferred_holder.clone() });
        }
        Ok((!self.coordinated || self.is_fresh(now)).then_some(Plan::Renew))
    }

    /// What a coordinated election asks of a record before it looks at whose it is.
    fn is_fresh(&self, now: Instant) -> bool {
        self.observed.as_ref().is_some_and(|observed| now <= observed.at + observed.lasts)
    }

    fn acquired(
        &mut self,
        now: Instant,
        began: Instant,
        sent: Instant,
        term: Option<Term>,
        answer: Answer,
    ) -> Option<Step> {
        if let Phase::Leading { .. } = self.phase {
            return self.renewed(now, began, sent, Plan::Renew, answer);
        }
        match (answer, term) {
            (Answer::Held(held), Some(term)) => {
                self.observe(now, Some(held));
                let valid_until = sent + self.timing.renew_deadline;
                self.phase = Phase::Leading { term, valid_until, announced: false };
                self.uncertain = false;
                Some(Step::Rest { until: now.max(sent + self.timing.retry_period) })
            }
            (Answer::Missing | Answer::Conflict, _) => Some(Step::Failed { began }),
            _ => {
                self.uncertain = true;
                Some(Step::Failed { began })
            }
        }
    }

    fn renewed(&mut self, now: Instant, began: Instant, sent: Instant, plan: Plan, answer: Answer) -> Option<Step> {
        if let (Answer::Held(held), Phase::Leading { valid_until, .. }) = (&answer, &mut self.phase) {
            *valid_until = sent + self.timing.renew_deadline;
            self.observe(now, Some(held.clone()));
            return Some(Step::Rest { until: now.max(sent + self.timing.retry_period) });
        }
        if plan == Plan::FastRenew {
            self.slow_paths += 1;
            return Some(Step::Next { plan: Plan::Get, began });
        }
        Some(Step::Failed { began })
    }

    fn released(&mut self, now: Instant, answer: Answer) -> Option<Step> {
        match answer {
            Answer::Held(held) => {
                self.observe(now, Some(held));
                self.done(true)
            }
            Answer::Conflict => match &mut self.phase {
                Phase::Releasing { pause, .. } => {
                    let until = now + *pause;
                    *pause = (*pause * 2).min(self.timing.retry_period);
                    Some(Step::Rest { until })
                }
                _ => None,
            },
            Answer::Missing | Answer::Failed => self.done(false),
        }
    }

    fn done(&mut self, released: bool) -> Option<Step> {
        self.over(released);
        None
    }
}
