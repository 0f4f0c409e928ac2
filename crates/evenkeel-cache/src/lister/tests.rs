//! Listers over stores, and over informers of a fake source.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_core::{FieldSelector, LabelSelector, Status, Untyped};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::json;

use super::*;
use crate::testing::FakeSource;
use crate::{Index, InformerOptions, Object};

fn object(info: &Arc<ResourceInfo>, namespace: &str, name: &str, app: &str) -> Object {
    let json = json!({"metadata": {"namespace": namespace, "name": name, "labels": {"app": app}}});
    Obj::from_json(info, serde_json::to_vec(&json).unwrap()).unwrap()
}

/// Returns a lister of three pods in two namespaces, with these indexes.
fn pods<K>(indexes: impl IntoIterator<Item = Index<K>>) -> Lister<K> {
    let info = Arc::new(ResourceInfo::of::<Pod>());
    let store = crate::Store::new(indexes);
    for (namespace, name, app) in [("ns", "a", "web"), ("ns", "b", "db"), ("other", "a", "web")] {
        store.put(object(&info, namespace, name, app).cast());
    }
    Lister::over(&store, &info)
}

fn indexed<K: 'static>() -> Lister<K> {
    pods([Index::namespace()])
}

fn selector(text: &str) -> LabelSelector {
    LabelSelector::parse(text).unwrap()
}

fn keys<K>(objects: &[Obj<K>]) -> BTreeSet<&str> {
    objects.iter().map(|object| object.key().as_str()).collect()
}

#[test]
fn lst_001_a_lister_selects_by_labels_or_returns_all() {
    let lister = indexed::<Pod>();
    assert_eq!(keys(&lister.list_all()), BTreeSet::from(["ns/a", "ns/b", "other/a"]));
    assert_eq!(keys(&lister.list(&LabelSelector::everything())), BTreeSet::from(["ns/a", "ns/b", "other/a"]));
    assert_eq!(keys(&lister.list(&selector("app=web"))), BTreeSet::from(["ns/a", "other/a"]));
    assert_eq!(keys(&lister.list(&selector("app notin (web),app"))), BTreeSet::from(["ns/b"]));
}

#[test]
fn lst_003_a_namespace_is_listed_by_its_index_or_without_one() {
    for lister in [indexed::<Pod>(), pods([])] {
        let here = lister.namespace("ns").unwrap();
        assert_eq!(keys(&here.list_all()), BTreeSet::from(["ns/a", "ns/b"]));
        assert_eq!(keys(&here.list(&selector("app=web"))), BTreeSet::from(["ns/a"]));
        assert!(lister.namespace("nowhere").unwrap().list_all().is_empty());
    }
}

#[test]
fn lst_004_a_name_in_a_namespace_is_found_or_reported_missing() {
    let lister = indexed::<Pod>();
    let here = lister.namespace("ns").unwrap();
    assert_eq!(here.get("b").unwrap().key().as_str(), "ns/b");
    assert_eq!(here.require("b").unwrap().key().as_str(), "ns/b");
    assert!(here.get("c").is_none());
    let LookupError::NotFound(missing) = here.require("c").unwrap_err() else { panic!("not stored") };
    assert_eq!(missing.key.as_str(), "ns/c");
    assert_eq!(missing.resource.plural(), "pods");
    let status = Status::from(missing);
    assert!(status.is_not_found());
    let details = status.details.unwrap();
    assert_eq!((details.kind.as_str(), details.name.as_str()), ("pods", "c"));
}

#[test]
fn lst_005_a_key_finds_any_object_and_a_name_one_of_a_cluster_scoped_kind() {
    let lister = indexed::<Pod>();
    assert_eq!(lister.get(ObjectKey::namespaced("other", "a")).unwrap().key().namespace(), Some("other"));
    assert_eq!(lister.get(lister.get(ObjectKey::namespaced("ns", "a")).unwrap().key()).unwrap().key().as_str(), "ns/a");
    assert!(lister.get(ObjectKey::cluster("a")).is_none());
    assert_eq!(lister.require(ObjectKey::cluster("a")).unwrap_err().to_string(), "pods \"a\" not found");

    let info = Arc::new(ResourceInfo::of::<Node>());
    let store = crate::Store::<Node>::new([Index::namespace()]);
    store.put(object(&info, "", "n1", "x").cast());
    let nodes = Lister::over(&store, &info);
    assert_eq!(nodes.get("n1").unwrap().key().as_str(), "n1");
    let missing = nodes.require("n2").unwrap_err();
    assert!(matches!(&missing, LookupError::NotFound(missing) if missing.key.name() == "n2") && missing.is_not_found());
    assert_eq!(nodes.require(String::from("n1")).unwrap().key(), &ObjectKey::cluster("n1"));
}

#[test]
fn lst_006_an_empty_namespace_is_an_error() {
    let error = indexed::<Pod>().namespace("").unwrap_err();
    assert!(error.to_string().starts_with("no namespace given to list pods"), "{error}");
}

