use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use evenkeel_core::{Obj, ObjectKey, Reason, ResourceVersion, Status, Untyped, WatchEvent};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;
use crate::delta::Delta;
use crate::delta_queue::testing::TestSink;
use crate::reflector::{DeltaSink, SinkError};
use crate::source::{ListPart, ListRequest, ListerWatcher, SourceError, WatchEvents, WatchRequest};
use crate::{Deleted, Object};

fn pod(name: &str) -> Value {
    json!({"metadata": {"namespace": "ns", "name": name, "uid": format!("uid-{name}")}})
}

fn pods() -> FakeSource {
    FakeSource::of::<Pod>()
}

/// Polls a future that never waits.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("not at hand"),
    }
}

fn list(source: &FakeSource) -> Result<(Vec<Object>, String), SourceError> {
    let mut items = now(source.list(ListRequest::not_older_than("7")))?;
    let mut objects = Vec::new();
    loop {
        match now(poll_fn(|context| items.poll_next(context)))? {
            ListPart::Object(object) => objects.push(object),
            ListPart::Unreadable(error) => panic!("{error}"),
            ListPart::End { resource_version, continue_token } => {
                assert_eq!(continue_token, "");
                return Ok((objects, resource_version.as_str().to_owned()));
            }
        }
    }
}

fn watch(source: &FakeSource, version: &str) -> Result<Box<dyn WatchEvents>, SourceError> {
    now(source.watch(WatchRequest::from_version(version, Duration::from_secs(300))))
}

fn refused(source: &FakeSource, version: &str) -> SourceError {
    watch(source, version).err().expect("a refusal")
}

fn watch_all(source: &FakeSource, version: &str) -> Result<Box<dyn WatchEvents>, SourceError> {
    let request =
        WatchRequest { initial_events: true, ..WatchRequest::from_version(version, Duration::from_secs(300)) };
    now(source.watch(request))
}

/// Returns all available events of a watch, as text.
fn received(watch: &mut Box<dyn WatchEvents>) -> Vec<String> {
    let mut heard = Vec::new();
    loop {
        match watch.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(Ok(event))) => heard.push(said(&event)),
            Poll::Ready(Some(Err(error))) => heard.push(format!("broken: {error}")),
            Poll::Ready(None) => {
                heard.push("end".into());
                return heard;
            }
            Poll::Pending => return heard,
        }
    }
}

fn said(event: &WatchEvent<Untyped>) -> String {
    let object = |object: &Object| format!("{}@{}", object.key().name(), object.resource_version());
    match event {
        WatchEvent::Added(added) => format!("added {}", object(added)),
        WatchEvent::Modified(modified) => format!("modified {}", object(modified)),
        WatchEvent::Deleted(deleted) => format!("deleted {}", object(deleted)),
        WatchEvent::Bookmark { resource_version, initial_events_end: false } => format!("bookmark {resource_version}"),
        WatchEvent::Bookmark { resource_version, .. } => format!("all @{resource_version}"),
        WatchEvent::Error(status) => format!("error {}", status.message),
    }
}

fn names(objects: &[Object]) -> Vec<String> {
    objects.iter().map(|object| format!("{}@{}", object.key(), object.resource_version())).collect()
}

#[test]
fn fcs_001_every_write_takes_the_next_version() {
    let source = pods();
    let one = source.add(pod("a")).unwrap();
    assert_eq!((one.resource_version(), one.uid()), ("1", "uid-a"));
    let two = source.modify(&one).unwrap();
    assert_eq!(two.resource_version(), "2");
    assert_eq!(one.resource_version(), "1", "what the caller holds stays as it is");
    let mut reborn = pod("a");
    reborn["metadata"]["uid"] = "another".into();
    source.add(reborn).unwrap();
    assert_eq!(names(&source.objects()), ["ns/a@3", "ns/a@2"], "two lives of one name");
    assert_eq!(source.delete(&two).unwrap().resource_version(), "4");
    assert_eq!(names(&source.objects()), ["ns/a@3"]);
    assert_eq!(source.version(), 4);
}

