//! DefaultStorageClass and DefaultIngressClass.

use serde_json::{Value, json};

use super::claim;
use crate::api::Api;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const STORAGE_CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const INGRESS_CLASSES: &str = "/apis/networking.k8s.io/v1/ingressclasses";
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";

fn storage_class(name: &str, default: bool) -> Value {
    let annotations = json!({"storageclass.kubernetes.io/is-default-class": default.to_string()});
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "example.com/p",
           "metadata": {"name": name, "annotations": annotations}})
}

fn ingress_class(name: &str) -> Value {
    let annotations = json!({"ingressclass.kubernetes.io/is-default-class": "true"});
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "spec": {"controller": "example.com/c"},
           "metadata": {"name": name, "annotations": annotations}})
}

fn ingress(name: &str) -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": name},
           "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}})
}

#[tokio::test(start_paused = true)]
async fn adm_010_claims_without_a_class_get_the_newest_default_one() {
    let api = Api::start().await;
    let created = api.post(CLAIMS, &claim("none", "1Gi")).await.expect(201);
    assert!(created["spec"].get("storageClassName").is_none(), "{created}");

    api.post(STORAGE_CLASSES, &storage_class("plain", false)).await.expect(201);
    api.post(STORAGE_CLASSES, &storage_class("z-old", true)).await.expect(201);
    let created = api.post(CLAIMS, &claim("one", "1Gi")).await.expect(201);
    assert_eq!(created["spec"]["storageClassName"], "z-old");

    tokio::time::advance(std::time::Duration::from_secs(2)).await;
    for name in ["new-b", "new-a"] {
        api.post(STORAGE_CLASSES, &storage_class(name, true)).await.expect(201);
    }
    let created = api.post(CLAIMS, &claim("newest", "1Gi")).await.expect(201);
    assert_eq!(created["spec"]["storageClassName"], "new-a");

    let mut without = claim("without", "1Gi");
    without["spec"]["storageClassName"] = json!("");
    let created = api.post(CLAIMS, &without).await.expect(201);
    assert_eq!(created["spec"]["storageClassName"], "");

    let no_default = json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "false"}}});
    api.patch(&format!("{STORAGE_CLASSES}/new-a"), &no_default).await.expect(200);
    api.delete(&format!("{STORAGE_CLASSES}/new-b")).await.expect(200);
    let created = api.post(CLAIMS, &claim("last", "1Gi")).await.expect(201);
    assert_eq!(created["spec"]["storageClassName"], "z-old");
}

#[tokio::test]
async fn adm_026_ingresses_without_a_class_get_the_default_one() {
    let api = Api::start().await;
    let created = api.post(INGRESSES, &ingress("none")).await.expect(201);
    assert!(created["spec"].get("ingressClassName").is_none(), "{created}");
    api.post(INGRESS_CLASSES, &ingress_class("main")).await.expect(201);
    let created = api.post(INGRESSES, &ingress("one")).await.expect(201);
    assert_eq!(created["spec"]["ingressClassName"], "main");
    let mut annotated = ingress("annotated");
    annotated["metadata"]["annotations"] = json!({"kubernetes.io/ingress.class": "other"});
    let created = api.post(INGRESSES, &annotated).await.expect(201);
    assert!(created["spec"].get("ingressClassName").is_none(), "{created}");
}
