//! Which writes are reviewed, in which order, and what reviews contain.

use evenkeel_apiserver::{AdmissionHook, AdmissionReview, AdmissionVerdict, AuditPolicy};
use serde_json::{Value, json};

use super::{CONFIG_MAPS, MUTATING, Reviews, VALIDATING, builder, config_map, configuration, recording};
use crate::PODS;
use crate::api::Api;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
           "spec": {"containers": [{"name": "a", "image": "busybox"}]}})
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
           "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
                    "template": {"metadata": {"labels": {"a": "b"}},
                                 "spec": {"containers": [{"name": "a", "image": "busybox"}]}}}})
}

fn allow(_: &AdmissionReview) -> AdmissionVerdict {
    AdmissionVerdict::allow()
}

fn all(name: &str, mutating: bool, resources: &[&str]) -> AdmissionHook {
    let hook = if mutating { AdmissionHook::mutating(name) } else { AdmissionHook::validating(name) };
    hook.rule(&["*"], &["*"], &["*"], resources)
}

#[tokio::test(start_paused = true)]
async fn awh_001_validation_stands_between_mutating_and_validating_webhooks() {
    let (builder, mutating) = recording(builder(), all("m.example.com", true, &["pods"]), allow);
    let (builder, validating) = recording(builder, all("v.example.com", false, &["pods"]), allow);
    let api = Api::with(builder).await;
    let mut invalid = pod("web");
    invalid["spec"]["containers"] = json!([]);
    api.post(PODS, &invalid).await.refusal(422, "Invalid");
    assert_eq!((mutating.take().len(), validating.take().len()), (1, 0));
    api.post(PODS, &pod("web")).await.expect(201);
    let (mutating, validating) = (mutating.take(), validating.take());
    // Built-in plugins run first.
    assert_eq!(mutating[0]["object"]["spec"]["tolerations"].as_array().unwrap().len(), 2);
    assert!(mutating[0]["object"]["metadata"]["uid"].is_null());
    assert!(validating[0]["object"]["metadata"]["uid"].is_string(), "it is the object as it would be stored");
}

#[tokio::test(start_paused = true)]
async fn awh_002_validating_webhooks_are_called_at_the_same_time() {
    // Each call waits for the other one.
    let barrier = std::sync::Arc::new(tokio::sync::Barrier::new(2));
    let mut builder = builder();
    for name in ["a.example.com", "b.example.com"] {
        let barrier = barrier.clone();
        builder = builder.admit(all(name, false, &["configmaps"]), move |_: AdmissionReview| {
            let barrier = barrier.clone();
            async move {
                barrier.wait().await;
                AdmissionVerdict::deny(name)
            }
        });
    }
    let api = Api::with(builder).await;
    let refused = api.post(CONFIG_MAPS, &config_map("a")).await;
    assert_eq!(
        refused.refusal(403, "Forbidden"),
        "admission webhook \"a.example.com\" denied the request: a.example.com"
    );
}

#[tokio::test(start_paused = true)]
async fn awh_005_objects_of_each_operation() {
    let (builder, mutating) = recording(builder(), all("m.example.com", true, &["configmaps"]), allow);
    let (builder, validating) = recording(builder, all("v.example.com", false, &["configmaps"]), allow);
    let api = Api::with(builder).await;
    let parts = |reviews: &Reviews| {
        let reviews = reviews.take();
        assert_eq!(reviews.len(), 1, "{reviews:?}");
        let review = &reviews[0];
        let data = |key: &str| review[key]["data"]["a"].as_str().unwrap_or("none").to_owned();
        (review["operation"].as_str().unwrap().to_owned(), data("object"), data("oldObject"))
    };
    let expected = |operation: &str, new: &str, old: &str| (operation.to_owned(), new.to_owned(), old.to_owned());
    let one = format!("{CONFIG_MAPS}/a");
    api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let created = expected("CREATE", "1", "none");
    assert_eq!((parts(&mutating), parts(&validating)), (created.clone(), created));
    api.patch(&one, &json!({"data": {"a": "2"}})).await.expect(200);
    let updated = expected("UPDATE", "2", "1");
    assert_eq!((parts(&mutating), parts(&validating)), (updated.clone(), updated));
    api.delete_with(&one, &json!({"propagationPolicy": "Background"})).await.expect(200);
    let options = {
        let review = validating.take();
        assert_eq!(review.len(), 1);
        (review[0]["options"].clone(), review[0]["oldObject"]["data"]["a"].clone(), review[0]["object"].is_null())
    };
    assert_eq!(parts(&mutating), expected("DELETE", "none", "2"));
    let sent = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": "Background"});
    assert_eq!(options, (sent, json!("2"), true));
}

