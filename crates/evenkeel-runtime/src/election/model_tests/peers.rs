//! Candidates that follow the rules of others, as small as they can be.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::super::config::{JITTER, Timing};
use super::super::core::{Answer, Call, Do, LostReason, Term, What};
use super::super::record::{Held, Record};
use super::world::Candidate;

/// What they do otherwise.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// A record is old when what is written in it is, by the reader's clock.
    pub(super) trusts_written_times: bool,
    /// A leader leads until it has tried in vain for the renew deadline, from the first attempt after the last answer.
    pub(super) counts_from_answers: bool,
}

pub(super) struct Peer {
    timing: Timing,
    identity: String,
    rules: Rules,
    step: Step,
    last_id: u64,
    seen: Option<(Held, Instant)>,
    leads: Option<Leads>,
    /// The version that is known is the last one, as far as is known: no need to look first.
    is_fresh: bool,
    told: Told,
}

#[derive(Clone, Copy)]
struct Leads {
    until: Instant,
    number: i32,
}

#[derive(Clone, Copy, PartialEq)]
enum Told {
    Nothing,
    Leads,
    Lost,
}

enum Step {
    Rest(Instant),
    Write { began: Instant, create: bool },
    Sent { id: u64, is_write: bool, began: Instant, sent: Instant, give_up: Instant },
    Failed { began: Instant },
    Idle,
}

impl Peer {
    pub(super) fn new(timing: Timing, identity: String, rules: Rules) -> Self {
        let step = Step::Idle;
        Peer {
            timing,
            identity,
            rules,
            step,
            last_id: 0,
            seen: None,
            leads: None,
            is_fresh: false,
            told: Told::Nothing,
        }
    }

    fn may_write(&self, now: Instant, wall: Timestamp) -> bool {
        let Some((Held { record, .. }, at)) = &self.seen else { return true };
        let written = record.renew_time.unwrap();
        let is_old = match self.rules.trusts_written_times {
            true => wall.duration_since(written).as_secs() >= i64::from(record.lease_seconds),
            false => now >= *at + Duration::from_secs(record.lease_seconds as u64),
        };
        record.holder.is_empty() || record.holder == self.identity || is_old
    }

    fn send(&mut self, what: What, began: Instant, now: Instant) -> Do {
        self.last_id += 1;
        let mut give_up = now + self.timing.call_timeout();
        if let Some(leads) = self.leads {
            give_up = give_up.min(leads.until);
        }
        let (id, is_write) = (self.last_id, what != What::Get);
        self.step = Step::Sent { id, is_write, began, sent: now, give_up };
        Do::Send(Call { id, what, give_up })
    }

    fn record(&self, wall: Timestamp) -> Record {
        let old = self.seen.as_ref().map(|(held, _)| &held.record);
        let number = match (self.leads, old) {
            (Some(leads), _) => leads.number,
            (None, Some(old)) => old.transitions + 1,
            (None, None) => 0,
        };
        Record {
            holder: self.identity.clone(),
            lease_seconds: self.timing.lease_seconds(),
            acquire_time: Some(wall),
            renew_time: Some(wall),
            transitions: number,
            ..Record::default()
        }
    }
}

impl Candidate for Peer {
    fn begin(&mut self, now: Instant) {
        self.told = Told::Nothing;
        self.step = Step::Rest(now);
    }

    fn leave(&mut self, _: Instant) {
        self.leads = None;
        self.step = Step::Idle;
    }

    fn poll(&mut self, now: Instant, wall: Timestamp, random: f64) -> Do {
        match (self.leads, self.told) {
            (Some(leads), _) if now >= leads.until => {
                self.leads = None;
                self.told = Told::Lost;
                self.step = Step::Idle;
                return Do::Lost(LostReason::Expired);
            }
            (Some(leads), Told::Nothing) => {
                self.told = Told::Leads;
                return Do::Lead(Term { number: leads.number, acquired: wall });
            }
            (_, Told::Lost) => return Do::Over { released: false },
            _ => {}
        }
        if let Step::Sent { began, give_up, .. } = self.step
            && now >= give_up
        {
            self.is_fresh = false;
            self.step = Step::Failed { began };
        }
        if let Step::Failed { began } = self.step {
            let period = self.timing.retry_period;
            self.step = Step::Rest(match self.leads {
                Some(_) => now.max(began + period),
                None => now + period + period.mul_f64(JITTER * random),
            });
        }
        let until = match self.step {
            Step::Rest(until) if now < until => until,
            Step::Rest(_) if self.is_fresh && self.leads.is_some() => {
                self.step = Step::Write { began: now, create: false };
                return self.poll(now, wall, random);
            }
            Step::Rest(_) | Step::Failed { .. } => return self.send(What::Get, now, now),
            Step::Write { began, create } => {
                let record = self.record(wall);
                let what = match (&self.seen, create) {
                    (Some((held, _)), false) => What::Update(record, held.version.clone()),
                    _ => What::Create(record),
                };
                return self.send(what, began, now);
            }
            Step::Sent { give_up, .. } => give_up,
            Step::Idle => return Do::Over { released: false },
        };
        Do::Wait(Some(self.leads.map_or(until, |leads| leads.until.min(until))))
    }

    fn answer(&mut self, now: Instant, wall: Timestamp, id: u64, answer: Answer) {
        let Step::Sent { id: expected, is_write, began, sent, give_up } = self.step else { return };
        if id != expected || now >= give_up {
            return;
        }
        self.is_fresh = is_write && matches!(answer, Answer::Held(_));
        self.step = match (answer, is_write) {
            (Answer::Held(held), true) => {
                let from = match self.rules.counts_from_answers {
                    true => now + self.timing.retry_period,
                    false => sent,
                };
                self.leads = Some(Leads { until: from + self.timing.renew_deadline, number: held.record.transitions });
                self.seen = Some((held, now));
                Step::Rest(now.max(sent) + self.timing.retry_period)
            }
            (Answer::Held(held), false) => {
                if self.seen.as_ref().is_none_or(|(seen, _)| *seen != held) {
                    self.seen = Some((held.clone(), now));
                }
                match self.leads.is_some() {
                    true if held.record.holder != self.identity => Step::Failed { began },
                    true => Step::Write { began, create: false },
                    false if self.may_write(now, wall) => Step::Write { began, create: false },
                    false => Step::Failed { began },
                }
            }
            (Answer::Missing, false) => Step::Write { began, create: true },
            _ => Step::Failed { began },
        };
    }

    fn grace(&self, _: &Timing) -> Duration {
        Duration::ZERO
    }
}
