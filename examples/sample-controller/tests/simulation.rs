//! The sample controller in simulation: crashes at every write, restarts onto old replicas, random faults.

#![allow(clippy::disallowed_names, reason = "foo is what a Foo is called")]

use evenkeel::events::fake;
use evenkeel::prelude::*;
use evenkeel_sample_controller::{Foo, SampleController};
use evenkeel_sim::{ClusterState, Process, Scenario, Workload};
use serde_json::{Value, json};

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

fn foo(name: &str, deployment: &str, replicas: i32) -> Value {
    json!({"apiVersion": "samplecontroller.example.com/v1alpha1", "kind": "Foo",
           "metadata": {"name": name, "namespace": "default"},
           "spec": {"deploymentName": deployment, "replicas": replicas}})
}

async fn run_controller(process: Process) -> Outcome {
    let informers = InformerFactory::builder(process.client()).build();
    let (recorder, _events) = fake::recorder(1_000);
    let controller = SampleController::new(process.client(), &informers, recorder)?;
    Ok(controller.run(2, process.shutdown()).await?)
}

/// Scales, renames, deletes and creates Foos.
async fn change_foos(workload: Workload) -> Outcome {
    let foos = workload.client().api::<Foo>().namespace("default");
    workload.pause().await;
    foos.patch("blue", &Patch::merge(&json!({"spec": {"replicas": 3}}))).await?;
    workload.pause().await;
    foos.patch("blue", &Patch::merge(&json!({"spec": {"deploymentName": "renamed"}}))).await?;
    workload.pause().await;
    foos.create(&serde_json::from_value(foo("green", "green", 1))?).await?;
    workload.pause().await;
    foos.delete("red").await?;
    Ok(())
}

/// Every Foo owns the one Deployment that it names, with its replicas.
fn deployments_are_those_of_foos(state: &ClusterState) -> Result<(), String> {
    for foo in state.objects("foos") {
        let name = &foo["metadata"]["name"];
        let owned = |deployment: &&Value| deployment["metadata"]["ownerReferences"][0]["name"] == *name;
        let deployments: Vec<&Value> = state.objects("deployments").filter(owned).collect();
        let [deployment] = deployments.as_slice() else {
            return Err(format!("{name} has {} deployments", deployments.len()));
        };
        if deployment["metadata"]["name"] != foo["spec"]["deploymentName"]
            || deployment["spec"]["replicas"] != foo["spec"]["replicas"]
        {
            return Err(format!("{name} has {}", deployment["metadata"]["name"]));
        }
    }
    Ok(())
}

fn scenario() -> Result<Scenario, serde_json::Error> {
    Ok(Scenario::new("sample-controller")
        .definition(serde_json::to_value(Foo::crd())?)
        .object(foo("red", "red", 1))
        .object(foo("blue", "blue", 2))
        .process("controller", run_controller)
        .workload(change_foos)
        .finally("deployments are those of foos", deployments_are_those_of_foos))
}

#[test]
fn a_crash_at_any_write_is_survived() -> Result<(), Box<dyn std::error::Error>> {
    let report = scenario()?.crash_matrix()?;
    assert!(report.runs >= 15, "{report}");
    Ok(())
}

#[test]
fn a_restart_onto_an_old_replica_is_survived() -> Result<(), Box<dyn std::error::Error>> {
    let report = scenario()?.stale_matrix()?;
    assert!(report.runs >= 30, "{report}");
    Ok(())
}

#[test]
fn random_faults_are_survived() -> Result<(), Box<dyn std::error::Error>> {
    let report = scenario()?.check(40)?;
    assert_eq!(report.runs, 40);
    Ok(())
}
