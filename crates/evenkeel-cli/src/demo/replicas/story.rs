//! Runs the [phases](super::plan), and waits after each until the ring has settled and every key was reconciled since.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::division::{Change, Division};
use super::fleet::Fleet;
use super::plan::Phase;
use super::report::{Ended, Report, Snapshot};
use super::verify;
use crate::Failure;

/// Time limit of a phase step.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval of the looks at the ring.
const LOOK: Duration = Duration::from_millis(50);

/// Builds of the replicas: those of the start, and those that replace them.
const BUILDS: [&str; 2] = ["v1", "v2"];

/// Changes the replicas and verifies.
pub(super) struct Story<'f> {
    fleet: &'f mut Fleet,
    reports: mpsc::Sender<Report>,
    division: Division,
    /// Number of slices that got another owner in this phase.
    moves: usize,
    /// Time without an owner in this phase, and since when it is so.
    unowned: Duration,
    unowned_since: Option<Instant>,
}

impl<'f> Story<'f> {
    pub(super) fn new(fleet: &'f mut Fleet, reports: mpsc::Sender<Report>) -> Self {
        let (division, unowned) = (Division::default(), Duration::ZERO);
        Story { fleet, reports, division, moves: 0, unowned, unowned_since: None }
    }

    /// Runs the phases up to the first that does not converge, each for `slot` at least, and compares the objects.
    ///
    /// # Errors
    ///
    /// Returns an error if a replica ends by itself, or the server refuses a request.
    pub(super) async fn run(mut self, phases: Vec<Phase>, slot: Duration, stay: bool) -> Result<(), Failure> {
        self.fleet.start_writers();
        for phase in phases {
            let slot_end = Instant::now() + slot;
            let ended = self.phase(phase).await?;
            let has_converged = ended.problem.is_none();
            self.report(Report::Ended(ended)).await;
            if !has_converged {
                return Ok(());
            }
            while Instant::now() < slot_end {
                self.look(None).await?;
            }
        }
        self.fleet.stop_writers().await;
        let problem = self.verify().await?;
        self.report(Report::Verified(problem)).await;
        if stay {
            self.fleet.start_writers();
        }
        Ok(())
    }

    /// Reports the ring for ever.
    pub(super) async fn stay(mut self) -> Result<(), Failure> {
        loop {
            self.look(None).await?;
        }
    }

    async fn phase(&mut self, phase: Phase) -> Result<Ended, Failure> {
        self.report(Report::Started(phase)).await;
        let began = Instant::now();
        (self.moves, self.unowned, self.unowned_since) = (0, Duration::ZERO, None);
        self.fleet.record.lock().start_phase();
        let problem = match phase {
            Phase::Start(replicas) | Phase::Join(replicas) => {
                for _ in 0..replicas {
                    self.fleet.start_replica(BUILDS[0])?;
                }
                self.converge().await?
            }
            Phase::Crash => {
                if let Some(replica) = self.fleet.crash().await {
                    self.message(true, format!("{replica}: crashed")).await;
                }
                self.converge().await?
            }
            Phase::Leave => {
                self.leave().await?;
                self.converge().await?
            }
            Phase::Replace(replicas) => self.replace(replicas).await?,
        };
        let gaps = self.fleet.record.lock().gaps();
        Ok(Ended { phase, took: began.elapsed(), moves: self.moves, unowned: self.unowned, gaps, problem })
    }

    /// Replaces replicas: the next one has joined before one leaves.
    async fn replace(&mut self, replicas: usize) -> Result<Option<String>, Failure> {
        for _ in 0..replicas {
            let next = self.fleet.start_replica(BUILDS[1])?;
            let deadline = Instant::now() + PATIENCE;
            while !self.division.members.contains(&next) {
                if Instant::now() >= deadline {
                    return Ok(Some(format!("{next} has not joined")));
                }
                self.look(Some(format!("{next} joins"))).await?;
            }
            self.leave().await?;
            let problem = self.converge().await?;
            if problem.is_some() {
                return Ok(problem);
            }
        }
        Ok(None)
    }

