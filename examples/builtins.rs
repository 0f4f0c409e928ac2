//! A controller of ReplicaSets and webhooks for pods: controller-runtime's example `builtins`, with evenkeel.
//! [docs/ports.md](../docs/ports.md) compares the two.
//!
//! ```text
//! cargo run -p evenkeel-examples --example builtins                # on an embedded API server, to its end
//! cargo run -p evenkeel-examples --example builtins -- --cluster   # on the cluster of the kubeconfig, until a signal
//! cargo test -p evenkeel-examples --example builtins               # its tests: builtins/tests.rs
//! ```
//!
//! On a cluster, the certificate of the webhooks is read from the folder that controller-runtime uses.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

#[path = "builtins/demo.rs"]
mod demo;

use std::future::ready;
use std::sync::Arc;

use evenkeel::k8s_openapi::api::apps::v1::ReplicaSet;
use evenkeel::k8s_openapi::api::core::v1::Pod;
use evenkeel::prelude::*;
use evenkeel::webhook::{Hook, Mutating, Validating, WebhookServer, WebhookServerBuilder};
use evenkeel_examples::Outcome;

/// The annotation that the webhooks set and demand.
const ANNOTATION: (&str, &str) = ("example.com/reviewed", "yes");

/// Labels the ReplicaSet, once.
async fn reconcile(set: Obj<ReplicaSet>, ctx: Context) -> Result<Next, ReconcileError> {
    let mut changed = ReplicaSet::clone(&*set.typed()?);
    let template = changed.spec.template.as_ref().and_then(|template| template.spec.as_ref());
    let container = template.and_then(|pod| pod.containers.first()).map_or("none", |container| &*container.name);
    println!("  reconciling {}, container: {container}", ctx.key());
    changed.metadata.labels.get_or_insert_default().insert("hello".to_owned(), "world".to_owned());
    let sets = ctx.api::<ReplicaSet>().namespace(ctx.key().namespace().unwrap_or_default());
    sets.patch_changes(&Patch::merge_from(&set, &changed)?).await?;
    Ok(Next::done())
}

fn annotate() -> Hook<Mutating<Pod>> {
    Hook::mutating::<Pod>().apply(|pod, _| {
        let (key, value) = ANNOTATION;
        pod.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
        Ok(())
    })
}

fn validate() -> Hook<Validating<Pod>> {
    let check = |pod: Arc<Pod>| {
        let (key, expected) = ANNOTATION;
        ready(match pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(key)) {
            None => Err(format!("missing annotation {key}").into()),
            Some(value) if value != expected => Err(format!("annotation {key} is not {expected:?}").into()),
            Some(_) => Ok(()),
        })
    };
    Hook::validating::<Pod>().on_create(move |pod, _| check(pod)).on_update(move |_, pod, _| check(pod))
}

fn program(client: &Client, webhooks: WebhookServerBuilder) -> Outcome<Manager> {
    let webhooks = webhooks.hook(annotate()).hook(validate()).build()?;
    let sets = Controller::<ReplicaSet>::new(client).owns::<Pod>();
    let manager = Manager::new(client).controller(sets, reconcile);
    Ok(manager.server("webhooks", move |stop| webhooks.run(stop.requested())))
}

#[tokio::main]
async fn main() -> Outcome {
    if !std::env::args().any(|argument| argument == "--cluster") {
        return demo::run().await;
    }
    Ok(program(&Client::infer().await?, WebhookServer::builder())?.run(shutdown_signal()?).await?)
}

#[cfg(test)]
#[path = "builtins/simulation.rs"]
mod simulation;
#[cfg(test)]
#[path = "builtins/tests.rs"]
mod tests;
