//! Watches read the shared history: no queues, one encoding, and an end for a watch that falls behind.

use std::time::Duration;

use evenkeel_apiserver::Faults;
use serde_json::json;
use tokio::time::Instant;

use crate::api::{Api, CONFIG_MAPS, METADATA, pass};
use crate::wire::{BINARY, BINARY_METADATA};

const INITIAL: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";

#[tokio::test(start_paused = true)]
async fn wat_22_sto_16_a_watch_behind_the_history_ends_and_others_continue() {
    let api = Api::with(|builder| builder.history(8)).await;
    let start = api.now().await;
    let mut slow = api.watch(&format!("{CONFIG_MAPS}?resourceVersion={start}")).await;
    let mut fast = api.watch(&format!("{CONFIG_MAPS}?resourceVersion={start}")).await;
    api.add("a", json!({})).await;
    for number in 0..20 {
        assert_eq!(fast.all_ready().len(), 1);
        api.touch("a", &number.to_string()).await;
    }
    assert!(slow.has_ended(), "with no error, as if the connection had been closed");
    assert_eq!(fast.all_ready().len(), 1);
    assert!(fast.is_silent());
}

#[tokio::test(start_paused = true)]
async fn wat_22_a_watch_without_matching_events_does_not_fall_behind() {
    let api = Api::with(|builder| builder.history(8)).await;
    api.add_namespace("busy").await;
    api.add("quiet", json!({})).await;
    let start = api.now().await;
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?resourceVersion={start}")).await;
    let waiting = tokio::spawn(async move { (watch.next().await, watch) });
    for number in 0..50 {
        api.add_to("busy", &format!("o{number}"), json!({})).await;
        // The watcher runs when it is woken.
        tokio::task::yield_now().await;
    }
    api.touch("quiet", "at last").await;
    let (event, _) = waiting.await.unwrap();
    assert_eq!(event.expect("the watch is open").to_string(), "MODIFIED quiet");
}

#[tokio::test(start_paused = true)]
async fn sto_20_initial_events_and_changes_have_no_gap() {
    let api = Api::start().await;
    for number in 0..300 {
        api.add(&format!("o{number:03}"), json!({})).await;
    }
    let mut watch = api.watch(CONFIG_MAPS).await;
    assert_eq!(watch.ready().unwrap().to_string(), "ADDED o000");
    // Events during the initial events are sent after them.
    api.remove("o299").await;
    api.add("later", json!({})).await;
    let mut rest = watch.all_ready();
    assert_eq!(rest.split_off(299), ["DELETED o299", "ADDED later"]);
    assert!(rest.is_sorted() && rest.iter().all(|event| event.starts_with("ADDED o")));
}

#[tokio::test(start_paused = true)]
async fn sto_20_wat_22_a_watch_too_slow_for_the_initial_events_is_closed() {
    let api = Api::with(|builder| builder.history(8)).await;
    for number in 0..300 {
        api.add(&format!("o{number:03}"), json!({})).await;
    }
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?{INITIAL}&allowWatchBookmarks=true")).await;
    watch.ready().unwrap();
    for number in 0..10 {
        api.touch("o000", &number.to_string()).await;
    }
    let rest = watch.all_ready();
    assert!(watch.has_ended() && rest.len() < 299, "{}", rest.len());
    assert!(!rest.contains(&"BOOKMARK".to_owned()), "incomplete initial events get no bookmark");
}

#[tokio::test(start_paused = true)]
async fn sto_18_watchers_share_one_encoding() {
    let api = Api::start().await;
    let start = api.now().await;
    let path = format!("{CONFIG_MAPS}?resourceVersion={start}");
    for accept in ["application/json", METADATA, BINARY, BINARY_METADATA] {
        let mut first = api.watch_as(accept, &path).await;
        let mut second = api.watch_as(accept, &path).await;
        if accept == "application/json" {
            api.add("a", json!({})).await;
        }
        let (one, other) = (first.frame().await, second.frame().await);
        assert_eq!(one, other);
        assert_eq!(one.as_ptr(), other.as_ptr(), "both watches share one allocation");
    }
}

