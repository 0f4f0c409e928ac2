//! A namespace that is deleted under its controller, and created again (F-34).

use std::time::Duration;

use evenkeel::helpers::{is_controlled_by, set_controller_reference};
use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use evenkeel::prelude::*;
use evenkeel_sim::{ClusterState, Process, Scenario, Workload};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Outcome;

const NAMESPACE: &str = "tenant";

/// Creates a Secret for every ConfigMap. In a namespace that terminates, the server refuses it.
async fn mirror(map: Obj<ConfigMap>, ctx: Context) -> Result<Next, ReconcileError> {
    // The Secret of a ConfigMap that only a stale cache still shows would be collected as garbage, and created again, without end.
    match ctx.api::<ConfigMap>().namespace(NAMESPACE).get(map.key().name()).await {
        Ok(current) if current.uid() == map.uid() => {}
        Err(error) if !error.is_not_found() => return Err(error.into()),
        _ => return Ok(Next::after(Duration::from_secs(5))),
    }
    match ctx.lister::<Secret>()?.get(map.key()) {
        Some(secret) if is_controlled_by(&secret, &map) => {}
        // The garbage collector deletes the Secret of a ConfigMap that is gone.
        Some(_) => return Ok(Next::after(Duration::from_secs(5))),
        None => {
            let mut secret = Secret::default();
            secret.metadata.name = Some(map.key().name().to_owned());
            secret.metadata.namespace = map.key().namespace().map(str::to_owned);
            set_controller_reference(&mut secret, &map)?;
            ctx.api::<Secret>().namespace(map.key().namespace().unwrap_or_default()).create(&secret).await?;
        }
    }
    Ok(Next::done())
}

async fn run_mirror(process: Process) -> Outcome {
    let controller = Controller::<ConfigMap>::new(process.client()).owns::<Secret>().concurrency(2);
    Ok(controller.run(process.shutdown(), mirror).await?)
}

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}})
}

/// Deletes the namespace while the controller may be at work there, and creates it again with some of the same names.
async fn delete_namespace(workload: Workload) -> Outcome {
    let (namespaces, maps) =
        (workload.client().core_v1().namespaces(), workload.client().core_v1().config_maps(NAMESPACE));
    workload.pause().await;
    maps.create(&serde_json::from_value(map("green"))?).await?;
    // The controller may not have seen it yet.
    sleep(Duration::from_millis(u64::from(workload.choose(20)))).await;
    namespaces.delete(NAMESPACE).await?;
    loop {
        match namespaces.get(NAMESPACE).await {
            Err(error) if error.is_not_found() => break,
            other => drop(other?),
        }
        sleep(Duration::from_secs(1)).await;
    }
    workload.pause().await;
    namespaces.create(&serde_json::from_value(namespace())?).await?;
    for name in ["blue", "white"] {
        maps.create(&serde_json::from_value(map(name))?).await?;
        workload.pause().await;
    }
    Ok(())
}

/// Returns the names of the objects of a resource in the namespace, sorted.
fn names(state: &ClusterState, resource: &str) -> Vec<String> {
    let text = |object: &Value, field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let inside = state.objects(resource).filter(|object| text(object, "namespace") == NAMESPACE);
    let mut names: Vec<String> = inside.map(|object| text(object, "name")).collect();
    names.sort();
    names
}

fn every_map_has_a_secret(state: &ClusterState) -> Result<(), String> {
    let (maps, secrets) = (names(state, "configmaps"), names(state, "secrets"));
    if maps == secrets { Ok(()) } else { Err(format!("there are Secrets {secrets:?} for ConfigMaps {maps:?}")) }
}

/// A controller whose namespace is deleted while it works, and created again.
pub fn terminating_namespace() -> Scenario {
    Scenario::new("namespace")
        .object(namespace())
        .object(map("red"))
        .object(map("blue"))
        .process("controller", run_mirror)
        .workload(delete_namespace)
        .finally("every map has a secret", every_map_has_a_secret)
}
