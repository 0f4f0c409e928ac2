//! Informers of several namespaces: one fake source for each.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use evenkeel_core::status::Reason;
use evenkeel_core::{LabelSelector, ObjectKey, ResourceVersion, Status};
use serde_json::json;

use super::*;
use crate::informer::{ConsistencyOutcome, OnForbidden, ReflectorPhase};
use crate::lister::{ListQuery, LookupError, SelectError};
use crate::source::ListerWatcher;
use crate::store::Index;
use crate::testing::Request;
use crate::{Delivery, NamespaceSet};

/// One fake source for each namespace.
#[derive(Clone, Default)]
pub(super) struct Sources {
    by_name: Arc<Mutex<BTreeMap<String, FakeSource>>>,
    /// The field selectors of the scopes, in the order of their reflectors.
    pub(super) selectors: Arc<Mutex<Vec<String>>>,
}

impl Sources {
    pub(super) fn of(&self, namespace: &str) -> FakeSource {
        self.by_name.lock().unwrap().entry(namespace.to_owned()).or_insert_with(source).clone()
    }

    pub(super) fn add(&self, namespace: &str, name: &str) -> Object {
        self.of(namespace).add(json!({"metadata": {"namespace": namespace, "name": name}})).unwrap()
    }

    /// Advances the version of a namespace without a change that is watched.
    pub(super) fn advance(&self, namespace: &str, times: usize) {
        for _ in 0..times {
            let object = json!({"metadata": {"namespace": namespace, "name": "unseen"}});
            self.of(namespace).add_without_event(object.clone()).unwrap();
            self.of(namespace).delete_without_event(object).unwrap();
        }
    }

    pub(super) fn lists(&self, namespace: &str) -> usize {
        let is_list = |request: &Request| matches!(request, Request::List(_));
        self.of(namespace).requests().iter().filter(|request| is_list(request)).count()
    }

    pub(super) fn forbid(&self, namespace: &str, forbid: bool) {
        let status = || Status::failure(403, Reason::FORBIDDEN, "pods is forbidden: no");
        self.of(namespace).set_list_error(forbid.then(status));
        self.of(namespace).set_watch_error(forbid.then(status));
    }

    pub(super) fn informer(&self, set: &NamespaceSet, options: InformerOptions<Untyped>) -> Informer {
        let sources = self.clone();
        let source_of = move |scope: &crate::namespaces::Scope| {
            sources.selectors.lock().unwrap().push(scope.field_selector());
            Arc::new(sources.of(scope.namespace())) as Arc<dyn ListerWatcher>
        };
        Informer::with_namespaces(set, source_of, &pods(), options, "pods".to_owned())
    }
}

pub(super) fn degrading() -> InformerOptions<Untyped> {
    let mut options = options();
    options.settings.on_forbidden = Some(OnForbidden::Degrade);
    options
}

pub(super) fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::namespaced(namespace, name)
}

