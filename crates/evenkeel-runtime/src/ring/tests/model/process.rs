//! A process of the simulation: a member, and an assigner if it is a candidate.

use std::time::Duration;

use evenkeel_core::shard::ShardRanges;

use super::{Micros, World};
use crate::ring::assigner::AssignerMachine;
use crate::ring::member::MemberMachine;
use crate::ring::planted::{RingDefect, is_planted};
use crate::ring::settings::RingSettings;
use crate::ring::table::MemberName;

pub(super) struct Process {
    pub(super) number: usize,
    pub(super) life: u32,
    pub(super) alive: bool,
    pub(super) rate: f64,
    pub(super) wall_ahead: i64,
    pub(super) cut_until: Micros,
    pub(super) deaf_until: Micros,
    pub(super) paused_until: Micros,
    pub(super) dragged_until: Micros,
    pub(super) is_stuck: bool,
    pub(super) member: MemberMachine,
    pub(super) assigner: Option<AssignerMachine>,
    /// The term in which this process is the assigner.
    pub(super) elected: Option<u64>,
    /// Ranges whose work has started and not ended, as the process itself knows: what no release may leave out.
    pub(super) working: ShardRanges,
    pub(super) wake: u64,
    /// When its watch delivers the next event, at the earliest; and whether it has missed some.
    pub(super) delivered_until: Micros,
    pub(super) has_missed: bool,
    /// When the restart of its watch is scheduled.
    pub(super) relists_at: Option<Micros>,
}

impl Process {
    pub(super) fn new(number: usize, rate: f64, wall_ahead: i64, settings: &RingSettings, is_candidate: bool) -> Self {
        Process {
            number,
            life: 0,
            alive: false,
            rate,
            wall_ahead,
            cut_until: 0,
            deaf_until: 0,
            paused_until: 0,
            dragged_until: 0,
            is_stuck: false,
            member: MemberMachine::new(member_name(number, 0), settings, String::new(), Duration::ZERO),
            assigner: is_candidate.then(|| AssignerMachine::new(settings, Duration::ZERO)),
            elected: None,
            working: ShardRanges::empty(),
            wake: 0,
            delivered_until: 0,
            has_missed: false,
            relists_at: None,
        }
    }

    /// Starts another life, under another name.
    pub(super) fn revive(&mut self, now: Duration, settings: &RingSettings) {
        self.life += 1;
        self.alive = true;
        self.is_stuck = false;
        self.elected = None;
        self.working = ShardRanges::empty();
        let name = match is_planted(RingDefect::ReusedName) {
            true => member_name(self.number, 0),
            false => member_name(self.number, self.life),
        };
        let build = format!("1.{}", self.life);
        self.member = MemberMachine::new(name, settings, build, now);
        self.assigner = self.assigner.take().map(|_| AssignerMachine::new(settings, now));
        // A watch starts with a list.
        self.has_missed = true;
        self.relists_at = None;
    }
}

fn member_name(number: usize, life: u32) -> MemberName {
    format!("pod-{number}-{life}").into()
}

impl World {
    /// The clock of a process.
    pub(super) fn local(&self, who: usize) -> Duration {
        Duration::from_micros((self.now as f64 * self.processes[who].rate) as u64)
    }

    /// The simulated time at which a process's clock reads this, and not a moment earlier.
    pub(super) fn world_time(&self, who: usize, local: Duration) -> Micros {
        (local.as_micros() as f64 / self.processes[who].rate).ceil() as Micros + 1
    }

    pub(super) fn wall(&self, who: usize) -> i64 {
        1_800_000_000_000_000 + self.now as i64 + self.processes[who].wall_ahead
    }

    /// Returns whether a process polls work right now, if there is some.
    pub(super) fn acts(&self, who: usize) -> bool {
        let process = &self.processes[who];
        let grace = self.setup.settings.grace;
        let in_time = process.member.valid_until().is_some_and(|until| self.local(who) < until + grace);
        process.alive && self.now >= process.paused_until && in_time
    }

    /// Checks the invariants of a process that may have started to act.
    pub(super) fn check(&mut self, who: usize) {
        if !self.acts(who) {
            return;
        }
        if let Some(line) = self.overlap(who) {
            self.verdict.overlaps += 1;
            return self.fail(line);
        }
        self.check_epochs(who);
    }

    /// Returns the range that this process and another one act on.
    fn overlap(&self, who: usize) -> Option<String> {
        let mine = &self.processes[who].member;
        for other in (0..self.processes.len()).filter(|other| *other != who && self.acts(*other)) {
            let theirs = &self.processes[other].member;
            let mut ahead = theirs.holdings().peekable();
            for held in mine.holdings() {
                while ahead.next_if(|their| their.range.end() <= u128::from(held.range.start())).is_some() {}
                if let Some(both) = ahead.peek().and_then(|their| their.range.intersection(held.range)) {
                    return Some(format!("I1 {} and {} act on {both}", mine.name(), theirs.name()));
                }
            }
        }
        None
    }

    fn check_epochs(&mut self, who: usize) {
        let mut fell = None;
        for held in self.processes[who].member.holdings() {
            for probe in self.probes.iter_mut().filter(|probe| held.range.contains(probe.0)) {
                if held.epoch < probe.1 {
                    fell = Some(format!("I2 the epoch of {:x} fell from {} to {}", probe.0, probe.1, held.epoch));
                }
                probe.1 = probe.1.max(held.epoch);
            }
        }
        if let Some(line) = fell {
            self.verdict.epochs_fell += 1;
            self.fail(line);
        }
    }

    /// I4: a member acts on ranges of its highest table only.
    pub(super) fn check_holdings(&mut self, who: usize) {
        let member = &self.processes[who].member;
        let Some(table) = member.table() else { return };
        let is_foreign = |held: &&crate::ring::member::Holding| {
            let state = table.state(table.index_of(held.range.start()));
            state.owner().map_or(*state != crate::ring::table::SliceState::Unknown, |owner| owner != member.name())
        };
        let found = member.holdings().find(is_foreign).map(|held| held.range);
        if let Some(range) = found {
            self.fail(format!("I4 process {who} holds {range} against its table"));
        }
    }
}
