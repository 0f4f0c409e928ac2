//! Decoding a large list.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use evenkeel_core::codec::{Codec, ListDecoder};
use evenkeel_core::{Obj, ResourceInfo};
use http::Method;
use http_body_util::BodyExt;
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;
use kube_core::ObjectList;

use crate::Failure;
use crate::client::{call, expect};
use crate::pods;
use crate::report::{Samples, line, megabytes};

const PODS: &str = "/api/v1/namespaces/default/pods";
/// Size of the chunks, that of an HTTP/2 frame.
const CHUNK: usize = 16 << 10;
const ROUNDS: usize = 5;

/// Splits a list into `Obj<Pod>`, and decodes it into structs, in turns on the same bytes.
pub(crate) async fn lists(count: usize) -> Result<(), Failure> {
    let list = list(count).await?;
    let chunks: Vec<Bytes> = list.chunks(CHUNK).map(Bytes::copy_from_slice).collect();
    let input = format!("{count} pods of {} bytes, {:.0} MB", list.len() / count.max(1), megabytes(list.len() as u64));
    line("decode, the list", &input, "");

    let (mut split, mut typed, mut plain, mut kube) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        split.push(time(count, || split_into_objects(&chunks))?);
        typed.push(time(count, || {
            split_into_objects(&chunks)?.iter().map(|pod| Ok(pod.typed()?)).collect::<Result<Vec<_>, Failure>>()
        })?);
        plain.push(time(count, || Ok(serde_json::from_slice::<List<Pod>>(&list)?.items))?);
        kube.push(time(count, || Ok(serde_json::from_slice::<ObjectList<Pod>>(&list)?.items))?);
    }
    let per_pod = |samples| Samples::new(samples).quantile(0.5).as_secs_f64() * 1e6 / count.max(1) as f64;
    let split = per_pod(split);
    line("decode, into Obj<Pod>, payload untouched", &format!("{split:.2} µs a pod"), "");
    for (name, samples) in [
        ("decode, into Obj<Pod>, then typed() on each", typed),
        ("decode, serde_json into k8s_openapi List<Pod>", plain),
        ("decode, serde_json into kube ObjectList<Pod>", kube),
    ] {
        let cost = per_pod(samples);
        line(name, &format!("{cost:.2} µs a pod, {:.1} times as much", cost / split), "");
    }
    Ok(())
}

/// Returns a list as the server sends it: with managedFields, and each pod with a UID, a version and a status.
async fn list(count: usize) -> Result<Bytes, Failure> {
    let server = pods::server().in_process_only().start().await?;
    let mut service = server.service();
    for number in 0..count {
        expect(&mut service, Method::POST, PODS, Some(&pods::pod(number)), 201).await?;
    }
    Ok(call(&mut service, Method::GET, PODS, None).await?.into_body().collect().await?.to_bytes())
}

/// Measures the construction of these values; dropping them is not counted.
fn time<T>(count: usize, work: impl FnOnce() -> Result<Vec<T>, Failure>) -> Result<Duration, Failure> {
    let begin = Instant::now();
    let values = work()?;
    let elapsed = begin.elapsed();
    if values.len() == count { Ok(elapsed) } else { Err(format!("{} pods instead of {count}", values.len()).into()) }
}

fn split_into_objects(chunks: &[Bytes]) -> Result<Vec<Obj<Pod>>, Failure> {
    let mut decoder = ListDecoder::new(Codec::Json, Arc::new(ResourceInfo::of::<Pod>()));
    let mut pods = Vec::new();
    for chunk in chunks {
        decoder.push(chunk.clone());
        while let Some(pod) = decoder.next_item()? {
            pods.push(pod);
        }
    }
    decoder.finish()?;
    Ok(pods)
}
