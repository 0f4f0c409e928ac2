//! `evenkeel demo`: what a newcomer types first.
//!
//! A server starts inside this process, a client connects to it, objects are created, changed and deleted, and a watch
//! looks on. The watch is made
//! to break now and then in the middle of an event, and goes on from where it was. At the end the two sides are compared:
//! the watch must have seen exactly what was done, in order.

mod ledger;
mod observe;
mod view;
mod work;

use std::time::Duration;

use evenkeel_apiserver::{ApiServer, Rule, WatchAction};
use evenkeel_client::config::kubeconfig::Overrides;
use evenkeel_client::{Client, Config};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::{Outcome, signals::Signals};
use ledger::Ledger;
use observe::Seen;
use view::View;

/// How long after the last write the watch may take to see all of them.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a terminal is drawn anew.
const FRAME: Duration = Duration::from_millis(50);
/// About how many times the watch breaks.
const BREAKS: usize = 4;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How long the demo takes; 0 is as fast as it goes
    #[arg(long = "for", value_name = "SECONDS", default_value_t = 5, allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=86_400))]
    seconds: u64,
    /// How many objects are created, changed and deleted
    #[arg(long, value_name = "N", default_value_t = 20, allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    objects: u32,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let mut signals = Signals::listen()?;
    let plan = work::plan(arguments.objects, Duration::from_secs(arguments.seconds));
    let steps = plan.len();
    // However far the watch falls behind, it can resume.
    let server = ApiServer::builder().history(steps).start().await?;
    let event = (steps / BREAKS).max(1) as u64;
    server.faults().add(Rule::watch(WatchAction::CloseMidFrame { event, byte: 10 }));

    let mut view = View::new();
    view.note(&format!(
        "an API server runs inside this process, at {}\n\
         ConfigMaps come, change and go; a watch looks on\n\
         after every {event} events it breaks, in the middle of the next one, and is resumed\n",
        server.url(),
    ))?;
    let client = Client::new(Config::from_kubeconfig_str(&server.kubeconfig(), &Overrides::default())?)?;
    let objects = client.api::<ConfigMap>().default_namespace();
    let revision = observe::revision(&objects).await?;
    let (observed, mut seen) = mpsc::channel(1024);
    let watch = tokio::spawn(observe::watch(objects.clone(), revision, observed));

    let mut ledger = Ledger::default();
    let (done, mut did) = mpsc::channel(1024);
    let worker = tokio::spawn(work::run(objects, plan, done));
    let mut frames = interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (mut working, mut deadline) = (true, Instant::now());
    while working || !ledger.is_even() {
        tokio::select! {
            step = did.recv(), if working => match step {
                Some(step) => ledger.did(step),
                None => (working, deadline) = (false, Instant::now() + PATIENCE),
            },
            event = seen.recv() => match event {
                Some(event) => take(event, &mut ledger, &mut view)?,
                None => break,
            },
            () = sleep_until(deadline), if !working => break,
            _ = frames.tick() => view.draw(&ledger)?,
            () = signals.next() => {
                view.draw(&ledger)?;
                return Err(format!("interrupted after {} of {steps} writes", ledger.done().total()).into());
            }
        }
    }
    // If the watch has given up, nobody counts what is still being done.
    drop(did);
    worker.await??;
    if watch.is_finished() {
        watch.await??;
    } else {
        watch.abort();
    }
    view.finish(&ledger)?;
    server.shutdown().await;
    ledger.verdict().map_err(Into::into)
}

fn take(seen: Seen, ledger: &mut Ledger, view: &mut View) -> std::io::Result<()> {
    view.seen(&seen)?;
    match seen {
        Seen::Event(entry) => ledger.saw(entry),
        Seen::Break { .. } => ledger.broke(),
    }
    Ok(())
}