#[tokio::test(start_paused = true)]
async fn awh_005_generated_names_are_known_to_validating_webhooks() {
    let (builder, mutating) = recording(builder(), all("m.example.com", true, &["configmaps"]), allow);
    let (builder, validating) = recording(builder, all("v.example.com", false, &["configmaps"]), allow);
    let api = Api::with(builder).await;
    let mut sent = config_map("");
    sent["metadata"] = json!({"generateName": "web-"});
    let created = api.post(CONFIG_MAPS, &sent).await.expect(201);
    assert!(mutating.take()[0]["name"].is_null());
    assert_eq!(validating.take()[0]["name"], created["metadata"]["name"]);
}

#[tokio::test(start_paused = true)]
async fn awh_005_every_object_of_a_deleted_collection_is_reviewed() {
    let keep = |review: &AdmissionReview| match review.old_object()["metadata"]["name"] == "b" {
        true => AdmissionVerdict::deny("kept"),
        false => AdmissionVerdict::allow(),
    };
    let hook = AdmissionHook::validating("v.example.com").rule(&["DELETE"], &[""], &["v1"], &["configmaps"]);
    let (builder, reviews) = recording(builder(), hook, keep);
    let api = Api::with(builder).await;
    for name in ["a", "b"] {
        api.post(CONFIG_MAPS, &config_map(name)).await.expect(201);
    }
    api.delete(CONFIG_MAPS).await.refusal(403, "Forbidden");
    assert_eq!(reviews.count(), 2);
    api.get(&format!("{CONFIG_MAPS}/a")).await.expect(404);
    api.get(&format!("{CONFIG_MAPS}/b")).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn awh_012_a_dry_run_is_refused_by_a_webhook_with_side_effects() {
    let hook = all("v.example.com", false, &["configmaps"]);
    let (with, effects) = recording(builder(), hook.clone().has_side_effects(), allow);
    let api = Api::with(with).await;
    let refused = api.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("a")).await;
    assert_eq!(refused.refusal(400, "BadRequest"), "admission webhook \"v.example.com\" does not support dry run");
    assert_eq!(effects.count(), 0);
    let (without, reviews) = recording(builder(), hook, allow);
    let api = Api::with(without).await;
    api.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("a")).await.expect(201);
    let review = reviews.take().remove(0);
    assert_eq!((&review["dryRun"], &review["options"]["dryRun"]), (&json!(true), &json!(["All"])));
}

#[tokio::test(start_paused = true)]
async fn awh_013_objects_are_reviewed_in_the_version_of_the_rule() {
    let patch =
        |_: &AdmissionReview| AdmissionVerdict::patch(&json!([{"op": "add", "path": "/spec/seen", "value": "v1"}]));
    let hook = AdmissionHook::mutating("m.example.com").rule(&["CREATE"], &["example.com"], &["v1"], &["foos"]);
    let (builder, reviews) = recording(builder(), hook, patch);
    let api = Api::with(builder).await;
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}})
    };
    let names = json!({"plural": "foos", "kind": "Foo"});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": names, "versions": [version("v1", true), version("v2", false)]}});
    api.post(DEFINITIONS, &definition).await.expect(201);
    let foo = json!({"apiVersion": "example.com/v2", "kind": "Foo", "metadata": {"name": "a"}, "spec": {}});
    let created = api.post("/apis/example.com/v2/namespaces/default/foos", &foo).await.expect(201);
    assert_eq!((&created["apiVersion"], &created["spec"]["seen"]), (&json!("example.com/v2"), &json!("v1")));
    let review = reviews.take().remove(0);
    assert_eq!(review["object"]["apiVersion"], "example.com/v1");
    assert_eq!(review["kind"], json!({"group": "example.com", "version": "v1", "kind": "Foo"}));
    assert_eq!(review["requestKind"], json!({"group": "example.com", "version": "v2", "kind": "Foo"}));
    assert_eq!(review["requestResource"]["version"], "v2");
}

#[tokio::test(start_paused = true)]
async fn awh_014_selectors_decide_by_labels() {
    let namespaces = json!({"matchLabels": {"reviewed": "yes"}});
    let objects = json!({"matchLabels": {"app": "web"}});
    let hook = all("v.example.com", false, &["configmaps"]).namespace_selector(namespaces).object_selector(objects);
    let (builder, reviews) = recording(builder(), hook, allow);
    let api = Api::with(builder).await;
    let mut labelled = config_map("a");
    labelled["metadata"]["labels"] = json!({"app": "web"});
    api.post(CONFIG_MAPS, &labelled).await.expect(201);
    assert_eq!(reviews.count(), 0, "the namespace is not labelled");
    api.patch("/api/v1/namespaces/default", &json!({"metadata": {"labels": {"reviewed": "yes"}}})).await.expect(200);
    api.post(CONFIG_MAPS, &config_map("b")).await.expect(201);
    assert_eq!(reviews.count(), 0, "the object is not labelled");
    api.patch(&format!("{CONFIG_MAPS}/a"), &json!({"metadata": {"labels": null}})).await.expect(200);
    assert_eq!(reviews.count(), 1, "the old object is labelled");
}

