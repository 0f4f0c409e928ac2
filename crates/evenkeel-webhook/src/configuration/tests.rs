//! Configurations as API servers get them.

use evenkeel_apiserver::ApiServer;
use evenkeel_client::Client;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::{Value, json};

use super::*;
use crate::{Hook, Validating, WebhookServer};

const CA: &str = "-----BEGIN CERTIFICATE-----\n";

fn target() -> WebhookTarget {
    WebhookTarget::service("shop", "shop-system", "hooks").ca_bundle(CA)
}

fn pods() -> Hook<Validating<Pod>> {
    Hook::validating::<Pod>().on_create(|_, _| async { Ok(()) }).on_delete(|_, _| async { Ok(()) })
}

fn of<H: HookHandler>(hook: Hook<H>) -> Result<Configurations, ConfigurationError> {
    WebhookServer::builder().hook(hook).build().unwrap().configurations(&target())
}

fn validating(configurations: &Configurations) -> Value {
    serde_json::to_value(&configurations.validating).unwrap()
}

#[test]
fn reg_001_reg_006_and_reg_008_an_entry_has_what_the_api_server_does_not_fill_in() {
    let mut configuration = validating(&of(pods().including_own_namespace()).unwrap());
    assert_eq!(configuration["metadata"]["name"], "shop-validating");
    let bundle = configuration["webhooks"][0]["clientConfig"]["caBundle"].take();
    assert_eq!(bundle, "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==");
    assert_eq!(
        configuration["webhooks"],
        json!([{
            "name": "validate--v1-pod.hooks.shop-system.svc",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "caBundle": null,
                "service": {"namespace": "shop-system", "name": "hooks", "path": "/validate--v1-pod"},
            },
            "failurePolicy": "Fail",
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "DELETE"], "resources": ["pods"]}],
            "sideEffects": "None",
        }])
    );
}

#[test]
fn reg_002_what_the_api_server_would_reject_is_an_error() {
    assert!(matches!(of(pods().name("two.segments")), Err(ConfigurationError::Name { .. })));
    assert!(matches!(of(pods().name("Not.A.Name")), Err(ConfigurationError::Name { .. })));
    assert!(of(pods().name("pods.hooks.example.com")).is_ok());
    for seconds in [0, 31] {
        let error = of(pods().timeout_seconds(seconds)).unwrap_err();
        assert!(error.to_string().ends_with("the timeout value must be between 1 and 30 seconds"), "{error}");
    }
    let twice = WebhookServer::builder().hook(pods().name("a.b.c")).hook(pods().path("/other").name("a.b.c")).build();
    let error = twice.unwrap().configurations(&target()).unwrap_err();
    assert_eq!(error, ConfigurationError::DuplicateName { name: "a.b.c".to_owned() });
    let server = WebhookServer::builder().build().unwrap();
    let error = server.configurations(&WebhookTarget::service("My Shop", "a", "b")).unwrap_err();
    assert!(matches!(error, ConfigurationError::Program { .. }));
}

#[test]
fn reg_003_urls_are_plain_https_and_services_have_both_names() {
    let server = WebhookServer::builder().hook(pods()).build().unwrap();
    let configurations = server.configurations(&WebhookTarget::url("shop", "https://hooks.example.com:9443/")).unwrap();
    let entry = &validating(&configurations)["webhooks"][0];
    assert_eq!(entry["clientConfig"], json!({"url": "https://hooks.example.com:9443/validate--v1-pod"}));
    assert_eq!(entry["name"], "validate--v1-pod.shop.hooks.example.com");
    for (url, expected) in [
        ("http://a.example.com", "scheme"),
        ("/a", "host"),
        ("https://jane@a.example.com", "user"),
        ("https://a.example.com?b", "query"),
        ("https://a.example.com/#b", "fragment"),
    ] {
        let error = server.configurations(&WebhookTarget::url("shop", url)).unwrap_err();
        assert!(matches!(&error, ConfigurationError::Url { problem, .. } if problem.contains(expected)), "{error}");
    }
    let error = server.configurations(&WebhookTarget::service("shop", "", "hooks")).unwrap_err();
    assert!(matches!(error, ConfigurationError::Service { .. }));
}

#[test]
fn reg_004_the_certificate_has_to_be_for_the_name_that_is_called() {
    let authority = crate::certificates::Authority::generate("2026-01-01T00:00:00Z".parse().unwrap()).unwrap();
    let issued = authority.issue(&["hooks.shop-system.svc"], "2026-01-01T00:00:00Z".parse().unwrap()).unwrap();
    let pair = issued.serve().unwrap().get().unwrap();
    let entry = &validating(&of(pods()).unwrap())["webhooks"][0]["clientConfig"]["service"];
    let name = format!("{}.{}.svc", entry["name"].as_str().unwrap(), entry["namespace"].as_str().unwrap());
    assert!(pair.is_for(&name));
}

