//! The objects of a fresh server.

use std::time::Duration;

use evenkeel_apiserver::{ApiServer, ControllerTiming, Fsync};
use serde_json::{Value, json};

use crate::api::{Api, TestEnv, version};

const NAMESPACES: &str = "/api/v1/namespaces";
const SERVICE: &str = "/api/v1/namespaces/default/services/kubernetes";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const PRIORITY_CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const FLOW_CONTROL: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// All kinds of bootstrap objects.
const COLLECTIONS: &[&str] = &[
    NAMESPACES,
    "/api/v1/serviceaccounts",
    "/api/v1/services",
    "/api/v1/endpoints",
    "/api/v1/configmaps",
    "/apis/discovery.k8s.io/v1/endpointslices",
    "/apis/networking.k8s.io/v1/servicecidrs",
    "/apis/networking.k8s.io/v1/ipaddresses",
    "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
    PRIORITY_CLASSES,
    API_SERVICES,
];

async fn items(api: &Api, path: &str) -> Vec<Value> {
    api.get(path).await.expect(200)["items"].as_array().unwrap().clone()
}

async fn names(api: &Api, path: &str) -> Vec<String> {
    items(api, path).await.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn accounts(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/serviceaccounts")
}

fn definition(version: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
           "metadata": {"name": "widgets.example.com"},
           "spec": {"group": "example.com", "scope": "Cluster", "names": {"kind": "Widget", "plural": "widgets"},
                    "versions": [{"name": version, "served": true, "storage": true,
                                  "schema": {"openAPIV3Schema": {"type": "object"}}}]}})
}

/// Starts a server with a listener on a free port.
async fn listening() -> Api {
    Api::listening(ApiServer::builder().env(TestEnv::new())).await
}

#[tokio::test]
async fn bst_001_the_kubernetes_service_leads_to_the_listener() {
    let api = listening().await;
    let port: u16 = api.server.url().rsplit(':').next().unwrap().parse().unwrap();
    let service = api.get(SERVICE).await.expect(200);
    assert_eq!(service["metadata"]["labels"], json!({"component": "apiserver", "provider": "kubernetes"}));
    assert_eq!(
        service["spec"],
        json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "internalTrafficPolicy": "Cluster",
               "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "type": "ClusterIP",
               "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]})
    );
    assert_eq!(service["status"], json!({"loadBalancer": {}}));
    let https = json!({"name": "https", "port": port, "protocol": "TCP"});
    let endpoints = api.get(ENDPOINTS).await.expect(200);
    assert_eq!(endpoints["subsets"], json!([{"addresses": [{"ip": "127.0.0.1"}], "ports": [https]}]));
    assert_eq!(endpoints["metadata"]["labels"]["endpointslice.kubernetes.io/skip-mirror"], "true");
    let slice = api.get(SLICE).await.expect(200);
    assert_eq!(slice["endpoints"], json!([{"addresses": ["127.0.0.1"], "conditions": {"ready": true}}]));
    assert_eq!((&slice["addressType"], &slice["ports"]), (&json!("IPv4"), &json!([https])));
    assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], "kubernetes");

    let other = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
                       "spec": {"ports": [{"port": 80}]}});
    let other = api.post("/api/v1/namespaces/default/services", &other).await.expect(201);
    assert_eq!(other["spec"]["clusterIP"], "10.0.0.2", "the first address is taken");
}

#[tokio::test]
async fn bst_001_a_server_without_a_listener_has_no_endpoints() {
    let api = Api::start().await;
    assert_eq!(api.get(SERVICE).await.expect(200)["spec"]["ports"][0]["targetPort"], 6443);
    api.get(ENDPOINTS).await.expect(404);
    api.get(SLICE).await.expect(404);
}

#[tokio::test]
async fn bst_002_the_default_service_range_has_its_first_address_taken() {
    let api = Api::start().await;
    let range = api.get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes").await.expect(200);
    assert_eq!(range["spec"]["cidrs"], json!(["10.0.0.0/24"]));
    assert_eq!(
        (&range["status"]["conditions"][0]["type"], &range["status"]["conditions"][0]["status"]),
        (&json!("Ready"), &json!("True"))
    );
    let address = api.get("/apis/networking.k8s.io/v1/ipaddresses/10.0.0.1").await.expect(200);
    assert_eq!(
        address["spec"]["parentRef"],
        json!({"group": "", "resource": "services", "namespace": "default", "name": "kubernetes"})
    );
}

