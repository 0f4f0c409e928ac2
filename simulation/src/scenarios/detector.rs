//! An informer that compares its cache with the server (INV-18).

use std::time::Duration;

use evenkeel::cache::informer::ConsistencyOutcome;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;
use evenkeel_sim::{Process, Scenario};
use tokio::time::sleep;

use super::Outcome;
use super::informer::churn;

/// The time between two comparisons.
const INTERVAL: Duration = Duration::from_secs(10);

/// An informer of the selected ConfigMaps. Its detector must report nothing: all legal faults leave the cache as the server was at its
/// version.
async fn compare(process: Process) -> Outcome {
    let informers = InformerFactory::builder(process.client()).labels("selected=yes").build();
    let maps = informers.of::<ConfigMap>();
    let running = informers.start();
    let comparing = async {
        loop {
            sleep(INTERVAL).await;
            let report = maps.check_consistency().await;
            process.note(report.to_string());
            if let ConsistencyOutcome::Inconsistent { .. } = report.outcome {
                process.fail("consistency detector", report.to_string());
            }
        }
    };
    tokio::select! {
        biased;
        () = process.shutdown() => {}
        () = comparing => {}
    }
    running.stop().await;
    Ok(())
}

/// An informer whose cache is compared with the server at its version, again and again.
pub fn detector() -> Scenario {
    Scenario::new("detector")
        .process("watcher", compare)
        .workload(churn)
        .settle_within(Duration::from_secs(60))
        .stable_for(Duration::from_secs(1))
        .compare_final_state(false)
}
