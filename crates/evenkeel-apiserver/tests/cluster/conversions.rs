//! Conversion of custom resources by webhooks and functions.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::api::{Api, TestEnv, Watch};
use crate::webhooks::server::{WebhookServer, closed_port};
use evenkeel_apiserver::ApiServer;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const V1: &str = "/apis/example.com/v1/namespaces/default/widgets";
const V2: &str = "/apis/example.com/v2/namespaces/default/widgets";

/// In v1 a widget has `spec.size`, in v2 `spec.dimensions.size`. It is stored as v1.
fn definition(conversion: Value) -> Value {
    let version = |name: &str, storage: bool, spec: Value| {
        json!({"name": name, "served": true, "storage": storage, "subresources": {"status": {}},
               "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                   "spec": {"type": "object", "properties": spec},
                   "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}})
    };
    let size = json!({"size": {"type": "integer"}});
    let dimensions = json!({"dimensions": {"type": "object", "properties": {"size": {"type": "integer"}, "unit": {"type": "string", "default": "cm"}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
           "metadata": {"name": "widgets.example.com"},
           "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                    "conversion": conversion,
                    "versions": [version("v1", true, size), version("v2", false, dimensions)]}})
}

fn by_webhook(client: &Value) -> Value {
    json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}})
}

fn v1(name: &str, size: u64) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": size}})
}

fn v2(name: &str, size: u64) -> Value {
    json!({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": name},
           "spec": {"dimensions": {"size": size}}})
}

/// Converts a widget as its author would.
fn convert(mut widget: Value, version: &str) -> Value {
    let size = [&widget["spec"]["size"], &widget["spec"]["dimensions"]["size"]]
        .into_iter()
        .find(|size| size.is_number())
        .cloned()
        .unwrap_or(Value::Null);
    widget["spec"] = match version {
        "example.com/v1" => json!({"size": size}),
        _ => json!({"dimensions": {"size": size}}),
    };
    widget["apiVersion"] = version.into();
    widget
}

/// Returns the response of a webhook that converts.
fn converted(review: &Value) -> Value {
    let version = review["request"]["desiredAPIVersion"].as_str().unwrap();
    let objects = review["request"]["objects"].as_array().unwrap();
    let objects: Vec<Value> = objects.iter().map(|object| convert(object.clone(), version)).collect();
    json!({"convertedObjects": objects, "result": {"status": "Success"}})
}

fn reply(review: &Value, response: Value) -> String {
    crate::webhooks::server::reply(review, response)
}

async fn start(answer: impl Fn(&Value) -> (u16, String) + Send + Sync + 'static) -> (Api, WebhookServer) {
    let api = Api::start().await;
    let hook = WebhookServer::start(&["127.0.0.1"], answer).await;
    let created = api.post(DEFINITIONS, &definition(by_webhook(&hook.client("/convert")))).await;
    assert_eq!((created.status, created.warnings()), (201, Vec::new()), "{}", created.text);
    (api, hook)
}

/// Starts a server whose webhook answers as this function changes a good response.
async fn start_with(change: impl Fn(&mut Value) + Send + Sync + 'static) -> (Api, WebhookServer) {
    start(move |review| {
        let mut response = converted(review);
        change(&mut response);
        (200, reply(review, response))
    })
    .await
}

async fn events(watch: &mut Watch, count: usize) -> Vec<Value> {
    let mut events = Vec::new();
    while events.len() < count {
        events.extend(watch.next().await);
    }
    events
}

#[tokio::test]
async fn cwh_001_a_webhook_needs_a_receiver_and_a_known_review() {
    let api = Api::start().await;
    let url = json!({"url": "https://127.0.0.1:1/convert"});
    for (webhook, error) in [
        (json!({"conversionReviewVersions": ["v1"]}), "spec.conversion.webhookClientConfig: Required value"),
        (
            json!({"clientConfig": {}, "conversionReviewVersions": ["v1"]}),
            "spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required",
        ),
        (
            json!({"clientConfig": {"url": "http://a.example.com"}, "conversionReviewVersions": ["v1"]}),
            "spec.conversion.webhookClientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme",
        ),
        (json!({"clientConfig": url}), "spec.conversion.conversionReviewVersions: Required value"),
        (
            json!({"clientConfig": url, "conversionReviewVersions": ["v2"]}),
            "spec.conversion.conversionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1",
        ),
    ] {
        let refused = api.post(DEFINITIONS, &definition(json!({"strategy": "Webhook", "webhook": webhook}))).await;
        let message = refused.refusal(422, "Invalid");
        assert!(message.contains(error), "{message}\nexpected {error}");
    }
}

