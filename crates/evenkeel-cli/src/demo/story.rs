//! The story: does what the [plan](super::plan) says, at its pace, and after each phase waits until the world has followed.

use std::collections::VecDeque;
use std::time::Duration;

use evenkeel::apiserver::{Action, Faults, Rule, RuleId, WatchAction};
use evenkeel::client::{Client, Error, Patch};
use evenkeel::core::{Reason, Status};
use evenkeel_sample_controller::{Foo, FooSpec};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::judge::{Gaps, judge};
use super::plan::{Chapter, FOREIGN, Intent, NAMESPACE, Phase, Write};
use super::report::{Ended, Report, Tone};
use super::stage::USER_AGENT;
use super::stopwatch::Stopwatch;
use super::world;
use crate::Failure;

/// How long the world may take to come a step closer to what was asked for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the world is looked at, and what part of the time may be spent on that.
const LOOK: Duration = Duration::from_millis(40);
const LOOK_SHARE: u32 = 4;
/// How many things are written at the same time, if they are due.
const WRITERS: usize = 8;
/// How long an outage lasts at most after the last write in it, if not every watch has noticed.
const LONGEST_OUTAGE: Duration = Duration::from_secs(5);

/// Who writes, and judges.
pub(super) struct Story {
    client: Client,
    faults: Faults,
    reports: mpsc::Sender<Report>,
    /// How much time each phase has; none if it shall go as fast as it can.
    slot: Duration,
    start: Instant,
    intent: Intent,
}

impl Story {
    pub(super) fn new(client: &Client, faults: &Faults, slot: Duration, reports: mpsc::Sender<Report>) -> Self {
        let (client, faults) = (client.clone(), faults.clone());
        Story { client, faults, reports, slot, start: Instant::now(), intent: Intent::default() }
    }

    /// Plays the chapters one after the other, up to the first that does not converge. What they came to is reported.
    ///
    /// # Errors
    /// If the server refuses what it should not.
    pub(super) async fn play(mut self, chapters: Vec<Chapter>) -> Result<(), Failure> {
        for chapter in chapters {
            let slot_end = Instant::now() + self.slot;
            let ended = self.chapter(chapter).await?;
            let has_converged = ended.gaps.is_empty();
            self.report(Report::Ended(ended)).await;
            if !has_converged {
                break;
            }
            sleep_until(slot_end).await;
        }
        Ok(())
    }

