//! StorageObjectInUseProtection, and the controller that removes its finalizers.

use std::time::Duration;

use evenkeel_apiserver::ControllerTiming;
use serde_json::{Value, json};

use super::{builder, claim, namespace, pod, set_status};
use crate::PODS;
use crate::api::Api;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLASSES: &str = "/apis/storage.k8s.io/v1/volumeattributesclasses";

fn volume(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
           "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/tmp/v"}}})
}

fn class(name: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": name},
           "driverName": "example.com", "parameters": {"speed": "high"}})
}

fn user_of(name: &str, claim: &str) -> Value {
    pod(name, json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}))
}

async fn is_deleting(api: &Api, path: &str) -> bool {
    let found = api.get(path).await.expect(200);
    found["metadata"].get("deletionTimestamp").is_some()
}

#[tokio::test]
async fn adm_011_claims_and_volumes_get_finalizers() {
    let api = Api::start().await;
    let created = api.post(CLAIMS, &claim("c", "1Gi")).await.expect(201);
    assert_eq!(created["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    let mut own = claim("own", "1Gi");
    own["metadata"]["finalizers"] = json!(["example.com/own", "kubernetes.io/pvc-protection"]);
    let created = api.post(CLAIMS, &own).await.expect(201);
    assert_eq!(created["metadata"]["finalizers"], own["metadata"]["finalizers"]);
    let created = api.post(VOLUMES, &volume("v")).await.expect(201);
    assert_eq!(created["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
    let created = api.post(CLASSES, &class("fast")).await.expect(201);
    assert_eq!(created["metadata"]["finalizers"], json!(["kubernetes.io/vac-protection"]));
}

#[tokio::test]
async fn adm_011_without_a_controller_a_deleted_claim_stays() {
    let api = Api::with(builder().protection_controller(ControllerTiming::Off)).await;
    api.post(CLAIMS, &claim("c", "1Gi")).await.expect(201);
    let deleted = api.delete(&format!("{CLAIMS}/c")).await.expect(200);
    assert!(deleted["metadata"].get("deletionTimestamp").is_some(), "{deleted}");
    assert!(is_deleting(&api, &format!("{CLAIMS}/c")).await);
}

#[tokio::test]
async fn pvb_006_an_unused_claim_is_removed_within_its_delete() {
    let api = Api::start().await;
    api.post(CLAIMS, &claim("c", "1Gi")).await.expect(201);
    let mut watch = api.watch(CLAIMS).await;
    let deleted = api.delete(&format!("{CLAIMS}/c")).await.expect(200);
    assert!(deleted["metadata"].get("deletionTimestamp").is_some(), "{deleted}");
    api.get(&format!("{CLAIMS}/c")).await.expect(404);
    assert_eq!(watch.types(), "MODIFIED DELETED");
}

#[tokio::test]
async fn pvb_006_a_claim_waits_for_the_pods_that_use_it() {
    let api = Api::start().await;
    let path = format!("{CLAIMS}/c");
    api.post(CLAIMS, &claim("c", "1Gi")).await.expect(201);
    for name in ["one", "two"] {
        api.post(PODS, &user_of(name, "c")).await.expect(201);
    }
    api.post(PODS, &user_of("other", "d")).await.expect(201);
    api.delete(&path).await.expect(200);
    assert!(is_deleting(&api, &path).await);
    api.delete(&format!("{PODS}/one")).await.expect(200);
    assert!(is_deleting(&api, &path).await);
    // A pod that has finished uses nothing any more.
    set_status(&api, &format!("{PODS}/two"), json!({"phase": "Succeeded"})).await;
    api.get(&path).await.expect(404);
}

#[tokio::test]
async fn pvb_006_other_finalizers_still_hold_a_claim() {
    let api = Api::start().await;
    let mut held = claim("c", "1Gi");
    held["metadata"]["finalizers"] = json!(["example.com/own"]);
    api.post(CLAIMS, &held).await.expect(201);
    let path = format!("{CLAIMS}/c");
    api.delete(&path).await.expect(200);
    let found = api.get(&path).await.expect(200);
    assert_eq!(found["metadata"]["finalizers"], json!(["example.com/own"]));
}

#[tokio::test]
async fn pvb_006_a_volume_waits_until_it_is_not_bound() {
    let api = Api::start().await;
    let path = format!("{VOLUMES}/v");
    api.post(VOLUMES, &volume("v")).await.expect(201);
    set_status(&api, &path, json!({"phase": "Bound"})).await;
    api.delete(&path).await.expect(200);
    assert!(is_deleting(&api, &path).await);
    set_status(&api, &path, json!({"phase": "Released"})).await;
    api.get(&path).await.expect(404);
}

#[tokio::test]
async fn pvb_006_a_class_of_attributes_waits_for_its_claims() {
    let api = Api::start().await;
    let path = format!("{CLASSES}/fast");
    api.post(CLASSES, &class("fast")).await.expect(201);
    let mut user = claim("c", "1Gi");
    user["spec"]["volumeAttributesClassName"] = json!("fast");
    api.post(CLAIMS, &user).await.expect(201);
    api.delete(&path).await.expect(200);
    assert!(is_deleting(&api, &path).await);
    api.delete(&format!("{CLAIMS}/c")).await.expect(200);
    api.get(&path).await.expect(404);
}

#[tokio::test]
async fn pvb_006_a_namespace_with_used_claims_is_removed() {
    let api = Api::start().await;
    namespace(&api, "gone", json!({})).await;
    api.post("/api/v1/namespaces/gone/persistentvolumeclaims", &claim("c", "1Gi")).await.expect(201);
    api.post("/api/v1/namespaces/gone/pods", &user_of("p", "c")).await.expect(201);
    api.delete("/api/v1/namespaces/gone").await.expect(200);
    api.get("/api/v1/namespaces/gone").await.expect(404);
}

#[tokio::test]
async fn pvb_006_a_collection_of_claims_is_removed() {
    let api = Api::start().await;
    for index in 0..3 {
        api.post(CLAIMS, &claim(&format!("c{index}"), "1Gi")).await.expect(201);
    }
    api.delete(CLAIMS).await.expect(200);
    assert_eq!(api.get(CLAIMS).await.expect(200)["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn pvb_006_a_delayed_controller_runs_later() {
    let api = Api::with(builder().protection_controller(ControllerTiming::Delayed(Duration::from_secs(30)))).await;
    let path = format!("{CLAIMS}/c");
    api.post(CLAIMS, &claim("c", "1Gi")).await.expect(201);
    api.delete(&path).await.expect(200);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(is_deleting(&api, &path).await);
    tokio::time::sleep(Duration::from_secs(20)).await;
    api.get(&path).await.expect(404);
}