#[tokio::test]
async fn bst_003_every_served_group_version_has_a_local_api_service() {
    let api = Api::start().await;
    let mut expected = vec!["v1.".to_owned()];
    let groups = api.get("/apis").await.expect(200);
    for group in groups["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            let version = version["version"].as_str().unwrap();
            expected.push(format!("{version}.{}", group["name"].as_str().unwrap()));
        }
    }
    expected.retain(|name| name != "v1.apiregistration.k8s.io");
    expected.sort();
    assert_eq!(names(&api, API_SERVICES).await, expected);
    let apps = api.get(&format!("{API_SERVICES}/v1.apps")).await.expect(200);
    assert_eq!(
        apps["spec"],
        json!({"group": "apps", "version": "v1", "groupPriorityMinimum": 17800, "versionPriority": 15})
    );
    assert_eq!(apps["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"], "onstart");
    let available = &apps["status"]["conditions"][0];
    assert_eq!((&available["type"], &available["reason"]), (&json!("Available"), &json!("Local")));
    assert_eq!(available["message"], "Local APIServices are always available");
    assert_eq!(available["lastTransitionTime"], "2030-01-01T00:00:00Z");
}

#[tokio::test]
async fn bst_003_api_services_of_custom_resources_follow_their_definitions() {
    let api = Api::start().await;
    let name = |version: &str| format!("{API_SERVICES}/{version}.example.com");
    api.post(DEFINITIONS, &definition("v1")).await.expect(201);
    let service = api.get(&name("v1")).await.expect(200);
    assert_eq!(
        service["spec"],
        json!({"group": "example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100})
    );
    assert_eq!(service["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"], "true");
    let mut stored = api.get(&format!("{DEFINITIONS}/widgets.example.com")).await.expect(200);
    let mut second = stored["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    stored["spec"]["versions"][0]["served"] = false.into();
    stored["spec"]["versions"][0]["storage"] = false.into();
    stored["spec"]["versions"].as_array_mut().unwrap().push(second);
    api.put(&format!("{DEFINITIONS}/widgets.example.com"), &stored).await.expect(200);
    api.get(&name("v1")).await.expect(404);
    api.get(&name("v2")).await.expect(200);
    api.delete(&format!("{DEFINITIONS}/widgets.example.com")).await.expect(200);
    api.get(&name("v2")).await.expect(404);
    api.get(&format!("{API_SERVICES}/v1.apps")).await.expect(200);
}

#[tokio::test]
async fn apf_003_priority_levels_and_flow_schemas_are_kube_apiservers() {
    let api = Api::start().await;
    let levels = items(&api, &format!("{FLOW_CONTROL}/prioritylevelconfigurations")).await;
    let shares: Vec<(&str, i64)> = levels
        .iter()
        .map(|level| {
            let limited = &level["spec"]["limited"]["nominalConcurrencyShares"];
            (level["metadata"]["name"].as_str().unwrap(), limited.as_i64().unwrap_or(0))
        })
        .collect();
    assert_eq!(
        shares,
        [
            ("catch-all", 5),
            ("exempt", 0),
            ("global-default", 20),
            ("leader-election", 10),
            ("node-high", 40),
            ("system", 30),
            ("workload-high", 40),
            ("workload-low", 100)
        ]
    );
    let mut schemas = items(&api, &format!("{FLOW_CONTROL}/flowschemas")).await;
    schemas.sort_by_key(|schema| schema["spec"]["matchingPrecedence"].as_i64());
    let precedence: Vec<(&str, i64)> = schemas
        .iter()
        .map(|schema| {
            let level = schema["spec"]["priorityLevelConfiguration"]["name"].as_str().unwrap();
            assert!(shares.iter().any(|(name, _)| *name == level), "{schema}");
            (schema["metadata"]["name"].as_str().unwrap(), schema["spec"]["matchingPrecedence"].as_i64().unwrap())
        })
        .collect();
    assert_eq!(
        precedence,
        [
            ("exempt", 1),
            ("probes", 2),
            ("system-leader-election", 100),
            ("system-node-high", 400),
            ("system-nodes", 500),
            ("kube-controller-manager", 800),
            ("kube-scheduler", 800),
            ("kube-system-service-accounts", 900),
            ("service-accounts", 9000),
            ("global-default", 9900),
            ("catch-all", 10000)
        ]
    );
    assert_eq!(schemas[0]["metadata"]["annotations"]["apf.kubernetes.io/autoupdate-spec"], "true");
    assert_eq!(schemas[0]["status"]["conditions"][0]["reason"], "Found");
}

#[tokio::test]
async fn bst_004_the_system_priority_classes_exist() {
    let api = Api::start().await;
    let classes = items(&api, PRIORITY_CLASSES).await;
    let values: Vec<_> = classes.iter().map(|class| (&class["metadata"]["name"], &class["value"])).collect();
    let expected = [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
    assert_eq!(values, expected.map(|(name, value)| (json!(name), json!(value))).each_ref().map(|(n, v)| (n, v)));
    assert!(classes.iter().all(|class| class["preemptionPolicy"] == "PreemptLowerPriority"));
}

#[tokio::test]
async fn bst_005_kube_system_has_the_configuration_of_the_server() {
    let api = Api::listening(ApiServer::builder().env(TestEnv::new()).tls()).await;
    let path = "/api/v1/namespaces/kube-system/configmaps";
    let authentication = api.get(&format!("{path}/extension-apiserver-authentication")).await.expect(200);
    assert_eq!(authentication["data"], json!({"client-ca-file": api.server.ca_pem().unwrap()}));
    let tracking = "kube-apiserver-legacy-service-account-token-tracking";
    let tracking = api.get(&format!("{path}/{tracking}")).await.expect(200);
    assert_eq!(tracking["data"], json!({"since": "2030-01-01"}));
}

#[tokio::test]
async fn bst_006_component_statuses_say_what_is_known() {
    let api = Api::start().await;
    let statuses = items(&api, "/api/v1/componentstatuses").await;
    let statuses: Vec<_> = statuses
        .iter()
        .map(|status| {
            (status["metadata"]["name"].as_str().unwrap(), status["conditions"][0]["status"].as_str().unwrap())
        })
        .collect();
    assert_eq!(statuses, [("controller-manager", "Unknown"), ("etcd-0", "True"), ("scheduler", "Unknown")]);
    let store = api.get("/api/v1/componentstatuses/etcd-0").await.expect(200);
    assert_eq!(store["conditions"], json!([{"type": "Healthy", "status": "True", "message": "ok"}]));
}

#[tokio::test]
async fn bst_007_every_namespace_has_a_default_service_account() {
    let api = Api::start().await;
    for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        assert_eq!(names(&api, &accounts(name)).await, ["default"], "{name}");
    }
    let created = api.post(NAMESPACES, &namespace("team")).await.expect(201);
    let account = api.get(&format!("{}/default", accounts("team"))).await.expect(200);
    assert_eq!(version(&account), version(&created) + 1);
    assert_eq!(account["metadata"].get("managedFields"), None);
    let applied = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "applied"}});
    api.apply(&format!("{NAMESPACES}/applied?fieldManager=m"), &applied).await.expect(201);
    assert_eq!(names(&api, &accounts("applied")).await, ["default"]);
    api.post(&format!("{NAMESPACES}?dryRun=All"), &namespace("dry")).await.expect(201);
    assert_eq!(names(&api, &accounts("dry")).await, [""; 0]);
}

