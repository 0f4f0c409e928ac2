//! Packed objects: the cost of packing, their size, and the additional cost of decoding.

use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_core::codec::Codec;
use evenkeel_core::pack::Packer;
use evenkeel_core::{Obj, ResourceInfo, protobuf};
use k8s_openapi::api::core::v1::Pod;

use crate::Failure;
use crate::data::Data;
use crate::report::{line, value};
use crate::server::wire::Wire;

/// Number of packed pods that are decoded in each round, beside unpacked ones.
const DECODED: usize = 2_000;
const ROUNDS: usize = 7;

/// Packs varied pods in both formats, and decodes some of them, packed and unpacked, in turns.
pub(crate) fn pack(count: usize) -> Result<(), Failure> {
    // Every call of `typed` decodes.
    evenkeel_core::decoded_cache::set_budget(0);
    for wire in [Wire::Json, Wire::Protobuf] {
        let plain = pods(wire, count)?;
        let bytes: usize = plain.iter().map(Obj::payload_bytes).sum();
        let name = |what: &str| format!("pack, {}, {what}", wire.name());
        line(&name("the pods"), &format!("{count} of {} bytes", bytes / count.max(1)), "");

        let mut packer = Packer::default();
        let fresh = pods(wire, count)?;
        let begin = Instant::now();
        let packed: Vec<Obj<Pod>> = fresh.into_iter().map(|pod| packer.pack(pod)).collect();
        let left = packer.stats().bytes_out as f64 / count.max(1) as f64;
        let packing = per(begin.elapsed(), count);
        line(&name("packing"), &format!("{packing:.2} µs a pod, {left:.0} bytes left"), "");
        value(&name("a pod before"), bytes as f64 / count.max(1) as f64, "bytes");
        value(&name("a packed pod"), left, "bytes");
        value(&name("packing a pod"), packing, "µs");

        let begin = Instant::now();
        for pod in &packed {
            std::hint::black_box(pod.raw()?);
        }
        let unpacking = per(begin.elapsed(), count);
        line(&name("unpacking"), &format!("{unpacking:.2} µs a pod"), "");
        value(&name("unpacking a pod"), unpacking, "µs");

        let step = (count / DECODED).max(1);
        let mut ratios = Vec::new();
        let mut best = [Duration::MAX; 2];
        for _ in 0..ROUNDS {
            let times = [typed(&plain, step)?, typed(&packed, step)?];
            ratios.push(times[1].as_secs_f64() / times[0].as_secs_f64());
            best = [best[0].min(times[0]), best[1].min(times[1])];
        }
        ratios.sort_by(f64::total_cmp);
        let decoded = count.div_ceil(step);
        let figure = format!("{:.2} µs a pod, plain {:.2} µs", per(best[1], decoded), per(best[0], decoded));
        let ratio = format!("{:.2} times ({:.2} to {:.2})", ratios[ROUNDS / 2], ratios[0], ratios[ROUNDS - 1]);
        line(&name("typed()"), &figure, &ratio);
        value(&name("typed() of a packed pod"), per(best[1], decoded), "µs");
        value(&name("typed() of an unpacked pod"), per(best[0], decoded), "µs");
    }
    Ok(())
}

fn pods(wire: Wire, count: usize) -> Result<Vec<Obj<Pod>>, Failure> {
    let info = Arc::new(ResourceInfo::of::<Pod>());
    let kinds = Data::Pods.kinds(count);
    let (kind, objects) = kinds.first().ok_or("there are no pods")?;
    let mut pods = Vec::with_capacity(count);
    for number in 0..count {
        let (mut members, mut item) = (String::new(), Vec::new());
        objects.write(&mut members, number);
        wire.item(&mut item, kind, &members)?;
        let (codec, bytes): (Codec, Vec<u8>) = match wire {
            // Without the comma.
            Wire::Json => (Codec::Json, item.strip_suffix(b",").unwrap_or(&item).to_vec()),
            Wire::Protobuf => {
                (Codec::Protobuf, protobuf::wrap_envelope(kind.api_version, kind.kind, wire.of_item(&item)))
            }
        };
        pods.push(Obj::decode(codec, &info, bytes.into())?);
    }
    Ok(pods)
}

/// Measures decoding every `step`th of these.
fn typed(pods: &[Obj<Pod>], step: usize) -> Result<Duration, Failure> {
    let begin = Instant::now();
    for pod in pods.iter().step_by(step) {
        std::hint::black_box(pod.typed()?);
    }
    Ok(begin.elapsed())
}

/// In microseconds.
fn per(time: Duration, count: usize) -> f64 {
    time.as_secs_f64() * 1e6 / count.max(1) as f64
}
