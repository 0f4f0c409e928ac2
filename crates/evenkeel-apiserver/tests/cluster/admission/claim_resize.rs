//! PersistentVolumeClaimResize.

use serde_json::json;

use super::{claim, set_status};
use crate::api::Api;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

#[tokio::test]
async fn adm_012_only_bound_claims_of_a_class_that_allows_it_grow() {
    let api = Api::start().await;
    for (name, expands) in [("fixed", json!(null)), ("growing", json!(true))] {
        let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
                           "provisioner": "example.com/p", "allowVolumeExpansion": expands});
        api.post(CLASSES, &class).await.expect(201);
        let mut sent = claim(name, "1Gi");
        sent["spec"]["storageClassName"] = json!(name);
        sent["spec"]["volumeName"] = json!("v");
        api.post(CLAIMS, &sent).await.expect(201);
    }
    let grown = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    let path = |name: &str| format!("{CLAIMS}/{name}");
    let refused = api.patch(&path("growing"), &grown).await;
    let text = "persistentvolumeclaims \"growing\" is forbidden: Only bound persistent volume claims can be expanded";
    assert_eq!(refused.refusal(403, "Forbidden"), text);
    for name in ["fixed", "growing"] {
        set_status(&api, &path(name), json!({"phase": "Bound"})).await;
    }
    let refused = api.patch(&path("fixed"), &grown).await;
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support \
               resize";
    assert_eq!(refused.refusal(403, "Forbidden"), format!("persistentvolumeclaims \"fixed\" is forbidden: {why}"));
    api.patch(&path("growing"), &grown).await.expect(200);
    // A change without growth needs no permission of the class.
    api.patch(&path("fixed"), &json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
}