#[tokio::test]
async fn bst_007_a_deleted_default_service_account_comes_back_unless_its_namespace_goes() {
    let api = Api::start().await;
    api.post(NAMESPACES, &namespace("team")).await.expect(201);
    let path = format!("{}/default", accounts("team"));
    let first = api.get(&path).await.expect(200);
    api.delete(&path).await.expect(200);
    let second = api.get(&path).await.expect(200);
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    api.delete(&format!("{NAMESPACES}/team")).await.expect(200);
    api.get(&format!("{NAMESPACES}/team")).await.expect(404);
    api.get(&path).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn bst_007_the_controller_of_service_accounts_may_be_delayed_or_off() {
    let delayed = ControllerTiming::Delayed(Duration::from_secs(5));
    let api = Api::with(ApiServer::builder().env(TestEnv::new()).service_account_controller(delayed)).await;
    api.post(NAMESPACES, &namespace("team")).await.expect(201);
    assert_eq!(names(&api, &accounts("team")).await, [""; 0]);
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(names(&api, &accounts("team")).await, ["default"]);

    let off = ApiServer::builder().env(TestEnv::new()).service_account_controller(ControllerTiming::Off);
    let api = Api::with(off).await;
    api.post(NAMESPACES, &namespace("team")).await.expect(201);
    assert_eq!(names(&api, "/api/v1/serviceaccounts").await, [""; 0]);
}

/// What is committed past validation must pass it: a PUT of what was read changes nothing and is not refused.
#[tokio::test]
async fn bst_008_bootstrap_objects_are_valid_and_complete() {
    let api = listening().await;
    for collection in COLLECTIONS {
        for mut item in items(&api, collection).await {
            let metadata = &item["metadata"];
            let name = metadata["name"].as_str().unwrap();
            let path = match metadata["namespace"].as_str() {
                Some(namespace) => {
                    let (root, plural) = collection.rsplit_once('/').unwrap();
                    format!("{root}/namespaces/{namespace}/{plural}/{name}")
                }
                None => format!("{collection}/{name}"),
            };
            let read = api.get(&path).await.expect(200);
            item = read.clone();
            let written = api.put(&path, &item).await.expect(200);
            assert_eq!(written, read, "{path}");
            assert_eq!(read["metadata"]["creationTimestamp"], "2030-01-01T00:00:00Z", "{path}");
            let managed = read["metadata"]["managedFields"].as_array();
            let account = collection.ends_with("serviceaccounts");
            let managers: Vec<_> = managed.into_iter().flatten().map(|entry| &entry["manager"]).collect();
            let empty = read.get("data").is_none() && collection.ends_with("configmaps");
            assert_eq!(managers, vec![&json!("kube-apiserver"); usize::from(!account && !empty)], "{path}");
        }
    }
}

#[tokio::test]
async fn bst_009_the_history_starts_after_the_bootstrap_objects() {
    let api = Api::start().await;
    let list = api.get(API_SERVICES).await.expect(200);
    let now: u64 = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let newest = list["items"].as_array().unwrap().iter().map(version).max().unwrap();
    assert!(newest < now);
    let exact = |revision: u64| format!("{API_SERVICES}?resourceVersion={revision}&resourceVersionMatch=Exact");
    api.get(&exact(newest)).await.expect(410);
    api.get(&exact(now)).await.expect(200);
    assert_eq!(api.server.stats().events, 0);
}

#[tokio::test]
async fn bst_010_the_same_environment_gives_the_same_objects() {
    let start = || Api::with(ApiServer::builder().env(TestEnv::new()).first_revision(0));
    let (one, two) = (start().await, start().await);
    for collection in COLLECTIONS {
        assert_eq!(one.get(collection).await.text, two.get(collection).await.text, "{collection}");
    }
    let uids: std::collections::HashSet<_> =
        items(&one, API_SERVICES).await.iter().map(|item| item["metadata"]["uid"].to_string()).collect();
    assert_eq!(uids.len(), items(&one, API_SERVICES).await.len());
}

#[tokio::test]
async fn bst_011_a_restart_adds_what_is_missing_and_leaves_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let builder = ApiServer::builder().env(TestEnv::new()).data_dir(folder.path()).fsync(Fsync::Never);
        Api::listening(builder)
    };
    let first = start().await;
    let class = format!("{PRIORITY_CLASSES}/system-node-critical");
    let kept = format!("{PRIORITY_CLASSES}/system-cluster-critical");
    first.delete(&class).await.expect(200);
    first.patch(&kept, &json!({"metadata": {"labels": {"mine": "yes"}}})).await.expect(200);
    first.post(DEFINITIONS, &definition("v1")).await.expect(201);
    let before = first.get(&kept).await.expect(200);
    let service = first.get(SERVICE).await.expect(200);
    let registered = first.get(&format!("{API_SERVICES}/v1.example.com")).await.expect(200);
    first.server.shutdown().await;

    let second = start().await;
    second.get(&class).await.expect(200);
    assert_eq!(second.get(&kept).await.expect(200), before);
    assert_eq!(second.get(SERVICE).await.expect(200), service);
    assert_eq!(second.get(&format!("{API_SERVICES}/v1.example.com")).await.expect(200), registered);
    let port: u16 = second.server.url().rsplit(':').next().unwrap().parse().unwrap();
    assert_eq!(second.get(ENDPOINTS).await.expect(200)["subsets"][0]["ports"][0]["port"], port);
    assert_eq!(second.get(SLICE).await.expect(200)["ports"][0]["port"], port);
}

#[tokio::test]
async fn bst_012_a_server_from_a_snapshot_has_its_content_and_no_more() {
    let api = Api::start().await;
    api.delete(&format!("{PRIORITY_CLASSES}/system-node-critical")).await.expect(200);
    let fork = Api::with(api.server.fork()).await;
    assert_eq!(fork.server.stats().revision, api.server.stats().revision);
    assert_eq!(names(&fork, PRIORITY_CLASSES).await, ["system-cluster-critical"]);
    let empty = Api::with(ApiServer::builder().env(TestEnv::new()).bootstrap(false)).await;
    let fork = Api::with(empty.server.fork()).await;
    fork.get(SERVICE).await.expect(404);
}

#[tokio::test]
async fn bst_013_bootstrap_can_be_switched_off() {
    let api = Api::with(ApiServer::builder().env(TestEnv::new()).bootstrap(false)).await;
    assert_eq!(names(&api, NAMESPACES).await, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    for collection in COLLECTIONS.iter().filter(|collection| **collection != NAMESPACES) {
        assert_eq!(names(&api, collection).await, [""; 0], "{collection}");
    }
    api.post(DEFINITIONS, &definition("v1")).await.expect(201);
    assert_eq!(names(&api, API_SERVICES).await, [""; 0]);
}
