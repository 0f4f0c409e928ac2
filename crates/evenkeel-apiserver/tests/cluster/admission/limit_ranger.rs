//! LimitRanger.

use serde_json::{Value, json};

use super::{claim, container, pod};
use crate::PODS;
use crate::api::Api;

const RANGES: &str = "/api/v1/namespaces/default/limitranges";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

async fn with_limits(limits: Value) -> Api {
    let api = Api::start().await;
    let range =
        json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "r"}, "spec": {"limits": limits}});
    let created = api.post(RANGES, &range).await;
    assert!(created.warnings().is_empty(), "{:?}", created.warnings());
    created.expect(201);
    api
}

async fn refusal(api: &Api, pod: &Value) -> String {
    let refused = api.post(PODS, pod).await;
    let message = refused.refusal(403, "Forbidden");
    message.strip_prefix("pods \"p\" is forbidden: ").unwrap().to_owned()
}

#[tokio::test]
async fn adm_004_containers_get_the_default_requests_and_limits() {
    let api = with_limits(json!([{"type": "Container", "default": {"cpu": "500m"},
                                  "defaultRequest": {"cpu": "250m", "memory": "64Mi"}}]))
    .await;
    let spec = json!({"containers": [container("a", json!({})), container("b", json!({"limits": {"cpu": "1"}}))],
                      "initContainers": [container("i", json!({"requests": {"memory": "1Gi"}}))]});
    let created = api.post(PODS, &pod("p", spec)).await.expect(201);
    let resources = |list: &str, index: usize| created["spec"][list][index]["resources"].clone();
    let set = json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "250m", "memory": "64Mi"}});
    assert_eq!(resources("containers", 0), set);
    // A limit that the pod sets is also its request.
    assert_eq!(resources("containers", 1), json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1", "memory": "64Mi"}}));
    let set = json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "250m", "memory": "1Gi"}});
    assert_eq!(resources("initContainers", 0), set);
    let note = "LimitRanger plugin set: cpu, memory request for container a; cpu limit for container a; \
                memory request for container b; cpu request for init container i; cpu limit for init container i";
    assert_eq!(created["metadata"]["annotations"][ANNOTATION], note);
    assert_eq!(created["status"]["qosClass"], "Burstable");
}

#[tokio::test]
async fn adm_004_ranges_of_other_namespaces_and_deleted_ranges_do_not_apply() {
    let api = with_limits(json!([{"type": "Container", "default": {"cpu": "500m"}}])).await;
    let other = "/api/v1/namespaces/kube-system/pods";
    let created = api.post(other, &pod("p", json!({}))).await.expect(201);
    assert!(created["metadata"].get("annotations").is_none(), "{created}");
    api.delete(&format!("{RANGES}/r")).await.expect(200);
    let created = api.post(PODS, &pod("p", json!({}))).await.expect(201);
    assert!(created["metadata"].get("annotations").is_none(), "{created}");
}

#[tokio::test]
async fn adm_005_containers_beyond_their_bounds_are_refused() {
    let api = with_limits(json!([{"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "100m"}}])).await;
    let with = |resources: Value| pod("p", json!({"containers": [container("a", resources)]}));
    let text = refusal(&api, &with(json!({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}))).await;
    assert_eq!(text, "maximum cpu usage per Container is 1, but limit is 2");
    let text = refusal(&api, &with(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "50m"}}))).await;
    assert_eq!(text, "minimum cpu usage per Container is 100m, but request is 50m");
    api.post(PODS, &with(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "100m"}}))).await.expect(201);
}

#[tokio::test]
async fn adm_005_a_bound_requires_the_resource_and_several_faults_are_listed() {
    // Bounds of pods are no defaults, so nothing is set.
    let api = with_limits(json!([{"type": "Pod", "max": {"cpu": "1"}, "min": {"memory": "1Mi"}}])).await;
    let text = refusal(&api, &pod("p", json!({}))).await;
    let expected = "[minimum memory usage per Pod is 1Mi.  No request is specified, \
                    maximum cpu usage per Pod is 1.  No limit is specified]";
    assert_eq!(text, expected);
}

#[tokio::test]
async fn adm_005_the_ratio_of_limit_and_request_is_bounded() {
    let api = with_limits(json!([{"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}])).await;
    let with = |resources: Value| pod("p", json!({"containers": [container("a", resources)]}));
    let text = refusal(&api, &with(json!({"limits": {"cpu": "2"}, "requests": {"cpu": "500m"}}))).await;
    assert_eq!(text, "cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000");
    let text = refusal(&api, &with(json!({"requests": {"cpu": "1"}}))).await;
    assert_eq!(text, "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0");
    let text = refusal(&api, &with(json!({}))).await;
    assert_eq!(text, "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0");
    api.post(PODS, &with(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}}))).await.expect(201);
}

#[tokio::test]
async fn adm_006_a_pod_is_compared_by_its_totals() {
    let api = with_limits(json!([{"type": "Pod", "max": {"cpu": "2"}}])).await;
    let one = json!({"limits": {"cpu": "1"}});
    let spec = |last: &str| json!({"containers": [container("a", one.clone()), container("b", json!({"limits": {"cpu": last}}))]});
    let text = refusal(&api, &pod("p", spec("1500m"))).await;
    assert_eq!(text, "maximum cpu usage per Pod is 2, but limit is 2500m");
    // An init container runs before the others: the larger of both counts.
    let mut init = spec("1");
    init["initContainers"] = json!([container("i", json!({"limits": {"cpu": "3"}}))]);
    let text = refusal(&api, &pod("p", init)).await;
    assert_eq!(text, "maximum cpu usage per Pod is 2, but limit is 3");
    api.post(PODS, &pod("p", spec("1"))).await.expect(201);
}

#[tokio::test]
async fn adm_006_claims_and_resizes_are_checked_and_other_updates_of_pods_are_not() {
    let api =
        with_limits(json!([{"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}},
                                 {"type": "Container", "max": {"cpu": "1"}}]))
        .await;
    let refused = api.post(CLAIMS, &claim("c", "3Gi")).await;
    let why = "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi";
    let text = format!("persistentvolumeclaims \"c\" is forbidden: {why}");
    assert_eq!(refused.refusal(403, "Forbidden"), text);
    let mut sent = api.post(CLAIMS, &claim("c", "1Gi")).await.expect(201);
    sent["spec"]["resources"]["requests"]["storage"] = json!("512Mi");
    let refused = api.put(&format!("{CLAIMS}/c"), &sent).await;
    let why = "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 512Mi";
    assert!(refused.refusal(403, "Forbidden").ends_with(why), "{}", refused.text);

    let spec = json!({"containers": [container("a", json!({"limits": {"cpu": "1"}}))]});
    api.post(PODS, &pod("p", spec)).await.expect(201);
    let resized = json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}}]}});
    let refused = api.strategic(&format!("{PODS}/p/resize"), &resized).await;
    let text = "pods \"p\" is forbidden: maximum cpu usage per Container is 1, but limit is 2";
    assert_eq!(refused.refusal(403, "Forbidden"), text);
    // A range that would refuse the pod leaves its other updates alone.
    let range = json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "500m"}}]}});
    api.patch(&format!("{RANGES}/r"), &range).await.expect(200);
    api.patch(&format!("{PODS}/p"), &json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
}
