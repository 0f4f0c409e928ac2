//! Rings whose API server, Leases or settings fail, in virtual time.

use std::time::Duration;

use evenkeel_apiserver::{Action, Rule};
use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::sleep;

use super::replicas::{Ledger, lease_names, ring, secs, server, start};
use crate::ring::*;

const PLACES: u64 = 32;
const TICK: Duration = Duration::from_millis(100);

#[tokio::test(start_paused = true)]
async fn she_020_members_stop_during_an_outage_and_resume_the_same_slices() {
    for writes_only in [false, true] {
        let (server, ledger) = (server().await, Ledger::default());
        let client = server.client();
        let a = start(ring(&client, "a"), "a", &ledger, TICK);
        sleep(secs(20)).await;
        let b = start(ring(&client, "b"), "b", &ledger, TICK);
        sleep(secs(15)).await;
        let before = (a.handle.members(), a.handle.fence(3).map(|fence| fence.epoch));
        let verbs: &[&str] =
            if writes_only { &["create", "update", "patch"] } else { &["create", "update", "patch", "get", "list"] };
        for verb in verbs {
            server.faults().add(Rule::new(Action::Drop).verb(*verb));
        }
        sleep(secs(13)).await;
        assert_eq!(ledger.total(), 0, "renew deadline and grace are over");
        sleep(secs(47)).await;
        server.faults().clear();
        sleep(secs(6)).await;
        assert_eq!(ledger.total(), PLACES, "resumed (writes only: {writes_only})");
        sleep(secs(40)).await;
        assert_eq!((a.handle.members(), a.handle.fence(3).map(|fence| fence.epoch)), before, "no fence, no new table");
        ledger.assert_exclusive();
        b.crash();
        a.crash();
    }
}

#[tokio::test(start_paused = true)]
async fn she_017_holders_go_on_when_the_table_is_deleted_and_get_higher_epochs() {
    let (server, ledger) = (server().await, Ledger::default());
    let client = server.client();
    let a = start(ring(&client, "a"), "a", &ledger, TICK);
    sleep(secs(20)).await;
    let b = start(ring(&client, "b"), "b", &ledger, TICK);
    sleep(secs(60)).await;
    let (owners, epoch) = ((ledger.count("a"), ledger.count("b")), a.handle.slice_of(3).unwrap());
    let before: Vec<u64> = (0..PLACES).map(|number| ledger.epoch(number)).collect();
    client.api::<Lease>().namespace("default").delete("ring-table").await.unwrap();
    for _ in 0..20 {
        sleep(secs(1)).await;
        assert_eq!(ledger.total(), PLACES, "all work goes on");
    }
    assert_eq!((ledger.count("a"), ledger.count("b")), owners);
    assert_eq!(a.handle.slice_of(3).unwrap().owner, epoch.owner);
    assert!((0..PLACES).all(|number| ledger.epoch(number) > before[number as usize]));
    ledger.assert_exclusive();
    b.crash();
    a.crash();
}

#[tokio::test(start_paused = true)]
async fn she_018_members_join_again_when_all_leases_are_deleted() {
    let (server, ledger) = (server().await, Ledger::default());
    let client = server.client();
    let a = start(ring(&client, "a"), "a", &ledger, TICK);
    let b = start(ring(&client, "b"), "b", &ledger, TICK);
    sleep(secs(25)).await;
    let names = (a.handle.member(), b.handle.member());
    for name in lease_names(&client).await {
        client.api::<Lease>().namespace("default").delete(&name).await.unwrap();
    }
    sleep(secs(12)).await;
    assert_eq!(
        ledger.total(),
        0,
        "stopped within renew deadline and grace, and nothing is granted before the lease duration"
    );
    sleep(secs(28)).await;
    assert_eq!(ledger.total(), PLACES);
    assert!(a.handle.member() != names.0 && b.handle.member() != names.1, "under new names");
    ledger.assert_exclusive();
}

#[tokio::test(start_paused = true)]
async fn shr_013_a_member_whose_lease_was_deleted_joins_under_a_new_name() {
    let (server, ledger) = (server().await, Ledger::default());
    let client = server.client();
    let a = start(ring(&client, "a"), "a", &ledger, TICK);
    sleep(secs(20)).await;
    let b = start(ring(&client, "b"), "b", &ledger, TICK);
    sleep(secs(12)).await;
    let name = b.handle.member().unwrap();
    client.api::<Lease>().namespace("default").delete(&format!("ring-{name}")).await.unwrap();
    sleep(secs(4)).await;
    assert_eq!(ledger.count("b"), 0, "it notices with its next heartbeat");
    assert_ne!(b.handle.member().unwrap(), name);
    sleep(secs(40)).await;
    assert_eq!(ledger.total(), PLACES);
    assert!(ledger.count("b") > 0 && a.handle.members().len() == 2);
    ledger.assert_exclusive();
}

#[tokio::test(start_paused = true)]
async fn she_023_a_member_with_other_settings_is_refused() {
    let (server, ledger) = (server().await, Ledger::default());
    let client = server.client();
    let a = start(ring(&client, "a"), "a", &ledger, TICK);
    sleep(secs(20)).await;
    let other = ring(&client, "b").shard_by(ShardBy::Uid);
    let refused = other.run(std::future::pending::<()>()).await.unwrap_err();
    let RingError::Refused { theirs, ours, .. } = &refused else { panic!("{refused}") };
    assert_eq!((&**theirs, &**ours), ("namespace/fnv1a64/15s", "uid/fnv1a64/15s"));
    sleep(secs(10)).await;
    assert_eq!((ledger.count("a"), a.handle.members().len()), (PLACES, 1), "the ring is untouched");
    assert_eq!(lease_names(&client).await.len(), 3, "the election, the table, and the member");
}

#[tokio::test(start_paused = true)]
async fn shr_069_invalid_settings_are_refused_before_anything_is_sent() {
    let server = server().await;
    let client = server.client();
    let ring = ring(&client, "a").grace(secs(5));
    assert!(matches!(ring.validate(), Err(RingConfigError::LeaseDurationTooShort { .. })));
    assert!(matches!(ring.run(std::future::pending::<()>()).await, Err(RingError::Config(_))));
    assert_eq!(lease_names(&client).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn she_024_work_beyond_the_drain_limit_is_dropped_and_named() {
    let (server, ledger) = (server().await, Ledger::default());
    let client = server.client();
    let _a = start(ring(&client, "a"), "a", &ledger, TICK);
    sleep(secs(20)).await;
    let b = start(ring(&client, "b").drain_limit(secs(5)), "b", &ledger, secs(100));
    sleep(secs(15)).await;
    let running = ledger.count("b");
    assert_eq!(running, PLACES / 2);
    let error = b.left().await.unwrap_err();
    let RingError::NotDrained { running: dropped, slices, .. } = error else { panic!("{error}") };
    assert_eq!((dropped as u64, slices), (running, 4));
    sleep(secs(2)).await;
    assert_eq!(ledger.count("a"), PLACES);
    ledger.assert_exclusive();
}
