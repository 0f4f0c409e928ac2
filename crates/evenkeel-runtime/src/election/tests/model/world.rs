//! A simulated server, network, clocks and processes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};

use crate::election::config::{JITTER, Timing};
use crate::election::machine::{ElectionAction, ElectionMachine, LockOperation, LockResponse};
use crate::election::record::{Record, VersionedRecord};

/// Microseconds of simulated time.
type Micros = u64;

const SECOND: Micros = 1_000_000;

/// A candidate of the simulation.
pub(super) trait Candidate {
    fn begin(&mut self, now: Instant);
    fn leave(&mut self, now: Instant);
    fn poll(&mut self, now: Instant, wall: Timestamp, random: f64) -> ElectionAction;
    fn answer(&mut self, now: Instant, wall: Timestamp, id: u64, answer: LockResponse);
    /// How long after its loss work may still run under the lease.
    fn grace(&self, timing: &Timing) -> Duration {
        timing.grace()
    }
}

impl Candidate for ElectionMachine {
    fn begin(&mut self, now: Instant) {
        ElectionMachine::begin(self, now);
    }

    fn leave(&mut self, now: Instant) {
        ElectionMachine::leave(self, now);
    }

    fn poll(&mut self, now: Instant, wall: Timestamp, random: f64) -> ElectionAction {
        ElectionMachine::poll(self, now, wall, random)
    }

    fn answer(&mut self, now: Instant, _: Timestamp, id: u64, answer: LockResponse) {
        ElectionMachine::respond(self, now, id, answer);
    }
}

/// The faults of one schedule.
pub(super) struct Setup {
    seed: u64,
    pub(super) timing: Timing,
    candidates: usize,
    /// The fastest clock runs this much faster than the slowest.
    rates: f64,
    pub(super) release: bool,
    /// Two candidates share one identity.
    namesakes: bool,
    loss: f64,
    slow: f64,
    very_slow: f64,
    storm: Micros,
    faults: Vec<(Micros, Fault)>,
    /// How long after the last fault a leader must exist.
    calm: Micros,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Cut(usize),
    Heal(usize),
    Crash(usize),
    CrashLeader,
    Leave(usize),
    LeaderLeaves,
    /// The leader's responses are delayed, then it is partitioned.
    DragLeader,
    Jump(usize, i64),
    /// The wall clock stops.
    Freeze(usize),
}

impl Setup {
    /// All faults at once.
    pub(super) fn stormy(seed: u64, timing: Timing) -> Self {
        let mut rng = Rng::with_seed(seed);
        let candidates = rng.usize(2..=5);
        let storm = rng.u64(20..70) * SECOND;
        let mut faults = Vec::new();
        for _ in 0..rng.usize(1..10) {
            let (at, who) = (rng.u64(0..storm), rng.usize(0..candidates));
            match rng.u8(0..11) {
                0..=2 => {
                    faults.push((at, Fault::Cut(who)));
                    faults.push((at + rng.u64(0..30 * SECOND), Fault::Heal(who)));
                }
                3 => faults.push((at, Fault::Crash(who))),
                4 => faults.push((at, Fault::CrashLeader)),
                5 => faults.push((at, Fault::Leave(who))),
                6 => faults.push((at, Fault::LeaderLeaves)),
                7 => faults.push((at, Fault::Freeze(who))),
                8 => faults.push((at, Fault::DragLeader)),
                _ => faults.push((at, Fault::Jump(who, rng.i64(-3600..3600) * 1_000_000 + rng.i64(0..1_000_000)))),
            }
        }
        let rough = rng.f64();
        let ratio = timing.written().as_secs_f64() / (timing.renew_deadline + timing.grace()).as_secs_f64();
        let mut setup = Setup {
            seed,
            timing,
            candidates,
            rates: 1.0 + rng.f64() * (ratio - 1.0),
            release: rng.bool(),
            namesakes: rng.u8(0..4) == 0,
            loss: rng.f64() * 0.4 * rough,
            slow: rng.f64() * 0.6 * rough,
            very_slow: rng.f64() * 0.3 * rough,
            storm,
            faults,
            calm: 0,
        };
        // Requests in flight may last until the end of a lease, its grace and its release; then a candidate reads,
        // waits and acquires.
        let settle = timing.renew_deadline * 2 + timing.grace();
        setup.calm = setup.time_to_lead(settle);
        setup
    }

    /// Without the faults that the peers' rules are not designed for, and which are not needed to show their defect.
    pub(super) fn for_peers(mut self) -> Self {
        (self.namesakes, self.rates) = (false, 1.0);
        self.faults.retain(|(_, fault)| !matches!(fault, Fault::Freeze(_)));
        self
    }

