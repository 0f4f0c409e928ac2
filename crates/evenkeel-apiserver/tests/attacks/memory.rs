//! Requests that are small and would make the server large.

use evenkeel_apiserver::ApiServer;
use serde_json::{Map, Value, json};

use crate::api::{Api, TestEnv};
use crate::{CONFIG_MAPS, DEFINITIONS, WIDGETS, config_map, timed, widget, widgets};

const TOO_LARGE: &str = "etcdserver: request is too large";

fn open() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

#[tokio::test]
async fn bud_1_an_object_has_the_size_limit_of_etcd() {
    let api = Api::start().await;
    api.post(DEFINITIONS, &widgets(open())).await.expect(201);
    let large = widget("w", json!({"text": "x".repeat(1_600_000)}));
    let refused = api.post(WIDGETS, &large).await;
    assert_eq!(refused.refusal(500, ""), TOO_LARGE);
    api.get(&format!("{WIDGETS}/w")).await.expect(404);
    let huge = widget("w", json!({"text": "x".repeat(3_200_000)}));
    let refused = api.post(WIDGETS, &huge).await;
    assert_eq!(refused.refusal(413, "RequestEntityTooLarge"), "Request entity too large: limit is 3145728");
    api.post(WIDGETS, &widget("w", json!({"text": "x".repeat(1_500_000)}))).await.expect(201);
}

#[tokio::test]
async fn bud_1_patches_do_not_grow_an_object_beyond_the_limit() {
    let api = Api::start().await;
    api.post(DEFINITIONS, &widgets(open())).await.expect(201);
    let path = format!("{WIDGETS}/w");
    api.post(WIDGETS, &widget("w", json!({}))).await.expect(201);
    let grow = |key: &str| json!({"spec": {key: "x".repeat(1_000_000)}});
    let first = api.patch(&path, &grow("a")).await.expect(200);
    for key in ["b", "c", "d"] {
        assert_eq!(api.patch(&path, &grow(key)).await.refusal(500, ""), TOO_LARGE);
    }
    assert_eq!(api.get(&path).await.expect(200), first);
    // A write that makes the object smaller succeeds.
    api.patch(&path, &json!({"spec": {"a": null}})).await.expect(200);
    api.patch(&path, &grow("b")).await.expect(200);
}

#[tokio::test]
async fn bud_2_defaults_meet_the_size_limit_before_they_are_allocated() {
    let api = Api::start().await;
    let defaults: Map<String, Value> = (0..200)
        .map(|index| (format!("field{index}"), json!({"type": "string", "default": "x".repeat(5_000)})))
        .collect();
    let item = json!({"type": "object", "properties": defaults});
    let schema = json!({"type": "object", "properties": {"list": {"type": "array", "items": item}}});
    api.post(DEFINITIONS, &widgets(schema)).await.expect(201);
    // One item grows by 1 MB; the list would be 500 GB.
    api.post(WIDGETS, &widget("one", json!({"list": [{}]}))).await.expect(201);
    let many = widget("many", json!({"list": vec![json!({}); 500_000]}));
    let refused = timed("defaults of 1 MB for each of 500,000 items", api.post(WIDGETS, &many)).await;
    assert_eq!(refused.refusal(500, ""), TOO_LARGE);
    let refused = api.apply(&format!("{WIDGETS}/many?fieldManager=m"), &many).await;
    assert!(refused.text.contains(TOO_LARGE) || refused.status == 422, "{}", refused.text);
}

#[tokio::test]
async fn bud_2_defaults_within_defaults_meet_the_size_limit() {
    let api = Api::start().await;
    // Each level has ten items, whose default is the next level: 10^8 values from a request without a field.
    let mut level = json!({"type": "object", "default": {}, "properties": {"leaf": {"type": "integer", "default": 1}}});
    for _ in 0..8 {
        let items: Map<String, Value> = (0..10).map(|index| (format!("f{index}"), level.clone())).collect();
        let defaulted: Value = items.into();
        level = json!({"type": "object", "default": {}, "properties": {"list": {
            "type": "array", "default": vec![json!({}); 10], "items": {"type": "object", "properties": {"x": defaulted["f0"]}}}}});
    }
    api.post(DEFINITIONS, &widgets(level)).await.expect(201);
    let refused = timed("defaults in eight levels of ten", api.post(WIDGETS, &widget("w", json!({})))).await;
    assert_eq!(refused.refusal(500, ""), TOO_LARGE);
}

