//! Reads from a reflector's store.

use std::hint::black_box;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::{ObjectRef, Store};
use serde_json::{Value, json};

use crate::Failure;
use crate::process::{Moment, memory};

/// Number of objects that are read repeatedly.
const HOT: usize = 50;
const WARM: usize = 500;
/// Duration of each read benchmark.
const SPAN: Duration = Duration::from_secs(1);
/// Number of reads between two clock readings.
const BATCH: usize = 1_000;

/// Reads pods: all once, and a few repeatedly. There is no index.
pub(crate) fn read(pods: &Store<Pod>) -> Result<Value, Failure> {
    let begin = Moment::now();
    for pod in pods.state() {
        black_box(node_name(&pod));
    }
    let (typed_wall, typed_cpu) = Moment::now().since(&begin);
    let typed_rss = memory("VmRSS")?;

    let mut keys: Vec<ObjectRef<Pod>> = pods.state().iter().map(|pod| ObjectRef::from_obj(pod.as_ref())).collect();
    keys.sort_by_cached_key(|key| format!("{}/{}", key.namespace.as_deref().unwrap_or_default(), key.name));
    let (hot_reads, warm_reads) = (read_some(pods, &keys, HOT)?, read_some(pods, &keys, WARM)?);
    Ok(json!({
        "typed_wall_s": typed_wall, "typed_cpu_s": typed_cpu, "typed_rss_kb": typed_rss, "hot_reads_per_s": hot_reads,
        "warm_reads_per_s": warm_reads,
    }))
}

/// Reads pseudo-random pods for a while and returns the rate per second.
fn read_some(pods: &Store<Pod>, keys: &[ObjectRef<Pod>], count: usize) -> Result<f64, Failure> {
    let count = count.min(keys.len());
    let some: Vec<&ObjectRef<Pod>> = (0..count).map(|number| &keys[number * keys.len() / count]).collect();
    let (begin, mut done, mut random) = (Instant::now(), 0, 88_172_645_463_325_252_u64);
    while begin.elapsed() < SPAN && count > 0 {
        for _ in 0..BATCH {
            // Pseudo-random order, the same as in the other programs.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let pod = pods.get(some[(random >> 33) as usize % count]).ok_or("a pod is missing")?;
            black_box(node_name(&pod));
            done += 1;
        }
    }
    Ok(done as f64 / begin.elapsed().as_secs_f64())
}

fn node_name(pod: &Pod) -> usize {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()).map_or(0, String::len)
}
