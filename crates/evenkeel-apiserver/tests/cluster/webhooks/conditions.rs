//! Match conditions of webhooks.

use serde_json::{Value, json};

use super::server::WebhookServer;
use super::{CONFIG_MAPS, MUTATING, VALIDATING, config_map, configuration};
use crate::api::Api;

fn conditions(expressions: &[&str]) -> Value {
    let list = expressions.iter().enumerate();
    list.map(|(index, expression)| json!({"name": format!("c{index}"), "expression": expression})).collect()
}

/// Adds a webhook of each kind with these conditions, and returns their server.
async fn with_conditions(api: &Api, expressions: &[&str], policy: &str) -> WebhookServer {
    let server = WebhookServer::answering(json!({"allowed": true})).await;
    let rest = json!({"matchConditions": conditions(expressions), "failurePolicy": policy});
    for (path, kind) in [(MUTATING, "MutatingWebhookConfiguration"), (VALIDATING, "ValidatingWebhookConfiguration")] {
        let created = api.post(path, &configuration(kind, "a", &server.client("/"), rest.clone())).await;
        assert!(created.warnings().is_empty());
        created.expect(201);
    }
    server
}

#[tokio::test]
async fn awh_019_a_webhook_is_called_if_all_conditions_hold() {
    let api = Api::start().await;
    let server = with_conditions(
        &api,
        &[
            "request.operation == 'CREATE' ? oldObject == null : oldObject.metadata.name == object.metadata.name",
            "object.data.a == '1' && request.userInfo.username != ''",
            "authorizer.requestResource.check('create').allowed()",
        ],
        "Fail",
    )
    .await;
    api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    assert_eq!(server.seen().len(), 2);
    api.patch(&format!("{CONFIG_MAPS}/a"), &json!({"data": {"a": "2"}})).await.expect(200);
    assert_eq!(server.seen().len(), 2, "a condition that is false leaves out the webhook");
    api.patch(&format!("{CONFIG_MAPS}/a"), &json!({"data": {"a": "1"}})).await.expect(200);
    assert_eq!(server.seen().len(), 4);
}

#[tokio::test]
async fn awh_019_an_error_refuses_under_fail_and_leaves_out_under_ignore() {
    let broken = ["object.data.missing == 'x'", "true"];
    let api = Api::start().await;
    let server = with_conditions(&api, &broken, "Fail").await;
    assert_eq!(
        api.post(CONFIG_MAPS, &config_map("a")).await.refusal(403, "Forbidden"),
        "configmaps \"a\" is forbidden: expression 'object.data.missing == 'x'' resulted in error: no such key: missing"
    );
    assert!(server.seen().is_empty());
    let api = Api::start().await;
    let server = with_conditions(&api, &broken, "Ignore").await;
    api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    assert!(server.seen().is_empty());
    // A condition that is false decides, whatever the others are.
    let api = Api::start().await;
    let server = with_conditions(&api, &["object.data.missing == 'x'", "false"], "Fail").await;
    api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn awh_019_conditions_are_compiled_when_the_configuration_is_written() {
    let api = Api::start().await;
    let client = json!({"url": "https://127.0.0.1:1/"});
    let many: Vec<&str> = vec!["true"; 65];
    for (list, error) in [
        (conditions(&["1"]), "matchConditions[0].expression: Invalid value: \"1\": must evaluate to bool but got int"),
        (conditions(&["params == null"]), "undeclared reference to 'params'"),
        (conditions(&["variables.a"]), "undeclared reference to 'variables'"),
        (conditions(&["true", ""]), "matchConditions[1].expression: Required value"),
        (conditions(&many), "matchConditions: Too many: 65: must have at most 64 items"),
        (
            json!([{"name": "a", "expression": "true"}, {"name": "a", "expression": "true"}]),
            "matchConditions[1].name: Duplicate value: \"a\"",
        ),
        (json!([{"name": "a b", "expression": "true"}]), "matchConditions[0].name: Invalid value: \"a b\""),
    ] {
        for (path, kind) in [(MUTATING, "MutatingWebhookConfiguration"), (VALIDATING, "ValidatingWebhookConfiguration")]
        {
            let sent = configuration(kind, "a", &client, json!({"matchConditions": list}));
            let refused = api.post(path, &sent).await;
            let message = refused.refusal(422, "Invalid");
            assert!(
                message.contains("webhooks[0].matchConditions") && message.contains(error),
                "{message}\nexpected {error}"
            );
        }
    }
}

#[tokio::test]
async fn awh_002_webhooks_of_both_kinds_with_one_name_are_called() {
    let api = Api::start().await;
    api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let server = with_conditions(&api, &[], "Fail").await;
    api.patch(&format!("{CONFIG_MAPS}/a"), &json!({"data": {"a": "2"}})).await.expect(200);
    assert_eq!(server.seen().len(), 2, "an update is reviewed in the same form by both");
}