#[tokio::test]
async fn cwh_002_one_review_per_response_of_what_needs_it() {
    let (api, hook) = start_with(|_| {}).await;
    for name in ["a", "b"] {
        api.post(V1, &v1(name, 1)).await.expect(201);
    }
    api.get(V1).await.expect(200);
    assert!(hook.seen().is_empty(), "everything is stored in the requested version");
    let list = api.get(V2).await.expect(200);
    assert_eq!(list["items"][1]["spec"], json!({"dimensions": {"size": 1, "unit": "cm"}}), "defaults are applied");
    let seen = hook.seen();
    assert_eq!((seen.len(), seen[0].uri.as_str()), (1, "/convert?timeout=30s"));
    let review = &seen[0].review;
    assert_eq!(
        (&review["kind"], &review["apiVersion"]),
        (&json!("ConversionReview"), &json!("apiextensions.k8s.io/v1"))
    );
    let request = &review["request"];
    assert_eq!(request["desiredAPIVersion"], "example.com/v2");
    assert_eq!(request["objects"].as_array().unwrap().len(), 2);
    assert_eq!(request["objects"][0]["apiVersion"], "example.com/v1");
    assert_eq!(request["uid"].as_str().unwrap().len(), 36);
}

#[tokio::test]
async fn cwh_003_reads_and_writes_are_converted() {
    let (api, _hook) = start_with(|_| {}).await;
    let created = api.post(V2, &v2("a", 3)).await.expect(201);
    assert_eq!((&created["apiVersion"], &created["spec"]["dimensions"]["size"]), (&json!("example.com/v2"), &json!(3)));
    let one = |path: &str| format!("{path}/a");
    assert_eq!(api.get(&one(V1)).await.expect(200)["spec"], json!({"size": 3}));
    assert_eq!(api.get(&one(V2)).await.expect(200)["spec"]["dimensions"]["size"], 3);
    let patched = api.patch(&one(V2), &json!({"spec": {"dimensions": {"size": 4}}})).await.expect(200);
    assert_eq!(patched["spec"]["dimensions"]["size"], 4);
    assert_eq!(patched["metadata"]["generation"], 2);
    let mut sent = api.get(&one(V2)).await.expect(200);
    sent["spec"]["dimensions"]["size"] = json!(5);
    api.put(&one(V2), &sent).await.expect(200);
    assert_eq!(api.get(&one(V1)).await.expect(200)["spec"], json!({"size": 5}));
    let status = json!({"status": {"ready": true}});
    let patched = api.patch(&format!("{}/status", one(V2)), &status).await.expect(200);
    assert_eq!((&patched["apiVersion"], &patched["status"]["ready"]), (&json!("example.com/v2"), &json!(true)));
    let applied = api.apply(&format!("{}?fieldManager=me&force=true", one(V2)), &v2("a", 6)).await.expect(200);
    assert_eq!(applied["spec"]["dimensions"]["size"], 6);
    assert_eq!(api.get(&one(V1)).await.expect(200)["spec"], json!({"size": 6}));

    api.patch(&one(V1), &json!({"metadata": {"finalizers": ["example.com/keep"]}})).await.expect(200);
    let deleting = api.delete(&one(V2)).await.expect(200);
    assert_eq!(
        (&deleting["apiVersion"], &deleting["spec"]["dimensions"]["size"]),
        (&json!("example.com/v2"), &json!(6))
    );
    assert!(deleting["metadata"]["deletionTimestamp"].is_string(), "{deleting}");
}

