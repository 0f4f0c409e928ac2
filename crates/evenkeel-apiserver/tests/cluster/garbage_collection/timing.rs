//! When the collector runs: delayed, off, across restarts and restored snapshots, and beside other requests.

use std::time::Duration;

use evenkeel_apiserver::Fsync;

use super::*;
use crate::api::{Api, TestEnv};

#[tokio::test(start_paused = true)]
async fn gc_6_the_collector_may_be_delayed() {
    let api = Api::with(timed(ControllerTiming::Delayed(Duration::from_secs(10)))).await;
    let top = api.made(MAPS, &map("top", &[])).await;
    let middle = api.made(MAPS, &map("middle", &[owner(&top)])).await;
    api.made(MAPS, &map("bottom", &[owner(&middle)])).await;
    api.made(MAPS, &map("lost", &[absent("x")])).await;
    api.delete(&format!("{MAPS}/top")).await.expect(200);
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert!(api.exists(&format!("{MAPS}/middle")).await);
    assert!(api.exists(&format!("{MAPS}/lost")).await);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!api.exists(&format!("{MAPS}/middle")).await);
    assert!(!api.exists(&format!("{MAPS}/lost")).await);
    assert!(api.exists(&format!("{MAPS}/bottom")).await, "each deletion has its delay");
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert!(!api.exists(&format!("{MAPS}/bottom")).await);
}

#[tokio::test(start_paused = true)]
async fn gcx_022_off_leaves_everything_to_a_controller_manager() {
    let api = Api::with(timed(ControllerTiming::Off)).await;
    let top = api.made(MAPS, &map("top", &[])).await;
    api.made(MAPS, &map("child", &[owner(&top), absent("x")])).await;
    api.made(MAPS, &map("lost", &[absent("x")])).await;
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        api.made(MAPS, &map(policy.to_lowercase().as_str(), &[])).await;
        api.delete_by(&format!("{MAPS}/{}", policy.to_lowercase()), policy).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        let left = api.get(&format!("{MAPS}/{}", policy.to_lowercase())).await.expect(200);
        assert_eq!(finalizers(&left), [finalizer]);
    }
    api.delete(&format!("{MAPS}/top")).await.expect(200);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(owner_names(&api.get(&format!("{MAPS}/child")).await.expect(200)), ["top", "x"]);
    assert!(api.exists(&format!("{MAPS}/lost")).await);

    // What the collector of a controller manager sends.
    let child = api.get(&format!("{MAPS}/child")).await.expect(200);
    let references = json!([{"$patch": "delete", "uid": top["metadata"]["uid"]}]);
    let patch = json!({"metadata": {"ownerReferences": references, "uid": child["metadata"]["uid"]}});
    let patched = api.strategic(&format!("{MAPS}/child"), &patch).await.expect(200);
    assert_eq!(owner_names(&patched), ["x"]);
    let options = |version: &Value| {
        json!({"propagationPolicy": "Background",
               "preconditions": {"uid": child["metadata"]["uid"], "resourceVersion": version}})
    };
    let stale = api.delete_with(&format!("{MAPS}/child"), &options(&child["metadata"]["resourceVersion"])).await;
    stale.refusal(409, "Conflict");
    let current = options(&patched["metadata"]["resourceVersion"]);
    api.delete_with(&format!("{MAPS}/child"), &current).await.expect(200);
    let foreground = api.get(&format!("{MAPS}/foreground")).await.expect(200);
    let version = &foreground["metadata"]["resourceVersion"];
    let patch = json!({"metadata": {"resourceVersion": version, "finalizers": []}});
    api.patch(&format!("{MAPS}/foreground"), &patch).await.expect(200);
    assert!(!api.exists(&format!("{MAPS}/foreground")).await);
}

/// Leaves work behind: a dependent without owners, a deletion in the foreground, and one that orphans.
async fn leave_work(api: &Api) {
    let top = api.made(MAPS, &map("top", &[])).await;
    api.made(MAPS, &map("child", &[owner(&top)])).await;
    let foreground = api.made(MAPS, &map("foreground", &[])).await;
    api.made(MAPS, &map("deleted", &[blocking(&foreground)])).await;
    let orphan = api.made(MAPS, &map("orphan", &[])).await;
    api.made(MAPS, &map("left", &[owner(&orphan)])).await;
    api.delete(&format!("{MAPS}/top")).await.expect(200);
    api.delete_by(&format!("{MAPS}/foreground"), "Foreground").await;
    api.delete_by(&format!("{MAPS}/orphan"), "Orphan").await;
    assert!(api.exists(&format!("{MAPS}/child")).await);
}

