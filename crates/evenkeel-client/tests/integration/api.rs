//! The verbs, on built-in kinds, against an API server in this process.

use std::sync::Arc;

use evenkeel_apiserver::ApiServer;
use evenkeel_client::api::{LogStream, ProxyTarget};
use evenkeel_client::{
    Client, Deleted, Error, FieldValidation, ListParams, Patch, Propagation, Unstructured, WatchParams,
};
use evenkeel_core::{ResourceInfo, WatchEvent};
use http::Method;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::{Binding, ConfigMap, Namespace, Node, Pod};
use serde_json::{Value, json};

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn config_map(name: &str) -> ConfigMap {
    from(json!({"metadata": {"name": name}, "data": {"k": "v"}}))
}

fn pod(name: &str) -> Pod {
    from(json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}))
}

fn deployment(name: &str) -> Deployment {
    from(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}
            }
        }
    }))
}

async fn start() -> (ApiServer, Client) {
    let server = ApiServer::start().await.unwrap();
    let client = server.client();
    (server, client)
}

/// Method and path of the last request that the server received.
fn last(server: &ApiServer) -> String {
    let record = server.requests().pop().unwrap();
    format!("{} {}", record.method, record.path)
}

#[tokio::test(start_paused = true)]
async fn typ_002_each_verb_has_its_method_and_path() {
    let (server, client) = start().await;
    let maps = client.core_v1().config_maps("default");

    maps.create(&config_map("a")).await.unwrap();
    assert_eq!(last(&server), "POST /api/v1/namespaces/default/configmaps");
    let mut map = ConfigMap::clone(&*maps.get("a").await.unwrap().typed().unwrap());
    assert_eq!(last(&server), "GET /api/v1/namespaces/default/configmaps/a");
    map.data.as_mut().unwrap().insert("k".into(), "w".into());
    let updated = maps.update(&map).await.unwrap();
    assert_eq!(last(&server), "PUT /api/v1/namespaces/default/configmaps/a");
    assert_eq!(updated.path("data.k").unwrap().unwrap().text(), "w");
    maps.patch("a", &Patch::merge(&json!({"data": {"l": "x"}}))).await.unwrap();
    assert_eq!(last(&server), "PATCH /api/v1/namespaces/default/configmaps/a");
    let list = maps.list(&ListParams::default()).await.unwrap();
    assert_eq!(last(&server), "GET /api/v1/namespaces/default/configmaps");
    assert_eq!(list.items.iter().map(|map| map.key().name()).collect::<Vec<_>>(), ["a"]);
    let mut watch = maps.watch(&WatchParams::from_version(list.meta.resource_version.as_str())).await.unwrap();
    assert!(matches!(maps.delete("a").await.unwrap(), Deleted::Gone(_)));
    assert_eq!(last(&server), "DELETE /api/v1/namespaces/default/configmaps/a");
    assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Deleted(map))) if map.key().name() == "a"));
    drop(watch);

    maps.create(&config_map("b")).await.unwrap();
    let gone = maps.delete_collection(&ListParams::default().fields("metadata.name=b")).await.unwrap();
    assert_eq!(last(&server), "DELETE /api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Db");
    assert_eq!(gone.iter().map(|map| map.key().name()).collect::<Vec<_>>(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn typ_002_an_update_needs_a_name() {
    let (server, client) = start().await;
    let error = client.core_v1().config_maps("default").update(&ConfigMap::default()).await.unwrap_err();
    assert!(matches!(error, Error::Request(_)), "{error}");
    assert!(server.requests().is_empty(), "nothing is sent");
}

#[tokio::test(start_paused = true)]
async fn typ_001_an_object_is_never_named_without_a_namespace() {
    let (server, client) = start().await;
    let nowhere = client.api::<Pod>().namespace("");
    for error in [
        nowhere.create(&pod("a")).await.unwrap_err(),
        nowhere.get("a").await.unwrap_err(),
        nowhere.status().get("a").await.unwrap_err(),
        nowhere.evict("a").await.unwrap_err(),
        nowhere.logs("a").await.unwrap_err(),
        nowhere.proxy(Method::GET, ProxyTarget { name: "a", ..ProxyTarget::default() }, "/").send().await.unwrap_err(),
    ] {
        assert!(error.to_string().contains("namespace"), "{error}");
    }
    assert!(server.requests().is_empty(), "nothing is sent");
    nowhere.list(&ListParams::default()).await.unwrap();
    assert_eq!(last(&server), "GET /api/v1/pods", "but all namespaces can be listed");
}

#[tokio::test(start_paused = true)]
async fn typ_003_an_error_has_no_object() {
    let (_server, client) = start().await;
    let error = client.core_v1().pods("default").get("missing").await.unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(error.to_string(), "GET /api/v1/namespaces/default/pods/missing: pods \"missing\" not found");
}

#[tokio::test(start_paused = true)]
async fn typ_005_delete_options_are_those_of_v1_for_every_kind() {
    let (server, client) = start().await;
    let deployments = client.apps_v1().deployments("default");
    let created = deployments.create(&deployment("web")).await.unwrap();
    let other = deployments.delete("web").only_uid("another").await.unwrap_err();
    assert!(other.is_conflict(), "{other}");
    let older = deployments.delete("web").only_version("1").await.unwrap_err();
    assert!(older.is_conflict(), "{older}");
    deployments.delete("web").dry_run().await.unwrap();
    deployments.get("web").await.unwrap();
    let delete = deployments.delete("web").only_uid(created.uid()).propagation(Propagation::Background);
    assert!(matches!(delete.await.unwrap(), Deleted::Gone(_)));
    assert!(last(&server).starts_with("DELETE "));
    assert!(deployments.get("web").await.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn typ_006_reviews_can_only_be_created() {
    let (_server, client) = start().await;
    let review: SelfSubjectAccessReview =
        from(json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}}));
    let answer = client.authorization_v1().self_subject_access_reviews().create(&review).await.unwrap();
    assert!(answer.status.unwrap().allowed);
}

#[tokio::test(start_paused = true)]
async fn typ_007_subresources_are_parts_with_types_of_their_own() {
    let (server, client) = start().await;
    let deployments = client.apps_v1().deployments("default");
    deployments.create(&deployment("web")).await.unwrap();

    let scale = deployments.scale().get("web").await.unwrap();
    assert_eq!(last(&server), "GET /apis/apps/v1/namespaces/default/deployments/web/scale");
    let mut scale = (*scale.typed().unwrap()).clone();
    scale.spec.as_mut().unwrap().replicas = Some(5);
    let scaled = deployments.scale().update(&scale).await.unwrap();
    assert_eq!(last(&server), "PUT /apis/apps/v1/namespaces/default/deployments/web/scale");
    assert_eq!(scaled.path("spec.replicas").unwrap().unwrap().as_i64(), Some(5));
    deployments.scale().patch("web", &Patch::merge(&json!({"spec": {"replicas": 6}}))).await.unwrap();

    let mut web = Deployment::clone(&*deployments.get("web").await.unwrap().typed().unwrap());
    assert_eq!(web.spec.replicas, Some(6));
    web.status = Some(from(json!({"replicas": 6, "observedGeneration": 3})));
    web.spec.replicas = Some(1);
    let web = deployments.status().update(&web).await.unwrap();
    assert_eq!(last(&server), "PUT /apis/apps/v1/namespaces/default/deployments/web/status");
    assert_eq!(web.path("status.replicas").unwrap().unwrap().as_i64(), Some(6));
    assert_eq!(web.path("spec.replicas").unwrap().unwrap().as_i64(), Some(6), "the spec is not the status's to change");

    let pods = client.core_v1().pods("default");
    pods.create(&pod("a")).await.unwrap();
    let binding: Binding = from(json!({
        "metadata": {"name": "a", "namespace": "elsewhere"}, "target": {"kind": "Node", "name": "n1"}
    }));
    let mut ours = binding.clone();
    ours.metadata.namespace = None;
    pods.bind(&ours).await.unwrap();
    assert_eq!(last(&server), "POST /api/v1/namespaces/default/pods/a/binding");
    assert_eq!(pods.get("a").await.unwrap().path("spec.nodeName").unwrap().unwrap().text(), "n1");
    let debug: Pod = from(json!({
        "metadata": {"name": "a"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "ephemeralContainers": [{"name": "d", "image": "busybox"}]
        }
    }));
    pods.ephemeral_containers().update(&debug).await.unwrap();
    assert_eq!(last(&server), "PUT /api/v1/namespaces/default/pods/a/ephemeralcontainers");
    pods.evict("a").grace_period(0).await.unwrap();
    assert_eq!(last(&server), "POST /api/v1/namespaces/default/pods/a/eviction");
    assert!(pods.get("a").await.unwrap_err().is_not_found());

    let mut ended = Namespace::clone(&*client.core_v1().namespaces().get("default").await.unwrap().typed().unwrap());
    ended.spec.as_mut().unwrap().finalizers = Some(vec!["kubernetes".into(), "example.com/mine".into()]);
    let kept = client.core_v1().namespaces().finalize().update(&ended).await.unwrap();
    assert_eq!(last(&server), "PUT /api/v1/namespaces/default/finalize");
    assert_eq!(kept.path("spec.finalizers[1]").unwrap().unwrap().text(), "example.com/mine");
}

#[tokio::test(start_paused = true)]
async fn typ_008_a_binding_is_sent_to_the_namespace_of_the_api() {
    let (server, client) = start().await;
    let binding: Binding = from(json!({"metadata": {"name": "a"}, "target": {"name": "n1"}}));
    let error = client.core_v1().pods("other").bind(&binding).await.unwrap_err();
    assert_eq!(last(&server), "POST /api/v1/namespaces/other/pods/a/binding");
    assert!(error.is_not_found());
}

#[tokio::test(start_paused = true)]
async fn typ_009_a_log_request_has_all_options_in_its_query() {
    let (server, client) = start().await;
    let pods = client.core_v1().pods("default");
    pods.create(&pod("a")).await.unwrap();
    let log = pods.logs("a").container("c").tail_lines(3).timestamps().previous().limit_bytes(10);
    drop(log.since(std::time::Duration::from_secs(60)).stream().await);
    assert_eq!(
        last(&server),
        "GET /api/v1/namespaces/default/pods/a/log\
         ?container=c&limitBytes=10&previous=true&sinceSeconds=60&tailLines=3&timestamps=true"
    );
    let time = "2026-01-02T03:04:05Z".parse().unwrap();
    drop(pods.logs("a").since_time(time).follow().only(LogStream::Stdout).await);
    let query = "?follow=true&sinceTime=2026-01-02T03%3A04%3A05Z&stream=Stdout";
    assert_eq!(last(&server), format!("GET /api/v1/namespaces/default/pods/a/log{query}"));
}

#[tokio::test(start_paused = true)]
async fn typ_010_a_proxy_target_names_scheme_and_port() {
    let (server, client) = start().await;
    let services = client.core_v1().services("default");
    for (scheme, port, segment) in [("", "", "web"), ("", "80", "web:80"), ("https", "443", "https:web:443")] {
        let target = ProxyTarget { name: "web", scheme, port };
        drop(services.proxy(Method::GET, target, "/metrics/all").query("x", "y").send().await);
        let expected = format!("GET /api/v1/namespaces/default/services/{segment}/proxy/metrics/all?x=y");
        assert_eq!(last(&server), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn typ_011_an_object_is_not_sent_to_another_namespace_than_its_own() {
    let (server, client) = start().await;
    let mut event: k8s_openapi::api::core::v1::Event = from(json!({
        "metadata": {"name": "e", "namespace": "kube-system"},
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": "kube-system"}
    }));
    let refused = client.core_v1().events("default").create(&event).await.unwrap_err();
    assert!(matches!(refused, Error::Request(_)), "{refused}");
    assert!(server.requests().is_empty(), "nothing is sent");

    let events = client.api::<k8s_openapi::api::core::v1::Event>();
    events.namespace_of(&event).create(&event).await.unwrap();
    assert_eq!(last(&server), "POST /api/v1/namespaces/kube-system/events");
    let about = ListParams::default().fields("involvedObject.name=a,involvedObject.kind=Pod");
    assert_eq!(events.list(&about).await.unwrap().items.len(), 1);
    event.metadata.namespace = None;
    assert_eq!(events.namespace_of(&event).resource().plural(), "events");
}

#[tokio::test(start_paused = true)]
async fn writes_have_dry_run_and_field_validation() {
    let (_server, client) = start().await;
    let maps = client.core_v1().config_maps("default");
    maps.create(&config_map("a")).dry_run().await.unwrap();
    assert!(maps.get("a").await.unwrap_err().is_not_found());
    let created = maps.create(&config_map("a")).field_manager("me").await.unwrap();
    assert_eq!(created.path("metadata.managedFields[0].manager").unwrap().unwrap().text(), "me");
    let odd = Unstructured::from(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "dta": {}
    }));
    let dynamic = client.dynamic(&client.resource::<ConfigMap>()).namespace("default");
    let refused = dynamic.create(&odd).field_validation(FieldValidation::Strict).await.unwrap_err();
    assert!(refused.to_string().contains("dta"), "{refused}");
    dynamic.create(&odd).field_validation(FieldValidation::Ignore).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn reads_can_select_versions() {
    let (server, client) = start().await;
    let maps = client.core_v1().config_maps("default");
    let first = maps.create(&config_map("a")).await.unwrap();
    maps.get("a").not_older_than(first.resource_version()).await.unwrap();
    assert!(last(&server).ends_with(&format!("/a?resourceVersion={}", first.resource_version())));
    maps.create(&config_map("b")).await.unwrap();
    let then = maps.list(&ListParams::default().exactly_at(first.resource_version())).await.unwrap();
    assert_eq!(then.items.len(), 1);
    let page = maps.list(&ListParams::default().limit(1)).await.unwrap();
    let rest = maps.list(&ListParams::default().limit(1).continue_from(page.meta.continue_token)).await.unwrap();
    assert_eq!(rest.items[0].key().name(), "b");
}

#[tokio::test(start_paused = true)]
async fn dyc_001_a_kind_known_at_run_time_has_the_same_paths() {
    let (server, client) = start().await;
    let nodes = Arc::new(ResourceInfo::new("", "v1", "Node", "nodes", false));
    let nodes = client.dynamic(&nodes).namespace("ignored");
    nodes.create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}).into()).await.unwrap();
    assert_eq!(last(&server), "POST /api/v1/nodes");
    let deployments = Arc::new(ResourceInfo::new("apps", "v1", "Deployment", "deployments", true));
    let deployments = client.dynamic(&deployments);
    deployments.list(&ListParams::default()).await.unwrap();
    assert_eq!(last(&server), "GET /apis/apps/v1/deployments");
    drop(deployments.namespace("ns").status().get("web").await);
    assert_eq!(last(&server), "GET /apis/apps/v1/namespaces/ns/deployments/web/status");
}

