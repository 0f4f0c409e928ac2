//! A work queue: an informer puts keys in, two workers take them out, and one key fails until it does not.
//!
//! `cargo run -p evenkeel-examples --example work_queue` needs no cluster: it runs against a server in its own process.
//!
//! This is client-go's `examples/workqueue`. What is not here: no `Done`, because an item that is dropped is finished; no
//! `MetaNamespaceKeyFunc`, because every object knows its key; no `DeletedFinalStateUnknown`, because `enqueue_key` knows it.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use evenkeel_apiserver::ApiServer;
use evenkeel_cache::{InformerFactory, Lister};
use evenkeel_core::ObjectKey;
use evenkeel_queue::{Delayed, Item, WorkQueue};
use evenkeel_runtime::enqueue_key;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::sync::mpsc;

/// A key that has failed this often is given up until its object changes.
const MAX_FAILURES: u32 = 5;

#[tokio::main]
async fn main() -> evenkeel_examples::Outcome {
    let server = ApiServer::start().await?;
    let client = server.client();
    let configs = client.api::<ConfigMap>().namespace("default");
    for name in ["greeting", "farewell", "stubborn"] {
        configs.create(&config(name, "Hello")?).await?;
    }

    // Keys go from the informer into the queue. Nothing else has to be said for adds, updates and deletes.
    let informers = InformerFactory::builder(&client).build();
    let cache = informers.of::<ConfigMap>();
    let queue = WorkQueue::<ObjectKey>::rate_limited("configs");
    cache.add_handler(enqueue_key(&queue))?;
    informers.start();
    informers.wait_for_sync().await?;

    // Two workers. They never have the same key at the same time, and end when the queue does.
    let (report, mut reports) = mpsc::unbounded_channel();
    let workers = [1, 2].map(|worker| tokio::spawn(work(worker, queue.clone(), cache.lister(), report.clone())));
    println!("main: waiting for what was there before us");
    for _ in 0..3 {
        reports.recv().await;
    }

    println!("main: one changes, one goes");
    configs.update(&config("greeting", "Good morning")?).await?;
    configs.delete("farewell").await?;
    for _ in 0..2 {
        reports.recv().await;
    }

    // Nothing more comes in, and what is there is worked off.
    queue.drain(Delayed::Discard).within(Duration::from_secs(10)).await?;
    for worker in workers {
        worker.await?;
    }
    let stats = queue.stats();
    println!("main: drained; {} times a key needed work, {} of them after a failure", stats.adds, stats.retries);
    informers.shutdown().await;
    Ok(())
}

/// What every worker does: client-go's `runWorker` and `processNextItem`.
async fn work(
    worker: u8,
    queue: WorkQueue<ObjectKey>,
    configs: Lister<ConfigMap>,
    report: mpsc::UnboundedSender<ObjectKey>,
) {
    while let Some(item) = queue.next().await {
        let key = item.key().clone();
        match sync(worker, &item, &configs) {
            Ok(()) => item.forget(),
            Err(error) if item.failures() < MAX_FAILURES => {
                println!("worker {worker}: {key} failed: {error}; it comes back after its back-off");
                item.retry(error);
                continue;
            }
            Err(error) => {
                println!("worker {worker}: {key} failed too often: {error}; giving it up");
                item.forget();
            }
        }
        // Only for the sake of this program, which wants to end.
        let _ = report.send(key);
    }
    println!("worker {worker}: no more work");
}

/// Looks at the object as it is now, however many changes led to it.
fn sync(worker: u8, item: &Item<ObjectKey>, configs: &Lister<ConfigMap>) -> Result<(), String> {
    let key = item.key();
    let Some(config) = configs.get(key) else {
        println!("worker {worker}: {key} is gone");
        return Ok(());
    };
    if key.name() == "stubborn" && item.failures() < 2 {
        return Err(format!("it does not want to yet, on attempt {}", item.failures() + 1));
    }
    let text = config
        .path("data.text")
        .map_err(|error| error.to_string())?
        .map(|text| text.text().into_owned())
        .unwrap_or_default();
    println!("worker {worker}: {key} says {text:?} (priority {}, {} failures)", item.priority(), item.failures());
    Ok(())
}

fn config(name: &str, text: &str) -> evenkeel_examples::Outcome<ConfigMap> {
    Ok(serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}, "data": {"text": text}}))?)
}
