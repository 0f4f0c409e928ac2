//! Patches with many operations, and patches of long lists.

use serde_json::{Value, json};

use crate::api::{Api, JSON_PATCH};
use crate::{DEFINITIONS, PODS, WIDGETS, pod, timed, widget, widgets};

const OPEN: &str = "x-kubernetes-preserve-unknown-fields";

#[tokio::test]
async fn bud_6_ten_thousand_inserts_do_not_move_the_whole_list() {
    let api = Api::start().await;
    api.post(DEFINITIONS, &widgets(json!({"type": "object", OPEN: true}))).await.expect(201);
    let list = vec![0; 500_000];
    api.post(WIDGETS, &widget("w", json!({"list": list}))).await.expect(201);
    let insert = json!({"op": "add", "path": "/spec/list/0", "value": 1});
    let patch = Value::from(vec![insert; 10_000]).to_string();
    let path = format!("{WIDGETS}/w");
    let response = timed("JSON patch, 10,000 inserts before 500,000 items", async {
        api.send("PATCH", &path, &[("content-type", JSON_PATCH)], patch).await
    });
    let patched = response.await.expect(200);
    let list = patched["spec"]["list"].as_array().unwrap();
    assert_eq!(list.len(), 510_000);
    assert_eq!(list[9_999], 1);
    assert_eq!(list[10_000], 0);
}

#[tokio::test]
async fn bud_6_inserts_and_removals_at_alternating_places() {
    let api = Api::start().await;
    api.post(DEFINITIONS, &widgets(json!({"type": "object", OPEN: true}))).await.expect(201);
    let list: Vec<u32> = (0..100_000).collect();
    api.post(WIDGETS, &widget("w", json!({"a": list, "b": {"c": list}}))).await.expect(201);
    let mut patch = Vec::new();
    for _ in 0..2_500 {
        patch.push(json!({"op": "add", "path": "/spec/a/0", "value": 1}));
        patch.push(json!({"op": "move", "from": "/spec/b/c/50000", "path": "/spec/a/50000"}));
        patch.push(json!({"op": "remove", "path": "/spec/a/99999"}));
        patch.push(json!({"op": "copy", "from": "/spec/a/7", "path": "/spec/b/c/1"}));
    }
    let (path, patch) = (format!("{WIDGETS}/w"), Value::from(patch).to_string());
    let patched = timed("JSON patch, 10,000 operations in two lists", async {
        api.send("PATCH", &path, &[("content-type", JSON_PATCH)], patch).await.expect(200)
    });
    let patched = patched.await;
    assert_eq!(patched["spec"]["a"].as_array().unwrap().len(), 102_500);
    assert_eq!(patched["spec"]["b"]["c"].as_array().unwrap().len(), 100_000);
}

#[tokio::test]
async fn bud_6_strategic_merge_of_ten_thousand_keyed_items() {
    let api = Api::start().await;
    let env = |value: &str| -> Vec<Value> {
        (0..10_000).rev().map(|index| json!({"name": format!("N{index}"), "value": value})).collect()
    };
    let mut pod = pod("p");
    pod["spec"]["containers"][0]["env"] = env("old").into();
    api.post(PODS, &pod).await.expect(201);
    let patch = json!({"spec": {"containers": [{"name": "main", "env": env("new")}]}});
    let path = format!("{PODS}/p?dryRun=All");
    let patched = timed("strategic merge of 10,000 keyed items", api.strategic(&path, &patch)).await;
    // The environment of a pod is immutable; the merge itself succeeded.
    assert!(patched.refusal(422, "Invalid").contains("spec: Forbidden"), "{}", patched.text);
}

#[tokio::test]
async fn bud_6_apply_of_twenty_thousand_keyed_items() {
    let api = Api::start().await;
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "value": {"type": "integer"}}});
    let schema = json!({"type": "object", "properties": {"list": {"type": "array", "items": item,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}}});
    api.post(DEFINITIONS, &widgets(schema)).await.expect(201);
    let list = |value: u32, count: u32| -> Vec<Value> {
        (0..count).map(|index| json!({"name": format!("n{index}"), "value": value})).collect()
    };
    let path = format!("{WIDGETS}/w");
    let apply = |manager: &str| format!("{path}?fieldManager={manager}&force=true");
    let first = widget("w", json!({"list": list(1, 10_000)}));
    let second = widget("w", json!({"list": list(2, 10_000)}));
    timed("first apply of 10,000 keyed items", api.apply(&apply("a"), &first)).await.expect(201);
    timed("second apply of 10,000 keyed items", api.apply(&apply("a"), &second)).await.expect(200);
    let taken = timed("forced apply by another manager", api.apply(&apply("b"), &first)).await.expect(200);
    assert_eq!(taken["spec"]["list"].as_array().unwrap().len(), 10_000);
}
