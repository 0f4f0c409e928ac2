//! Deletion in the foreground.

use super::*;
use crate::api::Api;

#[tokio::test]
async fn gcx_002_an_owner_in_foreground_deletion_is_marked_first() {
    let api = Api::start().await;
    let mut top = hold(map("top", &[]));
    top["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let top = api.made(MAPS, &top).await;
    api.made(MAPS, &map("child", &[owner(&top)])).await;
    let mut watch = api.watch(MAPS).await;
    let marked = api.delete_by(&format!("{MAPS}/top"), "Foreground").await;
    assert_eq!(finalizers(&marked), ["example.com/hold", "foregroundDeletion"]);
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2030-01-01T00:00:00Z");
    let events = watch.events();
    assert_eq!(events[0]["type"], "MODIFIED");
    assert_eq!(events[0]["object"], marked);
}

#[tokio::test]
async fn gcx_003_gc_3_an_owner_waits_for_blocking_dependents_only() {
    let api = Api::start().await;
    let top = api.made(MAPS, &map("top", &[])).await;
    api.made(MAPS, &hold(map("blocking", &[blocking(&top)]))).await;
    api.made(MAPS, &hold(map("free", &[owner(&top)]))).await;
    api.made(MAPS, &map("plain", &[owner(&top)])).await;
    api.delete_by(&format!("{MAPS}/top"), "Foreground").await;
    for name in ["blocking", "free"] {
        let child = api.get(&format!("{MAPS}/{name}")).await.expect(200);
        assert!(child["metadata"]["deletionTimestamp"].is_string(), "{name} is deleted too");
    }
    assert!(!api.exists(&format!("{MAPS}/plain")).await);
    assert!(api.exists(&format!("{MAPS}/top")).await);
    api.release(&format!("{MAPS}/free")).await;
    assert!(api.exists(&format!("{MAPS}/top")).await);
    api.release(&format!("{MAPS}/blocking")).await;
    assert!(!api.exists(&format!("{MAPS}/top")).await);
}

#[tokio::test]
async fn gcx_003_a_dependent_that_comes_late_is_deleted_too() {
    let api = Api::start().await;
    let top = api.made(MAPS, &map("top", &[])).await;
    api.made(MAPS, &hold(map("first", &[blocking(&top)]))).await;
    api.delete_by(&format!("{MAPS}/top"), "Foreground").await;
    api.made(MAPS, &map("late", &[blocking(&top)])).await;
    assert!(!api.exists(&format!("{MAPS}/late")).await);
    api.release(&format!("{MAPS}/first")).await;
    assert!(!api.exists(&format!("{MAPS}/top")).await);
}

#[tokio::test]
async fn gcx_004_the_last_finalizer_goes_with_the_object() {
    let api = Api::start().await;
    let top = api.made(MAPS, &map("top", &[])).await;
    api.made(MAPS, &map("child", &[blocking(&top)])).await;
    let mut watch = api.watch(MAPS).await;
    api.delete_by(&format!("{MAPS}/top"), "Foreground").await;
    let names: Vec<(String, String)> = watch
        .events()
        .iter()
        .map(|event| {
            (event["type"].as_str().unwrap().into(), event["object"]["metadata"]["name"].as_str().unwrap().into())
        })
        .collect();
    let expected = [("MODIFIED", "top"), ("DELETED", "child"), ("DELETED", "top")];
    assert_eq!(names, expected.map(|(kind, name)| (kind.to_owned(), name.to_owned())));

    let held = api.made(MAPS, &hold(map("held", &[]))).await;
    api.made(MAPS, &map("child", &[blocking(&held)])).await;
    let mut watch = api.watch(MAPS).await;
    api.delete_by(&format!("{MAPS}/held"), "Foreground").await;
    assert_eq!(watch.types(), "MODIFIED DELETED MODIFIED");
    let left = api.get(&format!("{MAPS}/held")).await.expect(200);
    assert_eq!(finalizers(&left), ["example.com/hold"]);
}

#[tokio::test]
async fn gc_3_dependents_with_dependents_are_deleted_in_the_foreground() {
    let api = Api::start().await;
    let top = api.made(MAPS, &map("top", &[])).await;
    let middle = api.made(MAPS, &map("middle", &[blocking(&top)])).await;
    api.made(MAPS, &hold(map("bottom", &[blocking(&middle)]))).await;
    api.delete_by(&format!("{MAPS}/top"), "Foreground").await;
    let middle = api.get(&format!("{MAPS}/middle")).await.expect(200);
    assert_eq!(finalizers(&middle), ["foregroundDeletion"]);
    assert!(api.exists(&format!("{MAPS}/top")).await);
    api.release(&format!("{MAPS}/bottom")).await;
    for name in ["bottom", "middle", "top"] {
        assert!(!api.exists(&format!("{MAPS}/{name}")).await, "{name}");
    }
}

#[tokio::test]
async fn gc_3_a_reference_to_a_waiting_owner_is_dropped_if_another_owner_lives() {
    let api = Api::start().await;
    let (top, other) = (api.made(MAPS, &map("top", &[])).await, api.made(MAPS, &map("other", &[])).await);
    api.made(MAPS, &map("child", &[blocking(&top), owner(&other)])).await;
    api.delete_by(&format!("{MAPS}/top"), "Foreground").await;
    assert!(!api.exists(&format!("{MAPS}/top")).await);
    assert_eq!(owner_names(&api.get(&format!("{MAPS}/child")).await.expect(200)), ["other"]);
}

#[tokio::test]
async fn gc_3_circles_do_not_wait_for_themselves() {
    let api = Api::start().await;
    for length in 1..6 {
        let mut uids = Vec::new();
        for number in 0..length {
            uids.push(api.made(MAPS, &map(&format!("c{number}"), &[])).await);
        }
        for number in 0..length {
            let owners = json!([blocking(&uids[(number + 1) % length])]);
            let change = json!({"metadata": {"ownerReferences": owners}});
            api.patch(&format!("{MAPS}/c{number}"), &change).await.expect(200);
        }
        let top = api.get(&format!("{MAPS}/c0")).await.expect(200);
        api.made(MAPS, &map("aside", &[blocking(&top)])).await;
        api.delete_by(&format!("{MAPS}/c0"), "Foreground").await;
        for name in (0..length).map(|number| format!("c{number}")).chain(["aside".to_owned()]) {
            assert!(!api.exists(&format!("{MAPS}/{name}")).await, "{name} of {length}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn gc_3_a_circle_that_is_deleted_at_once_does_not_wait_for_itself() {
    let api = Api::with(timed(ControllerTiming::Delayed(std::time::Duration::from_secs(5)))).await;
    let mut all = Vec::new();
    for number in 0..3 {
        all.push(api.made(MAPS, &map(&format!("c{number}"), &[])).await);
    }
    for number in 0..3 {
        let change = json!({"metadata": {"ownerReferences": [blocking(&all[(number + 1) % 3])]}});
        api.patch(&format!("{MAPS}/c{number}"), &change).await.expect(200);
    }
    for number in 0..3 {
        api.delete_by(&format!("{MAPS}/c{number}"), "Foreground").await;
    }
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    for number in 0..3 {
        assert!(!api.exists(&format!("{MAPS}/c{number}")).await, "{number}");
    }
}

#[tokio::test]
async fn gcx_019_a_dependent_that_blocks_no_more_releases_its_owner() {
    let api = Api::start().await;
    for release in ["unblock", "drop"] {
        let top = api.made(MAPS, &map("top", &[])).await;
        api.made(MAPS, &hold(map("child", &[blocking(&top)]))).await;
        api.delete_by(&format!("{MAPS}/top"), "Foreground").await;
        assert!(api.exists(&format!("{MAPS}/top")).await);
        let references = if release == "unblock" { json!([owner(&top)]) } else { json!(null) };
        let change = json!({"metadata": {"ownerReferences": references}});
        api.patch(&format!("{MAPS}/child"), &change).await.expect(200);
        assert!(!api.exists(&format!("{MAPS}/top")).await, "{release}");
        api.release(&format!("{MAPS}/child")).await;
    }
}

#[tokio::test]
async fn gc_3_a_terminating_namespace_waits_for_foreground_deletions() {
    let api = Api::start().await;
    let inside = "/api/v1/namespaces/n/configmaps";
    api.made(NAMESPACES, &json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "n"}})).await;
    let top = api.made(inside, &map("top", &[])).await;
    api.made(inside, &hold(map("child", &[blocking(&top)]))).await;
    api.delete_by(&format!("{inside}/top"), "Foreground").await;
    api.delete("/api/v1/namespaces/n").await.expect(200);
    assert!(api.exists("/api/v1/namespaces/n").await);
    api.release(&format!("{inside}/child")).await;
    assert!(!api.exists("/api/v1/namespaces/n").await);
}
