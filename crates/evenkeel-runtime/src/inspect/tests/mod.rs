//! Tests of the inspector in virtual time, with real informers and queues.

mod history;
mod http;
mod metrics;
mod report;
mod sse;

use std::sync::Arc;

use evenkeel_cache::informer::RunningInformers;
use evenkeel_cache::testing::FakeSource;
use evenkeel_cache::{HandlerOptions, InformerOptions, SharedInformer};
use evenkeel_core::ObjectKey;
use evenkeel_queue::WorkQueue;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::*;
use crate::enqueue_key;

type Informer = SharedInformer<ConfigMap>;

/// An informer of an in-memory source, and a queue that its handler feeds.
struct Fixture {
    source: FakeSource,
    informer: Informer,
    /// Stops the informer when it is dropped.
    #[allow(dead_code)]
    running: RunningInformers,
    queue: WorkQueue<ObjectKey>,
    inspector: Inspector,
}

impl Fixture {
    /// Starts everything and waits for the sync.
    async fn start(names: &[&str]) -> Self {
        let source = FakeSource::of::<ConfigMap>();
        for name in names {
            source.add(map(name)).unwrap();
        }
        let informer = Informer::new(source.clone(), source.resource(), InformerOptions::new().name("maps"));
        let queue = WorkQueue::rate_limited("work");
        let handler = enqueue_key(&queue).with(HandlerOptions::new().name("fill"));
        let registration = informer.add_handler(handler).unwrap();
        let inspector = Inspector::new();
        inspector.informer(&informer);
        inspector.queue("work", &queue);
        let running = informer.start();
        registration.synced().await.unwrap();
        Fixture { source, informer, running, queue, inspector }
    }
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}})).unwrap()
}

/// Lets all ready tasks run.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Returns the steps of a key as `source: text`.
fn steps_of(inspector: &Inspector, key: &str) -> Vec<String> {
    let report = inspector.report(Some(key));
    let text = |step: &Value| format!("{}: {}", step["source"].as_str().unwrap(), step["text"].as_str().unwrap());
    report["follow"]["steps"].as_array().unwrap().iter().map(text).collect()
}

/// Returns the shared state of an inspector.
fn inner(inspector: &Inspector) -> &Arc<InspectorInner> {
    &inspector.0
}
