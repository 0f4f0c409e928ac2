//! Calls of webhooks over HTTPS.

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, date_time_ymd};
use serde_json::{Value, json};

use super::server::{WebhookServer, closed_port, reply};
use super::{CONFIG_MAPS, MUTATING, VALIDATING, config_map, configuration};
use crate::api::Api;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

async fn validating(api: &Api, client: &Value, rest: Value) {
    let sent = configuration("ValidatingWebhookConfiguration", "hook", client, rest);
    api.post(VALIDATING, &sent).await.expect(201);
}

#[tokio::test]
async fn awh_004_the_webhook_receives_a_review() {
    let api = Api::start().await;
    let hook = WebhookServer::answering(json!({"allowed": true})).await;
    validating(&api, &hook.client("/validate"), json!({"timeoutSeconds": 7})).await;
    api.post(&format!("{CONFIG_MAPS}?fieldManager=me"), &config_map("a")).await.expect(201);
    let seen = hook.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].uri, "/validate?timeout=7s");
    let review = &seen[0].review;
    assert_eq!((&review["kind"], &review["apiVersion"]), (&json!("AdmissionReview"), &json!("admission.k8s.io/v1")));
    let request = &review["request"];
    assert_eq!(request["uid"].as_str().unwrap().len(), 36);
    assert_eq!(request["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    assert_eq!(request["resource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
    assert_eq!((&request["requestKind"], &request["requestResource"]), (&request["kind"], &request["resource"]));
    assert_eq!((&request["name"], &request["namespace"]), (&json!("a"), &json!("default")));
    assert_eq!((&request["operation"], &request["dryRun"]), (&json!("CREATE"), &json!(false)));
    assert!(request["userInfo"]["username"].is_string(), "{request}");
    assert_eq!((&request["object"]["data"]["a"], &request["object"]["kind"]), (&json!("1"), &json!("ConfigMap")));
    assert!(request["oldObject"].is_null());
    assert_eq!(
        request["options"],
        json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"})
    );
}

#[tokio::test]
async fn awh_004_the_first_known_version_is_used() {
    let api = Api::start().await;
    let hook = WebhookServer::answering(json!({"allowed": true})).await;
    validating(&api, &hook.client(""), json!({"admissionReviewVersions": ["v2", "v1beta1", "v1"]})).await;
    api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    assert_eq!(hook.seen()[0].review["apiVersion"], "admission.k8s.io/v1beta1");
}

#[tokio::test]
async fn awh_004_the_path_is_cleaned() {
    let api = Api::start().await;
    let hook = WebhookServer::start(&["127.0.0.1", "hooks.default.svc"], |review| {
        (200, reply(review, json!({"allowed": true})))
    })
    .await;
    api.server.route_service("default", "hooks", 443, hook.address);
    let service = |path: &str| json!({"caBundle": hook.ca_bundle, "service": {"namespace": "default", "name": "hooks", "path": path}});
    let clients = [
        (hook.client(""), "/?timeout=10s"),
        (hook.client("//validate"), "/validate?timeout=10s"),
        (hook.client("/a//b/"), "/a/b?timeout=10s"),
        (hook.client("/a/./b/../../../c"), "/c?timeout=10s"),
        (service(""), "/?timeout=10s"),
        (service("/validate/"), "/validate?timeout=10s"),
    ];
    for (index, (client, expected)) in clients.iter().enumerate() {
        validating(&api, client, json!({})).await;
        api.post(CONFIG_MAPS, &config_map(&format!("a-{index}"))).await.expect(201);
        assert_eq!(hook.seen()[index].uri, *expected);
        api.delete(&format!("{VALIDATING}/hook")).await.expect(200);
    }
}

#[tokio::test]
async fn awh_002_mutating_webhooks_see_the_output_of_those_before() {
    let api = Api::start().await;
    let append = |text: &'static str| {
        move |review: &Value| {
            let before = review["request"]["object"]["data"]["a"].as_str().unwrap();
            let patch = json!([{"op": "replace", "path": "/data/a", "value": format!("{before}{text}")}]);
            let patch = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, patch.to_string());
            (200, reply(review, json!({"allowed": true, "patchType": "JSONPatch", "patch": patch})))
        }
    };
    let (second, first) = (
        WebhookServer::start(&["127.0.0.1"], append("b")).await,
        WebhookServer::start(&["127.0.0.1"], append("a")).await,
    );
    for (name, hook) in [("z", &second), ("k", &first)] {
        let sent = configuration("MutatingWebhookConfiguration", name, &hook.client("/"), json!({}));
        api.post(MUTATING, &sent).await.expect(201);
    }
    let created = api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    assert_eq!(created["data"]["a"], "1ab");
    assert_eq!((first.seen().len(), second.seen().len()), (1, 1));
}