#[test]
fn lst_007_and_byo_005_listed_objects_are_shared_and_no_match_is_an_empty_list() {
    let lister = indexed::<Pod>();
    assert!(lister.list(&selector("app=none")).is_empty());
    let (first, second) = (
        lister.get(ObjectKey::namespaced("ns", "a")).unwrap(),
        lister.namespace("ns").unwrap().list(&selector("app=web")),
    );
    assert!(std::ptr::eq(first.header(), second[0].header()), "both are the object in the store");
}

#[tokio::test(start_paused = true)]
async fn lst_008_reads_return_stored_objects_and_make_no_request() {
    let source = FakeSource::new(Arc::new(ResourceInfo::of::<Pod>()));
    source.add(object(source.resource(), "ns", "a", "web")).unwrap();
    let informer: SharedInformer<Pod> = SharedInformer::new(source.clone(), source.resource(), InformerOptions::new());
    let lister = informer.lister();
    assert!(lister.list_all().is_empty() && lister.get(ObjectKey::namespaced("ns", "a")).is_none(), "not started");
    assert!(source.requests().is_empty());
    let _running = informer.start();
    informer.synced().await.unwrap();
    let requests = source.requests().len();
    assert_eq!(keys(&lister.list_all()), BTreeSet::from(["ns/a"]));
    assert_eq!(keys(&lister.namespace("ns").unwrap().list_all()), BTreeSet::from(["ns/a"]));
    assert_eq!(source.requests().len(), requests);
}

#[test]
fn lst_009_one_lister_type_serves_all_kinds() {
    fn names<K>(lister: &Lister<K>) -> usize {
        lister.require(ObjectKey::namespaced("ns", "missing")).unwrap_err();
        lister.list_all().len()
    }
    assert_eq!(names(&indexed::<Pod>()), 3);
    assert_eq!(names(&indexed::<Untyped>()), 3);
    assert_eq!(names(&indexed::<serde_json::Value>()), 3);
}

#[test]
fn fac_014_the_message_of_a_missing_object_is_the_servers() {
    let info = Arc::new(ResourceInfo::of::<Deployment>());
    let typed: Lister<Deployment> = Lister::over(&crate::Store::new([]), &info);
    let dynamic: Lister<serde_json::Value> = Lister::over(&crate::Store::new([]), &info);
    let spelled = "deployments.apps \"web\" not found";
    assert_eq!(typed.require(ObjectKey::namespaced("ns", "web")).unwrap_err().to_string(), spelled);
    assert_eq!(dynamic.namespace("ns").unwrap().require("web").unwrap_err().to_string(), spelled);
    assert_eq!(Status::from(typed.require(ObjectKey::namespaced("ns", "web")).unwrap_err()).message, spelled);
}

#[tokio::test(start_paused = true)]
async fn byo_007_reads_before_the_sync_are_an_error_of_their_own() {
    let source = FakeSource::new(Arc::new(ResourceInfo::of::<Pod>()));
    source.add(object(source.resource(), "ns", "a", "web")).unwrap();
    let informer: SharedInformer<Pod> = SharedInformer::new(source.clone(), source.resource(), InformerOptions::new());
    let (lister, key) = (informer.lister(), ObjectKey::namespaced("ns", "a"));
    let error = lister.require(&key).unwrap_err();
    assert_eq!(error.to_string(), "cannot read pods: informer pods has not synced; start it and wait for its sync");
    assert!(!error.is_not_found());
    assert_eq!(Status::from(error.clone()).code, 503);
    assert_eq!(lister.synced().unwrap_err(), error);
    assert_eq!(lister.namespace("ns").unwrap().require("a").unwrap_err(), error);
    let running = informer.start();
    informer.synced().await.unwrap();
    assert_eq!(lister.synced().unwrap().list_all().len(), 1);
    assert!(lister.require(&key).is_ok());
    assert!(lister.require(ObjectKey::namespaced("ns", "b")).unwrap_err().is_not_found());
    // What has synced once stays readable.
    running.stop().await;
    drop(informer);
    assert!(lister.synced().is_ok() && lister.require(&key).is_ok());
}

fn on_nodes() -> Lister<Pod> {
    let info = Arc::new(ResourceInfo::of::<Pod>());
    let store = crate::Store::new([
        Index::namespace(),
        Index::field("spec.nodeName").unwrap(),
        Index::field("status.phase").unwrap(),
    ]);
    for (namespace, name, node, phase) in [
        ("ns", "a", "n1", "Running"),
        ("ns", "b", "n1", "Pending"),
        ("ns", "c", "n2", "Running"),
        ("other", "a", "n1", "Running"),
    ] {
        let json = json!({
            "metadata": {"namespace": namespace, "name": name, "labels": {"app": "web"}},
            "spec": {"nodeName": node, "containers": []}, "status": {"phase": phase},
        });
        store.put(Obj::from_json(&info, serde_json::to_vec(&json).unwrap()).unwrap());
    }
    Lister::over(&store, &info)
}