#[tokio::test(start_paused = true)]
async fn dyc_002_names_are_needed_and_checked_subresources_too() {
    let (server, client) = start().await;
    let pods = client.dynamic(&client.resource::<Pod>()).namespace("default");
    let nameless = Unstructured::from(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}}));
    let errors = [
        pods.get("").await.unwrap_err(),
        pods.update(&nameless).await.unwrap_err(),
        pods.status().update(&nameless).await.unwrap_err(),
        pods.delete("").await.unwrap_err(),
        pods.patch("", &Patch::merge(&json!({}))).await.unwrap_err(),
        pods.apply("", "me", &nameless).await.unwrap_err(),
        pods.get("../nodes").await.unwrap_err(),
        pods.subresource::<Unstructured>("../status").get("a").await.unwrap_err(),
        client.dynamic(&client.resource::<Pod>()).namespace("a/b").get("a").await.unwrap_err(),
        client.dynamic(&client.resource::<Pod>()).get("a").await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::Request(_)), "{error}");
    }
    assert!(server.requests().is_empty(), "nothing is sent");
}

#[tokio::test(start_paused = true)]
async fn dyc_004_items_of_a_list_have_their_kind() {
    let (_server, client) = start().await;
    client.core_v1().config_maps("default").create(&config_map("a")).await.unwrap();
    let list = client.dynamic(&client.resource::<ConfigMap>()).list(&ListParams::default()).await.unwrap();
    let (kind, api_version) = (list.items[0].kind(), list.items[0].api_version());
    assert_eq!((kind, api_version), ("ConfigMap", "v1"));
    let whole: Value = serde_json::from_slice(&list.items[0].json().unwrap()).unwrap();
    assert_eq!(whole["kind"], "ConfigMap");
}