    /// Stops the oldest replica.
    async fn leave(&mut self) -> Result<(), Failure> {
        let leaving = self.fleet.leave(0);
        let replica = leaving.identity.clone();
        self.message(false, format!("{replica}: leaving the ring")).await;
        let left = tokio::spawn(leaving.leave());
        while !left.is_finished() {
            self.look(Some(format!("{replica} leaves"))).await?;
        }
        left.await??;
        self.fleet.leaving = None;
        Ok(())
    }

    /// Waits until the ring has settled, and then until a change of every key that came after that is reconciled. Returns why not.
    async fn converge(&mut self) -> Result<Option<String>, Failure> {
        let deadline = Instant::now() + PATIENCE;
        let mut settled = None;
        loop {
            let live = self.fleet.live();
            let problem = match (self.division.unsettled(&live), settled) {
                (Some(problem), _) => {
                    settled = None;
                    problem
                }
                (None, None) => {
                    settled = Some(self.fleet.record.now());
                    continue;
                }
                (None, Some(since)) => {
                    let (all, reconciled) = self.fleet.record.lock().reconciled_since(since);
                    if reconciled == all {
                        return Ok(None);
                    }
                    format!("{reconciled} of {all} keys are reconciled since the ring has settled")
                }
            };
            if Instant::now() >= deadline {
                return Ok(Some(problem));
            }
            self.look(Some(problem)).await?;
        }
    }

    /// Waits a moment, reads the ring, and reports what has changed.
    async fn look(&mut self, waiting: Option<String>) -> Result<(), Failure> {
        sleep(LOOK).await;
        if let Some(failure) = self.fleet.failure().await {
            return Err(failure);
        }
        let Some(division) = self.fleet.division() else { return Ok(()) };
        if division.revision > self.division.revision {
            let changes = self.division.changes(&division);
            self.division = division;
            for change in changes {
                if let Change::Moved { slices, .. } = &change {
                    self.moves += slices;
                }
                let is_bad = matches!(change, Change::Unowned { .. });
                let text = change.text(&self.fleet.crashed);
                self.message(is_bad, text).await;
            }
        }
        let is_unowned = self.division.unowned_share(&self.fleet.working()) > 0.0;
        match (is_unowned, self.unowned_since) {
            (true, None) => self.unowned_since = Some(Instant::now()),
            (false, Some(since)) => {
                self.unowned += since.elapsed();
                self.unowned_since = None;
            }
            _ => {}
        }
        let snapshot = {
            let record = self.fleet.record.lock();
            let replica =
                |replica: &super::fleet::Replica| (replica.identity.clone(), record.reconciles_of(replica.id));
            Snapshot {
                division: self.division.clone(),
                replicas: self.fleet.replicas.iter().map(replica).collect(),
                leaving: self.fleet.leaving.clone(),
                crashed: self.fleet.crashed.clone(),
                reconciles: record.reconciles(),
                overlaps: record.overlaps(),
                waiting,
            }
        };
        self.report(Report::Looked(snapshot)).await;
        Ok(())
    }

    /// Waits until the objects on the server are as they should be. Returns why not.
    async fn verify(&mut self) -> Result<Option<String>, Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.look(Some("comparing the objects on the server".to_owned())).await?;
            let pending = self.fleet.record.lock().pending().next().map(ToString::to_string);
            let problem = match (pending, verify::read(&self.fleet.client).await?) {
                (Some(key), _) => format!("the last change of {key} is not reconciled"),
                (None, None) => "the version of a list was compacted".to_owned(),
                (None, Some((foos, maps))) => {
                    let wrong = verify::mismatches(self.fleet.objects(), &foos, &maps);
                    let Some((key, problem)) = wrong.first_key_value() else { return Ok(None) };
                    format!("{} objects; {key}: {problem}", wrong.len())
                }
            };
            if Instant::now() >= deadline {
                return Ok(Some(problem));
            }
        }
    }

    async fn message(&self, is_bad: bool, text: String) {
        self.report(Report::Message { is_bad, text }).await;
    }

    async fn report(&self, report: Report) {
        // The display has ended; then the story ends too.
        let _ = self.reports.send(report).await;
    }
}
