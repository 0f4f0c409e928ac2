//! The reflector on an embedded API server, in virtual time and without sockets.

use evenkeel::apiserver::ApiServer;
use evenkeel::testing::eventually;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;

fn node(name: &str, arch: &str) -> Outcome<Node> {
    Ok(serde_json::from_value(json!({"metadata": {"name": name, "labels": {"kubernetes.io/arch": arch}}}))?)
}

#[tokio::test(start_paused = true)]
async fn only_changes_of_labels_and_annotations_are_seen() -> Outcome {
    let server = ApiServer::builder().in_process_only().start().await?;
    let (client, (seen, mut received)) = (server.client(), mpsc::unbounded_channel());
    let nodes = client.api::<Node>();
    nodes.create(&node("a", "amd64")?).await?;
    nodes.create(&node("b", "arm64")?).await?;
    let informers = reflect(&client, move |node| _ = seen.send(node.key().to_string()))?;
    let _running = informers.start();
    assert_eq!(received.recv().await.as_deref(), Some("a"));

    let patch = async |name: &str, patch: Value| nodes.patch(name, &Patch::merge(&patch)).await;
    nodes.status().patch("a", &Patch::merge(&json!({"status": {"phase": "Running"}}))).await?;
    patch("a", json!({"spec": {"unschedulable": true}})).await?;
    patch("b", json!({"metadata": {"labels": {"disk": "ssd"}}})).await?;
    patch("a", json!({"metadata": {"labels": {"disk": "ssd"}}})).await?;
    let labelled = nodes.get("a").await?.version();
    assert_eq!(received.recv().await.as_deref(), Some("a"));
    // The heartbeat and the spec came before the label: they were not seen.
    informers.lister::<Node>().at_least(&labelled).await?;
    assert!(received.try_recv().is_err());
    patch("a", json!({"metadata": {"annotations": {"note": "x"}}})).await?;
    assert_eq!(received.recv().await.as_deref(), Some("a"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_node_that_changes_its_architecture_enters_and_leaves_the_cache() -> Outcome {
    let server = ApiServer::builder().in_process_only().start().await?;
    let client = server.client();
    let nodes = client.api::<Node>();
    nodes.create(&node("a", "arm64")?).await?;
    let informers = reflect(&client, |_| {})?;
    let _running = informers.start();
    informers.wait_for_sync().await?;
    let lister = informers.lister::<Node>();
    assert!(names(&lister).is_empty());
    for (arch, expected) in [("amd64", vec!["a"]), ("arm64", vec![])] {
        let label = json!({"metadata": {"labels": {"kubernetes.io/arch": arch}}});
        nodes.patch("a", &Patch::merge(&label)).await?;
        eventually(format!("the cache follows {arch}"), async || (names(&lister) == expected).then_some(())).await?;
    }
    Ok(())
}
