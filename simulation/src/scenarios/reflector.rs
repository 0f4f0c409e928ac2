//! Informers whose first list and relists take different ways: WatchLists, lists from the cache of the server, and pages of the newest
//! state, in protobuf and in JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel::cache::informer::ReflectorPhase;
use evenkeel::cache::source::ApiSource;
use evenkeel::cache::{Event, InformerOptions, SharedInformer};
use evenkeel::client::Wire;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;
use evenkeel_sim::{Process, Scenario, Workload};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Outcome;
use super::budget::Budgeted;
use super::history::{Delivered, HandlerHistory};

/// The number of objects that are deleted while they are listed.
const FLEETING: u32 = 24;
/// The number of objects that change while they are listed, in the last pages.
const CHANGING: u32 = 3;
/// The number of lives after which a process that lists in pages runs until the end.
const SHORT_LIVES: u32 = 3;

/// How an informer gets its objects.
#[derive(Clone, Copy, Debug)]
struct Way {
    watch_list: bool,
    /// The first list is of the newest state, and lists have pages of two objects.
    in_pages: bool,
    wire: Wire,
    /// The number of objects that exist before the processes start, and that nothing changes.
    standing: u32,
}

const WATCH_LIST: Way = Way { watch_list: true, in_pages: false, wire: Wire::Protobuf, standing: 5 };

/// Creates objects, and changes, deletes or replaces some of them later.
async fn arrivals(workload: Workload) -> Outcome {
    let maps = workload.client().core_v1().config_maps("default");
    let map = |name: &str| serde_json::from_value::<ConfigMap>(json!({"metadata": {"name": name}}));
    for round in 0..30 {
        let name = format!("map-{}", workload.choose(1 + round));
        match workload.choose(4) {
            0 => drop(maps.delete(&name).await),
            1 => {
                let _ = maps.delete(&name).await;
                maps.create(&map(&name)?).await?;
            }
            2 => {
                let patch = json!({"data": {"round": format!("{round}")}});
                drop(maps.patch(&name, &Patch::merge(&patch)).await);
            }
            _ => {
                maps.create(&map(&format!("new-{round}"))?).await?;
            }
        }
        sleep(Duration::from_millis(u64::from(workload.choose(15_000)))).await;
    }
    Ok(())
}

/// Changes some objects and deletes others, while an informer reads its pages.
async fn turnover(workload: Workload) -> Outcome {
    let maps = workload.client().core_v1().config_maps("default");
    for number in 0..FLEETING {
        let (changed, last) = (workload.choose(CHANGING), FLEETING - 1);
        let patch = json!({"data": {"round": format!("{number}")}});
        maps.patch(&changing_name(changed), &Patch::merge(&patch)).await?;
        // From both ends, so that every page loses objects.
        let lost = if workload.choose(2) == 0 { number / 2 } else { last - number / 2 };
        drop(maps.delete(&fleeting_name(lost)).await);
        sleep(Duration::from_millis(u64::from(workload.choose(8_000)))).await;
    }
    Ok(())
}

/// Creates objects around the time at which the first watches end, which is five to ten minutes after their start.
async fn late_arrivals(workload: Workload) -> Outcome {
    let maps = workload.client().core_v1().config_maps("default");
    sleep(Duration::from_secs(290)).await;
    for round in 0..200 {
        let map = json!({"metadata": {"name": format!("late-{round}")}});
        maps.create(&serde_json::from_value(map)?).await?;
        sleep(Duration::from_millis(u64::from(workload.choose(3_000)))).await;
    }
    Ok(())
}

/// Reads the newest state, which needs several attempts while requests fail.
async fn read(process: &Process) -> (BTreeMap<String, Delivered>, u64) {
    let maps = process.client().core_v1().config_maps("default");
    loop {
        if let Ok(list) = maps.list(&ListParams::default()).await {
            let version = list.resource_version().as_str().parse().unwrap_or_default();
            return (list.into_iter().map(|map| (map.key().to_string(), Delivered::of(&map))).collect(), version);
        }
        sleep(Duration::from_secs(1)).await;
    }
}

async fn watch_maps(process: Process, way: Way) -> Outcome {
    // What this life knows of the cluster before its informer starts, as a process does that has written to it.
    let (_, known) = if way.in_pages { read(&process).await } else { Default::default() };
    let source = ApiSource::new(process.client().api::<ConfigMap>().wire(way.wire));
    let info = source.resource().clone();
    let mut options = InformerOptions::<ConfigMap>::new().watch_list(way.watch_list);
    if way.in_pages {
        options = options.consistent_restart(true).page_size(2);
    }
    let maps = SharedInformer::new(Budgeted::new(source, &process), &info, options);
    let history = HandlerHistory::new(&process);
    let handler = history.clone();
    let registration = maps.add_handler(move |event: Event<ConfigMap>| handler.observe(&event))?;
    let running = maps.start();
    let shutdown = process.shutdown();
    tokio::pin!(shutdown);
    tokio::select! {
        biased;
        () = &mut shutdown => process.fail("convergence", "the informer has not synced"),
        synced = registration.synced() => {
            synced?;
            check_sync(&process, way, &maps, &history, known);
            if way.in_pages && process.life() <= SHORT_LIVES {
                // Its first lists are what this way is about: it starts anew.
                sleep(Duration::from_secs(10)).await;
                running.stop().await;
                return Ok(());
            }
            shutdown.await;
            check_end(&process, &maps, &history).await;
        }
    }
    running.stop().await;
    Ok(())
}

