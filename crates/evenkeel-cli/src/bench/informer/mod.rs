//! `evenkeel bench informer`: informers with a namespace index and a counting handler.
//!
//! `bench/` runs the same with client-go and kube-rs and compares them, and with several replicas of which each has a part
//! of the objects.

mod counter;
mod kinds;
mod part;
mod reads;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use self::counter::counter;
use self::kinds::{Data, Setup};
use self::part::{Part, PartFigures, PartMeter};
use self::reads::Reads;
use super::process::{Moment, memory};
use crate::Outcome;
use crate::connect::Connection;

/// Time without notifications before memory counts as steady.
const QUIET: Duration = Duration::from_secs(2);
/// Polling interval for that.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Data set: pods, or another one of the load server in bench/
    #[arg(long, value_enum, default_value_t = Data::Pods)]
    data: Data,
    /// Expected number of objects; 0 disables the check
    #[arg(long, value_name = "N", default_value_t = 0)]
    objects: usize,
    /// Number of updates to wait for
    #[arg(long, value_name = "N", default_value_t = 0)]
    updates: u64,
    /// Number of single updates to wait for afterwards, recording when each arrived
    #[arg(long, value_name = "N", default_value_t = 0)]
    latency: usize,
    /// Finally read pods: all once, some repeatedly, and by node
    #[arg(long)]
    reads: bool,
    /// Strip managedFields
    #[arg(long)]
    drop_managed_fields: bool,
    /// Cache the I-th of N equal parts by uid, and count the objects that are received out of range
    #[arg(long, value_name = "I/N")]
    part: Option<Part>,
    /// End when the standard input ends, with the program that started this one
    #[arg(long)]
    end_with_input: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Results.
#[derive(Debug, Default, Serialize)]
struct Figures {
    program: &'static str,
    objects: usize,
    sync_wall_s: f64,
    sync_cpu_s: f64,
    rss_peak_kb: u64,
    rss_steady_kb: u64,
    updates: u64,
    storm_wall_s: f64,
    storm_cpu_s: f64,
    events_per_s: f64,
    /// When each single update was handled, in nanoseconds since 1970.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    handled_ns: Vec<u64>,
    #[serde(flatten)]
    reads: Option<Reads>,
    #[serde(flatten)]
    part: Option<PartFigures>,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    if arguments.reads && arguments.data != Data::Pods {
        return Err("--reads supports pods only".into());
    }
    if arguments.end_with_input {
        end_with_input();
    }
    // Before the informers, which make their metrics for the recorder that they find.
    let meter = arguments.part.map(PartMeter::install).transpose()?;
    let client = arguments.connection.client(None)?;
    let (failures, mut troubles) = mpsc::channel(1);
    let notifications = Arc::new(AtomicU64::new(0));
    let (counter, results) = counter(arguments.updates, arguments.latency, &notifications);
    let setup = Setup {
        client,
        failures,
        notifications: Arc::clone(&notifications),
        light: arguments.drop_managed_fields,
        shards: arguments.part.map(Part::selector),
    };
    let informers = kinds::informers(arguments.data, &setup, counter)?;

    let begin = Moment::now()?;
    let _running: Vec<_> = informers.iter().map(|informer| (informer.start)()).collect();
    let synced = async {
        for informer in &informers {
            informer.registration.synced().await?;
        }
        Outcome::Ok(())
    };
    tokio::select! {
        synced = synced => synced?,
        Some(trouble) = troubles.recv() => return Err(trouble.into()),
    }
    let (sync_wall_s, sync_cpu_s) = Moment::now()?.since(&begin);
    let program = concat!("evenkeel ", env!("CARGO_PKG_VERSION"));
    let mut figures = Figures { program, sync_wall_s, sync_cpu_s, ..Figures::default() };
    figures.objects = informers.iter().map(|informer| (informer.len)()).sum();
    if arguments.objects != 0 && figures.objects != arguments.objects {
        return Err(format!("synced {} objects instead of {}", figures.objects, arguments.objects).into());
    }
    settle(&notifications).await;
    (figures.rss_peak_kb, figures.rss_steady_kb) = memory()?;
    figures.part = meter.as_ref().map(PartMeter::synced).transpose()?;

    eprintln!("synced {} objects, waiting for {} updates", figures.objects, arguments.updates);
    if arguments.updates > 0 {
        let (first, last) = results.storm.await??;
        figures.updates = arguments.updates;
        (figures.storm_wall_s, figures.storm_cpu_s) = last.since(&first);
        // A single update has no rate.
        if figures.storm_wall_s > 0.0 {
            figures.events_per_s = figures.updates as f64 / figures.storm_wall_s;
        }
        if let (Some(meter), Some(part)) = (&meter, &mut figures.part) {
            settle(&notifications).await;
            meter.updated(part)?;
        }
    }
    if arguments.latency > 0 {
        eprintln!("updated, waiting for {} single updates", arguments.latency);
        figures.handled_ns = results.handled.await?;
    }
    if arguments.reads
        && let Some(pods) = informers.iter().find_map(|informer| informer.pods.as_ref())
    {
        figures.reads = Some(reads::read(pods)?);
    }
    writeln!(io::stdout().lock(), "{}", serde_json::to_string(&figures)?)?;
    Ok(())
}

/// Waits until no notification has arrived for a while.
async fn settle(notifications: &AtomicU64) {
    let (mut before, mut since) = (notifications.load(Ordering::Relaxed), Instant::now());
    while since.elapsed() < QUIET {
        sleep(LOOK).await;
        let now = notifications.load(Ordering::Relaxed);
        if now != before {
            (before, since) = (now, Instant::now());
        }
    }
}

/// Ends the process when its input ends.
fn end_with_input() {
    std::thread::spawn(|| {
        // An unreadable input is no reason to stay either.
        drop(io::copy(&mut io::stdin(), &mut io::sink()));
        std::process::exit(1);
    });
}
