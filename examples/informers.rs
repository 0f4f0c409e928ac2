//! Informers: two kinds, an index, a handler, and a read that is as new as one's own write.
//!
//! `cargo run -p evenkeel-examples --example informers` needs no cluster: it runs against a server in its own process, whose
//! watches break on the way.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use evenkeel_apiserver::ApiServer;
use evenkeel_cache::handler::HandlerFuncs;
use evenkeel_cache::{Index, InformerFactory};
use evenkeel_core::{LabelSelector, Obj};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::json;

#[tokio::main]
async fn main() -> evenkeel_examples::Outcome {
    let server = ApiServer::start().await?;
    let client = server.client();
    let pods = client.api::<Pod>().namespace("default");
    pods.create(&pod("web-0", "node-1")?).await?;
    client.api::<Node>().create(&serde_json::from_value(json!({"metadata": {"name": "node-1"}}))?).await?;

    // The kubelet's: of all nodes only its own.
    let informers = InformerFactory::builder(&client)
        .configure::<Node>(|nodes| nodes.fields("metadata.name=node-1"))
        .configure::<Pod>(|pods| pods.informer(|pods| pods.index(Index::by_path("node", "spec.nodeName"))))
        .build();
    let nodes = informers.of::<Node>().lister();
    let cache = informers.of::<Pod>();
    cache.add_handler(
        HandlerFuncs::new()
            .on_add(|pod: Obj<Pod>, initial| println!("+ {}{}", pod.key(), if initial { " (was there)" } else { "" }))
            .on_update(|old: Obj<Pod>, new| {
                println!("~ {} {} -> {}", new.key(), old.resource_version(), new.resource_version())
            })
            .on_delete(|gone| println!("- {}", gone.key())),
    )?;
    informers.start();
    informers.wait_for_sync().await?;
    println!("{} pods, {} node", cache.indexer().len(), nodes.list_all().len());

    // The watch breaks, and what happens meanwhile is not lost.
    server.faults().drop_watch_after(1);
    let written = pods.create(&pod("web-1", "node-1")?).await?;
    pods.delete("web-0").grace_period(0).await?;
    let last = pods.create(&pod("web-2", "node-2")?).await?;

    // A read that is at least as new as the last write.
    let reader = cache.lister();
    let fresh = reader.at_least(&last.version()).await?;
    assert!(fresh.get(written.key()).is_some() && fresh.get("default/web-0").is_none());
    let on_node_1 = cache.indexer().by_index("node", "node-1")?;
    println!("on node-1: {:?}", on_node_1.iter().map(|pod| pod.key().name()).collect::<Vec<_>>());
    println!("labelled: {}", reader.list(&"app=web".parse::<LabelSelector>()?).len());

    informers.shutdown().await;
    Ok(())
}

fn pod(name: &str, node: &str) -> evenkeel_examples::Outcome<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": node, "containers": [{"name": "web", "image": "nginx"}]}
    }))?)
}