#[tokio::test]
async fn awh_006_a_denial_is_the_response() {
    let api = Api::start().await;
    let status = json!({"code": 422, "reason": "Invalid", "message": "not this one", "details": {"kind": "x"}});
    let hook = WebhookServer::answering(json!({"allowed": false, "status": status})).await;
    validating(&api, &hook.client("/"), json!({})).await;
    let refused = api.post(CONFIG_MAPS, &config_map("a")).await;
    assert_eq!(
        refused.refusal(422, "Invalid"),
        "admission webhook \"hook.example.com\" denied the request: not this one"
    );
    assert_eq!(refused.body["details"]["kind"], "x");
    api.get(&format!("{CONFIG_MAPS}/a")).await.expect(404);
}

#[tokio::test]
async fn awh_007_a_webhook_that_cannot_be_called_refuses_or_is_ignored() {
    let api = Api::start().await;
    let address = closed_port();
    let client = json!({"url": format!("https://{address}/validate")});
    validating(&api, &client, json!({})).await;
    let refused = api.post(CONFIG_MAPS, &config_map("a")).await;
    assert_eq!(
        refused.refusal(500, "InternalError"),
        format!(
            "Internal error occurred: failed calling webhook \"hook.example.com\": failed to call webhook: Post \
             \"https://{address}/validate?timeout=10s\": dial tcp {address}: connect: connection refused"
        )
    );
    api.delete(&format!("{VALIDATING}/hook")).await.expect(200);
    validating(&api, &client, json!({"failurePolicy": "Ignore"})).await;
    api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
}

#[tokio::test]
async fn awh_007_responses_with_an_error_code() {
    let api = Api::start().await;
    for (code, text, expected) in [
        (404, "404 page not found", "the server could not find the requested resource"),
        (500, "broken", "an error on the server (\"broken\") has prevented the request from succeeding"),
        (503, "", "the server is currently unable to handle the request"),
        (403, "{\"kind\":\"Status\",\"message\":\"go away\"}", "go away"),
    ] {
        let hook = WebhookServer::start(&["127.0.0.1"], move |_| (code, text.to_owned())).await;
        validating(&api, &hook.client("/"), json!({})).await;
        let refused = api.post(CONFIG_MAPS, &config_map("a")).await;
        let message = refused.refusal(500, "InternalError");
        assert!(message.ends_with(&format!("failed to call webhook: {expected}")), "{message}");
        api.delete(&format!("{VALIDATING}/hook")).await.expect(200);
    }
}

#[tokio::test]
async fn awh_017_the_certificate_must_be_of_the_bundle_and_for_the_name() {
    let api = Api::start().await;
    let hook = WebhookServer::answering(json!({"allowed": true})).await;
    let other =
        WebhookServer::start(&["other.example.com"], |review| (200, reply(review, json!({"allowed": true})))).await;
    let mut unknown = hook.client("/");
    unknown["caBundle"] = other.ca_bundle.as_str().into();
    for (client, expected) in [
        (unknown, "tls: failed to verify certificate: x509: certificate signed by unknown authority"),
        (
            other.client("/"),
            "tls: failed to verify certificate: x509: certificate is valid for other.example.com, not 127.0.0.1",
        ),
    ] {
        validating(&api, &client, json!({})).await;
        let refused = api.post(CONFIG_MAPS, &config_map("a")).await;
        let message = refused.refusal(500, "InternalError");
        assert!(message.ends_with(expected), "{message}");
        api.delete(&format!("{VALIDATING}/hook")).await.expect(200);
    }
    assert!(hook.seen().is_empty() && other.seen().is_empty());
}

#[tokio::test]
async fn awh_017_a_certificate_in_the_bundle_needs_no_authority() {
    let api = Api::start().await;
    let allowed = |review: &Value| (200, reply(review, json!({"allowed": true})));
    let plain = WebhookServer::start(&["127.0.0.1"], allowed).await;
    let authority = |certificate: &mut CertificateParams| {
        certificate.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    };
    let authority = WebhookServer::start_with(&["127.0.0.1"], authority, allowed).await;
    for hook in [&plain, &authority] {
        let mut client = hook.client("/");
        client["caBundle"] = hook.certificate_bundle.as_str().into();
        validating(&api, &client, json!({})).await;
        api.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("a")).await.expect(201);
        assert_eq!(hook.seen().len(), 1);
        api.delete(&format!("{VALIDATING}/hook")).await.expect(200);
    }
}

