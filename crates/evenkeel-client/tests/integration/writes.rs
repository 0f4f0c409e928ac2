//! Patches from two states of an object, defaults of writes, and create-or-patch.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};

use evenkeel_apiserver::ApiServer;
use evenkeel_client::managed_fields::{Extractor, ManagedFieldsError, apply_conflicts, upgrade_from_client_side_apply};
use evenkeel_client::{
    Client, CreateOrPatch, CreateOrUpdate, FieldValidation, ListParams, Object, Partial, Patch, Patched, Unstructured,
    WatchParams, apply, create_or_patch, create_or_patch_from, create_or_update, retry_on_conflict,
};
use evenkeel_core::json::JsonPaths;
use evenkeel_core::shard::{ShardField, ShardRange, ShardSelector};
use evenkeel_core::{Obj, ResourceInfo};
use http::Method;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::requests::Notebook;

fn map_json() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}})
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"k": "v"}})).unwrap()
}

/// A Deployment with one container.
fn deployment(name: &str) -> Deployment {
    let labels = json!({"app": name});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": template});
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

fn query(url: &str) -> &str {
    url.split_once('?').map_or("", |(_, query)| query)
}

/// A ConfigMap as an old program knows it.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct OldMap {
    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    data: std::collections::BTreeMap<String, String>,
}

impl Object for OldMap {
    fn name(&self) -> Option<Cow<'_, str>> {
        self.metadata.name.as_deref().map(Cow::Borrowed)
    }

    fn namespace(&self) -> Option<Cow<'_, str>> {
        self.metadata.namespace.as_deref().map(Cow::Borrowed)
    }

    fn has_managed_fields(&self) -> bool {
        false
    }
}

async fn start() -> (ApiServer, Client) {
    let server = ApiServer::start().await.unwrap();
    let client = server.client();
    (server, client)
}

fn patches(server: &ApiServer) -> usize {
    server.requests().iter().filter(|request| request.method == Method::PATCH).count()
}

#[tokio::test(start_paused = true)]
async fn ohc_020_and_wrh_002_equal_objects_send_nothing_and_a_stale_read_is_a_conflict() {
    let (server, client) = start().await;
    let deployments = client.apps_v1().deployments("default");
    let before = deployments.create(&deployment("web")).await.unwrap();
    let same = Patch::merge_from(&before, &*before.typed().unwrap()).unwrap();
    assert!(same.is_empty() && same.patch().is_none());
    let unchanged = deployments.patch_changes(&same).await.unwrap();
    assert!(matches!(&unchanged, Patched::Unchanged(object) if object.resource_version() == before.resource_version()));
    assert_eq!(patches(&server), 0, "WRH-002: no request");

    let mut after = Deployment::clone(&*before.typed().unwrap());
    after.spec.replicas = Some(3);
    after.metadata.resource_version = Some("1".into());
    let scaled = deployments.patch_changes(&Patch::merge_from(&before, &after).unwrap()).await.unwrap();
    assert!(scaled.is_changed(), "WRH-003: the version is that of the read");

    // The read is stale now.
    after.spec.replicas = Some(4);
    after.metadata.labels = Some([("tier".to_owned(), "web".to_owned())].into());
    let stale = Patch::merge_from(&before, &after).unwrap();
    assert!(deployments.patch_changes(&stale).await.unwrap_err().is_conflict());
    let merged = deployments.patch_changes(&stale.unlocked()).field_manager("me").await.unwrap();
    assert_eq!(merged.object().path("spec.replicas").unwrap().unwrap().as_i64(), Some(4));
    assert_eq!(merged.object().label("tier"), Some("web"));

    let strategic = Patch::strategic_from(merged.object(), &*merged.object().typed().unwrap()).unwrap();
    assert!(strategic.is_empty());
    let mut after = Deployment::clone(&*merged.object().typed().unwrap());
    let template = after.spec.template.spec.as_mut().unwrap();
    template.containers.insert(0, serde_json::from_value(json!({"name": "side", "image": "side:1"})).unwrap());
    template.containers[1].image = Some("web:2".into());
    let patched = deployments.patch_changes(&Patch::strategic_from(merged.object(), &after).unwrap()).await.unwrap();
    let spec = patched.object().typed().unwrap().spec.clone().template.spec.unwrap();
    let images: Vec<_> = spec.containers.iter().map(|container| container.image.as_deref().unwrap()).collect();
    assert_eq!(images, ["side:1", "web:2"]);

    let mut after = Deployment::clone(&*patched.object().typed().unwrap());
    after.metadata.labels = None;
    after.spec.replicas = Some(9);
    let done = deployments.patch_changes(&Patch::json_from(patched.object(), &after).unwrap()).await.unwrap();
    assert_eq!((done.object().typed().unwrap().spec.replicas, done.object().label("tier")), (Some(9), None));
    after.metadata.labels = patched.object().typed().unwrap().metadata.labels.clone();
    let stale = Patch::json_from(patched.object(), &after).unwrap();
    assert!(deployments.patch_changes(&stale).await.unwrap_err().is_conflict());
}

