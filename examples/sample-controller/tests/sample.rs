//! The sample controller against an embedded API server, in virtual time. The tests simulate users, other clients and the
//! Deployment controller.
#![allow(missing_docs, clippy::unwrap_used, clippy::disallowed_names, reason = "in a test a panic is a finding")]

use evenkeel::apiserver::{ApiServer, ControllerTiming, Faults};
use evenkeel::cache::informer::ReflectorPhase;
use evenkeel::events::fake::{self, FakeEvents};
use evenkeel::helpers::set_controller_reference;
use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use evenkeel::prelude::*;
use evenkeel::testing::eventually;
use evenkeel_sample_controller::{CRD, Foo, FooSpec, FooStatus, SampleController};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

struct World {
    server: ApiServer,
    foos: Api<Foo>,
    deployments: Api<Deployment>,
    controller: SampleController,
    events: FakeEvents,
    shutdown: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

async fn world() -> World {
    // Some tests delete what the garbage collector would, at a moment of their own.
    let server = ApiServer::builder().in_process_only().garbage_collector(ControllerTiming::Off).start().await.unwrap();
    server.install_crds([Foo::crd()]).await.unwrap();
    let client = server.client();
    let informers = InformerFactory::builder(&client).build();
    let (recorder, events) = fake::recorder(1000);
    let controller = SampleController::new(&client, &informers, recorder).unwrap();
    let (shutdown, ended) = oneshot::channel::<()>();
    let running = tokio::spawn({
        let controller = controller.clone();
        async move { controller.run(2, async { drop(ended.await) }).await.unwrap() }
    });
    let foos = client.api::<Foo>().namespace("default");
    let deployments = client.api::<Deployment>().namespace("default");
    World { server, foos, deployments, controller, events, shutdown, running }
}

fn foo(name: &str, deployment: &str, replicas: i32) -> Foo {
    Foo::new(name, FooSpec { deployment_name: deployment.to_owned(), replicas })
}

impl World {
    /// Waits for a Deployment with this number of replicas that the Foo owns.
    async fn owned(&self, name: &str, replicas: i32, foo: &Obj<Foo>) -> Obj<Deployment> {
        let look = async || {
            let deployment = self.deployments.get(name).await.ok()?;
            let is_right = deployment.typed().unwrap().spec.replicas == Some(replicas)
                && deployment.controller().is_some_and(|owner| owner.uid == foo.uid());
            is_right.then_some(deployment)
        };
        eventually(format!("deployment {name} with {replicas} replicas"), look).await.unwrap()
    }

    async fn deleted(&self, name: &str) {
        let look = async || self.deployments.get(name).await.err().filter(evenkeel::Error::is_not_found);
        eventually(format!("deployment {name} is deleted"), look).await.unwrap();
    }

    /// Simulates the Deployment controller.
    async fn make_available(&self, name: &str, replicas: i32) {
        let status = json!({"status": {"replicas": replicas, "availableReplicas": replicas}});
        self.deployments.status().patch(name, &Patch::merge(&status)).await.unwrap();
    }

    async fn status(&self, name: &str, wanted: &FooStatus) {
        let look = async || {
            let foo = self.foos.get(name).await.ok()?.typed().unwrap();
            (foo.status.as_ref() == Some(wanted)).then_some(())
        };
        eventually(format!("foo {name} reports {wanted:?}"), look).await.unwrap();
    }

    async fn scale(&self, name: &str, replicas: i32) {
        self.foos.patch(name, &Patch::merge(&json!({"spec": {"replicas": replicas}}))).await.unwrap();
    }

    /// Waits until no work is left, now or delayed.
    async fn quiet(&self) {
        let look = async || {
            let stats = self.controller.queue().stats();
            (stats.depth + stats.in_flight + stats.delayed == 0).then_some(())
        };
        eventually("the controller has nothing to do", look).await.unwrap();
    }

