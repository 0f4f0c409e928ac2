//! Reads the state of the server, for the [check](super::verify).

use std::collections::BTreeSet;

use evenkeel::client::{Client, Error, ListParams};
use evenkeel::core::Obj;
use evenkeel_sample_controller as sample;
use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::core::v1::Event;

use super::plan::{FOREIGN, Intent, NAMESPACE};
use super::verify::{Deployment, Foo, ServerState};

/// Reason of events about taken names.
const TAKEN: &str = "ErrResourceExists";

/// Reads the state at one version: both lists have the same resource version. Returns none if that version was
/// compacted meanwhile.
pub(super) async fn read(client: &Client, intent: &Intent) -> Result<Option<ServerState>, Error> {
    let foos = client.api::<sample::Foo>().namespace(NAMESPACE).list(&ListParams::default()).await?;
    let same = ListParams::default().exactly_at(foos.meta.resource_version.to_string());
    let deployments = match client.api::<apps::Deployment>().namespace(NAMESPACE).list(&same).await {
        Ok(deployments) => deployments,
        Err(error) if error.is_expired() => return Ok(None),
        Err(error) => return Err(error),
    };
    let warned = if intent.conflicting.is_empty() { BTreeSet::new() } else { warned(client).await? };
    Ok(Some(ServerState {
        foos: foos.iter().map(foo).collect(),
        deployments: deployments.iter().map(deployment).collect(),
        warned,
    }))
}

async fn warned(client: &Client) -> Result<BTreeSet<String>, Error> {
    let events = client.api::<Event>().namespace(NAMESPACE);
    let events = events.list(&ListParams::default().fields(format!("reason={TAKEN}"))).await?;
    let name = |event: &Obj<Event>| text(event, "involvedObject.name");
    Ok(events.iter().filter_map(name).collect())
}

fn foo(foo: &Obj<sample::Foo>) -> Foo {
    Foo {
        name: foo.key().name().to_owned(),
        uid: foo.uid().to_owned(),
        generation: foo.generation().unwrap_or_default(),
        deployment: text(foo, "spec.deploymentName").unwrap_or_default(),
        replicas: number(foo, "spec.replicas").unwrap_or(1),
        available: number(foo, "status.availableReplicas"),
        observed: number(foo, "status.observedGeneration"),
    }
}

fn deployment(deployment: &Obj<apps::Deployment>) -> Deployment {
    let owner = deployment.controller().filter(|owner| owner.kind == "Foo");
    Deployment {
        name: deployment.key().name().to_owned(),
        owner: owner.map(|owner| (owner.name.to_owned(), owner.uid.to_owned())),
        replicas: number(deployment, "spec.replicas").unwrap_or(1),
        available: number(deployment, "status.availableReplicas").unwrap_or_default(),
        is_foreign: deployment.label(FOREIGN).is_some(),
    }
}

/// Reads a number without decoding the object.
fn number<K>(object: &Obj<K>, path: &str) -> Option<i64> {
    object.path(path).ok().flatten().and_then(|value| value.as_i64())
}

fn text<K>(object: &Obj<K>, path: &str) -> Option<String> {
    object.path(path).ok().flatten().map(|value| value.text().into_owned())
}
