//! Strategic merge patches, from the request to the stored object.

use serde_json::json;

use crate::api::{Api, STRATEGIC, version};
use crate::*;

const NODES: &str = "/api/v1/nodes";

#[tokio::test(start_paused = true)]
async fn pat_1_pat_7_custom_resources_have_no_strategic_merge() {
    let api = Api::start().await;
    api.post(DEFINITIONS, &widgets()).await.expect(201);
    api.post(WIDGETS, &widget("a")).await.expect(201);
    let refused = api.strategic(&format!("{WIDGETS}/a"), &json!({"spec": {"size": 2}})).await;
    let message = refused.refusal(415, "UnsupportedMediaType");
    assert!(
        message.ends_with("application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml")
    );
}

#[tokio::test(start_paused = true)]
async fn pat_2_pat_3_a_strategic_merge_needs_an_object_and_may_need_a_version() {
    let api = Api::start().await;
    let path = format!("{PODS}/a");
    api.strategic(&path, &json!({})).await.refusal(404, "NotFound");
    let created = api.post(PODS, &pod("a")).await.expect(201);
    let labelled = |version: &Value| json!({"metadata": {"resourceVersion": version, "labels": {"a": "b"}}});
    let patched = api.strategic(&path, &labelled(&created["metadata"]["resourceVersion"])).await.expect(200);
    assert_eq!(patched["metadata"]["labels"], json!({"a": "b"}));
    api.strategic(&path, &labelled(&created["metadata"]["resourceVersion"])).await.refusal(409, "Conflict");
    // A patch without changes writes nothing.
    let again = api.strategic(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
    assert_eq!(version(&again), version(&patched));
}

#[tokio::test(start_paused = true)]
async fn pat_7_containers_merge_by_name_and_are_defaulted() {
    let api = Api::start().await;
    api.post(DEPLOYMENTS, &deployment("a")).await.expect(201);
    let path = format!("{DEPLOYMENTS}/a");
    let template = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    let patch = template(json!({"containers": [{"name": "side", "image": "envoy"}],
                                "$setElementOrder/containers": [{"name": "main"}, {"name": "side"}]}));
    let patched = api.strategic(&path, &patch).await.expect(200);
    let containers = &patched["spec"]["template"]["spec"]["containers"];
    assert_eq!((&containers[0]["name"], &containers[0]["image"]), (&json!("main"), &json!("app")));
    assert_eq!((&containers[1]["name"], &containers[1]["imagePullPolicy"]), (&json!("side"), &json!("Always")));
    assert_eq!(patched["metadata"]["generation"], 2);
    let manager = &patched["metadata"]["managedFields"][0];
    assert_eq!(manager["operation"], "Update");
    // A change of strategy removes the fields of the old one.
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let patched = api.strategic(&path, &patch).await.expect(200);
    assert_eq!(patched["spec"]["strategy"], json!({"type": "Recreate"}));
    let patch = template(json!({"containers": [{"name": "side", "$patch": "delete"}]}));
    let patched = api.strategic(&path, &patch).await.expect(200);
    assert_eq!(patched["spec"]["template"]["spec"]["containers"].as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn pat_7_nodes_are_cordoned_and_finalizers_taken_away() {
    let api = Api::start().await;
    let node = json!({"apiVersion": "v1", "kind": "Node",
                      "metadata": {"name": "n", "finalizers": ["example.com/a", "example.com/b"]}});
    api.post(NODES, &node).await.expect(201);
    let path = format!("{NODES}/n");
    let patched = api.strategic(&path, &json!({"spec": {"unschedulable": true}})).await.expect(200);
    assert_eq!(patched["spec"]["unschedulable"], true);
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}});
    let patched = api.strategic(&path, &patch).await.expect(200);
    assert_eq!(patched["metadata"]["finalizers"], json!(["example.com/b"]));
    // The status has its conditions merged by type, at its own endpoint.
    let condition = |kind: &str, status: &str| json!({"status": {"conditions": [{"type": kind, "status": status}]}});
    let status = format!("{path}/status");
    api.strategic(&status, &condition("Ready", "False")).await.expect(200);
    api.strategic(&status, &condition("Disk", "False")).await.expect(200);
    let patched = api.strategic(&status, &condition("Ready", "True")).await.expect(200);
    let conditions = patched["status"]["conditions"].as_array().unwrap();
    let states: Vec<(&Value, &Value)> = conditions.iter().map(|item| (&item["type"], &item["status"])).collect();
    assert_eq!(states, [(&json!("Disk"), &json!("False")), (&json!("Ready"), &json!("True"))]);
}

