//! A cluster, a client, an object.
//!
//! ```text
//! cargo run -p evenkeel-examples --example first_steps                                # an embedded API server
//! KUBECONFIG=~/.kube/config cargo run -p evenkeel-examples --example first_steps      # your cluster; it only reads
//! ```
//!
//! In client-go: `clientcmd`, `kubernetes.NewForConfig`, and `clientset.CoreV1().Pods("default").List(…)`; its example is
//! `out-of-cluster-client-configuration`. In kube-rs: `Client::try_default` and `Api::<Pod>::default_namespaced`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::process::ExitCode;

use evenkeel::apiserver::ApiServer;
use evenkeel::k8s_openapi::api::core::v1::Pod;
use evenkeel::prelude::*;
use serde_json::json;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Errors are sentences: which kubeconfig is malformed and where, which server cannot be reached and why.
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    if std::env::var_os("KUBECONFIG").is_some() {
        // Like kubectl: the kubeconfig, else in-cluster.
        let client = Client::infer().await?;
        look_around(&client).await?;
    } else {
        let server = a_small_cluster().await?;
        let seen = look_around(&server.client()).await?;
        assert_eq!(seen, 3, "two pods and a deployment are listed");
    }
    Ok(())
}

/// Reads objects and prints them.
async fn look_around(client: &Client) -> Result<usize, Box<dyn Error>> {
    let mut seen = 0;

    // An `Obj<Pod>` knows its key, labels and versions. Other fields are read from its bytes on access.
    let pods = client.api::<Pod>().namespace("default");
    for pod in pods.list(&ListParams::default().limit(10)).await? {
        let phase = pod.path("status.phase")?;
        println!("pod {} is {}", pod.key(), phase.as_ref().map_or("new".into(), |phase| phase.text()));
        seen += 1;
    }

    // Errors have predicates; there is no need to match on their text.
    match pods.get("web-0").await {
        Ok(pod) => {
            // `typed` decodes the whole object into its k8s-openapi struct.
            let containers = pod.typed()?.spec.as_ref().map_or(0, |spec| spec.containers.len());
            println!("web-0 has {containers} container and is at version {}", pod.resource_version());
        }
        Err(error) if error.is_not_found() => println!("there is no web-0 here"),
        Err(error) => return Err(error.into()),
    }

    // Every group has an accessor, with client-go's names.
    for deployment in client.apps_v1().deployments("default").list(&ListParams::default().limit(10)).await? {
        let replicas = deployment.typed()?.spec.replicas.unwrap_or(1);
        println!("deployment {} wants {replicas} replicas", deployment.key());
        seen += 1;
    }
    Ok(seen)
}

/// Starts an embedded API server with a few objects.
async fn a_small_cluster() -> Result<ApiServer, Box<dyn Error>> {
    let server = ApiServer::start().await?;
    let client = server.client();
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "nginx"}]}
    });
    for name in ["web-0", "web-1"] {
        let mut pod = template.clone();
        pod["metadata"]["name"] = json!(name);
        client.core_v1().pods("default").create(&serde_json::from_value(pod)?).await?;
    }
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    });
    client.apps_v1().deployments("default").create(&serde_json::from_value(deployment)?).await?;
    Ok(server)
}
