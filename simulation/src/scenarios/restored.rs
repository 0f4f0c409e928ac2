//! An informer of a cluster that is restored from a backup (F-35, INV-1b).
//!
//! Resource versions go back, and are issued again for other changes. A watch from a version that the restored server has not reached
//! is refused, and the informer relists. Once the server has reached it, nothing in the API tells the two histories apart: only the
//! consistency check of the informer finds the difference.

use std::time::Duration;

use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;
use evenkeel_sim::{Fault, Process, Scenario};

use super::Outcome;
use super::informer::churn;

/// The time between two bookmarks of a watch.
const BOOKMARKS: Duration = Duration::from_secs(60);

async fn watch_maps(process: Process) -> Outcome {
    let informers =
        InformerFactory::builder(process.client()).labels("selected=yes").check_consistency(BOOKMARKS).build();
    let maps = informers.of::<ConfigMap>();
    let running = informers.start();
    process.shutdown().await;
    let line = |map: &Obj<ConfigMap>| format!("{} {} {}", map.key(), map.uid(), map.resource_version());
    let selected = ListParams::default().labels("selected=yes");
    let listed = process.client().core_v1().config_maps("default").list(&selected).await?;
    let mut expected: Vec<String> = listed.iter().map(line).collect();
    let mut cached: Vec<String> = maps.indexer().list().iter().map(line).collect();
    expected.sort();
    cached.sort();
    if cached != expected {
        process.fail("convergence", format!("the cache has {cached:?}, the server has {expected:?}"));
    }
    running.stop().await;
    Ok(())
}

/// An informer that must have the objects of a restored cluster within two periods of bookmarks.
pub fn restored() -> Scenario {
    // A silent watch is given up later; and a damaged byte of protobuf may go unnoticed until a relist.
    let lasts_longer = |fault: &Fault| {
        matches!(fault, Fault::WatchSilent | Fault::BookmarksOnly | Fault::NoBookmarks | Fault::WatchCorrupted)
    };
    let faults = Fault::ALL.into_iter().filter(|fault| !lasts_longer(fault));
    Scenario::new("restored")
        .process("watcher", watch_maps)
        .workload(churn)
        .faults(faults.chain([Fault::BackupRestored]))
        .settle_within(2 * BOOKMARKS)
        .stable_for(Duration::from_secs(1))
        .compare_final_state(false)
}
