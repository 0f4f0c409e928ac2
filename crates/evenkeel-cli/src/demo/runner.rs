//! Runs the [plan](super::plan) at its pace, and waits after each phase until the state has converged.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use evenkeel::apiserver::{Action, Faults, Rule, RuleId, WatchAction};
use evenkeel::client::{Client, Error, Patch};
use evenkeel::core::{Reason, Status};
use evenkeel_sample_controller::{Foo, FooSpec};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::environment::USER_AGENT;
use super::plan::{FOREIGN, Intent, NAMESPACE, Phase, PhasePlan, Write};
use super::report::{Ended, Importance, Report};
use super::server_state;
use super::stopwatch::Stopwatch;
use super::verify::{Mismatches, verify};
use crate::Failure;

/// Time limit without progress.
const PATIENCE: Duration = Duration::from_secs(30);
/// Interval of the checks, and their maximum share of the time.
const LOOK: Duration = Duration::from_millis(40);
const LOOK_SHARE: u32 = 4;
/// Maximum number of concurrent writes.
const WRITERS: usize = 8;
/// Maximum duration of an outage after its last write, if not every watch was refused.
const LONGEST_OUTAGE: Duration = Duration::from_secs(5);

/// Writes and verifies.
pub(super) struct Runner {
    client: Client,
    faults: Faults,
    reports: mpsc::Sender<Report>,
    /// Duration of a phase; none runs without pauses.
    slot: Duration,
    start: Instant,
    intent: Intent,
}

impl Runner {
    pub(super) fn new(client: &Client, faults: &Faults, slot: Duration, reports: mpsc::Sender<Report>) -> Self {
        let (client, faults) = (client.clone(), faults.clone());
        Runner { client, faults, reports, slot, start: Instant::now(), intent: Intent::default() }
    }

    /// Runs the phases up to the first that does not converge, and reports their results.
    ///
    /// # Errors
    ///
    /// Returns an error if the server refuses a write unexpectedly.
    pub(super) async fn run(mut self, phases: Vec<PhasePlan>) -> Result<(), Failure> {
        for phase_plan in phases {
            let slot_end = Instant::now() + self.slot;
            let ended = self.phase_plan(phase_plan).await?;
            let has_converged = ended.mismatches.is_empty();
            self.report(Report::Ended(ended)).await;
            if !has_converged {
                break;
            }
            sleep_until(slot_end).await;
        }
        Ok(())
    }

    async fn phase_plan(&mut self, PhasePlan { phase, writes }: PhasePlan) -> Result<Ended, Failure> {
        self.report(Report::Started { phase, writes: writes.len() }).await;
        let (began, total) = (Instant::now(), writes.len());
        let mut schedule = Schedule::new(writes, began, self.slot);
        let mut outage = (phase == Phase::Outage).then(|| Outage::begin(&self.faults));
        let mut watch = Stopwatch::default();
        let mut patience = ProgressTimer::new(began);
        let mut next_look = began;
        loop {
            tokio::select! {
                biased;
                () = sleep_until(next_look) => {}
                () = sleep_until(schedule.due()), if !schedule.is_over() => {
                    self.write(schedule.next(Instant::now()), &mut watch).await?;
                    patience.renew(Instant::now());
                    continue;
                }
            }
            if schedule.is_over() && outage.as_mut().is_some_and(|outage| outage.may_end(Instant::now(), self.slot)) {
                if let Some(outage) = outage.take() {
                    outage.end();
                }
                patience.renew(Instant::now());
                let text = "watches are accepted again; the history is discarded".to_owned();
                self.report(Report::Message { importance: Importance::Good, text }).await;
            }
            let checked = Instant::now();
            if let Some(mismatches) = self.look(&mut watch).await? {
                let is_over = schedule.is_over() && outage.is_none();
                let is_exceeded = is_over && patience.is_exceeded(mismatches.len(), Instant::now());
                if is_over && (mismatches.is_empty() || is_exceeded) {
                    let convergence = patience.since.elapsed();
                    let (times, took) = (watch.times(), began.elapsed());
                    return Ok(Ended { phase, writes: total, times, took, convergence, mismatches });
                }
            }
            next_look = Instant::now() + LOOK.max(checked.elapsed() * LOOK_SHARE);
        }
    }