#[tokio::test(start_paused = true)]
async fn ohc_020_a_field_that_the_type_lacks_is_in_no_patch() {
    let (_server, client) = start().await;
    let maps = client.core_v1().config_maps("default");
    let mut map = config_map("a");
    map.immutable = Some(false);
    let read = maps.create(&map).await.unwrap();
    let old: Obj<OldMap> = read.cast();
    let mut after = OldMap::clone(&*old.typed().unwrap());
    after.data.insert("k".into(), "w".into());
    let service = Notebook::new(200, map_json());
    let api = evenkeel_client::Api::<OldMap, _>::of(&service.client(), old.resource()).namespace("default");
    api.patch_changes(&Patch::merge_from(&old, &after).unwrap()).await.unwrap();
    let note = service.last();
    let version = old.resource_version();
    assert_eq!(note.body, json!({"data": {"k": "w"}, "metadata": {"resourceVersion": version}}));
    assert_eq!(note.method, Method::PATCH);

    let other = api.namespace("other").patch_changes(&Patch::merge_from(&old, &after).unwrap()).await.unwrap_err();
    assert!(other.to_string().contains("namespace \"default\""), "{other}");
    assert_eq!(service.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn wrh_003_a_lock_needs_a_resource_version() {
    let service = Notebook::new(200, map_json());
    let maps = service.client().core_v1().config_maps("default");
    let read: Obj<ConfigMap> = Obj::from_json(maps.resource(), map_json().to_string()).unwrap();
    let changes = || Patch::merge_from(&read, &config_map("a")).unwrap();
    let error = maps.patch_changes(&changes()).await.unwrap_err().to_string();
    assert!(error.contains("no resource version") && error.contains("unlocked"), "{error}");
    assert_eq!(service.count(), 0);
    maps.patch_changes(&changes().unlocked()).await.unwrap();
    assert_eq!(service.last().body, json!({"data": {"k": "v"}, "metadata": {"namespace": null}}));
}

#[test]
fn wrh_005_a_strategic_patch_of_a_custom_kind_is_an_error() {
    let info = std::sync::Arc::new(ResourceInfo::new("example.com", "v1", "Foo", "foos", true));
    let foo = json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a", "resourceVersion": "1"}});
    let read: Obj<Unstructured> = Obj::from_json(&info, foo.to_string()).unwrap();
    let error = Patch::strategic_from(&read, &Unstructured(foo)).unwrap_err().to_string();
    assert!(error.contains("Foo of example.com/v1") && error.contains("merge_from"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn wrh_006_create_or_update_keeps_fields_that_the_type_lacks() {
    let (_server, client) = start().await;
    let maps = client.core_v1().config_maps("default");
    let mut map = config_map("a");
    map.immutable = Some(false);
    let read = maps.create(&map).await.unwrap();
    let old: Obj<OldMap> = read.cast();
    let api = evenkeel_client::Api::<OldMap, _>::of(&client, old.resource()).namespace("default");
    let initial = OldMap::clone(&*old.typed().unwrap());
    let done = create_or_update(&api, &initial, |map| drop(map.data.insert("k".into(), "w".into()))).await.unwrap();
    assert!(matches!(done, CreateOrUpdate::Updated(_)));
    let now = maps.get("a").await.unwrap().typed().unwrap();
    assert_eq!((now.immutable, now.data.as_ref().unwrap()["k"].as_str()), (Some(false), "w"));
    let same = create_or_update(&maps, &config_map("a"), |map| map.immutable = Some(false)).await.unwrap();
    assert!(matches!(same, CreateOrUpdate::Unchanged(_)));
    let error = create_or_update(&maps, &config_map("a"), |map| map.metadata.namespace = Some("b".into())).await;
    assert!(error.unwrap_err().to_string().contains("renamed"));
}

#[tokio::test(start_paused = true)]
async fn wrh_007_create_or_patch_tells_what_it_wrote() {
    let (_server, client) = start().await;
    let deployments = client.apps_v1().deployments("default");
    let set = |replicas: i32, available: i32| {
        move |web: &mut Deployment| {
            web.spec.replicas = Some(replicas);
            web.status.get_or_insert_default().available_replicas = Some(available);
            web.status.get_or_insert_default().replicas = Some(available);
        }
    };
    let web = deployment("web");
    let created = create_or_patch(&deployments, &web, set(1, 1)).await.unwrap();
    assert!(matches!(created, CreateOrPatch::Created(_)));
    assert_eq!(created.object().path("status.replicas").unwrap().unwrap().as_i64(), Some(1));
    let done = create_or_patch(&deployments, &web, set(1, 1)).await.unwrap();
    assert!(matches!(done, CreateOrPatch::Unchanged(_)), "{done:?}");
    let done = create_or_patch(&deployments, &web, set(2, 1)).await.unwrap();
    assert!(matches!(done, CreateOrPatch::Updated(_)), "{done:?}");
    let done = create_or_patch(&deployments, &web, set(2, 2)).await.unwrap();
    assert!(matches!(done, CreateOrPatch::UpdatedStatusOnly(_)), "{done:?}");
    let done = create_or_patch(&deployments, &web, set(3, 3)).await.unwrap();
    assert!(matches!(done, CreateOrPatch::UpdatedStatus(_)), "{done:?}");
    let web = done.object().typed().unwrap();
    assert_eq!(web.spec.replicas, web.status.as_ref().unwrap().replicas);
}

#[tokio::test(start_paused = true)]
async fn wrh_008_a_cache_that_lags_costs_one_read() {
    let (server, client) = start().await;
    let maps = client.core_v1().config_maps("default");
    let stale = maps.create(&config_map("a")).await.unwrap();
    let calls = AtomicU32::new(0);
    let set = |value: &'static str| {
        let calls = &calls;
        move |map: &mut ConfigMap| {
            calls.fetch_add(1, Ordering::Relaxed);
            map.data.get_or_insert_default().insert("k".into(), value.into());
        }
    };
    let reads = || server.requests().iter().filter(|request| request.method == Method::GET).count();
    // The cache does not have the object yet.
    let done = create_or_patch_from(&maps, None, &config_map("a"), set("1")).await.unwrap();
    assert!(matches!(done, CreateOrPatch::Updated(_)));
    assert_eq!((reads(), calls.load(Ordering::Relaxed)), (1, 2));
    // The cache has an older version.
    let done = create_or_patch_from(&maps, Some(stale), &config_map("a"), set("2")).await.unwrap();
    assert_eq!(reads(), 2);
    // The cache is right: no read at all.
    let done = create_or_patch_from(&maps, Some(done.object().clone()), &config_map("a"), set("3")).await.unwrap();
    assert!(matches!(done, CreateOrPatch::Updated(_)));
    assert_eq!(reads(), 2);
    create_or_patch_from(&maps, None, &config_map("b"), set("1")).await.unwrap();
    assert_eq!(reads(), 2);
}

#[tokio::test(start_paused = true)]
async fn wrh_009_a_field_manager_of_the_client_is_in_all_writes_but_deletes() {
    let service = Notebook::new(200, map_json());
    let client = service.client().with_field_manager("me");
    let maps = client.core_v1().config_maps("default");
    let merge = Patch::merge(&json!({}));
    maps.create(&config_map("a")).await.unwrap();
    assert_eq!(query(&service.last().url), "fieldManager=me");
    maps.update(&config_map("a")).await.unwrap();
    assert_eq!(query(&service.last().url), "fieldManager=me");
    maps.patch("a", &merge).await.unwrap();
    assert_eq!(query(&service.last().url), "fieldManager=me");
    maps.status().patch("a", &merge).await.unwrap();
    assert_eq!(query(&service.last().url), "fieldManager=me");
    maps.patch("a", &merge).field_manager("you").await.unwrap();
    assert_eq!(query(&service.last().url), "fieldManager=you", "the call's own value wins");
    maps.apply("a", "", &config_map("a")).await.unwrap();
    assert_eq!(query(&service.last().url), "fieldManager=me");
    maps.apply("a", "you", &config_map("a")).await.unwrap();
    assert_eq!(query(&service.last().url), "fieldManager=you");
    maps.enforce("a", &config_map("a")).await.unwrap();
    assert_eq!(query(&service.last().url), "fieldManager=me&force=true");
    maps.status().enforce("a", &config_map("a")).await.unwrap();
    assert!(service.last().url.ends_with("/configmaps/a/status?fieldManager=me&force=true"));
    maps.get("a").await.unwrap();
    assert_eq!(query(&service.last().url), "");
    maps.delete("a").await.unwrap();
    assert_eq!(query(&service.last().url), "");
    // The client it was made from has none, and those made from it have it too.
    service.client().core_v1().config_maps("default").patch("a", &merge).await.unwrap();
    assert_eq!(query(&service.last().url), "");
    client
        .with_write_observer(|_: &evenkeel_client::ObservedWrite<'_>| {})
        .core_v1()
        .config_maps("default")
        .patch("a", &merge)
        .await
        .unwrap();
    assert_eq!(query(&service.last().url), "fieldManager=me");
    let error = service.client().core_v1().config_maps("default").apply("a", "", &config_map("a")).await.unwrap_err();
    assert!(error.to_string().contains("with_field_manager"), "{error}");
    let error = service.client().core_v1().config_maps("default").enforce("a", &config_map("a")).await.unwrap_err();
    assert!(error.to_string().contains("with_field_manager"), "{error}");
    // The namespace of an object is that of its children.
    let map = maps.get("a").await.unwrap();
    client.api::<ConfigMap>().beside(&map).get("b").await.unwrap();
    assert!(service.last().url.contains("/namespaces/default/configmaps/b"));
}

#[tokio::test(start_paused = true)]
async fn wrh_010_field_validation_of_the_client_is_in_all_writes_but_applies() {
    let service = Notebook::new(200, map_json());
    let maps = service.client().with_field_validation(FieldValidation::Strict).core_v1().config_maps("default");
    maps.create(&config_map("a")).await.unwrap();
    assert_eq!(query(&service.last().url), "fieldValidation=Strict");
    maps.update(&config_map("a")).field_validation(FieldValidation::Warn).await.unwrap();
    assert_eq!(query(&service.last().url), "fieldValidation=Warn");
    maps.apply("a", "me", &config_map("a")).await.unwrap();
    assert_eq!(query(&service.last().url), "fieldManager=me");
    maps.delete("a").await.unwrap();
    assert_eq!(query(&service.last().url), "");
}

#[tokio::test(start_paused = true)]
async fn wrh_010_no_call_of_a_dry_run_client_is_stored() {
    let (_server, client) = start().await;
    let maps = client.core_v1().config_maps("default");
    maps.create(&config_map("a")).await.unwrap();
    let dry = client.dry_run();
    assert!(dry.is_dry_run() && !client.is_dry_run());
    let tried = dry.core_v1().config_maps("default");
    tried.create(&config_map("b")).await.unwrap();
    tried
        .patch("a", &Patch::merge(&json!({"data": {"k": "w"}})))
        .with(|request| request.query("dryRun", ""))
        .await
        .unwrap();
    tried.apply("a", "me", &json_map("x")).force().await.unwrap();
    tried.delete("a").grace_period(0).await.unwrap();
    tried.delete_collection(&ListParams::default()).await.unwrap();
    let raw = || evenkeel_client::Path::resource(maps.resource()).namespace("default").name("a");
    dry.request(Method::DELETE, raw()).send().await.unwrap();
    let error = dry.request(Method::DELETE, raw()).json(&json!({})).send().await.unwrap_err();
    assert!(error.to_string().contains("dry-run client"), "{error}");
    let list = maps.list(&ListParams::default().labels("!k8s")).await.unwrap();
    let names: Vec<_> = list.iter().map(|map| map.key().name()).filter(|name| name.len() == 1).collect();
    assert_eq!(names, ["a"]);
    assert_eq!(maps.get("a").await.unwrap().path("data.k").unwrap().unwrap().text(), "v");
}

fn json_map(value: &str) -> Unstructured {
    let mut map = map_json();
    map["data"] = json!({"k": value});
    Unstructured(map)
}

#[tokio::test(start_paused = true)]
async fn wrh_011_a_namespace_of_the_api_refuses_objects_of_another() {
    let service = Notebook::new(200, map_json());
    let maps = service.client().core_v1().config_maps("default");
    let mut map = config_map("a");
    map.metadata.namespace = Some("other".into());
    let error = maps.create(&map).await.unwrap_err().to_string();
    assert!(error.contains("\"other\"") && error.contains("\"default\""), "{error}");
    assert_eq!(service.count(), 0);
    maps.create(&config_map("a")).await.unwrap();
    assert!(service.last().url.starts_with("/api/v1/namespaces/default/configmaps"));
}

#[tokio::test(start_paused = true)]
async fn other_options_of_lists_and_watches_are_query_parameters() {
    let answer =
        json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "1"}, "items": []});
    let service = Notebook::new(200, answer);
    let maps = service.client().core_v1().config_maps("default");
    maps.list(&ListParams::default().labels("a=b").query("newOption", "range")).await.unwrap();
    assert_eq!(query(&service.last().url), "labelSelector=a%3Db&newOption=range");
    drop(maps.watch(&WatchParams::from_version("1").query("newOption", "range")).await);
    let url = service.last().url;
    assert!(url.contains("newOption=range") && url.contains("watch=true"), "{url}");

    for option in ["labelSelector", "limit", "watch", "resourceVersion", "sendInitialEvents", "shardSelector"] {
        let error = maps.list(&ListParams::default().query(option, "1")).await.unwrap_err().to_string();
        assert!(error.contains(option) && error.contains("field of its own"), "{error}");
    }
    let error = maps.delete_collection(&ListParams::default().query("newOption", "range")).await.unwrap_err();
    assert!(error.to_string().contains("newOption"), "a server that ignores it would delete everything: {error}");
    assert_eq!(service.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn shd_026_and_shd_037_lists_and_watches_have_a_shard_selector_and_deletions_never_have() {
    let answer = json!({"apiVersion": "v1", "kind": "ConfigMapList", "items": [],
                        "metadata": {"resourceVersion": "1", "shardInfo": {"selector": "a selector"}}});
    let service = Notebook::new(200, answer);
    let maps = service.client().core_v1().config_maps("default");
    let half = ShardSelector::new(ShardField::Uid, ShardRange::new(0, 1 << 63).unwrap());
    let list = maps.list(&ListParams::default().shards(half.clone())).await.unwrap();
    assert_eq!(list.meta.shard_selector.as_deref(), Some("a selector"));
    let rendered =
        "shardSelector=shardRange%28object.metadata.uid%2C+%270x0000000000000000%27%2C+%270x8000000000000000%27%29";
    assert_eq!(query(&service.last().url).replace("%20", "+"), rendered);
    drop(maps.watch(&WatchParams::from_version("1").shards(half.clone())).await);
    let url = service.last().url.replace("%20", "+");
    assert!(url.contains(rendered) && url.contains("watch=true"), "{url}");
    let everything = ShardSelector::new(ShardField::Uid, ShardRange::FULL);
    maps.list(&ListParams::default().shards(everything)).await.unwrap();
    assert_eq!(query(&service.last().url), "");
    let error = maps.delete_collection(&ListParams::default().shards(half)).await.unwrap_err().to_string();
    assert!(error.contains("shard selector") && error.contains("would delete more"), "{error}");
    assert_eq!(service.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn acf_006_the_fields_can_be_applied_again() {
    let (_server, client) = start().await;
    let deployments = client.apps_v1().deployments("default");
    let web = web(3);
    let copy = web.clone();
    let first = deployments.apply("web", "me", &web).await.unwrap();
    assert_eq!(web, copy);
    let second = deployments.apply("web", "me", &web).await.unwrap();
    assert_eq!(first.resource_version(), second.resource_version());
    assert_eq!(second.typed().unwrap().spec.replicas, Some(3));
}

/// The fields of a Deployment that a program has an opinion on.
fn web(replicas: i32) -> Partial<Deployment> {
    apply!(Deployment {
        metadata: { name: "web", labels: { "tier": "front" } },
        spec: {
            replicas: replicas,
            strategy: {},
            selector: { match_labels: { "app": "web" } },
            template: {
                metadata: { labels: { "app": "web" } },
                spec: { containers: [{ name: "web", image: "web:1", ports: [{ container_port: 80 }] }] },
            },
        },
    })
}

#[tokio::test(start_paused = true)]
async fn acf_007_a_conflict_names_manager_and_field() {
    let (_server, client) = start().await;
    let deployments = client.apps_v1().deployments("default");
    deployments.apply("web", "me", &web(3)).await.unwrap();
    let four = apply!(Deployment { metadata: { name: "web" }, spec: { replicas: 4 } });
    let error = deployments.apply("web", "you", &four).await.unwrap_err();
    let conflicts = apply_conflicts(&error);
    assert_eq!(conflicts.len(), 1, "{error}");
    assert_eq!((conflicts[0].manager.as_str(), conflicts[0].field.as_str()), ("me", ".spec.replicas"));
    deployments.apply("web", "you", &four).force().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn ohc_021_extract_then_apply_changes_nothing() {
    let (server, client) = start().await;
    let deployments = client.apps_v1().deployments("default");
    deployments.apply("web", "me", &web(3)).await.unwrap();
    let scaled = deployments.patch("web", &Patch::merge(&json!({"spec": {"paused": true}}))).field_manager("you");
    let live = scaled.await.unwrap();
    let ours = Partial::extract(&live, "me").unwrap();
    assert_eq!(*ours.as_json(), *web(3).with(apply!(Deployment { metadata: { namespace: "default" } })).as_json());
    let same = deployments.apply("web", "me", &ours).await.unwrap();
    assert_eq!(same.resource_version(), live.resource_version());
    let more = ours.with(apply!(Deployment { spec: { replicas: 5 } }));
    let changed = deployments.apply("web", "me", &more).await.unwrap();
    assert_eq!(changed.typed().unwrap().spec.replicas, Some(5));

    // Through a cache that drops managed fields.
    let writes = patches(&server);
    let dropped = live.without(&JsonPaths::new(["metadata.managedFields"]).unwrap()).unwrap();
    let error = Partial::extract(&dropped, "me").unwrap_err();
    assert!(matches!(error, ManagedFieldsError::Missing { .. }), "{error}");
    assert_eq!(patches(&server), writes);
}

#[tokio::test(start_paused = true)]
async fn acf_004_the_schema_of_a_custom_kind_is_read_again_after_a_minute() {
    let (server, client) = start().await;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "parts": {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
        "items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "value": {"type": "string"}, "other": {"type": "string"}}}},
    }}}});
    let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]);
    let names = json!({"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"});
    let spec = json!({"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions});
    let definition = serde_json::from_value(json!({"metadata": {"name": "foos.example.com"}, "spec": spec})).unwrap();
    client.apiextensions_v1().custom_resource_definitions().create(&definition).await.unwrap();

    let info = std::sync::Arc::new(ResourceInfo::new("example.com", "v1", "Foo", "foos", true));
    let foos = client.dynamic(&info).namespace("default");
    let fields = json!({
        "apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a", "namespace": "default"},
        "spec": {"parts": {}, "whole": {"k": "v"}, "items": [{"name": "x", "value": "1"}]},
    });
    foos.apply("a", "me", &Unstructured(fields.clone())).await.unwrap();
    let others = json!({"spec": {"items": [{"name": "w"}, {"name": "x", "value": "1", "other": "2"}]}});
    let live = foos.patch("a", &Patch::merge(&others)).field_manager("you").await.unwrap();

    let extractor = Extractor::new(&client);
    let ours = extractor.extract(&live, "me", "").await.unwrap();
    assert_eq!(*ours.as_json(), fields);
    let same = foos.apply("a", "me", &ours).await.unwrap();
    assert_eq!(same.resource_version(), live.resource_version());

    let documents =
        || server.requests().iter().filter(|request| request.path.contains("/openapi/v3/apis/example.com")).count();
    assert_eq!(documents(), 1);
    extractor.extract(&live, "me", "").await.unwrap();
    assert_eq!(documents(), 1);
    tokio::time::advance(std::time::Duration::from_secs(61)).await;
    extractor.extract(&live, "me", "").await.unwrap();
    assert_eq!(documents(), 2);
}

#[tokio::test(start_paused = true)]
async fn ohc_022_after_an_upgrade_an_apply_without_a_field_removes_it() {
    let (_server, client) = start().await;
    let maps = client.core_v1().config_maps("default");
    let data = |data: Value| {
        Unstructured(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}))
    };
    let map = serde_json::from_value(data(json!({"k": "v", "old": "x"})).0).unwrap();
    let read = maps.create(&map).field_manager("me-v1").await.unwrap();
    // An update that races with the upgrade.
    maps.patch("a", &Patch::merge(&json!({"data": {"other": "y"}}))).field_manager("you").await.unwrap();
    let patch = upgrade_from_client_side_apply(&read, &["me-v1"], "me", "").unwrap().unwrap();
    assert!(maps.patch("a", &patch).await.unwrap_err().is_conflict());
    let attempts = AtomicU32::new(0);
    retry_on_conflict(async || {
        let read = if attempts.fetch_add(1, Ordering::Relaxed) == 0 { read.clone() } else { maps.get("a").await? };
        if let Some(patch) = upgrade_from_client_side_apply(&read, &["me-v1"], "me", "")? {
            maps.patch("a", &patch).await?;
        }
        Ok::<_, evenkeel_client::Error>(())
    })
    .await
    .unwrap();
    assert_eq!(attempts.load(Ordering::Relaxed), 2);
    let done = maps.get("a").await.unwrap();
    assert!(upgrade_from_client_side_apply(&done, &["me-v1"], "me", "").unwrap().is_none());

    let applied = maps.apply("a", "me", &data(json!({"k": "v"}))).await.unwrap();
    assert_eq!(applied.path("data").unwrap().unwrap().json(), r#"{"k":"v","other":"y"}"#);
}
