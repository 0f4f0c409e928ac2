//! Every operation of a client, against a server without faults.

use std::sync::Arc;

use evenkeel_apiserver::ApiServer;
use evenkeel_client::discovery::RestMapper;
use evenkeel_client::wait::conditions::{condition_true, is_deleted};
use evenkeel_client::watch::Selection;
use evenkeel_client::{
    Client, CreateOrUpdate, Deleted, ListParams, Pager, Patch, RetryWatcher, Unstructured, WatchEnd, WatchParams,
    WatchStream, create_or_update, wait_for,
};
use evenkeel_core::{Obj, ResourceInfo, WatchEvent};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Binding, ConfigMap, Node};
use kube_core::GroupVersion;
use serde_json::{Value, json};

use crate::support::{config_map, from, pod};

pub(crate) async fn everything(server: &ApiServer, client: &Client) {
    objects(client).await;
    dry_runs(client).await;
    pages(client).await;
    watches(server, client).await;
    parts(client).await;
    tokens(client).await;
    logs(server, client).await;
    custom_objects(server, client).await;
    metadata(client).await;
    discovery(client).await;
    reviews(client).await;
    helpers(server, client).await;
}

fn names<K>(items: &[Obj<K>]) -> Vec<&str> {
    items.iter().map(|item| item.key().name()).collect()
}

async fn objects(client: &Client) {
    let maps = client.core_v1().config_maps("default");
    let created = maps.create(&config_map("a")).await.unwrap();
    assert!(!created.uid().is_empty());
    assert!(maps.create(&config_map("a")).await.unwrap_err().is_already_exists());
    let mut map = ConfigMap::clone(&*maps.get("a").await.unwrap().typed().unwrap());
    map.data.as_mut().unwrap().insert("k".into(), "w".into());
    let updated = maps.update(&map).await.unwrap();
    assert_eq!(updated.path("data.k").unwrap().unwrap().text(), "w");
    assert!(maps.update(&map).await.unwrap_err().is_conflict(), "it was of the version before");

    let merged = maps.patch("a", &Patch::merge(&json!({"data": {"l": "x"}}))).await.unwrap();
    assert_eq!(merged.path("data.l").unwrap().unwrap().text(), "x");
    let replace = json!([{"op": "test", "path": "/data/l", "value": "x"}, {"op": "remove", "path": "/data/l"}]);
    let patched = maps.patch("a", &Patch::json(&replace)).await.unwrap();
    assert!(patched.path("data.l").unwrap().is_none());
    assert!(maps.patch("a", &Patch::json(&replace)).await.unwrap_err().is_invalid(), "there is no l any more");

    let strategic = maps.patch("a", &Patch::strategic(&json!({"data": {"m": "y"}}))).await.unwrap();
    assert_eq!(strategic.path("data.m").unwrap().unwrap().text(), "y");
    let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "applied"}});
    let wanted = Unstructured::from(wanted);
    assert!(maps.apply("a", "me", &wanted).await.unwrap_err().is_conflict(), "k is owned by another manager");
    let applied = maps.apply("a", "me", &wanted).force().await.unwrap();
    assert_eq!(applied.path("data.k").unwrap().unwrap().text(), "applied");
    assert_eq!(applied.path("data.m").unwrap().unwrap().text(), "y");

    // As large as an object may be: more than one frame and one window, in both directions.
    let mut large = config_map("large");
    large.data.as_mut().unwrap().insert("k".into(), "x".repeat(900_000));
    maps.create(&large).await.unwrap();
    assert_eq!(maps.get("large").await.unwrap().path("data.k").unwrap().unwrap().text().len(), 900_000);

    assert_eq!(names(&maps.list(&ListParams::default()).await.unwrap().items), ["a", "large"]);
    assert!(matches!(maps.delete("a").await.unwrap(), Deleted::Gone(_)));
    let error = maps.get("a").await.unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(error.to_string(), "GET /api/v1/namespaces/default/configmaps/a: configmaps \"a\" not found");
    let gone = maps.delete_collection(&ListParams::default().fields("metadata.name=large")).await.unwrap();
    assert_eq!(names(&gone), ["large"]);
    assert!(maps.list(&ListParams::default()).await.unwrap().is_empty());
}

