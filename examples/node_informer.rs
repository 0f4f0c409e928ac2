//! The kubelet's node informer: of all nodes in the cluster it watches one, its own, and then reads it as often as it likes
//! without asking anybody.
//!
//! ```text
//! cargo run -p evenkeel-examples --example node_informer
//! ```
//!
//! A kubelet has to know its own Node all the time: whether a pod that is bound to it may run here depends on the labels, the
//! taints and the capacity of the node. Asking the API server each time would be a request per pod, and watching all nodes would
//! be a copy of the cluster on every machine. So it lists and watches with the field selector `metadata.name=NODE`, waits until
//! the first list is there, and asks a lister from then on.
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

/// The node that this kubelet looks after.
const NODE: &str = "node-2";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::start().await?;
    let client = server.client();
    let nodes = client.api::<Node>();
    for name in ["node-1", "node-2", "node-3"] {
        nodes.create(&serde_json::from_value(json!({"metadata": {"name": name}}))?).await?;
    }

    // The selector goes to the server with each list and each watch: nothing of other nodes is ever sent. No resync: the kubelet
    // acts on changes and looks at its node when it has to, so being told again of what has not changed is of no use to it.
    let informers = InformerFactory::builder(&client)
        .configure::<Node>(|nodes| nodes.fields(format!("metadata.name={NODE}")).resync(Duration::ZERO))
        .build();
    let (told, mut changes) = mpsc::unbounded_channel();
    informers.of::<Node>().add_handler(move |event: Event<Node>| {
        // Whoever listened is gone when the program ends, and then nobody misses it.
        let _ = told.send(event.key().name().to_owned());
    })?;
    let lister = informers.lister::<Node>();
    informers.start();

    // Before this returns, "there is no such node" could also mean "it has not been looked for yet". The kubelet admits no pod
    // until then.
    informers.wait_for_sync().await?;
    println!("synced: of 3 nodes the copy has {}, {}", lister.list_all().len(), lister.require(NODE)?.key());
    assert_eq!(lister.list_all().len(), 1);

    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "database"},
        "spec": {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "db", "image": "postgres"}]}
    }))?;
    let refused = admit(&pod, &lister)?;
    println!("database: {}", refused.as_deref().unwrap_or("admitted"));
    assert!(refused.is_some());

    // Something happens to every node. Only one of them is any business of ours.
    println!("all nodes get a fast disk");
    let label = Patch::merge(&json!({"metadata": {"labels": {"disk": "ssd"}}}));
    for name in ["node-1", "node-3", NODE] {
        nodes.patch(name, &label).await?;
    }
    let labelled = nodes.get(NODE).await?;
    let refused = admit(&pod, lister.at_least(&labelled.version()).await?)?;
    println!("database: {}", refused.as_deref().unwrap_or("admitted"));
    assert_eq!(refused, None);

    informers.shutdown().await;
    let mut heard = Vec::new();
    while let Some(name) = changes.recv().await {
        heard.push(name);
    }
    println!("the handler was told of: {}", heard.join(", "));
    assert_eq!(heard, [NODE, NODE], "it came, and it changed");
    Ok(())
}

/// Why a pod cannot run on this node, if it cannot: a small part of what the kubelet asks.
fn admit(pod: &Pod, nodes: &Lister<Node>) -> Result<Option<String>, Box<dyn Error>> {
    let node = nodes.require(NODE)?;
    let none = BTreeMap::new();
    let wanted = pod.spec.as_ref().and_then(|spec| spec.node_selector.as_ref()).unwrap_or(&none);
    // Labels are part of what is known of every object without decoding it.
    let missing = wanted.iter().find(|(label, value)| node.label(label) != Some(value.as_str()));
    Ok(missing.map(|(label, value)| format!("refused, because {} has no label {label}={value}", node.key())))
}
