//! Deletion that leaves the dependents.

use super::*;
use crate::api::Api;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const JOB_WARNING: &str = "299 - \"child pods are preserved by default when jobs are deleted; set \
                           propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this \
                           warning\"";

#[tokio::test]
async fn gcx_005_gc_4_dependents_lose_their_reference_before_the_owner_is_removed() {
    let api = Api::start().await;
    let (top, other) = (api.made(MAPS, &map("top", &[])).await, api.made(MAPS, &map("other", &[])).await);
    api.made(MAPS, &map("a", &[blocking(&top), owner(&other)])).await;
    api.made(MAPS, &map("b", &[owner(&top)])).await;
    let mut watch = api.watch(MAPS).await;
    let marked = api.delete_by(&format!("{MAPS}/top"), "Orphan").await;
    assert_eq!(finalizers(&marked), ["orphan"]);
    let events = watch.events();
    let name = |index: usize| events[index]["object"]["metadata"]["name"].as_str().unwrap();
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]);
    assert_eq!((name(0), name(3)), ("top", "top"));
    let mut middle = [name(1), name(2)];
    middle.sort_unstable();
    assert_eq!(middle, ["a", "b"]);
    assert_eq!(owner_names(&api.get(&format!("{MAPS}/a")).await.expect(200)), ["other"]);
    let freed = api.get(&format!("{MAPS}/b")).await.expect(200);
    assert!(freed["metadata"].get("ownerReferences").is_none());
}

#[tokio::test]
async fn gc_4_many_dependents_and_a_held_owner() {
    let api = Api::start().await;
    let top = api.made(MAPS, &hold(map("top", &[]))).await;
    for number in 0..200 {
        api.made(MAPS, &map(&format!("c{number}"), &[owner(&top)])).await;
    }
    api.delete_by(&format!("{MAPS}/top"), "Orphan").await;
    for number in 0..200 {
        let child = api.get(&format!("{MAPS}/c{number}")).await.expect(200);
        assert_eq!(owner_names(&child), Vec::<&str>::new());
    }
    let top = api.get(&format!("{MAPS}/top")).await.expect(200);
    assert_eq!(finalizers(&top), ["example.com/hold"]);
}

#[tokio::test]
async fn gcx_008_references_of_custom_resources_are_dropped_too() {
    let api = Api::start().await;
    api.made(DEFINITIONS, &widgets()).await;
    let (top, other) = (api.made(MAPS, &map("top", &[])).await, api.made(MAPS, &map("other", &[])).await);
    let made = api.made(WIDGETS, &widget("w", &[owner(&top), owner(&other)])).await;
    api.delete_by(&format!("{MAPS}/top"), "Orphan").await;
    let left = api.get(&format!("{WIDGETS}/w")).await.expect(200);
    assert_eq!(owner_names(&left), ["other"]);
    assert_eq!(left["spec"], made["spec"]);
    assert_eq!(left["metadata"]["uid"], made["metadata"]["uid"]);
}

#[tokio::test]
async fn gcx_017_a_job_orphans_its_pods_by_default_and_warns() {
    let api = Api::start().await;
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "app"}]}});
    let job =
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}});
    for (options, survives) in [
        (json!({}), true),
        (json!({"propagationPolicy": "Orphan"}), true),
        (json!({"propagationPolicy": "Background"}), false),
        (json!({"propagationPolicy": "Foreground"}), false),
        (json!({"orphanDependents": false}), false),
    ] {
        let made = api.made(JOBS, &job).await;
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": template["spec"]});
        pod["metadata"]["ownerReferences"] = json!([blocking(&made)]);
        api.made(crate::PODS, &pod).await;
        let deleted = api.delete_with(&format!("{JOBS}/j"), &options).await;
        let warnings = if options == json!({}) { vec![JOB_WARNING] } else { vec![] };
        assert_eq!(deleted.warnings(), warnings, "{options}");
        assert!(!api.exists(&format!("{JOBS}/j")).await);
        assert_eq!(api.exists(&format!("{}/p", crate::PODS)).await, survives, "{options}");
        api.delete(&format!("{}/p", crate::PODS)).await;
    }
}
