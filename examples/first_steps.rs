//! A cluster, a client, an object.
//!
//! `cargo run -p evenkeel-examples --example first_steps` brings a cluster of its own. To ask yours, say which:
//! `KUBECONFIG=~/.kube/config cargo run -p evenkeel-examples --example first_steps`. It only reads.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use evenkeel_client::{Client, ListParams};
use k8s_openapi::api::core::v1::Pod;

fn main() -> evenkeel_examples::Outcome {
    evenkeel_examples::with_a_cluster(async {
        let client = Client::infer().await?; // kubeconfig, then in-cluster

        let pods = client.api::<Pod>().default_namespace();
        for pod in pods.list(&ListParams::default().limit(10)).await? {
            println!("pod {} is {:?}", pod.key(), pod.path("status.phase")?.map(|phase| phase.text().into_owned()));
        }
        match pods.get("web-0").await {
            Ok(pod) => {
                println!("web-0 runs {} containers", pod.typed()?.spec.as_ref().map_or(0, |spec| spec.containers.len()))
            }
            Err(error) if error.is_not_found() => println!("there is no web-0 here"),
            Err(error) => return Err(error.into()),
        }
        for deployment in client.apps_v1().deployments("default").list(&ListParams::default()).await? {
            println!("deployment {} wants {:?} replicas", deployment.key(), deployment.typed()?.spec.replicas);
        }
        Ok(())
    })
}
