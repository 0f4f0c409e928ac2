//! Writes of a client: increments that others make too, and creations whose names the server chooses (WRK-1).

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel::client::{Error, create_or_update};
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;
use evenkeel_sim::{ClusterState, Process, Scenario};
use serde_json::json;
use tokio::time::sleep;

use super::Outcome;
use super::request_observer::{RequestTimes, observed};

const NAMESPACE: &str = "default";
/// The name of the invariant of writes (INV-14).
const INTENDED: &str = "exactly the intended effect";
/// The object that all processes count in.
const COUNTS: &str = "counts";
const INCREMENTS: u32 = 25;
const CREATIONS: u32 = 25;

/// What one life of a process knows about its own count.
struct OwnCount {
    key: String,
    /// Increments that the server has acknowledged.
    certain: u32,
    /// Increments without an answer: each was done or not.
    unclear: u32,
}

impl OwnCount {
    /// Compares with the count that the server has, which no one else writes.
    fn observe(&mut self, process: &Process, map: &ConfigMap) -> u32 {
        let found = map.data.as_ref().and_then(|data| data.get(&self.key)?.parse().ok()).unwrap_or_default();
        let OwnCount { key, certain, unclear } = &*self;
        if !(*certain..=certain + unclear).contains(&found) {
            let message =
                format!("the count of {key} is {found} after {certain} increments and {unclear} without an answer");
            process.fail(INTENDED, message);
        }
        (self.certain, self.unclear) = (found, 0);
        found
    }

    async fn increment(&mut self, process: &Process, maps: &Api<ConfigMap>) -> Result<(), Error> {
        let named = named(COUNTS);
        let written = create_or_update(maps, &named, |map| {
            let found = self.observe(process, map);
            map.data.get_or_insert_default().insert(self.key.clone(), (found + 1).to_string());
        });
        match written.await {
            Ok(_) => self.certain += 1,
            Err(error) => {
                self.unclear += 1;
                return Err(error);
            }
        }
        Ok(())
    }
}

fn named(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map
}

/// Counts in an object in which another process counts, too.
async fn count(process: Process) -> Outcome {
    let maps = observed(&process, process.client().config().clone(), RequestTimes::new(&process))?
        .core_v1()
        .config_maps(NAMESPACE);
    let key = format!("{}-{}", process.name(), process.life());
    let mut own = OwnCount { key, certain: 0, unclear: 0 };
    for round in 1..=INCREMENTS {
        if let Err(error) = own.increment(&process, &maps).await {
            give_way(&error).await;
        }
        if round % 5 == 0 {
            sleep(Duration::from_secs(1)).await;
        }
    }
    process.shutdown().await;
    own.observe(&process, &*maps.get(COUNTS).await?.typed()?);
    Ok(())
}

/// Waits as long as the server has asked for.
async fn give_way(error: &Error) {
    sleep(error.suggests_delay().unwrap_or_default()).await;
}

/// Two processes that count in one object by optimistic updates.
pub fn counter() -> Scenario {
    Scenario::new("counter")
        .object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": COUNTS, "namespace": NAMESPACE}}))
        .process("a", count)
        .process("b", count)
        .rough_for(Duration::from_secs(30))
        .settle_within(Duration::from_secs(5 * 60))
        .compare_final_state(false)
}

/// Creates objects, each with a label that says which creation it is of. It repeats no creation, because the server chooses the names.
async fn create(process: Process) -> Outcome {
    let maps = observed(&process, process.client().config().clone(), RequestTimes::new(&process))?
        .core_v1()
        .config_maps(NAMESPACE);
    let mut created = Vec::new();
    for number in 1..=CREATIONS {
        let creation = format!("{}-{}-{number}", process.name(), process.life());
        let map = json!({"metadata": {"generateName": "made-", "labels": {"creation": creation}}});
        match maps.create(&serde_json::from_value(map)?).await {
            Ok(_) => created.push(creation),
            Err(error) => give_way(&error).await,
        }
        sleep(Duration::from_millis(fastrand::u64(0..1_000))).await;
    }
    process.shutdown().await;
    for creation in created {
        let found = maps.list(&ListParams::default().labels(format!("creation={creation}"))).await?;
        if found.len() != 1 {
            process.fail(INTENDED, format!("creation {creation} was acknowledged, and {} objects exist", found.len()));
        }
    }
    Ok(())
}

fn one_object_per_creation(state: &ClusterState) -> Result<(), String> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for creation in state.objects("configmaps").filter_map(|map| map["metadata"]["labels"]["creation"].as_str()) {
        *counts.entry(creation).or_default() += 1;
    }
    let twice = counts.iter().find(|(_, count)| **count > 1);
    twice.map_or(Ok(()), |(creation, count)| Err(format!("creation {creation} has made {count} objects")))
}

/// A process that creates objects under names that the server chooses.
pub fn creator() -> Scenario {
    Scenario::new("creator")
        .process("creator", create)
        .finally(INTENDED, one_object_per_creation)
        .rough_for(Duration::from_secs(30))
        .settle_within(Duration::from_secs(5 * 60))
        .compare_final_state(false)
}
