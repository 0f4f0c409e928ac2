//! Reads from an informer's store.

use std::hint::black_box;
use std::time::Duration;

use evenkeel_cache::{Index, Indexer, SharedInformer};
use k8s_openapi::api::core::v1::Pod;
use serde::Serialize;
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
}

/// Reads pods: all once, a few repeatedly, and by node.
pub(super) fn read(informer: &SharedInformer<Pod>) -> Result<Reads, Failure> {
    let pods = informer.indexer();
    let begin = Moment::now()?;
    for pod in pods.list() {
        black_box(node_name(pod.typed()?.as_ref()));
    }
    let (typed_wall_s, typed_cpu_s) = Moment::now()?.since(&begin);
    let (_, typed_rss_kb) = memory()?;

    let mut keys = pods.keys();
    keys.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
    let read_some = |count: usize| {
        let count = count.min(keys.len());
        let some: Vec<&str> = (0..count).map(|number| keys[number * keys.len() / count].as_str()).collect();
        per_second(&some, |key| {
            let pod = pods.get(key).ok_or("a pod is missing")?;
            Ok(node_name(pod.typed()?.as_ref()))
        })
    };
    let (hot_reads_per_s, warm_reads_per_s) = (read_some(HOT)?, read_some(WARM)?);

    let begin = Moment::now()?;
    informer.add_indexes([Index::by_path(NODE, "spec.nodeName")?])?;
    let (index_wall_s, _) = Moment::now()?.since(&begin);
    let mut nodes = pods.index_values(NODE);
    nodes.sort_unstable();
    let index_reads_per_s = per_second(&nodes, |node| found(&pods, node))?;
    let index_found = keys.len() as f64 / nodes.len().max(1) as f64;
    Ok(Reads {
        typed_wall_s,
        typed_cpu_s,
        typed_rss_kb,
        hot_reads_per_s,
        warm_reads_per_s,
        index_wall_s,
        index_reads_per_s,
        index_found,
    })
}

fn node_name(pod: &Pod) -> usize {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()).map_or(0, String::len)
}

fn found(pods: &Indexer<Pod>, node: &str) -> Result<usize, Failure> {
    let found = pods.by_index(NODE, node)?;
    Ok(found.first().map_or(0, |pod| pod.key().as_str().len()))
}

/// Runs `work` on pseudo-random elements for a while and returns the rate per second.
fn per_second<T: AsRef<str>>(all: &[T], work: impl Fn(&str) -> Result<usize, Failure>) -> Result<f64, Failure> {
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
            black_box(work(all[(random >> 33) as usize % all.len()].as_ref())?);
            done += 1;
        }
    }
    Ok(done as f64 / begin.elapsed().as_secs_f64())
}