    async fn chapter(&mut self, Chapter { phase, writes }: Chapter) -> Result<Ended, Failure> {
        self.report(Report::Began { phase, writes: writes.len() }).await;
        let (began, total) = (Instant::now(), writes.len());
        let mut schedule = Schedule::new(writes, began, self.slot);
        let mut outage = (phase == Phase::Outage).then(|| Outage::begin(&self.faults));
        let mut watch = Stopwatch::default();
        let mut patience = Patience::new(began);
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
                let text = "watches are taken again, but what happened meanwhile is forgotten".to_owned();
                self.report(Report::Happened { tone: Tone::Good, text }).await;
            }
            let looked = Instant::now();
            if let Some(gaps) = self.look(&mut watch).await? {
                let is_over = schedule.is_over() && outage.is_none();
                let is_lost = is_over && patience.is_lost(gaps.len(), Instant::now());
                if is_over && (gaps.is_empty() || is_lost) {
                    let convergence = patience.since.elapsed();
                    let (times, took) = (watch.times(), began.elapsed());
                    return Ok(Ended { phase, writes: total, times, took, convergence, gaps });
                }
            }
            next_look = Instant::now() + LOOK.max(looked.elapsed() * LOOK_SHARE);
        }
    }

    /// What is wrong with the world, if that can be said.
    async fn look(&self, watch: &mut Stopwatch) -> Result<Option<Gaps>, Failure> {
        let began = self.start.elapsed();
        let Some(world) = world::read(&self.client, &self.intent).await? else { return Ok(None) };
        let gaps = judge(&self.intent, &world);
        watch.looked(began, self.start.elapsed(), &gaps);
        let (settled, written) = watch.progress();
        self.report(Report::Looked { settled, written }).await;
        Ok(Some(gaps))
    }

    /// Writes all of this at the same time.
    async fn write(&mut self, writes: Vec<Write>, watch: &mut Stopwatch) -> Result<(), Failure> {
        let mut writing: JoinSet<_> = writes.into_iter().map(|write| ask(self.client.clone(), write)).collect();
        while let Some(done) = writing.join_next().await {
            let (write, outcome) = done?;
            match outcome {
                // Somebody was faster, perhaps with kubectl. The judge will see whether that matters.
                Err(error) if error.is_not_found() || error.is_already_exists() => {
                    self.report(Report::Happened { tone: Tone::Bad, text: format!("not as planned: {error}") }).await;
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
        // If nobody listens any more, the story is about to end.
        let _ = self.reports.send(report).await;
    }
}

/// Does this, and says what came of it.
async fn ask(client: Client, write: Write) -> (Write, Result<(), Error>) {
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
        Write::DeleteDeployment { deployment, .. } | Write::DeleteStranger { deployment } => {
            deployments.delete(deployment).await.map(drop)
        }
        Write::ScaleDeployment { deployment, replicas, .. } => {
            deployments.patch(deployment, &Patch::merge(&json!({"spec": {"replicas": replicas}}))).await.map(drop)
        }
        Write::CreateStranger { deployment } => deployments.create(&stranger(deployment)).await.map(drop),
    };
    (write, outcome)
}

/// A Deployment that is nobody's business here.
fn stranger(name: &str) -> Deployment {
    let labels = json!({"app": name});
    let deployment = json!({
        "metadata": {"name": name, "labels": {FOREIGN: "true"}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": name, "image": "nginx"}]}},
        },
    });
    // It is one: there is a test.
    serde_json::from_value(deployment).unwrap_or_default()
}

/// Writes and when they are due: evenly over the first part of a slot, so that the rest of it is for the world to follow.
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

    /// What is to be written by now: as much as there are writers for, and not two things about the same Foo, whose order counts.
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

/// For how long the world has not come closer.
struct Patience {
    /// Since when the world may be expected to follow.
    since: Instant,
    closest: usize,
    progress: Instant,
}

impl Patience {
    fn new(now: Instant) -> Self {
        Patience { since: now, closest: usize::MAX, progress: now }
    }

    /// Something was done, and takes its time.
    fn renew(&mut self, now: Instant) {
        *self = Patience::new(now);
    }

    /// So much is wrong now: whether there is no hope.
    fn is_lost(&mut self, gaps: usize, now: Instant) -> bool {
        if gaps < self.closest {
            (self.closest, self.progress) = (gaps, now);
        }
        now.duration_since(self.progress) >= PATIENCE
    }
}

/// A time in which nobody of the demo hears what happens. Others, such as kubectl, do not notice.
struct Outage {
    faults: Faults,
    rules: [RuleId; 2],
    began: Instant,
    over: Option<Instant>,
}

impl Outage {
    /// Every watch breaks in the middle of its next event, and none can be had again.
    fn begin(faults: &Faults) -> Self {
        let busy = Status::failure(429, Reason::TOO_MANY_REQUESTS, "the demo takes no watches just now");
        let refuse = Rule::new(Action::Status(Box::new(busy))).watches(true).user_agent(USER_AGENT);
        let cut = Rule::watch(WatchAction::CloseMidFrame { event: 0, byte: 10 }).user_agent(USER_AGENT);
        let rules = [faults.add(refuse), faults.add(cut)];
        Outage { faults: faults.clone(), rules, began: Instant::now(), over: None }
    }

    /// Everything has been written: whether it has lasted long enough for watches to have been refused, as often as there are any.
    fn may_end(&mut self, now: Instant, slot: Duration) -> bool {
        let over = *self.over.get_or_insert(now);
        let [refuse, _] = self.rules;
        let refused = self.faults.report().iter().find(|rule| rule.id == refuse).map_or(0, |rule| rule.fired);
        let is_noticed = refused >= WATCHES && now.duration_since(self.began) >= slot / 2;
        is_noticed || now.duration_since(over) >= LONGEST_OUTAGE
    }

    /// What has happened is forgotten: who goes on from where it was is told to begin anew.
    fn end(self) {
        self.faults.compact_now();
        for rule in self.rules {
            self.faults.remove(rule);
        }
    }
}

/// How many watches the demo has: two of the controller, two of the stand-in.
const WATCHES: u64 = 4;

#[cfg(test)]
mod tests;
