//! Informers that run until their last user is gone, and informers whose kind is gone.

use super::namespaces::Sources;
use super::*;
use crate::NamespaceSet;
use crate::informer::KindGone;

#[tokio::test(start_paused = true)]
async fn dwc_005_an_informer_runs_until_its_last_hold_is_dropped() {
    let source = source();
    let informer = informer_of(&source, options());
    let (first, second) = (informer.hold().unwrap(), informer.hold().unwrap());
    assert!(!informer.is_started(), "handlers are added first");
    first.start();
    second.start();
    informer.synced().await.unwrap();
    drop(first);
    settle().await;
    assert!(!informer.is_stopped());
    second.release().await;
    assert!(informer.is_stopped());
    assert_eq!(source.watches(), 0);
    assert!(informer.hold().unwrap_err().to_string().contains("cannot be held"));
}

#[tokio::test(start_paused = true)]
async fn a_hold_neither_stops_nor_keeps_what_a_start_started() {
    let source = source();
    let informer = informer_of(&source, options());
    let running = informer.start();
    let (one, other) = (informer.hold().unwrap(), informer.hold().unwrap());
    one.start();
    one.release().await;
    settle().await;
    assert!(!informer.is_stopped());
    running.stop().await;
    assert!(informer.is_stopped());
    drop(other);

    let unused = informer_of(&source, options());
    drop(unused.hold().unwrap());
    let _running = unused.start();
    unused.synced().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dwc_004_a_retired_informer_reports_its_objects_as_deleted_and_says_why() {
    let source = source();
    source.add(pod("a")).unwrap();
    source.add(pod("b")).unwrap();
    let (informer, _running, recorder) = started(&source, HandlerOptions::new()).await;
    source.watched(1).await;
    source.delete(pod("a")).unwrap();
    settle().await;
    assert_eq!(informer.gone(), None);
    informer.retire("pods.example.com");
    informer.stopped().await;
    let log = recorder.take();
    assert_eq!(log[2..], ["delete a@3", "missed b@2"], "each once");
    assert!(stored(&informer).is_empty());
    let gone = informer.gone().unwrap();
    assert_eq!((gone.kind.as_str(), gone.definition.as_str()), ("Pod", "pods.example.com"));
    assert!(gone.to_string().contains("CustomResourceDefinition pods.example.com"), "{gone}");
    assert_eq!(informer.status().gone.as_ref(), Some(gone));
    informer.retire("others.example.com");
    assert_eq!(informer.gone().map(|gone: &KindGone| gone.definition.as_str()), Some("pods.example.com"));
}

#[tokio::test(start_paused = true)]
async fn dwc_004_a_retired_informer_of_several_namespaces_reports_all_of_them() {
    let sources = Sources::default();
    sources.add("a", "x");
    sources.add("b", "y");
    let informer = sources.informer(&NamespaceSet::new(["a", "b"]), options());
    let recorder = Recorder::default();
    informer.add_handler(recorder.clone()).unwrap();
    let _running = informer.start();
    recorder.received(2).await;
    recorder.take();
    informer.retire("pods.example.com");
    informer.stopped().await;
    assert_eq!(recorder.take_sorted(), ["missed a/x@1", "missed b/y@1"]);
}

#[tokio::test(start_paused = true)]
async fn dwc_004_an_informer_that_never_listed_reports_nothing() {
    let source = source();
    source.set_list_error(Some(evenkeel_core::Status::not_found("", "pods", "")));
    let informer = informer_of(&source, options());
    let recorder = Recorder::default();
    let registration = informer.add_handler(recorder.clone()).unwrap();
    let _running = informer.start();
    settle().await;
    informer.retire("pods.example.com");
    informer.stopped().await;
    assert!(recorder.take().is_empty() && !registration.has_synced() && !informer.has_synced());
}
