//! The controller in simulation: crashes at every write, restarts onto old replicas, random faults.

use evenkeel_sim::{ClusterState, Process, Scenario, Workload};
use serde_json::{Value, json};

use super::*;

fn generator(name: &str, content: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "ConfigMapGenerator",
           "metadata": {"name": name, "namespace": "default"}, "spec": {"content": content}})
}

/// Changes, deletes and creates generators, and deletes and changes a ConfigMap behind the back of the controller.
async fn change(workload: Workload) -> Outcome {
    let generators = workload.client().api::<ConfigMapGenerator>().namespace("default");
    let maps = workload.client().api::<ConfigMap>().namespace("default");
    workload.pause().await;
    generators.patch("blue", &Patch::merge(&json!({"spec": {"content": "two"}}))).await?;
    workload.pause().await;
    for result in [maps.delete("blue").await.map(drop), generators.delete("red").await.map(drop)] {
        match result {
            Ok(()) => {}
            // Crashes have delayed its creation.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    workload.pause().await;
    generators.create(&serde_json::from_value(generator("green", "one"))?).await?;
    Ok(())
}

fn maps_are_those_of_generators(state: &ClusterState) -> Result<(), String> {
    for generator in state.objects("configmapgenerators") {
        let name = generator["metadata"]["name"].as_str().unwrap_or_default();
        let map = state.object("configmaps", &format!("default/{name}")).ok_or(format!("{name} has no map"))?;
        if map["data"]["content"] != generator["spec"]["content"] {
            return Err(format!("the map {name} has {}", map["data"]));
        }
    }
    Ok(())
}

fn scenario() -> Outcome<Scenario> {
    Ok(Scenario::new("configmap-generator")
        .definition(serde_json::to_value(ConfigMapGenerator::crd())?)
        .object(generator("red", "one"))
        .object(generator("blue", "one"))
        .process("controller", |process: Process| async move {
            let (controller, _reconcile_all) = program(process.client());
            Ok(controller.run(process.shutdown(), reconcile).await?)
        })
        .workload(change)
        .finally("maps are those of generators", maps_are_those_of_generators))
}

#[test]
fn a_crash_at_any_write_is_survived() -> Outcome {
    let report = scenario()?.crash_matrix()?;
    assert!(report.runs >= 10, "{report}");
    Ok(())
}

#[test]
fn a_restart_onto_an_old_replica_is_survived() -> Outcome {
    let report = scenario()?.stale_matrix()?;
    assert!(report.runs >= 19, "{report}");
    Ok(())
}

#[test]
fn wrk_12_random_faults_are_survived() -> Outcome {
    let report = scenario()?.check(40)?;
    assert_eq!(report.runs, 40);
    Ok(())
}