async fn dry_runs(client: &Client) {
    let maps = client.core_v1().config_maps("default");
    let dry = maps.create(&config_map("a")).dry_run().field_manager("me").await.unwrap();
    assert_eq!(dry.path("metadata.managedFields[0].manager").unwrap().unwrap().text(), "me");
    assert!(maps.get("a").await.unwrap_err().is_not_found());
}

async fn pages(client: &Client) {
    let maps = client.core_v1().config_maps("default");
    let all: Vec<String> = (0..21).map(|n| format!("page-{n:02}")).collect();
    for name in &all {
        maps.create(&config_map(name)).await.unwrap();
    }
    let listing = Pager::new(maps.clone(), ListParams::default()).page_size(10).list().await.unwrap();
    assert!(listing.paginated);
    assert_eq!(names(&listing.list.items), all);
    let mut items = Pager::new(maps.clone(), ListParams::default()).page_size(4).prefetch(2).stream();
    for name in &all {
        assert_eq!(items.next().await.unwrap().unwrap().key().name(), name);
    }
    assert!(items.next().await.is_none());
    assert_eq!(maps.delete_collection(&ListParams::default()).await.unwrap().len(), 21);
}

/// Returns the next event; skips bookmarks except the one that ends the initial events.
async fn next<K>(watch: &mut WatchStream<K>) -> WatchEvent<K> {
    loop {
        match watch.next().await.unwrap().unwrap() {
            WatchEvent::Bookmark { initial_events_end: false, .. } => {}
            event => return event,
        }
    }
}

async fn watches(server: &ApiServer, client: &Client) {
    let maps = client.core_v1().config_maps("default");
    maps.create(&config_map("a")).await.unwrap();
    let mut watch = maps.watch(&WatchParams::default().initial_events()).await.unwrap();
    assert!(matches!(next(&mut watch).await, WatchEvent::Added(map) if map.key().name() == "a"));
    let WatchEvent::Bookmark { resource_version, initial_events_end: true } = next(&mut watch).await else {
        panic!("no end of the beginning")
    };
    let mut later = maps.watch(&WatchParams::from_version(resource_version.as_str())).await.unwrap();
    maps.patch("a", &Patch::merge(&json!({"data": {"k": "w"}}))).await.unwrap();
    maps.delete("a").await.unwrap();
    for watch in [&mut watch, &mut later] {
        assert!(
            matches!(next(watch).await, WatchEvent::Modified(map) if map.path("data.k").unwrap().unwrap().text() == "w")
        );
        assert!(matches!(next(watch).await, WatchEvent::Deleted(map) if map.key().name() == "a"));
    }
    later.stop();
    assert!(later.next().await.is_none());

    let ending = server.faults().drop_watch_after(1);
    maps.create(&config_map("b")).await.unwrap();
    assert!(matches!(next(&mut watch).await, WatchEvent::Added(map) if map.key().name() == "b"));
    assert!(watch.next().await.is_none());
    assert!(matches!(watch.end(), Some(WatchEnd::Closed)), "{:?}", watch.end());
    server.faults().remove(ending);
    maps.delete("b").await.unwrap();
}