#[tokio::test(start_paused = true)]
async fn dyc_005_managed_fields_cannot_be_applied() {
    let (server, client) = start().await;
    let maps = client.core_v1().config_maps("default");
    let map: ConfigMap = from(json!({
        "metadata": {"name": "a", "managedFields": [{"manager": "x", "operation": "Apply"}]}
    }));
    let error = maps.apply("a", "me", &map).await.unwrap_err();
    assert!(error.to_string().contains("managedFields"), "{error}");
    assert!(server.requests().is_empty(), "nothing is sent");
    drop(maps.apply("a", "me", &config_map("a")).force().await);
    assert_eq!(last(&server), "PATCH /api/v1/namespaces/default/configmaps/a?fieldManager=me&force=true");
}

#[tokio::test(start_paused = true)]
async fn dyc_006_events_of_a_dynamic_watch_are_json() {
    let (_server, client) = start().await;
    let maps = client.dynamic(&client.resource::<ConfigMap>()).namespace("default");
    let mut watch = maps.watch(&WatchParams::default().without_bookmarks()).await.unwrap();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    maps.create(&map.into()).await.unwrap();
    let Some(Ok(WatchEvent::Added(seen))) = watch.next().await else { panic!("no event") };
    assert_eq!(seen.typed().unwrap().get("data.k"), Some(&json!("v")));
}