async fn assert_work_is_done(api: &Api) {
    for name in ["child", "foreground", "deleted", "orphan"] {
        assert!(!api.exists(&format!("{MAPS}/{name}")).await, "{name}");
    }
    assert_eq!(owner_names(&api.get(&format!("{MAPS}/left")).await.expect(200)), Vec::<&str>::new());
}

#[tokio::test]
async fn gc_6_a_restored_snapshot_and_a_fork_are_collected() {
    let before = Api::with(timed(ControllerTiming::Off)).await;
    leave_work(&before).await;
    let fork = Api::with(timed(ControllerTiming::Immediate).snapshot(before.server.snapshot())).await;
    assert_work_is_done(&fork).await;

    let other = Api::start().await;
    let kept = other.made(MAPS, &map("kept", &[])).await;
    other.made(MAPS, &map("of-kept", &[owner(&kept)])).await;
    other.server.restore(&before.server.snapshot());
    assert_work_is_done(&other).await;
    assert!(!other.exists(&format!("{MAPS}/of-kept")).await);
    let again = other.made(MAPS, &map("again", &[])).await;
    other.made(MAPS, &map("of-again", &[owner(&again)])).await;
    other.delete(&format!("{MAPS}/again")).await.expect(200);
    assert!(!other.exists(&format!("{MAPS}/of-again")).await);
}

#[tokio::test]
async fn gc_6_a_restart_continues_the_collection() {
    let folder = tempfile::tempdir().unwrap();
    let start = |timing| timed(timing).data_dir(folder.path()).fsync(Fsync::Never);
    let before = Api::with(start(ControllerTiming::Off)).await;
    leave_work(&before).await;
    let solid = before.made(MAPS, &map("solid", &[])).await;
    before.made(MAPS, &map("of-solid", &[owner(&solid)])).await;
    before.server.shutdown().await;
    let after = Api::with(start(ControllerTiming::Immediate)).await;
    assert_work_is_done(&after).await;
    assert!(after.exists(&format!("{MAPS}/of-solid")).await);
    after.delete(&format!("{MAPS}/solid")).await.expect(200);
    assert!(!after.exists(&format!("{MAPS}/of-solid")).await);
}

#[tokio::test]
async fn gc_7_a_history_of_one_event_loses_nothing() {
    let api = Api::with(ApiServer::builder().env(TestEnv::new()).history(1)).await;
    let top = api.made(MAPS, &map("top", &[])).await;
    for number in 0..150 {
        let child = api.made(MAPS, &map(&format!("c{number}"), &[owner(&top)])).await;
        api.made(
            SECRETS,
            &json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("s{number}"), "ownerReferences": [owner(&child)]}}),
        )
        .await;
    }
    api.delete(&format!("{MAPS}/top")).await.expect(200);
    for path in [MAPS, SECRETS] {
        let left = api.get(path).await.expect(200);
        assert!(left["items"].as_array().unwrap().iter().all(|item| owner_names(item).is_empty()), "{left}");
    }
}

#[tokio::test]
async fn gc_7_deep_chains_and_compactions() {
    let api = Api::start().await;
    let mut last = api.made(MAPS, &map("c0", &[])).await;
    for number in 1..1000 {
        last = api.made(MAPS, &map(&format!("c{number}"), &[blocking(&last)])).await;
    }
    api.server.faults().compact_now();
    api.delete_by(&format!("{MAPS}/c0"), "Foreground").await;
    let left = api.get(MAPS).await.expect(200);
    assert!(left["items"].as_array().unwrap().iter().all(|item| owner_names(item).is_empty()));
    assert!(!api.exists(&format!("{MAPS}/c0")).await);
}

/// Many owners are deleted at the same time, while plain objects are created: every response finds its own work done.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn gc_6_a_response_arrives_after_the_work_that_its_request_caused() {
    let api = Api::start().await;
    let mut tasks = Vec::new();
    for task in 0..8 {
        let handle = api.handle();
        tasks.push(tokio::spawn(async move {
            for round in 0..20 {
                let name = format!("top-{task}-{round}");
                let top = handle.send("POST", MAPS, &[], map(&name, &[]).to_string()).await.expect(201);
                for child in 0..5 {
                    let child = map(&format!("{name}-{child}"), &[owner(&top)]).to_string();
                    handle.send("POST", MAPS, &[], child).await.expect(201);
                }
                handle.send("DELETE", &format!("{MAPS}/{name}"), &[], "").await.expect(200);
                for child in 0..5 {
                    let gone = handle.get(&format!("{MAPS}/{name}-{child}")).await;
                    gone.refusal(404, "NotFound");
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}
