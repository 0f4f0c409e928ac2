//! The controller in simulation: crashes at every write, restarts onto old replicas, random faults.

use evenkeel_sim::{ClusterState, Process, Scenario, Workload};
use serde_json::Value;

use super::*;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

fn foo(name: &str, replicas: i32) -> Value {
    json!({"apiVersion": "samplecontroller.example.com/v1alpha1", "kind": "Foo",
           "metadata": {"name": name, "namespace": "default"}, "spec": {"deploymentName": name, "replicas": replicas}})
}

/// Scales a Foo, deletes a Deployment and a Foo, and plays the Deployment controller once.
async fn change(workload: Workload) -> Outcome {
    let foos = workload.client().api::<Foo>().namespace("default");
    let deployments = workload.client().api::<Deployment>().namespace("default");
    workload.pause().await;
    foos.patch("blue", &Patch::merge(&json!({"spec": {"replicas": 3}}))).await?;
    workload.pause().await;
    match deployments.delete("blue").await {
        Ok(_) => {}
        // Crashes have delayed its creation.
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    workload.pause().await;
    foos.delete("red").await?;
    workload.pause().await;
    foos.create(&serde_json::from_value(foo("green", 1))?).await?;
    // Longer than any fault lasts: the Deployment is there.
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    let available = Patch::merge(&json!({"status": {"replicas": 1, "availableReplicas": 1}}));
    deployments.status().patch("green", &available).await?;
    Ok(())
}

/// Every Foo has its Deployment, and reports it.
fn foos_are_deployed(state: &ClusterState) -> Result<(), String> {
    for foo in state.objects("foos") {
        let name = foo["metadata"]["name"].as_str().unwrap_or_default();
        let deployment = state.object("deployments", &format!("default/{name}")).ok_or(format!("{name} has none"))?;
        if deployment["spec"]["replicas"] != foo["spec"]["replicas"] {
            return Err(format!("{name} has {} replicas", deployment["spec"]["replicas"]));
        }
        let available = deployment["status"]["availableReplicas"].as_i64().unwrap_or(0);
        if foo["status"]["availableReplicas"].as_i64() != Some(available) {
            return Err(format!("{name} reports {}", foo["status"]));
        }
    }
    Ok(())
}

fn scenario() -> Result<Scenario, serde_json::Error> {
    Ok(Scenario::new("controller")
        .definition(serde_json::to_value(Foo::crd())?)
        .object(foo("red", 1))
        .object(foo("blue", 2))
        .process("controller", |process: Process| async move {
            let controller = Controller::<Foo>::new(process.client()).owns::<Deployment>().concurrency(4);
            Ok(controller.run(process.shutdown(), reconcile).await?)
        })
        .workload(change)
        .finally("foos are deployed", foos_are_deployed))
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
fn random_faults_are_survived() -> Outcome {
    let report = scenario()?.check(40)?;
    assert_eq!(report.runs, 40);
    Ok(())
}
