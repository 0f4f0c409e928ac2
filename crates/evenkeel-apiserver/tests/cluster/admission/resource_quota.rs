//! ResourceQuota, and the controller that publishes its usage.

use std::time::Duration;

use evenkeel_apiserver::ControllerTiming;
use serde_json::{Value, json};

use super::{builder, claim, config_map, container, pod, set_status};
use crate::PODS;
use crate::api::{Api, version};

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

fn quota(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec})
}

/// Starts a server with a quota named `q`.
async fn with_quota(spec: Value) -> Api {
    let api = Api::start().await;
    let created = api.post(QUOTAS, &quota("q", spec)).await;
    assert!(created.warnings().is_empty(), "{:?}", created.warnings());
    created.expect(201);
    api
}

async fn used(api: &Api, name: &str) -> Value {
    api.get(&format!("{QUOTAS}/{name}")).await.expect(200)["status"]["used"].clone()
}

fn using(name: &str, requests: Value, limits: Value) -> Value {
    pod(name, json!({"containers": [container("a", json!({"requests": requests, "limits": limits}))]}))
}

#[tokio::test]
async fn adm_013_what_exceeds_a_quota_is_refused() {
    let api = with_quota(json!({"hard": {"pods": "1", "requests.cpu": "1", "requests.memory": "1Gi"}})).await;
    let small = json!({"cpu": "600m", "memory": "512Mi"});
    api.post(PODS, &using("a", small.clone(), json!({}))).await.expect(201);
    let refused = api.post(PODS, &using("b", json!({"cpu": "600m", "memory": "256Mi"}), json!({}))).await;
    let why = "exceeded quota: q, requested: pods=1,requests.cpu=600m, used: pods=1,requests.cpu=600m, limited: \
               pods=1,requests.cpu=1";
    assert_eq!(refused.refusal(403, "Forbidden"), format!("pods \"b\" is forbidden: {why}"));
    // Other namespaces have no quota.
    api.post("/api/v1/namespaces/kube-system/pods", &using("b", small, json!({}))).await.expect(201);
}

#[tokio::test]
async fn adm_013_every_quota_of_a_namespace_must_have_room() {
    let api = with_quota(json!({"hard": {"configmaps": "5"}})).await;
    api.post(QUOTAS, &quota("r", json!({"hard": {"count/configmaps": "1"}}))).await.expect(201);
    let present = api.get(CONFIG_MAPS).await.expect(200)["items"].as_array().unwrap().len();
    let hard = json!({"spec": {"hard": {"count/configmaps": (present + 1).to_string()}}});
    api.patch(&format!("{QUOTAS}/r"), &hard).await.expect(200);
    api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let refused = api.post(CONFIG_MAPS, &config_map("b")).await;
    let count = present + 1;
    let why = format!(
        "exceeded quota: r, requested: count/configmaps=1, used: count/configmaps={count}, limited: count/configmaps={count}"
    );
    assert_eq!(refused.refusal(403, "Forbidden"), format!("configmaps \"b\" is forbidden: {why}"));
    // What one quota refuses is not charged to the other.
    assert_eq!(used(&api, "q").await["configmaps"], count.to_string());
}