#[test]
fn reg_005_every_path_of_a_configuration_is_served() {
    let server = WebhookServer::builder()
        .hook(pods())
        .hook(pods().path("/more/pods"))
        .hook(Hook::mutating::<ConfigMap>().apply(|_, _| Ok(())).reinvoke_if_needed())
        .hook(Hook::validating::<Scale>().subresource_of::<Deployment>("scale").on_update(|_, _, _| async { Ok(()) }))
        .hook(Hook::validating::<Deployment>().subresource("status").on_update(|_, _, _| async { Ok(()) }))
        .hook(Hook::validating::<ConfigMap>())
        .build()
        .unwrap();
    let configurations = server.configurations(&target()).unwrap();
    let mutating = serde_json::to_value(&configurations.mutating).unwrap();
    let validating = validating(&configurations);
    let entries = [&mutating, &validating]
        .map(|configuration| configuration["webhooks"].as_array().unwrap())
        .into_iter()
        .flatten();
    let paths: Vec<_> = entries.map(|entry| entry["clientConfig"]["service"]["path"].as_str().unwrap()).collect();
    assert_eq!(paths.len(), 5, "a hook without functions has no entry");
    assert!(paths.iter().all(|path| server.paths().iter().any(|served| served == path)), "{paths:?}");
    assert_eq!(mutating["webhooks"][0]["reinvocationPolicy"], "IfNeeded");
    let resources: Vec<_> =
        validating["webhooks"].as_array().unwrap().iter().map(|entry| &entry["rules"][0]["resources"]).collect();
    assert!(
        resources.contains(&&json!(["deployments/scale"]))
            && resources.contains(&&json!(["deployments", "deployments/status"]))
    );
}

#[test]
fn reg_007_our_own_pods_can_start_without_us() {
    let own = json!([{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["shop-system"]}]);
    let selector = |hook| validating(&of(hook).unwrap())["webhooks"][0]["namespaceSelector"].clone();
    assert_eq!(selector(pods())["matchExpressions"], own);
    assert_eq!(selector(pods().including_own_namespace()), Value::Null);
    assert_eq!(selector(pods().failure_policy(FailurePolicy::Ignore)), Value::Null);
    let labels = LabelSelector { match_labels: Some([("a".into(), "b".into())].into()), ..LabelSelector::default() };
    let both = selector(pods().namespace_selector(labels));
    assert_eq!((&both["matchExpressions"], &both["matchLabels"]["a"]), (&own, &json!("b")));
    let foos = evenkeel_core::ResourceInfo::new("example.com", "v1", "Foo", "foos", true);
    let foos = of(Hook::validating_json(foos).on_create(|_, _| async { Ok(()) })).unwrap();
    assert_eq!(validating(&foos)["webhooks"][0]["namespaceSelector"], Value::Null);
}

async fn names(client: &Client) -> Vec<(String, bool)> {
    let found = client.api::<ValidatingWebhookConfiguration>().get("shop-validating").await.unwrap();
    let found = found.typed().unwrap();
    let webhooks = found.webhooks.iter().flatten();
    webhooks.map(|webhook| (webhook.name.clone(), webhook.client_config.ca_bundle.is_some())).collect()
}

async fn apply_as(client: &Client, manager: &str, configuration: Value) {
    let configuration: ValidatingWebhookConfiguration = serde_json::from_value(configuration).unwrap();
    let api = client.api::<ValidatingWebhookConfiguration>();
    api.apply("shop-validating", manager, &configuration).await.unwrap();
}

#[tokio::test]
async fn reg_009_and_reg_010_applying_leaves_foreign_entries_and_removes_those_of_old_hooks() {
    let api = ApiServer::builder().in_process_only().start().await.unwrap();
    let client = api.client();
    let server =
        WebhookServer::builder().hook(pods()).hook(pods().path("/old").name("old.example.com")).build().unwrap();
    server.configurations(&target()).unwrap().apply(&client).await.unwrap();
    let own = "validate--v1-pod.hooks.shop-system.svc".to_owned();
    assert_eq!(names(&client).await.len(), 2);
    assert!(client.api::<MutatingWebhookConfiguration>().get("shop-mutating").await.unwrap_err().is_not_found());

    // Another program adds an entry.
    let foreign = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "shop-validating"},
        "webhooks": [{"name": "foreign.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"url": "https://foreign.example.com"}}],
    });
    apply_as(&client, "other", foreign).await;

    let server = WebhookServer::builder().hook(pods()).build().unwrap();
    server.configurations(&target()).unwrap().apply(&client).await.unwrap();
    let mut found = names(&client).await;
    found.sort();
    assert_eq!(found, [("foreign.example.com".to_owned(), false), (own.clone(), true)]);

    // Without hooks, our entries are removed.
    let server = WebhookServer::builder().build().unwrap();
    server.configurations(&target()).unwrap().apply(&client).await.unwrap();
    assert_eq!(names(&client).await, [("foreign.example.com".to_owned(), false)]);
}