    /// Returns the mismatches, if the state can be read consistently.
    async fn look(&self, watch: &mut Stopwatch) -> Result<Option<Mismatches>, Failure> {
        let began = self.start.elapsed();
        let Some(state) = server_state::read(&self.client, &self.intent).await? else { return Ok(None) };
        let mismatches = verify(&self.intent, &state);
        watch.checked(began, self.start.elapsed(), &mismatches);
        let (settled, written) = watch.progress();
        self.report(Report::Checked { settled, written }).await;
        Ok(Some(mismatches))
    }

    /// Sends these writes concurrently.
    async fn write(&mut self, writes: Vec<Write>, watch: &mut Stopwatch) -> Result<(), Failure> {
        let mut writing: JoinSet<_> = writes.into_iter().map(|write| send(self.client.clone(), write)).collect();
        while let Some(done) = writing.join_next().await {
            let (write, outcome) = done?;
            match outcome {
                // Another client was faster, possibly kubectl. The check decides whether it matters.
                Err(error) if error.is_not_found() || error.is_already_exists() => {
                    self.report(Report::Message { importance: Importance::Bad, text: format!("unexpected: {error}") })
                        .await;
                }
                outcome => outcome?,
            }
            self.intent.apply(&write);
            watch.wrote(write.subject(), self.start.elapsed());
            self.report(Report::Wrote).await;
        }
        Ok(())
    }

    async fn report(&self, report: Report) {
        // Fails only if the demo is ending.
        let _ = self.reports.send(report).await;
    }
}

/// Sends a write and returns its result.
async fn send(client: Client, write: Write) -> (Write, Result<(), Error>) {
    let foos = client.api::<Foo>().namespace(NAMESPACE);
    let deployments = client.api::<Deployment>().namespace(NAMESPACE);
    let outcome = match &write {
        Write::CreateFoo { foo, deployment, replicas } => {
            let spec = FooSpec { deployment_name: deployment.clone(), replicas: *replicas };
            foos.create(&Foo::new(foo, spec)).await.map(drop)
        }
        Write::ScaleFoo { foo, replicas } => {
            foos.patch(foo, &Patch::merge(&json!({"spec": {"replicas": replicas}}))).await.map(drop)
        }
        Write::RenameDeployment { foo, deployment } => {
            foos.patch(foo, &Patch::merge(&json!({"spec": {"deploymentName": deployment}}))).await.map(drop)
        }
        Write::DeleteFoo { foo } => foos.delete(foo).await.map(drop),
        Write::DeleteDeployment { deployment, .. } | Write::DeleteForeign { deployment } => {
            deployments.delete(deployment).await.map(drop)
        }
        Write::ScaleDeployment { deployment, replicas, .. } => {
            deployments.patch(deployment, &Patch::merge(&json!({"spec": {"replicas": replicas}}))).await.map(drop)
        }
        Write::CreateForeign { deployment } => deployments.create(&foreign_deployment(deployment)).await.map(drop),
    };
    (write, outcome)
}

/// Returns a Deployment of another owner.
fn foreign_deployment(name: &str) -> Deployment {
    let labels = |key: &str, value: &str| Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
    let container = Container { name: name.to_owned(), image: Some("nginx".to_owned()), ..Container::default() };
    Deployment {
        metadata: ObjectMeta { name: Some(name.to_owned()), labels: labels(FOREIGN, "true"), ..ObjectMeta::default() },
        spec: DeploymentSpec {
            replicas: Some(1),
            selector: LabelSelector { match_labels: labels("app", name), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: labels("app", name), ..ObjectMeta::default() }),
                spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
            },
            ..DeploymentSpec::default()
        },
        ..Deployment::default()
    }
}