    /// Small delays only; the leader crashes.
    pub(super) fn fair(seed: u64, timing: Timing) -> Self {
        let mut setup = Setup::stormy(seed, timing);
        (setup.loss, setup.slow, setup.very_slow, setup.rates) = (0.0, 0.0, 0.0, 1.0);
        setup.namesakes = false;
        setup.release = false;
        setup.storm = Rng::with_seed(seed).u64(5 * SECOND..40 * SECOND);
        setup.faults = vec![(setup.storm - 1, Fault::CrashLeader)];
        setup.calm = setup.time_to_lead(Duration::ZERO);
        setup
    }

    /// The liveness bound: one wait until every candidate has seen the last renewal, the lease duration, one wait
    /// until a candidate tries.
    fn time_to_lead(&self, settle: Duration) -> Micros {
        let wait = self.timing.retry_period.mul_f64(1.0 + JITTER);
        let local = settle + wait + self.timing.written() + wait;
        // Counted by the slowest clock, plus some messages back and forth.
        local.as_micros() as Micros + SECOND
    }
}

/// The result of a schedule.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict {
    pub(super) overlaps: u64,
    pub(super) numbers_fell: u64,
    pub(super) leads_again: bool,
    pub(super) terms: u64,
    pub(super) crashes: u64,
    pub(super) lost: u64,
    pub(super) left: u64,
    /// Writes that took effect after their sender had abandoned them.
    pub(super) late_writes: u64,
}

struct Process {
    candidate: Box<dyn Candidate>,
    identity: String,
    /// Counts restarts, so that messages for a predecessor do not reach its successor.
    life: u32,
    alive: bool,
    cut: bool,
    rate: f64,
    wall_ahead: i64,
    frozen: Option<Timestamp>,
    acts: bool,
    /// Requests that arrive before then are answered late.
    dragged_until: Micros,
    /// The current wake-up; earlier ones are stale.
    wake: u64,
}

#[derive(Debug)]
enum Event {
    Wake {
        who: usize,
        wake: u64,
    },
    Arrive {
        who: usize,
        life: u32,
        id: u64,
        what: LockOperation,
        sent: Micros,
        give_up: Micros,
    },
    LockResponse {
        who: usize,
        life: u32,
        id: u64,
        answer: LockResponse,
    },
    /// The work has finished.
    Ended {
        who: usize,
        life: u32,
    },
    Revive {
        who: usize,
    },
    Fault(Fault),
}

struct ScheduledEvent(Micros, u64, Event);

