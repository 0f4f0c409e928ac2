//! A controller that writes a ConfigMap for each object of a kind of its own: kube-rs' example `configmapgen_controller`, with
//! evenkeel. [docs/ports.md](../docs/ports.md) compares the two.
//!
//! ```text
//! cargo run -p evenkeel-examples --example configmap_generator                # on an embedded API server, to its end
//! cargo run -p evenkeel-examples --example configmap_generator -- --cluster   # on the cluster of the kubeconfig, until a signal
//! cargo test -p evenkeel-examples --example configmap_generator               # its tests: configmap_generator/tests.rs
//! ```
//!
//! On a cluster, Enter reconciles all objects. The definition has to be installed there; `--crd` prints it.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

#[path = "configmap_generator/demo.rs"]
mod demo;

use std::time::Duration;

use evenkeel::apply;
use evenkeel::controller::Trigger;
use evenkeel::helpers::controller_reference;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;
use evenkeel::queue::AddOptions;
use evenkeel_examples::Outcome;

/// The content of a ConfigMap with the name of the object.
#[custom_resource(group = "example.com", version = "v1", namespaced, shortname = "cmg")]
struct ConfigMapGeneratorSpec {
    content: String,
}

async fn reconcile(generator: Obj<ConfigMapGenerator>, ctx: Context) -> Result<Next, ReconcileError> {
    let (key, owner) = (ctx.key(), controller_reference(&generator)?);
    let content = &generator.typed()?.spec.content;
    let map = apply!(ConfigMap { metadata: { owner_references: [owner] }, data: { "content": content } });
    let maps = ctx.api::<ConfigMap>().namespace(key.namespace().unwrap_or_default());
    maps.apply(key.name(), "configmap-generator", &map).await?;
    println!("  reconciled {key}");
    Ok(Next::after(Duration::from_secs(300)))
}

/// Returns the controller, and a function that reconciles all objects.
fn program(client: &Client) -> (Controller<ConfigMapGenerator>, impl Fn() + Send + use<>) {
    let informers = InformerFactory::builder(client).build();
    let (generators, trigger) = (informers.lister::<ConfigMapGenerator>(), Trigger::new());
    let controller = Controller::<ConfigMapGenerator>::new(client)
        .informers(&informers)
        .owns::<ConfigMap>()
        .triggered_by(&trigger)
        .concurrency(2);
    let reconcile_all = move || {
        let all = generators.list_all();
        trigger.reconcile_all(all.iter().map(|generator| generator.key().clone()), AddOptions::new());
    };
    (controller, reconcile_all)
}

#[tokio::main]
async fn main() -> Outcome {
    match std::env::args().nth(1).as_deref() {
        Some("--crd") => println!("{}", serde_json::to_string_pretty(&ConfigMapGenerator::crd())?),
        Some("--cluster") => {
            let (controller, reconcile_all) = program(&Client::infer().await?);
            // A thread, because a read of the standard input cannot be cancelled.
            std::thread::spawn(move || std::io::stdin().lines().for_each(|_| reconcile_all()));
            controller.run(shutdown_signal()?, reconcile).await?;
        }
        _ => demo::run().await?,
    }
    Ok(())
}

#[cfg(test)]
#[path = "configmap_generator/simulation.rs"]
mod simulation;
#[cfg(test)]
#[path = "configmap_generator/tests.rs"]
mod tests;
