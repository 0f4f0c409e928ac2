//! A controller of several clusters: kubeconfigs in Secrets engage them, a reconcile knows its cluster, and one cluster that fails
//! hurts no other.
//!
//! ```text
//! cargo run -p evenkeel-examples --example several_clusters
//! ```
//!
//! Three API servers run in this process: the home cluster, which has the Secrets, and two clusters that are reached over TLS with
//! the kubeconfigs in them.
//!
//! In Go: multicluster-runtime's `mcbuilder.ControllerManagedBy(mgr)` with its kubeconfig provider.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use evenkeel::apiserver::ApiServer;
use evenkeel::clusters::{Clusters, MultiClusterController};
use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use evenkeel::prelude::*;
use evenkeel::testing::eventually;
use serde_json::json;
use tokio::sync::oneshot;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Labels each ConfigMap with the name of its cluster. Client, listers and events are those of the cluster.
async fn reconcile(map: Obj<ConfigMap>, ctx: Context) -> Result<Next, ReconcileError> {
    if map.label("cluster") != Some(ctx.cluster()) {
        println!("  reconcile: labelling {}", ctx.cluster_key());
        let patch = Patch::merge(&json!({"metadata": {"labels": {"cluster": ctx.cluster()}}}));
        let namespace = map.key().namespace().unwrap_or_default();
        ctx.api::<ConfigMap>().namespace(namespace).patch(map.key().name(), &patch).await?;
    }
    Ok(Next::done())
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let home = ApiServer::builder().in_process_only().start().await?;
    let (eu, us) = (ApiServer::builder().tls().start().await?, ApiServer::builder().tls().start().await?);
    for server in [&eu, &us] {
        create_map(server, "first").await?;
    }

    println!("the controller starts; no cluster is engaged");
    let clusters = Clusters::from_secrets(&home.client(), "default");
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(MultiClusterController::<ConfigMap>::new(&clusters).run(stopped, reconcile));

    println!("two Secrets with kubeconfigs are created");
    create_kubeconfig(&home, "eu-1", &eu).await?;
    create_kubeconfig(&home, "us-1", &us).await?;
    is_labelled(&eu, "first", "eu-1").await?;
    is_labelled(&us, "first", "us-1").await?;

    println!("us-1 does not respond any more");
    us.faults().refuse_connections(true);
    us.faults().cut_connections();
    create_map(&eu, "second").await?;
    is_labelled(&eu, "second", "eu-1").await?;
    let failed = async || clusters.get("us-1")?.status().last_failure;
    println!("  status of us-1: {}", eventually("a request to us-1 fails", failed).await?.message);

    println!("us-1 responds again");
    us.faults().refuse_connections(false);
    create_map(&us, "second").await?;
    is_labelled(&us, "second", "us-1").await?;

    println!("the Secret of eu-1 is deleted");
    home.client().api::<Secret>().namespace("default").delete("eu-1").await?;
    eventually("eu-1 is disengaged", async || clusters.get("eu-1").is_none().then_some(())).await?;
    let names: Vec<_> = clusters.list().iter().map(|cluster| cluster.name().to_owned()).collect();
    println!("  engaged: {names:?}");
    if names != ["us-1"] {
        return Err(format!("these clusters are engaged: {names:?}").into());
    }

    let _ = stop.send(());
    running.await??;
    println!("the controller has ended");
    Ok(())
}

/// Creates the Secret that engages a cluster.
async fn create_kubeconfig(home: &ApiServer, name: &str, cluster: &ApiServer) -> Outcome<()> {
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"sigs.k8s.io/multicluster-runtime-kubeconfig": "true"}},
        "stringData": {"kubeconfig": cluster.kubeconfig()}
    }))?;
    home.client().api::<Secret>().namespace("default").create(&secret).await?;
    Ok(())
}

async fn create_map(server: &ApiServer, name: &str) -> Outcome<()> {
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    server.client().api::<ConfigMap>().namespace("default").create(&map).await?;
    Ok(())
}

/// Waits until a ConfigMap has the label of its cluster.
async fn is_labelled(server: &ApiServer, name: &str, cluster: &str) -> Outcome<()> {
    let maps = server.client().api::<ConfigMap>().namespace("default");
    let labelled = async || {
        let map = maps.get(name).await.ok()?;
        (map.label("cluster") == Some(cluster)).then_some(())
    };
    Ok(eventually(format!("{name} has the label of {cluster}"), labelled).await?)
}
