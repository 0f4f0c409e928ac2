//! The sample controller with the builder: each watched kind is one line, and only the reconcile is left to write.
//!
//! ```text
//! cargo run -p evenkeel-examples --example controller
//! cargo test -p evenkeel-examples --example controller      # simulated: controller/simulation.rs
//! ```
//!
//! Informers, handlers, the queue, workers, retries and graceful shutdown are included; and a reconcile never reads a cache
//! that is behind the writes of the last reconcile of the same object.
//!
//! In Go: controller-runtime's `builder.ControllerManagedBy(mgr).For(&Foo{}).Owns(&Deployment{})`. In kube-rs:
//! `Controller::new(foos, …).owns(deployments, …).run(reconcile, error_policy, ctx)`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]
#![allow(clippy::disallowed_names, reason = "foo is what a Foo is called")]

use std::error::Error;

use evenkeel::apiserver::ApiServer;
use evenkeel::helpers::{is_controlled_by, set_controller_reference};
use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::prelude::*;
use evenkeel::testing::eventually;
use evenkeel_sample_controller::{Foo, FooSpec, FooStatus};
use serde_json::json;
use tokio::sync::oneshot;

/// Makes the cluster match the Foo. Level-triggered: the cause and the number of calls do not matter.
async fn reconcile(foo: Obj<Foo>, ctx: Context) -> Result<Next, ReconcileError> {
    let spec = &foo.typed()?.spec;
    let namespace = foo.key().namespace().unwrap_or_default();
    let wanted = ObjectKey::namespaced(namespace, &spec.deployment_name);
    let deployments = ctx.api::<Deployment>().namespace(namespace);

    let deployment = match ctx.lister::<Deployment>()?.get(&wanted) {
        Some(deployment) if !is_controlled_by(&deployment, &foo) => {
            ctx.recorder().event(&foo, EventType::Warning, "NameTaken", format!("{wanted} has another owner"));
            // Retried with backoff; by then the name may be free.
            return Err(ReconcileError::new(format!("{wanted} has another owner")));
        }
        Some(deployment) if deployment.typed()?.spec.replicas == Some(spec.replicas) => deployment,
        Some(_) => {
            println!("  reconcile: scaling {wanted} to {} replicas", spec.replicas);
            let patch = Patch::merge(&json!({"spec": {"replicas": spec.replicas}}));
            deployments.patch(wanted.name(), &patch).await?
        }
        None => {
            println!("  reconcile: created {wanted}");
            let deployment = deployments.create(&deployment_of(&foo, &wanted, spec)?).await?;
            ctx.recorder().event(&foo, EventType::Normal, "Created", format!("created {wanted}"));
            deployment
        }
    };

    let available = deployment.typed()?.status.as_ref().and_then(|status| status.available_replicas);
    let status = FooStatus { available_replicas: available.unwrap_or(0), observed_generation: foo.generation() };
    if foo.typed()?.status.as_ref() != Some(&status) {
        println!("  reconcile: {} of {} replicas are available", status.available_replicas, spec.replicas);
        let patch = Patch::merge(&json!({"status": status}));
        ctx.api::<Foo>().namespace(namespace).status().patch(foo.key().name(), &patch).await?;
    }
    Ok(Next::done())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let server = ApiServer::start().await?;
    server.install_crds([Foo::crd()]).await?;
    let client = server.client();

    // In a program, use `shutdown_signal()?`; nothing has to be spawned.
    let (stop, stopped) = oneshot::channel::<()>();
    let controller = Controller::<Foo>::new(&client).owns::<Deployment>().concurrency(4);
    let running = tokio::spawn(controller.run(stopped, reconcile));

    let foos = client.api::<Foo>().namespace("default");
    let deployments = client.api::<Deployment>().namespace("default");
    println!("a user creates a Foo with two replicas");
    let foo = Foo::new("example-foo", FooSpec { deployment_name: "example".to_owned(), replicas: 2 });
    foos.create(&foo).await?;
    let first = eventually("the deployment exists", async || deployments.get("example").await.ok()).await?;

    // This process has no Deployment controller and no nodes, so this program simulates them.
    println!("both replicas become available");
    let available = Patch::merge(&json!({"status": {"replicas": 2, "availableReplicas": 2}}));
    deployments.status().patch("example", &available).await?;
    eventually("the Foo's status reports it", async || {
        let foo = foos.get("example-foo").await.ok()?.typed().ok()?;
        foo.status.as_ref().filter(|status| status.available_replicas == 2).map(drop)
    })
    .await?;

    println!("the user scales to three");
    foos.patch("example-foo", &Patch::merge(&json!({"spec": {"replicas": 3}}))).await?;
    eventually("the deployment has three replicas", async || {
        let deployment = deployments.get("example").await.ok()?.typed().ok()?;
        (deployment.spec.replicas == Some(3)).then_some(())
    })
    .await?;

    println!("another client deletes the deployment");
    deployments.delete("example").await?;
    let another = async || deployments.get("example").await.ok().filter(|new| new.uid() != first.uid());
    eventually("the deployment is created again", another).await?;

    // Reconciles in flight finish first. If the controller has ended already, its result is the error.
    let _ = stop.send(());
    running.await??;
    println!("the controller has ended");
    Ok(())
}

/// Returns the Deployment of a Foo, owned by it: it is deleted with the Foo, and its changes cause a reconcile.
fn deployment_of(foo: &Obj<Foo>, key: &ObjectKey, spec: &FooSpec) -> Result<Deployment, ReconcileError> {
    let labels = json!({"foo": foo.uid()});
    let mut deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": key.name(), "namespace": key.namespace()},
        "spec": {
            "replicas": spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "nginx", "image": "nginx"}]}}
        }
    }))?;
    set_controller_reference(&mut deployment, foo)?;
    Ok(deployment)
}

#[cfg(test)]
#[path = "controller/simulation.rs"]
mod simulation;
