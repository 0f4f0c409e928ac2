//! dryRun, and the other options of writes.

use serde_json::json;

use crate::api::{Api, version};
use crate::*;

const A: &str = "/api/v1/namespaces/default/configmaps/a";

#[tokio::test(start_paused = true)]
async fn dry_1_nothing_is_written_and_no_event_is_sent() {
    let api = Api::start().await;
    api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    api.post(PODS, &pod("p")).await.expect(201);
    let (mut config_maps, mut pods) = (api.watch(CONFIG_MAPS).await, api.watch(PODS).await);
    let mut definitions = api.watch(DEFINITIONS).await;
    let before = api.get(A).await.expect(200);
    let revision = api.revision(CONFIG_MAPS).await;
    let dry = |path: &str| format!("{path}?dryRun=All");
    api.post(&dry(CONFIG_MAPS), &config_map("b")).await.expect(201);
    let mut changed = config_map("a");
    changed["data"]["k"] = "w".into();
    api.put(&dry(A), &changed).await.expect(200);
    api.patch(&dry(A), &json!({"data": {"k": "w"}})).await.expect(200);
    api.delete(&dry(A)).await.expect(200);
    api.delete(&dry(CONFIG_MAPS)).await.expect(200);
    api.delete(&dry(&format!("{PODS}/p"))).await.expect(200);
    api.put(&dry(&format!("{LEASES}/l")), &lease("l", "me")).await.expect(201);
    api.post(&dry(DEFINITIONS), &widgets()).await.expect(201);
    api.post(&dry(NAMESPACES), &namespace("n")).await.expect(201);
    api.delete(&dry(&format!("{NAMESPACES}/kube-node-lease"))).await.expect(200);
    assert_eq!(api.revision(CONFIG_MAPS).await, revision, "no revision is used up");
    assert_eq!(api.get(A).await.expect(200), before);
    assert_eq!((config_maps.types(), pods.types(), definitions.types()), Default::default());
    api.get(WIDGETS).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn dry_1_any_other_value_is_refused() {
    let api = Api::start().await;
    api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let revision = api.revision(CONFIG_MAPS).await;
    let refusals = [
        ("CreateOptions", api.post(&format!("{CONFIG_MAPS}?dryRun=Some"), &config_map("b")).await),
        ("UpdateOptions", api.put(&format!("{A}?dryRun=Some"), &config_map("a")).await),
        ("PatchOptions", api.patch(&format!("{A}?dryRun=Some"), &json!({})).await),
        ("DeleteOptions", api.delete(&format!("{A}?dryRun=Some")).await),
        ("DeleteOptions", api.delete_with(A, &json!({"dryRun": ["All", "Some"]})).await),
        ("DeleteOptions", api.delete(&format!("{CONFIG_MAPS}?dryRun=Some")).await),
    ];
    for (options, refused) in refusals {
        let message = refused.refusal(422, "Invalid");
        let start = format!("{options}.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: ");
        assert!(message.starts_with(&start) && message.ends_with(": supported values: \"All\""), "{message}");
    }
    assert_eq!(api.revision(CONFIG_MAPS).await, revision);
}

#[tokio::test(start_paused = true)]
async fn dry_2_a_dry_run_returns_the_result() {
    let api = Api::start().await;
    let tried = api.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("a")).await.expect(201);
    assert_eq!(tried["metadata"]["creationTimestamp"], "2030-01-01T00:00:00Z");
    assert!(tried["metadata"]["uid"].is_string());
    assert_eq!(tried["metadata"].get("resourceVersion"), None);
    let created = api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    api.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("a")).await.refusal(409, "AlreadyExists");
    let mut changed = created.clone();
    changed["data"]["k"] = "w".into();
    let tried = api.put(&format!("{A}?dryRun=All"), &changed).await.expect(200);
    assert_eq!((&tried["data"]["k"], version(&tried)), (&json!("w"), version(&created)));
    let tried = api.patch(&format!("{A}?dryRun=All"), &json!({"data": {"k": "x"}})).await.expect(200);
    assert_eq!((&tried["data"]["k"], version(&tried)), (&json!("x"), version(&created)));
    let other = json!({"dryRun": ["All"], "preconditions": {"uid": "other"}});
    api.delete_with(A, &other).await.refusal(409, "Conflict");
    api.delete(&format!("{CONFIG_MAPS}/none?dryRun=All")).await.refusal(404, "NotFound");
    api.delete(&format!("{NAMESPACES}/default?dryRun=All")).await.refusal(403, "Forbidden");
    let created = api.post(PODS, &running_pod("p")).await.expect(201);
    let tried = api.delete(&format!("{PODS}/p?dryRun=All")).await.expect(200);
    assert_eq!((&tried["metadata"]["uid"], version(&tried)), (&created["metadata"]["uid"], version(&created)));
    let tried = api.delete(&format!("{PODS}/p?dryRun=All&gracePeriodSeconds=0")).await.expect(200);
    assert_eq!(version(&tried), version(&created));
    let mut invalid = config_map("b");
    invalid["metadata"]["name"] = "B".into();
    api.post(&format!("{CONFIG_MAPS}?dryRun=All"), &invalid).await.refusal(422, "Invalid");
    api.post("/api/v1/namespaces/none/configmaps?dryRun=All", &config_map("b")).await.refusal(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn dry_3_connect_requests_have_no_dry_run() {
    let api = Api::start().await;
    api.post(PODS, &running_pod("p")).await.expect(201);
    for connect in ["exec", "attach", "portforward", "proxy"] {
        let refused = api.send("POST", &format!("{PODS}/p/{connect}?dryRun=All"), &[], "").await;
        assert_eq!(refused.refusal(400, "BadRequest"), "dryRun is not supported");
    }
}

#[tokio::test(start_paused = true)]
async fn dry_4_unknown_fields() {
    let api = Api::start().await;
    let body = r#"{"metadata":{"name":"a"},"data":{"k":"v"},"dta":{"x":"y"},"data":{"k":"w"}}"#;
    let refused = api.send("POST", &format!("{CONFIG_MAPS}?fieldValidation=Strict"), &[], body).await;
    assert_eq!(
        refused.refusal(400, "BadRequest"),
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"dta\", \
         duplicate field \"data\""
    );
    let ignored = api.send("POST", &format!("{CONFIG_MAPS}?fieldValidation=Ignore&dryRun=All"), &[], body).await;
    assert_eq!((ignored.status, ignored.warnings()), (201, vec![]));
    let warned = api.send("POST", CONFIG_MAPS, &[], body).await;
    assert_eq!(warned.warnings(), ["299 - \"unknown field \\\"dta\\\"\"", "299 - \"duplicate field \\\"data\\\"\""]);
    assert_eq!(warned.expect(201).get("dta"), None, "DRY-5: it is dropped");
    let refused = api.post(&format!("{CONFIG_MAPS}?fieldValidation=Maybe"), &config_map("b")).await;
    assert!(
        refused.refusal(422, "Invalid").contains("fieldValidation: Unsupported value: \"Maybe\""),
        "{}",
        refused.text
    );
}

#[tokio::test(start_paused = true)]
async fn dry_6_managers_have_printable_names_and_only_apply_has_force() {
    let api = Api::start().await;
    let long = format!("{CONFIG_MAPS}?fieldManager={}", "m".repeat(129));
    let refused = api.post(&long, &config_map("a")).await;
    assert_eq!(
        refused.refusal(422, "Invalid"),
        "CreateOptions.meta.k8s.io \"\" is invalid: fieldManager: Too long: may not be more than 128 bytes"
    );
    let refused = api.post(&format!("{CONFIG_MAPS}?fieldManager=a%0Ab"), &config_map("a")).await;
    let message = refused.refusal(422, "Invalid");
    assert!(
        message.ends_with("fieldManager: Invalid value: \"a\\nb\": invalid character U+000A (at position 1)"),
        "{message}"
    );
    let created =
        api.post(&format!("{CONFIG_MAPS}?fieldManager={}", "m".repeat(128)), &config_map("a")).await.expect(201);
    assert_eq!(created["metadata"]["managedFields"][0]["manager"], "m".repeat(128));
    for force in ["true", "false"] {
        let refused = api.patch(&format!("{A}?force={force}"), &json!({})).await;
        let message = refused.refusal(422, "Invalid");
        assert!(message.ends_with("force: Forbidden: may not be specified for non-apply patch"), "{message}");
    }
    api.patch(&format!("{A}?force=perhaps"), &json!({})).await.refusal(400, "BadRequest");
    let apply = [("content-type", "application/apply-patch+yaml")];
    let refused = api.send("PATCH", A, &apply, config_map("a").to_string()).await;
    assert!(refused.refusal(422, "Invalid").ends_with("fieldManager: Required value: is required for apply patch"));
}
