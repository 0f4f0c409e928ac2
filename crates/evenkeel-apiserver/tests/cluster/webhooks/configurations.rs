//! What a webhook configuration must say, and what is added to it.

use serde_json::{Value, json};

use super::{MUTATING, VALIDATING, configuration};
use crate::api::Api;

fn service() -> Value {
    json!({"service": {"namespace": "default", "name": "hooks"}})
}

#[tokio::test]
async fn awh_003_defaults() {
    let api = Api::start().await;
    let created = api.post(MUTATING, &configuration("MutatingWebhookConfiguration", "a", &service(), json!({}))).await;
    assert!(created.warnings().is_empty(), "webhooks are called: {:?}", created.warnings());
    let webhook = created.expect(201)["webhooks"][0].clone();
    assert_eq!(webhook["failurePolicy"], "Fail");
    assert_eq!(webhook["matchPolicy"], "Equivalent");
    assert_eq!(webhook["timeoutSeconds"], 10);
    assert_eq!(webhook["reinvocationPolicy"], "Never");
    assert_eq!(webhook["rules"][0]["scope"], "*");
    assert_eq!(webhook["clientConfig"]["service"]["port"], 443);
}

#[tokio::test]
async fn awh_003_errors_name_the_field() {
    let api = Api::start().await;
    let url = |url: &str| json!({"clientConfig": {"url": url}});
    let rule = |key: &str, value: Value| {
        let mut rule = json!({"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]});
        rule[key] = value;
        json!({"rules": [rule]})
    };
    let cases = [
        (
            json!({"timeoutSeconds": 31}),
            "timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
        ),
        (json!({"sideEffects": null}), "sideEffects: Required value: must specify one of None, NoneOnDryRun"),
        (
            json!({"sideEffects": "Some"}),
            "sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"",
        ),
        (
            json!({"admissionReviewVersions": []}),
            "admissionReviewVersions: Required value: must specify one of v1, v1beta1",
        ),
        (
            json!({"admissionReviewVersions": ["v2"]}),
            "admissionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1",
        ),
        (
            json!({"name": "a.b"}),
            "name: Invalid value: \"a.b\": should be a domain with at least three segments separated by dots",
        ),
        (
            json!({"failurePolicy": "Maybe"}),
            "failurePolicy: Unsupported value: \"Maybe\": supported values: \"Fail\", \"Ignore\"",
        ),
        (json!({"clientConfig": {}}), "clientConfig: Required value: exactly one of url or service is required"),
        (
            url("http://a.example.com"),
            "clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: \
             https://host[/path]",
        ),
        (
            url("https://a.example.com/?x=1"),
            "clientConfig.url: Invalid value: \"x=1\": query parameters are not permitted in the URL",
        ),
        (
            rule("resources", json!(["*/*", "pods"])),
            "rules[0].resources: Invalid value: [\"*/*\",\"pods\"]: if '*/*' is present, must not specify other resources",
        ),
        (
            rule("operations", json!(["*", "CREATE"])),
            "rules[0].operations: Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not specify other operations",
        ),
        (rule("apiGroups", json!([])), "rules[0].apiGroups: Required value"),
        (
            rule("scope", json!("Any")),
            "rules[0].scope: Unsupported value: \"Any\": supported values: \"*\", \"Cluster\", \"Namespaced\"",
        ),
    ];
    for (rest, error) in cases {
        let sent = configuration("ValidatingWebhookConfiguration", "a", &service(), rest);
        let refused = api.post(VALIDATING, &sent).await;
        let message = refused.refusal(422, "Invalid");
        let expected = format!("is invalid: webhooks[0].{error}");
        assert!(message.ends_with(&expected), "{message}\nexpected {expected}");
    }
    let mut twice = configuration("ValidatingWebhookConfiguration", "a", &service(), json!({}));
    let webhook = twice["webhooks"][0].clone();
    twice["webhooks"].as_array_mut().unwrap().push(webhook);
    let refused = api.post(VALIDATING, &twice).await;
    let message = refused.refusal(422, "Invalid");
    assert!(message.ends_with("webhooks[1].name: Duplicate value: \"a.example.com\""), "{message}");
}
