//! What a schedule draws: timing, network, clocks and faults.

use std::time::Duration;

use fastrand::Rng;

use super::{Micros, SECOND};
use crate::ring::planted::{RingDefect, is_planted};
use crate::ring::settings::RingSettings;

pub(super) struct Setup {
    pub(super) seed: u64,
    pub(super) settings: RingSettings,
    pub(super) processes: usize,
    /// How many processes observe Leases, and can be elected.
    pub(super) candidates: usize,
    /// Probabilities of a message.
    pub(super) loss: f64,
    pub(super) slow: f64,
    pub(super) very_slow: f64,
    /// Faults happen until this time. Then everything works for `calm`.
    pub(super) storm: Micros,
    pub(super) calm: Micros,
    pub(super) faults: Vec<(Micros, Fault)>,
    pub(super) rates: Vec<f64>,
    /// Nothing happens that a member may be fenced for.
    pub(super) fences_are_wrong: bool,
    /// Preconditions that the store ignores.
    pub(super) ignores: Ignored,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ignored {
    #[default]
    Nothing,
    TableVersions,
    FenceVersions,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Cut(usize, Micros),
    Pause(usize, Micros),
    Crash(usize, Micros),
    Leave(usize),
    DeleteTable,
    DeleteMember(usize),
    /// Keeps a copy of the store; then a watcher restarts from it.
    Remember,
    StaleRelist(usize),
    WallJump(usize, i64),
    Outage(Micros),
    WriteOutage(Micros),
    /// Responses to the process are late, and then it is cut off.
    Drag(usize),
    /// The drains of the process do not end.
    Stuck(usize),
    /// The table watch of the process delivers nothing for a while.
    DeafWatch(usize, Micros),
    Elect,
}

/// What a directed schedule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Stormy,
    /// An outage, of writes or of all requests, and nothing else: no member may be fenced for it.
    Outage,
    /// Late responses, and cuts after them.
    Drags,
    /// Stuck and paused members, moves, and evictions.
    Evictions,
}

impl Setup {
    pub(super) fn new(seed: u64, kind: Kind) -> Self {
        let mut rng = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x00dd_ba11);
        let processes = rng.usize(2..=6);
        let mut settings = RingSettings {
            // 6 to 24 slices of the first table.
            slices_per_member: rng.usize(3..=24 / processes),
            drain_limit: Duration::from_secs(10),
            settle: Duration::from_secs(rng.u64(1..=5)),
            ..RingSettings::default()
        };
        if is_planted(RingDefect::LongGrace) {
            settings.grace = Duration::from_secs(8);
        }
        let storm = 80 * SECOND;
        // Within the ratio of lease duration to renew deadline plus grace. The slowest runs at 1.
        let mut rates: Vec<f64> = (0..processes).map(|_| 1.0 + rng.f64() * 0.24).collect();
        if rng.bool() {
            rates[0] = 1.24;
        }
        let one = rng.usize(0..processes);
        rates[one] = 1.0;
        let mut setup = Setup {
            seed,
            processes,
            candidates: processes.min(3),
            loss: [0.0, 0.02, 0.15][rng.usize(0..3)],
            slow: [0.0, 0.05, 0.2][rng.usize(0..3)],
            very_slow: [0.0, 0.02, 0.05][rng.usize(0..3)],
            storm,
            // SHM-019, and the delays of the last messages.
            calm: (3 * 15 + 12 + 10 + 1) * SECOND,
            faults: Vec::new(),
            rates,
            fences_are_wrong: false,
            ignores: Ignored::Nothing,
            settings,
        };
        if matches!(kind, Kind::Outage | Kind::Drags) {
            (setup.loss, setup.slow, setup.very_slow) = (0.0, 0.0, 0.0);
        }
        setup.fences_are_wrong = kind == Kind::Outage;
        setup.faults = setup.draw_faults(&mut rng, kind);
        setup
    }

    fn draw_faults(&self, rng: &mut Rng, kind: Kind) -> Vec<(Micros, Fault)> {
        let mut faults = Vec::new();
        let times = |rng: &mut Rng, most: usize| -> Vec<Micros> {
            (0..rng.usize(0..=most)).map(|_| rng.u64(16 * SECOND..self.storm)).collect()
        };
        let who = |rng: &mut Rng| rng.usize(0..self.processes);
        if kind != Kind::Outage {
            for _ in 0..rng.usize(1..=3) {
                faults.push((rng.u64(0..self.storm), Fault::Elect));
            }
        }
        match kind {
            Kind::Stormy => {}
            Kind::Outage => {
                let (from, time) = (rng.u64(22 * SECOND..28 * SECOND), rng.u64(20 * SECOND..40 * SECOND));
                faults.push((from, if rng.bool() { Fault::WriteOutage(time) } else { Fault::Outage(time) }));
                return faults;
            }
            Kind::Drags => {
                faults.push((rng.u64(20 * SECOND..30 * SECOND), Fault::Drag(who(rng))));
                return faults;
            }
            Kind::Evictions => {
                for _ in 0..3 {
                    faults.push((rng.u64(20 * SECOND..30 * SECOND), Fault::Stuck(who(rng))));
                }
                for at in times(rng, 3) {
                    faults.push((at, Fault::Crash(who(rng), SECOND)));
                }
                return faults;
            }
        }
        for at in times(rng, 2) {
            faults.push((at, Fault::Cut(who(rng), rng.u64(SECOND..30 * SECOND))));
        }
        for at in times(rng, 2) {
            faults.push((at, Fault::Pause(who(rng), rng.u64(SECOND..30 * SECOND))));
        }
        for at in times(rng, 6) {
            faults.push((at, Fault::Crash(who(rng), rng.u64(0..10 * SECOND))));
        }
        for at in times(rng, 18) {
            faults.push((at, Fault::Leave(who(rng))));
        }
        if rng.u8(0..3) == 0 {
            faults.push((rng.u64(20 * SECOND..60 * SECOND), Fault::Drag(who(rng))));
        }
        for at in times(rng, 1) {
            faults.push((at, Fault::DeleteTable));
        }
        for at in times(rng, 1) {
            faults.push((at, Fault::DeleteMember(who(rng))));
        }
        for at in times(rng, 2) {
            faults.push((at - rng.u64(SECOND..12 * SECOND), Fault::Remember));
            faults.push((at, Fault::StaleRelist(who(rng))));
        }
        for at in times(rng, 1) {
            faults.push((at, Fault::WallJump(who(rng), rng.i64(-7_200..7_200) * 1_000_000)));
        }
        for at in times(rng, 1) {
            faults.push((at, Fault::DeafWatch(who(rng), rng.u64(SECOND..20 * SECOND))));
        }
        match rng.u8(0..6) {
            0 => faults.push((rng.u64(20 * SECOND..50 * SECOND), Fault::Outage(rng.u64(2 * SECOND..25 * SECOND)))),
            1 => faults.push((rng.u64(20 * SECOND..50 * SECOND), Fault::WriteOutage(rng.u64(2 * SECOND..25 * SECOND)))),
            2 => faults.push((rng.u64(18 * SECOND..40 * SECOND), Fault::Stuck(who(rng)))),
            _ => {}
        }
        faults
    }
}
