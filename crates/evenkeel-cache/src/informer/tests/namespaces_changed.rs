//! Namespaces that are added and removed while the informer runs.

use std::sync::atomic::{AtomicBool, Ordering};

use super::namespaces::{Sources, degrading};
use super::*;
use crate::source::{BoxFuture, ListItems, ListRequest, ListerWatcher, SourceError, WatchEvents, WatchRequest};
use crate::{Delivery, NamespaceSet};

async fn running(set: &NamespaceSet, sources: &Sources) -> (Informer, RunningInformers, Recorder) {
    let informer = sources.informer(set, options());
    let recorder = Recorder::default();
    let registration = informer.add_handler(recorder.clone()).unwrap();
    let running = informer.start();
    registration.synced().await.unwrap();
    recorder.take();
    (informer, running, recorder)
}

#[tokio::test(start_paused = true)]
async fn mns_010_an_added_namespace_is_listed_alone() {
    let sources = Sources::default();
    sources.add("a", "x");
    sources.add("c", "z");
    let set = NamespaceSet::new(["a", "b"]);
    let (informer, _running, recorder) = running(&set, &sources).await;
    set.add("c").await.unwrap();
    assert_eq!(stored(&informer), ["a/x@1", "c/z@1"], "synced when it returns");
    settle().await;
    assert_eq!(recorder.take(), ["initial c/z@1"]);
    assert_eq!((sources.lists("a"), sources.lists("b"), sources.lists("c")), (1, 1, 1));
    sources.of("c").watched(1).await;
    sources.add("c", "later");
    settle().await;
    assert_eq!(recorder.take(), ["add c/later@2"]);
    set.add("c").await.unwrap();
    assert_eq!(sources.lists("c"), 1, "it was there");
}

#[tokio::test(start_paused = true)]
async fn mns_010_add_waits_for_a_list_and_a_degraded_namespace_counts() {
    let sources = Sources::default();
    sources.forbid("b", true);
    let set = NamespaceSet::new(["a"]);
    let (_failing, _running, _) = running(&set, &sources).await;
    let adding = tokio::time::timeout(Duration::from_secs(60), set.add("b")).await;
    assert!(adding.is_err(), "the namespace cannot be listed");
    assert_eq!(set.list(), ["a", "b"]);
    sources.forbid("b", false);
    set.add("b").await.unwrap();

    sources.forbid("c", true);
    let set = NamespaceSet::new(["a"]);
    let degrading = sources.informer(&set, degrading());
    let _running = degrading.start();
    set.add("c").await.unwrap();
    assert_eq!(degrading.status().forbidden().map(|(name, _)| name).collect::<Vec<_>>(), ["c"]);
}

#[tokio::test(start_paused = true)]
async fn mns_011_a_removed_namespace_leaves_the_store_and_handlers_are_told() {
    let sources = Sources::default();
    sources.add("a", "x");
    sources.add("b", "y");
    sources.add("b", "z");
    let set = NamespaceSet::new(["a", "b"]);
    let (informer, _running, recorder) = running(&set, &sources).await;
    sources.of("b").watched(1).await;
    // This change is on its way when the namespace is removed.
    sources.of("b").modify(sources.of("b").objects()[0].clone()).unwrap();
    set.remove("b").await.unwrap();
    let log = recorder.take();
    assert!(log.contains(&"left b/z@2".to_owned()), "{log:?}");
    assert!(log.last().is_some_and(|last| last.starts_with("left b/")), "{log:?}");
    assert_eq!(stored(&informer), ["a/x@1"]);
    assert_eq!(sources.of("b").watches(), 0);
    assert!(!informer.status().namespaces.contains_key("b"));
    sources.add("b", "unseen");
    settle().await;
    assert_eq!(recorder.take(), [""; 0]);
    assert_eq!(sources.lists("a"), 1);

    set.add("b").await.unwrap();
    settle().await;
    assert_eq!(recorder.take_sorted(), ["initial b/unseen@4", "initial b/y@3", "initial b/z@2"]);
}

