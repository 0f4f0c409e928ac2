//! Old values, and failures that an update does not cause.

use serde_json::json;

use super::{SAMPLE, SAMPLES, definition_errors, detail, errors, sample, serving, spec};

#[tokio::test]
async fn cel_007_rules_run_on_every_kind_of_write() {
    let api =
        serving(spec(json!({"a": {"type": "integer"}}), json!([{"rule": "self.a < 3", "message": "too much"}]))).await;
    let created = api.post(SAMPLES, &sample(json!({"a": 1}))).await.expect(201);
    let mut sent = created.clone();
    sent["spec"]["a"] = json!(3);
    assert_eq!(detail(&api.put(SAMPLE, &sent).await), "spec: Invalid value: too much");
    assert_eq!(detail(&api.patch(SAMPLE, &json!({"spec": {"a": 4}})).await), "spec: Invalid value: too much");
    let applied = api.apply(&format!("{SAMPLE}?fieldManager=m&force=true"), &sample(json!({"a": 5}))).await;
    assert_eq!(detail(&applied), "spec: Invalid value: too much");
}

#[tokio::test]
async fn cel_007_a_status_write_runs_the_rules_of_the_whole_object() {
    let mut schema = spec(json!({"a": {"type": "integer"}}), json!([]));
    schema["x-kubernetes-validations"] =
        json!([{"rule": "!has(self.status) || self.status.phase != 'Bad' || self.spec.a > 1", "message": "not yet"}]);
    let api = serving(schema).await;
    api.post(SAMPLES, &sample(json!({"a": 1}))).await.expect(201);
    let status = format!("{SAMPLE}/status");
    assert_eq!(
        detail(&api.patch(&status, &json!({"status": {"phase": "Bad"}})).await),
        "<nil>: Invalid value: not yet"
    );
    api.patch(&status, &json!({"status": {"phase": "Good"}})).await.expect(200);
}

#[tokio::test]
async fn cel_021_a_rule_with_the_old_value_needs_one() {
    let properties = json!({"a": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "immutable"}]}});
    let api = serving(spec(properties, json!([]))).await;
    api.post(SAMPLES, &sample(json!({}))).await.expect(201);
    api.patch(SAMPLE, &json!({"spec": {"a": "x"}})).await.expect(200);
    assert_eq!(
        detail(&api.patch(SAMPLE, &json!({"spec": {"a": "y"}})).await),
        "spec.a: Invalid value: \"y\": immutable"
    );
    api.patch(SAMPLE, &json!({"spec": {"a": null}})).await.expect(200);
}

#[tokio::test]
async fn cel_022_an_optional_old_value_always_runs_the_rule() {
    let rules = json!([{"rule": "oldSelf.hasValue() || self == 'new'", "message": "must start as new", "optionalOldSelf": true},
                       {"rule": "oldSelf.optMap(o, o != self).orValue(true)", "message": "must change", "optionalOldSelf": true}]);
    let api = serving(spec(
        json!({"a": {"type": "string", "x-kubernetes-validations": rules}, "b": {"type": "string"}}),
        json!([]),
    ))
    .await;
    assert_eq!(errors(&api, json!({"a": "old"})).await, "spec.a: Invalid value: \"old\": must start as new");
    api.post(SAMPLES, &sample(json!({"a": "new"}))).await.expect(201);
    api.patch(SAMPLE, &json!({"spec": {"a": "next"}})).await.expect(200);
    assert_eq!(
        detail(&api.patch(SAMPLE, &json!({"spec": {"b": "x"}})).await),
        "spec.a: Invalid value: \"next\": must change"
    );
}

#[tokio::test]
async fn cel_023_items_of_map_lists_are_correlated_by_their_keys() {
    let item = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"},
        "value": {"type": "string", "maxLength": 10, "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "immutable"}]}}});
    let properties = json!({"list": {"type": "array", "maxItems": 10, "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}});
    let api = serving(spec(properties, json!([]))).await;
    api.post(SAMPLES, &sample(json!({"list": [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]})))
        .await
        .expect(201);
    let list = |items: serde_json::Value| json!({"spec": {"list": items}});
    let swapped = json!([{"name": "b", "value": "2"}, {"name": "c", "value": "3"}, {"name": "a", "value": "1"}]);
    api.patch(SAMPLE, &list(swapped)).await.expect(200);
    let changed = api.patch(SAMPLE, &list(json!([{"name": "b", "value": "9"}]))).await;
    assert_eq!(detail(&changed), "spec.list[0].value: Invalid value: \"9\": immutable");
}

#[tokio::test]
async fn cel_024_the_old_value_is_refused_below_lists_without_keys() {
    let item = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]});
    assert_eq!(
        definition_errors(spec(json!({"list": {"type": "array", "maxItems": 5, "items": item}}), json!([]))).await,
        "$.properties[spec].properties[list].items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf \
         cannot be used on the uncorrelatable portion of the schema within $.properties[spec].properties[list]"
    );
}

#[tokio::test]
async fn cel_025_an_optional_old_value_that_is_not_used_is_refused() {
    assert_eq!(
        definition_errors(spec(json!({}), json!([{"rule": "true", "optionalOldSelf": true}]))).await,
        "$.properties[spec].x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not \
         used in rule"
    );
}

#[tokio::test]
async fn cel_026_an_unchanged_value_that_fails_is_a_warning() {
    let api = serving(spec(json!({"a": {"type": "string"}, "b": {"type": "string"}}), json!([]))).await;
    api.post(SAMPLES, &sample(json!({"a": "x"}))).await.expect(201);
    let rules = json!([{"rule": "self != 'x'", "message": "not x"}]);
    let mut stricter = super::definition(spec(
        json!({"a": {"type": "string", "x-kubernetes-validations": rules}, "b": {"type": "string"}}),
        json!([]),
    ));
    let name = format!("{}/samples.rules.evenkeel.dev", super::DEFINITIONS);
    stricter["metadata"]["resourceVersion"] = api.get(&name).await.expect(200)["metadata"]["resourceVersion"].clone();
    api.put(&name, &stricter).await.expect(200);
    let response = api.patch(SAMPLE, &json!({"spec": {"b": "y"}})).await;
    let text = "299 - \"spec.a: Invalid value: \\\"x\\\": not x\"";
    assert_eq!(response.warnings(), [text]);
    response.expect(200);
    let mut renamed = sample(json!({"a": "x"}));
    renamed["metadata"]["name"] = json!("b");
    assert_eq!(detail(&api.post(SAMPLES, &renamed).await), "spec.a: Invalid value: \"x\": not x");
}
