//! Priority.

use serde_json::{Value, json};

use super::pod;
use crate::PODS;
use crate::api::Api;

const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

fn class(name: &str, value: i64, fields: Value) -> Value {
    let mut class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
                           "value": value});
    class.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    class
}

fn priority_of(pod: &Value) -> (Option<i64>, Option<&str>, Option<&str>) {
    let spec = &pod["spec"];
    (spec["priority"].as_i64(), spec["preemptionPolicy"].as_str(), spec["priorityClassName"].as_str())
}

#[tokio::test]
async fn adm_022_pods_get_the_priority_of_their_class() {
    let api = Api::start().await;
    api.post(CLASSES, &class("high", 1000, json!({"preemptionPolicy": "Never"}))).await.expect(201);
    let created = api.post(PODS, &pod("none", json!({}))).await.expect(201);
    assert_eq!(priority_of(&created), (Some(0), Some("PreemptLowerPriority"), None));
    let created = api.post(PODS, &pod("high", json!({"priorityClassName": "high"}))).await.expect(201);
    assert_eq!(priority_of(&created), (Some(1000), Some("Never"), Some("high")));
    for (name, value) in [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)] {
        let created = api.post(PODS, &pod(name, json!({"priorityClassName": name}))).await.expect(201);
        assert_eq!(priority_of(&created), (Some(value), Some("PreemptLowerPriority"), Some(name)));
    }
    let refused = api.post(PODS, &pod("unknown", json!({"priorityClassName": "none"}))).await;
    let text = "pods \"unknown\" is forbidden: no PriorityClass with name none was found";
    assert_eq!(refused.refusal(403, "Forbidden"), text);
}

#[tokio::test]
async fn adm_022_pods_without_a_class_get_the_default_one() {
    let api = Api::start().await;
    api.post(CLASSES, &class("main", 7, json!({"globalDefault": true}))).await.expect(201);
    let created = api.post(PODS, &pod("p", json!({}))).await.expect(201);
    assert_eq!(priority_of(&created), (Some(7), Some("PreemptLowerPriority"), Some("main")));
    api.delete(&format!("{CLASSES}/main")).await.expect(200);
    let created = api.post(PODS, &pod("q", json!({}))).await.expect(201);
    assert_eq!(priority_of(&created), (Some(0), Some("PreemptLowerPriority"), None));
}

#[tokio::test]
async fn adm_022_an_update_keeps_the_priority_that_it_leaves_out() {
    let api = Api::start().await;
    let mut sent = api.post(PODS, &pod("p", json!({}))).await.expect(201);
    let spec = sent["spec"].as_object_mut().unwrap();
    spec.remove("priority");
    spec.remove("preemptionPolicy");
    sent["metadata"]["labels"] = json!({"a": "b"});
    let updated = api.put(&format!("{PODS}/p"), &sent).await.expect(200);
    assert_eq!(priority_of(&updated), (Some(0), Some("PreemptLowerPriority"), None));
}

#[tokio::test]
async fn adm_023_a_priority_that_differs_from_the_class_is_refused() {
    let api = Api::start().await;
    api.post(CLASSES, &class("high", 1000, json!({}))).await.expect(201);
    let refused = api.post(PODS, &pod("p", json!({"priorityClassName": "high", "priority": 5}))).await;
    let why = "the integer value of priority (5) must not be provided in pod spec; priority admission controller computed \
               1000 from the given PriorityClass name";
    assert_eq!(refused.refusal(403, "Forbidden"), format!("pods \"p\" is forbidden: {why}"));
    let refused = api.post(PODS, &pod("p", json!({"preemptionPolicy": "Never"}))).await;
    let why = "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission \
               controller computed PreemptLowerPriority from the given PriorityClass name";
    assert_eq!(refused.refusal(403, "Forbidden"), format!("pods \"p\" is forbidden: {why}"));
    api.post(PODS, &pod("p", json!({"priorityClassName": "high", "priority": 1000}))).await.expect(201);
}

#[tokio::test]
async fn adm_023_there_is_one_default_class() {
    let api = Api::start().await;
    api.post(CLASSES, &class("first", 1, json!({"globalDefault": true}))).await.expect(201);
    let refused = api.post(CLASSES, &class("second", 2, json!({"globalDefault": true}))).await;
    let why = "PriorityClass first is already marked as default. Only one default can exist";
    let text = format!("priorityclasses.scheduling.k8s.io \"second\" is forbidden: {why}");
    assert_eq!(refused.refusal(403, "Forbidden"), text);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    api.patch(&format!("{CLASSES}/first"), &label).await.expect(200);
}
