//! The scenarios of Kubernetes' conformance tests, without the controllers around them.

use super::*;
use crate::PODS;
use crate::api::Api;

const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

fn workload(api_version: &str, kind: &str, name: &str) -> Value {
    let labels = json!({"app": name});
    let selector = if kind == "ReplicationController" { labels.clone() } else { json!({"matchLabels": labels}) };
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": {
        "replicas": 2, "selector": selector,
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "app"}]}}}})
}

fn pod(name: &str, owners: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "ownerReferences": owners},
           "spec": {"containers": [{"name": "a", "image": "app"}]}})
}

/// Returns a ReplicationController with two pods.
async fn controller(api: &Api, name: &str) -> Value {
    let made = api.made(CONTROLLERS, &workload("v1", "ReplicationController", name)).await;
    for number in 0..2 {
        api.made(PODS, &pod(&format!("{name}-{number}"), &[blocking(&made)])).await;
    }
    made
}

async fn names(api: &Api, path: &str) -> Vec<String> {
    let list = api.get(path).await.expect(200);
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn gc_8_pods_of_a_replication_controller_are_deleted() {
    let api = Api::start().await;
    controller(&api, "rc").await;
    api.delete_by(&format!("{CONTROLLERS}/rc"), "Background").await;
    assert_eq!(names(&api, PODS).await, Vec::<String>::new());
}

#[tokio::test]
async fn gc_8_pods_of_a_replication_controller_are_orphaned() {
    let api = Api::start().await;
    controller(&api, "rc").await;
    api.delete_by(&format!("{CONTROLLERS}/rc"), "Orphan").await;
    assert!(!api.exists(&format!("{CONTROLLERS}/rc")).await);
    assert_eq!(names(&api, PODS).await, ["rc-0", "rc-1"]);
}

#[tokio::test]
async fn gc_8_replica_sets_of_a_deployment_are_deleted_with_it() {
    let api = Api::start().await;
    let deployment = api.made(DEPLOYMENTS, &workload("apps/v1", "Deployment", "d")).await;
    let mut set = workload("apps/v1", "ReplicaSet", "d-1");
    set["metadata"]["ownerReferences"] = json!([blocking(&deployment)]);
    let set = api.made(REPLICA_SETS, &set).await;
    api.made(PODS, &pod("p", &[blocking(&set)])).await;
    api.delete_by(&format!("{DEPLOYMENTS}/d"), "Background").await;
    assert_eq!(names(&api, REPLICA_SETS).await, Vec::<String>::new());
    assert_eq!(names(&api, PODS).await, Vec::<String>::new());
}

#[tokio::test]
async fn gc_8_replica_sets_of_a_deployment_are_orphaned() {
    let api = Api::start().await;
    let deployment = api.made(DEPLOYMENTS, &workload("apps/v1", "Deployment", "d")).await;
    let mut set = workload("apps/v1", "ReplicaSet", "d-1");
    set["metadata"]["ownerReferences"] = json!([blocking(&deployment)]);
    let set = api.made(REPLICA_SETS, &set).await;
    api.made(PODS, &pod("p", &[blocking(&set)])).await;
    api.delete_by(&format!("{DEPLOYMENTS}/d"), "Orphan").await;
    let left = api.get(&format!("{REPLICA_SETS}/d-1")).await.expect(200);
    assert_eq!(owner_names(&left), Vec::<&str>::new());
    assert_eq!(owner_names(&api.get(&format!("{PODS}/p")).await.expect(200)), ["d-1"]);
}

#[tokio::test]
async fn gc_8_a_replication_controller_is_kept_until_its_pods_are_removed() {
    let api = Api::start().await;
    let rc = api.made(CONTROLLERS, &workload("v1", "ReplicationController", "rc")).await;
    for number in 0..2 {
        let mut running = pod(&format!("rc-{number}"), &[blocking(&rc)]);
        running["spec"]["nodeName"] = json!("node");
        api.made(PODS, &running).await;
    }
    api.delete_by(&format!("{CONTROLLERS}/rc"), "Foreground").await;
    for number in 0..2 {
        let waiting = api.get(&format!("{CONTROLLERS}/rc")).await.expect(200);
        assert_eq!(finalizers(&waiting), ["foregroundDeletion"]);
        // The kubelet has stopped the pod.
        let stopped = json!({"gracePeriodSeconds": 0});
        api.delete_with(&format!("{PODS}/rc-{number}"), &stopped).await.expect(200);
    }
    assert!(!api.exists(&format!("{CONTROLLERS}/rc")).await);
}

#[tokio::test]
async fn gc_8_dependents_with_two_owners_survive_one_of_them() {
    let api = Api::start().await;
    let first = controller(&api, "first").await;
    let second = api.made(CONTROLLERS, &workload("v1", "ReplicationController", "second")).await;
    let both = json!({"metadata": {"ownerReferences": [blocking(&first), owner(&second)]}});
    api.patch(&format!("{PODS}/first-0"), &both).await.expect(200);
    api.delete_by(&format!("{CONTROLLERS}/first"), "Foreground").await;
    assert!(!api.exists(&format!("{CONTROLLERS}/first")).await);
    assert_eq!(names(&api, PODS).await, ["first-0"]);
    assert_eq!(owner_names(&api.get(&format!("{PODS}/first-0")).await.expect(200)), ["second"]);
}

#[tokio::test]
async fn gc_8_a_circle_of_pods_is_not_blocked() {
    let api = Api::start().await;
    let mut pods = Vec::new();
    for number in 1..4 {
        pods.push(api.made(PODS, &pod(&format!("pod{number}"), &[])).await);
    }
    for (index, previous) in [2, 0, 1].into_iter().enumerate() {
        let change = json!({"metadata": {"ownerReferences": [blocking(&pods[previous])]}});
        api.patch(&format!("{PODS}/pod{}", index + 1), &change).await.expect(200);
    }
    api.delete(&format!("{PODS}/pod1?propagationPolicy=Foreground")).await.expect(200);
    assert_eq!(names(&api, PODS).await, Vec::<String>::new());
}
