//! The simulated network, clocks and processes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use evenkeel_core::shard::{ShardRange, ShardRanges};
use fastrand::Rng;

use super::process::Process;
use super::setup::{Fault, Ignored, Setup};
use super::store::{Change, Store, StoredLeases};
use super::{Micros, SECOND, Verdict};
use crate::ring::assigner::{AssignerAction, AssignerOperation, AssignerRequest, AssignerResponse};
use crate::ring::member::{MemberAction, MemberEvent, MemberOperation, MemberRequest, MemberResponse};
use crate::ring::member_record::WrittenVersions;
use crate::ring::table::{MemberName, SliceState};

/// The time between the delivery of two events of one watch that were not delayed.
const WATCH_DELAY: Micros = 5_000;

/// The longest time that a place is without an owner in a planned move: the longest drain, and two seconds.
const PLANNED_GAP: Micros = 5 * SECOND;
/// How long after the bound the last moves end.
const MOVES_END_WITHIN: Micros = 20 * SECOND;
/// The most steps of all processes of a schedule; few have a fiftieth of it.
const MOST_STEPS: u64 = 500_000;

pub(super) struct World {
    steps: u64,
    /// The places that were acted on shortly before the bound.
    acted: ShardRanges,
    pub(super) setup: Setup,
    pub(super) rng: Rng,
    pub(super) now: Micros,
    events: BinaryHeap<Reverse<Scheduled>>,
    number: u64,
    pub(super) store: Store,
    pub(super) processes: Vec<Process>,
    remembered: StoredLeases,
    outage_until: Micros,
    write_outage_until: Micros,
    term: u64,
    /// Places with the highest epoch that acted on them.
    pub(super) probes: Vec<(u64, u64)>,
    pub(super) verdict: Verdict,
    pub(super) trace: Option<Vec<String>>,
}

struct Scheduled(Micros, u64, Event);

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

enum Event {
    Wake { who: usize, wake: u64 },
    MemberRequest { who: usize, life: u32, name: MemberName, request: MemberRequest, sent: Micros, give_up: Micros },
    MemberResponse { who: usize, life: u32, id: u64, response: MemberResponse },
    AssignerRequest { who: usize, life: u32, request: AssignerRequest, sent: Micros, give_up: Micros },
    AssignerResponse { who: usize, life: u32, id: u64, response: AssignerResponse },
    Deliver { who: usize, life: u32, change: Change },
    Relist { who: usize, life: u32 },
    Drained { who: usize, life: u32, range: ShardRange },
    Cover { who: usize, life: u32 },
    Revive { who: usize },
    Fault(Fault),
}

impl Event {
    /// The process that takes the event, in this life of it.
    fn taker(&self) -> Option<(usize, Option<u32>)> {
        match self {
            Event::Wake { who, .. } => Some((*who, None)),
            Event::MemberResponse { who, life, .. }
            | Event::AssignerResponse { who, life, .. }
            | Event::Deliver { who, life, .. }
            | Event::Relist { who, life }
            | Event::Drained { who, life, .. }
            | Event::Cover { who, life, .. } => Some((*who, Some(*life))),
            Event::MemberRequest { .. } | Event::AssignerRequest { .. } | Event::Revive { .. } | Event::Fault(_) => {
                None
            }
        }
    }
}

