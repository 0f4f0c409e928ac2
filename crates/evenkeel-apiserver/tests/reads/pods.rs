//! The subresources of pods that change them: eviction, binding, ephemeral containers, resize.

use serde_json::{Value, json};

use crate::api::{Api, PODS, generation, pod};

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

async fn running(api: &Api, name: &str, ready: &str) {
    api.post(PODS, pod(name)).await.ok();
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
    api.patch(&format!("{PODS}/{name}/status"), status).await.ok();
}

async fn budget(api: &Api, name: &str, spec: Value, status: Value) {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    let object = json!({"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "metadata": {"name": name},
                        "spec": spec});
    api.post(BUDGETS, object).await.ok();
    api.patch(&format!("{BUDGETS}/{name}/status"), json!({"status": status})).await.ok();
}

fn eviction(name: &str) -> Value {
    json!({"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": name, "namespace": "default"}})
}

#[tokio::test(start_paused = true)]
async fn msc_3_a_pod_without_a_budget_is_marked_and_deleted() {
    let api = Api::start().await;
    running(&api, "p", "True").await;
    let mut watch = api.watch(&format!("{PODS}?resourceVersion={}", api.now().await)).await;
    let response = api.post(&format!("{PODS}/p/eviction"), eviction("p")).await;
    assert_eq!((response.code, &response.body["status"]), (201, &json!("Success")));
    let marked = watch.ready().unwrap();
    let condition = &marked.object["status"]["conditions"][1];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("DisruptionTarget"), &json!("True")));
    assert_eq!(condition["reason"], "EvictionByEvictionAPI");
    let last = watch.ready().unwrap();
    assert!(last.kind == "DELETED" || last.object["metadata"]["deletionTimestamp"].is_string(), "{last:?}");
    let mismatch = api.post(&format!("{PODS}/q/eviction"), eviction("p")).await;
    assert_eq!(mismatch.refused(400), "name in URL does not match name in Eviction object");
    assert_eq!(api.post(&format!("{PODS}/q/eviction"), eviction("q")).await.code, 404);
    assert_eq!(api.post(&format!("{PODS}/p/eviction"), pod("p")).await.code, 400, "a pod is no eviction");
    let mut older = eviction("q");
    older["apiVersion"] = "policy/v1beta1".into();
    assert_eq!(api.post(&format!("{PODS}/q/eviction"), older).await.code, 404, "both versions are read");
}

