//! `evenkeel demo --replicas N`.
//!
//! Replicas of one controller divide the objects of an embedded API server among themselves. They join, crash, leave and are replaced
//! while objects change all the time. Every reconcile is recorded: no two replicas may reconcile one key at once. After each phase
//! the demo waits until the ring has settled and every key was reconciled since; at the end it compares the objects on the server.

mod dashboard;
mod division;
mod fleet;
mod plan;
mod record;
mod report;
mod story;
mod summary;
mod verify;

use std::pin::pin;
use std::time::Duration;

use evenkeel::inspect::{InspectServer, Inspector};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::dashboard::Dashboard;
use self::fleet::Fleet;
use self::report::Report;
use self::story::Story;
use super::view::View;
use super::{Arguments, FRAME, REPORTS};
use crate::signals::Signals;
use crate::terminal::{Line, NAME, PLAIN, STRONG};
use crate::{Failure, Outcome};

/// Duration without an argument.
const SECONDS: u64 = 60;

/// Parses the number of replicas.
pub(super) fn replicas(text: &str) -> Result<usize, String> {
    let (least, most) = (plan::REPLICAS.start(), plan::REPLICAS.end());
    let replicas = text.parse().ok().filter(|replicas| plan::REPLICAS.contains(replicas));
    replicas.ok_or_else(|| format!("not a number from {least} to {most}"))
}

pub(super) async fn run(arguments: Arguments, replicas: usize) -> Outcome {
    let mut signals = Signals::listen()?;
    let phases = plan::plan(replicas);
    let objects = arguments.objects.unwrap_or(plan::OBJECTS);
    let time = Duration::from_secs(arguments.seconds.unwrap_or(SECONDS));
    let slot = time / u32::try_from(phases.len()).unwrap_or(1).max(1);
    let mut fleet = Fleet::start(arguments.listen, objects).await?;
    super::write_kubeconfig(&fleet.server, arguments.kubeconfig_out.as_deref())?;
    let page = fleet.inspector.serve(arguments.page.to_string()).await?;
    let (reports, received) = mpsc::channel(REPORTS);
    let mut display = Display {
        view: View::open(),
        dashboard: Dashboard::new(&phases),
        inspector: fleet.inspector.clone(),
        received,
        start: Instant::now(),
    };
    display.view.print(&introduction(&page, &arguments, fleet.server.url())).await?;

    let story = Story::new(&mut fleet, reports.clone());
    let outcome = tokio::select! {
        outcome = display.watch(story.run(phases, slot, arguments.stay)) => outcome,
        () = signals.next() => Err(format!("interrupted {}", display.dashboard.progress()).into()),
    };
    let outcome = match outcome {
        Ok(()) => display.close(&fleet).await,
        Err(error) => Err(error),
    };
    if outcome.is_ok() && arguments.stay {
        display.view.print(&[Line::new(), Line::new().with(STRONG, "running until Ctrl-C"), Line::new()]).await?;
        let story = Story::new(&mut fleet, reports);
        tokio::select! {
            ended = display.watch(story.stay()) => ended?,
            () = signals.next() => {}
        }
    }
    display.view.keep();
    let end = async {
        page.shutdown().await;
        (display.view.close().await, fleet.stop().await)
    };
    let (closed, stopped) = tokio::select! {
        ended = end => ended,
        // A second signal forces the exit.
        () = signals.next() => return outcome.and_then(|()| Err("interrupted during shutdown".into())),
    };
    outcome?;
    closed?;
    stopped
}

/// Returns the introduction: addresses and commands to try.
fn introduction(page: &InspectServer, arguments: &Arguments, url: &str) -> Vec<Line> {
    let command = |text: String| Line::new().with(NAME, format!("  {text}"));
    let mut lines = super::addresses(page, url, arguments.kubeconfig_out.as_deref());
    let (ring, namespace, by) = (fleet::RING, fleet::NAMESPACE, fleet::BY);
    lines.extend([
        Line::new().with(PLAIN, "Watch from another terminal who writes what, and the Leases of the ring:"),
        command(format!("kubectl --server={url} get configmaps -A -L {by} -l {by} -w")),
        command(format!("kubectl --server={url} get leases -n {namespace} -l ring.evenkeel.dev/name={ring}")),
        Line::new(),
    ]);
    lines
}

/// Displays the reports of the demo.
struct Display {
    view: View,
    dashboard: Dashboard,
    inspector: Inspector,
    received: mpsc::Receiver<Report>,
    start: Instant,
}

impl Display {
    /// Displays reports until the story ends.
    async fn watch(&mut self, story: impl Future<Output = Outcome>) -> Outcome {
        let mut story = pin!(story);
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                outcome = &mut story => {
                    // Reports that are still queued.
                    while let Ok(report) = self.received.try_recv() {
                        self.show(report).await;
                    }
                    return outcome;
                }
                Some(report) = self.received.recv() => self.show(report).await,
                _ = frames.tick() => {
                    let now = self.start.elapsed();
                    self.view.draw(|width| self.dashboard.lines(now, width))?;
                }
                error = self.view.failed() => return Err(error.into()),
            }
        }
    }

    async fn show(&mut self, report: Report) {
        let now = self.start.elapsed();
        if let Some(line) = report.line() {
            self.inspector.note(&line);
            self.view.log(now, &line).await;
        }
        self.dashboard.take(report, now);
    }

    /// Prints the summary.
    async fn close(&mut self, fleet: &Fleet) -> Outcome {
        let now = self.start.elapsed();
        self.view.draw(|width| self.dashboard.lines(now, width))?;
        self.view.keep();
        let (lines, verdict) = {
            let record = fleet.record.lock();
            (summary::lines(&self.dashboard, &record, fleet.objects()), summary::verdict(&self.dashboard, &record))
        };
        self.view.print(&[Line::new()]).await?;
        self.view.print(&lines).await?;
        verdict.map_err(Failure::from)
    }
}
