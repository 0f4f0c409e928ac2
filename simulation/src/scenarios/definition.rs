//! A CustomResourceDefinition that is changed, deleted and created again while an informer watches its objects (F-33).

use std::sync::Arc;
use std::time::Duration;

use evenkeel::client::Error;
use evenkeel::prelude::*;
use evenkeel::{ResourceInfo, Unstructured};
use evenkeel_sim::{Process, Scenario, Workload};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Outcome;

const GROUP: &str = "sim.evenkeel.dev";

fn widgets() -> Arc<ResourceInfo> {
    Arc::new(ResourceInfo::new(GROUP, "v1", "Widget", "widgets", true))
}

fn definitions() -> Arc<ResourceInfo> {
    let (kind, plural) = ("CustomResourceDefinition", "customresourcedefinitions");
    Arc::new(ResourceInfo::new("apiextensions.k8s.io", "v1", kind, plural, false))
}

/// Returns the versions of the definition; objects are stored in one of them.
fn versions(stored: &str) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = |name: &str| json!({"name": name, "served": true, "storage": name == stored, "schema": schema});
    json!([version("v1"), version("v2")])
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": versions("v1"),
        }
    })
}

fn widget(name: &str) -> Unstructured {
    let metadata = json!({"name": name, "namespace": "default"});
    Unstructured::from(json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Widget", "metadata": metadata}))
}

/// Switches the stored version, deletes the definition with its objects, and creates both again.
async fn redefine(workload: Workload) -> Outcome {
    let name = format!("widgets.{GROUP}");
    let definitions = workload.client().dynamic(&definitions());
    let widgets = workload.client().dynamic(&widgets()).namespace("default");
    for name in ["one", "two"] {
        widgets.create(&widget(name)).await?;
    }
    workload.pause().await;
    definitions.patch(&name, &Patch::merge(&json!({"spec": {"versions": versions("v2")}}))).await?;
    widgets.create(&widget("three")).await?;
    workload.pause().await;
    definitions.delete(&name).await?;
    while !is_gone(definitions.get(&name).await)? {
        sleep(Duration::from_secs(1)).await;
    }
    workload.pause().await;
    definitions.create(&Unstructured::from(definition())).await?;
    for name in ["two", "four"] {
        // The new definition is served a moment after it was created.
        while is_gone(widgets.create(&widget(name)).await)? {
            sleep(Duration::from_secs(1)).await;
        }
        workload.pause().await;
    }
    Ok(())
}

fn is_gone<T>(response: Result<T, Error>) -> Result<bool, Error> {
    match response {
        Ok(_) => Ok(false),
        Err(error) if error.is_not_found() => Ok(true),
        Err(error) => Err(error),
    }
}

/// An informer of the widgets, which must have those of the new definition in the end (INV-1).
async fn watch_widgets(process: Process) -> Outcome {
    let informers = InformerFactory::builder(process.client()).build();
    let widgets = informers.dynamic(&widgets());
    let running = informers.start();
    process.shutdown().await;
    let line = |widget: &Obj<Unstructured>| format!("{} {} {}", widget.key(), widget.uid(), widget.resource_version());
    let listed = process.client().dynamic(widgets.resource()).list(&ListParams::default()).await?;
    let mut expected: Vec<String> = listed.iter().map(line).collect();
    let mut cached: Vec<String> = widgets.indexer().list().iter().map(line).collect();
    expected.sort();
    cached.sort();
    if cached != expected {
        process.fail("convergence", format!("the cache has {cached:?}, the server has {expected:?}"));
    }
    running.stop().await;
    Ok(())
}

/// An informer of custom resources whose definition is changed, deleted and created again.
pub fn redefined() -> Scenario {
    Scenario::new("definition")
        .definition(definition())
        .process("watcher", watch_widgets)
        .workload(redefine)
        .stable_for(Duration::from_secs(1))
        .compare_final_state(false)
}