/// Writes with their due times: evenly over the first part of a phase, so that the rest is left for convergence.
struct Schedule {
    writes: VecDeque<Write>,
    due: Instant,
    pause: Duration,
}

impl Schedule {
    fn new(writes: Vec<Write>, now: Instant, slot: Duration) -> Self {
        let pause = slot.mul_f64(0.6) / u32::try_from(writes.len()).unwrap_or(u32::MAX).max(1);
        Schedule { writes: writes.into(), due: now, pause }
    }

    fn is_over(&self) -> bool {
        self.writes.is_empty()
    }

    fn due(&self) -> Instant {
        self.due
    }

    /// Returns the due writes, at most as many as there are writers, and not two for the same Foo, whose order
    /// matters.
    fn next(&mut self, now: Instant) -> Vec<Write> {
        let mut batch: Vec<Write> = Vec::new();
        let is_new = |batch: &[Write], write: &Write| batch.iter().all(|other| other.subject() != write.subject());
        while batch.len() < WRITERS && self.due <= now && self.writes.front().is_some_and(|write| is_new(&batch, write))
        {
            self.due += self.pause;
            batch.extend(self.writes.pop_front());
        }
        batch
    }
}

/// Time since the last progress.
struct ProgressTimer {
    /// Start of the wait.
    since: Instant,
    closest: usize,
    progress: Instant,
}

impl ProgressTimer {
    fn new(now: Instant) -> Self {
        ProgressTimer { since: now, closest: usize::MAX, progress: now }
    }

    /// Restarts the wait.
    fn renew(&mut self, now: Instant) {
        *self = ProgressTimer::new(now);
    }

    /// Records the number of mismatches. Returns whether the limit is exceeded.
    fn is_exceeded(&mut self, mismatches: usize, now: Instant) -> bool {
        if mismatches < self.closest {
            (self.closest, self.progress) = (mismatches, now);
        }
        now.duration_since(self.progress) >= PATIENCE
    }
}

/// An outage of the demo's clients. Other clients, such as kubectl, are not affected.
struct Outage {
    faults: Faults,
    rules: [RuleId; 2],
    began: Instant,
    over: Option<Instant>,
}

impl Outage {
    /// Every watch is closed within its next event, and watch requests are refused.
    fn begin(faults: &Faults) -> Self {
        let busy = Status::failure(429, Reason::TOO_MANY_REQUESTS, "watches are disabled during the outage");
        let refuse = Rule::new(Action::Status(Box::new(busy))).watches(true).user_agent(USER_AGENT);
        let cut = Rule::watch(WatchAction::CloseMidFrame { event: 0, byte: 10 }).user_agent(USER_AGENT);
        let rules = [faults.add(refuse), faults.add(cut)];
        Outage { faults: faults.clone(), rules, began: Instant::now(), over: None }
    }

    /// Whether the outage may end: every watch was refused as often as there are watches, or the limit is reached.
    fn may_end(&mut self, now: Instant, slot: Duration) -> bool {
        let over = *self.over.get_or_insert(now);
        let [refuse, _] = self.rules;
        let refused = self.faults.report().iter().find(|rule| rule.id == refuse).map_or(0, |rule| rule.fired);
        let is_noticed = refused >= WATCHES && now.duration_since(self.began) >= slot / 2;
        is_noticed || now.duration_since(over) >= LONGEST_OUTAGE
    }

    /// Ends the outage and discards the history, so that resumed watches expire.
    fn end(self) {
        self.faults.compact_now();
        for rule in self.rules {
            self.faults.remove(rule);
        }
    }
}

/// Number of watches of the demo: two of the controller, two of the simulated cluster.
const WATCHES: u64 = 4;

#[cfg(test)]
mod tests;
