//! Many watchers of one resource.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use http_body_util::BodyExt;
use serde_json::json;

use crate::Failure;
use crate::client::{call, expect};
use crate::pods;
use crate::report::{self, Samples, line};

const PODS: &str = "/api/v1/namespaces/default/pods";
const EVENTS: usize = 5_000;
const PER_SECOND: usize = 1_000;
/// Watchers read the clock once per this number of events.
const SAMPLE: usize = 16;

/// STO-33: every watcher receives every event. First at the given rate, then as fast as possible.
pub(crate) async fn fan_out(watchers: usize) -> Result<(), Failure> {
    for (name, paced) in [("watch, 1,000 events/s", true), ("watch, as fast as possible", false)] {
        let server = pods::server().in_process_only().start().await?;
        let mut service = server.service();
        expect(&mut service, Method::POST, PODS, Some(&pods::pod(0)), 201).await?;
        let start = Instant::now();
        let committed: Arc<Vec<AtomicU64>> = Arc::new((0..EVENTS).map(|_| AtomicU64::new(0)).collect());
        let delivered = Arc::new(AtomicUsize::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..watchers {
            let reply = call(&mut service, Method::GET, "/api/v1/pods?watch=true&resourceVersion=0", None).await?;
            let (committed, delivered) = (Arc::clone(&committed), Arc::clone(&delivered));
            tasks.spawn(async move {
                let mut body = reply.into_body();
                let mut latencies = Vec::with_capacity(EVENTS / SAMPLE + 1);
                let mut seen = 0;
                // The first event is the initial pod.
                body.frame().await;
                while seen < EVENTS {
                    let Some(Ok(_)) = body.frame().await else { break };
                    if seen % SAMPLE == 0 {
                        let at = committed[seen].load(Ordering::Acquire);
                        if at > 0 {
                            let now = start.elapsed().as_nanos() as u64;
                            latencies.push(Duration::from_nanos(now.saturating_sub(at)));
                        }
                    }
                    seen += 1;
                }
                delivered.fetch_add(seen, Ordering::Relaxed);
                latencies
            });
        }
        let begin = Instant::now();
        let path = format!("{PODS}/{}", pods::name(0));
        for number in 0..EVENTS {
            if paced {
                let due = Duration::from_secs_f64(number as f64 / PER_SECOND as f64);
                if let Some(early) = due.checked_sub(begin.elapsed()) {
                    tokio::time::sleep(early).await;
                }
            }
            let mut pod = pods::pod(0);
            pod["metadata"]["annotations"]["number"] = json!(number.to_string());
            committed[number].store(start.elapsed().as_nanos() as u64, Ordering::Release);
            expect(&mut service, Method::PUT, &path, Some(&pod), 200).await?;
        }
        let mut latencies = Vec::new();
        while let Some(done) = tasks.join_next().await {
            latencies.extend(done?);
        }
        let seconds = begin.elapsed().as_secs_f64();
        let delivered = delivered.load(Ordering::Relaxed);
        let missing = watchers * EVENTS - delivered;
        let samples = Samples::new(latencies);
        let figure = format!(
            "{:.0} deliveries/s, p99 {:.1?}, {missing} missed",
            delivered as f64 / seconds,
            samples.quantile(0.99)
        );
        line(name, &figure, "STO-33: 1,000,000/s, p99 50 ms, 0 missed");
        let name = format!("{name}, {watchers} watchers");
        report::value(&format!("{name}: deliveries"), delivered as f64 / seconds, "/s");
        report::value(&format!("{name}: 99 %"), report::milliseconds(samples.quantile(0.99)), "ms");
        report::value(&format!("{name}: missed"), missing as f64, "events");
    }
    Ok(())
}
