//! kube-rs' side of the informer benchmark: syncs a reflector of all pods, waits for updates, and prints what that cost as
//! one line of JSON.
//!
//! kube-rs keeps no indexes, so this one does without the index by namespace that the other programs keep.

use std::fs;
use std::io::Write;
use std::pin::Pin;
use std::time::{Duration, Instant};

use clap::Parser;
use futures_util::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, reflector, watcher as watch};
use serde_json::json;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How long nothing must have happened before memory counts as steady.
const QUIET: Duration = Duration::from_secs(2);

/// Measures kube-rs' reflector.
#[derive(Debug, Parser)]
struct Options {
    /// URL of the API server.
    #[arg(long)]
    server: String,
    /// How many pods there must be; 0 does not check.
    #[arg(long, default_value_t = 0)]
    objects: usize,
    /// How many updates to wait for.
    #[arg(long, default_value_t = 100_000)]
    updates: u64,
    /// Ask for the first objects as a watch, not as pages of a list.
    #[arg(long)]
    streaming_lists: bool,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let client = kube::Client::try_from(kube::Config::new(options.server.parse()?))?;
    let config = watcher::Config::default();
    let config = if options.streaming_lists { config.streaming_lists() } else { config };
    let (store, writer) = reflector::store::<Pod>();
    let pods = reflector(writer, watch(kube::Api::all(client), config)).default_backoff();
    let mut handler = Handler { pods: Box::pin(pods), notifications: 0 };

    let begin = Moment::now();
    while !matches!(handler.next().await?, Event::InitDone) {}
    store.wait_until_ready().await?;
    let (sync_wall, sync_cpu) = Moment::now().since(&begin);
    let objects = store.len();
    if options.objects != 0 && (objects, handler.notifications) != (options.objects, options.objects) {
        return Err(format!("synced {objects} objects instead of {}", options.objects).into());
    }

    // Updates that come before memory was steady belong to the storm.
    let early = tokio::time::timeout(QUIET, handler.update()).await.ok().transpose()?;
    let (peak, steady) = (memory("VmHWM")?, memory("VmRSS")?);
    writeln!(std::io::stderr(), "synced {objects} objects, waiting for {} updates", options.updates)?;
    let (mut storm_wall, mut storm_cpu) = (0.0, 0.0);
    if options.updates > 0 {
        let first = match early {
            Some(first) => first,
            None => handler.update().await?,
        };
        for _ in 1..options.updates {
            handler.apply().await?;
        }
        (storm_wall, storm_cpu) = Moment::now().since(&first);
    }
    let line = json!({
        "program": if options.streaming_lists { "kube-rs 5.0, streaming lists" } else { "kube-rs 5.0" },
        "objects": objects, "sync_wall_s": sync_wall, "sync_cpu_s": sync_cpu, "rss_peak_kb": peak,
        "rss_steady_kb": steady, "updates": options.updates, "storm_wall_s": storm_wall, "storm_cpu_s": storm_cpu,
        "events_per_s": options.updates as f64 / storm_wall,
    });
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}

/// Who hears of every change, and counts.
struct Handler {
    pods: Pin<Box<dyn Stream<Item = watcher::Result<Event<Pod>>> + Send>>,
    notifications: usize,
}

impl Handler {
    /// The next event. Failures are told and outlived, as the stream goes on after them.
    async fn next(&mut self) -> Result<Event<Pod>, Failure> {
        loop {
            match self.pods.next().await.ok_or("the stream of events ended")? {
                Ok(event) => {
                    self.notifications += usize::from(!matches!(event, Event::Init | Event::InitDone));
                    return Ok(event);
                }
                Err(error) => writeln!(std::io::stderr(), "{error}")?,
            }
        }
    }

    /// Waits for the next update. What a relist repeats is none.
    async fn apply(&mut self) -> Result<(), Failure> {
        while !matches!(self.next().await?, Event::Apply(_)) {}
        Ok(())
    }

    /// Waits for the next update and tells when it came.
    async fn update(&mut self) -> Result<Moment, Failure> {
        self.apply().await?;
        Ok(Moment::now())
    }
}

/// A point in wall and processor time.
struct Moment {
    wall: Instant,
    cpu: Duration,
}

impl Moment {
    fn now() -> Self {
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let cpu = Duration::new(cpu.tv_sec.unsigned_abs(), cpu.tv_nsec.unsigned_abs() as u32);
        Moment { wall: Instant::now(), cpu }
    }

    fn since(&self, start: &Self) -> (f64, f64) {
        ((self.wall - start.wall).as_secs_f64(), (self.cpu - start.cpu).as_secs_f64())
    }
}

/// A figure of this process, such as VmRSS, in KiB.
fn memory(name: &str) -> Result<u64, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = line.and_then(|line| line.split_whitespace().next()).ok_or("memory is not told")?;
    Ok(value.parse()?)
}