#[tokio::test]
async fn adm_014_a_quota_on_compute_requires_it_of_each_container() {
    let api = with_quota(json!({"hard": {"limits.cpu": "10", "requests.memory": "10Gi"}})).await;
    let spec = json!({"containers": [container("b", json!({})), container("a", json!({}))],
                      "initContainers": [container("i", json!({"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}}))]});
    let refused = api.post(PODS, &pod("p", spec)).await;
    let why = "failed quota: q: must specify limits.cpu for: a,b; requests.memory for: a,b";
    assert_eq!(refused.refusal(403, "Forbidden"), format!("pods \"p\" is forbidden: {why}"));
    // What the pod sets as a whole is enough.
    let resources = json!({"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}});
    api.post(PODS, &pod("p", json!({"resources": resources}))).await.expect(201);
    assert_eq!(used(&api, "q").await, json!({"limits.cpu": "1", "requests.memory": "1Gi"}));
}

#[tokio::test]
async fn adm_015_a_quota_without_a_status_refuses() {
    let api = Api::with(builder().quota_controller(ControllerTiming::Off)).await;
    let created = api.post(QUOTAS, &quota("q", json!({"hard": {"secrets": "1", "pods": "2"}}))).await.expect(201);
    assert_eq!(created["status"], json!({}));
    // Nothing is enforced before a controller has copied the limits.
    api.post(PODS, &pod("early", json!({}))).await.expect(201);
    set_status(&api, &format!("{QUOTAS}/q"), json!({"hard": {"secrets": "1", "pods": "2"}})).await;
    let refused = api.post(PODS, &pod("p", json!({}))).await;
    let text = "pods \"p\" is forbidden: status unknown for quota: q, resources: pods";
    assert_eq!(refused.refusal(403, "Forbidden"), text);
    set_status(&api, &format!("{QUOTAS}/q"), json!({"used": {"pods": "0"}})).await;
    for name in ["p", "q"] {
        api.post(PODS, &pod(name, json!({}))).await.expect(201);
    }
    let refused = api.post(PODS, &pod("r", json!({}))).await;
    let text = "pods \"r\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2";
    assert_eq!(refused.refusal(403, "Forbidden"), text);
    // Without a controller a deletion frees nothing.
    api.delete(&format!("{PODS}/p")).await.expect(200);
    assert_eq!(used(&api, "q").await, json!({"pods": "2"}));
}

#[tokio::test]
async fn adm_016_names_of_services_and_claims() {
    let hard = json!({"services": "9", "services.nodeports": "3", "services.loadbalancers": "1", "count/services": "9",
                      "persistentvolumeclaims": "2", "requests.storage": "5Gi",
                      "gold.storageclass.storage.k8s.io/requests.storage": "2Gi",
                      "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "5"});
    let api = with_quota(json!({"hard": hard})).await;
    let service = |name: &str, kind: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
               "spec": {"type": kind, "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}})
    };
    let present = api.get(SERVICES).await.expect(200)["items"].as_array().unwrap().len();
    api.post(SERVICES, &service("plain", "ClusterIP")).await.expect(201);
    api.post(SERVICES, &service("lb", "LoadBalancer")).await.expect(201);
    let refused = api.post(SERVICES, &service("np", "NodePort")).await;
    let why =
        "exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=2, limited: services.nodeports=3";
    assert_eq!(refused.refusal(403, "Forbidden"), format!("services \"np\" is forbidden: {why}"));
    // An update that changes the type is charged for the difference.
    let refused = api.patch(&format!("{SERVICES}/plain"), &json!({"spec": {"type": "NodePort"}})).await;
    assert!(refused.refusal(403, "Forbidden").contains("requested: services.nodeports=2"), "{}", refused.text);

    let mut gold = claim("gold", "1536Mi");
    gold["spec"]["storageClassName"] = json!("gold");
    api.post(CLAIMS, &gold).await.expect(201);
    gold["metadata"]["name"] = json!("more");
    let refused = api.post(CLAIMS, &gold).await;
    let name = "gold.storageclass.storage.k8s.io/requests.storage";
    let why = format!("exceeded quota: q, requested: {name}=1536Mi, used: {name}=1536Mi, limited: {name}=2Gi");
    assert_eq!(refused.refusal(403, "Forbidden"), format!("persistentvolumeclaims \"more\" is forbidden: {why}"));
    api.post(CLAIMS, &claim("plain", "1Gi")).await.expect(201);
    let count = (present + 2).to_string();
    let expected = json!({"services": count, "count/services": count, "services.nodeports": "2",
                          "services.loadbalancers": "1", "persistentvolumeclaims": "2", "requests.storage": "2560Mi",
                          "gold.storageclass.storage.k8s.io/requests.storage": "1536Mi",
                          "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1"});
    assert_eq!(used(&api, "q").await, expected);
}

#[tokio::test]
async fn adm_016_objects_of_every_resource_are_counted() {
    let api =
        with_quota(json!({"hard": {"count/deployments.apps": "1", "count/widgets.example.com": "1", "secrets": "1",
                                         "count/resourcequotas": "2", "resourcequotas": "2"}}))
        .await;
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                 "versions": [{"name": "v1", "served": true, "storage": true,
                               "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.expect(201);
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}});
    api.post(widgets, &widget("a")).await.expect(201);
    let refused = api.post(widgets, &widget("b")).await;
    let name = "count/widgets.example.com";
    let why = format!("exceeded quota: q, requested: {name}=1, used: {name}=1, limited: {name}=1");
    assert_eq!(refused.refusal(403, "Forbidden"), format!("widgets.example.com \"b\" is forbidden: {why}"));
    api.apply(&format!("{widgets}/c?fieldManager=m"), &widget("c")).await.expect(403);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    api.post("/api/v1/namespaces/default/secrets", &secret).await.expect(201);
    api.post(QUOTAS, &quota("second", json!({"hard": {}}))).await.expect(201);
    let refused = api.post(QUOTAS, &quota("third", json!({"hard": {}}))).await;
    assert!(refused.refusal(403, "Forbidden").contains("requested: count/resourcequotas=1,resourcequotas=1"));
    let expected = json!({"count/deployments.apps": "0", "count/widgets.example.com": "1", "secrets": "1",
                          "count/resourcequotas": "2", "resourcequotas": "2"});
    assert_eq!(used(&api, "q").await, expected);
}

#[tokio::test]
async fn adm_016_finished_pods_are_counted_by_count_pods_only() {
    let api = with_quota(json!({"hard": {"pods": "1", "count/pods": "2", "requests.cpu": "1"}})).await;
    api.post(PODS, &using("a", json!({"cpu": "1"}), json!({}))).await.expect(201);
    set_status(&api, &format!("{PODS}/a"), json!({"phase": "Succeeded"})).await;
    assert_eq!(used(&api, "q").await, json!({"pods": "0", "count/pods": "1", "requests.cpu": "0"}));
    api.post(PODS, &using("b", json!({"cpu": "1"}), json!({}))).await.expect(201);
    assert_eq!(used(&api, "q").await, json!({"pods": "1", "count/pods": "2", "requests.cpu": "1"}));
}

#[tokio::test]
async fn adm_016_scopes_choose_the_pods_that_are_counted() {
    let api = Api::start().await;
    let hard = json!({"pods": "9"});
    let class = |operator: &str, values: Value| json!({"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": values}]});
    let system = json!(["system-node-critical"]);
    let quotas = [
        ("terminating", json!({"hard": hard, "scopes": ["Terminating"]})),
        ("besteffort", json!({"hard": hard, "scopes": ["BestEffort", "NotTerminating"]})),
        ("notbesteffort", json!({"hard": hard, "scopes": ["NotBestEffort"]})),
        ("class", json!({"hard": hard, "scopeSelector": class("In", system.clone())})),
        ("noclass", json!({"hard": hard, "scopeSelector": class("NotIn", system)})),
        ("affinity", json!({"hard": hard, "scopes": ["CrossNamespacePodAffinity"]})),
    ];
    for (name, spec) in quotas {
        api.post(QUOTAS, &quota(name, spec)).await.expect(201);
    }
    let term = json!({"topologyKey": "zone", "namespaces": ["other"], "labelSelector": {}});
    let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    api.post(PODS, &pod("plain", json!({}))).await.expect(201);
    api.post(PODS, &pod("ending", json!({"activeDeadlineSeconds": 60}))).await.expect(201);
    api.post(PODS, &using("cpu", json!({"cpu": "1"}), json!({}))).await.expect(201);
    api.post(PODS, &pod("system", json!({"priorityClassName": "system-node-critical"}))).await.expect(201);
    api.post(PODS, &pod("near", json!({"affinity": affinity}))).await.expect(201);
    let expected = [
        ("terminating", "1"),
        ("besteffort", "3"),
        ("notbesteffort", "1"),
        ("class", "1"),
        ("noclass", "4"),
        ("affinity", "1"),
    ];
    for (name, pods) in expected {
        assert_eq!(used(&api, name).await, json!({"pods": pods}), "{name}");
    }
    // A deadline moves a pod from one scope to another.
    api.patch(&format!("{PODS}/plain"), &json!({"spec": {"activeDeadlineSeconds": 5}})).await.expect(200);
    assert_eq!(used(&api, "terminating").await, json!({"pods": "2"}));
    assert_eq!(used(&api, "besteffort").await, json!({"pods": "2"}));
}

#[tokio::test]
async fn adm_017_the_charge_precedes_the_object() {
    let api = with_quota(json!({"hard": {"pods": "2"}})).await;
    let mut watch = api.watch(QUOTAS).await;
    let created = api.post(PODS, &pod("a", json!({}))).await.expect(201);
    let events = watch.events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["object"]["status"]["used"], json!({"pods": "1"}));
    assert_eq!(version(&events[0]["object"]) + 1, version(&created));
}

#[tokio::test]
async fn adm_017_a_dry_run_is_checked_and_charges_nothing() {
    let api = with_quota(json!({"hard": {"pods": "1"}})).await;
    let mut watch = api.watch(QUOTAS).await;
    api.post(&format!("{PODS}?dryRun=All"), &pod("a", json!({}))).await.expect(201);
    assert_eq!(watch.types(), "");
    api.post(PODS, &pod("a", json!({}))).await.expect(201);
    let refused = api.post(&format!("{PODS}?dryRun=All"), &pod("b", json!({}))).await;
    assert!(refused.refusal(403, "Forbidden").contains("exceeded quota: q"), "{}", refused.text);
}

#[tokio::test]
async fn adm_017_a_create_that_fails_after_its_charge_is_taken_off_again() {
    let api = with_quota(json!({"hard": {"pods": "3"}})).await;
    api.post(PODS, &pod("a", json!({}))).await.expect(201);
    let refused = api.post(PODS, &pod("a", json!({}))).await;
    refused.refusal(409, "AlreadyExists");
    assert_eq!(used(&api, "q").await, json!({"pods": "1"}));
}

#[tokio::test]
async fn adm_017_a_resize_is_charged_for_the_difference() {
    let api = with_quota(json!({"hard": {"requests.cpu": "2"}})).await;
    api.post(PODS, &using("a", json!({"cpu": "1"}), json!({}))).await.expect(201);
    let resized = |cpu: &str| json!({"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": cpu}}}]}});
    let path = format!("{PODS}/a/resize");
    let refused = api.strategic(&path, &resized("2500m")).await;
    let why = "exceeded quota: q, requested: requests.cpu=1500m, used: requests.cpu=1, limited: requests.cpu=2";
    assert_eq!(refused.refusal(403, "Forbidden"), format!("pods \"a\" is forbidden: {why}"));
    api.strategic(&path, &resized("1500m")).await.expect(200);
    assert_eq!(used(&api, "q").await, json!({"requests.cpu": "1500m"}));
    api.strategic(&path, &resized("500m")).await.expect(200);
    assert_eq!(used(&api, "q").await, json!({"requests.cpu": "500m"}));
}

#[tokio::test]
async fn rqs_001_the_status_is_computed_within_the_write_of_a_quota() {
    let api = Api::start().await;
    for name in ["a", "b"] {
        api.post(PODS, &pod(name, json!({}))).await.expect(201);
    }
    api.post(QUOTAS, &quota("q", json!({"hard": {"pods": "5", "requests.cpu": "1"}}))).await.expect(201);
    let found = api.get(&format!("{QUOTAS}/q")).await.expect(200);
    let expected = json!({"hard": {"pods": "5", "requests.cpu": "1"}, "used": {"pods": "2", "requests.cpu": "0"}});
    assert_eq!(found["status"], expected);
    let changed = json!({"spec": {"hard": {"pods": "1", "requests.cpu": null, "configmaps": "7"}}});
    api.patch(&format!("{QUOTAS}/q"), &changed).await.expect(200);
    let found = api.get(&format!("{QUOTAS}/q")).await.expect(200);
    assert_eq!(found["status"]["hard"], json!({"configmaps": "7", "pods": "1"}));
    assert_eq!(found["status"]["used"]["pods"], "2");
    // A status that another program writes is corrected.
    set_status(&api, &format!("{QUOTAS}/q"), json!({"used": {"pods": "0"}})).await;
    assert_eq!(used(&api, "q").await["pods"], "2");
}

#[tokio::test]
async fn rqs_001_objects_that_go_are_taken_off_within_their_delete() {
    let api = with_quota(json!({"hard": {"pods": "3", "count/pods": "9"}})).await;
    for name in ["a", "b", "c"] {
        api.post(PODS, &pod(name, json!({}))).await.expect(201);
    }
    api.delete(&format!("{PODS}/a")).await.expect(200);
    assert_eq!(used(&api, "q").await, json!({"pods": "2", "count/pods": "2"}));
    set_status(&api, &format!("{PODS}/b"), json!({"phase": "Failed"})).await;
    assert_eq!(used(&api, "q").await, json!({"pods": "1", "count/pods": "2"}));
    api.delete(PODS).await.expect(200);
    assert_eq!(used(&api, "q").await, json!({"pods": "0", "count/pods": "0"}));
}

#[tokio::test]
async fn rqs_001_collected_garbage_is_taken_off_within_the_delete_of_its_owner() {
    let api = with_quota(json!({"hard": {"pods": "3", "persistentvolumeclaims": "3"}})).await;
    let owner = api.post(CONFIG_MAPS, &config_map("owner")).await.expect(201);
    let reference =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}]);
    let mut owned = pod("a", json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}));
    owned["metadata"]["ownerReferences"] = reference.clone();
    api.post(PODS, &owned).await.expect(201);
    let mut owned = claim("c", "1Gi");
    owned["metadata"]["ownerReferences"] = reference;
    api.post(CLAIMS, &owned).await.expect(201);
    api.delete(&format!("{CONFIG_MAPS}/owner")).await.expect(200);
    api.get(&format!("{CLAIMS}/c")).await.expect(404);
    assert_eq!(used(&api, "q").await, json!({"pods": "0", "persistentvolumeclaims": "0"}));
}

#[tokio::test]
async fn rqs_001_a_snapshot_continues_with_its_own_usage() {
    let api = with_quota(json!({"hard": {"pods": "3"}})).await;
    api.post(PODS, &pod("a", json!({}))).await.expect(201);
    let snapshot = api.server.snapshot();
    api.post(PODS, &pod("b", json!({}))).await.expect(201);
    api.server.restore(&snapshot);
    api.post(PODS, &pod("c", json!({}))).await.expect(201);
    assert_eq!(used(&api, "q").await, json!({"pods": "2"}));
}

#[tokio::test(start_paused = true)]
async fn rqs_001_a_delayed_controller_publishes_later() {
    let api = Api::with(builder().quota_controller(ControllerTiming::Delayed(Duration::from_secs(30)))).await;
    api.post(QUOTAS, &quota("q", json!({"hard": {"pods": "5"}}))).await.expect(201);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(used(&api, "q").await, json!(null));
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(used(&api, "q").await, json!({"pods": "0"}));
}
