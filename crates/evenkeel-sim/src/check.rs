//! Many runs of a scenario: random ones, and every crash and every stale restart.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde_json::Value;

use crate::coverage::Coverage;
use crate::decisions::{ChoiceSource, Tape, TapeError};
use crate::fault::Fault;
use crate::fingerprint::Fingerprint;
use crate::page::PAGES;
use crate::run::{Failure, Run, RunPlan, run};
use crate::scenario::Scenario;
use crate::shrink::shrink;
use crate::world::{CrashPhase, CrashPoint, StaleRestart, WritePoints};

/// The environment variable with the run that [`Scenario::check`] and the matrices repeat instead of their own.
pub(crate) const REPLAY: &str = "EVENKEEL_SIM_REPLAY";
/// A stale replica lacks at most this many revisions.
const BEHIND: u64 = 6;

/// What a number of runs has shown.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The number of runs.
    pub runs: u64,
    /// The simulated time of all runs.
    pub simulated: Duration,
    /// How many times a task has run.
    pub steps: u64,
    /// The number of requests.
    pub requests: u64,
    /// How often each fault was injected.
    pub faults: BTreeMap<Fault, u64>,
    /// Which phases of clients the faults have met.
    pub coverage: Coverage,
}

impl Report {
    /// Adds what other runs have shown.
    pub fn merge(&mut self, other: &Report) {
        self.runs += other.runs;
        self.simulated += other.simulated;
        self.steps += other.steps;
        self.requests += other.requests;
        for (fault, count) in &other.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        self.coverage.merge(&other.coverage);
    }

    fn add(&mut self, run: &Run) {
        self.runs += 1;
        self.simulated += run.simulated;
        self.steps += run.steps;
        self.requests += run.requests;
        for (fault, count) in &run.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        self.coverage.merge(&run.coverage);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.simulated.as_secs_f64() / 3600.0;
        let Report { runs, requests, steps, .. } = self;
        write!(f, "{runs} runs, {hours:.1} simulated hours, {requests} requests, {steps} steps")?;
        if !self.faults.is_empty() {
            let faults: Vec<String> =
                self.faults.iter().map(|(fault, count)| format!("{} {count}", fault.number())).collect();
            write!(f, "; faults: {}", faults.join(", "))?;
        }
        Ok(())
    }
}

/// The choices of a run, as one line: `seed=0x2a`, `tape=f3=2.t17=1@v1.412.1b2c3d4e5f607182`, `crash=controller.3.before-response`
/// or `stale=controller.3.2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunSpec {
    Choices(ChoiceSource),
    /// The tape of a run that was recorded, which is to be the same again.
    Tape {
        tape: Tape,
        fingerprint: Fingerprint,
    },
    Crash {
        process: String,
        write: u32,
        phase: CrashPhase,
    },
    Stale {
        process: String,
        write: u32,
        behind: u64,
    },
}

/// A replay line that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The line has another form.
    #[error("{line:?} is not a replay line: expected seed=, tape=, crash= or stale=")]
    Form {
        /// The line.
        line: String,
    },
    /// The tape cannot be read.
    #[error("the tape of the replay line cannot be read")]
    Tape(#[from] TapeError),
    /// The tape has no fingerprint of this version, so nothing shows whether it repeats the run that it was taken from.
    #[error(
        "the tape has no fingerprint of this version: expected @v1. and so on at its end, as in the line that was printed"
    )]
    Version,
    /// The tape does not repeat the run that it was taken from: the code has changed.
    #[error(
        "diverged by step {step}: the tape was taken from a run of other code, which had made its last choice by step {recorded}"
    )]
    Diverged {
        /// The step by which the recorded run had made its last choice that is not plain.
        recorded: u64,
        /// The same step of this run.
        step: u64,
        /// The run that the choices give now. It is legal, and another one than the recorded one.
        run: Box<Run>,
    },
    /// The scenario has no such process.
    #[error("the scenario has no process {process:?}")]
    Process {
        /// The name in the line.
        process: String,
    },
}

impl RunSpec {
    /// Returns what repeats a run that has taken these choices.
    fn of_tape(tape: Tape, fingerprint: Fingerprint) -> Self {
        if tape.0.is_empty() {
            return RunSpec::Choices(ChoiceSource::Tape(tape));
        }
        RunSpec::Tape { tape, fingerprint }
    }
}