#[tokio::test(start_paused = true)]
async fn msc_3_a_budget_is_charged_until_it_is_spent() {
    let api = Api::start().await;
    let status = json!({"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2,
                        "expectedPods": 3});
    budget(&api, "b", json!({"minAvailable": 2}), status).await;
    for name in ["p1", "p2"] {
        running(&api, name, "True").await;
    }
    api.post(&format!("{PODS}/p1/eviction"), eviction("p1")).await.ok();
    let charged = api.get(&format!("{BUDGETS}/b")).await.ok();
    assert_eq!(charged["status"]["disruptionsAllowed"], 0);
    assert!(charged["status"]["disruptedPods"]["p1"].is_string(), "{charged}");
    let response = api.post(&format!("{PODS}/p2/eviction"), eviction("p2")).await;
    assert_eq!(response.headers.get("retry-after"), None);
    let cause = json!([{"reason": "DisruptionBudget",
                        "message": "The disruption budget b needs 2 healthy pods and has 3 currently"}]);
    assert_eq!(response.body["details"]["causes"], cause);
    assert_eq!(response.refused(429), "Cannot evict pod as it would violate the pod's disruption budget.");
    let kept = api.get(&format!("{PODS}/p2")).await.ok();
    assert_eq!(kept["metadata"].get("deletionTimestamp"), None);
    assert_eq!(kept["status"]["conditions"].as_array().unwrap().len(), 1, "and is not marked either");
    // Pods that do not run are not protected.
    api.post(PODS, pod("pending")).await.ok();
    assert_eq!(api.post(&format!("{PODS}/pending/eviction"), eviction("pending")).await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn msc_3_a_stale_budget_returns_retry_after() {
    let api = Api::start().await;
    budget(&api, "b", json!({"minAvailable": 1}), json!({"observedGeneration": 0, "disruptionsAllowed": 5})).await;
    running(&api, "p", "True").await;
    let response = api.post(&format!("{PODS}/p/eviction"), eviction("p")).await;
    assert_eq!((response.code, &response.headers["retry-after"]), (429, &"10".parse().unwrap()));
    assert_eq!(
        response.body["details"]["causes"][0]["message"],
        "The disruption budget b is still being processed by the server."
    );
}

#[tokio::test(start_paused = true)]
async fn msc_3_unready_pods_are_evicted_by_the_policy_of_the_budget() {
    for (policy, healthy, code) in [(None, 1, 429), (None, 2, 201), (Some("AlwaysAllow"), 1, 201)] {
        let api = Api::start().await;
        let mut spec = json!({"minAvailable": 2});
        if let Some(policy) = policy {
            spec["unhealthyPodEvictionPolicy"] = policy.into();
        }
        let status = json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": healthy,
                            "desiredHealthy": 2, "expectedPods": 3});
        budget(&api, "b", spec, status).await;
        running(&api, "p", "False").await;
        let response = api.post(&format!("{PODS}/p/eviction"), eviction("p")).await;
        assert_eq!(response.code, code, "{policy:?} {healthy}: {}", response.body);
        let after = api.get(&format!("{BUDGETS}/b")).await.ok();
        assert_eq!(after["status"]["disruptionsAllowed"], 0, "pods that are not ready cost nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn msc_3_an_empty_selector_covers_every_pod_and_no_selector_none() {
    let api = Api::start().await;
    let object = |name: &str| {
        json!({"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "metadata": {"name": name},
               "spec": {"minAvailable": 1}})
    };
    api.post(BUDGETS, object("none")).await.ok();
    running(&api, "p", "True").await;
    assert_eq!(api.post(&format!("{PODS}/p/eviction?dryRun=All"), eviction("p")).await.code, 201);
    let mut all = object("all");
    all["spec"]["selector"] = json!({});
    api.post(BUDGETS, all).await.ok();
    assert_eq!(api.post(&format!("{PODS}/p/eviction"), eviction("p")).await.code, 429);
}

#[tokio::test(start_paused = true)]
async fn msc_3_two_matching_budgets_are_an_error() {
    let api = Api::start().await;
    let status = json!({"observedGeneration": 1, "disruptionsAllowed": 5});
    budget(&api, "a", json!({"minAvailable": 1}), status.clone()).await;
    budget(&api, "b", json!({"minAvailable": 1}), status).await;
    running(&api, "p", "True").await;
    assert_eq!(
        api.post(&format!("{PODS}/p/eviction"), eviction("p")).await.refused(500),
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    );
}

#[tokio::test(start_paused = true)]
async fn msc_3_preconditions_are_checked_against_the_pod() {
    let api = Api::start().await;
    running(&api, "p", "True").await;
    let pod = api.get(&format!("{PODS}/p")).await.ok();
    let with = |key: &str, value: Value| {
        let mut eviction = eviction("p");
        eviction["deleteOptions"] = json!({"preconditions": {key: value}});
        eviction
    };
    let path = format!("{PODS}/p/eviction");
    assert_eq!(api.post(&path, with("uid", json!("someone-else"))).await.code, 409);
    assert_eq!(api.post(&path, with("resourceVersion", json!("1"))).await.code, 409);
    assert_eq!(api.get(&format!("{PODS}/p")).await.ok(), pod, "a refused eviction changes nothing");
    let seen = pod["metadata"]["resourceVersion"].clone();
    assert_eq!(api.post(&path, with("resourceVersion", seen)).await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn msc_3_a_dry_run_evicts_nothing_and_charges_nothing() {
    let api = Api::start().await;
    let status = json!({"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1});
    budget(&api, "b", json!({"minAvailable": 1}), status).await;
    running(&api, "p", "True").await;
    let before = api.now().await;
    assert_eq!(api.post(&format!("{PODS}/p/eviction?dryRun=All"), eviction("p")).await.code, 201);
    assert_eq!(api.now().await, before);
}

fn binding(name: &str, node: &str) -> Value {
    json!({"kind": "Binding", "apiVersion": "v1", "metadata": {"name": name},
           "target": {"apiVersion": "v1", "kind": "Node", "name": node}})
}

#[tokio::test(start_paused = true)]
async fn msc_4_a_binding_assigns_a_pod_once() {
    let api = Api::start().await;
    api.post(PODS, pod("p")).await.ok();
    let nominated = json!({"status": {"nominatedNodeName": "n0"}});
    api.patch(&format!("{PODS}/p/status"), nominated).await.ok();
    let path = format!("{PODS}/p/binding");
    let mut first = binding("p", "n1");
    first["metadata"]["annotations"] = json!({"scheduled-by": "test"});
    let response = api.post(&path, first).await;
    assert_eq!((response.code, &response.body["status"]), (201, &json!("Success")));
    let bound = api.get(&format!("{PODS}/p")).await.ok();
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["status"].get("nominatedNodeName"), None);
    assert_eq!(bound["metadata"]["annotations"]["scheduled-by"], "test");
    let condition = &bound["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("PodScheduled"), &json!("True")));
    let again = api.post(&path, binding("p", "n2")).await;
    assert_eq!(again.body["details"]["kind"], "pods/binding");
    assert_eq!(
        again.refused(409),
        "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n1\""
    );
}

#[tokio::test(start_paused = true)]
async fn msc_4_invalid_bindings_are_refused() {
    let api = Api::start().await;
    let mut held = pod("going");
    held["metadata"]["finalizers"] = json!(["example.com/f"]);
    api.post(PODS, held).await.ok();
    api.delete(&format!("{PODS}/going")).await.ok();
    assert_eq!(
        api.post(&format!("{PODS}/going/binding"), binding("going", "n")).await.refused(409),
        "Operation cannot be fulfilled on pods/binding \"going\": pod going is being deleted, cannot be assigned to a \
         host"
    );
    let mut gated = pod("gated");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/g"}]);
    api.post(PODS, gated).await.ok();
    assert_eq!(api.post(&format!("{PODS}/gated/binding"), binding("gated", "n")).await.code, 409);
    api.post(PODS, pod("p")).await.ok();
    let path = format!("{PODS}/p/binding");
    assert_eq!(api.post(&path, binding("q", "n")).await.code, 400);
    assert_eq!(api.post(&path, binding("p", "")).await.code, 422);
    let mut other = binding("p", "n");
    other["metadata"]["uid"] = "someone-else".into();
    assert_eq!(api.post(&path, other).await.code, 409);
    assert_eq!(api.post(&format!("{PODS}/absent/binding"), binding("absent", "n")).await.code, 404);
    assert_eq!(api.get(&format!("{PODS}/p")).await.ok()["spec"].get("nodeName"), None);
    let collection = "/api/v1/namespaces/default/bindings";
    assert_eq!(api.post(collection, binding("p", "n")).await.code, 201);
    assert_eq!(api.get(&format!("{PODS}/p")).await.ok()["spec"]["nodeName"], "n");
}

#[tokio::test(start_paused = true)]
async fn msc_8_ephemeral_containers_and_resources_change_through_their_sub_resources_alone() {
    let api = Api::start().await;
    api.post(PODS, pod("p")).await.ok();
    let debug = json!([{"name": "debug", "image": "busybox"}]);
    let main = api.patch(&format!("{PODS}/p"), json!({"spec": {"ephemeralContainers": debug}})).await;
    assert_eq!(main.code, 422, "{}", main.body);
    let change = json!({"spec": {"ephemeralContainers": debug, "nodeName": "sneaky"}});
    let changed = api.patch(&format!("{PODS}/p/ephemeralcontainers"), change).await.ok();
    assert_eq!(changed["spec"]["ephemeralContainers"][0]["name"], "debug");
    assert_eq!(changed["spec"].get("nodeName"), None, "nothing but its own field");
    assert_eq!(generation(&changed), Some(2));
    let mut wanted = api.get(&format!("{PODS}/p/resize")).await.ok();
    wanted["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "100m"}});
    wanted["spec"]["containers"][0]["image"] = "sneaky".into();
    let resized = api.put(&format!("{PODS}/p/resize"), wanted.clone()).await.ok();
    let container = &resized["spec"]["containers"][0];
    assert_eq!((&container["resources"]["requests"]["cpu"], &container["image"]), (&json!("100m"), &json!("nginx")));
    assert_eq!(generation(&resized), Some(3));
    assert_eq!(api.put(&format!("{PODS}/p/resize"), wanted).await.code, 409, "the version is checked");
    let patch = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "200m"}}}]}});
    let resized = api.patch(&format!("{PODS}/p/resize"), patch).await.ok();
    assert_eq!(resized["spec"]["containers"][0]["resources"]["requests"]["cpu"], "200m");
}

