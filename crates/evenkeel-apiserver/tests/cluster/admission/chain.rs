//! The chain: its order, its switches, the form of refusals.

use evenkeel_apiserver::AdmissionPluginError;
use serde_json::json;

use super::{builder, claim, pod};
use crate::PODS;
use crate::api::Api;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

#[test]
fn adm_001_plugins_run_in_the_order_of_kube_apiserver() {
    const ORDER: [&str; 23] = [
        "NamespaceLifecycle",
        "LimitRanger",
        "ServiceAccount",
        "TaintNodesByCondition",
        "PodSecurity",
        "Priority",
        "DefaultTolerationSeconds",
        "DefaultStorageClass",
        "StorageObjectInUseProtection",
        "OwnerReferencesPermissionEnforcement",
        "PersistentVolumeClaimResize",
        "RuntimeClass",
        "CertificateApproval",
        "CertificateSigning",
        "ClusterTrustBundleAttest",
        "CertificateSubjectRestriction",
        "DefaultIngressClass",
        "PodTopologyLabels",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionWebhook",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionWebhook",
        "ResourceQuota",
    ];
    let error = builder().admission("None", true).unwrap_err().to_string();
    let names = error.strip_prefix("admission plugin \"None\" is unknown; there are ").unwrap();
    let names: Vec<&str> = names.split(", ").filter(|name| ORDER.contains(name)).collect();
    assert_eq!(names, ORDER);
    assert!(error.ends_with(", ResourceQuota"), "what is charged must be final: {error}");
}

#[tokio::test]
async fn adm_002_a_plugin_can_be_switched_off_and_on() {
    let api = Api::with(builder().admission("Priority", false).unwrap()).await;
    let created = api.post(PODS, &pod("a", json!({}))).await.expect(201);
    assert!(created["spec"].get("priority").is_none(), "{created}");

    let off = builder().admission("StorageObjectInUseProtection", false).unwrap();
    let api = Api::with(off).await;
    let created = api.post(CLAIMS, &claim("a", "1Gi")).await.expect(201);
    assert!(created["metadata"].get("finalizers").is_none(), "{created}");

    let on_again = builder().admission("Priority", false).unwrap().admission("Priority", true).unwrap();
    let created = Api::with(on_again).await.post(PODS, &pod("a", json!({}))).await.expect(201);
    assert_eq!(created["spec"]["priority"], 0);
}

#[tokio::test]
async fn adm_002_service_accounts_are_off_by_default() {
    let api = Api::start().await;
    let created = api.post(PODS, &pod("a", json!({}))).await.expect(201);
    assert!(created["spec"].get("serviceAccountName").is_none(), "{created}");
}

#[tokio::test]
async fn adm_002_the_server_lists_its_plugins() {
    let switched = builder().admission("Priority", false).unwrap().admission("ServiceAccount", true).unwrap();
    let api = Api::with(switched.rbac(true)).await;
    let contract = api.get("/evenkeel/contract").await.expect(200);
    let plugins = contract["admissionPlugins"].as_array().unwrap();
    assert_eq!(plugins[0], json!({"name": "NamespaceLifecycle", "enabled": true}));
    let enabled = |name: &str| plugins.iter().find(|plugin| plugin["name"] == name).unwrap()["enabled"].clone();
    assert_eq!((enabled("Priority"), enabled("ServiceAccount")), (json!(false), json!(true)));
    assert_eq!(
        (enabled("OwnerReferencesPermissionEnforcement"), enabled("ResourceQuota")),
        (json!(false), json!(true))
    );
    assert!(contract["gitVersion"].as_str().unwrap().ends_with("+evenkeel"));
    assert_eq!(api.post("/evenkeel/contract", &json!({})).await.status, 405);
    let refused = api.acting_as("joe", &["system:authenticated"]).get("/evenkeel/contract").await;
    assert_eq!(refused.refusal(403, "Forbidden"), "forbidden: User \"joe\" cannot get path \"/evenkeel/contract\"");
}

#[test]
fn adm_002_the_check_of_namespaces_cannot_be_switched_off() {
    assert!(builder().admission("NamespaceLifecycle", true).is_ok());
    let error = builder().admission("NamespaceLifecycle", false).unwrap_err();
    assert_eq!(error, AdmissionPluginError::AlwaysOn("NamespaceLifecycle"));
    let text = "admission plugin NamespaceLifecycle cannot be switched off: the deletion of namespaces relies on it";
    assert_eq!(error.to_string(), text);
}

#[tokio::test]
async fn adm_003_a_refusal_names_the_resource_and_the_object() {
    let api = Api::start().await;
    let spec = json!({"priorityClassName": "none"});
    let refused = api.post(PODS, &pod("a", spec.clone())).await;
    let why = "is forbidden: no PriorityClass with name none was found";
    assert_eq!(refused.refusal(403, "Forbidden"), format!("pods \"a\" {why}"));
    assert_eq!(refused.body["details"], json!({"name": "a", "kind": "pods"}));

    let mut generated = pod("", spec.clone());
    generated["metadata"] = json!({"generateName": "web-"});
    let refused = api.post(PODS, &generated).await;
    assert_eq!(refused.refusal(403, "Forbidden"), format!("pods \"web-\" {why}"));

    generated["metadata"] = json!({});
    let refused = api.post(PODS, &generated).await;
    assert_eq!(refused.refusal(403, "Forbidden"), format!("pods \"Unknown\" {why}"));
}