impl FromStr for RunSpec {
    type Err = ReplayError;

    fn from_str(line: &str) -> Result<Self, ReplayError> {
        let form = || ReplayError::Form { line: line.to_owned() };
        let (kind, value) = line.split_once('=').ok_or_else(form)?;
        let point = || {
            let mut parts = value.rsplitn(3, '.');
            let (last, write, process) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?.to_owned());
            Some((process, write, last))
        };
        match kind {
            "seed" => {
                let digits = value.trim_start_matches("0x");
                let seed = u64::from_str_radix(digits, 16).map_err(|_| form())?;
                Ok(RunSpec::Choices(ChoiceSource::Seed(seed)))
            }
            "tape" if value == "plain" => Ok(RunSpec::Choices(ChoiceSource::Tape(Tape::default()))),
            "tape" => {
                let (tape, fingerprint) = value.rsplit_once('@').ok_or(ReplayError::Version)?;
                let fingerprint = fingerprint.parse().map_err(|_| ReplayError::Version)?;
                Ok(RunSpec::Tape { tape: tape.parse()?, fingerprint })
            }
            "crash" => {
                let (process, write, phase) = point().ok_or_else(form)?;
                let phase = PHASES.iter().find(|(_, name)| *name == phase).ok_or_else(form)?.0;
                Ok(RunSpec::Crash { process, write, phase })
            }
            "stale" => {
                let (process, write, behind) = point().ok_or_else(form)?;
                Ok(RunSpec::Stale { process, write, behind: behind.parse().map_err(|_| form())? })
            }
            _ => Err(form()),
        }
    }
}

const PHASES: [(CrashPhase, &str); 3] = [
    (CrashPhase::BeforeCommit, "before-commit"),
    (CrashPhase::BeforeResponse, "before-response"),
    (CrashPhase::AfterResponse, "after-response"),
];

impl fmt::Display for RunSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunSpec::Choices(ChoiceSource::Seed(seed) | ChoiceSource::WorkloadOf(seed)) => write!(f, "seed={seed:#x}"),
            RunSpec::Choices(ChoiceSource::Tape(tape)) => write!(f, "tape={tape}"),
            RunSpec::Tape { tape, fingerprint } => write!(f, "tape={tape}@{fingerprint}"),
            RunSpec::Crash { process, write, phase } => {
                let phase = PHASES.iter().find(|(candidate, _)| candidate == phase).map_or("", |(_, name)| name);
                write!(f, "crash={process}.{write}.{phase}")
            }
            RunSpec::Stale { process, write, behind } => write!(f, "stale={process}.{write}.{behind}"),
        }
    }
}

/// A run that broke an invariant, made as simple as possible.
///
/// `Debug` is the same text as `Display`, so that `unwrap` in a test prints it.
pub struct Failed {
    pub(crate) scenario: String,
    pub(crate) spec: RunSpec,
    /// The run before it was made simple.
    found: RunSpec,
    pub(crate) run: Box<Run>,
    pub(crate) failure: Failure,
    /// Fault rules of the server that break the same invariant, if that is possible.
    pub(crate) rules: Option<Vec<String>>,
    /// The number of runs up to this one.
    pub(crate) runs: u64,
}

impl Failed {
    /// Returns the broken invariant.
    pub fn failure(&self) -> &Failure {
        &self.failure
    }

