//! A cache of the nodes of one architecture, and a line for each node whose labels or annotations change: kube-rs' example
//! `node_reflector`, with evenkeel. [docs/ports.md](../docs/ports.md) compares the two.
//!
//! ```text
//! cargo run -p evenkeel-examples --example node_reflector                # on an embedded API server, to its end
//! cargo run -p evenkeel-examples --example node_reflector -- --cluster   # on the cluster of the kubeconfig, until a signal
//! cargo test -p evenkeel-examples --example node_reflector               # its tests: node_reflector/tests.rs
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

#[path = "node_reflector/demo.rs"]
mod demo;

use std::time::Duration;

use evenkeel::controller::predicate::{Predicate, annotations_changed, labels_changed, or};
use evenkeel::k8s_openapi::api::core::v1::Node;
use evenkeel::prelude::*;
use evenkeel_examples::Outcome;

/// Returns informers of the nodes. `saw` is called for each node that appears, or whose labels or annotations change.
fn reflect(client: &Client, saw: impl Fn(&Obj<Node>) + Send + 'static) -> Outcome<InformerFactory> {
    let informers = InformerFactory::builder(client).labels("kubernetes.io/arch=amd64").build();
    let is_relevant = or(labels_changed(), annotations_changed());
    informers.of::<Node>().add_handler(move |event: Event<Node>| match &event {
        Event::Add { object, .. } => saw(object),
        Event::Update { new, .. } if is_relevant.accepts(&event) => saw(new),
        Event::Update { .. } | Event::Delete(_) => {}
    })?;
    Ok(informers)
}

fn names(nodes: &Lister<Node>) -> Vec<String> {
    let mut names: Vec<_> = nodes.list_all().iter().map(|node| node.key().to_string()).collect();
    names.sort();
    names
}

#[tokio::main]
async fn main() -> Outcome {
    if !std::env::args().any(|argument| argument == "--cluster") {
        return demo::run().await;
    }
    let client = Client::infer().await?;
    let informers = reflect(&client, |node| println!("saw node {} with new labels or annotations", node.key()))?;
    let (_running, nodes) = (informers.start(), informers.lister::<Node>());
    informers.wait_for_sync().await?;
    let show = async {
        let mut ticks = tokio::time::interval(Duration::from_secs(10));
        loop {
            ticks.tick().await;
            println!("nodes: {:?}", names(&nodes));
        }
    };
    tokio::select! {
        () = shutdown_signal()? => Ok(()),
        never = show => never,
    }
}

#[cfg(test)]
#[path = "node_reflector/simulation.rs"]
mod simulation;
#[cfg(test)]
#[path = "node_reflector/tests.rs"]
mod tests;
