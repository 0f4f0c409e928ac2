//! A shared informer: a cache, an index, a view, handlers, and a read that includes one's own write. The watch closes repeatedly,
//! without effect on the program.
//!
//! ```text
//! cargo run -p evenkeel-examples --example informers
//! ```
//!
//! In client-go: `informers.NewSharedInformerFactory`, `AddIndexers`, `AddEventHandler`, `Lister()`. In kube-rs: `watcher`,
//! `reflector` and `Store`. There, a read after a write may return the older state.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use evenkeel::LabelSelector;
use evenkeel::apiserver::ApiServer;
use evenkeel::k8s_openapi::api::core::v1::Pod;
use evenkeel::prelude::*;
use serde::Deserialize;
use serde_json::json;

/// The fields that this program reads often, decoded for every pod when it is stored.
#[derive(Deserialize)]
struct PodView {
    spec: SpecView,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecView {
    node_name: Option<String>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::start().await?;
    let client = server.client();
    let pods = client.api::<Pod>().namespace("default");
    pods.create(&pod("web-0", "node-1")?).await?;

    // One informer for each kind, shared by all callers. No request is sent before the start.
    let informers = InformerFactory::builder(&client).namespace("default").build();
    let cache = informers.of::<Pod>();
    cache.add_indexes([Index::by_path("node", "spec.nodeName")?])?;
    let view = cache.view::<PodView>();
    cache.add_handler(
        HandlerFuncs::new()
            .on_add(|pod: Obj<Pod>, initial| println!("  + {}{}", pod.key(), if initial { ", initial" } else { "" }))
            .on_update(|old: Obj<Pod>, new| {
                println!("  ~ {}, from version {} to {}", new.key(), old.resource_version(), new.resource_version());
            })
            .on_delete(|gone| println!("  - {}", gone.key())),
    )?;
    let running = informers.start();
    informers.wait_for_sync().await?;
    println!("synced: {} pod in the cache", cache.indexer().len());

    println!("from now on every watch closes after one event; meanwhile:");
    server.faults().drop_watch_after(1);
    pods.create(&pod("web-1", "node-1")?).await?;
    pods.delete("web-0").grace_period(0).await?;
    let last = pods.create(&pod("web-2", "node-2")?).await?;

    // The cache lags behind the server. This waits until it includes the last write. Handlers run in their own tasks, so their
    // lines may be printed later.
    let lister = cache.lister();
    let seen = lister.at_least(&last.version()).await?;
    let mut names: Vec<String> = seen.list_all().iter().map(|pod| pod.key().to_string()).collect();
    names.sort();
    println!("in the cache now: {}", names.join(", "));
    assert_eq!(names, ["default/web-1", "default/web-2"]);

    // By index: only the pods of the node are visited.
    let on_node_1 = cache.indexer().by_index("node", "node-1")?;
    println!("on node-1: {} pod", on_node_1.len());
    assert_eq!(on_node_1.len(), 1);

    // By view: a pointer to the decoded fields, nothing is decoded.
    for (pod, fields) in view.snapshot().iter() {
        println!("{} runs on {:?}", pod.key(), fields.spec.node_name);
    }
    let web_2 = view.get(last.key())?.ok_or("web-2 is not in the cache")?;
    assert_eq!(web_2.spec.node_name.as_deref(), Some("node-2"));

    // By labels, in memory, without a request.
    let web: LabelSelector = "app=web".parse()?;
    println!("with the label app=web: {} pods", lister.list(&web).len());
    assert_eq!(lister.list(&web).len(), 2);

    // Handlers receive the queued notifications first; then no task is left.
    running.drain().await;
    Ok(())
}

fn pod(name: &str, node: &str) -> serde_json::Result<Pod> {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": node, "containers": [{"name": "web", "image": "nginx"}]}
    }))
}
