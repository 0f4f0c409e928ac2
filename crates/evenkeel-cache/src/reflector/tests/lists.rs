//! Lists: versions, pages, and what is written.

use evenkeel_core::{Reason, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{gone, ms};
use crate::reflector::testing::*;
use crate::reflector::{Backoff, OnTransformError, Recovery, Reflector, ReflectorPhase};
use crate::source::{ListPart, SourceError};

fn lists(fixture: &ReflectorFixture) -> Vec<(String, String, u32)> {
    let list = |entry| match entry {
        Entry::List(version, token, limit) => Some((version, token, limit)),
        _ => None,
    };
    fixture.diary.requests().into_iter().filter_map(list).collect()
}

fn asked(version: &str, token: &str, limit: u32) -> (String, String, u32) {
    (version.into(), token.into(), limit)
}

#[tokio::test(start_paused = true)]
async fn ref_001_the_default_name_of_a_reflector_is_its_resource() {
    let named = |builder: fn(crate::reflector::ReflectorBuilder) -> crate::reflector::ReflectorBuilder| {
        builder(Reflector::builder(Arc::new(Script::default()), pods())).build().name().to_owned()
    };
    assert_eq!(named(|builder| builder), "pods");
    assert_eq!(named(|builder| builder.name("mine")), "mine");
}

#[tokio::test(start_paused = true)]
async fn ref_002_objects_without_a_kind_are_of_the_requested_kind() {
    let silent = pod("a", "1");
    let outspoken = pod_from(r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"b","resourceVersion":"2"}}"#);
    let parts = [silent, outspoken].into_iter().map(|object| Ok(ListPart::Object(object)));
    let parts = parts.chain([end("9", "")]).collect();
    let fixture = ReflectorFixture::listing(Script::default().list(ListAnswer::Parts(parts)).watch(open(vec![])));
    fixture.settle().await;
    assert_eq!(fixture.store.stored(), ["a@1", "b@2"]);
    let other = pod_from(r#"{"kind":"Pod","apiVersion":"v2","metadata":{"name":"c","resourceVersion":"3"}}"#);
    let parts = vec![Ok(ListPart::Object(other)), end("9", "")];
    let fixture = ReflectorFixture::listing(Script::default().list(ListAnswer::Parts(parts)));
    fixture.settle().await;
    assert_eq!(fixture.errors(), ["expected v1 Pod, but c is v2 Pod"]);
}

#[tokio::test(start_paused = true)]
async fn ref_026_an_object_of_another_kind_fails_the_list() {
    let other_kind = || pod_from(r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","resourceVersion":"3"}}"#);
    let parts = vec![Ok(ListPart::Object(other_kind())), Ok(ListPart::Object(pod("a", "1"))), end("9", "")];
    let fixture = ReflectorFixture::listing(Script::default().list(ListAnswer::Parts(parts)).watch(open(vec![])));
    fixture.settle().await;
    assert!(fixture.store.stored().is_empty());
    assert_eq!(fixture.nexts(), [Recovery::Relist { after: ms(800) }]);
}

#[tokio::test(start_paused = true)]
async fn ref_026_partial_metadata_is_accepted_if_it_was_requested() {
    let partial = || {
        pod_from(
            r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",
                "metadata":{"name":"a","resourceVersion":"1"}}"#,
        )
    };
    let script = || {
        let parts = vec![Ok(ListPart::Object(partial())), end("9", "")];
        Script::default().list(ListAnswer::Parts(parts)).watch(open(vec![]))
    };
    let fixture = ReflectorFixture::listing(script().metadata_only());
    fixture.settle().await;
    assert_eq!(fixture.store.stored(), ["a@1"]);
    let fixture = ReflectorFixture::listing(script());
    fixture.settle().await;
    assert!(fixture.store.stored().is_empty());
}

#[tokio::test(start_paused = true)]
async fn ref_006_a_failure_is_reported_with_backoff_and_the_first_attempt_is_immediate() {
    let script = Script::default()
        .list(refuse_list(Status::failure(500, Reason::INTERNAL_ERROR, "broken")))
        .list(list(&[("a", "1")], "10"))
        .watch(open(vec![]));
    let fixture = ReflectorFixture::listing(script);
    fixture.settle().await;
    assert_eq!(fixture.errors(), ["failed to list: broken"]);
    assert!(matches!(fixture.status.phase(), ReflectorPhase::Waiting { until } if until == fixture.start + ms(800)));
    fixture.pass(ms(1000)).await;
    let times = fixture.diary.request_times(fixture.start);
    assert_eq!(times[..2], [ms(0), ms(800)]);
    assert_eq!(fixture.store.stored(), ["a@1"]);
    assert_eq!(fixture.status.phase(), ReflectorPhase::Watching);
}

#[tokio::test(start_paused = true)]
async fn ref_011_the_waits_follow_the_configured_backoff() {
    let mut script = Script::default();
    for _ in 0..5 {
        script = script.list(refuse_list(Status::failure(503, Reason::SERVICE_UNAVAILABLE, "not yet")));
    }
    let script = script.list(list(&[], "10")).watch(open(vec![]));
    let curve = Backoff { initial: ms(10), factor: 2.0, cap: ms(100), jitter: 0.0, ..Backoff::default() };
    let fixture = ReflectorFixture::with(script, |builder| builder.watch_list(false).backoff(curve));
    fixture.pass(ms(1000)).await;
    let times = fixture.diary.request_times(fixture.start);
    assert_eq!(times[5], ms(250), "five failures");
    assert_eq!(fixture.status.last_sync_resource_version(), "10");
}

#[tokio::test(start_paused = true)]
async fn ref_012_waits_follow_the_clock_of_the_runtime() {
    let script = Script::default().list(refuse_list(gone())).list(refuse_list(gone())).list(list(&[], "1"));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(ms(900)).await;
    assert_eq!(fixture.diary.request_times(fixture.start)[2], ms(800), "virtual time is all the time there is");
}

#[tokio::test(start_paused = true)]
async fn ref_013_a_reflector_that_does_not_run_sends_no_request() {
    let script = Script::default().list(list(&[], "10"));
    let diary = script.diary.clone();
    let mut reflector = Reflector::builder(Arc::new(script), pods()).build();
    let mut store = Notes::default();
    drop(reflector.run(&mut store));
    assert!(diary.requests().is_empty());
    assert_eq!(reflector.status().phase(), ReflectorPhase::Idle);
}

#[tokio::test(start_paused = true)]
async fn ref_015_a_panic_surfaces_where_the_reflector_is_run() {
    /// A sink with a defect.
    struct Broken;
    impl crate::reflector::DeltaSink for Broken {
        fn push(&mut self, _: crate::delta::Delta) -> Result<(), crate::reflector::SinkError> {
            panic!("a broken sink")
        }
    }
    let script = Script::default().list(list(&[("a", "1")], "10"));
    let mut reflector = Reflector::builder(Arc::new(script), pods()).watch_list(false).build();
    let task = tokio::spawn(async move {
        reflector.run(&mut Broken).await;
    });
    assert!(task.await.unwrap_err().is_panic());
}

#[tokio::test(start_paused = true)]
async fn ref_016_the_first_list_accepts_any_version_and_the_next_is_not_older_than_the_last_event() {
    let script = Script::default()
        .list(list(&[], "10"))
        .watch(open(vec![added("a", "12"), error(gone())]))
        .list(list(&[("a", "12")], "15"))
        .watch(open(vec![]));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(ms(2000)).await;
    assert_eq!(lists(&fixture), [asked("0", "", 500), asked("12", "", 0)]);
}

#[tokio::test(start_paused = true)]
async fn ref_017_pages_are_requested_for_the_first_list_or_with_a_page_size() {
    let relisted = || {
        Script::default().list(list(&[], "10")).watch(refuse_watch(gone())).list(list(&[], "11")).watch(open(vec![]))
    };
    let fixture = ReflectorFixture::listing(relisted());
    fixture.pass(ms(2000)).await;
    assert_eq!(lists(&fixture), [asked("0", "", 500), asked("10", "", 0)]);
    let fixture = ReflectorFixture::with(relisted(), |builder| builder.watch_list(false).page_size(7));
    fixture.pass(ms(2000)).await;
    assert_eq!(lists(&fixture), [asked("0", "", 7), asked("10", "", 7)]);
}

#[tokio::test(start_paused = true)]
async fn ref_018_a_server_that_pages_cached_lists_receives_limits() {
    let script = Script::default()
        .list(page(&[("a", "1")], "10", "more"))
        .list(page(&[("b", "2")], "10", ""))
        .watch(refuse_watch(gone()))
        .list(list(&[], "11"))
        .watch(refuse_watch(gone()))
        .list(list(&[], "12"))
        .watch(open(vec![]));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(ms(10_000)).await;
    assert_eq!(
        lists(&fixture),
        [asked("0", "", 500), asked("", "more", 500), asked("10", "", 500), asked("11", "", 500)]
    );
}

#[tokio::test(start_paused = true)]
async fn ref_018_pages_of_a_consistent_list_do_not_imply_paged_cached_lists() {
    let script = Script::default()
        .list(list(&[], "10"))
        .watch(refuse_watch(gone()))
        .list(refuse_list(gone()))
        .list(page(&[("a", "1")], "11", "more"))
        .list(page(&[("b", "2")], "11", ""))
        .watch(refuse_watch(gone()))
        .list(list(&[], "12"))
        .watch(open(vec![]));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(ms(10_000)).await;
    assert_eq!(lists(&fixture)[4], asked("11", "", 0));
}

#[tokio::test(start_paused = true)]
async fn ref_019_the_newest_version_is_listed_once_then_backoff() {
    let script = Script::default()
        .list(list(&[], "10"))
        .watch(refuse_watch(gone()))
        .list(refuse_list(gone()))
        .list(refuse_list(gone()));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(ms(1000)).await;
    assert_eq!(lists(&fixture).len(), 3, "0, 10 and the newest");
    fixture.pass(ms(2000)).await;
    assert_eq!(lists(&fixture)[3], asked("", "", 500), "the next round goes for the newest, after a wait");
}

#[tokio::test(start_paused = true)]
async fn ref_020_a_timeout_is_not_a_version_that_is_too_large() {
    let script = Script::default()
        .list(list(&[], "10"))
        .watch(refuse_watch(gone()))
        .list(refuse_list(Status::failure(504, Reason::TIMEOUT, "took too long")));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(ms(3000)).await;
    assert_eq!(lists(&fixture), [asked("0", "", 500), asked("10", "", 0), asked("10", "", 0)]);
}

#[tokio::test(start_paused = true)]
async fn ref_021_the_newest_version_is_listed_in_pages() {
    let script = Script::default()
        .list(list(&[], "10"))
        .watch(refuse_watch(gone()))
        .list(refuse_list(gone()))
        .list(list(&[], "12"));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(ms(1000)).await;
    assert_eq!(lists(&fixture), [asked("0", "", 500), asked("10", "", 0), asked("", "", 500)]);
}

#[tokio::test(start_paused = true)]
async fn ref_022_a_successful_list_makes_the_version_usable_again() {
    let script = Script::default()
        .list(list(&[], "10"))
        .watch(refuse_watch(gone()))
        .list(refuse_list(gone()))
        .list(list(&[], "12"))
        .watch(refuse_watch(gone()))
        .list(list(&[], "13"));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(ms(10_000)).await;
    assert_eq!(lists(&fixture)[3], asked("12", "", 0));
}

#[tokio::test(start_paused = true)]
async fn ref_025_a_failed_store_write_keeps_the_version() {
    let script = Script::default().list(list(&[("a", "1")], "10")).list(list(&[("a", "1")], "11")).watch(open(vec![]));
    let store = Notes::default();
    store.failing.lock().unwrap().push("replace");
    let fixture = ReflectorFixture::on(script, store, |builder| builder.watch_list(false));
    fixture.settle().await;
    assert_eq!(fixture.status.last_sync_resource_version(), "");
    assert_eq!(fixture.errors(), ["failed to write: replace fails"]);
    fixture.pass(ms(1000)).await;
    assert_eq!(lists(&fixture), [asked("0", "", 500), asked("0", "", 500)]);
    assert_eq!(fixture.status.last_sync_resource_version(), "11");
}

#[tokio::test(start_paused = true)]
async fn ref_027_dropping_the_reflector_cancels_its_list() {
    let mut fixture = ReflectorFixture::listing(Script::default().list(ListAnswer::Hang));
    fixture.settle().await;
    assert_eq!(fixture.status.phase(), ReflectorPhase::Listing);
    fixture.stop().await;
    assert_eq!(fixture.status.phase(), ReflectorPhase::Idle);
    assert!(fixture.diary.writes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn pag_001_the_default_page_size_is_five_hundred() {
    let fixture = ReflectorFixture::listing(Script::default().list(list(&[], "1")));
    fixture.settle().await;
    assert_eq!(lists(&fixture), [asked("0", "", 500)]);
}

#[tokio::test(start_paused = true)]
async fn pag_002_later_pages_have_a_token_and_no_version() {
    let script = Script::default()
        .list(page(&[("a", "1")], "10", "t1"))
        .list(page(&[("b", "2")], "11", "t2"))
        .list(page(&[("c", "3")], "12", ""))
        .watch(open(vec![]));
    let fixture = ReflectorFixture::listing(script);
    fixture.settle().await;
    assert_eq!(lists(&fixture), [asked("0", "", 500), asked("", "t1", 500), asked("", "t2", 500)]);
    let all = vec!["a@1".to_owned(), "b@2".into(), "c@3".into()];
    assert_eq!(fixture.diary.writes(), [Entry::Replace(all, "10".into())], "one write, at the first page's version");
}

#[tokio::test(start_paused = true)]
async fn pag_003_the_version_of_a_list_is_that_of_its_first_page() {
    let script = Script::default().list(page(&[], "10", "t1")).list(page(&[], "99", "")).watch(open(vec![]));
    let fixture = ReflectorFixture::listing(script);
    fixture.settle().await;
    assert_eq!(fixture.status.last_sync_resource_version(), "10");
}

#[tokio::test(start_paused = true)]
async fn pag_004_only_an_expired_token_causes_a_list_without_pages() {
    let script = Script::default()
        .list(page(&[("a", "1")], "10", "t1"))
        .list(refuse_list(Status::failure(500, Reason::INTERNAL_ERROR, "broken")))
        .list(list(&[("a", "1")], "11"))
        .watch(open(vec![]));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(ms(1000)).await;
    assert_eq!(lists(&fixture), [asked("0", "", 500), asked("", "t1", 500), asked("0", "", 500)]);
    assert_eq!(fixture.store.stored(), ["a@1"], "what came of the first try is not in it twice");
}

#[tokio::test(start_paused = true)]
async fn pag_005_a_stored_object_keeps_nothing_else_in_memory() {
    let whole = bytes::Bytes::from(format!(r#"{{"metadata":{{"name":"a"}}}}{}"#, " ".repeat(10_000)));
    let slice = crate::Object::from_json(&pods(), whole.slice(..25)).unwrap();
    let parts = vec![Ok(ListPart::Object(slice)), end("9", "")];
    let script = Script::default().list(ListAnswer::Parts(parts)).watch(open(vec![]));
    let fixture = ReflectorFixture::with(script, |builder| builder.watch_list(false).transform(Ok));
    fixture.settle().await;
    let stored = fixture.store.objects.lock().unwrap()[0].clone();
    assert!(
        !whole.as_ptr_range().contains(&stored.raw().unwrap().as_ptr()),
        "not even if a transform handed it through"
    );
}

#[tokio::test(start_paused = true)]
async fn cyclic_pages_are_an_error() {
    let script = Script::default().list(page(&[], "10", "t1")).list(page(&[], "10", "t1")).list(list(&[], "10"));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(ms(1000)).await;
    assert_eq!(fixture.errors(), ["endless list: a continue token repeats"]);
    assert_eq!(lists(&fixture)[2], asked("0", "", 500));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_has_not_changed_is_the_one_that_is_stored() {
    let script = Script::default()
        .list(list(&[("a", "1"), ("b", "2")], "10"))
        .watch(refuse_watch(gone()))
        .list(list(&[("a", "1"), ("b", "3")], "11"))
        .watch(open(vec![]));
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let fixture = ReflectorFixture::with(script, |builder| {
        builder.watch_list(false).transform(move |object| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(object)
        })
    });
    fixture.settle().await;
    let before = fixture.store.objects.lock().unwrap()[0].clone();
    fixture.pass(ms(1000)).await;
    let after = fixture.store.objects.lock().unwrap()[0].clone();
    assert!(std::ptr::eq(before.header(), after.header()), "the very same");
    assert_eq!(calls.load(Ordering::Relaxed), 3, "a and b, and then b again");
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_object_keeps_its_stored_state() {
    let second = vec![
        Ok(ListPart::Unreadable(unreadable("a"))),
        Ok(ListPart::Unreadable(unreadable("unknown"))),
        Ok(ListPart::Object(pod("b", "2"))),
        end("11", ""),
    ];
    let script = Script::default()
        .list(list(&[("a", "1")], "10"))
        .watch(refuse_watch(gone()))
        .list(ListAnswer::Parts(second))
        .watch(open(vec![]));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(ms(1000)).await;
    assert_eq!(fixture.store.stored(), ["a@1", "b@2"]);
    let report = fixture.status.report();
    assert_eq!((report.decode_failures, report.failures), (2, 3));
}

#[tokio::test(start_paused = true)]
async fn ctl_027_an_object_may_be_kept_untransformed() {
    let script = Script::default().list(list(&[("x", "1")], "10")).watch(open(vec![modified("x", "11")]));
    let fixture = ReflectorFixture::with(script, |builder| {
        builder.watch_list(false).transform(|_| Err("no".into())).on_transform_error(OnTransformError::KeepRaw)
    });
    fixture.settle().await;
    assert_eq!(fixture.store.stored(), ["x@11"]);
    assert_eq!(fixture.errors().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn ctl_027_a_transform_must_not_change_the_identity() {
    let fixture =
        ReflectorFixture::with(Script::default().list(list(&[("x", "1")], "10")).watch(open(vec![])), |builder| {
            builder.watch_list(false).transform(|_| Ok(pod("y", "1")))
        });
    fixture.settle().await;
    assert!(fixture.store.stored().is_empty());
    assert_eq!(fixture.errors(), ["the transform changed the key of ns/x to ns/y"]);
}

#[tokio::test(start_paused = true)]
async fn ref_055_the_error_handler_is_called_before_the_backoff() {
    let script = Script::default().list(ListAnswer::Refuse(SourceError::Connection("lost".into())));
    let fixture = ReflectorFixture::listing(script);
    fixture.settle().await;
    assert_eq!(fixture.nexts(), [Recovery::Relist { after: ms(800) }]);
    assert_eq!(fixture.diary.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn retry_after_of_the_server_is_obeyed() {
    let mut busy = too_many();
    busy.details = Some(evenkeel_core::StatusDetails { retry_after_seconds: 20, ..Default::default() });
    let script = Script::default().list(refuse_list(busy)).list(list(&[], "10"));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(ms(30_000)).await;
    assert_eq!(fixture.diary.request_times(fixture.start)[1], ms(20_000));
}

#[tokio::test(start_paused = true)]
async fn a_restarted_reflector_continues_at_its_version() {
    let script = Script::default().list(list(&[], "10")).watch(open(vec![added("a", "12")])).list(list(&[], "13"));
    let diary = script.diary.clone();
    let mut reflector = Reflector::builder(Arc::new(script), pods()).watch_list(false).build();
    let mut store = Notes::default();
    for _ in 0..2 {
        let _ = tokio::time::timeout(ms(100), reflector.run(&mut store)).await;
    }
    let list = |version: &str, limit| Entry::List(version.into(), String::new(), limit);
    assert_eq!(diary.requests()[..3], [list("0", 500), Entry::Watch("10".into()), list("12", 0)]);
}
