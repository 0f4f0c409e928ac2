//! A stand-in for evenkeel's informer: a map fed by the client's watch. It does what the programs do, so that the
//! benchmark itself can be tried out, and goes away when `evenkeel bench informer` is there.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use evenkeel_client::config::ServerUrl;
use evenkeel_client::{Client, Config, WatchParams, WatchStream};
use evenkeel_core::{Obj, ObjectKey, WatchEvent};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::outside;
use crate::Failure;

const QUIET: Duration = Duration::from_secs(2);

/// A point in wall and processor time.
struct Moment(Instant, Duration);

impl Moment {
    fn now() -> Result<Self, Failure> {
        Ok(Moment(Instant::now(), outside::cpu(std::process::id())?))
    }

    fn since(&self, start: &Self) -> (f64, f64) {
        ((self.0 - start.0).as_secs_f64(), (self.1 - start.1).as_secs_f64())
    }
}

/// The objects, also by namespace, and the watch that feeds them.
struct StandIn {
    client: Client,
    watch: WatchStream<Pod>,
    objects: HashMap<ObjectKey, Obj<Pod>>,
    namespaces: HashMap<String, HashSet<ObjectKey>>,
}

impl StandIn {
    /// Takes one event in. Tells whether it was an update, and whether it was the end of the initial events.
    async fn step(&mut self) -> Result<(bool, bool), Failure> {
        let pod = match self.watch.next().await.ok_or("the watch has ended")?? {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => pod,
            WatchEvent::Bookmark { initial_events_end, .. } => return Ok((false, initial_events_end)),
            WatchEvent::Error(status) if status.is_expired() => {
                self.watch = watch(&self.client).await?;
                return Ok((false, false));
            }
            other => return Err(format!("not expected: {other:?}").into()),
        };
        let known = self.objects.get(pod.key());
        if known.is_some_and(|known| known.is_same_state_as(&pod)) {
            return Ok((false, false));
        }
        let is_update = known.is_some();
        if !is_update {
            let namespace = pod.key().namespace().unwrap_or_default().to_owned();
            self.namespaces.entry(namespace).or_default().insert(pod.key().clone());
        }
        self.objects.insert(pod.key().clone(), pod.detached());
        Ok((is_update, false))
    }

    async fn update(&mut self) -> Result<(), Failure> {
        while !self.step().await?.0 {}
        Ok(())
    }
}

async fn watch(client: &Client) -> Result<WatchStream<Pod>, Failure> {
    Ok(client.api::<Pod>().watch(&WatchParams::default().initial_events()).await?)
}

pub(crate) async fn run(server: &str, expected: usize, updates: usize) -> Result<(), Failure> {
    let client = Client::new(Config::new(server.parse::<ServerUrl>()?))?;
    let begin = Moment::now()?;
    let watch = watch(&client).await?;
    let mut pods = StandIn { client, watch, objects: HashMap::new(), namespaces: HashMap::new() };
    while !pods.step().await?.1 {}
    let (sync_wall, sync_cpu) = Moment::now()?.since(&begin);
    let objects = pods.objects.len();
    if objects != expected {
        return Err(format!("synced {objects} objects instead of {expected}").into());
    }
    if tokio::time::timeout(QUIET, pods.update()).await.is_ok() {
        return Err("an update came before memory was steady".into());
    }
    let memory = |name| outside::memory(std::process::id(), name);
    let (peak, steady) = (memory("VmHWM")?, memory("VmRSS")?);
    let (mut storm_wall, mut storm_cpu) = (0.0, 0.0);
    if updates > 0 {
        pods.update().await?;
        let first = Moment::now()?;
        for _ in 1..updates {
            pods.update().await?;
        }
        (storm_wall, storm_cpu) = Moment::now()?.since(&first);
    }
    let line = json!({
        "program": "stand-in", "objects": objects, "sync_wall_s": sync_wall, "sync_cpu_s": sync_cpu, "rss_peak_kb": peak,
        "rss_steady_kb": steady, "updates": updates, "storm_wall_s": storm_wall, "storm_cpu_s": storm_cpu,
        "events_per_s": updates as f64 / storm_wall,
    });
    println!("{line}");
    Ok(())
}