#[tokio::test(start_paused = true)]
async fn pat_7_a_scale_takes_a_strategic_merge() {
    let api = Api::start().await;
    api.post(DEPLOYMENTS, &deployment("a")).await.expect(201);
    let scale = format!("{DEPLOYMENTS}/a/scale");
    let patched = api.strategic(&scale, &json!({"spec": {"replicas": 4}})).await.expect(200);
    assert_eq!((&patched["kind"], &patched["spec"]["replicas"]), (&json!("Scale"), &json!(4)));
    assert_eq!(api.get(&format!("{DEPLOYMENTS}/a")).await.expect(200)["spec"]["replicas"], 4);
}

#[tokio::test(start_paused = true)]
async fn pat_7_pat_8_an_invalid_patch_is_refused_and_changes_nothing() {
    let api = Api::start().await;
    let path = format!("{PODS}/a");
    let created = api.post(PODS, &pod("a")).await.expect(201);
    let refused = api.strategic(&path, &json!({"metadata": {"$patch": "bogus"}})).await;
    assert_eq!(refused.refusal(400, "BadRequest"), "unknown patch type: bogus");
    let refused = api.strategic(&path, &json!({"metadata": {"$retainKeys": "x"}})).await;
    assert_eq!(refused.refusal(400, "BadRequest"), "invalid patch format of retainKeys");
    let finalizers = json!({"metadata": {"finalizers": ["example.com/x"]}});
    api.strategic(&path, &finalizers).await.expect(200);
    let refused = api.strategic(&path, &json!({"metadata": {"finalizers": [["x"]]}})).await;
    refused.refusal(400, "BadRequest");
    let refused = api.send("PATCH", &path, &[("content-type", STRATEGIC)], "[]").await;
    let message = "json: cannot unmarshal array into Go value of type map[string]interface {}";
    assert_eq!(refused.refusal(400, "BadRequest"), message);
    let refused = api.strategic(&path, &json!({"spec": {"priority": "high"}})).await;
    refused.refusal(422, "Invalid");
    assert_eq!(refused.body["details"]["causes"][0]["field"], "patch");
    let deep = (0..65).fold(json!(1), |inner, _| json!({"a": inner}));
    api.strategic(&path, &deep).await.refusal(400, "BadRequest");
    assert_eq!(api.get(&path).await.expect(200)["metadata"]["uid"], created["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn dry_4_a_strategic_merge_reports_unknown_and_duplicate_fields() {
    let api = Api::start().await;
    api.post(PODS, &pod("a")).await.expect(201);
    let path = format!("{PODS}/a");
    let twice = r#"{"metadata": {"labels": {"a": "1", "a": "2"}, "bogus": 1}}"#;
    let send =
        async |query: &str| api.send("PATCH", &format!("{path}{query}"), &[("content-type", STRATEGIC)], twice).await;
    let response = send("?dryRun=All").await;
    assert_eq!(
        response.warnings(),
        ["299 - \"unknown field \\\"metadata.bogus\\\"\"", "299 - \"duplicate field \\\"metadata.labels.a\\\"\""]
    );
    let refused = send("?fieldValidation=Strict").await;
    assert!(refused.refusal(422, "Invalid").contains("strict decoding error"), "{}", refused.text);
    assert!(send("?fieldValidation=Ignore").await.warnings().is_empty());
}
