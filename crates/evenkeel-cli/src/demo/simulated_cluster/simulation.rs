//! The stand-in for a cluster, together with the sample controller, in simulation: crashes at every write and restarts onto old
//! replicas.

use evenkeel::events::fake;
use evenkeel::prelude::CustomResourceExt;
use evenkeel_sample_controller::SampleController;
use evenkeel_sim::{ClusterState, Process, Scenario, Workload};
use serde_json::Value;

use super::*;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn foo(name: &str, replicas: i32) -> Value {
    json!({"apiVersion": "samplecontroller.example.com/v1alpha1", "kind": "Foo",
           "metadata": {"name": name, "namespace": "default"}, "spec": {"deploymentName": name, "replicas": replicas}})
}

async fn run_controller(process: Process) -> Outcome {
    let informers = InformerFactory::builder(process.client()).build();
    let (recorder, _events) = fake::recorder(1_000);
    let controller = SampleController::new(process.client(), &informers, recorder)?;
    Ok(controller.run(2, process.shutdown()).await?)
}

async fn run_cluster(process: Process) -> Outcome {
    let cluster = Cluster::start(process.client(), Duration::from_millis(100))?;
    process.shutdown().await;
    cluster.stop().await;
    Ok(())
}

/// Scales, deletes and creates Foos.
async fn change_foos(workload: Workload) -> Outcome {
    let foos = workload.client().api::<Foo>().namespace("default");
    workload.pause().await;
    foos.patch("blue", &Patch::merge(&json!({"spec": {"replicas": 3}}))).await?;
    foos.delete("red").await?;
    workload.pause().await;
    foos.patch("blue", &Patch::merge(&json!({"spec": {"replicas": 1}}))).await?;
    foos.create(&serde_json::from_value(foo("red", 2))?).await?;
    workload.pause().await;
    foos.create(&serde_json::from_value(foo("green", 1))?).await?;
    foos.delete("green").await?;
    Ok(())
}

/// All Deployments are available and have their Foo, which reports them.
fn foos_are_available(state: &ClusterState) -> Result<(), String> {
    for deployment in state.objects("deployments") {
        let name = deployment["metadata"]["name"].as_str().unwrap_or_default();
        let foo = state.object("foos", &format!("default/{name}")).ok_or(format!("{name} has no Foo"))?;
        if deployment["status"]["availableReplicas"] != foo["spec"]["replicas"] {
            return Err(format!("{name} has {}", deployment["status"]));
        }
        if foo["status"]["availableReplicas"] != foo["spec"]["replicas"] {
            return Err(format!("{name} reports {}", foo["status"]));
        }
    }
    let (foos, deployments) = (state.objects("foos").count(), state.objects("deployments").count());
    if foos == deployments { Ok(()) } else { Err(format!("{foos} Foos have {deployments} Deployments")) }
}

fn scenario() -> Outcome<Scenario> {
    Ok(Scenario::new("demo-cluster")
        .definition(serde_json::to_value(Foo::crd())?)
        .object(foo("red", 1))
        .object(foo("blue", 2))
        .process("controller", run_controller)
        .process("cluster", run_cluster)
        .workload(change_foos)
        .finally("foos are available", foos_are_available))
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
    let report = scenario()?.check(60)?;
    assert_eq!(report.runs, 60, "{report}");
    Ok(())
}
