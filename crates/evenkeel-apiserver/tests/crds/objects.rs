//! The objects of a definition: how they are read, pruned, defaulted, checked and listed.

use serde_json::{Value, json};

use crate::api::{Api, DEFINITIONS, FOOS, foo, foo_definition};

#[tokio::test(start_paused = true)]
async fn crd_6_crd_7_crd_9_an_object_is_pruned_defaulted_and_checked_in_this_order() {
    let api = Api::with_foos().await;
    let large = i64::MAX - 1;
    let sent = foo("a", json!({"replicas": large, "bogus": 1, "free": {"any": {"thing": [1]}}}));
    let response = api.post(&format!("{FOOS}?fieldValidation=Ignore"), &sent).await;
    let created = response.expect(201);
    assert_eq!(created["spec"], json!({"replicas": large, "mode": "calm", "free": {"any": {"thing": [1]}}}));
    assert_eq!(api.get(&format!("{FOOS}/a")).await.expect(200)["spec"], created["spec"]);
    // A default does not mend an invalid value, and a null counts as absent where null is not allowed.
    let nulled = api.post(FOOS, &foo("b", json!({"mode": null}))).await.expect(201);
    assert_eq!(nulled["spec"], json!({"mode": "calm"}));
    let wrong = api.post(FOOS, &foo("c", json!({"replicas": -1, "mode": "odd"}))).await;
    assert_eq!(wrong.code, 422);
    assert_eq!(wrong.fields(), ["spec.mode", "spec.replicas"], "{}", wrong.message());
}

#[tokio::test(start_paused = true)]
async fn crd_6_a_new_default_shows_on_read_and_is_not_stored() {
    let api = Api::with_foos().await;
    let before = api.post(FOOS, &foo("a", json!({}))).await.expect(201);
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/colour";
    let change = json!([{"op": "add", "path": path, "value": {"type": "string", "default": "red"}}]);
    let definition = format!("{DEFINITIONS}/foos.example.com");
    api.patch(&definition, "application/json-patch+json", &change.to_string()).await.expect(200);
    let read = api.get(&format!("{FOOS}/a")).await.expect(200);
    assert_eq!(read["spec"], json!({"mode": "calm", "colour": "red"}));
    assert_eq!(read["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    let listed = api.get(FOOS).await.expect(200);
    assert_eq!(listed["items"][0]["spec"]["colour"], "red");
    let back = json!([{"op": "remove", "path": path}]);
    api.patch(&definition, "application/json-patch+json", &back.to_string()).await.expect(200);
    assert_eq!(api.get(&format!("{FOOS}/a")).await.expect(200)["spec"], json!({"mode": "calm"}));
}

#[tokio::test(start_paused = true)]
async fn crd_8_keywords_are_checked() {
    let api = Api::start().await;
    let mut definition = foo_definition();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({
        "type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 4},
            "when": {"type": "string", "format": "date-time"},
            "port": {"x-kubernetes-int-or-string": true},
            "ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "multipleOf": 0.5},
            "tags": {"type": "array", "maxItems": 2, "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
                "items": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}},
            "either": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "integer"}},
        },
    });
    api.post(DEFINITIONS, &definition).await.expect(201);
    let good = json!({
        "name": "abc", "when": "2026-01-01T00:00:00Z", "port": "http", "ratio": 1.5, "tags": ["a", "b"],
        "parts": [{"id": "x"}, {"id": "y"}], "either": {"a": 1},
    });
    api.post(FOOS, &foo("good", good.clone())).await.expect(201);
    let cases: [(&str, Value, &str); 11] = [
        ("name", Value::Null, "spec.name"),
        ("name", json!("ABC"), "spec.name"),
        ("name", json!("abcde"), "spec.name"),
        ("name", json!(7), "spec.name"),
        ("when", json!("yesterday"), "spec.when"),
        ("port", json!(1.5), "spec.port"),
        ("ratio", json!(0), "spec.ratio"),
        ("tags", json!(["a", "b", "c"]), "spec.tags"),
        ("tags", json!(["a", "a"]), "spec.tags[1]"),
        ("parts", json!([{"id": "x"}, {"id": "x"}]), "spec.parts[1]"),
        ("either", json!({"a": 1, "b": 2}), "spec.either"),
    ];
    for (key, value, field) in cases {
        let mut spec = good.clone();
        spec[key] = value.clone();
        let response = api.post(FOOS, &foo("bad", spec)).await;
        assert_eq!(response.code, 422, "{key}={value}: {}", response.body);
        assert!(response.fields().contains(&field), "{key}={value}: {:?}", response.fields());
    }
}