/// Runs one schedule.
pub(super) fn run(setup: Setup, traces: bool) -> (Verdict, Vec<String>) {
    let mut rng = Rng::with_seed(setup.seed);
    let offsets: Vec<i64> = (0..setup.processes).map(|_| rng.i64(-7_200_000_000..7_200_000_000)).collect();
    let process = |number: usize| {
        Process::new(number, setup.rates[number], offsets[number], &setup.settings, number < setup.candidates)
    };
    let store = Store {
        ignores_table_versions: setup.ignores == Ignored::TableVersions,
        ignores_fence_versions: setup.ignores == Ignored::FenceVersions,
        ..Store::default()
    };
    let mut world = World {
        steps: 0,
        acted: ShardRanges::empty(),
        processes: (0..setup.processes).map(process).collect(),
        probes: (0..24).map(|_| (rng.u64(..), 0)).collect(),
        now: 0,
        events: BinaryHeap::new(),
        number: 0,
        store,
        remembered: StoredLeases::default(),
        outage_until: 0,
        write_outage_until: 0,
        term: 0,
        verdict: Verdict::default(),
        trace: traces.then(Vec::new),
        rng,
        setup,
    };
    for (at, fault) in world.setup.faults.clone() {
        world.at(at, Event::Fault(fault));
    }
    for who in 0..world.processes.len() {
        let at = world.rng.u64(0..3 * SECOND);
        world.at(at, Event::Revive { who });
    }
    world.at(SECOND, Event::Fault(Fault::Elect));
    world.go();
    (world.verdict, world.trace.unwrap_or_default())
}

impl World {
    fn go(&mut self) {
        let bound = self.bound();
        let mut is_calm = false;
        let mut end = bound;
        while let Some(Reverse(Scheduled(at, _, event))) = self.events.pop() {
            if !is_calm && at >= self.setup.storm {
                is_calm = true;
                self.calm_down();
            }
            if at > end && end == bound {
                self.now = bound;
                self.check_everything_is_acted_on();
                // Moves for balance may be under way; they end.
                end += if self.is_settled() { 0 } else { MOVES_END_WITHIN };
            }
            if at > end || self.verdict.failure.is_some() {
                break;
            }
            self.now = self.now.max(at);
            self.happen(event);
        }
        self.verdict.table_writes += self.store.table_writes;
        if self.verdict.failure.is_none() && !self.is_settled() {
            self.verdict.unsettled += 1;
            self.fail("L slices move without end".to_owned());
        }
    }

    /// When every place has to be acted on.
    fn bound(&self) -> Micros {
        self.setup.storm + self.setup.calm
    }

    fn is_settled(&self) -> bool {
        self.store.now.table.as_ref().is_some_and(|(_, table)| table.is_settled())
    }

    /// Notes what is acted on shortly before the bound: a slice in a planned move may have no owner right then.
    fn note_acting(&mut self, who: usize) {
        if (self.bound() - PLANNED_GAP..=self.bound()).contains(&self.now) && self.acts(who) {
            let held: ShardRanges = self.processes[who].member.holdings().map(|held| held.range).collect();
            self.acted = self.acted.union(&held);
        }
    }

    /// SHM-019: every place has a member that works on it.
    fn check_everything_is_acted_on(&mut self) {
        for who in 0..self.processes.len() {
            self.note_acting(who);
        }
        if self.verdict.failure.is_none() && !self.acted.is_full() {
            self.verdict.unowned += 1;
            self.fail(format!("L the places {:?} are not acted on", ShardRanges::full().difference(&self.acted)));
        }
    }

