//! The kubelet's node informer: it watches a single node, its own, and reads it from the cache without further requests.
//!
//! ```text
//! cargo run -p evenkeel-examples --example node_informer
//! ```
//!
//! A kubelet needs its own Node all the time: whether a pod may run here depends on the labels, the taints and the capacity of
//! the node. A request per pod would be too many, and watching all nodes would be a copy of the cluster on every machine. So it
//! lists and watches with the field selector `metadata.name=NODE`, waits for the initial list, and reads from a lister from
//! then on.
//!
//! In client-go: `informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(…))`, and
//! `cache.WaitForCacheSync`. In kube-rs: `reflector` over `watcher(nodes, Config::default().fields(…))`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use evenkeel::apiserver::ApiServer;
use evenkeel::k8s_openapi::api::core::v1::{Node, Pod};
use evenkeel::prelude::*;
use serde_json::json;
use tokio::sync::mpsc;

/// The node of this kubelet.
const NODE: &str = "node-2";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::start().await?;
    let client = server.client();
    let nodes = client.api::<Node>();
    for name in ["node-1", "node-2", "node-3"] {
        nodes.create(&serde_json::from_value(json!({"metadata": {"name": name}}))?).await?;
    }

    // The selector is part of each list and watch request: other nodes are never sent. No resync: the kubelet acts on changes
    // and reads its node when needed.
    let informers = InformerFactory::builder(&client)
        .configure::<Node>(|nodes| nodes.fields(format!("metadata.name={NODE}")).resync(Duration::ZERO))
        .build();
    let (changed, mut changes) = mpsc::unbounded_channel();
    informers.of::<Node>().add_handler(move |event: Event<Node>| {
        // Fails only when the program is ending.
        let _ = changed.send(event.key().name().to_owned());
    })?;
    let lister = informers.lister::<Node>();
    let running = informers.start();

    // Before this returns, a missing node may only be not listed yet. The kubelet admits no pod until then.
    informers.wait_for_sync().await?;
    println!("synced: the cache has {} of 3 nodes, {}", lister.list_all().len(), lister.require(NODE)?.key());
    assert_eq!(lister.list_all().len(), 1);

    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "database"},
        "spec": {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "db", "image": "postgres"}]}
    }))?;
    let refused = admit(&pod, &lister)?;
    println!("database: {}", refused.as_deref().unwrap_or("admitted"));
    assert!(refused.is_some());

    // Every node changes. Only one of them is watched.
    println!("all nodes get a fast disk");
    let label = Patch::merge(&json!({"metadata": {"labels": {"disk": "ssd"}}}));
    for name in ["node-1", "node-3", NODE] {
        nodes.patch(name, &label).await?;
    }
    let labelled = nodes.get(NODE).await?;
    let refused = admit(&pod, lister.at_least(&labelled.version()).await?)?;
    println!("database: {}", refused.as_deref().unwrap_or("admitted"));
    assert_eq!(refused, None);

    running.drain().await;
    let mut notified = Vec::new();
    while let Some(name) = changes.recv().await {
        notified.push(name);
    }
    println!("the handler was notified of: {}", notified.join(", "));
    assert_eq!(notified, [NODE, NODE], "it was added, then updated");
    Ok(())
}

/// Returns why a pod cannot run on this node, if so: a small part of the kubelet's admission.
fn admit(pod: &Pod, nodes: &Lister<Node>) -> Result<Option<String>, Box<dyn Error>> {
    let node = nodes.require(NODE)?;
    let none = BTreeMap::new();
    let wanted = pod.spec.as_ref().and_then(|spec| spec.node_selector.as_ref()).unwrap_or(&none);
    // Labels are available without decoding the object.
    let missing = wanted.iter().find(|(label, value)| node.label(label) != Some(value.as_str()));
    Ok(missing.map(|(label, value)| format!("refused, because {} has no label {label}={value}", node.key())))
}