#[test]
fn objects_are_given_as_values_as_json_or_as_objects() {
    let source = pods();
    let mut typed = Pod::default();
    typed.metadata.name = Some("typed".into());
    source.add(&typed).unwrap();
    source.add(typed).unwrap();
    let untyped: Object = source.add(pod("json")).unwrap();
    let same: Obj<Pod> = untyped.cast();
    assert_eq!(source.modify(same).unwrap().kind(), "Pod");
    assert_eq!(names(&source.objects()), ["ns/json@4", "typed@2"]);
    assert!(source.add(json!({"metadata": {}})).is_err(), "it has no name");
    assert_eq!(source.version(), 4, "what is refused takes no version");
}

#[test]
fn fcs_002_events_can_be_lost() {
    let source = pods();
    let mut live = watch(&source, "0").unwrap();
    source.add_without_event(pod("a")).unwrap();
    source.modify_without_event(pod("a")).unwrap();
    source.add_without_event(pod("b")).unwrap();
    let gone = source.delete_without_event(pod("b")).unwrap();
    assert_eq!(gone.resource_version(), "4");
    assert!(received(&mut live).is_empty());
    assert_eq!(names(&source.objects()), ["ns/a@2"]);
    source.modify(pod("a")).unwrap();
    assert_eq!(received(&mut live), ["modified a@5"]);
    let mut late = watch(&source, "1").unwrap();
    assert_eq!(received(&mut late), ["modified a@2", "added b@3", "deleted b@4", "modified a@5"], "history has them");
}

#[test]
fn fcs_003_a_list_ignores_the_requested_version() {
    let source = pods();
    assert_eq!(list(&source).unwrap().1, "0");
    source.add(pod("b")).unwrap();
    source.add(pod("a")).unwrap();
    source.delete(pod("b")).unwrap();
    let (objects, version) = list(&source).unwrap();
    assert_eq!((names(&objects), &*version), (vec!["ns/a@2".to_owned()], "3"));

    source.set_list_error(Some(Status::internal("no")));
    assert!(list(&source).unwrap_err().status().unwrap().is_internal_error());
    assert!(list(&source).is_err(), "until it is reset");
    source.fail_next_list(Status::expired("old"));
    assert!(list(&source).unwrap_err().is_expired(), "the one that is next goes first");
    source.set_list_error(None);
    assert!(list(&source).is_ok());
}

#[test]
fn fcs_004_a_watch_starts_at_the_requested_version() {
    let source = pods();
    source.add(pod("a")).unwrap();
    source.modify(pod("a")).unwrap();
    source.delete(pod("a")).unwrap();
    assert!(received(&mut watch(&source, "3").unwrap()).is_empty(), "nothing but what comes");
    let mut late = watch(&source, "1").unwrap();
    source.add(pod("b")).unwrap();
    assert_eq!(received(&mut late), ["modified a@2", "deleted a@3", "added b@4"], "what was, then what comes");
    assert!(refused(&source, "0").is_expired());
    let future = refused(&source, "5");
    assert!(future.status().unwrap().is_too_large_resource_version(), "{future}");
    for odd in ["", "abc", "-1"] {
        let error = refused(&source, odd);
        assert!(error.status().unwrap().is_bad_request(), "{error}");
    }
    source.reset_watch();
    assert!(refused(&source, "3").is_expired(), "what was is forgotten");
}

#[test]
fn fcs_005_the_version_before_the_first_change_is_too_old() {
    let source = pods();
    assert!(watch(&source, "0").is_ok(), "nothing has happened yet");
    source.add(pod("a")).unwrap();
    assert!(refused(&source, "0").is_expired());
    source.add(pod("b")).unwrap();
    assert_eq!(received(&mut watch(&source, "1").unwrap()), ["added b@2"]);
}

