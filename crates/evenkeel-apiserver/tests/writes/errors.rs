//! Error responses of writes.

use evenkeel_apiserver::{Action, ApiServer, ControllerTiming, Rule};
use evenkeel_core::{Reason, Status};
use serde_json::{Value, json};

use crate::api::{Api, TestEnv};
use crate::*;

fn details(response: &crate::api::TestResponse) -> &Value {
    &response.body["details"]
}

#[tokio::test(start_paused = true)]
async fn err_1_err_17_not_found() {
    let api = Api::start().await;
    let refused = api.get(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(refused.refusal(404, "NotFound"), "configmaps \"a\" not found");
    assert_eq!(details(&refused), &json!({"name": "a", "kind": "configmaps"}));
    assert_eq!(refused.header("content-type"), "application/json");
    let refused = api.get(&format!("{DEPLOYMENTS}/a")).await;
    assert_eq!(refused.refusal(404, "NotFound"), "deployments.apps \"a\" not found");
    assert_eq!(details(&refused), &json!({"name": "a", "group": "apps", "kind": "deployments"}));
    assert_eq!(refused.body["metadata"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn err_2_already_exists() {
    let api = Api::start().await;
    api.post(CONFIG_MAPS, &held_config_map("a")).await.expect(201);
    let refused = api.post(CONFIG_MAPS, &config_map("a")).await;
    assert_eq!(refused.refusal(409, "AlreadyExists"), "configmaps \"a\" already exists");
    assert_eq!(details(&refused), &json!({"name": "a", "kind": "configmaps"}));
    api.delete(&format!("{CONFIG_MAPS}/a")).await.expect(200);
    let refused = api.post(CONFIG_MAPS, &config_map("a")).await;
    let message = refused.refusal(409, "AlreadyExists");
    assert_eq!(message, "object is being deleted: configmaps \"a\" already exists");
}

#[tokio::test(start_paused = true)]
async fn err_3_err_18_generated_names_are_exhausted() {
    let api = Api::with(ApiServer::builder().env(TestEnv::with_zeros())).await;
    let generated = json!({"metadata": {"generateName": "web-"}});
    api.post(CONFIG_MAPS, &generated).await.expect(201);
    let refused = api.post(CONFIG_MAPS, &generated).await;
    assert_eq!(
        refused.refusal(409, "AlreadyExists"),
        "configmaps \"web-bbbbb\" already exists, the server was not able to generate a unique name for the object"
    );
    assert_eq!(details(&refused), &json!({"name": "web-bbbbb", "kind": "configmaps", "retryAfterSeconds": 1}));
    assert_eq!(refused.header("retry-after"), "1");
}

#[tokio::test(start_paused = true)]
async fn err_6_err_19_faults_are_listed_by_field() {
    let api = Api::start().await;
    let mut object = deployment("web");
    object["spec"]["replicas"] = json!(-1);
    object["spec"]["template"]["metadata"]["labels"]["app"] = "other".into();
    let refused = api.post(DEPLOYMENTS, &object).await;
    let message = refused.refusal(422, "Invalid");
    assert!(message.starts_with("Deployment.apps \"web\" is invalid: [") && message.ends_with(']'), "{message}");
    let reported = details(&refused);
    assert_eq!(
        (&reported["name"], &reported["group"], &reported["kind"]),
        (&json!("web"), &json!("apps"), &json!("Deployment"))
    );
    for cause in reported["causes"].as_array().unwrap() {
        assert_eq!(cause["reason"], "FieldValueInvalid", "{cause}");
        let text = format!("{}: {}", cause["field"].as_str().unwrap(), cause["message"].as_str().unwrap());
        assert!(message.contains(&text), "{text}");
    }
    let reason = async |object: Value| {
        let refused = api.post(PODS, &object).await;
        refused.refusal(422, "Invalid");
        details(&refused)["causes"][0]["reason"].as_str().unwrap().to_owned()
    };
    let with = |container: Value| json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}});
    assert_eq!(reason(json!({"metadata": {"name": "p"}, "spec": {"containers": []}})).await, "FieldValueRequired");
    let policy = json!({"name": "c", "image": "i", "imagePullPolicy": "Often"});
    assert_eq!(reason(with(policy)).await, "FieldValueNotSupported");
    let mut twice = pod("p");
    twice["spec"]["containers"] = json!([{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]);
    assert_eq!(reason(twice).await, "FieldValueDuplicate");
    let mut long = pod("p");
    long["metadata"]["annotations"] = json!({"a": "x".repeat(300 * 1024)});
    assert_eq!(reason(long).await, "FieldValueTooLong");
}

#[tokio::test(start_paused = true)]
async fn err_7_bad_requests_have_no_details() {
    let api = Api::start().await;
    for body in ["", "{", "[]", "7", "\u{0}", r#"{"metadata":{"name":7}}"#, r#"{"kind":"Pod","apiVersion":"v1"}"#] {
        let refused = api.send("POST", CONFIG_MAPS, &[], body).await;
        refused.refusal(400, "BadRequest");
        assert_eq!(refused.body.get("details"), None, "{}", refused.text);
    }
}

/// Aliases of aliases: a text of some hundred bytes that would be an object of millions of nodes.
#[tokio::test(start_paused = true)]
async fn err_7_a_small_text_for_a_huge_object_is_refused() {
    let api = Api::start().await;
    let mut text = String::from("metadata: {name: a}\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..8 {
        let below = [format!("*a{}", level - 1).as_str(); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{below}]\n"));
    }
    let refused = api.send("POST", CONFIG_MAPS, &[("content-type", "application/yaml")], text).await;
    assert!(refused.refusal(400, "BadRequest").len() < 500, "{}", refused.text);
}

#[tokio::test(start_paused = true)]
async fn err_8_unauthorized() {
    let api = Api::with(ApiServer::builder().token("right")).await;
    api.send("GET", NAMESPACES, &[("authorization", "Bearer right")], "").await.expect(200);
    let refused = api.send("GET", NAMESPACES, &[("authorization", "Bearer wrong")], "").await;
    assert_eq!(refused.refusal(401, "Unauthorized"), "Unauthorized");
    assert_eq!(refused.body.get("details"), None);
}

#[tokio::test(start_paused = true)]
async fn err_10_a_verb_that_a_resource_does_not_have() {
    let api = Api::start().await;
    let refused = api.delete(NAMESPACES).await;
    assert_eq!((refused.status, refused.header("allow")), (405, "GET, HEAD, POST"));
    api.post(DEFINITIONS, &widgets()).await.expect(201);
    let refused = api.send("POST", &format!("{WIDGETS}/w"), &[], "{}").await;
    let message = refused.refusal(405, "MethodNotAllowed");
    assert!(message.ends_with("is not supported on resources of kind \"widgets.example.com\""), "{message}");
    assert_eq!(details(&refused), &json!({"group": "example.com", "kind": "widgets"}));
    assert!(!refused.header("allow").is_empty());
}

#[tokio::test(start_paused = true)]
async fn err_11_err_12_versions_of_the_past_and_of_the_future() {
    let api = Api::start().await;
    let first = api.revision(CONFIG_MAPS).await;
    for name in ["a", "b", "c"] {
        api.post(CONFIG_MAPS, &config_map(name)).await.expect(201);
    }
    let page = api.get(&format!("{CONFIG_MAPS}?limit=1")).await.expect(200);
    let token = page["metadata"]["continue"].as_str().unwrap();
    api.post(CONFIG_MAPS, &config_map("d")).await.expect(201);
    api.server.faults().compact_now();
    let refused = api.get(&format!("{CONFIG_MAPS}?resourceVersion={first}&resourceVersionMatch=Exact")).await;
    refused.refusal(410, "Expired");
    let refused = api.get(&format!("{CONFIG_MAPS}?limit=1&continue={token}")).await;
    refused.refusal(410, "Expired");
    let next = refused.body["metadata"]["continue"].as_str().unwrap();
    let page = api.get(&format!("{CONFIG_MAPS}?limit=1&continue={next}")).await.expect(200);
    assert_eq!(page["items"][0]["metadata"]["name"], "b", "an inconsistent list continues where the old one ended");
    let now = api.revision(CONFIG_MAPS).await;
    let future = now + 1000;
    let refused = api.get(&format!("{CONFIG_MAPS}?resourceVersion={future}")).await;
    let message = refused.refusal(504, "Timeout");
    assert_eq!(message, format!("Timeout: Too large resource version: {future}, current: {now}"));
    assert_eq!(
        details(&refused),
        &json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1})
    );
    assert_eq!(refused.header("retry-after"), "1");
}