#[tokio::test(start_paused = true)]
async fn awh_015_status_and_scale_are_reviewed_by_their_names() {
    let (builder, main) = recording(builder(), all("a.example.com", false, &["deployments"]), allow);
    let (builder, status) = recording(builder, all("b.example.com", false, &["deployments/status"]), allow);
    let (builder, scale) = recording(builder, all("c.example.com", false, &["*/scale"]), allow);
    let api = Api::with(builder).await;
    api.post(DEPLOYMENTS, &deployment()).await.expect(201);
    assert_eq!((main.take().len(), status.count(), scale.count()), (1, 0, 0));
    let one = format!("{DEPLOYMENTS}/web");
    api.patch(&format!("{one}/status"), &json!({"status": {"replicas": 1}})).await.expect(200);
    let reviews = status.take();
    assert_eq!((main.count(), reviews.len(), scale.count()), (0, 1, 0));
    assert_eq!((&reviews[0]["subResource"], &reviews[0]["kind"]["kind"]), (&json!("status"), &json!("Deployment")));
    api.patch(&format!("{one}/scale"), &json!({"spec": {"replicas": 3}})).await.expect(200);
    let reviews = scale.take();
    assert_eq!((main.count(), status.count(), reviews.len()), (0, 0, 1));
    assert_eq!(reviews[0]["kind"], json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}));
    assert_eq!(reviews[0]["object"]["spec"]["replicas"], 3);
    assert_eq!(reviews[0]["oldObject"]["spec"]["replicas"], 1);
}

#[tokio::test(start_paused = true)]
async fn awh_015_bindings_and_evictions_are_creates_of_their_kind() {
    let (builder, reviews) = recording(builder(), all("a.example.com", false, &["pods/*"]), allow);
    let api = Api::with(builder).await;
    api.post(PODS, &pod("web")).await.expect(201);
    reviews.take();
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"},
                         "target": {"kind": "Node", "name": "one"}});
    api.post(&format!("{PODS}/web/binding"), &binding).await.expect(201);
    let review = reviews.take();
    assert_eq!(review.len(), 1, "{review:?}");
    assert_eq!((&review[0]["operation"], &review[0]["subResource"]), (&json!("CREATE"), &json!("binding")));
    assert_eq!(
        (&review[0]["kind"]["kind"], &review[0]["object"]["target"]["name"]),
        (&json!("Binding"), &json!("one"))
    );
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"}});
    api.post(&format!("{PODS}/web/eviction"), &eviction).await.expect(201);
    let review = reviews.take();
    assert_eq!(review.len(), 1, "{review:?}");
    assert_eq!((&review[0]["operation"], &review[0]["kind"]["kind"]), (&json!("CREATE"), &json!("Eviction")));
}

#[tokio::test(start_paused = true)]
async fn awh_016_warnings_and_annotations() {
    let answer = |_: &AdmissionReview| AdmissionVerdict::allow().warn("take care").annotate("seen", "yes");
    let (builder, _) = recording(
        builder().audit_policy(AuditPolicy::metadata()),
        all("v.example.com", false, &["configmaps"]),
        answer,
    );
    let api = Api::with(builder).await;
    let created = api.post(CONFIG_MAPS, &config_map("a")).await;
    assert_eq!((created.status, created.warnings()), (201, vec!["299 - \"take care\""]));
    let events = api.server.audit_events();
    let event = events.iter().find(|event| event["stage"] == "ResponseComplete" && event["verb"] == "create").unwrap();
    assert_eq!(event["annotations"]["v.example.com/seen"], "yes");
}

#[tokio::test(start_paused = true)]
async fn configurations_of_admission_are_not_reviewed() {
    let deny = |_: &AdmissionReview| AdmissionVerdict::deny("nothing");
    let (builder, reviews) = recording(builder(), all("v.example.com", false, &["*/*"]), deny);
    let api = Api::with(builder).await;
    api.post(CONFIG_MAPS, &config_map("a")).await.refusal(403, "Forbidden");
    assert_eq!(reviews.take().len(), 1);
    let client = json!({"url": "https://127.0.0.1:1/"});
    for (path, kind) in [(VALIDATING, "ValidatingWebhookConfiguration"), (MUTATING, "MutatingWebhookConfiguration")] {
        api.post(path, &configuration(kind, "a", &client, json!({}))).await.expect(201);
        api.delete(&format!("{path}/a")).await.expect(200);
    }
    assert_eq!(reviews.count(), 0);
}
