//! The sample controller of the Kubernetes project at work: shared informers, listers and a rate-limited queue. Its code is in
//! `sample-controller/src`, and meant to be read; this program gives it a cluster and watches it.
//!
//! ```text
//! cargo run -p evenkeel-examples --example sample_controller
//! ```
//!
//! A `Foo` asks for a Deployment of a certain name and size. In a cluster, Kubernetes would make pods of it; here this program
//! plays that part.
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
use evenkeel_sample_controller::{CRD, Foo, FooSpec, SampleController};
use serde_json::json;
use tokio::sync::oneshot;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let server = ApiServer::start().await?;
    server.install_crds([CRD]).await?;
    let client = server.client();

    // All that a program has to write to run it. Elsewhere the sign to end is `shutdown_signal()?`.
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
    println!("a Foo was created, and the controller made deployment {}", deployment.key());
    assert!(deployment.controller().is_some_and(|owner| owner.kind == "Foo"));

    // The part of the deployment controller and the kubelets.
    let available = Patch::merge(&json!({"status": {"replicas": 2, "availableReplicas": 2}}));
    deployments.status().patch("example", &available).await?;
    let says_so = async || {
        let foo = foos.get("example-foo").await.ok()?;
        foo.path("status.availableReplicas").ok()??.as_i64().filter(|replicas| *replicas == 2)
    };
    let replicas = eventually("the Foo says that both replicas are available", says_so).await?;
    println!("its pods run, and the Foo says so: availableReplicas is {replicas}");

    deployments.delete("example").await?;
    let another = async || deployments.get("example").await.ok().filter(|new| new.uid() != deployment.uid());
    eventually("the Deployment comes back", another).await?;
    println!("somebody deleted the deployment, and the controller made another");

    // Keys in hand are finished, informers end, and what people should know is written. If the controller has ended already, its
    // result says why.
    let _ = stop.send(());
    running.await??;
    informers.shutdown().await;
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
