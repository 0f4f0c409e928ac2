//! The reflector in simulation. It writes nothing, so there are no writes to crash at: crashes are among the random faults.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_sim::{Fault, Process, Scenario, Workload};
use serde_json::{Value, json};

use super::*;

fn node(name: &str, arch: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/arch": arch}}})
}

/// Creates, relabels and deletes nodes, some of which enter or leave the selection.
async fn change(workload: Workload) -> Outcome {
    let nodes = workload.client().api::<Node>();
    for round in 0..12 {
        let name = format!("node-{}", workload.choose(4));
        let arch = ["amd64", "arm64"][workload.choose(2) as usize];
        match workload.choose(4) {
            0 => drop(nodes.delete(&name).await),
            _ => {
                let labels = json!({"metadata": {"labels": {"kubernetes.io/arch": arch, "round": round.to_string()}}});
                if nodes.patch(&name, &Patch::merge(&labels)).await.is_err() {
                    nodes.create(&serde_json::from_value(node(&name, arch))?).await?;
                }
            }
        }
        workload.pause().await;
    }
    Ok(())
}

/// Reflects until the shutdown. Then the cache must have the nodes of the server, and each of them must have been seen.
async fn watch_nodes(process: Process) -> Outcome {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let saw = {
        let seen = Arc::clone(&seen);
        move |node: &Obj<Node>| _ = seen.lock().unwrap_or_else(PoisonError::into_inner).insert(node.key().to_string())
    };
    let informers = reflect(process.client(), saw)?;
    let (running, lister) = (informers.start(), informers.lister::<Node>());
    process.shutdown().await;
    let selected = ListParams::default().labels("kubernetes.io/arch=amd64");
    let list = process.client().api::<Node>().list(&selected).await?;
    let mut expected: Vec<String> = list.into_iter().map(|node| node.key().to_string()).collect();
    expected.sort();
    if names(&lister) != expected {
        process.fail("convergence", format!("the cache has {:?}, the server {expected:?}", names(&lister)));
    }
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(missed) = expected.iter().find(|name| !seen.contains(*name)) {
        process.fail("every node is seen", format!("{missed} was not"));
    }
    running.stop().await;
    Ok(())
}

#[test]
fn random_faults_are_survived() -> Outcome {
    let scenario = Scenario::new("node-reflector").object(node("node-0", "amd64")).process("reflector", watch_nodes);
    let report = scenario.workload(change).check(60)?;
    assert!(report.faults.contains_key(&Fault::Crash) && report.faults.contains_key(&Fault::StaleReplica), "{report}");
    Ok(())
}
