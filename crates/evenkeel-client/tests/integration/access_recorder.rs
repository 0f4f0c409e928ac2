//! What a recorder notes of a client's requests, against an API server in this process.

use evenkeel_apiserver::{ApiServer, AuditPolicy};
use evenkeel_client::access::{AccessRecorder, RbacRules, read_audit_log};
use evenkeel_client::discovery::RestMapper;
use evenkeel_client::{Client, ListParams, Patch, Path, WatchParams, apply, create_or_update};
use http::Method;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use serde_json::json;

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

fn used(recorder: &AccessRecorder) -> Vec<String> {
    let used = recorder.log().iter().map(ToString::to_string).collect();
    recorder.clear();
    used
}

async fn start() -> (ApiServer, Client, AccessRecorder) {
    let server = ApiServer::builder().audit_policy(AuditPolicy::metadata()).in_process_only().start().await.unwrap();
    let recorder = AccessRecorder::new();
    let client = server.client().with_access_recorder(&recorder);
    (server, client, recorder)
}

#[tokio::test(start_paused = true)]
async fn scf_007_every_verb_of_every_api_is_recorded() {
    let (_server, client, recorder) = start().await;
    let maps = client.api::<ConfigMap>().namespace("default");
    maps.create(&config_map("a")).await.unwrap();
    maps.get("a").await.unwrap();
    assert_eq!(used(&recorder), ["create configmaps in default", "get configmaps in default named a"]);
    maps.list(&ListParams::default()).await.unwrap();
    client.api::<ConfigMap>().list(&ListParams::default()).await.unwrap();
    maps.watch(&WatchParams::default()).await.unwrap();
    assert_eq!(used(&recorder), ["list configmaps", "list configmaps in default", "watch configmaps in default"]);
    maps.patch("a", &Patch::merge(&json!({"data": {"k": "v"}}))).await.unwrap();
    maps.delete("a").await.unwrap();
    maps.delete_collection(&ListParams::default()).await.unwrap();
    assert_eq!(
        used(&recorder),
        [
            "delete configmaps in default named a",
            "deletecollection configmaps in default",
            "patch configmaps in default named a"
        ]
    );
    client.api::<Node>().get("absent").await.unwrap_err();
    assert_eq!(used(&recorder), ["get nodes named absent"], "a refused request was used as well");
    let raw = Path::raw("/apis/apps/v1/namespaces/default/deployments");
    client.request(Method::GET, raw).send().await.unwrap();
    assert_eq!(used(&recorder), ["list deployments.apps in default"]);
    let mapper = RestMapper::new(client.discovery().cached());
    let info = mapper.resolve("deployments").await.unwrap();
    client.dynamic(&info).namespace("default").get("x").await.unwrap_err();
    let noted = used(&recorder);
    assert!(noted.contains(&"get deployments.apps in default named x".to_owned()), "{noted:?}");
    assert!(noted.iter().all(|access| access.starts_with("get /") || access.ends_with("named x")), "{noted:?}");
}

#[tokio::test(start_paused = true)]
async fn scf_007_an_apply_that_creates_needs_create_as_well() {
    let (_server, client, recorder) = start().await;
    let maps = client.api::<ConfigMap>().namespace("default");
    maps.apply("a", "test", &apply!(ConfigMap { data: { "k": "v" } })).await.unwrap();
    assert_eq!(used(&recorder), ["create configmaps in default named a", "patch configmaps in default named a"]);
    maps.apply("a", "test", &apply!(ConfigMap { data: { "k": "w" } })).await.unwrap();
    assert_eq!(used(&recorder), ["patch configmaps in default named a"]);
}

#[tokio::test(start_paused = true)]
async fn scf_007_subresources_and_derived_clients_are_recorded() {
    let (_server, client, recorder) = start().await;
    let deployments = client.with_field_manager("test").api::<Deployment>().namespace("default");
    deployments.status().patch("absent", &Patch::merge(&json!({"status": {}}))).await.unwrap_err();
    assert_eq!(used(&recorder), ["patch deployments.apps/status in default named absent"]);
    let pods = client.api::<Pod>().namespace("default");
    pods.exec("absent", ["true"]).output().await.map(drop).unwrap_err();
    assert_eq!(used(&recorder), ["create pods/exec in default named absent", "get pods/exec in default named absent"]);
}

#[tokio::test(start_paused = true)]
async fn scf_007_the_recorder_and_the_audit_log_of_the_server_agree() {
    let (server, client, recorder) = start().await;
    let maps = client.api::<ConfigMap>().namespace("default");
    let set = |map: &mut ConfigMap| map.data = Some([("k".to_owned(), "v".to_owned())].into());
    create_or_update(&maps, &config_map("a"), set).await.unwrap();
    maps.apply("b", "test", &apply!(ConfigMap { data: { "k": "v" } })).await.unwrap();
    client.api::<Pod>().list(&ListParams::default()).await.unwrap();
    client.api::<Node>().list(&ListParams::default().fields("metadata.name=n")).await.unwrap();
    let lines: Vec<String> = server.audit_events().iter().map(ToString::to_string).collect();
    let users = read_audit_log(lines.join("\n").as_bytes()).unwrap();
    let (user, log) = users.first_key_value().unwrap();
    assert_eq!((users.len(), user.as_str()), (1, "system:admin"));
    assert_eq!(*log, recorder.log());

    let rules = recorder.rules();
    assert_eq!(recorder.check(&rules), Ok(Vec::new()), "the rules are sufficient and minimal");
    assert!(recorder.check(&RbacRules::default()).is_err());
}