#[tokio::test(start_paused = true)]
async fn mdc_001_only_the_metadata_is_received_if_requested() {
    let (_server, client) = start().await;
    client.core_v1().config_maps("default").create(&config_map("a")).await.unwrap();
    let metadata = client.core_v1().config_maps("default").metadata();
    let one = metadata.get("a").await.unwrap();
    assert_eq!((one.kind(), one.api_version()), ("PartialObjectMetadata", "meta.k8s.io/v1"));
    assert!(one.path("data").unwrap().is_none());
    assert_eq!(one.typed().unwrap().metadata.name.as_deref(), Some("a"));
    let list = metadata.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.meta.kind, "PartialObjectMetadataList");
    assert!(list.items[0].path("data").unwrap().is_none());
    let mut watch = metadata.watch(&WatchParams::default()).await.unwrap();
    let Some(Ok(WatchEvent::Added(seen))) = watch.next().await else { panic!("no event") };
    assert!(seen.path("data").unwrap().is_none());
    let labelled = metadata.patch("a", &Patch::merge(&json!({"metadata": {"labels": {"x": "y"}}}))).await.unwrap();
    assert_eq!(labelled.label("x"), Some("y"));
    assert!(labelled.path("data").unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn mdc_003_metadata_apis_can_delete() {
    let (server, client) = start().await;
    client.core_v1().config_maps("default").create(&config_map("a")).await.unwrap();
    let metadata = client.api::<ConfigMap>().namespace("default").metadata();
    metadata.delete("a").await.unwrap();
    assert_eq!(last(&server), "DELETE /api/v1/namespaces/default/configmaps/a");
    assert!(metadata.get("../x").await.is_err(), "and names are checked");
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_kinds_need_no_namespace() {
    let (_server, client) = start().await;
    let nodes = client.api::<Node>();
    nodes.create(&from(json!({"metadata": {"name": "n1"}}))).await.unwrap();
    assert_eq!(nodes.get("n1").await.unwrap().key().as_str(), "n1");
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let node = nodes.status().patch("n1", &Patch::merge(&ready)).await.unwrap();
    assert_eq!(node.path("status.conditions[0].type").unwrap().unwrap().text(), "Ready");
}

#[tokio::test(start_paused = true)]
async fn the_default_namespace_is_that_of_the_configuration() {
    let (server, client) = start().await;
    client.api::<Pod>().default_namespace().list(&ListParams::default()).await.unwrap();
    assert_eq!(last(&server), "GET /api/v1/namespaces/default/pods");
}