#[tokio::test(start_paused = true)]
async fn sto_19_ready_events_are_returned_without_waiting() {
    let api = Api::start().await;
    let mut watch = api.watch(CONFIG_MAPS).await;
    assert!(watch.is_silent());
    let start = Instant::now();
    for number in 0..200 {
        api.add(&format!("o{number}"), json!({})).await;
    }
    assert_eq!(watch.all_ready().len(), 200);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn sto_23_a_replica_serves_reads_from_its_position_in_the_log() {
    let api = Api::start().await;
    let a = api.add("a", json!({})).await;
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?resourceVersion={a}")).await;
    api.faults().lag_replica(2);
    for name in ["b", "c", "d"] {
        api.add(name, json!({})).await;
    }
    assert_eq!(watch.all_ready(), ["ADDED b"], "watches receive what the replica has applied");
    let zero = api.list(&format!("{CONFIG_MAPS}?resourceVersion=0")).await;
    assert_eq!((zero.names(), zero.version()), (vec!["a", "b"], a + 1));
    assert_eq!(api.list(CONFIG_MAPS).await.names().len(), 4, "the present is the log's");
    let not_older = format!("{CONFIG_MAPS}?resourceVersion={}", a + 3);
    let (list, ()) = tokio::join!(api.list(&not_older), async {
        pass(1).await;
        api.faults().lag_replica(0);
    });
    assert_eq!(list.names().len(), 4, "not older than: the replica is waited for");
    assert_eq!(watch.all_ready(), ["ADDED c", "ADDED d"]);
}

#[tokio::test(start_paused = true)]
async fn sto_24_the_history_may_be_limited_by_age() {
    let api = Api::with(|builder| builder.history_age(Duration::from_secs(300))).await;
    let old = api.add("a", json!({})).await;
    api.add("b", json!({})).await;
    let path = format!("{CONFIG_MAPS}?resourceVersion={old}&resourceVersionMatch=Exact");
    pass(290).await;
    assert_eq!(api.get(&path).await.code, 200);
    pass(20).await;
    assert_eq!(api.get(&path).await.code, 410);
}

#[tokio::test(start_paused = true)]
async fn del_13_wat_22_a_watch_keeps_up_with_a_collection_delete() {
    let api = Api::with(|builder| builder.history(128)).await;
    let names: Vec<String> = (0..500).map(|number| format!("o{number:03}")).collect();
    for name in &names {
        api.add(name, json!({})).await;
    }
    let start = api.now().await;
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?resourceVersion={start}")).await;
    let watching = tokio::spawn(async move {
        let mut seen = Vec::new();
        while seen.len() < 500 {
            seen.push(watch.next().await.expect("the watch is open").to_string());
        }
        seen
    });
    tokio::task::yield_now().await;
    let deleted = api.delete(CONFIG_MAPS).await.ok();
    assert_eq!(deleted["items"].as_array().unwrap().len(), 500);
    let expected: Vec<String> = names.iter().map(|name| format!("DELETED {name}")).collect();
    assert_eq!(watching.await.unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn flt_5_rules_forget_history_and_lag_a_replica() {
    let api = Api::start().await;
    let start = api.now().await;
    api.add("a", json!({})).await;
    let watch = format!("{CONFIG_MAPS}?resourceVersion={start}");
    assert_eq!(api.watch(&watch).await.all_ready(), ["ADDED a"]);
    api.faults().add(Faults::parse("compact:watches=true,times=1").unwrap());
    assert_eq!(api.watch(&watch).await.ready().unwrap().kind, "ERROR", "the watch that it befalls expires");

    api.faults().add(Faults::parse("lag-replica:revisions=1,verb=create,times=1").unwrap());
    api.add("b", json!({})).await;
    assert_eq!(api.list(&format!("{CONFIG_MAPS}?resourceVersion=0")).await.names(), ["a"]);
    assert_eq!(api.list(CONFIG_MAPS).await.names(), ["a", "b"]);
    api.faults().lag_replica(0);

    let mut open = api.watch(&format!("{CONFIG_MAPS}?resourceVersion={}", api.now().await)).await;
    api.faults().add(Faults::parse("reset-history:verb=get,times=1").unwrap());
    api.get(&format!("{CONFIG_MAPS}/a")).await.ok();
    assert!(open.next().await.is_none(), "watches end");
}