#[tokio::test]
async fn cwh_003_watches_are_converted() {
    let (api, _hook) = start_with(|_| {}).await;
    api.post(V1, &v1("a", 1)).await.expect(201);
    let mut watch = api.watch_from_start(V2).await;
    let first = events(&mut watch, 1).await;
    assert_eq!((&first[0]["type"], &first[0]["object"]["spec"]["dimensions"]["size"]), (&json!("ADDED"), &json!(1)));
    api.patch(&format!("{V1}/a"), &json!({"spec": {"size": 2}})).await.expect(200);
    api.delete(&format!("{V1}/a")).await.expect(200);
    let rest = events(&mut watch, 2).await;
    let parts: Vec<_> = rest
        .iter()
        .map(|event| (event["type"].as_str().unwrap(), &event["object"]["spec"]["dimensions"]["size"]))
        .collect();
    assert_eq!(parts, [("MODIFIED", &json!(2)), ("DELETED", &json!(2))]);
    assert_eq!(rest[0]["object"]["apiVersion"], "example.com/v2");
}

#[tokio::test]
async fn cwh_004_identity_and_metadata_are_kept() {
    let (api, _hook) = start_with(|response| {
        let metadata = &mut response["convertedObjects"][0]["metadata"];
        metadata["labels"] = json!({"converted": "yes"});
        metadata["finalizers"] = json!(["example.com/invented"]);
        metadata["resourceVersion"] = "7".into();
    })
    .await;
    let created = api.post(V1, &v1("a", 1)).await.expect(201);
    let read = api.get(&format!("{V2}/a")).await.expect(200);
    assert_eq!(read["metadata"]["labels"], json!({"converted": "yes"}));
    assert!(read["metadata"].get("finalizers").is_none());
    assert_eq!(read["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn cwh_004_objects_that_change_their_identity_are_refused() {
    type Change = fn(&mut Value);
    let changes: [(Change, &str); 3] = [
        (|object| object["metadata"]["name"] = "b".into(), "must have the same name: a != b"),
        (|object| object["kind"] = "Other".into(), "invalid kind (expected Widget, received Other)"),
        (
            |object| object["apiVersion"] = "example.com/v3".into(),
            "invalid groupVersion (expected example.com/v2, received example.com/v3)",
        ),
    ];
    for (change, why) in changes {
        let (api, _hook) = start_with(move |response| change(&mut response["convertedObjects"][0])).await;
        api.post(V1, &v1("a", 1)).await.expect(201);
        let prefix = "conversion webhook for example.com/v1, Kind=Widget returned invalid";
        let refused = api.get(&format!("{V2}/a")).await;
        assert_eq!(refused.refusal(500, ""), format!("{prefix} object at index 0: {why}"));
        let refused = api.get(V2).await;
        assert_eq!(refused.refusal(500, ""), format!("{prefix} converted object at index 0: {why}"));
    }
}

#[tokio::test]
async fn cwh_005_failures_say_why() {
    let failed = "conversion webhook for example.com/v1, Kind=Widget failed: ";
    for (result, why) in [
        (json!({"status": "Failed", "message": "cannot"}), "cannot"),
        (json!({"status": "Failed"}), "response.result.status was 'Failed', not 'Success'"),
    ] {
        let (api, _hook) = start_with(move |response| response["result"] = result.clone()).await;
        api.post(V1, &v1("a", 1)).await.expect(201);
        let refused = api.get(&format!("{V2}/a")).await;
        assert_eq!(refused.refusal(500, ""), format!("{failed}{why}"));
    }
    let (api, hook) = start(|review| {
        let mut other = review.clone();
        other["request"]["uid"] = "other".into();
        (200, reply(&other, converted(review)))
    })
    .await;
    api.post(V1, &v1("a", 1)).await.expect(201);
    let refused = api.get(&format!("{V2}/a")).await;
    let uid = hook.seen()[0].review["request"]["uid"].clone();
    assert_eq!(refused.refusal(500, ""), format!("{failed}expected response.uid={uid}, got \"other\""));
}

#[tokio::test]
async fn cwh_006_a_wrong_count_is_refused() {
    let (api, _hook) = start_with(|response| {
        response["convertedObjects"].as_array_mut().unwrap().pop();
    })
    .await;
    for name in ["a", "b"] {
        api.post(V1, &v1(name, 1)).await.expect(201);
    }
    let refused = api.get(V2).await;
    assert_eq!(
        refused.refusal(500, ""),
        "conversion webhook for example.com/v1, Kind=Widget returned 1 objects, expected 2"
    );
}

#[tokio::test]
async fn cwh_007_one_bad_object_fails_a_list_and_ends_a_watch() {
    let (api, _hook) = start_with(|response| {
        for object in response["convertedObjects"].as_array_mut().unwrap() {
            if object["metadata"]["name"] == "bad" {
                object["apiVersion"] = "example.com/v9".into();
            }
        }
    })
    .await;
    api.post(V1, &v1("good", 1)).await.expect(201);
    let mut watch = api.watch_from_start(V2).await;
    assert_eq!(events(&mut watch, 1).await[0]["type"], "ADDED");
    api.post(V1, &v1("bad", 1)).await.expect(201);
    let event = events(&mut watch, 1).await.remove(0);
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(500)), "{event}");
    assert!(watch.next().await.is_empty(), "the watch has ended");
    api.get(V2).await.refusal(500, "");
    api.get(V1).await.expect(200);
}

