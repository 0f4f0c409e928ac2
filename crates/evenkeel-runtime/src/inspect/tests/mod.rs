//! The inspector in virtual time, with informers and queues that are real.

mod http;
mod ledger;
mod looks;
mod measured;
mod sse;

use std::sync::Arc;

use evenkeel_cache::informer::RunningInformers;
use evenkeel_cache::testing::FakeSource;
use evenkeel_cache::{HandlerOptions, SharedInformer};
use evenkeel_core::ObjectKey;
use evenkeel_queue::WorkQueue;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::*;
use crate::enqueue_key;

type Informer = SharedInformer<ConfigMap>;

/// An informer of a source in memory, and a queue that one of its handlers fills.
struct World {
    source: FakeSource,
    informer: Informer,
    /// Stops the informer when it is dropped.
    #[allow(dead_code)]
    running: RunningInformers,
    queue: WorkQueue<ObjectKey>,
    inspector: Inspector,
}

impl World {
    /// Everything runs and has synced.
    async fn start(names: &[&str]) -> Self {
        let source = FakeSource::of::<ConfigMap>();
        for name in names {
            source.add(map(name)).unwrap();
        }
        let informer = Informer::builder(source.clone(), source.resource()).name("maps").build();
        let queue = WorkQueue::rate_limited("work");
        let handler = enqueue_key(&queue).with(HandlerOptions::new().name("fill"));
        let registration = informer.add_handler(handler).unwrap();
        let inspector = Inspector::new();
        inspector.informer(&informer);
        inspector.queue("work", &queue);
        let running = informer.start();
        registration.synced().await.unwrap();
        World { source, informer, running, queue, inspector }
    }
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}})).unwrap()
}

/// Lets everything happen that can happen without time passing.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// What happened to a key, in short: `lane: text`.
fn story(inspector: &Inspector, key: &str) -> Vec<String> {
    let report = inspector.report(Some(key));
    let text = |step: &Value| format!("{}: {}", step["lane"].as_str().unwrap(), step["text"].as_str().unwrap());
    report["follow"]["steps"].as_array().unwrap().iter().map(text).collect()
}

/// Another handle for tests of what is inside.
fn inner(inspector: &Inspector) -> &Arc<Inner> {
    &inspector.0
}
