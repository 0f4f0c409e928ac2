//! Patches of mutating webhooks.

use evenkeel_apiserver::{AdmissionHook, AdmissionReview, AdmissionVerdict};
use serde_json::{Value, json};

use super::{CONFIG_MAPS, builder, config_map, recording};
use crate::PODS;
use crate::api::Api;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn hook(name: &str, resources: &[&str]) -> AdmissionHook {
    AdmissionHook::mutating(name).rule(&["*"], &["*"], &["*"], resources)
}

fn add(path: &str, value: Value) -> AdmissionVerdict {
    AdmissionVerdict::patch(&json!([{"op": "add", "path": path, "value": value}]))
}

#[tokio::test(start_paused = true)]
async fn awh_009_the_result_is_defaulted_pruned_and_validated() {
    let sidecar = |_: &AdmissionReview| {
        add(
            "/spec/containers/-",
            json!({"name": "side", "image": "side", "unknown": 1, "ports": [{"containerPort": 80}]}),
        )
    };
    let (builder, _) = recording(builder(), hook("m.example.com", &["pods"]), sidecar);
    let api = Api::with(builder).await;
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
                         "spec": {"containers": [{"name": "a", "image": "busybox"}]}});
    let created = api.post(PODS, &pod).await.expect(201);
    let side = &created["spec"]["containers"][1];
    assert_eq!((&side["imagePullPolicy"], &side["ports"][0]["protocol"]), (&json!("Always"), &json!("TCP")));
    assert!(side.get("unknown").is_none());
    // The writer does not own what a webhook adds.
    let owned = created["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:containers"].as_object().unwrap();
    assert_eq!(owned.len(), 1, "{owned:?}");
    pod["metadata"]["name"] = "other".into();
    pod["spec"]["containers"][0]["name"] = "side".into();
    let refused = api.post(PODS, &pod).await;
    let message = refused.refusal(422, "Invalid");
    assert!(message.contains("Duplicate value: \"side\""), "{message}");
}

#[tokio::test(start_paused = true)]
async fn awh_009_a_patch_cannot_leave_the_endpoint() {
    let change = |review: &AdmissionReview| match review.subresource() {
        "status" => add("/spec/replicas", json!(9)),
        "scale" => add("/spec/replicas", json!(5)),
        _ => add("/status", json!({"replicas": 7})),
    };
    let (builder, _) = recording(builder(), hook("m.example.com", &["deployments/*"]), change);
    let api = Api::with(builder).await;
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
                 "template": {"metadata": {"labels": {"a": "b"}},
                              "spec": {"containers": [{"name": "a", "image": "busybox"}]}}}});
    let created = api.post(DEPLOYMENTS, &deployment).await.expect(201);
    assert!(created["status"].get("replicas").is_none(), "{created}");
    let one = format!("{DEPLOYMENTS}/web");
    let updated = api.patch(&one, &json!({"metadata": {"labels": {"x": "y"}}})).await.expect(200);
    assert!(updated["status"].get("replicas").is_none(), "{updated}");
    let updated = api.patch(&format!("{one}/status"), &json!({"status": {"replicas": 1}})).await.expect(200);
    assert_eq!((&updated["spec"]["replicas"], &updated["status"]["replicas"]), (&json!(1), &json!(1)));
    let scaled = api.patch(&format!("{one}/scale"), &json!({"spec": {"replicas": 3}})).await.expect(200);
    assert_eq!(scaled["spec"]["replicas"], 5);
    assert_eq!(api.get(&one).await.expect(200)["spec"]["replicas"], 5);
}