    pub(super) fn fail(&mut self, line: String) {
        self.note(|| line.clone());
        self.verdict.failure.get_or_insert(line);
    }

    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>10.3} {}", self.now as f64 / SECOND as f64, line()));
        }
    }

    pub(super) fn is_calm(&self) -> bool {
        self.now >= self.setup.storm
    }

    fn calm_down(&mut self) {
        self.now = self.setup.storm;
        (self.setup.loss, self.setup.slow, self.setup.very_slow) = (0.0, 0.0, 0.0);
        (self.outage_until, self.write_outage_until) = (0, 0);
        for who in 0..self.processes.len() {
            let process = &mut self.processes[who];
            (process.cut_until, process.deaf_until) = (0, 0);
            if std::mem::take(&mut process.is_stuck) {
                for range in self.processes[who].working.clone().iter() {
                    let life = self.processes[who].life;
                    self.at(self.now, Event::Drained { who, life, range });
                }
            }
            let process = &mut self.processes[who];
            if process.paused_until > self.now {
                process.paused_until = self.now;
            }
            match process.alive {
                true => self.wake(who),
                false => self.at(self.now, Event::Revive { who }),
            }
        }
        self.at(self.now + SECOND, Event::Fault(Fault::Elect));
    }

    fn at(&mut self, time: Micros, event: Event) {
        self.number += 1;
        self.events.push(Reverse(Scheduled(time.max(self.now), self.number, event)));
    }

    fn wake(&mut self, who: usize) {
        self.processes[who].wake += 1;
        let wake = self.processes[who].wake;
        self.at(self.now, Event::Wake { who, wake });
    }

    fn happen(&mut self, event: Event) {
        if let Some((who, life)) = event.taker() {
            let process = &self.processes[who];
            if !process.alive || life.is_some_and(|life| life != process.life) {
                return;
            }
            if self.now < process.paused_until {
                let until = process.paused_until;
                return self.at(until, event);
            }
        }
        match event {
            Event::Wake { who, wake } => {
                if self.processes[who].wake == wake {
                    self.step(who);
                }
            }
            Event::MemberRequest { who, life, name, request, sent, give_up } => {
                self.serve_member(who, life, name, request, sent, give_up);
            }
            Event::AssignerRequest { who, life, request, sent, give_up } => {
                self.serve_assigner(who, life, request, sent, give_up);
            }
            Event::MemberResponse { who, id, response, .. } => {
                let now = self.local(who);
                let process = &mut self.processes[who];
                let before = process.member.valid_until();
                process.member.respond(now, id, response);
                if process.member.valid_until() > before
                    && let Some(assigner) = &mut process.assigner
                {
                    assigner.note_write(now);
                }
                self.step(who);
            }
            Event::AssignerResponse { who, id, response, .. } => {
                let now = self.local(who);
                if let Some(assigner) = &mut self.processes[who].assigner {
                    assigner.respond(now, id, response);
                }
                self.step(who);
            }
            Event::Deliver { who, change, .. } => self.deliver(who, change),
            Event::Relist { who, .. } => self.relist(who),
            Event::Drained { who, range, .. } => {
                if !self.processes[who].is_stuck {
                    let now = self.local(who);
                    let process = &mut self.processes[who];
                    process.working = process.working.difference(&range.into());
                    process.member.drained(now, WrittenVersions { range, versions: Default::default(), loose: false });
                    self.step(who);
                }
            }
            Event::Cover { who, .. } => {
                let wanted = self.processes[who].member.wanted();
                self.processes[who].member.cover(wanted);
                self.step(who);
            }
            Event::Revive { who } => {
                if !self.processes[who].alive {
                    let now = self.local(who);
                    self.processes[who].revive(now, &self.setup.settings);
                    let life = self.processes[who].life;
                    self.note(|| format!("process {who} starts, life {life}"));
                    self.restart_watch(who);
                    if !self.is_calm() && self.rng.u8(0..3) == 0 {
                        // Its first list is of an old state.
                        self.deliver_state(who, self.remembered.clone());
                    }
                    self.step(who);
                }
            }
            Event::Fault(fault) if !self.is_calm() || matches!(fault, Fault::Elect) => self.fault(fault),
            Event::Fault(_) => {}
        }
    }

    fn fault(&mut self, fault: Fault) {
        self.note(|| format!("fault {fault:?}"));
        match fault {
            Fault::Cut(who, time) => self.processes[who].cut_until = self.now + time,
            Fault::DeafWatch(who, time) => self.processes[who].deaf_until = self.now + time,
            Fault::Pause(who, time) => {
                let until = (self.now + time).min(self.setup.storm);
                self.processes[who].paused_until = until;
                // It polls what it was about to poll, if its guard lets it.
                let wake = self.processes[who].wake;
                self.at(until, Event::Wake { who, wake });
            }
            Fault::Crash(who, time) => self.kill(who, time),
            Fault::Leave(who) => {
                if self.processes[who].alive {
                    self.processes[who].member.leave();
                    self.wake(who);
                }
            }
            Fault::DeleteTable => {
                if let Some(change) = self.store.delete_table() {
                    self.verdict.table_deletions += 1;
                    self.publish(change);
                }
            }
            Fault::DeleteMember(who) => {
                let name = self.processes[who].member.name().clone();
                if let Some(change) = self.store.delete_member(&name) {
                    self.verdict.member_deletions += 1;
                    self.publish(change);
                }
            }
            Fault::Remember => self.remembered = self.store.now.clone(),
            Fault::StaleRelist(who) => self.deliver_state(who, self.remembered.clone()),
            Fault::WallJump(who, by) => self.processes[who].wall_ahead += by,
            Fault::Outage(time) => self.outage_until = self.now + time,
            Fault::WriteOutage(time) => self.write_outage_until = self.now + time,
            Fault::Drag(who) => {
                self.processes[who].dragged_until = self.now + 7 * SECOND;
                self.at(self.now + 6 * SECOND, Event::Fault(Fault::Cut(who, 25 * SECOND)));
            }
            Fault::Stuck(who) => self.processes[who].is_stuck = true,
            Fault::Elect => self.elect(),
        }
    }

    /// Elects one assigner, sometimes two, among the candidates that are alive.
    fn elect(&mut self) {
        let mut alive: Vec<usize> = (0..self.setup.candidates).filter(|who| self.processes[*who].alive).collect();
        self.rng.shuffle(&mut alive);
        let two = !self.is_calm() && self.rng.u8(0..3) > 0;
        self.term += 1;
        for who in 0..self.setup.candidates {
            let is_elected = alive.iter().take(if two { 2 } else { 1 }).any(|other| *other == who);
            // A former assigner may not have noticed yet.
            let lingers = !self.is_calm() && self.rng.bool();
            let term = self.term;
            let process = &mut self.processes[who];
            let Some(assigner) = &mut process.assigner else { continue };
            if is_elected {
                process.elected = Some(term);
                assigner.activate(term);
            } else if !lingers {
                process.elected = None;
                assigner.deactivate();
            }
        }
        for who in alive {
            self.wake(who);
        }
    }

    fn kill(&mut self, who: usize, back_in: Micros) {
        if !std::mem::replace(&mut self.processes[who].alive, false) {
            return;
        }
        self.verdict.crashes += 1;
        self.processes[who].paused_until = 0;
        let was_elected = self.processes[who].elected.take().is_some();
        self.at(self.now + back_in, Event::Revive { who });
        if was_elected {
            let after = self.rng.u64(SECOND..10 * SECOND);
            self.at(self.now + after, Event::Fault(Fault::Elect));
        }
    }

    /// Runs a process until it waits.
    fn step(&mut self, who: usize) {
        loop {
            self.steps += 1;
            if self.steps > MOST_STEPS {
                return self.fail("L steps without end".to_owned());
            }
            let (now, wall) = (self.local(who), self.wall(who));
            let until = match self.processes[who].member.poll(now, wall) {
                MemberAction::Send(request) => {
                    self.send_member(who, request);
                    continue;
                }
                MemberAction::Event(event) => {
                    self.member_event(who, event);
                    continue;
                }
                MemberAction::Over(end) => {
                    self.note(|| format!("process {who} ends: {end:?}"));
                    self.verdict.ends += 1;
                    let back = if self.is_calm() { 0 } else { self.rng.u64(0..3 * SECOND) };
                    self.processes[who].alive = false;
                    let was_elected = self.processes[who].elected.take().is_some();
                    self.at(self.now + back, Event::Revive { who });
                    if was_elected {
                        self.at(self.now + 2 * SECOND, Event::Fault(Fault::Elect));
                    }
                    return;
                }
                MemberAction::Wait(until) => until,
            };
            let Some(until) = self.step_assigner(who, until) else { continue };
            self.processes[who].wake += 1;
            let (wake, at) = (self.processes[who].wake, self.world_time(who, until));
            self.at(at, Event::Wake { who, wake });
            break;
        }
        self.check(who);
        self.check_holdings(who);
        self.note_acting(who);
    }

    /// Polls the assigner. Returns when the process has to be polled next; `None`: at once.
    fn step_assigner(&mut self, who: usize, member: Option<std::time::Duration>) -> Option<std::time::Duration> {
        let (now, wall) = (self.local(who), self.wall(who));
        let far = now + std::time::Duration::from_secs(3600);
        let Some(assigner) = &mut self.processes[who].assigner else { return Some(member.unwrap_or(far)) };
        match assigner.poll(now, wall) {
            AssignerAction::Send(request) => {
                self.send_assigner(who, request);
                None
            }
            AssignerAction::Wait(until) => Some(until.into_iter().chain(member).min().unwrap_or(far)),
            AssignerAction::StandDown => {
                self.note(|| format!("process {who} stands down"));
                self.processes[who].elected = None;
                if let Some(assigner) = &mut self.processes[who].assigner {
                    assigner.deactivate();
                }
                if self.processes.iter().all(|process| process.elected.is_none()) {
                    self.at(self.now + SECOND, Event::Fault(Fault::Elect));
                }
                None
            }
        }
    }

    fn member_event(&mut self, who: usize, event: MemberEvent) {
        self.note(|| format!("process {who} {event:?}"));
        let life = self.processes[who].life;
        match event {
            MemberEvent::Granted { range, .. } => {
                self.verdict.grants += 1;
                let working = self.processes[who].working.union(&range.into());
                self.processes[who].working = working;
                self.check(who);
            }
            MemberEvent::Drain { range } => {
                let after = if self.rng.u8(0..8) == 0 { 3 * SECOND } else { SECOND / 2 };
                let at = self.now + self.rng.u64(0..after);
                self.at(at, Event::Drained { who, life, range });
            }
            MemberEvent::Lost { range } => {
                let working = self.processes[who].working.difference(&range.into());
                self.processes[who].working = working;
            }
            MemberEvent::Resumed => self.verdict.resumed += 1,
            MemberEvent::Lapsed | MemberEvent::Unreadable(_) => {}
        }
    }

    fn delay(&mut self) -> Micros {
        let dice = self.rng.f64();
        if dice < self.setup.very_slow {
            self.rng.u64(3 * SECOND..12 * SECOND)
        } else if dice < self.setup.very_slow + self.setup.slow {
            self.rng.u64(SECOND / 10..4 * SECOND)
        } else {
            self.rng.u64(500..30_000)
        }
    }

    fn is_cut(&self, who: usize) -> bool {
        self.now < self.processes[who].cut_until || self.now < self.outage_until
    }

    fn send_member(&mut self, who: usize, request: MemberRequest) {
        let give_up = self.world_time(who, request.give_up);
        if let MemberOperation::Create(lease) | MemberOperation::Update(lease, _) = &request.operation {
            let published: ShardRanges = lease.record.holds.iter().copied().collect();
            if !published.covers(&self.processes[who].working) {
                self.verdict.early_releases += 1;
                self.note(|| format!("I5 process {who} releases a range before its work ends"));
            }
        }
        let lost = self.is_cut(who) || self.rng.f64() < self.setup.loss;
        if !lost {
            let (at, sent) = (self.now + self.delay(), self.now);
            let (life, name) = (self.processes[who].life, self.processes[who].member.name().clone());
            self.at(at, Event::MemberRequest { who, life, name, request, sent, give_up });
        }
    }

    fn send_assigner(&mut self, who: usize, request: AssignerRequest) {
        self.note(|| format!("assigner {who} {:?}", Brief(&request.operation)));
        let give_up = self.world_time(who, request.give_up);
        if !self.is_cut(who) && self.rng.f64() >= self.setup.loss {
            let (at, sent, life) = (self.now + self.delay(), self.now, self.processes[who].life);
            self.at(at, Event::AssignerRequest { who, life, request, sent, give_up });
        }
    }

    /// Once the network is healthy, messages that were delayed for too long are dropped.
    fn is_too_late(&self, sent: Micros) -> bool {
        self.is_calm() && sent < self.setup.storm && self.now > self.setup.storm + SECOND
    }

    fn serve_member(
        &mut self,
        who: usize,
        life: u32,
        name: MemberName,
        request: MemberRequest,
        sent: Micros,
        give_up: Micros,
    ) {
        if self.is_too_late(sent) {
            return;
        }
        let is_write = !matches!(request.operation, MemberOperation::Read | MemberOperation::ReadTable);
        let (response, change) = match is_write && self.now < self.write_outage_until {
            true => (MemberResponse::Failed, None),
            false => self.store.member(&name, request.operation),
        };
        self.verdict.late_writes += u64::from(change.is_some() && self.now > give_up);
        if let Some(change) = change {
            self.publish(change);
        }
        if !self.is_cut(who) && self.rng.f64() >= self.setup.loss {
            let delay = match self.now < self.processes[who].dragged_until {
                true => self.rng.u64(2 * SECOND..3 * SECOND),
                false => self.delay(),
            };
            let at = self.now + delay;
            self.at(at, Event::MemberResponse { who, life, id: request.id, response });
        }
    }

    fn serve_assigner(&mut self, who: usize, life: u32, request: AssignerRequest, sent: Micros, give_up: Micros) {
        if self.is_too_late(sent) {
            return;
        }
        let is_read = matches!(
            request.operation,
            AssignerOperation::List | AssignerOperation::ReadTable | AssignerOperation::ReadMember(_)
        );
        let is_fence = matches!(request.operation, AssignerOperation::Fence(..));
        let before = self.store.now.table.clone();
        let (response, change) = match !is_read && self.now < self.write_outage_until {
            true => (AssignerResponse::Failed, None),
            false => self.store.assigner(request.operation),
        };
        self.verdict.late_writes += u64::from(change.is_some() && self.now > give_up);
        self.verdict.fences += u64::from(is_fence && change.is_some());
        if is_fence && change.is_some() && self.setup.fences_are_wrong {
            self.fail("SHR-020 a live member is fenced".to_owned());
        }
        if let Some(wrong) = self.store.wrong.take() {
            self.fail(wrong);
        }
        if let Some(Change::Table(_, after)) = &change {
            self.count_moves(before.as_ref().map(|(_, table)| &**table), after);
        }
        if let Some(change) = change {
            self.publish(change);
        }
        if !self.is_cut(who) && self.rng.f64() >= self.setup.loss {
            let at = self.now + self.delay();
            self.at(at, Event::AssignerResponse { who, life, id: request.id, response });
        }
    }

    fn count_moves(&mut self, before: Option<&crate::ring::table::SliceTable>, after: &crate::ring::table::SliceTable) {
        let Some(before) = before else { return };
        for (range, state) in after.iter() {
            let old = before.state(before.index_of(range.start()));
            match (old, state) {
                (SliceState::Moving { .. }, SliceState::Moving { .. }) => {}
                (_, SliceState::Moving { .. }) => self.verdict.moves += 1,
                (SliceState::Moving { from, .. }, SliceState::Held { owner, .. }) if from == owner => {
                    self.verdict.abandoned += 1;
                }
                _ => {}
            }
        }
    }

    /// Sends a change to all watchers.
    fn publish(&mut self, change: Change) {
        self.note(|| match &change {
            Change::Table(version, table) => {
                format!("table {version}: {}", table.encode().unwrap_or_default().replace('\n', " | "))
            }
            Change::Member(name, version, lease) => format!(
                "lease {name} {version}: seen {} holds {} {}{:?}",
                lease.record.seen,
                lease.record.holds.len(),
                if lease.record.leaving { "leaving " } else { "" },
                lease.fenced
            ),
            other => format!("{other:?}"),
        });
        let is_of_member = matches!(change, Change::Member(..) | Change::MemberDeleted(_));
        for who in 0..self.processes.len() {
            let process = &self.processes[who];
            if !process.alive || (is_of_member && process.assigner.is_none()) {
                continue;
            }
            let is_deaf = self.is_cut(who) || self.now < process.deaf_until;
            if is_deaf || process.has_missed || self.rng.f64() < self.setup.loss / 20.0 {
                self.restart_watch(who);
                continue;
            }
            let delay = self.delay();
            let process = &mut self.processes[who];
            let life = process.life;
            process.delivered_until = (self.now + delay).max(process.delivered_until + 1);
            let at = process.delivered_until;
            self.at(at, Event::Deliver { who, life, change: change.clone() });
        }
    }

    /// The watch has ended. It lists again after a while.
    fn restart_watch(&mut self, who: usize) {
        self.processes[who].has_missed = true;
        if self.processes[who].relists_at.is_none_or(|at| at < self.now) {
            let at = self.now + WATCH_DELAY + self.rng.u64(0..2 * SECOND);
            self.processes[who].relists_at = Some(at);
            let life = self.processes[who].life;
            self.at(at, Event::Relist { who, life });
        }
    }

    fn relist(&mut self, who: usize) {
        if self.is_cut(who) || self.now < self.processes[who].deaf_until {
            self.processes[who].relists_at = None;
            return self.restart_watch(who);
        }
        self.processes[who].relists_at = None;
        self.processes[who].has_missed = false;
        self.deliver_state(who, self.store.now.clone());
    }

    /// Delivers a list, which may be of an old state.
    fn deliver_state(&mut self, who: usize, state: StoredLeases) {
        let process = &mut self.processes[who];
        if !process.alive || self.now < process.paused_until {
            return;
        }
        let now = Micros::max(self.now, 1);
        let local = std::time::Duration::from_micros((now as f64 * process.rate) as u64);
        if let Some(assigner) = &mut process.assigner {
            for (name, (version, lease)) in &state.members {
                assigner.observe_member(local, name, *version, lease.clone());
            }
            let known: Vec<MemberName> = assigner.live_members().map(|(name, _)| name.clone()).collect();
            for name in known.iter().filter(|name| !state.members.contains_key(*name)) {
                assigner.observe_missing_member(local, name);
            }
            if state.table.is_none() {
                assigner.observe_missing_table(local);
            }
        }
        match state.table {
            Some((version, table)) => self.deliver(who, Change::Table(version, table)),
            None => self.step(who),
        }
    }

    fn deliver(&mut self, who: usize, change: Change) {
        let now = self.local(who);
        let process = &mut self.processes[who];
        match change {
            Change::Table(version, table) => {
                if let Some(assigner) = &mut process.assigner {
                    assigner.observe_table(now, (version, Ok(std::sync::Arc::clone(&table))));
                }
                process.member.observe_table(now, Ok(table));
                let life = process.life;
                let at = self.now + self.rng.u64(0..SECOND / 2);
                self.at(at, Event::Cover { who, life });
            }
            Change::TableDeleted(version) => {
                if let Some(assigner) = &mut process.assigner {
                    assigner.observe_deleted_table(now, version);
                }
            }
            Change::Member(name, version, lease) => {
                if let Some(assigner) = &mut process.assigner {
                    assigner.observe_member(now, &name, version, lease);
                }
            }
            Change::MemberDeleted(name) => {
                if let Some(assigner) = &mut process.assigner {
                    assigner.observe_deleted_member(now, &name);
                }
            }
        }
        self.step(who);
    }
}

/// An operation in one line.
struct Brief<'a>(&'a AssignerOperation);

impl std::fmt::Debug for Brief<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            AssignerOperation::CreateTable(_) => f.write_str("creates the table"),
            AssignerOperation::UpdateTable(_, version) => write!(f, "replaces table {version}"),
            other => write!(f, "{other:?}"),
        }
    }
}