async fn parts(client: &Client) {
    let deployments = client.api::<Deployment>().namespace("default");
    let web = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}
            }
        }
    });
    deployments.create(&from(web)).await.unwrap();
    let mut scale = (*deployments.scale().get("web").await.unwrap().typed().unwrap()).clone();
    scale.spec.as_mut().unwrap().replicas = Some(5);
    let scaled = deployments.scale().update(&scale).await.unwrap();
    assert_eq!(scaled.path("spec.replicas").unwrap().unwrap().as_i64(), Some(5));
    deployments.scale().patch("web", &Patch::merge(&json!({"spec": {"replicas": 6}}))).await.unwrap();
    let status = json!({"status": {"replicas": 6}, "spec": {"replicas": 1}});
    let web = deployments.status().patch("web", &Patch::merge(&status)).await.unwrap();
    assert_eq!(web.path("status.replicas").unwrap().unwrap().as_i64(), Some(6));
    assert_eq!(web.path("spec.replicas").unwrap().unwrap().as_i64(), Some(6), "the spec is not the status's to change");

    let pods = client.core_v1().pods("default");
    pods.create(&pod("bound")).await.unwrap();
    let binding: Binding = from(json!({"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "n1"}}));
    pods.bind(&binding).await.unwrap();
    assert_eq!(pods.get("bound").await.unwrap().path("spec.nodeName").unwrap().unwrap().text(), "n1");
    pods.evict("bound").grace_period(0).await.unwrap();
    assert!(pods.get("bound").await.unwrap_err().is_not_found());

    let nodes = client.api::<Node>();
    nodes.create(&from(json!({"metadata": {"name": "n1"}}))).await.unwrap();
    assert_eq!(nodes.get("n1").await.unwrap().key().as_str(), "n1");
}

async fn tokens(client: &Client) {
    let accounts = client.core_v1().service_accounts("default");
    accounts.create(&from(json!({"metadata": {"name": "robot"}}))).await.unwrap();
    let asked = from(json!({"spec": {"audiences": ["me"], "expirationSeconds": 600}}));
    let answer = accounts.create_token("robot", &asked).await.unwrap();
    assert!(answer.status.unwrap().token.unwrap().len() > 20);
}

async fn logs(server: &ApiServer, client: &Client) {
    let pods = client.core_v1().pods("default");
    pods.create(&pod("logging")).await.unwrap();
    let log = server.logs().container("default", "logging", "c");
    log.write("one\ntwo\n");
    assert_eq!(pods.logs("logging").await.unwrap(), "one\ntwo\n");
    let mut follow = pods.logs("logging").tail_lines(1).follow().stream().await.unwrap().lines(1 << 10);
    assert_eq!(follow.next().await.unwrap().unwrap(), "two");
    log.write("three\n");
    assert_eq!(follow.next().await.unwrap().unwrap(), "three");
    log.write("no newline");
    log.end();
    assert_eq!(follow.next().await.unwrap().unwrap(), "no newline");
    assert!(follow.next().await.is_none());
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.sample.example.com"},
        "spec": {
            "group": "sample.example.com", "scope": "Namespaced",
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "shortNames": ["fo"]},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true
                }},
            }],
        },
    })
}

async fn custom_objects(server: &ApiServer, client: &Client) {
    server.install_crds([definition()]).await.unwrap();
    let info = Arc::new(ResourceInfo::new("sample.example.com", "v1alpha1", "Foo", "foos", true));
    let foos = client.dynamic(&info).namespace("default");
    let mut watch = foos.watch(&WatchParams::default().without_bookmarks()).await.unwrap();
    let first = json!({
        "apiVersion": "sample.example.com/v1alpha1", "kind": "Foo",
        "metadata": {"name": "f"}, "spec": {"replicas": 1}
    });
    foos.create(&first.into()).await.unwrap();
    let WatchEvent::Added(seen) = next(&mut watch).await else { panic!("no event") };
    assert_eq!(seen.typed().unwrap().get("spec.replicas"), Some(&json!(1)));
    let mut changed = Unstructured::clone(&*foos.get("f").await.unwrap().typed().unwrap());
    changed.set("spec.replicas", json!(2)).unwrap();
    assert_eq!(foos.update(&changed).await.unwrap().path("spec.replicas").unwrap().unwrap().as_i64(), Some(2));
    let done = foos.status().patch("f", &Patch::merge(&json!({"status": {"done": true}}))).await.unwrap();
    assert_eq!(done.path("status.done").unwrap().unwrap().text(), "true");
    assert_eq!(names(&foos.list(&ListParams::default()).await.unwrap().items), ["f"]);
}

