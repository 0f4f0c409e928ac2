//! DefaultTolerationSeconds.

use serde_json::{Value, json};

use crate::PODS;
use crate::api::Api;

fn pod(name: &str, tolerations: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
           "spec": {"containers": [{"name": "a", "image": "busybox"}], "tolerations": tolerations}})
}

fn added(taint: &str) -> Value {
    json!({"effect": "NoExecute", "key": taint, "operator": "Exists", "tolerationSeconds": 300})
}

#[tokio::test]
async fn adm_024_pods_tolerate_nodes_that_fail_for_five_minutes() {
    let api = Api::start().await;
    let (not_ready, unreachable) = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable");
    let created = api.post(PODS, &pod("none", json!([]))).await.expect(201);
    assert_eq!(created["spec"]["tolerations"], json!([added(not_ready), added(unreachable)]));

    let own = json!({"key": not_ready, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5});
    let created = api.post(PODS, &pod("one", json!([own]))).await.expect(201);
    assert_eq!(created["spec"]["tolerations"], json!([own, added(unreachable)]));

    let all = json!({"operator": "Exists"});
    let created = api.post(PODS, &pod("all", json!([all]))).await.expect(201);
    assert_eq!(created["spec"]["tolerations"], json!([all]));

    let other_effect = json!({"key": not_ready, "operator": "Exists", "effect": "NoSchedule"});
    let created = api.post(PODS, &pod("other", json!([other_effect]))).await.expect(201);
    assert_eq!(created["spec"]["tolerations"], json!([other_effect, added(not_ready), added(unreachable)]));
}

#[tokio::test]
async fn adm_024_an_update_gets_the_tolerations_that_it_leaves_out() {
    let api = Api::start().await;
    let mut sent = api.post(PODS, &pod("web", json!([]))).await.expect(201);
    let before = sent["spec"]["tolerations"].clone();
    sent["spec"].as_object_mut().unwrap().remove("tolerations");
    sent["metadata"]["labels"] = json!({"a": "b"});
    let updated = api.put(&format!("{PODS}/web"), &sent).await.expect(200);
    assert_eq!(updated["spec"]["tolerations"], before);
}

#[tokio::test]
async fn adm_024_the_writer_does_not_own_what_admission_adds() {
    let api = Api::start().await;
    let created = api.post(PODS, &pod("web", json!([]))).await.expect(201);
    assert!(created["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"].get("f:tolerations").is_none());
    let mut sent = created.clone();
    sent["spec"]["tolerations"] = json!([]);
    sent["metadata"]["labels"] = json!({"a": "b"});
    let updated = api.put(&format!("{PODS}/web?fieldManager=other"), &sent).await.expect(200);
    for entry in updated["metadata"]["managedFields"].as_array().unwrap() {
        assert!(entry["fieldsV1"]["f:spec"].get("f:tolerations").is_none(), "{entry}");
    }
}
