//! kube-rs' side of the informer benchmark: syncs reflectors, waits for updates, reads, and prints its figures as one
//! line of JSON.
//!
//! kube-rs has no indexes, so this program lacks the namespace index of the others, and it supports only JSON.

mod kinds;
mod process;
mod reads;
mod reflection;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use kube::runtime::watcher;
use serde_json::{Value, json};

use self::kinds::Data;
use self::process::{Moment, memory};
use self::reflection::{Setup, wanted};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Time without notifications before memory counts as steady.
const QUIET: Duration = Duration::from_secs(2);
/// Polling interval for that.
const LOOK: Duration = Duration::from_millis(20);

/// Measures kube-rs' reflector.
#[derive(Debug, Parser)]
struct Options {
    /// URL of the API server.
    #[arg(long)]
    server: String,
    /// Data set.
    #[arg(long, value_enum, default_value_t = Data::Pods)]
    data: Data,
    /// Expected number of objects; 0 disables the check.
    #[arg(long, default_value_t = 0)]
    objects: usize,
    /// Number of updates to wait for.
    #[arg(long, default_value_t = 0)]
    updates: u64,
    /// Number of single updates to wait for afterwards.
    #[arg(long, default_value_t = 0)]
    latency: usize,
    /// Finally read pods by key.
    #[arg(long)]
    reads: bool,
    /// Strip managedFields.
    #[arg(long)]
    drop_managed_fields: bool,
    /// Wire format; there is only one.
    #[arg(long, value_parser = ["json"], default_value = "json")]
    wire: String,
    /// Use a streaming list for the initial list instead of pages.
    #[arg(long)]
    streaming_lists: bool,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let client = kube::Client::try_from(kube::Config::new(options.server.parse()?))?;
    let config = watcher::Config::default();
    let config = if options.streaming_lists { config.streaming_lists() } else { config };
    let notifications = Arc::new(AtomicU64::new(0));
    let setup = Setup { client, config, notifications: Arc::clone(&notifications), light: options.drop_managed_fields };
    let (wanted, counted) = wanted(options.updates, options.latency);

    let begin = Moment::now();
    let mut reflections = kinds::start(options.data, &setup, wanted);
    for reflection in &mut reflections {
        (&mut reflection.ready).await?;
    }
    let (sync_wall, sync_cpu) = Moment::now().since(&begin);
    let objects: usize = reflections.iter().map(|reflection| (reflection.len)()).sum();
    if options.objects != 0 && objects != options.objects {
        return Err(format!("synced {objects} objects instead of {}", options.objects).into());
    }
    settle(&notifications).await;
    let (peak, steady) = (memory("VmHWM")?, memory("VmRSS")?);
    let mut line = json!({
        "program": if options.streaming_lists { "kube-rs 5.0, streaming lists" } else { "kube-rs 5.0" },
        "objects": objects, "sync_wall_s": sync_wall, "sync_cpu_s": sync_cpu, "rss_peak_kb": peak,
        "rss_steady_kb": steady,
    });

    writeln!(std::io::stderr(), "synced {objects} objects, waiting for {} updates", options.updates)?;
    if options.updates > 0 {
        let (first, last) = counted.storm.await?;
        let (wall, cpu) = last.since(&first);
        add(
            &mut line,
            json!({
                "updates": options.updates, "storm_wall_s": wall, "storm_cpu_s": cpu,
                "events_per_s": options.updates as f64 / wall,
            }),
        );
    }
    if options.latency > 0 {
        writeln!(std::io::stderr(), "updated, waiting for {} single updates", options.latency)?;
        add(&mut line, json!({"handled_ns": counted.handled.await?}));
    }
    if options.reads
        && let Some(pods) = reflections.iter().find_map(|reflection| reflection.pods.as_ref())
    {
        add(&mut line, reads::read(pods)?);
    }
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}

fn add(line: &mut Value, more: Value) {
    if let (Value::Object(line), Value::Object(more)) = (line, more) {
        line.extend(more);
    }
}

/// Waits until no notification has arrived for a while.
async fn settle(notifications: &AtomicU64) {
    let (mut before, mut since) = (notifications.load(Ordering::Relaxed), Instant::now());
    while since.elapsed() < QUIET {
        tokio::time::sleep(LOOK).await;
        let now = notifications.load(Ordering::Relaxed);
        if now != before {
            (before, since) = (now, Instant::now());
        }
    }
}
