//! `evenkeel bench informer`: one informer of all pods, with the index by namespace and one handler that counts.
//!
//! The same is done with client-go and with kube-rs in `bench/`, which compares them.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_cache::reflector::Next;
use evenkeel_cache::source::ApiSource;
use evenkeel_cache::{Event, Handler, SharedInformer};
use k8s_openapi::api::core::v1::Pod;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use super::process::{Moment, memory};
use crate::connect::Connection;
use crate::{Failure, Outcome};

/// How long nothing must have been heard before memory counts as steady.
const QUIET: Duration = Duration::from_secs(2);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many pods there must be; 0 does not check
    #[arg(long, value_name = "N", default_value_t = 0)]
    objects: usize,
    /// How many updates to wait for
    #[arg(long, value_name = "N", default_value_t = 0)]
    updates: u64,
    #[command(flatten)]
    connection: Connection,
}

/// What it took.
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
}

/// Counts, and notes when the first and the last update came.
struct Counter {
    wanted: u64,
    heard: Arc<AtomicU64>,
    updates: u64,
    first: Option<Result<Moment, Failure>>,
    done: Option<oneshot::Sender<Result<(Moment, Moment), Failure>>>,
}

impl Handler<Pod> for Counter {
    fn handle(&mut self, event: Event<Pod>) {
        self.heard.fetch_add(1, Ordering::Relaxed);
        let Event::Update { old, new } = event else { return };
        // Lists and resyncs tell of pods that have not changed.
        if old.resource_version() == new.resource_version() {
            return;
        }
        self.updates += 1;
        if self.updates == 1 {
            self.first = Some(Moment::now());
        }
        if self.updates == self.wanted
            && let (Some(first), Some(done)) = (self.first.take(), self.done.take())
        {
            // Nobody waits any more if the program is ending.
            let _ = done.send(first.and_then(|first| Ok((first, Moment::now()?))));
        }
    }
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let client = arguments.connection.client(None)?;
    let (failures, mut troubles) = mpsc::channel(1);
    let source = ApiSource::new(client.api::<Pod>());
    let info = Arc::clone(source.resource());
    let informer: SharedInformer<Pod> = SharedInformer::builder(source, &info)
        // Before the storm a failure is the end of it, unless there is another way to get the same.
        .on_error(move |trouble| {
            if trouble.next != (Next::Relist { after: Duration::ZERO }) {
                drop(failures.try_send(trouble.to_string()));
            }
        })
        .build();
    let heard = Arc::new(AtomicU64::new(0));
    let (done, last) = oneshot::channel();
    let counter =
        Counter { wanted: arguments.updates, heard: Arc::clone(&heard), updates: 0, first: None, done: Some(done) };
    let registration = informer.add_handler(counter)?;

    let begin = Moment::now()?;
    informer.start();
    tokio::select! {
        synced = registration.synced() => synced?,
        Some(trouble) = troubles.recv() => return Err(trouble.into()),
    }
    let (sync_wall_s, sync_cpu_s) = Moment::now()?.since(&begin);
    let program = concat!("evenkeel ", env!("CARGO_PKG_VERSION"));
    let mut figures = Figures { program, sync_wall_s, sync_cpu_s, ..Figures::default() };
    figures.objects = informer.indexer().len();
    if arguments.objects != 0 && figures.objects != arguments.objects {
        return Err(format!("synced {} objects instead of {}", figures.objects, arguments.objects).into());
    }
    settle(&heard).await;
    (figures.rss_peak_kb, figures.rss_steady_kb) = memory()?;

    eprintln!("synced {} objects, waiting for {} updates", figures.objects, arguments.updates);
    if arguments.updates > 0 {
        let (first, last) = last.await??;
        figures.updates = arguments.updates;
        (figures.storm_wall_s, figures.storm_cpu_s) = last.since(&first);
        // A single update takes no time; there is no rate then.
        if figures.storm_wall_s > 0.0 {
            figures.events_per_s = figures.updates as f64 / figures.storm_wall_s;
        }
    }
    writeln!(io::stdout().lock(), "{}", serde_json::to_string(&figures)?)?;
    Ok(())
}

/// Waits until nothing has been heard for a while.
async fn settle(heard: &AtomicU64) {
    let (mut before, mut since) = (heard.load(Ordering::Relaxed), Instant::now());
    while since.elapsed() < QUIET {
        sleep(LOOK).await;
        let now = heard.load(Ordering::Relaxed);
        if now != before {
            (before, since) = (now, Instant::now());
        }
    }
}
