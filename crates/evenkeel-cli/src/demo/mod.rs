//! `evenkeel demo`. With `--replicas` it is [another one](replicas).
//!
//! An embedded API server starts in this process, with the sample controller and a simulated cluster. Then the demo
//! runs in phases: it creates and scales Foos, breaks Deployments, changes objects while all watches are closed, and
//! deletes everything. After each phase it checks the state of the server, not of any cache.
#![allow(clippy::disallowed_names, reason = "foo is what a Foo is called")]

mod dashboard;
mod environment;
mod numbers;
mod pipeline;
mod plan;
mod replicas;
mod report;
mod runner;
mod server_state;
mod simulated_cluster;
mod stopwatch;
mod summary;
mod verify;
mod view;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use evenkeel::apiserver::ApiServer;
use evenkeel::inspect::{InspectServer, Inspector};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::dashboard::Dashboard;
use self::environment::Environment;
use self::runner::Runner;
use self::view::View;
use crate::signals::Signals;
use crate::terminal::{BAD, Line, NAME, PLAIN, STRONG};
use crate::{Failure, Outcome};

/// Refresh interval of the terminal.
const FRAME: Duration = Duration::from_millis(100);
/// Number of reports that are queued before the demo waits.
const REPORTS: usize = 1024;
/// Maximum time for a replica to start or stop.
const LONGEST_STEP: Duration = Duration::from_millis(150);
/// Duration and number of Foos without arguments.
const SECONDS: u64 = 20;
const OBJECTS: u32 = 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Divide the Foos among replicas that join, crash, leave and are replaced; at most N at once, from 2 to 8
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = replicas::replicas)]
    replicas: Option<usize>,
    /// Duration of the demo, if every phase converges in time; 0 runs without pauses [default: 20, with replicas 60]
    #[arg(long = "for", value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    seconds: Option<u64>,
    /// Number of Foos [default: 20, with replicas 96]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = objects)]
    objects: Option<u32>,
    /// Address of the API server: IP address and port; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = crate::apiserver::address)]
    listen: SocketAddr,
    /// Address of the live web page; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = crate::apiserver::address)]
    page: SocketAddr,
    /// Write a kubeconfig for the API server to this file, readable by its owner only
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Keep a few Foos and continue running after the last phase, until Ctrl-C
    #[arg(long)]
    stay: bool,
}

fn seconds(text: &str) -> Result<u64, &'static str> {
    let seconds = text.parse().ok().filter(|seconds| (0..=86_400).contains(seconds));
    seconds.ok_or("not a whole number of seconds from 0 to 86400")
}