#[tokio::test]
async fn bud_3_a_thousand_large_patterns_are_refused() {
    let api = Api::start().await;
    let patterns = |pattern: fn(usize) -> String| -> Value {
        let fields: Map<String, Value> = (0..1_000)
            .map(|index| (format!("field{index}"), json!({"type": "string", "pattern": pattern(index)})))
            .collect();
        widgets(json!({"type": "object", "properties": fields}))
    };
    let large = patterns(|index| format!("^\\p{{L}}{{100}}{index}$"));
    let refused = timed("1,000 large patterns", api.post(DEFINITIONS, &large)).await;
    let message = refused.refusal(422, "Invalid");
    assert!(
        message.contains("must be a valid regular expression, but isn't: error parsing regexp: expression too large")
    );
    let too_large = patterns(|index| format!("^\\p{{L}}{{300}}{index}$"));
    timed("1,000 patterns above the limit", api.post(DEFINITIONS, &too_large)).await.refusal(422, "Invalid");
    let small = patterns(|index| format!("^[a-z]([-a-z0-9]*[a-z0-9])?{index}$"));
    timed("1,000 small patterns", api.post(DEFINITIONS, &small)).await.expect(201);
    let object = widget("w", json!({"field7": "abc7"}));
    api.post(WIDGETS, &object).await.expect(201);
    let refused = api.post(WIDGETS, &widget("v", json!({"field7": "abc8"}))).await;
    assert!(refused.refusal(422, "Invalid").contains("should match '^[a-z]([-a-z0-9]*[a-z0-9])?7$'"));
}

#[tokio::test]
async fn bud_4_the_history_is_limited_in_bytes() {
    const LIMIT: usize = 8 << 20;
    let api = Api::with(ApiServer::builder().env(TestEnv::new()).history_bytes(LIMIT)).await;
    api.post(DEFINITIONS, &widgets(open())).await.expect(201);
    api.post(CONFIG_MAPS, &config_map("small")).await.expect(201);
    let start = api.revision(WIDGETS).await;
    api.post(WIDGETS, &widget("w", json!({"text": "x".repeat(1_000_000)}))).await.expect(201);
    let path = format!("{WIDGETS}/w");
    let mut watch = api.watch(WIDGETS).await;
    for index in 0..40 {
        api.patch(&path, &json!({"spec": {"index": index}})).await.expect(200);
        assert_eq!(watch.types(), "MODIFIED");
        let stats = api.server.stats();
        assert!(stats.history_bytes <= LIMIT, "{stats:?}");
        assert!(stats.object_bytes > 1_000_000, "{stats:?}");
    }
    // A resource with a short history keeps it.
    let exact = format!("{CONFIG_MAPS}?resourceVersion={start}&resourceVersionMatch=Exact");
    assert_eq!(api.get(&exact).await.expect(200)["items"].as_array().unwrap().len(), 1);
    let expired = api.get(&format!("{WIDGETS}?watch=true&resourceVersion={start}")).await;
    assert!(
        expired.text.contains("too old resource version") || expired.text.contains("\"code\":410"),
        "{}",
        expired.text
    );
    let list = api.get(&format!("{WIDGETS}?resourceVersion={start}&resourceVersionMatch=Exact")).await;
    list.refusal(410, "Expired");
    api.delete(&path).await.expect(200);
    assert_eq!(watch.types(), "DELETED");
    let stats = api.server.stats();
    assert!(stats.history_bytes <= LIMIT && stats.object_bytes < 1_000_000, "{stats:?}");
}
