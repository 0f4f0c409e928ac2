//! Minimal candidates that follow the rules of other implementations.

use std::time::{Duration, Instant};

use evenkeel_base::jitter;
use jiff::Timestamp;

use super::world::Candidate;
use crate::election::config::{JITTER, Timing};
use crate::election::machine::{ElectionAction, LockOperation, LockRequest, LockResponse, LostReason, Term};
use crate::election::record::{Record, VersionedRecord};

/// How they differ.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// A record expires by the time written in it, compared with the reader's clock.
    pub(super) trusts_written_times: bool,
    /// A leader leads until it has failed to renew for the renew deadline, counted from the first attempt after the
    /// last response.
    pub(super) counts_from_answers: bool,
}

pub(super) struct Peer {
    timing: Timing,
    identity: String,
    rules: Rules,
    step: PeerAttempt,
    last_id: u64,
    seen: Option<(VersionedRecord, Instant)>,
    leads: Option<Leads>,
    /// The known version is believed to be the latest: no read before the write.
    is_fresh: bool,
    reported: Reported,
}

#[derive(Clone, Copy)]
struct Leads {
    until: Instant,
    number: i32,
}

#[derive(Clone, Copy, PartialEq)]
enum Reported {
    Nothing,
    Leads,
    Lost,
}

enum PeerAttempt {
    Waiting(Instant),
    Write { began: Instant, create: bool },
    Sent { id: u64, is_write: bool, began: Instant, sent: Instant, give_up: Instant },
    Failed { began: Instant },
    Idle,
}

impl Peer {
    pub(super) fn new(timing: Timing, identity: String, rules: Rules) -> Self {
        let step = PeerAttempt::Idle;
        Peer {
            timing,
            identity,
            rules,
            step,
            last_id: 0,
            seen: None,
            leads: None,
            is_fresh: false,
            reported: Reported::Nothing,
        }
    }

    fn may_write(&self, now: Instant, wall: Timestamp) -> bool {
        let Some((VersionedRecord { record, .. }, at)) = &self.seen else { return true };
        let written = record.renew_time.unwrap();
        let is_old = match self.rules.trusts_written_times {
            true => wall.duration_since(written).as_secs() >= i64::from(record.lease_seconds),
            false => now >= *at + Duration::from_secs(record.lease_seconds as u64),
        };
        record.holder.is_empty() || record.holder == self.identity || is_old
    }

    fn send(&mut self, what: LockOperation, began: Instant, now: Instant) -> ElectionAction {
        self.last_id += 1;
        let mut give_up = now + self.timing.call_timeout();
        if let Some(leads) = self.leads {
            give_up = give_up.min(leads.until);
        }
        let (id, is_write) = (self.last_id, what != LockOperation::Get);
        self.step = PeerAttempt::Sent { id, is_write, began, sent: now, give_up };
        ElectionAction::Send(LockRequest { id, what, give_up })
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
        self.reported = Reported::Nothing;
        self.step = PeerAttempt::Waiting(now);
    }

    fn leave(&mut self, _: Instant) {
        self.leads = None;
        self.step = PeerAttempt::Idle;
    }

    fn poll(&mut self, now: Instant, wall: Timestamp, random: f64) -> ElectionAction {
        match (self.leads, self.reported) {
            (Some(leads), _) if now >= leads.until => {
                self.leads = None;
                self.reported = Reported::Lost;
                self.step = PeerAttempt::Idle;
                return ElectionAction::Lost(LostReason::Expired);
            }
            (Some(leads), Reported::Nothing) => {
                self.reported = Reported::Leads;
                return ElectionAction::Lead(Term { number: leads.number, acquired: wall });
            }
            (_, Reported::Lost) => return ElectionAction::Over { released: false },
            _ => {}
        }
        if let PeerAttempt::Sent { began, give_up, .. } = self.step
            && now >= give_up
        {
            self.is_fresh = false;
            self.step = PeerAttempt::Failed { began };
        }
        if let PeerAttempt::Failed { began } = self.step {
            let period = self.timing.retry_period;
            self.step = PeerAttempt::Waiting(match self.leads {
                Some(_) => now.max(began + period),
                None => now + jitter(period, JITTER, random),
            });
        }
        let until = match self.step {
            PeerAttempt::Waiting(until) if now < until => until,
            PeerAttempt::Waiting(_) if self.is_fresh && self.leads.is_some() => {
                self.step = PeerAttempt::Write { began: now, create: false };
                return self.poll(now, wall, random);
            }
            PeerAttempt::Waiting(_) | PeerAttempt::Failed { .. } => return self.send(LockOperation::Get, now, now),
            PeerAttempt::Write { began, create } => {
                let record = self.record(wall);
                let what = match (&self.seen, create) {
                    (Some((held, _)), false) => LockOperation::Update(record, held.version.clone()),
                    _ => LockOperation::Create(record),
                };
                return self.send(what, began, now);
            }
            PeerAttempt::Sent { give_up, .. } => give_up,
            PeerAttempt::Idle => return ElectionAction::Over { released: false },
        };
        ElectionAction::Wait(Some(self.leads.map_or(until, |leads| leads.until.min(until))))
    }

    fn answer(&mut self, now: Instant, wall: Timestamp, id: u64, answer: LockResponse) {
        let PeerAttempt::Sent { id: expected, is_write, began, sent, give_up } = self.step else { return };
        if id != expected || now >= give_up {
            return;
        }
        self.is_fresh = is_write && matches!(answer, LockResponse::Held(_));
        self.step = match (answer, is_write) {
            (LockResponse::Held(held), true) => {
                let from = match self.rules.counts_from_answers {
                    true => now + self.timing.retry_period,
                    false => sent,
                };
                self.leads = Some(Leads { until: from + self.timing.renew_deadline, number: held.record.transitions });
                self.seen = Some((held, now));
                PeerAttempt::Waiting(now.max(sent) + self.timing.retry_period)
            }
            (LockResponse::Held(held), false) => {
                if self.seen.as_ref().is_none_or(|(seen, _)| *seen != held) {
                    self.seen = Some((held.clone(), now));
                }
                match self.leads.is_some() {
                    true if held.record.holder != self.identity => PeerAttempt::Failed { began },
                    true => PeerAttempt::Write { began, create: false },
                    false if self.may_write(now, wall) => PeerAttempt::Write { began, create: false },
                    false => PeerAttempt::Failed { began },
                }
            }
            (LockResponse::Missing, false) => PeerAttempt::Write { began, create: true },
            _ => PeerAttempt::Failed { began },
        };
    }

    fn grace(&self, _: &Timing) -> Duration {
        Duration::ZERO
    }
}