#[tokio::test(start_paused = true)]
async fn crd_9_unknown_fields_are_pruned_with_a_warning() {
    let api = Api::with_foos().await;
    let mut sent = foo("a", json!({"bogus": 1}));
    sent["metadata"]["labels"] = json!({"kept": "yes"});
    sent["extra"] = json!(true);
    let warned = api.post(&format!("{FOOS}?fieldValidation=Warn"), &sent).await;
    assert_eq!(warned.warnings(), [r#"299 - "unknown field \"extra\"""#, r#"299 - "unknown field \"spec.bogus\"""#]);
    let created = warned.expect(201);
    assert!(created.get("extra").is_none());
    assert_eq!(created["spec"], json!({"mode": "calm"}));
    assert_eq!(created["metadata"]["labels"], json!({"kept": "yes"}));
    let refused = api.post(&format!("{FOOS}?fieldValidation=Strict"), &foo("b", json!({"bogus": 1}))).await;
    assert_eq!(refused.code, 400);
    assert!(
        refused.message().contains(r#"strict decoding error: unknown field "spec.bogus""#),
        "{}",
        refused.message()
    );
}

#[tokio::test(start_paused = true)]
async fn crd_12_an_unchanged_invalid_value_is_accepted() {
    let api = Api::with_foos().await;
    api.post(FOOS, &foo("a", json!({"replicas": 9}))).await.expect(201);
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/replicas/maximum";
    let change = json!([{"op": "add", "path": path, "value": 5}]);
    let definition = format!("{DEFINITIONS}/foos.example.com");
    api.patch(&definition, "application/json-patch+json", &change.to_string()).await.expect(200);
    let one = format!("{FOOS}/a");
    api.merge(&one, &json!({"spec": {"mode": "wild"}})).await.expect(200);
    let worse = api.merge(&one, &json!({"spec": {"replicas": 8}})).await;
    assert_eq!((worse.code, worse.fields()), (422, vec!["spec.replicas"]));
    api.merge(&one, &json!({"spec": {"replicas": 5}})).await.expect(200);
    assert_eq!(api.post(FOOS, &foo("b", json!({"replicas": 9}))).await.code, 422, "a new object is not let be");
}

#[tokio::test(start_paused = true)]
async fn crd_17_lists_carry_the_kind_of_every_item_and_strategic_merge_is_refused() {
    let api = Api::start().await;
    let mut definition = foo_definition();
    definition["spec"]["names"]["listKind"] = "FooHeap".into();
    api.post(DEFINITIONS, &definition).await.expect(201);
    api.post(FOOS, &foo("a", json!({}))).await.expect(201);
    let list = api.get(FOOS).await.expect(200);
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("FooHeap"), &json!("example.com/v1")));
    assert_eq!((&list["items"][0]["kind"], &list["items"][0]["apiVersion"]), (&json!("Foo"), &json!("example.com/v1")));
    let response = api.patch(&format!("{FOOS}/a"), "application/strategic-merge-patch+json", "{}").await;
    assert_eq!(response.code, 415);
    assert_eq!(
        response.message(),
        "the body of the request was in an unknown format - accepted media types include: \
         application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    );
}

#[tokio::test(start_paused = true)]
async fn sub_2_status_is_a_sub_resource_of_its_own() {
    let api = Api::with_foos().await;
    let mut sent = foo("a", json!({}));
    sent["status"] = json!({"replicas": 3});
    let created = api.post(FOOS, &sent).await.expect(201);
    assert!(created.get("status").is_none(), "{created}");
    let status =
        api.merge(&format!("{FOOS}/a/status"), &json!({"status": {"replicas": 3}, "spec": {"mode": "wild"}})).await;
    let status = status.expect(200);
    assert_eq!((&status["status"]["replicas"], &status["spec"]["mode"]), (&json!(3), &json!("calm")));
    assert_eq!(status["metadata"]["generation"], 1);
    let main = api
        .merge(&format!("{FOOS}/a"), &json!({"status": {"replicas": 9}, "spec": {"mode": "wild"}}))
        .await
        .expect(200);
    assert_eq!((&main["status"]["replicas"], &main["metadata"]["generation"]), (&json!(3), &json!(2)));
}

#[tokio::test(start_paused = true)]
async fn sub_2_without_the_sub_resource_status_is_a_field_like_any_other() {
    let api = Api::start().await;
    let mut definition = foo_definition();
    definition["spec"]["versions"][0].as_object_mut().unwrap().remove("subresources");
    api.post(DEFINITIONS, &definition).await.expect(201);
    let mut sent = foo("a", json!({}));
    sent["status"] = json!({"replicas": 3});
    assert_eq!(api.post(FOOS, &sent).await.expect(201)["status"], json!({"replicas": 3}));
    let changed = api.merge(&format!("{FOOS}/a"), &json!({"status": {"replicas": 4}})).await.expect(200);
    assert_eq!((&changed["status"]["replicas"], &changed["metadata"]["generation"]), (&json!(4), &json!(2)));
    api.get(&format!("{FOOS}/a/status")).await.expect(404);
}