#[tokio::test(start_paused = true)]
async fn awh_008_a_change_runs_earlier_webhooks_again() {
    let label = |key: &'static str| {
        move |review: &AdmissionReview| {
            let labels = review.object()["metadata"]["labels"].clone();
            let count = labels[key].as_str().map_or(0, |count| count.parse::<u64>().unwrap());
            let mut labels = if labels.is_object() { labels } else { json!({}) };
            labels[key] = (count + 1).to_string().into();
            add("/metadata/labels", labels)
        }
    };
    let again = |name: &str| hook(name, &["configmaps"]).reinvoke_if_needed();
    let (builder, first) = recording(builder(), again("a.example.com"), label("a"));
    let (builder, second) = recording(builder, again("b.example.com"), label("b"));
    let (builder, never) = recording(builder, hook("c.example.com", &["configmaps"]), label("c"));
    // Selected only by what the first one adds, and thus not in the first pass: it stands before it.
    let late = again("0.example.com").object_selector(json!({"matchLabels": {"a": "1"}}));
    let (builder, late) = recording(builder, late, label("late"));
    let api = Api::with(builder).await;
    let created = api.post(CONFIG_MAPS, &config_map("x")).await.expect(201);
    assert_eq!((first.count(), second.count(), never.count(), late.count()), (2, 2, 1, 0));
    assert_eq!(created["metadata"]["labels"], json!({"a": "2", "b": "2", "c": "1"}));
}

#[tokio::test(start_paused = true)]
async fn awh_008_built_in_plugins_run_again() {
    let clear = |_: &AdmissionReview| add("/spec/tolerations", json!([]));
    let (builder, reviews) = recording(builder(), hook("m.example.com", &["pods"]), clear);
    let api = Api::with(builder).await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
                     "spec": {"containers": [{"name": "a", "image": "busybox"}]}});
    let created = api.post(PODS, &pod).await.expect(201);
    assert_eq!(created["spec"]["tolerations"].as_array().unwrap().len(), 2);
    assert_eq!(reviews.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn awh_011_a_patch_that_does_not_apply_fails_the_request() {
    let missing = |_: &AdmissionReview| AdmissionVerdict::patch(&json!([{"op": "remove", "path": "/nothing"}]));
    let ignoring = hook("m.example.com", &["configmaps"]).ignore_failures();
    let (builder, _) = recording(builder(), ignoring, missing);
    let api = Api::with(builder).await;
    let refused = api.post(CONFIG_MAPS, &config_map("a")).await;
    let message = refused.refusal(500, "InternalError");
    assert!(message.starts_with("Internal error occurred: "), "{message}");
    api.get(&format!("{CONFIG_MAPS}/a")).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn awh_011_a_delete_cannot_be_patched() {
    let change = |_: &AdmissionReview| add("/data", json!({}));
    let deletes = AdmissionHook::mutating("m.example.com").rule(&["DELETE"], &[""], &["v1"], &["configmaps"]);
    let (builder, _) = recording(builder(), deletes, change);
    let api = Api::with(builder).await;
    api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let refused = api.delete(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(
        refused.refusal(500, "InternalError"),
        "Internal error occurred: admission webhook \"m.example.com\" attempted to modify the object, which is not \
         supported for this operation"
    );
    api.get(&format!("{CONFIG_MAPS}/a")).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn awh_009_a_webhook_may_name_an_object_but_not_move_it() {
    let rename = |review: &AdmissionReview| match review.name() {
        "move" => add("/metadata/namespace", json!("kube-system")),
        _ => add("/metadata/name", json!("given")),
    };
    let creates = AdmissionHook::mutating("m.example.com").rule(&["CREATE"], &[""], &["v1"], &["configmaps"]);
    let (builder, _) = recording(builder(), creates, rename);
    let api = Api::with(builder).await;
    let mut sent = config_map("");
    sent["metadata"] = json!({"generateName": "web-"});
    assert_eq!(api.post(CONFIG_MAPS, &sent).await.expect(201)["metadata"]["name"], "given");
    assert_eq!(api.get(&format!("{CONFIG_MAPS}/given")).await.expect(200)["metadata"]["name"], "given");
    let refused = api.post(CONFIG_MAPS, &config_map("move")).await;
    assert_eq!(
        refused.refusal(400, "BadRequest"),
        "the namespace of the provided object does not match the namespace sent on the request"
    );
}