#[tokio::test(start_paused = true)]
async fn mns_011_remove_returns_when_no_call_runs() {
    for delivery in [Delivery::Every, Delivery::Latest] {
        let sources = Sources::default();
        sources.add("b", "y");
        let set = NamespaceSet::new(["a", "b"]);
        let informer = sources.informer(&set, options());
        let (entered, release) =
            (Arc::new(AtomicBool::new(false)), Arc::new((Mutex::new(false), std::sync::Condvar::new())));
        let handler = {
            let (entered, release) = (Arc::clone(&entered), Arc::clone(&release));
            move |event: Event<Untyped>| {
                if let Event::Delete(deleted) = &event {
                    assert!(deleted.is_out_of_scope());
                    entered.store(true, Ordering::SeqCst);
                    let (is_released, condition) = &*release;
                    drop(condition.wait_while(is_released.lock().unwrap(), |released| !*released).unwrap());
                }
            }
        };
        let options = HandlerOptions::new().may_block().delivery(delivery);
        let stream = informer.subscribe(HandlerOptions::new()).unwrap();
        let registration = informer.add_handler(handler.with(options)).unwrap();
        let running = informer.start();
        // With `Latest`, an addition that is still pending and the removal would cancel each other.
        registration.synced().await.unwrap();
        let removing = tokio::spawn({
            let set = set.clone();
            async move { set.remove("b").await }
        });
        while !entered.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        assert!(!removing.is_finished(), "the call runs");
        *release.0.lock().unwrap() = true;
        release.1.notify_all();
        removing.await.unwrap().unwrap();
        drop(stream);
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_changes_before_the_start_and_after_the_stop() {
    let sources = Sources::default();
    sources.add("a", "x");
    sources.add("b", "y");
    let set = NamespaceSet::new(["a"]);
    let informer = sources.informer(&set, options());
    set.add("b").await.unwrap();
    set.remove("a").await.unwrap();
    let running = informer.start();
    informer.synced().await.unwrap();
    assert_eq!(stored(&informer), ["b/y@1"]);
    running.stop().await;
    set.add("a").await.unwrap();
    set.remove("b").await.unwrap();
    assert_eq!(stored(&informer), ["b/y@1"], "a stopped informer keeps its contents");
    assert!(sources.of("a").requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn mns_002_the_rest_follows_the_set() {
    let sources = Sources::default();
    for (namespace, name) in [("a", "x"), ("b", "y"), ("c", "z")] {
        sources.of("").add(serde_json::json!({"metadata": {"namespace": namespace, "name": name}})).unwrap();
    }
    sources.add("a", "x");
    sources.add("b", "y");
    let set = NamespaceSet::new(["", "a"]);
    let (informer, _running, recorder) = running(&set, &sources).await;
    assert_eq!(*sources.selectors.lock().unwrap(), ["metadata.namespace!=a", ""]);
    assert_eq!(stored(&informer), ["a/x@1", "b/y@2", "c/z@3"]);

    // Its objects stay: another reflector watches them from now on.
    set.add("b").await.unwrap();
    settle().await;
    assert_eq!(sources.selectors.lock().unwrap()[2..], ["metadata.namespace!=a,metadata.namespace!=b", ""]);
    assert_eq!(stored(&informer), ["a/x@1", "b/y@1", "c/z@3"]);
    assert_eq!(recorder.take_sorted(), ["update b/y@2->1", "update c/z@3->3"], "fake versions are independent");
    set.remove("b").await.unwrap();
    settle().await;
    assert_eq!(recorder.take_sorted(), ["update b/y@1->2", "update c/z@3->3"]);
    assert_eq!(stored(&informer), ["a/x@1", "b/y@2", "c/z@3"]);
    assert_eq!(sources.lists("a"), 1);

    set.remove("").await.unwrap();
    assert_eq!(stored(&informer), ["a/x@1"]);
    assert_eq!(recorder.take_sorted(), ["left b/y@2", "left c/z@3"]);
}

/// A source that panics.
struct Panics;

impl ListerWatcher for Panics {
    fn list(&self, _: ListRequest) -> BoxFuture<'_, Result<Box<dyn ListItems>, SourceError>> {
        panic!("a bug in a source")
    }

    fn watch(&self, _: WatchRequest) -> BoxFuture<'_, Result<Box<dyn WatchEvents>, SourceError>> {
        panic!("a bug in a source")
    }
}

#[tokio::test(start_paused = true)]
async fn mns_007_a_source_that_panics_stops_the_informer() {
    let set = NamespaceSet::new(["a", "b"]);
    let sources = Sources::default();
    let fine = sources.of("a");
    let source_of = move |scope: &crate::namespaces::Scope| match &**scope.namespace() {
        "a" => Arc::new(fine.clone()) as Arc<dyn ListerWatcher>,
        _ => Arc::new(Panics),
    };
    let informer = Informer::with_namespaces(&set, source_of, &pods(), options(), "pods".to_owned());
    let _running = informer.start();
    informer.stopped().await;
    assert!(informer.synced().await.is_err());
    assert_eq!(sources.of("a").watches(), 0);
}
