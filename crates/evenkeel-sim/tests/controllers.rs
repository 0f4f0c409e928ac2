//! Controllers in simulation: correct ones pass, and the mistakes of wrong ones are found.

use std::time::Duration;

use evenkeel::helpers::{is_controlled_by, set_controller_reference};
use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use evenkeel::prelude::*;
use evenkeel_sim::{ClusterState, Process, Scenario, TraceLine, Workload};
use serde_json::json;

const RESYNC: Duration = Duration::from_secs(5 * 60);

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Creates a Secret for every ConfigMap: the usual controller with one child.
async fn mirror(map: Obj<ConfigMap>, ctx: Context) -> Result<Next, ReconcileError> {
    match ctx.lister::<Secret>()?.get(map.key()) {
        Some(secret) if is_controlled_by(&secret, &map) => {}
        Some(_) => return Err(ReconcileError::new("another owner")),
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
    // A Secret that was created and deleted while the watch was silent is in no event: only a resync shows that it is missing.
    let controller = Controller::<ConfigMap>::new(process.client()).owns::<Secret>().concurrency(2).resync(RESYNC);
    Ok(controller.run(process.shutdown(), mirror).await?)
}

fn map(name: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})
}

async fn create_and_delete(workload: Workload) -> Outcome {
    let maps = workload.client().core_v1().config_maps("default");
    let secrets = workload.client().core_v1().secrets("default");
    workload.pause().await;
    maps.create(&serde_json::from_value(map("green"))?).await?;
    workload.pause().await;
    // The controller creates it again.
    match secrets.delete("blue").await {
        Ok(_) => {}
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    workload.pause().await;
    maps.delete("red").await?;
    Ok(())
}

fn scenario() -> Scenario {
    let every_map_has_a_secret = |state: &ClusterState| {
        let missing = state.objects("configmaps").find(|map| {
            state
                .object("secrets", &format!("default/{}", map["metadata"]["name"].as_str().unwrap_or_default()))
                .is_none()
        });
        missing.map_or(Ok(()), |map| Err(format!("{} has none", map["metadata"]["name"])))
    };
    Scenario::new("mirror")
        .object(map("red"))
        .object(map("blue"))
        .process("controller", run_mirror)
        .workload(create_and_delete)
        .finally("every map has a secret", every_map_has_a_secret)
}

#[test]
fn wrk_2_a_correct_controller_survives_random_faults() {
    let report = scenario().check(50).unwrap();
    println!("{report}");
    assert_eq!(report.runs, 50);
    assert!(report.simulated > Duration::from_secs(50 * 1_800));
}

#[test]
fn sim_11_a_run_is_repeated_exactly() {
    for seed in 0..10 {
        let line = format!("seed={seed:#x}");
        let (first, second) = (scenario().replay(&line).unwrap(), scenario().replay(&line).unwrap());
        if first.trace.hash() != second.trace.hash() {
            let is_hashed = |line: &&TraceLine| !line.what.starts_with("logs: ");
            let lines = first.trace.lines().iter().filter(is_hashed).zip(second.trace.lines().iter().filter(is_hashed));
            let (number, (one, other)) = lines.enumerate().find(|(_, (one, other))| one != other).unwrap();
            panic!("seed {seed}, line {number}:\n{one}\n{other}");
        }
    }
}

#[test]
fn fau_2_no_fault_follows_the_last_one() {
    let mut with_faults = 0;
    for seed in 0..20 {
        let run = scenario().replay(&format!("seed={seed:#x}")).unwrap();
        let lines = run.trace.lines();
        let quiet = lines.iter().position(|line| line.what == "no more faults").unwrap();
        let is_fault = |line: &&TraceLine| {
            // What a request has met is in parentheses; what a process or the server does has these words.
            let words = ["(", "crashes", "paused", "jumps", "hangs", "restarts"];
            !line.what.starts_with("logs: ") && words.iter().any(|word| line.what.contains(word))
        };
        // What was slow before arrives within a minute.
        let end = lines[quiet].at + Duration::from_secs(60);
        with_faults += u64::from(lines[..quiet].iter().any(|line| is_fault(&line)));
        assert_eq!(lines.iter().filter(|line| line.at > end).find(is_fault), None, "seed {seed}");
    }
    assert!(with_faults > 10, "{with_faults} of 20 runs have faults");
}

#[test]
fn sim_13_a_scenario_that_fails_without_faults_fails_its_matrices() {
    let scenario = Scenario::new("no-set-up").object(json!({"apiVersion": "example.com/v1", "kind": "Missing"}));
    assert_eq!(scenario.crash_matrix().unwrap_err().failure().invariant, "set-up");
    assert_eq!(scenario.stale_matrix().unwrap_err().failure().invariant, "set-up");
}

#[test]
fn sim_14_the_restart_finds_the_replica_stuck() {
    let run = scenario().replay("stale=controller.1.2").unwrap();
    let place = |what: &str| run.trace.lines().iter().position(|line| line.what.contains(what));
    let restarted = run.trace.lines().iter().position(|line| line.process == "controller (life 2)").unwrap();
    assert!(place("lacks 2 revisions").unwrap() < restarted);
    assert!(restarted < place("the replica follows again").unwrap());
    assert!(scenario().replay("crash=other.1.before-commit").is_err());
}
