use evenkeel_core::ResourceInfo;
use k8s_openapi::api::core::v1::Pod;
use tokio::time::advance;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(10);

fn pod(name: &str, version: &str) -> Obj<Pod> {
    let json = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#);
    Obj::from_json(&ResourceInfo::of::<Pod>().into(), json).unwrap()
}

fn names(store: &TtlStore<Pod>) -> Vec<String> {
    let mut names: Vec<String> = store.list().iter().map(|pod| pod.key().to_string()).collect();
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn exp_001_the_ttl_starts_at_the_insert() {
    let store = TtlStore::new(TTL);
    store.put(pod("a", "1"));
    store.put(pod("b", "1"));
    advance(6 * SECOND).await;
    store.put(pod("a", "2"));
    advance(6 * SECOND).await;
    assert_eq!(names(&store), ["a"], "it began anew");
    store.replace([pod("c", "3"), pod("d", "3")], ResourceVersion::new("4"));
    assert_eq!(names(&store), ["c", "d"]);
    advance(TTL).await;
    assert_eq!(names(&store), ["c", "d"]);
    advance(SECOND).await;
    assert!(names(&store).is_empty(), "all at the same time");
}

#[tokio::test(start_paused = true)]
async fn exp_002_expired_objects_are_removed_on_access() {
    let store = TtlStore::new(TTL);
    store.put(pod("a", "1"));
    store.put(pod("b", "1"));
    advance(11 * SECOND).await;
    assert_eq!(store.keys().len(), 2, "keys are not looked at");
    assert!(store.get("a").is_none());
    assert_eq!(store.keys(), [ObjectKey::cluster("b")]);
    assert!(store.list().is_empty());
    assert!(store.keys().is_empty());
    assert!(store.get("a").is_none());
}

#[tokio::test(start_paused = true)]
async fn exp_003_an_object_expires_once_its_age_exceeds_the_ttl() {
    let store = TtlStore::new(TTL);
    let forever = TtlStore::new(Duration::ZERO);
    store.put(pod("a", "1"));
    forever.put(pod("a", "1"));
    advance(TTL).await;
    assert!(store.get("a").is_some(), "just in time");
    advance(Duration::from_millis(1)).await;
    assert!(store.get("a").is_none());
    advance(10_000 * TTL).await;
    assert!(forever.get("a").is_some());
}

#[tokio::test(start_paused = true)]
async fn exp_004_a_reinserted_object_stays() {
    let store = TtlStore::new(TTL);
    store.put(pod("a", "1"));
    advance(11 * SECOND).await;
    store.put(pod("a", "2"));
    assert_eq!(store.get("a").unwrap().resource_version(), "2");
    assert_eq!(names(&store), ["a"]);
}

#[tokio::test]
async fn exp_005_the_version_moves_with_deletions_lists_and_bookmarks() {
    let store = TtlStore::new(TTL);
    store.put(pod("a", "5"));
    assert_eq!(store.resource_version().as_str(), "");
    store.delete(&Deleted::Observed(pod("a", "6")));
    assert_eq!((store.resource_version().as_str(), store.keys().len()), ("6", 0));
    store.replace([pod("b", "3")], ResourceVersion::new("7"));
    assert_eq!(store.resource_version().as_str(), "7");
    store.bookmark(&ResourceVersion::new("8"));
    assert_eq!(store.resource_version().as_str(), "8");
    store.delete(&Deleted::Missed { key: ObjectKey::cluster("b"), last_known: None });
    assert_eq!((store.resource_version().as_str(), store.keys().len()), ("8", 0));
}

#[tokio::test]
async fn any_closure_can_be_a_policy() {
    let store = TtlStore::<Pod>::with_policy(|pod, _| pod.key().name() != "keep");
    store.put(pod("keep", "1"));
    store.put(pod("drop", "1"));
    assert_eq!(names(&store), ["keep"]);
}