async fn metadata(client: &Client) {
    let maps = client.core_v1().config_maps("default");
    maps.create(&config_map("m")).await.unwrap();
    let metadata = maps.metadata();
    let one = metadata.get("m").await.unwrap();
    assert_eq!((one.kind(), one.path("data").unwrap().is_none()), ("PartialObjectMetadata", true));
    let list = metadata.list(&ListParams::default()).await.unwrap();
    assert_eq!((list.meta.kind.as_str(), list.len()), ("PartialObjectMetadataList", 1));
    let mut watch = metadata.watch(&WatchParams::default()).await.unwrap();
    assert!(matches!(next(&mut watch).await, WatchEvent::Added(seen) if seen.path("data").unwrap().is_none()));
    metadata.delete("m").await.unwrap();
}

async fn discovery(client: &Client) {
    let discovery = client.discovery();
    let aggregated = discovery.groups_and_resources().await.unwrap().complete().unwrap();
    let legacy = discovery.clone().legacy().groups_and_resources().await.unwrap().complete().unwrap();
    assert_eq!(aggregated.groups, legacy.groups);
    let count = |of: &evenkeel_client::discovery::Discovered| -> Vec<usize> {
        of.resources.iter().map(|list| list.resources.len()).collect()
    };
    assert_eq!(count(&aggregated), count(&legacy));
    let mapper = RestMapper::new(discovery.cached());
    for (argument, plural) in [("po", "pods"), ("deploy", "deployments"), ("fo", "foos"), ("cj", "cronjobs")] {
        assert_eq!(mapper.resolve(argument).await.unwrap().plural(), plural);
    }
    let schema = client.openapi().schema_value(&GroupVersion::gv("apps", "v1")).await.unwrap();
    assert!(schema["components"]["schemas"].as_object().unwrap().len() > 10);
    assert_eq!(client.server_version().await.unwrap().major, "1");
}

async fn reviews(client: &Client) {
    let me = client.authentication_v1().self_subject_reviews().create(&Default::default()).await.unwrap();
    let me = me.status.unwrap().user_info.unwrap();
    assert!(me.groups.unwrap().contains(&"system:masters".to_owned()));
    let may = from(json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}));
    let answer = client.authorization_v1().self_subject_access_reviews().create(&may).await.unwrap();
    assert!(answer.status.unwrap().allowed);
}

async fn helpers(server: &ApiServer, client: &Client) {
    let maps = client.core_v1().config_maps("default");
    let colour = |colour: &'static str| {
        move |map: &mut ConfigMap| {
            map.data.get_or_insert_default().insert("colour".into(), colour.into());
        }
    };
    let list = maps.list(&ListParams::default()).await.unwrap();
    let mut watcher = RetryWatcher::new(&list.meta.resource_version, Selection::of(&maps)).unwrap();
    let named = config_map("h");
    let created = create_or_update(&maps, &named, colour("blue")).await.unwrap();
    assert!(matches!(created, CreateOrUpdate::Created(_)));
    let same = create_or_update(&maps, &named, colour("blue")).await.unwrap();
    assert!(matches!(same, CreateOrUpdate::Unchanged(_)));
    assert!(matches!(watcher.next().await, Some(WatchEvent::Added(map)) if map.key().name() == "h"));
    // The watch breaks within the next event, and the watcher opens another.
    server.faults().cut_frame();
    let updated = create_or_update(&maps, &named, colour("red")).await.unwrap();
    assert!(matches!(updated, CreateOrUpdate::Updated(_)));
    let Some(WatchEvent::Modified(seen)) = watcher.next().await else { panic!("no event") };
    assert_eq!(seen.resource_version(), updated.object().resource_version());
    assert_eq!(watcher.resource_version(), updated.object().resource_version());

    let pods = client.core_v1().pods("default");
    let ready = async {
        let conditions = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        pods.status().patch("logging", &Patch::merge(&conditions)).await.unwrap();
    };
    let (pod, ()) = tokio::join!(wait_for(&pods, "logging", condition_true("Ready")), ready);
    assert!(pod.unwrap().is_some());
    let delete = async {
        maps.delete("h").await.unwrap();
    };
    let (gone, ()) = tokio::join!(wait_for(&maps, "h", is_deleted()), delete);
    assert!(gone.unwrap().is_none());
}