    /// Returns the run.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Returns the number of runs up to this one.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Returns the line that repeats the run: see [`Scenario::replay`].
    pub fn replay_line(&self) -> String {
        format!("{}:{}", self.scenario, self.spec)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failed { scenario, failure, runs, .. } = self;
        writeln!(f, "scenario {scenario:?} broke an invariant in run {runs}")?;
        writeln!(f, "\n  {failure}\n")?;
        write!(f, "{}", self.run.trace)?;
        writeln!(f, "\nreplay: {REPLAY}={:?} cargo test", self.replay_line())?;
        writeln!(f, "step by step: {PAGES}=FOLDER beside it writes FOLDER/{}", self.page_name())?;
        if self.found != self.spec {
            writeln!(f, "found by: {scenario}:{}", self.found)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for Failed {}

type Comparable = BTreeMap<String, Vec<Value>>;

impl Scenario {
    /// Runs the scenario with the seeds from 0 to `seeds`, each with its own faults and schedule.
    ///
    /// The variable `EVENKEEL_SIM_REPLAY` with the replay line of a failure of this scenario runs that one instead.
    ///
    /// # Errors
    /// The first run that breaks an invariant, with the fewest faults that still break it.
    ///
    /// # Panics
    /// If that variable names this scenario and is not a replay line.
    pub fn check(&self, seeds: u64) -> Result<Report, Failed> {
        self.check_from(0, seeds)
    }

    /// Does the same with this number of seeds from `first` on.
    ///
    /// # Errors
    /// See [`check`](Self::check).
    pub fn check_from(&self, first: u64, seeds: u64) -> Result<Report, Failed> {
        let specs = (first..first.saturating_add(seeds)).map(|seed| RunSpec::Choices(ChoiceSource::Seed(seed)));
        self.check_all(specs)
    }

    /// Runs the scenario once without faults, and then once for every write of every process and every [phase](CrashPhase) of it, with
    /// a crash there and no other fault. The writes are those of the first run; a process that writes nothing adds no runs. Of writes to
    /// Leases and Events with no other write between them, the first five count.
    ///
    /// # Errors
    /// The first run that breaks an invariant.
    pub fn crash_matrix(&self) -> Result<Report, Failed> {
        self.check_matrix(self.write_points().into_iter().flat_map(|(process, write)| {
            PHASES.map(|(phase, _)| RunSpec::Crash { process: process.clone(), write, phase })
        }))
    }

    /// Runs the scenario once without faults, and then once for every write of every process and every number of revisions up to six,
    /// with a restart there onto a replica that lacks so many revisions and is stuck for a minute. The writes are those of
    /// [`crash_matrix`](Self::crash_matrix).
    ///
    /// # Errors
    /// The first run that breaks an invariant.
    pub fn stale_matrix(&self) -> Result<Report, Failed> {
        self.check_matrix(self.write_points().into_iter().flat_map(|(process, write)| {
            (1..=BEHIND).map(move |behind| RunSpec::Stale { process: process.clone(), write, behind })
        }))
    }

    /// Repeats the run of a replay line of this scenario, and records it: see [`Run::to_html`].
    ///
    /// # Errors
    /// The line is none, names a process that the scenario does not have, or has a tape that [diverges](ReplayError::Diverged).
    pub fn replay(&self, line: &str) -> Result<Run, ReplayError> {
        let spec: RunSpec = line.strip_prefix(&format!("{}:", self.name)).unwrap_or(line).parse()?;
        self.run_spec(&spec, &mut None, true)
    }

    /// Returns the writes of each process in a run without faults.
    fn write_points(&self) -> Vec<(String, u32)> {
        let mut plain = self.without_faults(&ChoiceSource::Tape(Tape::default()));
        let processes = self.process_ids().zip(&self.processes);
        let points = processes.flat_map(|(process, (name, _))| {
            let writes = plain.write_points.remove(&process).unwrap_or_default();
            writes.into_iter().map(|write| (name.to_string(), write))
        });
        points.collect()
    }

    fn without_faults(&self, choices: &ChoiceSource) -> Run {
        let choices = choices.without_faults();
        run(self, &RunPlan::new(choices))
    }

    /// Checks the points of a matrix after the run that they are taken from: if that fails, there are none.
    fn check_matrix(&self, points: impl Iterator<Item = RunSpec>) -> Result<Report, Failed> {
        let plain = RunSpec::Choices(ChoiceSource::Tape(Tape::default()));
        self.check_all(std::iter::once(plain).chain(points))
    }

    fn check_all(&self, specs: impl IntoIterator<Item = RunSpec>) -> Result<Report, Failed> {
        let mut report = Report::default();
        let mut reference = None;
        if let Some(spec) = self.requested_replay() {
            return self.check_one(spec, &mut report, &mut reference).map(|()| report);
        }
        for spec in specs {
            self.check_one(spec, &mut report, &mut reference)?;
        }
        Ok(report)
    }

    /// Returns the run that the environment asks for, if it is one of this scenario.
    fn requested_replay(&self) -> Option<RunSpec> {
        let line = std::env::var(REPLAY).ok()?;
        let spec = line.strip_prefix(&*self.name)?.strip_prefix(':')?;
        match spec.parse().and_then(|spec| self.points(&spec).map(|_| spec)) {
            Ok(spec) => Some(spec),
            Err(error) => panic!("{REPLAY}: {error}"),
        }
    }

    fn check_one(&self, spec: RunSpec, report: &mut Report, reference: &mut Option<Comparable>) -> Result<(), Failed> {
        let run = match self.run_spec(&spec, reference, false) {
            Ok(run) => run,
            // Only a line of the environment names other processes, or has a tape of other code.
            Err(error) => panic!("{REPLAY}: {error}"),
        };
        report.add(&run);
        let Some(failure) = run.failure.clone() else { return Ok(()) };
        let (simple, run) = match &spec {
            RunSpec::Choices(_) => {
                let fails = |tape: &Tape| {
                    let spec = RunSpec::Choices(ChoiceSource::Tape(tape.clone()));
                    let run = self.run_spec(&spec, &mut None, false).ok()?;
                    let is_same = run.failure.as_ref().is_some_and(|found| found.invariant == failure.invariant);
                    is_same.then_some(run)
                };
                let tape = run.tape.clone();
                match shrink(&tape, fails) {
                    Some((tape, run)) => (RunSpec::of_tape(tape, run.fingerprint), run),
                    None => (spec.clone(), run),
                }
            }
            _ => (spec.clone(), run),
        };
        // Once more, to be looked at.
        let run = self.run_spec(&simple, &mut None, true).unwrap_or(run);
        let failure = run.failure.clone().unwrap_or(failure);
        let rules = self.verified_rules(&simple, &run, &failure);
        let failed = Failed {
            scenario: self.name.to_string(),
            spec: simple,
            found: spec,
            run: Box::new(run),
            failure,
            rules,
            runs: report.runs,
        };
        failed.write_requested_page();
        Err(failed)
    }

    /// Returns what happens at the writes of a run. Fails if the scenario does not have the process.
    fn points(&self, spec: &RunSpec) -> Result<WritePoints, ReplayError> {
        let id = |name: &String| {
            let found = self.process_ids().zip(&self.processes).find(|(_, (candidate, _))| **candidate == **name);
            found.map(|(id, _)| id).ok_or_else(|| ReplayError::Process { process: name.clone() })
        };
        let mut points = WritePoints::default();
        match spec {
            RunSpec::Choices(_) | RunSpec::Tape { .. } => {}
            RunSpec::Crash { process, write, phase } => {
                points.crash = Some(CrashPoint { process: id(process)?, write: *write, phase: *phase });
            }
            RunSpec::Stale { process, write, behind } => {
                points.stale = Some(StaleRestart { process: id(process)?, write: *write, behind: *behind });
            }
        }
        Ok(points)
    }

    /// Runs once. `reference` is the final state without faults, if it is the same for all runs.
    fn run_spec(&self, spec: &RunSpec, reference: &mut Option<Comparable>, record: bool) -> Result<Run, ReplayError> {
        let points = self.points(spec)?;
        let (choices, has_faults) = match spec {
            RunSpec::Choices(choices) => (choices.clone(), true),
            RunSpec::Tape { tape, .. } => (ChoiceSource::Tape(tape.clone()), true),
            RunSpec::Crash { .. } | RunSpec::Stale { .. } => (ChoiceSource::Tape(Tape::default()), false),
        };
        let plan = RunPlan { has_faults, points, is_recorded: record, ..RunPlan::new(choices) };
        let mut run = self.compare(plan, reference);
        run.recording.spec = spec.to_string();
        match spec {
            RunSpec::Tape { tape, fingerprint } if (tape, *fingerprint) != (&run.tape, run.fingerprint) => {
                Err(ReplayError::Diverged {
                    recorded: fingerprint.step,
                    step: run.fingerprint.step,
                    run: Box::new(run),
                })
            }
            _ => Ok(run),
        }
    }

    /// Runs a plan, and expects the final state of the same run without faults.
    pub(crate) fn compare(&self, plan: RunPlan<'_>, reference: &mut Option<Comparable>) -> Run {
        if !self.settings.is_compared {
            return run(self, &plan);
        }
        let mut own = None;
        let expected = match reference {
            Some(reference) => &*reference,
            None => {
                let without = self.without_faults(&plan.choices);
                if without.failure.is_some() {
                    return without;
                }
                let comparable = without.state.comparable();
                let kept = if without.has_random_workload { &mut own } else { reference };
                &*kept.insert(comparable)
            }
        };
        run(self, &RunPlan { expected: Some(expected), ..plan })
    }
}
