//! Runs the sample controller of the Kubernetes project: shared informers, listers and a rate-limited queue. Its code is in
//! `sample-controller/src`; this program gives it a cluster and observes it.
//!
//! ```text
//! cargo run -p evenkeel-examples --example sample_controller
//! ```
//!
//! A `Foo` owns a Deployment with a name and a number of replicas. In a cluster, Kubernetes would run its pods; this program
//! simulates that.
//!
//! In client-go: `kubernetes/sample-controller`. In kube-rs: its `controller` examples, and `controller.rs` beside this file.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]
#![allow(clippy::disallowed_names, reason = "foo is what a Foo is called")]

use std::error::Error;
use std::time::Duration;

use evenkeel::apiserver::ApiServer;
use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::prelude::*;
use evenkeel::testing::eventually;
use evenkeel_sample_controller::{Foo, FooSpec, SampleController};
use serde_json::json;
use tokio::sync::oneshot;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let server = ApiServer::start().await?;
    server.install_crds([Foo::crd()]).await?;
    let client = server.client();

    // All the code that a program needs to run it. In a program, use `shutdown_signal()?`.
    let informers = InformerFactory::builder(&client).resync(Duration::from_secs(30)).build();
    let recorder = EventRecorder::new(&client, "sample-controller");
    let controller = SampleController::new(&client, &informers, recorder.clone())?;
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn({
        let controller = controller.clone();
        async move { controller.run(2, async { drop(stopped.await) }).await }
    });

    let foos = client.api::<Foo>().namespace("default");
    let deployments = client.api::<Deployment>().namespace("default");
    let wanted = Foo::new("example-foo", FooSpec { deployment_name: "example".to_owned(), replicas: 2 });
    foos.create(&wanted).await?;
    let deployment = eventually("the Foo has a Deployment", async || deployments.get("example").await.ok()).await?;
    println!("a Foo was created, and the controller created deployment {}", deployment.key());
    assert!(deployment.controller().is_some_and(|owner| owner.kind == "Foo"));

    // Simulates the Deployment controller and the kubelets.
    let available = Patch::merge(&json!({"status": {"replicas": 2, "availableReplicas": 2}}));
    deployments.status().patch("example", &available).await?;
    let says_so = async || {
        let foo = foos.get("example-foo").await.ok()?;
        foo.path("status.availableReplicas").ok()??.as_i64().filter(|replicas| *replicas == 2)
    };
    let replicas = eventually("the Foo reports both replicas as available", says_so).await?;
    println!("its pods run, and the Foo reports availableReplicas: {replicas}");

    deployments.delete("example").await?;
    let another = async || deployments.get("example").await.ok().filter(|new| new.uid() != deployment.uid());
    eventually("the Deployment is created again", another).await?;
    println!("another client deleted the deployment, and the controller created it again");

    // Keys in flight are finished, informers stop, and events are written. If the controller has ended already, its result is
    // the error.
    let _ = stop.send(());
    running.await??;
    recorder.shutdown().within(Duration::from_secs(5)).await?;

    println!("what `kubectl describe foo example-foo` would show:");
    let events = client.events_v1().events("default").list(&ListParams::default()).await?;
    for event in &events {
        let event = event.typed()?;
        let times = event.series.as_ref().map_or(1, |series| series.count);
        let (reason, note) = (event.reason.as_deref().unwrap_or_default(), event.note.as_deref().unwrap_or_default());
        println!("  {reason}, {times} times: {note}");
        assert_eq!((reason, note), ("Synced", "Foo synced successfully"));
    }
    assert_eq!(events.len(), 1, "equal events are one, with a count");
    Ok(())
}