    async fn end(self) {
        self.shutdown.send(()).unwrap();
        self.running.await.unwrap();
    }
}

fn available(replicas: i32, generation: i64) -> FooStatus {
    FooStatus { available_replicas: replicas, observed_generation: Some(generation) }
}

#[tokio::test(start_paused = true)]
async fn a_foo_has_a_deployment_and_reports_its_available_replicas() {
    let mut world = world().await;
    let foo = world.foos.create(&foo("example", "web", 3)).await.unwrap();
    world.owned("web", 3, &foo).await;
    world.status("example", &available(0, 1)).await;
    world.make_available("web", 3).await;
    world.status("example", &available(3, 1)).await;
    world.scale("example", 5).await;
    world.owned("web", 5, &foo).await;
    world.status("example", &available(3, 2)).await;
    world.quiet().await;
    let lines = world.events.lines();
    assert!(lines.iter().all(|line| line == "Normal Synced Foo synced successfully"), "{lines:?}");
    assert!(lines.len() >= 3, "{lines:?}");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn changes_of_other_clients_to_the_deployment_are_undone() {
    let world = world().await;
    let foo = world.foos.create(&foo("example", "web", 2)).await.unwrap();
    let first = world.owned("web", 2, &foo).await;
    world.deployments.patch("web", &Patch::merge(&json!({"spec": {"replicas": 9}}))).await.unwrap();
    world.owned("web", 2, &foo).await;
    world.deployments.delete("web").await.unwrap();
    let second = world.owned("web", 2, &foo).await;
    assert_ne!(first.uid(), second.uid());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_of_another_owner_stays_unchanged_and_its_name_is_used_once_it_is_deleted() {
    let mut world = world().await;
    let foreign: Deployment = serde_json::from_value(foreign("web")).unwrap();
    let foreign = world.deployments.create(&foreign).await.unwrap();
    let foo = world.foos.create(&foo("example", "web", 2)).await.unwrap();
    let warned = async || world.events.lines().into_iter().find(|line| line.starts_with("Warning"));
    let warning = eventually("a warning", warned).await.unwrap();
    assert_eq!(warning, "Warning ErrResourceExists Deployment \"web\" already exists and is not managed by Foo");
    let seen = world.deployments.get("web").await.unwrap();
    assert_eq!(seen.resource_version(), foreign.resource_version(), "it is unchanged");

    // By now the backoff is long. The deletion of the Deployment causes the next reconcile.
    let failing = async || (world.controller.queue().failures(foo.key()) >= 11).then_some(());
    eventually("the Foo has failed often", failing).await.unwrap();
    let before = tokio::time::Instant::now();
    world.deployments.delete("web").await.unwrap();
    world.owned("web", 2, &foo).await;
    assert!(before.elapsed() < std::time::Duration::from_secs(5), "in virtual time: {:?}", before.elapsed());
    world.quiet().await;
    assert_eq!(world.controller.queue().failures(foo.key()), 0);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_renamed_deployment_is_created_before_the_old_one_is_deleted() {
    let world = world().await;
    world.deployments.create(&serde_json::from_value(foreign("taken")).unwrap()).await.unwrap();
    let foo = world.foos.create(&foo("example", "old", 2)).await.unwrap();
    world.owned("old", 2, &foo).await;

    let rename = |name: &str| Patch::merge(&json!({"spec": {"deploymentName": name}}));
    world.foos.patch("example", &rename("taken")).await.unwrap();
    let failing = async || (world.controller.queue().failures(foo.key()) >= 3).then_some(());
    eventually("the name is taken", failing).await.unwrap();
    world.owned("old", 2, &foo).await;

    world.foos.patch("example", &rename("new")).await.unwrap();
    world.owned("new", 2, &foo).await;
    world.deleted("old").await;
    assert!(world.deployments.get("taken").await.unwrap().controller().is_none());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_based_on_a_stale_cache() {
    let world = world().await;
    world.server.faults().drop_watch_after(1);
    let foo = world.foos.create(&foo("example", "old", 1)).await.unwrap();
    world.owned("old", 1, &foo).await;
    world.quiet().await;

    // From here on the controller receives no events of Foos, only of Deployments.
    world.server.faults().add(Faults::parse("status:code=503,watches=true,resource=foos").unwrap());
    let rename = Patch::merge(&json!({"spec": {"deploymentName": "new"}}));
    world.foos.patch("example", &Patch::merge(&json!({"metadata": {"labels": {"last": "seen"}}}))).await.unwrap();
    let is_deaf = async || {
        matches!(world.controller.foos().status().reflector.phase, ReflectorPhase::Waiting { .. }).then_some(())
    };
    eventually("the watch of Foos is down", is_deaf).await.unwrap();
    world.foos.patch("example", &rename).await.unwrap();
    // Another controller, which has newer Foos, has created this.
    let mut new = foreign("new");
    new["metadata"]["namespace"] = "default".into();
    let mut new: Deployment = serde_json::from_value(new).unwrap();
    set_controller_reference(&mut new, &foo).unwrap();
    let new = world.deployments.create(&new).await.unwrap();
    let looked = async || world.controller.deployments().indexer().get("default/new");
    eventually("the controller has received it", looked).await.unwrap();
    world.quiet().await;
    assert_eq!(world.deployments.get("new").await.unwrap().uid(), new.uid(), "it was not this controller's to delete");

    world.server.faults().clear();
    world.deleted("old").await;
    assert_eq!(world.deployments.get("new").await.unwrap().uid(), new.uid());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_recreated_foo_takes_over_once_the_old_deployment_is_deleted() {
    let world = world().await;
    let first = world.foos.create(&foo("example", "web", 1)).await.unwrap();
    world.owned("web", 1, &first).await;
    world.foos.delete("example").await.unwrap();
    let second = world.foos.create(&foo("example", "web", 2)).await.unwrap();
    let failing = async || (world.controller.queue().failures(second.key()) >= 1).then_some(());
    eventually("the name is still taken", failing).await.unwrap();
    // Simulates the garbage collector.
    world.deployments.delete("web").await.unwrap();
    world.owned("web", 2, &second).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_for_a_deleted_or_deleting_foo() {
    let world = world().await;
    let mut going = foo("going", "going", 1);
    going.metadata.finalizers = Some(vec!["example.com/wait".to_owned()]);
    let going = world.foos.create(&going).await.unwrap();
    world.owned("going", 1, &going).await;
    world.foos.delete("going").await.unwrap();
    world.quiet().await;
    // Simulates the garbage collector.
    world.deployments.delete("going").await.unwrap();
    let received = async || world.controller.deployments().indexer().get("default/going").is_none().then_some(());
    eventually("the controller has received the delete of the deployment", received).await.unwrap();
    world.quiet().await;
    assert!(world.deployments.get("going").await.unwrap_err().is_not_found());
    world.foos.patch("going", &Patch::merge(&json!({"metadata": {"finalizers": null}}))).await.unwrap();
    let received = async || world.controller.foos().indexer().get("default/going").is_none().then_some(());
    eventually("the controller has received the delete of the Foo", received).await.unwrap();
    world.quiet().await;
    assert!(world.deployments.get("going").await.unwrap_err().is_not_found());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn changes_while_the_watches_are_down_are_reconciled_afterwards() {
    let world = world().await;
    world.server.faults().drop_watch_after(1);
    let kept = world.foos.create(&foo("kept", "kept", 1)).await.unwrap();
    world.owned("kept", 1, &kept).await;
    world.quiet().await;

    // Every open watch ends with its next event, and new ones are refused.
    world.server.faults().add(Faults::parse("status:code=503,watches=true").unwrap());
    world.scale("kept", 4).await;
    world.deployments.delete("kept").await.unwrap();
    let ended = async || {
        let is_waiting = |phase| matches!(phase, ReflectorPhase::Waiting { .. });
        let statuses = [world.controller.foos().status(), world.controller.deployments().status()];
        statuses.iter().all(|status| is_waiting(status.reflector.phase)).then_some(())
    };
    eventually("both watches are down", ended).await.unwrap();
    let new = world.foos.create(&foo("new", "new", 2)).await.unwrap();
    world.scale("kept", 5).await;
    // Watches are accepted again, but cannot resume: the informers relist.
    world.server.faults().compact_now();
    world.server.faults().clear();
    world.owned("kept", 5, &kept).await;
    world.owned("new", 2, &new).await;
    assert!(world.controller.foos().status().reflector.lists > 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_definition_has_limits_and_defaults() {
    let world = world().await;
    let foos = &world.foos;
    let info = foos.resource();
    let raw = world.server.client().dynamic(info).namespace("default");
    let create = async |spec: Value| {
        let foo = json!({"apiVersion": info.api_version(), "kind": "Foo", "metadata": {"name": "a"}, "spec": spec});
        raw.create(&serde_json::from_value(foo).unwrap()).await
    };
    let wrong = [
        json!({}),
        json!({"deploymentName": ""}),
        json!({"deploymentName": "a..b"}),
        json!({"deploymentName": "a", "replicas": -1}),
    ];
    for spec in wrong {
        assert!(create(spec.clone()).await.unwrap_err().is_invalid(), "{spec}");
    }
    create(json!({"deploymentName": "a"})).await.unwrap();
    assert_eq!(
        foos.get("a").await.unwrap().typed().unwrap().spec,
        FooSpec { deployment_name: "a".into(), replicas: 1 }
    );
    world.end().await;
}

fn foreign(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "app", "image": "httpd"}]}
            }
        }
    })
}

#[test]
fn the_manifest_is_the_definition_of_the_type() {
    let manifest: CustomResourceDefinition = serde_saphyr::from_str(CRD).unwrap();
    let text = serde_json::to_string_pretty(&Foo::crd()).unwrap();
    assert_eq!(manifest, Foo::crd(), "update manifests/crd.yaml: {text}");
}