#[test]
fn byo_009_fields_are_selected_through_indexes() {
    let lister = on_nodes();
    let query = |fields: &str| ListQuery::new().fields(FieldSelector::parse(fields).unwrap());
    let found = |query: ListQuery| {
        let found = lister.select(&query).unwrap();
        found.iter().map(|pod| pod.key().to_string()).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(found(query("spec.nodeName=n1")), ["ns/a", "ns/b", "other/a"]);
    assert_eq!(found(query("spec.nodeName=n1,status.phase=Running")), ["ns/a", "other/a"]);
    assert_eq!(found(query("spec.nodeName=n1,status.phase=Running").namespace("ns")), ["ns/a"]);
    assert_eq!(found(query("metadata.name=a")), ["ns/a", "other/a"]);
    assert_eq!(found(query("metadata.namespace=other,metadata.name=a")), ["other/a"]);
    assert_eq!(found(query("metadata.namespace=other").namespace("ns")), [] as [&str; 0]);
    assert_eq!(found(query("spec.nodeName=n3")), [] as [&str; 0]);
    assert_eq!(found(ListQuery::new().labels(selector("app=web"))).len(), 4);
    assert_eq!(found(query("spec.nodeName=n1").labels(selector("app!=web"))), [] as [&str; 0]);
    assert_eq!(found(ListQuery::new().limit(2)).len(), 2);
    assert_eq!(found(query("spec.nodeName=n1").limit(0)).len(), 0);
}

#[test]
fn byo_009_other_comparisons_and_fields_without_an_index_are_errors() {
    let lister = on_nodes();
    let error = |fields: &str| {
        lister.select(&ListQuery::new().fields(FieldSelector::parse(fields).unwrap())).unwrap_err().to_string()
    };
    assert_eq!(
        error("spec.nodeName!=n1"),
        "cannot read pods where spec.nodeName!=n1: non-exact field matches are not supported by the cache"
    );
    let missing =
        "cannot read pods by spec.host: the store has no index of this name; add `Index::field(\"spec.host\")`";
    assert_eq!(error("spec.host=x"), missing);
    // Also if the first term selects nothing.
    assert_eq!(error("spec.nodeName=none,spec.host=x"), missing);
}

#[tokio::test(start_paused = true)]
async fn a_lister_reads_the_store_of_a_stopped_informer() {
    let source = FakeSource::new(Arc::new(ResourceInfo::of::<Pod>()));
    let informer: SharedInformer<Pod> = SharedInformer::new(source.clone(), source.resource(), InformerOptions::new());
    let running = informer.start();
    let here = informer.lister().namespace("ns").unwrap();
    informer.synced().await.unwrap();
    drop(informer);
    source.add(object(source.resource(), "ns", "a", "web")).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    assert!(here.get("a").is_some());
    running.stop().await;
    source.add(object(source.resource(), "ns", "b", "web")).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    assert!(here.get("a").is_some() && here.get("b").is_none());
}

#[tokio::test(start_paused = true)]
async fn reads_can_wait_for_a_write() {
    let source = FakeSource::new(Arc::new(ResourceInfo::of::<Pod>()));
    let informer: SharedInformer<Pod> = SharedInformer::new(source.clone(), source.resource(), InformerOptions::new());
    let lister = informer.lister();
    let _running = informer.start();
    let written = source.add(object(source.resource(), "ns", "a", "web")).unwrap().version();
    let read = lister.at_least(&written).await.unwrap().require(ObjectKey::namespaced("ns", "a")).unwrap();
    assert_eq!(read.version(), written);

    let written = source.add(object(source.resource(), "ns", "b", "web")).unwrap().version();
    let here = lister.namespace("ns").unwrap();
    assert!(here.get("b").is_none(), "no task has run since");
    lister.at_least(&written).await.unwrap();
    assert_eq!(here.list_all().len(), 2);
    assert!(lister.at_least(&ResourceVersion::new("")).await.is_ok(), "any version");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_version_fails_when_the_informer_stops() {
    let source = FakeSource::new(Arc::new(ResourceInfo::of::<Pod>()));
    let informer: SharedInformer<Pod> = SharedInformer::new(source.clone(), source.resource(), InformerOptions::new());
    let running = informer.start();
    informer.synced().await.unwrap();
    let (lister, future) = (informer.lister(), ResourceVersion::new("999999"));
    let waiting = tokio::spawn({
        let (lister, future) = (lister.clone(), future.clone());
        async move { lister.at_least(&future).await.map(drop) }
    });
    tokio::task::yield_now().await;
    drop(running);
    assert_eq!(waiting.await.unwrap().unwrap_err().version, future);
    assert!(lister.at_least(&future).await.is_err(), "also afterwards");
}