impl PartialEq for ScheduledEvent {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for ScheduledEvent {}
impl PartialOrd for ScheduledEvent {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for ScheduledEvent {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

struct World<F> {
    setup: Setup,
    make: F,
    rng: Rng,
    origin: Instant,
    now: Micros,
    events: BinaryHeap<Reverse<ScheduledEvent>>,
    number: u64,
    lease: Option<(Record, u64)>,
    version: u64,
    processes: Vec<Process>,
    highest: Option<i32>,
    verdict: Verdict,
}

/// Runs one schedule.
pub(super) fn run<F>(mut setup: Setup, make: F) -> Verdict
where
    F: Fn(&Setup, String) -> Box<dyn Candidate>,
{
    let mut rng = Rng::with_seed(setup.seed ^ 0x5eed);
    let faults = std::mem::take(&mut setup.faults);
    let mut processes = Vec::new();
    for index in 0..setup.candidates {
        let name = if setup.namesakes && index == 1 { 0 } else { index };
        let identity = format!("candidate-{name}");
        processes.push(Process {
            candidate: make(&setup, identity.clone()),
            identity,
            life: 0,
            alive: false,
            cut: false,
            // The slowest clock runs at simulated time, so that bounds by the slowest clock can be checked against it.
            rate: if index == 0 { 1.0 } else { 1.0 + rng.f64() * (setup.rates - 1.0) },
            wall_ahead: rng.i64(-600_000_000..600_000_000),
            frozen: None,
            acts: false,
            dragged_until: 0,
            wake: 0,
        });
    }
    if let [_, second, ..] = processes.as_mut_slice() {
        second.rate = setup.rates;
    }
    let mut world = World {
        setup,
        make,
        rng,
        origin: tokio::time::Instant::now().into_std(),
        now: 0,
        events: BinaryHeap::new(),
        number: 0,
        lease: None,
        version: 0,
        processes,
        highest: None,
        verdict: Verdict::default(),
    };
    for (at, fault) in faults {
        world.at(at, Event::Fault(fault));
    }
    for who in 0..world.processes.len() {
        let at = world.rng.u64(0..3 * SECOND);
        world.at(at, Event::Revive { who });
    }
    world.go();
    world.verdict
}

impl<F> World<F>
where
    F: Fn(&Setup, String) -> Box<dyn Candidate>,
{
    fn go(&mut self) {
        let end = self.setup.storm + self.setup.calm;
        let mut calm = false;
        while let Some(Reverse(ScheduledEvent(at, _, event))) = self.events.pop() {
            if !calm && at >= self.setup.storm {
                calm = true;
                self.calm_down();
            }
            if at > end {
                break;
            }
            self.now = self.now.max(at);
            self.happen(event);
        }
        self.verdict.leads_again = self.processes.iter().any(|process| process.acts);
    }

    /// From now on the network delivers everything and every process runs.
    fn calm_down(&mut self) {
        self.now = self.setup.storm;
        (self.setup.loss, self.setup.slow, self.setup.very_slow) = (0.0, 0.0, 0.0);
        for who in 0..self.processes.len() {
            self.processes[who].cut = false;
            if !self.processes[who].alive {
                self.at(self.now, Event::Revive { who });
            }
        }
    }

    fn is_calm(&self) -> bool {
        self.now >= self.setup.storm
    }

    fn at(&mut self, time: Micros, event: Event) {
        self.number += 1;
        self.events.push(Reverse(ScheduledEvent(time.max(self.now), self.number, event)));
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Wake { who, wake } => {
                if self.processes[who].alive && self.processes[who].wake == wake {
                    self.step(who);
                }
            }
            Event::Arrive { who, life, id, what, sent, give_up } => self.arrive(who, life, id, what, sent, give_up),
            Event::LockResponse { who, life, id, answer } => {
                if self.processes[who].alive && self.processes[who].life == life {
                    let (now, wall) = (self.local(who), self.wall(who));
                    self.processes[who].candidate.answer(now, wall, id, answer);
                    self.step(who);
                }
            }
            Event::Ended { who, life } => {
                if self.processes[who].alive && self.processes[who].life == life {
                    self.leave(who);
                }
            }
            Event::Revive { who } => {
                if !self.processes[who].alive {
                    self.processes[who].alive = true;
                    let now = self.local(who);
                    self.processes[who].candidate.begin(now);
                    self.step(who);
                }
            }
            Event::Fault(fault) if !self.is_calm() => self.fault(fault),
            Event::Fault(_) => {}
        }
    }

    fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::Cut(who) => self.processes[who].cut = true,
            Fault::Heal(who) => self.processes[who].cut = false,
            Fault::Crash(who) => self.crash(who),
            Fault::CrashLeader => {
                if let Some(who) = self.processes.iter().position(|process| process.acts) {
                    self.crash(who);
                }
            }
            Fault::Leave(who) => {
                if self.processes[who].alive {
                    self.leave(who);
                }
            }
            Fault::LeaderLeaves => {
                if let Some(who) = self.processes.iter().position(|process| process.acts) {
                    self.verdict.left += 1;
                    self.leave(who);
                }
            }
            Fault::DragLeader => {
                if let Some(who) = self.processes.iter().position(|process| process.acts) {
                    self.processes[who].dragged_until = self.now + 3 * SECOND;
                    self.at(self.now + 10 * SECOND, Event::Fault(Fault::Cut(who)));
                    self.at(self.now + 40 * SECOND, Event::Fault(Fault::Heal(who)));
                }
            }
            Fault::Jump(who, by) => self.processes[who].wall_ahead += by,
            Fault::Freeze(who) => self.processes[who].frozen = Some(self.wall(who)),
        }
    }

    fn crash(&mut self, who: usize) {
        if !self.processes[who].alive {
            return;
        }
        self.verdict.crashes += 1;
        let candidate = (self.make)(&self.setup, self.processes[who].identity.clone());
        let process = &mut self.processes[who];
        process.candidate = candidate;
        process.life += 1;
        (process.alive, process.acts) = (false, false);
        let back = self.now + self.rng.u64(0..20 * SECOND);
        self.at(back, Event::Revive { who });
    }

    fn leave(&mut self, who: usize) {
        let now = self.local(who);
        self.processes[who].acts = false;
        self.processes[who].candidate.leave(now);
        self.step(who);
    }

    fn local(&self, who: usize) -> Instant {
        self.origin + Duration::from_micros((self.now as f64 * self.processes[who].rate) as u64)
    }

    /// The simulated time at which a process's clock reads this, and not a moment earlier.
    fn world_time(&self, who: usize, local: Instant) -> Micros {
        let micros = local.duration_since(self.origin).as_micros() as f64;
        (micros / self.processes[who].rate).ceil() as Micros + 1
    }

