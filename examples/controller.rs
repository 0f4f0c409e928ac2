//! The sample controller once more, with the builder: what has to be watched is said in a line, and only the reconcile is left to
//! write.
//!
//! ```text
//! cargo run -p evenkeel-examples --example controller
//! ```
//!
//! Informers, handlers, the queue, workers, retries and an orderly end come with it; and a reconcile never sees a cache that is
//! behind what the last one of the same object wrote.
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
use evenkeel_sample_controller::{CRD, Foo, FooSpec, FooStatus};
use serde_json::json;
use tokio::sync::oneshot;

/// Makes the world as the Foo says. It does not matter why it is called, or how often.
async fn reconcile(foo: Obj<Foo>, ctx: Context) -> Result<Next, ReconcileError> {
    let spec = &foo.typed()?.spec;
    let namespace = foo.key().namespace().unwrap_or_default();
    let wanted = ObjectKey::namespaced(namespace, &spec.deployment_name);
    let deployments = ctx.api::<Deployment>().namespace(namespace);

    let deployment = match ctx.lister::<Deployment>()?.get(&wanted) {
        Some(deployment) if !is_controlled_by(&deployment, &foo) => {
            ctx.recorder().event(&foo, EventType::Warning, "NameTaken", format!("{wanted} is somebody else's"));
            // It comes back after its back-off; by then the name may be free.
            return Err(ReconcileError::new(format!("{wanted} is somebody else's")));
        }
        Some(deployment) if deployment.typed()?.spec.replicas == Some(spec.replicas) => deployment,
        Some(_) => {
            println!("  reconcile: {wanted} gets {} replicas", spec.replicas);
            let patch = Patch::merge(&json!({"spec": {"replicas": spec.replicas}}));
            deployments.patch(wanted.name(), &patch).await?
        }
        None => {
            println!("  reconcile: {wanted} is made");
            let deployment = deployments.create(&deployment_of(&foo, &wanted, spec)?).await?;
            ctx.recorder().event(&foo, EventType::Normal, "Created", format!("made {wanted}"));
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
    server.install_crds([CRD]).await?;
    let client = server.client();

    // Elsewhere the sign to end is `shutdown_signal()?`, and nothing has to be spawned.
    let (stop, stopped) = oneshot::channel::<()>();
    let controller = Controller::<Foo>::new(&client).owns::<Deployment>().concurrency(4);
    let running = tokio::spawn(controller.run(stopped, reconcile));

    let foos = client.api::<Foo>().namespace("default");
    let deployments = client.api::<Deployment>().namespace("default");
    println!("a user creates a Foo with two replicas");
    let foo = Foo::new("example-foo", FooSpec { deployment_name: "example".to_owned(), replicas: 2 });
    foos.create(&foo).await?;
    let first = eventually("there is a deployment", async || deployments.get("example").await.ok()).await?;

    // There is no controller of Deployments in this process, and there are no nodes: we play their part.
    println!("both come up");
    let available = Patch::merge(&json!({"status": {"replicas": 2, "availableReplicas": 2}}));
    deployments.status().patch("example", &available).await?;
    eventually("the Foo says so", async || {
        let foo = foos.get("example-foo").await.ok()?.typed().ok()?;
        foo.status.as_ref().filter(|status| status.available_replicas == 2).map(drop)
    })
    .await?;

    println!("the user wants three");
    foos.patch("example-foo", &Patch::merge(&json!({"spec": {"replicas": 3}}))).await?;
    eventually("the deployment has three replicas", async || {
        let deployment = deployments.get("example").await.ok()?.typed().ok()?;
        (deployment.spec.replicas == Some(3)).then_some(())
    })
    .await?;

    println!("somebody deletes the deployment");
    deployments.delete("example").await?;
    let another = async || deployments.get("example").await.ok().filter(|new| new.uid() != first.uid());
    eventually("there is another", another).await?;

    // Reconciles that run are finished; then nothing of the controller is left. If it has ended already, its result says why.
    let _ = stop.send(());
    running.await??;
    println!("the controller has ended");
    Ok(())
}

/// The Deployment that a Foo asks for, owned by it: so it goes with the Foo, and the Foo is reconciled when something happens to it.
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