#[tokio::test]
async fn cwh_008_a_failing_webhook_changes_nothing_else() {
    let api = Api::start().await;
    let client = json!({"url": format!("https://{}/convert", closed_port())});
    api.post(DEFINITIONS, &definition(by_webhook(&client))).await.expect(201);
    api.post(V1, &v1("a", 1)).await.expect(201);
    let refused = api.get(&format!("{V2}/a")).await;
    let message = refused.refusal(500, "");
    assert!(
        message.contains("failed: Post \"https://127.0.0.1:") && message.ends_with("connection refused"),
        "{message}"
    );
    let refused = api.post(V2, &v2("b", 1)).await;
    refused.refusal(500, "");
    let read = api.get(&format!("{DEFINITIONS}/widgets.example.com")).await.expect(200);
    let conditions = read["status"]["conditions"].as_array().unwrap();
    let established = conditions.iter().find(|condition| condition["type"] == "Established").unwrap();
    assert_eq!(established["status"], "True");
    let group = api.get("/apis/example.com").await.expect(200);
    assert_eq!(group["versions"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn cwh_009_a_definition_is_deleted_without_its_webhook() {
    let api = Api::start().await;
    let client = json!({"url": format!("https://{}/convert", closed_port())});
    api.post(DEFINITIONS, &definition(by_webhook(&client))).await.expect(201);
    api.post(V1, &v1("a", 1)).await.expect(201);
    api.delete(&format!("{DEFINITIONS}/widgets.example.com")).await.expect(200);
    api.get(&format!("{DEFINITIONS}/widgets.example.com")).await.expect(404);
    api.get(V1).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn cwh_010_a_function_converts_in_process() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&calls);
    let builder = ApiServer::builder().env(TestEnv::new()).convert("example.com", "Widget", move |objects, version| {
        seen.lock().unwrap().push((objects.len(), version.clone()));
        async move {
            let bad = objects.iter().any(|object| object["metadata"]["name"] == "bad");
            match bad {
                true => Err("cannot convert this one".to_owned()),
                false => Ok(objects.into_iter().map(|object| convert(object, &version)).collect()),
            }
        }
    });
    let api = Api::with(builder).await;
    api.post(DEFINITIONS, &definition(json!({"strategy": "None"}))).await.expect(201);
    api.post(V1, &v1("a", 1)).await.expect(201);
    assert_eq!(api.get(&format!("{V2}/a")).await.expect(200)["spec"]["dimensions"]["size"], 1);
    assert_eq!(*calls.lock().unwrap(), [(1, "example.com/v2".to_owned())]);
    api.post(V1, &v1("bad", 1)).await.expect(201);
    let refused = api.get(&format!("{V2}/bad")).await;
    assert_eq!(
        refused.refusal(500, ""),
        "conversion webhook for example.com/v1, Kind=Widget failed: cannot convert this one"
    );
}

/// Returns the fields of a manager, with the version in which it owns them.
fn owned_by(widget: &Value, manager: &str) -> (Value, Value) {
    let mut entries = widget["metadata"]["managedFields"].as_array().into_iter().flatten();
    let entry = entries.find(|entry| entry["manager"] == manager);
    entry.map_or((Value::Null, Value::Null), |entry| (entry["apiVersion"].clone(), entry["fieldsV1"]["f:spec"].clone()))
}

async fn converting() -> (Api, WebhookServer) {
    start(|review| (200, reply(review, converted(review)))).await
}

#[tokio::test]
async fn cwh_003_an_apply_compares_each_manager_in_its_version() {
    let (api, _hook) = converting().await;
    let one = |path: &str, manager: &str| format!("{path}/w?fieldManager={manager}");
    api.apply(&one(V1, "a"), &v1("w", 1)).await.expect(201);
    let conflict = api.apply(&one(V2, "b"), &v2("w", 2)).await;
    assert_eq!(conflict.refusal(409, "Conflict"), "Apply failed with 1 conflict: conflict with \"a\": .spec.size");
    // The same value is shared.
    let shared = api.apply(&one(V2, "b"), &v2("w", 1)).await.expect(200);
    assert_eq!(owned_by(&shared, "a"), (json!("example.com/v1"), json!({"f:size": {}})));
    assert_eq!(owned_by(&shared, "b"), (json!("example.com/v2"), json!({"f:dimensions": {"f:size": {}}})));
    // A forced change takes the field from its owner, in the version of that owner.
    let forced = api.apply(&format!("{}&force=true", one(V2, "b")), &v2("w", 3)).await.expect(200);
    assert_eq!(owned_by(&forced, "a"), (Value::Null, Value::Null));
    assert_eq!(api.get(&format!("{V1}/w")).await.expect(200)["spec"], json!({"size": 3}));
}

#[tokio::test]
async fn cwh_003_an_apply_removes_what_the_manager_applied_through_another_version() {
    let (api, _hook) = converting().await;
    let apply = async |path: &str, manager: &str, widget: &Value| {
        api.apply(&format!("{path}/w?fieldManager={manager}"), widget).await.expect(200)
    };
    let nothing = |version: &str| json!({"apiVersion": format!("example.com/{version}"), "kind": "Widget", "metadata": {"name": "w"}});
    api.post(V1, &nothing("v1")).await.expect(201);
    apply(V1, "a", &v1("w", 1)).await;
    apply(V2, "a", &nothing("v2")).await;
    let widget = api.get(&format!("{V1}/w")).await.expect(200);
    assert!(widget["spec"].get("size").is_none(), "{widget}");
    assert_eq!(owned_by(&widget, "a"), (Value::Null, Value::Null));
    // A field that another manager owns through its version stays.
    apply(V1, "a", &v1("w", 1)).await;
    apply(V2, "b", &v2("w", 1)).await;
    apply(V1, "a", &nothing("v1")).await;
    assert_eq!(api.get(&format!("{V1}/w")).await.expect(200)["spec"]["size"], 1);
}

#[tokio::test]
async fn cwh_003_ownership_through_a_version_that_is_not_served_is_dropped() {
    let (api, hook) = converting().await;
    api.apply(&format!("{V2}/w?fieldManager=a"), &v2("w", 1)).await.expect(201);
    let mut served = definition(by_webhook(&hook.client("/convert")));
    served["spec"]["versions"][1]["served"] = false.into();
    api.patch(
        &format!("{DEFINITIONS}/widgets.example.com"),
        &json!({"spec": {"versions": served["spec"]["versions"]}}),
    )
    .await
    .expect(200);
    let applied = api.apply(&format!("{V1}/w?fieldManager=b"), &v1("w", 2)).await.expect(200);
    assert_eq!(applied["spec"]["size"], 2);
    assert_eq!(owned_by(&applied, "a"), (Value::Null, Value::Null));
}