#[tokio::test]
async fn awh_017_a_certificate_in_the_bundle_must_be_valid() {
    let api = Api::start().await;
    let allowed = |review: &Value| (200, reply(review, json!({"allowed": true})));
    let expired = |certificate: &mut CertificateParams| certificate.not_after = date_time_ymd(2020, 1, 1);
    let early = |certificate: &mut CertificateParams| certificate.not_before = date_time_ymd(4000, 1, 1);
    let client_only = |certificate: &mut CertificateParams| {
        certificate.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    };
    let hooks = [
        (
            WebhookServer::start_with(&["127.0.0.1"], expired, allowed).await,
            "has expired or is not yet valid: current time 20",
        ),
        (WebhookServer::start_with(&["127.0.0.1"], early, allowed).await, "Z is before 4000-01-01T00:00:00Z"),
        (
            WebhookServer::start_with(&["127.0.0.1"], client_only, allowed).await,
            "x509: certificate specifies an incompatible key usage",
        ),
        (WebhookServer::start(&["other.example.com"], allowed).await, "valid for other.example.com, not 127.0.0.1"),
    ];
    for (hook, expected) in &hooks {
        let mut client = hook.client("/");
        client["caBundle"] = hook.certificate_bundle.as_str().into();
        validating(&api, &client, json!({})).await;
        let refused = api.post(CONFIG_MAPS, &config_map("a")).await;
        let message = refused.refusal(500, "InternalError");
        assert!(message.contains("failed to verify certificate") && message.contains(expected), "{message}");
        assert!(hook.seen().is_empty());
        api.delete(&format!("{VALIDATING}/hook")).await.expect(200);
    }
}

#[tokio::test]
async fn awh_017_calls_name_their_sender_and_share_connections() {
    let api = Api::start().await;
    let hook = WebhookServer::answering(json!({"allowed": true})).await;
    validating(&api, &hook.client("/"), json!({})).await;
    for name in ["a", "b", "c"] {
        api.post(CONFIG_MAPS, &config_map(name)).await.expect(201);
    }
    let seen = hook.seen();
    assert_eq!(seen.iter().map(|request| request.connection).collect::<Vec<_>>(), [0, 0, 0]);
    assert_eq!(seen[0].user_agent, "kube-apiserver-admission");
}

#[tokio::test]
async fn awh_018_services_resolve_to_routes_then_to_endpoints() {
    let api = Api::start().await;
    let hook =
        WebhookServer::start(&["hooks.default.svc"], |review| (200, reply(review, json!({"allowed": true})))).await;
    let client = json!({"caBundle": hook.ca_bundle,
                        "service": {"namespace": "default", "name": "hooks", "path": "/validate"}});
    validating(&api, &client, json!({})).await;
    let failure = |why: &str| {
        format!(
            "Internal error occurred: failed calling webhook \"hook.example.com\": failed to call webhook: Post \
             \"https://hooks.default.svc:443/validate?timeout=10s\": {why}"
        )
    };
    let refused = api.post(CONFIG_MAPS, &config_map("a")).await;
    assert_eq!(refused.refusal(500, "InternalError"), failure("service \"hooks\" not found"));
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hooks"},
                         "spec": {"ports": [{"name": "https", "port": 443, "targetPort": 9443}]}});
    api.post(SERVICES, &service).await.expect(201);
    let refused = api.post(CONFIG_MAPS, &config_map("a")).await;
    assert_eq!(refused.refusal(500, "InternalError"), failure("no endpoints available for service \"hooks\""));

    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "hooks-1", "labels": {"kubernetes.io/service-name": "hooks"}},
        "ports": [{"name": "metrics", "port": 1}, {"name": "https", "port": hook.address.port()}],
        "endpoints": [{"addresses": ["127.0.0.2"], "conditions": {"ready": false}},
                      {"addresses": ["127.0.0.1"], "conditions": {"ready": true}}],
    });
    api.post(SLICES, &slice).await.expect(201);
    api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let seen = hook.seen();
    assert_eq!((seen.len(), seen[0].uri.as_str()), (1, "/validate?timeout=10s"));
    assert_eq!(seen[0].server_name.as_deref(), Some("hooks.default.svc"));
    assert_eq!(seen[0].host, "hooks.default.svc:443");

    api.delete(&format!("{SLICES}/hooks-1")).await.expect(200);
    api.server.route_service("default", "hooks", 443, hook.address);
    api.post(CONFIG_MAPS, &config_map("b")).await.expect(201);
    assert_eq!(hook.seen().len(), 2);
}
