use super::*;

#[test]
fn each_group_is_kept_by_itself_and_not_too_many() {
    let fallback = ProtobufFallback::default();
    assert!(!fallback.applies_to("", "pods"));
    fallback.rejected("metrics.k8s.io");
    assert!(fallback.applies_to("metrics.k8s.io", "nodes"));
    assert!(!fallback.applies_to("", "nodes") && !fallback.applies_to("apps", "nodes"));
    for number in 0..2 * MAX_ENTRIES {
        fallback.rejected(&format!("group-{number}"));
    }
    assert_eq!(fallback.entries.read().unwrap().len(), MAX_ENTRIES);
    assert!(!fallback.applies_to(&format!("group-{}", 2 * MAX_ENTRIES - 1), "nodes"));
}

#[tokio::test(start_paused = true)]
async fn a_fallback_is_as_narrow_as_its_reason_and_expires() {
    let fallback = Arc::new(ProtobufFallback::default());
    ProtobufGuard::new(&fallback, "apps", "deployments").fall_back();
    assert!(fallback.applies_to("apps", "deployments"));
    assert!(!fallback.applies_to("apps", "replicasets"), "one bad object does not affect other resources");
    tokio::time::advance(UNDECODABLE).await;
    assert!(!fallback.applies_to("apps", "deployments"), "protobuf is tried again");
    fallback.rejected("apps");
    assert!(fallback.applies_to("apps", "deployments") && fallback.applies_to("apps", "replicasets"));
    tokio::time::advance(REJECTED).await;
    assert!(!fallback.applies_to("apps", "deployments"));
}

#[tokio::test(start_paused = true)]
async fn expired_entries_are_evicted_first() {
    let fallback = ProtobufFallback::default();
    for number in 0..MAX_ENTRIES {
        fallback.rejected(&format!("group-{number}"));
    }
    tokio::time::advance(REJECTED).await;
    fallback.rejected("apps");
    assert!(fallback.applies_to("apps", "deployments"));
}
