//! Reads of what a reflector holds.

use std::hint::black_box;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::{ObjectRef, Store};
use serde_json::{Value, json};

use crate::Failure;
use crate::process::{Moment, memory};

/// How many objects are read over and over.
const HOT: usize = 500;
/// How long reads of one sort are made.
const SPAN: Duration = Duration::from_secs(1);
/// How many reads are made between two looks at the clock.
const BATCH: usize = 1_000;

/// Reads pods: all of them once, and a few over and over. There is no index to read by.
pub(crate) fn read(pods: &Store<Pod>) -> Result<Value, Failure> {
    let begin = Moment::now();
    for pod in pods.state() {
        black_box(node_name(&pod));
    }
    let (typed_wall, typed_cpu) = Moment::now().since(&begin);
    let typed_rss = memory("VmRSS")?;

    let mut keys: Vec<ObjectRef<Pod>> = pods.state().iter().map(|pod| ObjectRef::from_obj(pod.as_ref())).collect();
    keys.sort_by_cached_key(|key| format!("{}/{}", key.namespace.as_deref().unwrap_or_default(), key.name));
    let hot = HOT.min(keys.len());
    let some: Vec<&ObjectRef<Pod>> = (0..hot).map(|number| &keys[number * keys.len() / hot]).collect();
    let (begin, mut done) = (Instant::now(), 0);
    while begin.elapsed() < SPAN && hot > 0 {
        for _ in 0..BATCH {
            let pod = pods.get(some[done % hot]).ok_or("a pod is gone")?;
            black_box(node_name(&pod));
            done += 1;
        }
    }
    let hot_reads = done as f64 / begin.elapsed().as_secs_f64();
    Ok(json!({
        "typed_wall_s": typed_wall, "typed_cpu_s": typed_cpu, "typed_rss_kb": typed_rss, "hot_reads_per_s": hot_reads,
    }))
}

fn node_name(pod: &Pod) -> usize {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()).map_or(0, String::len)
}
