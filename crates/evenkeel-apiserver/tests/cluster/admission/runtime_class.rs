//! RuntimeClass.

use serde_json::json;

use super::pod;
use crate::PODS;
use crate::api::Api;

const CLASSES: &str = "/apis/node.k8s.io/v1/runtimeclasses";

#[tokio::test]
async fn adm_026_pods_get_the_overhead_and_the_nodes_of_their_runtime() {
    let api = Api::start().await;
    let tolerations = json!([{"key": "vm", "operator": "Exists"}]);
    let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "vm"}, "handler": "vm",
                       "overhead": {"podFixed": {"cpu": "250m"}},
                       "scheduling": {"nodeSelector": {"runtime": "vm"}, "tolerations": tolerations}});
    let created = api.post(CLASSES, &class).await;
    assert!(created.warnings().is_empty(), "{:?}", created.warnings());
    created.expect(201);

    let covered = json!({"key": "vm", "operator": "Exists", "effect": "NoSchedule"});
    let spec = json!({"runtimeClassName": "vm", "nodeSelector": {"zone": "a"}, "tolerations": [covered]});
    let created = api.post(PODS, &pod("p", spec)).await.expect(201);
    assert_eq!(created["spec"]["overhead"], json!({"cpu": "250m"}));
    assert_eq!(created["spec"]["nodeSelector"], json!({"runtime": "vm", "zone": "a"}));
    let tolerations = created["spec"]["tolerations"].as_array().unwrap();
    assert!(!tolerations.contains(&covered), "the toleration of the class includes it: {tolerations:?}");
    assert_eq!(tolerations.iter().filter(|toleration| toleration["key"] == "vm").count(), 1);
}

#[tokio::test]
async fn adm_026_pods_that_contradict_their_runtime_are_refused() {
    let api = Api::start().await;
    let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "vm"}, "handler": "vm",
                       "overhead": {"podFixed": {"cpu": "250m"}}, "scheduling": {"nodeSelector": {"runtime": "vm"}}});
    api.post(CLASSES, &class).await.expect(201);
    let cases = [
        (json!({"runtimeClassName": "none"}), "pod rejected: RuntimeClass \"none\" not found"),
        (
            json!({"runtimeClassName": "vm", "overhead": {"cpu": "1"}}),
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            json!({"overhead": {"cpu": "1"}}),
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            json!({"runtimeClassName": "vm", "nodeSelector": {"runtime": "other"}}),
            "conflict: runtimeClass.scheduling.nodeSelector[runtime] = vm; pod.spec.nodeSelector[runtime] = other",
        ),
    ];
    for (spec, why) in cases {
        let refused = api.post(PODS, &pod("p", spec)).await;
        assert_eq!(refused.refusal(403, "Forbidden"), format!("pods \"p\" is forbidden: {why}"));
    }
    let same = json!({"runtimeClassName": "vm", "overhead": {"cpu": "0.25"}});
    api.post(PODS, &pod("p", same)).await.expect(201);
}
