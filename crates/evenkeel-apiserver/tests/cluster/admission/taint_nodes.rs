//! TaintNodesByCondition.

use serde_json::json;

use crate::api::Api;

#[tokio::test]
async fn adm_025_new_nodes_have_the_taint_of_nodes_that_are_not_ready() {
    let api = Api::start().await;
    let added = json!({"effect": "NoSchedule", "key": "node.kubernetes.io/not-ready"});
    let node = |name: &str, taints: serde_json::Value| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": taints}});
    let created = api.post("/api/v1/nodes", &node("bare", json!(null))).await.expect(201);
    assert_eq!(created["spec"]["taints"], json!([added]));
    let own = json!({"effect": "NoExecute", "key": "own"});
    let created = api.post("/api/v1/nodes", &node("own", json!([own]))).await.expect(201);
    assert_eq!(created["spec"]["taints"], json!([own, added]));
    let created = api.post("/api/v1/nodes", &node("has-it", json!([added]))).await.expect(201);
    assert_eq!(created["spec"]["taints"], json!([added]));
    // The controller of nodes removes it by an update.
    let removed = api.patch("/api/v1/nodes/bare", &json!({"spec": {"taints": null}})).await.expect(200);
    assert!(removed["spec"].get("taints").is_none(), "{removed}");
}
