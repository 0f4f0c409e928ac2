//! An informer: its cache and its notifications (WRK-8, WRK-9, WRK-10).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel::cache::Event;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;
use evenkeel_sim::{Process, Scenario, Workload};
use serde_json::json;
use tokio::time::sleep;

use super::Outcome;

/// Creates, changes, deletes and creates again a few objects, some of which leave the selection.
pub(super) async fn churn(workload: Workload) -> Outcome {
    let maps = workload.client().core_v1().config_maps("default");
    for round in 0..40 {
        let name = format!("map-{}", workload.choose(5));
        let selected = if workload.choose(4) == 0 { "no" } else { "yes" };
        let labels = json!({"selected": selected, "round": format!("{round}")});
        match workload.choose(4) {
            0 => drop(maps.delete(&name).await),
            _ => {
                let patch = Patch::merge(&json!({"metadata": {"labels": labels}}));
                if maps.patch(&name, &patch).await.is_err() {
                    let map = json!({"metadata": {"name": name, "labels": labels}});
                    maps.create(&serde_json::from_value(map)?).await?;
                }
            }
        }
        sleep(Duration::from_millis(u64::from(workload.choose(12_000)))).await;
    }
    Ok(())
}

/// What a handler has been told of each object: the uid and the version.
type Told = Arc<Mutex<BTreeMap<String, (String, u64)>>>;

/// Checks one notification against those before it (INV-2, INV-4).
fn observe(process: &Process, told: &Told, event: &Event<ConfigMap>) {
    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
    let key = event.key().to_string();
    let known = told.get(&key).cloned();
    let wrong = |message: String| process.fail("legal handler history", message);
    let version = |object: &Obj<ConfigMap>| object.resource_version().parse::<u64>().unwrap_or_default();
    match event {
        Event::Add { object: added, .. } => {
            if known.is_some() {
                wrong(format!("{key} is added twice"));
            }
            told.insert(key, (added.uid().to_owned(), version(added)));
        }
        Event::Update { old, new } => {
            match known {
                None => wrong(format!("{key} is updated and was not added")),
                Some((_, seen)) if seen != version(old) => {
                    wrong(format!("the old version of {key} is {}, and {seen} was delivered", version(old)));
                }
                Some((uid, seen)) if uid == new.uid() && version(new) < seen => {
                    process.fail("no time travel", format!("{key} goes back from {seen} to {}", version(new)));
                }
                Some(_) => {}
            }
            told.insert(key, (new.uid().to_owned(), version(new)));
        }
        Event::Delete(_) => {
            if told.remove(&key).is_none() {
                wrong(format!("{key} is deleted and was not added"));
            }
        }
    }
}

/// An informer of the selected ConfigMaps, whose cache and notifications are checked.
async fn watch_maps(process: Process) -> Outcome {
    let informers = InformerFactory::builder(process.client()).labels("selected=yes").build();
    let maps = informers.of::<ConfigMap>();
    let told = Told::default();
    let handler = {
        let (process, told) = (process.clone(), Arc::clone(&told));
        move |event: Event<ConfigMap>| observe(&process, &told, &event)
    };
    maps.add_handler(handler)?;
    let running = informers.start();
    informers.wait_for_sync().await?;
    process.note(format!("has synced with {} objects", maps.indexer().len()));
    process.shutdown().await;
    // Faults have stopped long ago, and nothing has changed since: the cache must be what the server has (INV-1, INV-3).
    let mut expected: Vec<String> = Vec::new();
    for map in
        process.client().core_v1().config_maps("default").list(&ListParams::default().labels("selected=yes")).await?
    {
        expected.push(format!("{} {} {}", map.key(), map.uid(), map.resource_version()));
    }
    let mut cached: Vec<String> = maps
        .indexer()
        .list()
        .iter()
        .map(|map| format!("{} {} {}", map.key(), map.uid(), map.resource_version()))
        .collect();
    expected.sort();
    cached.sort();
    if cached != expected {
        process.fail("convergence", format!("the cache has {cached:?}, the server has {expected:?}"));
    }
    let told: Vec<String> = told.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect();
    if told.len() != expected.len() {
        process.fail("no lost delete", format!("the handler knows {told:?}, the server has {expected:?}"));
    }
    running.stop().await;
    Ok(())
}

/// An informer whose objects come and go, enter and leave its selection, and are created again under the same name.
pub fn informer() -> Scenario {
    Scenario::new("informer").process("watcher", watch_maps).workload(churn)
}