    fn wall(&self, who: usize) -> Timestamp {
        let process = &self.processes[who];
        process.frozen.unwrap_or_else(|| {
            let ahead = SignedDuration::from_micros(self.now as i64 + process.wall_ahead);
            Timestamp::from_second(1_800_000_000).unwrap() + ahead
        })
    }

    fn delay(&mut self) -> Micros {
        let dice = self.rng.f64();
        if dice < self.setup.very_slow {
            self.rng.u64(5 * SECOND..40 * SECOND)
        } else if dice < self.setup.very_slow + self.setup.slow {
            self.rng.u64(SECOND / 10..6 * SECOND)
        } else {
            self.rng.u64(500..30_000)
        }
    }

    /// Runs a process until it waits.
    fn step(&mut self, who: usize) {
        loop {
            let (now, wall, random) = (self.local(who), self.wall(who), self.rng.f64());
            match self.processes[who].candidate.poll(now, wall, random) {
                ElectionAction::Send(call) => {
                    let life = self.processes[who].life;
                    let give_up = self.world_time(who, call.give_up);
                    if !self.processes[who].cut && self.rng.f64() >= self.setup.loss {
                        let at = self.now + self.delay();
                        let (id, what, sent) = (call.id, call.what, self.now);
                        self.at(at, Event::Arrive { who, life, id, what, sent, give_up });
                    }
                }
                ElectionAction::Lead(term) => {
                    self.verdict.terms += 1;
                    self.verdict.overlaps += u64::from(self.processes.iter().any(|process| process.acts));
                    self.verdict.numbers_fell += u64::from(self.highest.is_some_and(|highest| term.number <= highest));
                    self.highest = self.highest.max(Some(term.number));
                    self.processes[who].acts = true;
                }
                ElectionAction::Lost(_) => {
                    // Acts for as long as it may.
                    self.verdict.lost += 1;
                    let life = self.processes[who].life;
                    let grace = self.grace(who);
                    self.at(self.now + grace, Event::Ended { who, life });
                    return;
                }
                ElectionAction::Wait(until) => {
                    self.processes[who].wake += 1;
                    let wake = self.processes[who].wake;
                    if let Some(until) = until {
                        let at = self.world_time(who, until);
                        self.at(at, Event::Wake { who, wake });
                    }
                    return;
                }
                ElectionAction::Over { .. } => {
                    let process = &mut self.processes[who];
                    (process.alive, process.acts) = (false, false);
                    let back = match self.is_calm() {
                        true => self.now,
                        false => self.now + self.rng.u64(0..5 * SECOND),
                    };
                    self.at(back, Event::Revive { who });
                    return;
                }
            }
        }
    }

    /// How long after its loss a leader acts, in simulated time.
    fn grace(&self, who: usize) -> Micros {
        let micros = self.processes[who].candidate.grace(&self.setup.timing).as_micros() as f64;
        (micros / self.processes[who].rate) as Micros
    }

    fn arrive(&mut self, who: usize, life: u32, id: u64, what: LockOperation, sent: Micros, give_up: Micros) {
        // Once the network is healthy, messages that were delayed for too long are dropped.
        if self.is_calm() && sent < self.setup.storm && self.now > self.setup.storm + SECOND {
            return;
        }
        let is_write = what != LockOperation::Get;
        let answer = self.serve(what);
        if is_write && matches!(answer, LockResponse::Held(_)) && self.now > give_up {
            self.verdict.late_writes += 1;
        }
        if !self.processes[who].cut && self.rng.f64() >= self.setup.loss {
            let delay = match self.now < self.processes[who].dragged_until && !self.is_calm() {
                true => self.rng.u64(6 * SECOND..9 * SECOND),
                false => self.delay(),
            };
            let at = self.now + delay;
            self.at(at, Event::LockResponse { who, life, id, answer });
        }
    }

    fn serve(&mut self, what: LockOperation) -> LockResponse {
        let record = match (what, &self.lease) {
            (LockOperation::Get, None) => return LockResponse::Missing,
            (LockOperation::Get, Some((record, version))) => {
                return LockResponse::Held(VersionedRecord { record: record.clone(), version: version.to_string() });
            }
            (LockOperation::Create(_), Some(_)) | (LockOperation::Update(..), None) => return LockResponse::Conflict,
            (LockOperation::Update(_, version), Some((_, now))) if version != now.to_string() => {
                return LockResponse::Conflict;
            }
            // An update that changes nothing creates no new version.
            (LockOperation::Update(record, _), Some((old, _))) if record == *old => record,
            (LockOperation::Create(record) | LockOperation::Update(record, _), _) => {
                self.version += 1;
                record
            }
        };
        self.lease = Some((record.clone(), self.version));
        LockResponse::Held(VersionedRecord { record, version: self.version.to_string() })
    }
}