fn objects(text: &str) -> Result<u32, &'static str> {
    text.parse().ok().filter(|objects| (1..=20_000).contains(objects)).ok_or("not a number from 1 to 20000")
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    if let Some(replicas) = arguments.replicas {
        return replicas::run(arguments, replicas).await;
    }
    let mut signals = Signals::listen()?;
    let objects = arguments.objects.unwrap_or(OBJECTS);
    let phases = plan::plan(objects, arguments.stay);
    let time = Duration::from_secs(arguments.seconds.unwrap_or(SECONDS));
    let slot = time / u32::try_from(phases.len()).unwrap_or(1).max(1);
    // A replica starts or stops within a small part of a phase.
    let step = LONGEST_STEP.min(slot / 20);

    let (reports, received) = mpsc::channel(REPORTS);
    let environment = Environment::start(arguments.listen, objects, step, reports.clone()).await?;
    write_kubeconfig(&environment.server, arguments.kubeconfig_out.as_deref())?;
    let page = environment.inspector.serve(arguments.page.to_string()).await?;
    let (view, dashboard) = (View::open(), Dashboard::new(&phases));
    let mut display =
        Display { view, dashboard, inspector: environment.inspector.clone(), received, start: Instant::now() };
    display.view.print(&introduction(&page, environment.server.url(), arguments.kubeconfig_out.as_deref())).await?;

    let runner = Runner::new(&environment.client, environment.server.faults(), slot, reports);
    let outcome = tokio::select! {
        outcome = display.watch(&environment, runner.run(phases)) => outcome,
        () = signals.next() => Err(format!("interrupted {}", display.dashboard.progress()).into()),
    };
    let outcome = match outcome {
        Ok(()) => display.close(&environment).await,
        Err(error) => Err(error),
    };
    if outcome.is_ok() && arguments.stay {
        let text = "running until Ctrl-C";
        display.view.print(&[Line::new(), Line::new().with(STRONG, text), Line::new()]).await?;
        tokio::select! {
            ended = display.watch(&environment, std::future::pending()) => ended?,
            () = signals.next() => {}
        }
    }
    display.view.keep();
    let end = async {
        page.shutdown().await;
        (display.view.close().await, environment.stop().await)
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

/// Writes a kubeconfig for the server, if there is a path for it.
fn write_kubeconfig(server: &ApiServer, path: Option<&Path>) -> Outcome {
    let Some(path) = path else { return Ok(()) };
    let written = server.write_kubeconfig(path);
    written.map_err(|error| format!("cannot write the kubeconfig to {}: {error}", path.display()).into())
}

/// Returns the introduction: addresses and commands to try.
fn introduction(page: &InspectServer, url: &str, kubeconfig: Option<&Path>) -> Vec<Line> {
    let command = |text: &str| Line::new().with(NAME, format!("  kubectl --server={url} {text}"));
    let mut lines = addresses(page, url, kubeconfig);
    lines.extend([
        Line::new().with(PLAIN, "Watch from another terminal, or break something and see it repaired:"),
        command("get foos -w"),
        command("delete deployment --all"),
        Line::new(),
    ]);
    lines
}

/// Returns the addresses of the page and of the server.
fn addresses(page: &InspectServer, url: &str, kubeconfig: Option<&Path>) -> Vec<Line> {
    let mut lines = vec![
        Line::new().with(PLAIN, "Live page:           ").with(STRONG, page.url()),
        Line::new().with(PLAIN, "Embedded API server: ").with(STRONG, url),
    ];
    if !page.address().ip().is_loopback() {
        lines.insert(1, Line::new().with(BAD, "The page is visible to every host that can reach this machine."));
    }
    lines.extend(kubeconfig.map(|path| Line::new().with(PLAIN, format!("Kubeconfig:          {}", path.display()))));
    lines
}

/// Displays the reports of the demo.
struct Display {
    view: View,
    dashboard: Dashboard,
    inspector: Inspector,
    received: mpsc::Receiver<report::Report>,
    start: Instant,
}

impl Display {
    /// Displays reports until the demo ends.
    async fn watch(&mut self, environment: &Environment, runner: impl Future<Output = Outcome>) -> Outcome {
        let mut runner = pin!(runner);
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                outcome = &mut runner => {
                    // Reports that are still queued.
                    while let Ok(report) = self.received.try_recv() {
                        self.show(report).await;
                    }
                    return outcome;
                }
                Some(report) = self.received.recv() => self.show(report).await,
                _ = frames.tick() => {
                    let (numbers, now) = (environment.numbers(), self.start.elapsed());
                    self.view.draw(|width| self.dashboard.lines(&numbers, now, width))?;
                }
                error = self.view.failed() => return Err(error.into()),
            }
        }
    }

    async fn show(&mut self, report: report::Report) {
        let now = self.start.elapsed();
        self.view.report(&report, now).await;
        if let Some(line) = report.line() {
            self.inspector.note(line);
        }
        self.dashboard.take(report, now);
    }

    /// Prints the summary.
    async fn close(&mut self, environment: &Environment) -> Outcome {
        let numbers = environment.numbers();
        let now = self.start.elapsed();
        self.view.draw(|width| self.dashboard.lines(&numbers, now, width))?;
        self.view.keep();
        let mut lines = vec![Line::new()];
        lines.extend(summary::lines(&self.dashboard, &numbers));
        self.view.print(&lines).await?;
        summary::verdict(&self.dashboard).map_err(Failure::from)
    }
}
