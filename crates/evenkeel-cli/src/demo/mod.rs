//! `evenkeel demo`: what a newcomer types first.
//!
//! An API server starts inside this process, and with it the sample controller and a stand-in for the rest of a cluster. Then a
//! story unfolds: Foos come, grow, are meddled with, change unseen while all watches are broken, and go. After each phase the
//! server, and nobody else, is asked whether the world has become what it should be.
#![allow(clippy::disallowed_names, reason = "foo is what a Foo is called")]

mod cluster;
mod judge;
mod numbers;
mod picture;
mod pipeline;
mod plan;
mod report;
mod stage;
mod stopwatch;
mod story;
mod summary;
mod view;
mod world;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use evenkeel::inspect::{InspectServer, Inspector};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::picture::Picture;
use self::stage::Stage;
use self::story::Story;
use self::view::View;
use crate::signals::Signals;
use crate::terminal::{BAD, Line, NAME, PLAIN, STRONG};
use crate::{Failure, Outcome};

/// How often a terminal is drawn anew.
const FRAME: Duration = Duration::from_millis(100);
/// How many reports wait for who looks on before the story does.
const REPORTS: usize = 1024;
/// How long a replica takes to come or go, at most.
const LONGEST_STEP: Duration = Duration::from_millis(150);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How long the story takes, if everything converges in time; 0 is as fast as it goes
    #[arg(long = "for", value_name = "SECONDS", default_value_t = 20, allow_negative_numbers = true)]
    #[arg(value_parser = seconds)]
    seconds: u64,
    /// How many Foos there are
    #[arg(long, value_name = "N", default_value_t = 20, allow_negative_numbers = true)]
    #[arg(value_parser = objects)]
    objects: u32,
    /// Where the API server listens: IP address and port; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = crate::apiserver::address)]
    listen: SocketAddr,
    /// Where a web page shows the controller at work; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = crate::apiserver::address)]
    page: SocketAddr,
    /// Write a kubeconfig for the API server to this file, for its owner's eyes only
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Leave a few Foos and keep everything running after the story, until Ctrl-C
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
    let mut signals = Signals::listen()?;
    let chapters = plan::plan(arguments.objects, arguments.stay);
    let time = Duration::from_secs(arguments.seconds);
    let slot = time / u32::try_from(chapters.len()).unwrap_or(1).max(1);
    // A replica comes or goes within a small part of a phase, so that something moves and nobody waits.
    let step = LONGEST_STEP.min(slot / 20);

    let (reports, heard) = mpsc::channel(REPORTS);
    let stage = Stage::raise(arguments.listen, arguments.objects, step, reports.clone()).await?;
    if let Some(path) = &arguments.kubeconfig_out {
        stage
            .server
            .write_kubeconfig(path)
            .map_err(|error| format!("cannot write the kubeconfig to {}: {error}", path.display()))?;
    }
    let page = stage.inspector.serve(arguments.page.to_string()).await?;
    let (view, picture) = (View::open(), Picture::new(&chapters));
    let mut audience = Audience { view, picture, inspector: stage.inspector.clone(), heard, start: Instant::now() };
    audience.view.say(&programme(&page, stage.server.url(), arguments.kubeconfig_out.as_deref())).await?;

    let story = Story::new(&stage.client, stage.server.faults(), slot, reports);
    let outcome = tokio::select! {
        outcome = audience.watch(&stage, story.play(chapters)) => outcome,
        () = signals.next() => Err(format!("interrupted {}", audience.picture.how_far()).into()),
    };
    let outcome = match outcome {
        Ok(()) => audience.close(&stage).await,
        Err(error) => Err(error),
    };
    if outcome.is_ok() && arguments.stay {
        let text = "everything goes on until Ctrl-C";
        audience.view.say(&[Line::new(), Line::new().with(STRONG, text), Line::new()]).await?;
        tokio::select! {
            ended = audience.watch(&stage, std::future::pending()) => ended?,
            () = signals.next() => {}
        }
    }
    audience.view.keep();
    let end = async {
        page.shutdown().await;
        (audience.view.close().await, stage.strike().await)
    };
    let (closed, struck) = tokio::select! {
        ended = end => ended,
        // Whoever presses Ctrl-C twice means it.
        () = signals.next() => return outcome.and_then(|()| Err("interrupted while everything was coming to its end".into())),
    };
    outcome?;
    closed?;
    struck
}

/// What can be done while the story unfolds.
fn programme(page: &InspectServer, url: &str, kubeconfig: Option<&Path>) -> Vec<Line> {
    let command = |text: &str| Line::new().with(NAME, format!("  kubectl --server={url} {text}"));
    let mut lines = vec![
        Line::new().with(PLAIN, "See the controller at work in your browser: ").with(STRONG, page.url()),
        Line::new().with(PLAIN, "An API server runs inside this process, at  ").with(STRONG, url),
    ];
    if !page.address().ip().is_loopback() {
        lines.insert(1, Line::new().with(BAD, "Whoever can reach this machine can see that page."));
    }
    lines.extend(kubeconfig.map(|path| Line::new().with(PLAIN, format!("Its kubeconfig is {}", path.display()))));
    lines.extend([
        Line::new().with(PLAIN, "Follow along from another terminal, or break things, and see them repaired:"),
        command("get foos -w"),
        command("delete deployment --all"),
        Line::new(),
    ]);
    lines
}

/// Who looks on.
struct Audience {
    view: View,
    picture: Picture,
    inspector: Inspector,
    heard: mpsc::Receiver<report::Report>,
    start: Instant,
}

impl Audience {
    /// Shows what happens until the story is over.
    async fn watch(&mut self, stage: &Stage, story: impl Future<Output = Outcome>) -> Outcome {
        let mut story = pin!(story);
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                outcome = &mut story => {
                    // What it said last is still on its way.
                    while let Ok(report) = self.heard.try_recv() {
                        self.hear(report).await;
                    }
                    return outcome;
                }
                Some(report) = self.heard.recv() => self.hear(report).await,
                _ = frames.tick() => self.view.draw(&mut self.picture, &stage.numbers(), self.start.elapsed())?,
                error = self.view.failed() => return Err(error.into()),
            }
        }
    }

    async fn hear(&mut self, report: report::Report) {
        let now = self.start.elapsed();
        self.view.report(&report, now).await;
        if let Some(line) = report.line() {
            self.inspector.note(line);
        }
        self.picture.take(report, now);
    }

    /// Says what came of it.
    async fn close(&mut self, stage: &Stage) -> Outcome {
        let numbers = stage.numbers();
        self.view.draw(&mut self.picture, &numbers, self.start.elapsed())?;
        self.view.keep();
        let mut lines = vec![Line::new()];
        lines.extend(summary::lines(&self.picture, &numbers));
        self.view.say(&lines).await?;
        summary::verdict(&self.picture).map_err(Failure::from)
    }
}