#[tokio::test]
async fn reg_009_a_bundle_that_cert_manager_sets_is_kept() {
    let api = ApiServer::builder().in_process_only().start().await.unwrap();
    let client = api.client();
    let annotated = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "shop-validating", "annotations": {"cert-manager.io/inject-ca-from": "shop-system/hooks"}},
    });
    apply_as(&client, "deploy", annotated).await;
    of(pods()).unwrap().apply(&client).await.unwrap();
    assert_eq!(names(&client).await, [("validate--v1-pod.hooks.shop-system.svc".to_owned(), false)]);
}

#[cfg(feature = "certificates")]
#[tokio::test(start_paused = true)]
async fn reg_012_readiness_names_the_configuration_that_does_not_verify_the_certificate() {
    use crate::certificates::Authority;

    let api = ApiServer::builder().in_process_only().start().await.unwrap();
    let client = api.client();
    let [ours, other] = [(); 2].map(|()| Authority::generate(crate::server::now()).unwrap());
    let pair = ours.issue(&["hooks.shop-system.svc"], crate::server::now()).unwrap().serve().unwrap();
    let server = WebhookServer::builder().hook(pods()).certificate(&pair).address("127.0.0.1:0").build().unwrap();
    let health = evenkeel_runtime::health::Health::new();
    health.ready().add(server.configuration_readiness(&client, &target())).unwrap();
    let failure = async || health.ready().run_one("webhook-configurations").await.unwrap().failure;
    let publish = async |authority: &Authority| {
        let target = target().ca_bundle(authority.certificate());
        server.configurations(&target).unwrap().apply(&client).await.unwrap();
    };
    assert_eq!(failure().await.unwrap(), "webhook server has not been started yet");
    let running = server.start().await.unwrap();
    assert_eq!(failure().await.unwrap(), "ValidatingWebhookConfiguration shop-validating does not exist yet");
    publish(&other).await;
    let expected = "ValidatingWebhookConfiguration shop-validating: the webhook validate--v1-pod.hooks.shop-system.svc has a \
                    caBundle that does not verify the certificate of the server";
    assert_eq!(failure().await.unwrap(), expected);
    publish(&ours).await;
    assert_eq!(failure().await, None);

    // A success counts for a minute, and while the API server cannot be read.
    publish(&other).await;
    assert_eq!(failure().await, None);
    tokio::time::sleep(std::time::Duration::from_secs(61)).await;
    let broken = api.faults().fail_next(1, 403, None);
    assert_eq!(failure().await, None);
    api.faults().remove(broken);
    assert_eq!(failure().await.unwrap(), expected);
    // Another certificate is looked at at once.
    let next = other.issue(&["hooks.shop-system.svc"], crate::server::now()).unwrap();
    let provider = evenkeel_client::tls::default_provider().unwrap();
    let next =
        evenkeel_runtime::tls::ServingPair::from_pem(next.certificate().as_bytes(), next.key().as_bytes(), &provider);
    pair.set(next.unwrap());
    assert_eq!(failure().await, None);
    running.shutdown().await;
}

#[cfg(feature = "certificates")]
#[tokio::test]
async fn reg_012_readiness_waits_for_the_bundle_of_cert_manager() {
    let api = ApiServer::builder().in_process_only().start().await.unwrap();
    let client = api.client();
    let authority = crate::certificates::Authority::generate(crate::server::now()).unwrap();
    let pair = authority.issue(&["hooks.shop-system.svc"], crate::server::now()).unwrap().serve().unwrap();
    let server = WebhookServer::builder().hook(pods()).certificate(&pair).address("127.0.0.1:0").build().unwrap();
    let target = WebhookTarget::service("shop", "shop-system", "hooks");
    let health = evenkeel_runtime::health::Health::new();
    health.ready().add(server.configuration_readiness(&client, &target)).unwrap();
    let failure = async || health.ready().run_one("webhook-configurations").await.unwrap().failure;
    let running = server.start().await.unwrap();
    let annotated = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "shop-validating", "annotations": {"cert-manager.io/inject-ca-from": "shop-system/hooks"}},
    });
    apply_as(&client, "deploy", annotated).await;
    assert!(failure().await.unwrap().ends_with("validate--v1-pod.hooks.shop-system.svc is not there yet"));
    server.configurations(&target).unwrap().apply(&client).await.unwrap();
    assert!(failure().await.unwrap().ends_with("waits for the caBundle of cert-manager"));
    running.shutdown().await;
}