#[tokio::test(start_paused = true)]
async fn mns_001_each_namespace_has_a_list_and_a_watch() {
    let sources = Sources::default();
    sources.add("a", "x");
    sources.add("b", "y");
    sources.add("c", "z");
    let informer = sources.informer(&NamespaceSet::new(["a", "b"]), options());
    let running = informer.start();
    informer.synced().await.unwrap();
    assert_eq!(stored(&informer), ["a/x@1", "b/y@1"]);
    for namespace in ["a", "b"] {
        sources.of(namespace).watched(1).await;
        assert_eq!((sources.lists(namespace), sources.of(namespace).watches()), (1, 1));
    }
    assert!(sources.of("c").requests().is_empty());
    let status = informer.status();
    assert_eq!((status.reflector.lists, status.reflector.watches), (2, 2));
    assert_eq!(status.namespaces["a"].reflector.phase, ReflectorPhase::Watching);
    assert_eq!(status.namespaces["b"].store_resource_version, "1");
    assert!(status.namespaces.values().all(|namespace| namespace.has_synced));
    running.stop().await;
    assert_eq!(sources.of("a").watches() + sources.of("b").watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_relist_of_one_namespace_replaces_its_objects_only() {
    let sources = Sources::default();
    let gone = sources.add("a", "gone");
    sources.add("b", "y");
    let recorder = Recorder::default();
    let informer = sources.informer(&NamespaceSet::new(["a", "b"]), options());
    informer.add_handler(recorder.clone()).unwrap();
    let _running = informer.start();
    recorder.received(2).await;
    assert_eq!(recorder.take_sorted(), ["initial a/gone@1", "initial b/y@1"]);
    sources.of("a").watched(1).await;
    sources.of("a").delete_without_event(&gone).unwrap();
    sources.of("a").add_without_event(json!({"metadata": {"namespace": "a", "name": "new"}})).unwrap();
    sources.of("a").reset_watch();
    recorder.received(4).await;
    assert_eq!(recorder.take_sorted(), ["add a/new@3", "missed a/gone@1"]);
    assert_eq!(stored(&informer), ["a/new@3", "b/y@1"]);
    assert_eq!(sources.lists("b"), 1);
}

#[tokio::test(start_paused = true)]
async fn mns_004_lists_over_several_namespaces_are_sorted_by_key() {
    let sources = Sources::default();
    for name in ["z", "a", "m"] {
        sources.add("b", name);
        sources.add("a", name);
    }
    let informer = sources.informer(&NamespaceSet::new(["b", "a"]), options());
    let _running = informer.start();
    informer.synced().await.unwrap();
    let lister = informer.lister();
    let keys = |objects: Vec<Object>| objects.iter().map(|object| object.key().to_string()).collect::<Vec<_>>();
    let sorted = ["a/a", "a/m", "a/z", "b/a", "b/m", "b/z"];
    assert_eq!(keys(lister.list_all()), sorted);
    assert_eq!(keys(lister.list(&LabelSelector::everything())), sorted);
    assert_eq!(keys(lister.select(&ListQuery::new().limit(4)).unwrap()), sorted[..4]);
    let outside = lister.select(&ListQuery::new().namespace("c")).unwrap_err();
    assert!(matches!(outside, SelectError::Namespace(LookupError::OutOfScope(_))), "{outside}");
}

#[tokio::test(start_paused = true)]
async fn mns_004_each_namespace_has_a_version_and_the_store_has_the_lowest() {
    let sources = Sources::default();
    sources.advance("a", 5);
    sources.add("a", "x");
    sources.add("b", "y");
    let informer = sources.informer(&NamespaceSet::new(["a", "b"]), options());
    let indexer = informer.indexer();
    assert_eq!(indexer.resource_version().as_str(), "");
    let _running = informer.start();
    informer.synced().await.unwrap();
    assert_eq!(indexer.resource_version().as_str(), "1");
    assert_eq!(indexer.snapshot().resource_version().as_str(), "1");
    assert_eq!(informer.last_sync_resource_version().as_str(), "1");

    // Namespace a is at 11. That says nothing about b.
    let version = ResourceVersion::new("11");
    indexer.at_least_for(&key("a", "x"), &version).await.unwrap();
    let in_b = tokio::time::timeout(Duration::from_secs(1), indexer.at_least_for(&key("b", "y"), &version)).await;
    assert!(in_b.is_err(), "b is at 1");
    assert!(tokio::time::timeout(Duration::from_secs(1), indexer.at_least(&version)).await.is_err(), "so is the store");
    sources.of("b").watched(1).await;
    let everywhere = tokio::spawn({
        let (indexer, version) = (indexer.clone(), version.clone());
        async move { indexer.at_least(&version).await }
    });
    sources.advance("b", 6);
    sources.of("b").bookmark();
    everywhere.await.unwrap().unwrap();
    assert_eq!(indexer.resource_version().as_str(), "11");
    let changed = sources.add("b", "z");
    indexer.at_least_for(changed.key(), &changed.version()).await.unwrap();
    assert!(indexer.get(changed.key()).is_some());
    assert_eq!(indexer.resource_version().as_str(), "11", "a has not changed");
}

#[tokio::test(start_paused = true)]
async fn a_wait_in_a_namespace_ends_when_it_leaves_the_set() {
    let sources = Sources::default();
    let set = NamespaceSet::new(["a", "b"]);
    let informer = sources.informer(&set, options());
    let _running = informer.start();
    informer.synced().await.unwrap();
    let version = ResourceVersion::new("99");
    let waiting = tokio::spawn({
        let (indexer, version) = (informer.indexer(), version.clone());
        async move { indexer.at_least_for(&key("b", "y"), &version).await }
    });
    settle().await;
    set.remove("b").await.unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("not in its set"), "{error}");
    assert!(informer.indexer().at_least_for(&key("b", "y"), &version).await.is_err(), "also afterwards");
}

/// Notes whether two calls overlap.
#[derive(Clone, Default)]
struct Serial {
    inside: Arc<AtomicBool>,
    overlaps: Arc<AtomicUsize>,
    calls: Arc<AtomicUsize>,
}

impl Handler<Untyped> for Serial {
    fn handle(&mut self, _: Event<Untyped>) {
        if self.inside.swap(true, Ordering::SeqCst) {
            self.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        std::thread::yield_now();
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.inside.store(false, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn mns_005_a_handler_is_called_once_at_a_time_and_in_order_per_object() {
    const NAMESPACES: usize = 8;
    const CHANGES: usize = 50;
    let sources = Sources::default();
    let names: Vec<String> = (0..NAMESPACES).map(|number| format!("n{number}")).collect();
    let informer = sources.informer(&NamespaceSet::new(&names), options());
    let (serial, recorder) = (Serial::default(), Recorder::default());
    informer.add_handler(serial.clone()).unwrap();
    informer.add_handler(recorder.clone()).unwrap();
    let running = informer.start();
    informer.synced().await.unwrap();
    let writers = names.iter().map(|name| {
        let (source, name) = (sources.of(name).with_buffer(CHANGES), name.clone());
        tokio::spawn(async move {
            source.watched(1).await;
            for _ in 0..CHANGES {
                source.modify(json!({"metadata": {"namespace": name, "name": "x"}})).unwrap();
                tokio::task::yield_now().await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    recorder.received(NAMESPACES * CHANGES).await;
    running.drain().await;
    assert_eq!(serial.overlaps.load(Ordering::SeqCst), 0);
    assert_eq!(serial.calls.load(Ordering::SeqCst), NAMESPACES * CHANGES);
    for name in &names {
        let log: Vec<String> = recorder.log().into_iter().filter(|line| line.contains(&format!("{name}/"))).collect();
        let expected = |version: usize| match version {
            1 => format!("add {name}/x@1"),
            version => format!("update {name}/x@{}->{version}", version - 1),
        };
        assert_eq!(log, (1..=CHANGES).map(expected).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn mns_006_a_handler_or_an_index_is_added_for_all_namespaces_or_none() {
    let sources = Sources::default();
    sources.add("a", "x");
    sources.add("b", "x");
    let informer = sources.informer(&NamespaceSet::new(["a", "b"]), options());
    let _running = informer.start();
    informer.synced().await.unwrap();
    let by_name = || Index::by_object("name", |object: &Object| Some(object.key().name().to_owned()));
    informer.add_indexes([by_name()]).unwrap();
    assert_eq!(informer.indexer().index_keys("name", "x").unwrap(), [key("a", "x"), key("b", "x")]);
    let other = Index::by_object("other", |object: &Object| Some(object.key().name().to_owned()));
    assert!(informer.add_indexes([other, by_name()]).is_err());
    assert!(informer.indexer().index_keys("other", "x").is_err(), "in no namespace");
    let recorder = Recorder::default();
    informer.add_handler(recorder.clone()).unwrap().synced().await.unwrap();
    assert_eq!(recorder.take_sorted(), ["initial a/x@1", "initial b/x@1"]);
}

#[tokio::test(start_paused = true)]
async fn mns_007_synced_and_stopped_are_about_all_namespaces() {
    let sources = Sources::default();
    sources.add("a", "x");
    sources.of("b").set_list_error(Some(Status::failure(500, Reason::INTERNAL_ERROR, "later")));
    let informer = sources.informer(&NamespaceSet::new(["a", "b"]), options());
    let recorder = Recorder::default();
    let registration = informer.add_handler(recorder.clone()).unwrap();
    let running = informer.start();
    recorder.received(1).await;
    assert!(!informer.has_synced() && !registration.has_synced());
    let status = informer.status();
    assert!(status.namespaces["a"].has_synced && !status.namespaces["b"].has_synced);
    let error = status.reflector.last_error.unwrap().message;
    assert!(error.starts_with("in b: ") && error.contains("later"), "{error}");
    sources.of("b").set_list_error(None);
    registration.synced().await.unwrap();
    assert!(informer.has_synced());

    registration.remove();
    sources.of("b").watched(1).await;
    sources.add("a", "late");
    sources.add("b", "late");
    settle().await;
    assert_eq!(recorder.take(), ["initial a/x@1"]);
    running.stop().await;
    assert!(informer.is_stopped());
    assert_eq!(sources.of("a").watches() + sources.of("b").watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn mns_008_fail_names_the_forbidden_namespace_and_the_reason() {
    let sources = Sources::default();
    sources.forbid("team-b", true);
    let informer = sources.informer(&NamespaceSet::new(["team-a", "team-b"]), options());
    let _running = informer.start();
    assert!(tokio::time::timeout(Duration::from_secs(120), informer.synced()).await.is_err());
    let status = informer.status();
    assert_eq!(status.reflector.last_error.unwrap().message, "in team-b: forbidden: pods is forbidden: no");
    assert_eq!(status.namespaces["team-b"].forbidden.as_deref(), Some("pods is forbidden: no"));
    sources.forbid("team-b", false);
    informer.synced().await.unwrap();
    assert_eq!(informer.status().forbidden().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn ohc_016_a_forbidden_namespace_degrades_and_comes_when_it_may_be_read() {
    let sources = Sources::default();
    sources.add("a", "x");
    sources.add("b", "y");
    sources.forbid("b", true);
    let set = NamespaceSet::new(["a", "b"]);
    let informer = sources.informer(&set, degrading());
    let (recorder, serial) = (Recorder::default(), Serial::default());
    informer.add_handler(recorder.clone()).unwrap();
    informer.add_handler(serial.clone()).unwrap();
    let _running = informer.start();
    informer.synced().await.unwrap();
    recorder.received(1).await;
    assert_eq!(recorder.take(), ["initial a/x@1"]);
    assert_eq!(informer.status().forbidden().collect::<Vec<_>>(), [("b", "pods is forbidden: no")]);
    assert!(!informer.status().namespaces["b"].has_synced);
    // The version of the store is that of what can be read.
    assert_eq!(informer.indexer().resource_version().as_str(), "1");
    informer.indexer().at_least(&ResourceVersion::new("1")).await.unwrap();
    sources.of("a").watched(1).await;
    sources.add("a", "works");
    recorder.received(2).await;

    sources.forbid("b", false);
    recorder.received(3).await;
    assert_eq!(recorder.take(), ["add a/works@2", "initial b/y@1"]);
    assert_eq!(informer.status().forbidden().count(), 0);
    assert_eq!(sources.lists("a"), 1);
    assert_eq!((serial.overlaps.load(Ordering::SeqCst), serial.calls.load(Ordering::SeqCst)), (0, 3));
}

#[tokio::test(start_paused = true)]
async fn mns_008_a_namespace_that_becomes_forbidden_keeps_its_objects() {
    let sources = Sources::default();
    sources.add("b", "y");
    let informer = sources.informer(&NamespaceSet::new(["a", "b"]), degrading());
    let _running = informer.start();
    informer.synced().await.unwrap();
    sources.of("b").watched(1).await;
    sources.forbid("b", true);
    sources.of("b").reset_watch();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(informer.status().forbidden().count(), 1);
    assert_eq!(stored(&informer), ["b/y@1"]);
    sources.forbid("b", false);
    sources.of("b").watched(1).await;
    sources.add("b", "z");
    settle().await;
    assert_eq!(informer.status().forbidden().count(), 0);
    assert_eq!(stored(&informer), ["b/y@1", "b/z@2"]);
}

#[tokio::test(start_paused = true)]
async fn mns_009_a_resync_delivers_each_object_once_per_period() {
    let sources = Sources::default();
    sources.add("a", "x");
    sources.add("b", "y");
    let informer = sources.informer(&NamespaceSet::new(["a", "b"]), options().resync(Duration::from_secs(60)));
    let recorder = Recorder::default();
    informer.add_handler(recorder.clone()).unwrap();
    let _running = informer.start();
    recorder.received(2).await;
    recorder.take();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        settle().await;
        assert_eq!(recorder.take_sorted(), ["update a/x@1->1", "update b/y@1->1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn mns_009_a_handler_can_request_a_resync_later() {
    let sources = Sources::default();
    sources.add("a", "x");
    let informer = sources.informer(&NamespaceSet::new(["a", "b"]), options());
    let _running = informer.start();
    informer.synced().await.unwrap();
    let recorder = Recorder::default();
    let options = HandlerOptions::new().resync(Duration::from_secs(10)).delivery(Delivery::Latest);
    informer.add_handler(recorder.clone().with(options)).unwrap().synced().await.unwrap();
    recorder.take();
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(recorder.take(), ["update a/x@1->1"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_of_another_namespace_is_dropped() {
    let sources = Sources::default();
    sources.of("a").add(json!({"metadata": {"namespace": "b", "name": "foreign"}})).unwrap();
    sources.add("a", "x");
    let informer = sources.informer(&NamespaceSet::new(["a"]), options());
    let _running = informer.start();
    informer.synced().await.unwrap();
    sources.of("a").watched(1).await;
    sources.of("a").add(json!({"metadata": {"namespace": "b", "name": "later"}})).unwrap();
    sources.add("a", "y");
    settle().await;
    assert_eq!(stored(&informer), ["a/x@2", "a/y@4"]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_set_syncs_at_once() {
    let informer = Sources::default().informer(&NamespaceSet::new([""; 0]), options());
    let _running = informer.start();
    informer.synced().await.unwrap();
    assert!(informer.indexer().is_empty());
    informer.indexer().at_least(&ResourceVersion::new("7")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cst_001_each_namespace_is_compared_at_its_own_version() {
    let sources = Sources::default();
    sources.advance("a", 3);
    sources.add("a", "x");
    sources.add("b", "y");
    let informer = sources.informer(&NamespaceSet::new(["a", "b"]), options());
    let _running = informer.start();
    informer.synced().await.unwrap();
    let report = informer.check_consistency().await;
    assert_eq!(report.outcome, ConsistencyOutcome::Consistent);
    assert_eq!((report.resource_version.as_str(), report.objects), ("1", 2));
    for (namespace, version) in [("a", "7"), ("b", "1")] {
        let Some(Request::List(list)) = sources.of(namespace).requests().pop() else { panic!("a list") };
        assert_eq!((list.resource_version.as_str(), list.is_exact), (version, true));
    }
    let empty = sources.informer(&NamespaceSet::new([""; 0]), options());
    let _running = empty.start();
    empty.synced().await.unwrap();
    let report = empty.check_consistency().await;
    assert_eq!(report.to_string(), "inconclusive: the set has no namespaces");
}

#[tokio::test(start_paused = true)]
async fn cst_002_a_difference_relists_the_namespaces_that_differ() {
    let sources = Sources::default();
    sources.add("a", "x");
    let gone = sources.add("b", "gone");
    sources.add("c", "z");
    let informer = sources.informer(&NamespaceSet::new(["a", "b", "c"]), options());
    let _running = informer.start();
    informer.synced().await.unwrap();
    for namespace in ["a", "b", "c"] {
        sources.of(namespace).watched(1).await;
    }
    sources.of("b").delete_without_event(&gone).unwrap();
    sources.of("b").bookmark();
    sources.of("c").add_without_event(json!({"metadata": {"namespace": "c", "name": "new"}})).unwrap();
    sources.of("c").bookmark();
    settle().await;
    let report = informer.check_consistency().await;
    let ConsistencyOutcome::Inconsistent { missing, extra, different, examples } = report.outcome else {
        panic!("{report}");
    };
    assert_eq!((missing, extra, different), (1, 1, 0));
    assert_eq!(examples, [key("b", "gone"), key("c", "new")]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(stored(&informer), ["a/x@1", "c/new@2", "c/z@1"]);
    assert_eq!((sources.lists("a"), sources.lists("b"), sources.lists("c")), (2, 3, 3), "a was only compared");

    sources.of("b").set_list_error(Some(Status::failure(500, Reason::INTERNAL_ERROR, "later")));
    let report = informer.check_consistency().await.to_string();
    assert!(report.starts_with("inconclusive: in b: failed to list: "), "{report}");
}
