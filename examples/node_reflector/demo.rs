//! The reflector on an embedded API server: this program is also the nodes.

use evenkeel::apiserver::ApiServer;
use evenkeel::testing::eventually;
use serde_json::json;
use tokio::sync::mpsc;

use super::*;

pub(super) async fn run() -> Outcome {
    let server = ApiServer::start().await?;
    let client = server.client();
    let nodes = client.api::<Node>();
    for (name, arch) in [("node-1", "amd64"), ("node-2", "arm64"), ("node-3", "amd64")] {
        let node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/arch": arch}}});
        nodes.create(&serde_json::from_value(node)?).await?;
    }
    let (seen, mut received) = mpsc::unbounded_channel();
    let informers = reflect(&client, move |node| {
        println!("saw node {} with new labels or annotations", node.key());
        // Fails only when the program is ending.
        let _ = seen.send(node.key().to_string());
    })?;
    let running = informers.start();
    informers.wait_for_sync().await?;
    let lister = informers.lister::<Node>();
    println!("nodes: {:?}", names(&lister));
    assert_eq!(names(&lister), ["node-1", "node-3"]);

    println!("node-1 is drained, and node-3 reports that it is well");
    nodes.patch("node-1", &Patch::merge(&json!({"metadata": {"annotations": {"drained": "yes"}}}))).await?;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    nodes.status().patch("node-3", &Patch::merge(&ready)).await?;
    nodes.delete("node-1").await?;
    eventually("node-1 is gone", async || (names(&lister) == ["node-3"]).then_some(())).await?;
    println!("nodes: {:?}", names(&lister));

    running.drain().await;
    let mut names = Vec::new();
    while let Ok(name) = received.try_recv() {
        names.push(name);
    }
    names.sort();
    assert_eq!(names, ["node-1", "node-1", "node-3"], "each when it appears, and the one that changed");
    Ok(())
}
