//! A work queue: an informer adds keys, two workers take them. One key fails a few times, one always fails.
//!
//! ```text
//! cargo run -p evenkeel-examples --example work_queue
//! ```
//!
//! In client-go: `examples/workqueue`. Not needed here: `Done`, because each verdict finishes the item and a dropped item is retried;
//! `MetaNamespaceKeyFunc`, because objects know their keys; `DeletedFinalStateUnknown`, because `enqueue_key` handles it. In
//! kube-rs the queue is inside of `Controller`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::time::Duration;

use evenkeel::Item;
use evenkeel::apiserver::ApiServer;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;
use evenkeel::queue::DrainDelayed;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Number of failures after which a key is dropped until its object changes.
const MAX_FAILURES: u32 = 3;
/// The longest wait of this program.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::start().await?;
    let client = server.client();
    let configs = client.api::<ConfigMap>().namespace("default");
    for name in ["greeting", "farewell", "stubborn", "hopeless"] {
        configs.create(&config(name, "Hello")?).await?;
    }

    // The handler adds the key of each added, updated or deleted object.
    let informers = InformerFactory::builder(&client).namespace("default").build();
    let cache = informers.of::<ConfigMap>();
    let queue = WorkQueue::rate_limited("configs");
    cache.add_handler(enqueue_key(&queue))?;
    let running = informers.start();
    informers.wait_for_sync().await?;

    println!("main: objects of the initial list are queued with low priority, so that they do not delay changes");
    // Two workers. A key is in flight with one of them at a time. They end with the queue.
    let (report, mut reports) = mpsc::unbounded_channel();
    let workers = [1, 2].map(|worker| tokio::spawn(work(worker, queue.clone(), cache.lister(), report.clone())));
    for _ in 0..4 {
        timeout(PATIENCE, reports.recv()).await?;
    }

    println!("main: one object is updated, one is deleted");
    configs.update(&config("greeting", "Good morning")?).await?;
    configs.delete("farewell").await?;
    for _ in 0..2 {
        timeout(PATIENCE, reports.recv()).await?;
    }

    // Adds are ignored from now on; queued keys are processed.
    queue.drain(DrainDelayed::Discard).within(PATIENCE).await?;
    for worker in workers {
        worker.await?;
    }
    let stats = queue.stats();
    println!("main: drained; a key came back after a failure {} times", stats.retries);
    assert_eq!(stats.retries, 5, "two times for the stubborn one, three times for the hopeless one");
    running.drain().await;
    Ok(())
}

/// The loop of every worker: client-go's `runWorker` and `processNextItem`.
async fn work(
    worker: u8,
    queue: WorkQueue<ObjectKey>,
    configs: Lister<ConfigMap>,
    report: mpsc::UnboundedSender<ObjectKey>,
) {
    while let Some(item) = queue.next().await {
        let key = item.key().clone();
        match sync(&item, &configs) {
            Ok(outcome) => {
                println!("worker {worker}: {key} {outcome}");
                item.forget();
            }
            Err(error) if item.failures() < MAX_FAILURES => {
                println!("worker {worker}: {key} {error}; retrying after its backoff");
                item.retry(error);
                continue;
            }
            Err(error) => {
                println!("worker {worker}: {key} {error}, and did so too often; it is given up until it changes");
                item.forget();
            }
        }
        // For this program only, which waits for reports. The receiver may be dropped.
        let _ = report.send(key);
    }
    println!("worker {worker}: no more work");
}

/// Reads the current state of the object, independent of the number of changes.
fn sync(item: &Item<ObjectKey>, configs: &Lister<ConfigMap>) -> Result<String, Box<dyn Error + Send + Sync>> {
    let Some(config) = configs.get(item.key()) else { return Ok("is deleted".to_owned()) };
    match item.key().name() {
        "stubborn" if item.failures() < 2 => return Err("does not want to yet".into()),
        "hopeless" => return Err("will never want to".into()),
        _ => {}
    }
    let config = config.typed()?;
    let text = config.data.as_ref().and_then(|data| data.get("text")).map_or("", String::as_str);
    Ok(format!("contains {text:?} (priority {}, after {} failures)", item.priority(), item.failures()))
}

fn config(name: &str, text: &str) -> serde_json::Result<ConfigMap> {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}, "data": {"text": text}}))
}
