//! The controller in simulation: crashes at every write, restarts onto old replicas, random faults.

use evenkeel_sim::{ClusterState, Process, Scenario, Workload};
use serde_json::{Value, json};

use super::*;

fn set(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}},
        },
    })
}

/// Removes the label, replaces all labels, and deletes and creates sets.
async fn change(workload: Workload) -> Outcome {
    let sets = workload.client().api::<ReplicaSet>().namespace("default");
    workload.pause().await;
    sets.patch("blue", &Patch::merge(&json!({"metadata": {"labels": {"hello": null, "tier": "web"}}}))).await?;
    workload.pause().await;
    sets.patch("blue", &Patch::merge(&json!({"metadata": {"labels": null}}))).await?;
    sets.delete("red").await?;
    workload.pause().await;
    sets.create(&serde_json::from_value(set("red"))?).await?;
    Ok(())
}

fn sets_are_labelled(state: &ClusterState) -> Result<(), String> {
    let missing = state.objects("replicasets").find(|set| set["metadata"]["labels"]["hello"] != "world");
    missing.map_or(Ok(()), |set| Err(format!("{} has no label", set["metadata"]["name"])))
}

fn scenario() -> Scenario {
    Scenario::new("builtins")
        .object(set("red"))
        .object(set("blue"))
        .process("manager", |process: Process| async move {
            let webhooks = WebhookServer::builder().address("0"); // off
            Ok(program(process.client(), webhooks)?.run(process.shutdown()).await?)
        })
        .workload(change)
        .finally("sets are labelled", sets_are_labelled)
}

#[test]
fn a_crash_at_any_write_is_survived() -> Outcome {
    let report = scenario().crash_matrix()?;
    assert!(report.runs >= 10, "{report}");
    Ok(())
}

#[test]
fn a_restart_onto_an_old_replica_is_survived() -> Outcome {
    let report = scenario().stale_matrix()?;
    assert!(report.runs >= 19, "{report}");
    Ok(())
}

#[test]
fn wrk_12_random_faults_are_survived() -> Outcome {
    let report = scenario().check(40)?;
    assert_eq!(report.runs, 40);
    Ok(())
}