/// The handler has received what has always existed, and the store is not older than what the process has read before (INV-6, INV-4).
///
/// A first list is used without an object whose name is unreadable, and another one follows.
fn check_sync(process: &Process, way: Way, maps: &SharedInformer<ConfigMap>, history: &HandlerHistory, known: u64) {
    let delivered = history.delivered();
    process.note(format!("has synced with {} objects", delivered.len()));
    let missing: Vec<_> = (0..way.standing)
        .map(standing_name)
        .filter(|name| !delivered.contains_key(&format!("default/{name}")))
        .collect();
    if !missing.is_empty() && maps.status().reflector.decode_failures == 0 {
        process.fail("has synced", format!("the handler has not received {missing:?}"));
    }
    let version: u64 = maps.indexer().resource_version().as_str().parse().unwrap_or_default();
    if version < known {
        process.fail("no time travel", format!("the first list is of version {version}, and {known} was read before"));
    }
}

/// Faults have stopped long ago, and nothing has changed since: cache and handler have what the server has, and the reflector does not
/// retry (INV-1, INV-3, INV-11).
async fn check_end(process: &Process, maps: &SharedInformer<ConfigMap>, history: &HandlerHistory) {
    let phase = maps.status().reflector.phase;
    let (expected, _) = read(process).await;
    let cached: BTreeMap<_, _> =
        maps.indexer().list().iter().map(|map| (map.key().to_string(), Delivered::of(map))).collect();
    if let Some(difference) = difference(&cached, &expected) {
        process.fail("convergence", format!("the cache differs from the server: {difference}"));
    }
    if let Some(difference) = difference(&history.delivered(), &expected) {
        process.fail("no lost delete", format!("what the handler knows differs from the server: {difference}"));
    }
    if let ReflectorPhase::Waiting { .. } = phase {
        process.fail("liveness", "the reflector still retries, long after the last fault");
    }
}

/// Returns how what is known differs from what exists.
fn difference(known: &BTreeMap<String, Delivered>, expected: &BTreeMap<String, Delivered>) -> Option<String> {
    let wrong = known.iter().filter(|(key, state)| expected.get(*key) != Some(*state)).collect::<Vec<_>>();
    let missing = expected.keys().filter(|key| !known.contains_key(*key)).collect::<Vec<_>>();
    (!wrong.is_empty() || !missing.is_empty()).then(|| format!("wrong: {wrong:?}, missing: {missing:?}"))
}

fn standing_name(number: u32) -> String {
    format!("standing-{number}")
}

fn fleeting_name(number: u32) -> String {
    format!("fleeting-{number:02}")
}

fn changing_name(number: u32) -> String {
    format!("z-changing-{number}")
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})
}

fn scenario(name: &str, way: Way) -> Scenario {
    let mut scenario = Scenario::new(name);
    for number in 0..way.standing {
        scenario = scenario.object(config_map(&standing_name(number)));
    }
    scenario
        .process("watcher", move |process| watch_maps(process, way))
        .workload(arrivals)
        .compare_final_state(false)
        .stable_for(Duration::from_secs(1))
}

/// An informer that starts with a WatchList, in protobuf.
pub fn watch_list() -> Scenario {
    scenario("watch-list", WATCH_LIST)
}

/// An informer that starts with a WatchList, in JSON.
pub fn json_watch() -> Scenario {
    scenario("json-watch", Way { wire: Wire::Json, ..WATCH_LIST })
}

/// An informer that starts with a list from the cache of the server.
pub fn cached_list() -> Scenario {
    // Some of its watches end after the last write.
    scenario("cached-list", Way { watch_list: false, ..WATCH_LIST }).rough_for(Duration::from_secs(600))
}

/// An informer that starts with the newest state, in pages.
pub fn paged_list() -> Scenario {
    let names = (0..FLEETING).map(fleeting_name).chain((0..CHANGING).map(changing_name));
    let scenario = scenario("paged-list", Way { watch_list: false, in_pages: true, ..WATCH_LIST });
    names.map(|name| config_map(&name)).fold(scenario, Scenario::object).workload(turnover)
}

/// An informer of a server whose versions get one digit longer.
pub fn longer_versions() -> Scenario {
    scenario("longer-versions", WATCH_LIST).first_revision(80)
}

/// An informer that starts before there is any object.
pub fn empty_start() -> Scenario {
    scenario("empty-start", Way { standing: 0, ..WATCH_LIST })
}

/// Informers whose watches end while there are many events.
pub fn busy_ends() -> Scenario {
    let scenario = scenario("busy-ends", WATCH_LIST).workload(late_arrivals).rough_for(Duration::from_secs(600));
    let others = ["second"];
    others
        .into_iter()
        .fold(scenario, |scenario, name| scenario.process(name, |process| watch_maps(process, WATCH_LIST)))
}
