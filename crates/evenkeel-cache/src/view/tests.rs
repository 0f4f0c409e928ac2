use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::testing::FakeSource;
use crate::{InformerOptions, ObjectKey, RunningInformers, Store};

#[derive(Debug, Deserialize)]
struct PodView {
    metadata: VersionView,
    spec: SpecView,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VersionView {
    resource_version: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecView {
    node_name: String,
}

fn pod(name: &str, node: impl Into<Value>) -> Value {
    json!({"metadata": {"namespace": "ns", "name": name, "uid": name}, "spec": {"nodeName": node.into(), "other": [1, 2]}})
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("ns", name)
}

/// An informer of these pods, all on `node-1`.
fn informer(names: impl IntoIterator<Item = String>) -> (FakeSource, SharedInformer<Pod>) {
    let source = FakeSource::of::<Pod>();
    names.into_iter().for_each(|name| drop(source.add(pod(&name, "node-1")).unwrap()));
    let informer = SharedInformer::new(source.clone(), source.resource(), InformerOptions::new());
    (source, informer)
}

async fn start(informer: &SharedInformer<Pod>) -> RunningInformers {
    let running = informer.start();
    informer.synced().await.unwrap();
    running
}

fn node(view: &View<Pod, PodView>, name: &str) -> Option<String> {
    view.get(key(name)).unwrap().map(|pod| pod.spec.node_name.clone())
}

/// A view that counts its evaluations.
fn counting(informer: &SharedInformer<Pod>) -> (View<Pod, String>, Arc<AtomicUsize>) {
    let count: Arc<AtomicUsize> = Arc::default();
    let counted = Arc::clone(&count);
    let view = informer.view_by("counting", move |pod| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok::<_, Infallible>(pod.resource_version().to_owned())
    });
    (view, count)
}

/// Runs all tasks until they wait. (Virtual time passes only then.)
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn values_are_read_by_key_list_index_and_snapshot() {
    let (source, informer) = informer(["a", "b"].map(String::from));
    let view = informer.view::<PodView>();
    informer.add_indexes([view.index("node", |pod| [pod.spec.node_name.clone()])]).unwrap();
    let _running = start(&informer).await;
    source.add(pod("c", "node-2")).unwrap();
    settle().await;

    assert_eq!(node(&view, "a").as_deref(), Some("node-1"));
    assert_eq!(node(&view, "c").as_deref(), Some("node-2"));
    assert_eq!(node(&view, "z"), None);
    assert_eq!(view.list().len(), 3);
    assert_eq!(view.by_index("node", "node-1").unwrap().len(), 2);
    assert!(matches!(view.by_index("zone", "z"), Err(IndexError::Unknown { .. })));

    let snapshot = view.snapshot();
    source.modify(pod("c", "node-3")).unwrap();
    settle().await;
    assert_eq!(snapshot.get(key("c")).unwrap().unwrap().spec.node_name, "node-2", "a snapshot does not change");
    assert!(snapshot.get(key("z")).unwrap().is_none());
    let mut all: Vec<_> = snapshot.iter().map(|(pod, value)| (pod.key().name(), &*value.spec.node_name)).collect();
    all.sort_unstable();
    assert_eq!(all, [("a", "node-1"), ("b", "node-1"), ("c", "node-2")]);
    let found: Vec<_> = snapshot.by_index("node", "node-2").unwrap().map(|(pod, _)| pod.key().name()).collect();
    assert_eq!(found, ["c"]);
    assert_eq!(snapshot.objects().len(), 3);
    assert_eq!(node(&view, "c").as_deref(), Some("node-3"));
    assert_eq!(view.by_index("node", "node-3").unwrap().len(), 1, "the index follows the view");
    assert!(view.by_index("node", "node-2").unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn each_state_is_evaluated_once_and_before_it_is_stored() {
    let (source, informer) = informer(["a", "b"].map(String::from));
    let (view, count) = counting(&informer);
    let _running = start(&informer).await;
    assert_eq!(count.load(Ordering::Relaxed), 2, "without any read");
    source.modify(pod("a", "node-2")).unwrap();
    settle().await;
    assert_eq!(count.load(Ordering::Relaxed), 3);
    for _ in 0..3 {
        assert_eq!(view.get(key("a")).unwrap().as_deref().map(String::as_str), Some("3"));
        assert_eq!((view.list().len(), view.snapshot().iter().count()), (2, 2));
    }
    let (first, again) = (view.get(key("b")).unwrap().unwrap(), view.get(key("b")).unwrap().unwrap());
    assert!(Arc::ptr_eq(&first, &again));
    // A relist that finds nothing new.
    source.reset_watch();
    source.watched(1).await;
    settle().await;
    assert_eq!(count.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn values_are_evaluated_before_objects_are_packed() {
    let (source, informer) = informer([]);
    let large = |name: &str| {
        let mut pod = pod(name, "node-1");
        pod["metadata"]["annotations"] = json!({"note": "what siblings share is stored once; ".repeat(50)});
        pod
    };
    (0..100).for_each(|number| drop(source.add(large(&format!("web-{number:03}"))).unwrap()));
    let view = informer.view_by("packed", |pod| {
        let is_packed = pod.payload_bytes() < pod.raw().unwrap().len();
        Ok::<_, Infallible>(is_packed)
    });
    let _running = start(&informer).await;
    source.modify(large("web-050")).unwrap();
    settle().await;
    let snapshot = view.snapshot();
    let packed = snapshot.iter().filter(|(pod, _)| pod.payload_bytes() < pod.raw().unwrap().len()).count();
    assert!(packed > 50, "the store packs its objects: {packed} of 100");
    assert_eq!(snapshot.iter().filter(|(_, was_packed)| **was_packed).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_fit_keeps_its_error_and_the_others_their_values() {
    let recorder = DebuggingRecorder::new();
    let metrics = recorder.snapshotter();
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let (source, informer) = informer(["a", "b"].map(String::from));
    let view = informer.view::<PodView>();
    let _running = start(&informer).await;
    source.modify(pod("b", 7)).unwrap();
    settle().await;

    let error = view.get(key("b")).unwrap_err();
    assert!(matches!(&*error, ViewError::Decode { .. }));
    assert_eq!(
        error.to_string(),
        "no value in view PodView: Pod ns/b does not fit its type at spec.nodeName: invalid type: integer `7`, expected a string; \
         a field that may be absent or of another type needs an `Option` or a default"
    );
    assert!(Arc::ptr_eq(&error, &view.get(key("b")).unwrap_err()), "the error is kept");
    assert_eq!(node(&view, "a").as_deref(), Some("node-1"));
    let snapshot = view.snapshot();
    assert_eq!((view.list().len(), snapshot.iter().count(), snapshot.errors().count()), (1, 1, 1));
    assert!(snapshot.get(key("b")).is_err());
    let failures = metrics.snapshot().into_vec().into_iter().find(|(key, ..)| {
        key.key().name() == crate::metrics::VIEW_FAILURES
            && key.key().labels().any(|label| (label.key(), label.value()) == ("view", "PodView"))
    });
    assert!(matches!(failures, Some((_, _, _, DebugValue::Counter(1)))), "counted once, whatever the reads");

    source.modify(pod("b", "node-2")).unwrap();
    settle().await;
    assert_eq!(node(&view, "b").as_deref(), Some("node-2"), "the next state fits");
}

#[tokio::test(start_paused = true)]
async fn a_function_that_fails_or_panics_affects_its_object_only() {
    let (_source, informer) = informer(["a", "fails", "panics"].map(String::from));
    let view = informer.view_by("choosy", |pod: &Obj<Pod>| match pod.key().name() {
        "fails" => Err("not this one"),
        "panics" => panic!("not that one"),
        name => Ok(name.len()),
    });
    let _running = start(&informer).await;
    assert_eq!(view.get(key("a")).unwrap().as_deref(), Some(&1));
    let errors = ["fails", "panics"].map(|name| view.get(key(name)).unwrap_err().to_string());
    assert_eq!(
        errors,
        [
            "no value in view choosy: its function failed for Pod ns/fails: not this one",
            "no value in view choosy: its function panicked for Pod ns/panics: not that one",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn handlers_receive_old_and_new_values() {
    let (source, informer) = informer(["a".to_owned()]);
    let view = informer.view::<PodView>();
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let written = Arc::clone(&log);
    let handler = view.handler(move |event: ViewEvent<Pod, PodView>| {
        let node = |pod: &Option<Arc<PodView>>| pod.as_ref().map_or("-".to_owned(), |pod| pod.spec.node_name.clone());
        let (old, new) = (node(&event.old), node(&event.new));
        let failed = if event.error.is_some() { " failed" } else { "" };
        written.lock().unwrap().push(format!("{} {old} {new}{failed}", event.event.key()));
    });
    informer.add_handler(handler).unwrap();
    let _running = start(&informer).await;
    source.modify(pod("a", "node-2")).unwrap();
    source.modify(pod("a", 7)).unwrap();
    source.modify(pod("a", "node-3")).unwrap();
    source.delete(pod("a", "node-4")).unwrap();
    settle().await;
    assert_eq!(
        *log.lock().unwrap(),
        [
            "ns/a - node-1",
            "ns/a node-1 node-2",
            "ns/a node-2 - failed",
            "ns/a - node-3 failed",
            "ns/a node-4 -", // the last state, which was never stored
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_view_requested_after_the_start_is_built_once_in_steps() {
    let (source, informer) = informer((0..3 * BUILD_STEP).map(|number| format!("p{number}")));
    let _running = start(&informer).await;
    let (view, count) = counting(&informer);
    assert_eq!(view.get(key("p7")).unwrap().as_deref().map(String::as_str), Some("8"), "evaluated by the first read");
    assert_eq!(count.load(Ordering::Relaxed), 1);
    tokio::task::yield_now().await;
    let first_step = count.load(Ordering::Relaxed);
    assert!((BUILD_STEP - 1..=BUILD_STEP + 1).contains(&first_step), "{first_step} after one step");
    source.modify(pod("p1", "node-2")).unwrap();
    settle().await;
    assert_eq!(count.load(Ordering::Relaxed), 3 * BUILD_STEP + 1, "all objects, and the changed one again");
    assert_eq!(view.snapshot().iter().count(), 3 * BUILD_STEP);
    assert_eq!(count.load(Ordering::Relaxed), 3 * BUILD_STEP + 1);
}

#[tokio::test(start_paused = true)]
async fn stopping_the_informer_ends_the_building_of_a_view() {
    let (_source, informer) = informer((0..3 * BUILD_STEP).map(|number| format!("p{number}")));
    let running = start(&informer).await;
    let (view, count) = counting(&informer);
    running.stop().await;
    assert!(count.load(Ordering::Relaxed) <= BUILD_STEP, "{count:?}");
    assert_eq!(view.list().len(), 3 * BUILD_STEP, "reads evaluate what is missing");
    let late = informer.view::<PodView>();
    assert_eq!(late.list().len(), 3 * BUILD_STEP, "also of a view that was requested after the stop");
}

#[tokio::test(start_paused = true)]
async fn the_same_request_returns_the_same_view() {
    let (_source, informer) = informer(["a".to_owned()]);
    let (first, count) = counting(&informer);
    let (second, unused) = counting(&informer);
    let other = informer.view_by("other", |pod: &Obj<Pod>| Ok::<_, Infallible>(pod.key().to_string()));
    let (decoded, again) = (informer.view::<PodView>(), informer.view::<PodView>());
    let _running = start(&informer).await;
    assert_eq!((first.name(), second.name(), other.name()), ("counting", "counting", "other"));
    let values = [&first, &second, &other].map(|view| view.get(key("a")).unwrap().unwrap());
    assert!(Arc::ptr_eq(&values[0], &values[1]));
    assert_eq!((values[1].as_str(), values[2].as_str()), ("1", "ns/a"));
    assert_eq!((count.load(Ordering::Relaxed), unused.load(Ordering::Relaxed)), (1, 0));
    assert!(Arc::ptr_eq(&decoded.get(key("a")).unwrap().unwrap(), &again.get(key("a")).unwrap().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_value_is_never_of_another_version_than_its_object() {
    let (source, informer) = informer((0..20).map(|number| format!("p{number}")));
    let view = informer.view::<PodView>();
    let _running = start(&informer).await;
    let stop: Arc<AtomicBool> = Arc::default();
    let readers = [(); 2].map(|()| {
        let (view, stop) = (view.clone(), Arc::clone(&stop));
        std::thread::spawn(move || {
            let mut reads = 0;
            while reads == 0 || !stop.load(Ordering::Acquire) {
                for (pod, value) in view.snapshot().iter() {
                    assert_eq!(pod.resource_version(), value.metadata.resource_version);
                    reads += 1;
                }
            }
            reads
        })
    });
    for round in 0..10 {
        (0..20).for_each(|number| drop(source.modify(pod(&format!("p{number}"), format!("node-{round}"))).unwrap()));
        settle().await;
    }
    stop.store(true, Ordering::Release);
    readers.into_iter().for_each(|reader| assert!(reader.join().unwrap() >= 20));
    assert_eq!(node(&view, "p0").as_deref(), Some("node-9"));
}

#[tokio::test(start_paused = true)]
async fn a_view_outlives_its_informer_and_holds_no_handler() {
    let (_source, informer) = informer(["a".to_owned()]);
    let view = informer.view::<PodView>();
    informer.add_indexes([view.index("node", |pod| [pod.spec.node_name.clone()])]).unwrap();
    let weak = informer.downgrade();
    let running = start(&informer).await;
    running.stop().await;
    drop(informer);
    assert!(weak.upgrade().is_none());
    assert_eq!(node(&view, "a").as_deref(), Some("node-1"));
    let objects = view.snapshot().objects().clone();
    let definition = Arc::downgrade(&view.definition);
    drop((view, objects));
    assert!(definition.upgrade().is_none(), "an index does not keep the store, nor the store itself");
}

#[test]
fn a_view_of_any_store_serves_tests() {
    let info = Arc::new(evenkeel_core::ResourceInfo::of::<Pod>());
    let store: Store<Pod> = Store::new([]);
    let json = r#"{"metadata": {"namespace": "ns", "name": "a", "resourceVersion": "7"}, "spec": {"nodeName": "n1"}}"#;
    store.put(Obj::from_json(&info, json).unwrap());
    let view = View::<Pod, PodView>::over(&store.indexer());
    assert_eq!(node(&view, "a").as_deref(), Some("n1"));
    assert_eq!(view.of(&store.get("ns/a").unwrap()).unwrap().metadata.resource_version, "7");
}