#[test]
fn the_history_is_bounded() {
    let source = pods();
    for _ in 0..10_002 {
        source.modify(pod("a")).unwrap();
    }
    assert!(refused(&source, "2").is_expired());
    assert_eq!(received(&mut watch(&source, "3").unwrap()).len(), 9_999);
}

#[test]
fn fcs_006_a_reset_ends_watches_and_keeps_the_count() {
    let source = pods();
    let mut first = watch(&source, "0").unwrap();
    source.add(pod("a")).unwrap();
    source.reset_watch();
    assert_eq!(received(&mut first), ["added a@1", "end"], "queued events are delivered");
    let mut second = watch(&source, "1").unwrap();
    source.add(pod("b")).unwrap();
    assert_eq!(received(&mut second), ["added b@2"]);
    assert!(refused(&source, "1").is_expired(), "right before the first change that is remembered");
}

#[test]
fn fcs_007_after_a_shutdown_nothing_hangs() {
    let source = pods();
    let mut open = watch(&source, "0").unwrap();
    source.add(pod("a")).unwrap();
    source.shut_down();
    assert_eq!(received(&mut open), ["added a@1", "end"]);
    assert!(matches!(list(&source), Err(SourceError::ConnectionRefused(_))));
    assert!(matches!(refused(&source, "1"), SourceError::ConnectionRefused(_)));
    assert_eq!(source.add(pod("b")).unwrap().resource_version(), "2");
    assert_eq!((source.watches(), source.requests().len()), (0, 3));
    source.shut_down();
}

#[test]
fn fcs_008_watch_list_is_refused_unless_enabled() {
    let source = pods();
    source.add(pod("a")).unwrap();
    assert!(!source.supports_watch_list());
    let error = watch_all(&source, "").err().unwrap();
    assert!(error.status().unwrap().is_bad_request(), "which is where a reflector lists instead");

    let source = source.with_watch_list();
    assert!(source.supports_watch_list());
    source.add(pod("b")).unwrap();
    for version in ["", "0", "1", "2"] {
        assert_eq!(received(&mut watch_all(&source, version).unwrap()), ["added a@1", "added b@2", "all @2"]);
    }
    let mut open = watch_all(&source, "").unwrap();
    source.delete(pod("a")).unwrap();
    assert_eq!(received(&mut open), ["added a@1", "added b@2", "all @2", "deleted a@3"]);
    assert!(watch_all(&source, "9").err().unwrap().status().unwrap().is_too_large_resource_version());
}

#[test]
fn fcs_009_a_watch_that_is_not_read_is_closed_and_blocks_no_write() {
    let source = pods();
    let mut idle = watch(&source, "0").unwrap();
    let mut eager = watch(&source, "0").unwrap();
    for _ in 0..100 {
        source.modify(pod("a")).unwrap();
    }
    assert_eq!(received(&mut eager).len(), 100);
    source.modify(pod("a")).unwrap();
    assert_eq!(received(&mut eager), ["modified a@101"]);
    let heard_late = received(&mut idle);
    assert_eq!((heard_late.len(), &*heard_late[99], &*heard_late[100]), (101, "modified a@100", "end"));
    assert_eq!(received(&mut watch(&source, "100").unwrap()), ["modified a@101"], "the rest is found when asked again");

    let narrow = pods().with_buffer(1);
    let mut idle = watch(&narrow, "0").unwrap();
    narrow.add(pod("a")).unwrap();
    narrow.add(pod("b")).unwrap();
    assert_eq!(received(&mut idle), ["added a@1", "end"]);
}

