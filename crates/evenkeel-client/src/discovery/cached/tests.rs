use serde_json::json;

use super::*;
use crate::discovery::testing::{Fake, group, legacy_groups, legacy_list, legacy_resource, resource};

fn gv(text: &str) -> GroupVersion {
    text.parse().unwrap()
}

fn modern() -> Fake {
    let fake = Fake::default();
    fake.aggregated("/api", &json!([group("", &[("v1", vec![resource("pods", "Pod")])])])).tag("/api", "\"core-1\"");
    let apps = group("apps", &[("v1", vec![resource("deployments", "Deployment")]), ("v0", vec![])]);
    fake.aggregated("/apis", &json!([apps])).tag("/apis", "\"groups-1\"");
    fake
}

fn old() -> Fake {
    let fake = Fake::default();
    fake.json("/api", &json!({"kind": "APIVersions", "versions": ["v1"]}));
    fake.json("/apis", &legacy_groups(&[("a", &["v1"]), ("b", &["v1"])]));
    fake.json("/api/v1", &legacy_list("v1", &[legacy_resource("pods", "Pod")]));
    fake.json("/apis/a/v1", &legacy_list("a/v1", &[legacy_resource("foos", "Foo")]));
    fake.json("/apis/b/v1", &legacy_list("b/v1", &[legacy_resource("bars", "Bar")]));
    fake
}

#[tokio::test]
async fn dsc_020_concurrent_callers_share_one_fetch() {
    let fake = modern();
    let cached = fake.client().discovery().cached();
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let cached = cached.clone();
            tokio::spawn(async move { cached.groups_and_resources().await.unwrap() })
        })
        .collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    assert!(results.iter().all(|received| Arc::ptr_eq(received, &results[0])));
    assert_eq!(cached.groups().await.unwrap().len(), 2);
    assert_eq!(cached.resources_for_group_version(&gv("apps/v1")).await.unwrap().resources.len(), 1);
    assert_eq!(cached.preferred_resources().await.unwrap().resources.len(), 3);
    assert_eq!(fake.asked_paths(), ["/api", "/apis"]);

    let unknown = cached.resources_for_group_version(&gv("apps/v7")).await.unwrap_err();
    assert!(matches!(unknown, DiscoveryError::NotServed { .. }) && unknown.is_not_found());
    let empty = cached.resources_for_group_version(&gv("apps/v0")).await.unwrap_err();
    assert!(matches!(empty, DiscoveryError::Empty { .. }), "{empty}");
    assert!(fake.requests().is_empty(), "neither is requests for again");
}

#[tokio::test]
async fn dsc_020_a_failure_to_list_the_groups_is_not_cached() {
    let fake = modern();
    fake.fail("/apis", 500);
    let cached = fake.client().discovery().cached();
    assert!(cached.groups_and_resources().await.is_err());
    assert!(!cached.is_fresh());
    fake.aggregated("/apis", &json!([]));
    assert_eq!(cached.groups().await.unwrap().len(), 1);
    assert!(cached.is_fresh());
}

#[tokio::test]
async fn dsc_020_transient_failures_are_fetched_again_and_others_are_not() {
    let fake = old();
    fake.fail("/apis/a/v1", 503).fail("/apis/b/v1", 403);
    let cached = fake.client().discovery().cached();
    let first = cached.groups_and_resources().await.unwrap();
    assert_eq!(first.failures.len(), 2);
    fake.requests();

    assert!(cached.resources_for_group_version(&gv("a/v1")).await.unwrap_err().is_transient());
    assert_eq!(fake.asked_paths(), ["/apis/a/v1"]);
    assert!(!cached.resources_for_group_version(&gv("b/v1")).await.unwrap_err().is_transient());
    assert!(fake.requests().is_empty());

    fake.json("/apis/a/v1", &legacy_list("a/v1", &[legacy_resource("foos", "Foo")]));
    fake.json("/apis/b/v1", &legacy_list("b/v1", &[legacy_resource("bars", "Bar")]));
    assert!(cached.resources_for_group_version(&gv("a/v1")).await.is_ok());
    assert!(cached.resources_for_group_version(&gv("a/v1")).await.is_ok());
    assert!(cached.resources_for_group_version(&gv("b/v1")).await.is_err());
    assert_eq!(fake.asked_paths(), ["/apis/a/v1"], "once it is there it stays, and what was refused stays refused");

    cached.invalidate();
    assert!(cached.resources_for_group_version(&gv("b/v1")).await.is_ok());
    let order: Vec<_> = cached
        .groups_and_resources()
        .await
        .unwrap()
        .resources
        .iter()
        .map(|list| list.group_version.api_version())
        .collect();
    assert_eq!(order, ["v1", "a/v1", "b/v1"]);
}

#[tokio::test]
async fn dsc_020_a_recovered_group_is_in_its_position() {
    let fake = old();
    fake.fail("/apis/a/v1", 429);
    let cached = fake.client().discovery().cached();
    cached.groups_and_resources().await.unwrap();
    fake.json("/apis/a/v1", &legacy_list("a/v1", &[legacy_resource("foos", "Foo")]));
    cached.resources_for_group_version(&gv("a/v1")).await.unwrap();
    let known = cached.groups_and_resources().await.unwrap();
    let order: Vec<_> = known.resources.iter().map(|list| list.group_version.api_version()).collect();
    assert_eq!(order, ["v1", "a/v1", "b/v1"]);
    assert!(known.failures.is_empty());
}

#[tokio::test]
async fn dsc_021_the_cache_is_fresh_when_filled_and_invalidation_empties_it() {
    let fake = modern();
    fake.json("/openapi/v3", &json!({"paths": {"api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=A"}}}));
    let cached = fake.client().discovery().cached();
    assert!(!cached.is_fresh());
    cached.groups().await.unwrap();
    cached.openapi().index().await.unwrap();
    assert!(cached.is_fresh());
    fake.requests();
    cached.groups().await.unwrap();
    cached.openapi().index().await.unwrap();
    assert!(fake.requests().is_empty());
    cached.invalidate();
    assert!(!cached.is_fresh());
    cached.groups().await.unwrap();
    cached.openapi().index().await.unwrap();
    assert_eq!(fake.asked_paths(), ["/api", "/apis", "/openapi/v3"]);
}

#[tokio::test]
async fn dsc_023_unchanged_documents_are_not_sent_again() {
    let fake = modern();
    let cached = fake.client().discovery().cached();
    let first = cached.groups_and_resources().await.unwrap();
    assert!(fake.requests().iter().all(|requests| requests.if_none_match.is_none() && requests.code == 200));

    cached.invalidate();
    let second = cached.groups_and_resources().await.unwrap();
    assert_eq!(first, second);
    let requests = fake.requests();
    assert_eq!(requests.iter().map(|requests| requests.code).collect::<Vec<_>>(), [304, 304]);
    assert_eq!(requests[1].if_none_match.as_deref(), Some("\"groups-1\""));

    fake.aggregated("/apis", &json!([])).tag("/apis", "\"groups-2\"");
    cached.invalidate();
    assert_eq!(cached.groups().await.unwrap().len(), 1);
    assert_eq!(fake.requests().iter().map(|requests| requests.code).collect::<Vec<_>>(), [304, 200]);
}