#[tokio::test(start_paused = true)]
async fn msc_8_ephemeral_containers_are_added_and_kept() {
    let api = Api::start().await;
    api.post(PODS, pod("p")).await.ok();
    let path = format!("{PODS}/p/ephemeralcontainers");
    let with = |containers: Value| json!({"spec": {"ephemeralContainers": containers}});
    let debug = json!({"name": "debug", "image": "busybox:1"});
    let added = api.patch(&path, with(json!([debug]))).await.ok();
    assert_eq!(added["spec"]["ephemeralContainers"][0]["name"], "debug");
    let removed = api.patch(&path, with(json!([]))).await.refused(422);
    assert!(removed.contains("existing ephemeral containers \"debug\" may not be removed"), "{removed}");
    let changed = api.patch(&path, with(json!([{"name": "debug", "image": "busybox:2"}]))).await.refused(422);
    assert!(changed.contains("may not be changed"), "{changed}");
    let more = with(json!([added["spec"]["ephemeralContainers"][0], {"name": "other", "image": "busybox:1"}]));
    assert_eq!(api.patch(&path, more).await.ok()["spec"]["ephemeralContainers"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn msc_8_ephemeral_containers_are_validated() {
    let api = Api::start().await;
    api.post(PODS, pod("p")).await.ok();
    let path = format!("{PODS}/p/ephemeralcontainers");
    let field = "spec.ephemeralContainers[0]";
    let forbidden = "Forbidden: cannot be set for an Ephemeral Container";
    let cases = [
        (json!({"name": "c", "image": "i"}), format!("{field}.name: Duplicate value: \"c\"")),
        (json!({"name": "d"}), format!("{field}.image: Required value")),
        (json!({"name": "D", "image": "i"}), format!("{field}.name: Invalid value")),
        (
            json!({"name": "d", "image": "i", "targetContainerName": "none"}),
            format!("{field}.targetContainerName: Not found: \"none\""),
        ),
        (json!({"name": "d", "image": "i", "ports": [{"containerPort": 80}]}), format!("{field}.ports: {forbidden}")),
        (
            json!({"name": "d", "image": "i", "resources": {"limits": {"cpu": "1"}}}),
            format!("{field}.resources: {forbidden}"),
        ),
        (
            json!({"name": "d", "image": "i", "livenessProbe": {"exec": {"command": ["true"]}}}),
            format!("{field}.livenessProbe: {forbidden}"),
        ),
        (
            json!({"name": "d", "image": "i", "volumeMounts": [{"name": "none", "mountPath": "/m"}]}),
            format!("{field}.volumeMounts[0].name: Not found: \"none\""),
        ),
    ];
    for (container, expected) in cases {
        let change = json!({"spec": {"ephemeralContainers": [container]}});
        let refused = api.patch(&path, change).await.refused(422);
        assert!(refused.contains(&expected), "{refused}\n{expected}");
    }
    let target = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "i", "targetContainerName": "c"}]}});
    api.patch(&path, target.clone()).await.ok();

    let mut early = pod("early");
    early["spec"]["ephemeralContainers"] = json!([{"name": "d", "image": "i"}]);
    let refused = api.post(PODS, early).await.refused(422);
    assert!(refused.contains("spec.ephemeralContainers: Forbidden: cannot be set on create"), "{refused}");
    let mut mirror = pod("mirror");
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "hash"});
    api.post(PODS, mirror).await.ok();
    let refused = api.patch(&format!("{PODS}/mirror/ephemeralcontainers"), target).await.refused(422);
    assert!(refused.contains("static pods do not support ephemeral containers"), "{refused}");
}
