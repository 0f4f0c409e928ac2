//! What counts as a write while the cluster should be stable.
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::time::Duration;

use evenkeel::prelude::*;
use evenkeel_sim::{Process, Run, Scenario};
use serde_json::{Value, json};
use tokio::time::sleep;

/// A process that sends the same patch of a ConfigMap every minute.
fn patching(name: &'static str, patch: Value) -> Run {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map", "namespace": "default"}});
    let main = move |process: Process| {
        let patch = patch.clone();
        async move {
            let maps = process.client().core_v1().config_maps("default");
            let patches = async {
                loop {
                    let _ = maps.patch(name, &Patch::merge(&patch)).await;
                    sleep(Duration::from_secs(60)).await;
                }
            };
            tokio::select! {
                biased;
                () = process.shutdown() => Ok(()),
                () = patches => Ok(()),
            }
        }
    };
    Scenario::new("patching").object(map).process("patcher", main).replay("tape=plain").unwrap()
}

fn invariant(run: &Run) -> Option<&str> {
    run.failure.as_ref().map(|failure| failure.invariant.as_str())
}

#[test]
fn a_patch_without_effect_is_no_unrest() {
    let run = patching("map", json!({"data": {"a": "b"}}));
    assert_eq!(invariant(&run), None, "{}", run.trace);
    let patches = run.trace.lines().iter().filter(|line| line.what.starts_with("patch ")).count();
    assert!(patches >= 25, "{patches}");
}

#[test]
fn a_patch_that_fails_is_unrest() {
    assert_eq!(invariant(&patching("other", json!({"data": {"a": "b"}}))), Some("stable"));
}
