//! Faults of lists and watches: each shows what it is about to a client that looks for it.

use std::time::Duration;

use evenkeel::core::WatchEvent;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;
use evenkeel_sim::{Fault, Process, Scenario, Workload};
use serde_json::json;
use tokio::time::{sleep, timeout};

/// Nothing is checked after the faults.
const MOMENT: Duration = Duration::from_secs(1);

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// A scenario with some objects, and with writes. Its process fails the run when it has seen the effect of the fault.
fn scenario<F>(fault: Fault, look: impl Fn(Process) -> F + Copy + Send + Sync + 'static) -> Scenario
where
    F: Future<Output = Outcome> + Send + 'static,
{
    let mut scenario = Scenario::new("looks-for-a-fault");
    for name in ["a", "b", "c"] {
        let metadata = json!({"name": name, "namespace": "default"});
        scenario = scenario.object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}));
    }
    let process = move |process: Process| async move {
        loop {
            let shutdown = process.shutdown();
            tokio::select! {
                biased;
                () = shutdown => return Ok(()),
                // Other requests fail as well.
                _ = look(process.clone()) => sleep(Duration::from_secs(1)).await,
            }
        }
    };
    scenario
        .process("client", process)
        .workload(write)
        .faults([fault])
        .compare_final_state(false)
        .settle_within(MOMENT)
        .stable_for(MOMENT)
}

async fn write(workload: Workload) -> Outcome {
    for round in 0..20 {
        let patch = json!({"data": {"round": format!("{round}")}});
        workload.client().core_v1().config_maps("default").patch("a", &Patch::merge(&patch)).await?;
        workload.pause().await;
    }
    Ok(())
}

#[track_caller]
fn is_seen(scenario: &Scenario) {
    match scenario.check(100) {
        Ok(report) => panic!("the fault has no effect: {report}"),
        Err(failed) => assert_eq!(failed.failure().invariant, "seen", "{failed}"),
    }
}

async fn list_in_pages(process: Process, wants_token: bool) -> Outcome {
    let maps = process.client().core_v1().config_maps("default");
    let first = maps.list(&ListParams::default().limit(1)).await?;
    let next = ListParams::default().limit(1).continue_from(first.continue_token().unwrap_or_default());
    let Err(error) = maps.list(&next).await else { return Ok(()) };
    let status = error.status().filter(|status| status.is_expired()).ok_or("another error")?;
    let token = status.metadata.continue_token.clone();
    match (token.is_empty(), wants_token) {
        (true, false) => process.fail("seen", "the page has expired"),
        (false, true) => {
            let rest = maps.list(&ListParams::default().continue_from(token)).await?;
            assert_eq!(rest.len(), 2, "the token continues after the first page");
            process.fail("seen", "the list continues with the token");
        }
        _ => {}
    }
    Ok(())
}

#[test]
fn f_9_a_page_expires_without_a_token() {
    is_seen(&scenario(Fault::PageExpires, |process| list_in_pages(process, false)));
}

#[test]
fn f_9_a_page_expires_with_a_token_that_continues() {
    is_seen(&scenario(Fault::PageExpires, |process| list_in_pages(process, true)));
}

#[test]
fn f_20_a_version_is_too_large_until_the_next_write() {
    is_seen(&scenario(Fault::VersionTooLarge, |process| async move {
        let maps = process.client().core_v1().config_maps("default");
        let version = maps.list(&ListParams::default()).await?.resource_version().to_string();
        let Err(error) = maps.list(&ListParams::default().not_older_than(version)).await else { return Ok(()) };
        assert!(error.status().is_some_and(|status| status.is_too_large_resource_version()), "{error}");
        maps.list(&ListParams::default()).await?;
        process.fail("seen", "refused, and a list without a version is not");
        Ok(())
    }));
}

#[test]
fn f_21_a_list_is_stale_and_its_watch_has_expired() {
    is_seen(&scenario(Fault::ReplicasFlap, |process| async move {
        let maps = process.client().core_v1().config_maps("default");
        let stale = maps.list(&ListParams::default().not_older_than("0")).await?.resource_version().to_string();
        let Err(error) = maps.watch(&WatchParams::from_version(stale)).await else { return Ok(()) };
        assert!(error.status().is_some_and(|status| status.is_expired()), "{error}");
        process.fail("seen", "the list of one server is too old for the other");
        Ok(())
    }));
}

#[test]
fn f_22_a_watch_brings_bookmarks_and_no_events() {
    is_seen(&scenario(Fault::BookmarksOnly, |process| async move {
        let maps = process.client().core_v1().config_maps("default");
        let mut watch = maps.watch(&WatchParams::default()).await?;
        // Without a version, the objects come first.
        if timeout(Duration::from_secs(120), watch.next()).await.is_err() {
            process.fail("seen", "the initial events are withheld");
        }
        Ok(())
    }));
}

async fn initial_events(process: Process, wants_end: bool) -> Outcome {
    let maps = process.client().core_v1().config_maps("default");
    let mut watch = maps.watch(&WatchParams::default().initial_events()).await?;
    let started = tokio::time::Instant::now();
    let mut events = 0;
    while let Some(event) = watch.next().await {
        match event? {
            WatchEvent::Bookmark { initial_events_end: true, .. } => {
                if wants_end && started.elapsed() > Duration::from_secs(10) {
                    process.fail("seen", "the end of the initial events is late");
                }
                return Ok(());
            }
            WatchEvent::<ConfigMap>::Added(_) => events += 1,
            _ => {}
        }
    }
    if !wants_end && events == 3 {
        process.fail("seen", "the watch has ended after its last initial event");
    }
    Ok(())
}

#[test]
fn f_23_the_end_of_the_initial_events_is_late() {
    is_seen(&scenario(Fault::InitialEndMissing, |process| initial_events(process, true)));
}

#[test]
fn f_23_a_watch_ends_before_the_end_of_its_initial_events() {
    is_seen(&scenario(Fault::InitialEndMissing, |process| initial_events(process, false)));
}