#[test]
fn fcs_010_a_fake_sink_calls_its_functions_and_records_every_delta() {
    let pod: Object = pods().add(pod("a")).unwrap();
    let mut plain = FakeSink::new();
    plain.add(pod.clone()).unwrap();
    plain.update(pod.clone()).unwrap();
    plain.delete(pod.clone()).unwrap();
    plain.replace(vec![pod.clone()], ResourceVersion::new("5")).unwrap();
    plain.resync().unwrap();
    plain.bookmark(&ResourceVersion::new("6")).unwrap();
    plain.flush().unwrap();
    assert!(plain.known(pod.key()).is_none());
    let deltas = plain.take();
    assert!(
        matches!(
            &*deltas,
            [
                Delta::Added(_),
                Delta::Updated(_),
                Delta::Deleted(Deleted::Observed(_)),
                Delta::ReplacedAll { objects, resource_version },
                Delta::SyncAll,
                Delta::Bookmark(marked),
            ] if objects.len() == 1 && resource_version.as_str() == "5" && marked.as_str() == "6"
        ),
        "{deltas:?}"
    );
    assert!(plain.deltas().is_empty());
    assert_eq!(plain.flushes(), 1);

    let calls = std::sync::Arc::new(AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&calls);
    let known = pod.clone();
    let mut picky = FakeSink::new()
        .on_push(move |delta| {
            count.fetch_add(1, Ordering::Relaxed);
            if matches!(delta, Delta::Added(_)) { Err(SinkError::rejected("no", None)) } else { Ok(()) }
        })
        .known_by(move |key: &ObjectKey| (key == known.key()).then(|| known.clone()));
    assert_eq!(picky.add(pod.clone()).unwrap_err().to_string(), "no");
    assert!(picky.update(pod.clone()).is_ok());
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    assert!(picky.known(pod.key()).is_some_and(|object| object.is_same_state_as(&pod)));
    assert_eq!(picky.deltas().len(), 2, "a rejected delta is recorded as well");
}

#[test]
fn hnd_006_a_deletion_that_was_seen_has_the_version_of_the_deletion() {
    let source = pods();
    let pod = source.add(pod("a")).unwrap();
    let mut open = watch(&source, "1").unwrap();
    source.delete(&pod).unwrap();
    let Poll::Ready(Some(Ok(WatchEvent::Deleted(last)))) = open.poll_next(&mut Context::from_waker(Waker::noop()))
    else {
        panic!("no deletion");
    };
    let deleted = Deleted::from(last);
    assert!(!deleted.is_final_state_unknown());
    assert_eq!(deleted.object().map(|object| object.resource_version()), Some("2"));
}

#[test]
fn watches_receive_bookmarks_errors_and_breaks() {
    let source = pods();
    let mut open = watch(&source, "0").unwrap();
    source.add(pod("a")).unwrap();
    source.bookmark();
    source.send_error(Status::failure(500, Reason::INTERNAL_ERROR, "oops"));
    source.break_watches(|| SourceError::Connection("cut".into()));
    assert_eq!(received(&mut open), ["added a@1", "bookmark 1", "error oops", "broken: cut", "end"]);
    source.fail_next_watch(SourceError::ConnectionRefused("down".into()));
    source.set_watch_error(Some(Status::internal("no")));
    assert!(matches!(refused(&source, "1"), SourceError::ConnectionRefused(_)));
    assert!(refused(&source, "1").status().is_some());
    source.set_watch_error(None);
    assert!(watch(&source, "1").is_ok());
}

#[test]
fn requests_are_kept_in_order() {
    let source = pods();
    list(&source).unwrap();
    watch(&source, "0").unwrap();
    let asked = source.requests();
    assert!(
        matches!(&*asked, [Request::List(list), Request::Watch(watch)]
            if list.resource_version == "7" && watch.resource_version == "0" && !watch.initial_events),
        "{asked:?}"
    );
}

#[tokio::test]
async fn a_test_can_wait_for_watches() {
    let source = pods();
    source.watched(0).await;
    let other = source.clone();
    let waiting = tokio::spawn(async move { other.watched(2).await });
    let first = watch(&source, "0").unwrap();
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    let _second = watch(&source, "0").unwrap();
    waiting.await.unwrap();
    drop(first);
    assert_eq!(source.watches(), 1, "a watch that is dropped is over");
    source.reset_watch();
    assert_eq!(source.watches(), 0);
}