#[tokio::test(start_paused = true)]
async fn err_13_too_many_requests() {
    let api = Api::start().await;
    let mut labelled = running_pod("p");
    labelled["metadata"]["labels"] = json!({"app": "x"});
    api.post(PODS, &labelled).await.expect(201);
    api.patch(&format!("{PODS}/p/status"), &json!({"status": {"phase": "Running"}})).await.expect(200);
    let budget = json!({"metadata": {"name": "b"},
                        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}});
    api.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", &budget).await.expect(201);
    let before = api.revision(PODS).await;
    let refused = api.post(&format!("{PODS}/p/eviction"), &json!({"metadata": {"name": "p"}})).await;
    refused.refusal(429, "TooManyRequests");
    assert_eq!(details(&refused)["retryAfterSeconds"], 10);
    assert_eq!(refused.header("retry-after"), "10");
    assert_eq!(details(&refused)["causes"][0]["reason"], "DisruptionBudget");
    assert_eq!(api.revision(PODS).await, before);
}

/// Errors of a broken or overloaded server are injected as faults, with the same headers.
#[tokio::test(start_paused = true)]
async fn err_14_err_16_err_18_server_errors() {
    let api = Api::start().await;
    api.server.faults().fail_next(1, 503, Some(5));
    let refused = api.get(CONFIG_MAPS).await;
    refused.refusal(503, "ServiceUnavailable");
    assert_eq!((refused.header("retry-after"), &details(&refused)["retryAfterSeconds"]), ("5", &json!(5)));
    let internal = Box::new(Status::internal("the disk is full"));
    api.server.faults().add(Rule::new(Action::Status(internal)).times(1));
    let refused = api.get(CONFIG_MAPS).await;
    assert_eq!(refused.refusal(500, "InternalError"), "Internal error occurred: the disk is full");
    assert_eq!(details(&refused), &json!({"causes": [{"message": "the disk is full"}]}));
    let late = Box::new(Status::failure(500, Reason::SERVER_TIMEOUT, "later"));
    api.server.faults().add(Rule::new(Action::Status(late)).times(1));
    api.get(CONFIG_MAPS).await.refusal(500, "ServerTimeout");
}

#[tokio::test(start_paused = true)]
async fn err_20_messages_of_admission_are_not_escaped() {
    let api = Api::with(ApiServer::builder().env(TestEnv::new()).namespace_controller(ControllerTiming::Off)).await;
    api.post(NAMESPACES, &namespace("n")).await.expect(201);
    api.delete(&format!("{NAMESPACES}/n")).await.expect(200);
    let refused = api.post("/api/v1/namespaces/n/configmaps", &config_map("<b>&</b>")).await;
    let message = refused.refusal(403, "Forbidden");
    assert!(message.starts_with("configmaps \"<b>&</b>\" is forbidden: "), "{message}");
}
