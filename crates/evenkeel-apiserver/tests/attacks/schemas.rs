//! Custom resources whose schema multiplies the work of validation.

use serde_json::{Value, json};

use crate::api::Api;
use crate::{DEFINITIONS, MAX_CAUSES, WIDGETS, causes, timed, widget, widgets};

const EXHAUSTED: &str = "validation failed due to running out of cost budget, no further validation rules will be run";

fn list_of(items: Value) -> Value {
    json!({"type": "object", "properties": {"list": {"type": "array", "items": items}}})
}

#[tokio::test]
async fn bud_7_a_large_enum_is_a_set() {
    let api = Api::start().await;
    let choices: Vec<String> = (0..50_000).map(|index| format!("choice{index}")).collect();
    api.post(DEFINITIONS, &widgets(list_of(json!({"type": "string", "enum": choices})))).await.expect(201);
    let last = widget("last", json!({"list": vec!["choice49999"; 80_000]}));
    timed("80,000 items of an enum of 50,000", api.post(WIDGETS, &last)).await.expect(201);
    let none = widget("none", json!({"list": vec!["none"; 200_000]}));
    let refused = timed("200,000 items that are not in an enum of 50,000", api.post(WIDGETS, &none)).await;
    refused.refusal(422, "Invalid");
    assert!(causes(&refused.body) <= MAX_CAUSES);
    assert!(refused.text.len() < 4 << 20, "{} bytes", refused.text.len());
}

#[tokio::test]
async fn bud_7_alternatives_have_a_budget() {
    let api = Api::start().await;
    // Every item is valid, by the last alternative.
    let mut alternatives: Vec<Value> = (0..2_000).map(|index| json!({"maximum": -1 - index})).collect();
    alternatives.push(json!({"minimum": 0}));
    api.post(DEFINITIONS, &widgets(list_of(json!({"type": "integer", "anyOf": alternatives})))).await.expect(201);
    let object = widget("w", json!({"list": vec![1; 200_000]}));
    let refused = timed("200,000 items of 2,000 alternatives", api.post(WIDGETS, &object)).await;
    assert!(refused.refusal(422, "Invalid").contains(EXHAUSTED), "{}", &refused.text[..1000]);
    assert!(causes(&refused.body) <= MAX_CAUSES);
}

#[tokio::test]
async fn bud_7_two_alternatives_of_many_items_are_within_the_budget() {
    let api = Api::start().await;
    let both = json!([{"minimum": 5}, {"maximum": 3}]);
    api.post(DEFINITIONS, &widgets(list_of(json!({"type": "integer", "anyOf": both})))).await.expect(201);
    let object = widget("w", json!({"list": vec![1; 200_000]}));
    timed("200,000 items of 2 alternatives", api.post(WIDGETS, &object)).await.expect(201);
}

#[tokio::test]
async fn bud_7_items_of_an_updated_map_are_found_by_their_key() {
    let api = Api::start().await;
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "value": {"type": "integer"}}});
    let schema = json!({"type": "object", "properties": {"list": {"type": "array", "items": item,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}}});
    api.post(DEFINITIONS, &widgets(schema)).await.expect(201);
    let list = |value: usize| -> Vec<Value> {
        (0..15_000).map(|index| json!({"name": format!("n{index}"), "value": value})).collect()
    };
    api.post(WIDGETS, &widget("w", json!({"list": list(1)}))).await.expect(201);
    let update = widget("w", json!({"list": list(2)}));
    let mut stored = api.get(&format!("{WIDGETS}/w")).await.expect(200);
    stored["spec"] = update["spec"].clone();
    timed("update of 15,000 items of a map", api.put(&format!("{WIDGETS}/w"), &stored)).await.expect(200);
}
