//! Reads from an informer's store.

use std::hint::black_box;
use std::time::Duration;

use evenkeel_cache::{Index, Indexer, ObjectKey, SharedInformer};
use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::Failure;
use crate::bench::process::{Moment, memory};

/// Numbers of objects that are read repeatedly: the working set of a busy controller, and a far larger one.
const HOT: usize = 50;
const WARM: usize = 500;
/// Duration of each read benchmark.
const SPAN: Duration = Duration::from_secs(1);
/// Number of reads between two clock readings.
const BATCH: usize = 1_000;
const NODE: &str = "node";

/// Results of the reads.
#[derive(Debug, Serialize)]
pub(super) struct Reads {
    /// Time to build a view of three fields of all objects, and the resident memory afterwards.
    view_build_wall_s: f64,
    view_build_cpu_s: f64,
    view_rss_kb: u64,
    /// Time to visit the view of every object.
    view_wall_s: f64,
    view_cpu_s: f64,
    view_hot_reads_per_s: f64,
    view_warm_reads_per_s: f64,
    /// The same in one snapshot of the view.
    view_snapshot_reads_per_s: f64,
    /// Time to decode every object once.
    typed_wall_s: f64,
    typed_cpu_s: f64,
    /// Resident memory afterwards.
    typed_rss_kb: u64,
    hot_reads_per_s: f64,
    warm_reads_per_s: f64,
    /// Time to build the index by node over all objects.
    index_wall_s: f64,
    index_reads_per_s: f64,
    /// Average number of objects per query.
    index_found: f64,
    /// Time to visit every object typed while the decoded cache holds all of them, and the resident memory then.
    cached_wall_s: f64,
    cached_cpu_s: f64,
    cached_rss_kb: u64,
}

/// Three fields of a pod.
#[derive(Debug, Deserialize)]
struct PodView {
    #[serde(default)]
    spec: SpecView,
    #[serde(default)]
    status: StatusView,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecView {
    node_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusView {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
}

impl PodView {
    fn node_name(&self) -> usize {
        black_box(&self.status.phase);
        black_box(&self.status.pod_ip);
        self.spec.node_name.as_ref().map_or(0, String::len)
    }
}

/// Reads pods: all once, a few repeatedly, and by node.
pub(super) fn read(informer: &SharedInformer<Pod>) -> Result<Reads, Failure> {
    let pods = informer.indexer();
    let mut keys = pods.keys();
    keys.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));

    let begin = Moment::now()?;
    let view = informer.view::<PodView>();
    // The build task of the informer runs meanwhile, on another thread.
    black_box(view.snapshot().iter().count());
    let (view_build_wall_s, view_build_cpu_s) = Moment::now()?.since(&begin);
    let (_, view_rss_kb) = memory()?;
    let begin = Moment::now()?;
    let mut length = 0;
    for (_, pod) in view.snapshot().iter() {
        length += pod.node_name();
    }
    black_box(length);
    let (view_wall_s, view_cpu_s) = Moment::now()?.since(&begin);
    let view_some =
        |count: usize| per_second(&some(&keys, count), |key| Ok(view.get(key)?.ok_or("a pod is missing")?.node_name()));
    let (view_hot_reads_per_s, view_warm_reads_per_s) = (view_some(HOT)?, view_some(WARM)?);
    let snapshot = view.snapshot();
    let in_snapshot = |key: &ObjectKey| {
        let pod = snapshot.get(key).map_err(|error| error.to_string())?;
        Ok(pod.ok_or("a pod is missing")?.node_name())
    };
    let view_snapshot_reads_per_s = per_second(&some(&keys, WARM), in_snapshot)?;
    drop(snapshot);

    let (typed_wall_s, typed_cpu_s) = typed(&pods)?;
    let (_, typed_rss_kb) = memory()?;

    let read_some = |count: usize| {
        per_second(&some(&keys, count), |key| {
            let pod = pods.get(key.as_str()).ok_or("a pod is missing")?;
            Ok(node_name(pod.typed()?.as_ref()))
        })
    };
    let (hot_reads_per_s, warm_reads_per_s) = (read_some(HOT)?, read_some(WARM)?);

    let begin = Moment::now()?;
    informer.add_indexes([Index::by_path(NODE, "spec.nodeName")?])?;
    let (index_wall_s, _) = Moment::now()?.since(&begin);
    let mut nodes = pods.index_values(NODE);
    nodes.sort_unstable();
    let index_reads_per_s = per_second(&nodes, |node| found(&pods, node.as_str()))?;
    let index_found = keys.len() as f64 / nodes.len().max(1) as f64;

    // Last, because it takes the memory that the others are measured without.
    evenkeel_core::decoded_cache::set_budget(usize::MAX);
    typed(&pods)?;
    let (cached_wall_s, cached_cpu_s) = typed(&pods)?;
    let (_, cached_rss_kb) = memory()?;
    Ok(Reads {
        view_build_wall_s,
        view_build_cpu_s,
        view_rss_kb,
        view_wall_s,
        view_cpu_s,
        view_hot_reads_per_s,
        view_warm_reads_per_s,
        view_snapshot_reads_per_s,
        typed_wall_s,
        typed_cpu_s,
        typed_rss_kb,
        hot_reads_per_s,
        warm_reads_per_s,
        index_wall_s,
        index_reads_per_s,
        index_found,
        cached_wall_s,
        cached_cpu_s,
        cached_rss_kb,
    })
}

/// Reads a field of every object, typed; returns elapsed and processor time.
fn typed(pods: &Indexer<Pod>) -> Result<(f64, f64), Failure> {
    let begin = Moment::now()?;
    for pod in pods.list() {
        black_box(node_name(pod.typed()?.as_ref()));
    }
    Ok(Moment::now()?.since(&begin))
}

fn node_name(pod: &Pod) -> usize {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()).map_or(0, String::len)
}

fn found(pods: &Indexer<Pod>, node: &str) -> Result<usize, Failure> {
    let found = pods.by_index(NODE, node)?;
    Ok(found.first().map_or(0, |pod| pod.key().as_str().len()))
}

/// Returns so many keys, evenly spread.
fn some(keys: &[ObjectKey], count: usize) -> Vec<ObjectKey> {
    let count = count.min(keys.len());
    (0..count).map(|number| keys[number * keys.len() / count].clone()).collect()
}

/// Runs `work` on pseudo-random elements for a while and returns the rate per second.
fn per_second<T>(all: &[T], work: impl Fn(&T) -> Result<usize, Failure>) -> Result<f64, Failure> {
    let (begin, mut done, mut random) = (Instant::now(), 0, 88_172_645_463_325_252_u64);
    if all.is_empty() {
        return Ok(0.0);
    }
    while begin.elapsed() < SPAN {
        for _ in 0..BATCH {
            // Pseudo-random order, the same as in the other programs.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            black_box(work(&all[(random >> 33) as usize % all.len()])?);
            done += 1;
        }
    }
    Ok(done as f64 / begin.elapsed().as_secs_f64())
}
