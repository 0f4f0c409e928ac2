//! The hard cases of the contract.

use evenkeel_core::{Reason, Status, StatusCause, StatusDetails};

use super::{gone, ms};
use crate::reflector::testing::*;
use crate::reflector::{OnTransformError, Recovery};
use crate::source::SourceError;

fn lists(fixture: &ReflectorFixture) -> Vec<String> {
    let version = |entry| match entry {
        Entry::List(version, ..) => Some(version),
        _ => None,
    };
    fixture.diary.requests().into_iter().filter_map(version).collect()
}

#[tokio::test(start_paused = true)]
async fn ihc_17_a_version_that_is_too_old_is_replaced_by_the_newest() {
    let script = Script::default()
        .list(list(&[("a", "1")], "10"))
        .watch(refuse_watch(gone()))
        .list(refuse_list(gone()))
        .list(list(&[("a", "1")], "11"))
        .watch(open(vec![]));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(ms(2000)).await;
    assert_eq!(lists(&fixture), ["0", "10", ""]);
    assert_eq!(fixture.status.last_sync_resource_version(), "11");
}

#[tokio::test(start_paused = true)]
async fn ihc_17_a_future_version_is_replaced_by_the_newest() {
    let cause = |reason: &str, message: &str| StatusDetails {
        causes: vec![StatusCause { reason: reason.into(), message: message.into(), ..StatusCause::default() }],
        ..StatusDetails::default()
    };
    let timeout = |message: &str| Status::failure(504, Reason::TIMEOUT, message);
    let shapes = [
        timeout("x").with_details(cause("ResourceVersionTooLarge", "Too large resource version")),
        timeout("x").with_details(cause("", "Too large resource version")),
        timeout("Too large resource version: 40, current: 1"),
    ];
    let mut script = Script::default().list(list(&[], "20"));
    for (shape, version) in shapes.into_iter().zip(["30", "40", "50"]) {
        script = script.watch(refuse_watch(gone())).list(refuse_list(shape)).list(list(&[], version));
    }
    let fixture = ReflectorFixture::listing(script.watch(open(vec![])));
    fixture.pass(ms(60_000)).await;
    assert_eq!(lists(&fixture), ["0", "20", "", "30", "", "40", ""]);
}

#[tokio::test(start_paused = true)]
async fn ihc_18_an_expired_token_causes_one_list_without_pages() {
    let four = [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")];
    let eight = [four, [("e", "5"), ("f", "6"), ("g", "7"), ("h", "8")]].concat();
    let script = Script::default()
        .list(page(&four, "10", ""))
        .watch(refuse_watch(gone()))
        .list(page(&four, "11", "C1"))
        .list(refuse_list(gone()))
        .list(list(&eight, "11"))
        .watch(open(vec![]));
    let fixture = ReflectorFixture::with(script, |builder| builder.watch_list(false).page_size(4));
    fixture.pass(ms(2000)).await;
    let asked = |version: &str, token: &str, limit| Entry::List(version.into(), token.into(), limit);
    let requests: Vec<_> =
        fixture.diary.requests().into_iter().filter(|entry| matches!(entry, Entry::List(..))).collect();
    assert_eq!(requests, [asked("0", "", 4), asked("10", "", 4), asked("", "C1", 4), asked("10", "", 0)]);
    assert_eq!(fixture.store.stored().len(), 8);
}

#[tokio::test(start_paused = true)]
async fn ihc_19_refused_and_failed_watches_reach_the_error_handler() {
    for answer in [refuse_watch(gone()), open(vec![error(gone())])] {
        let script = Script::default()
            .list(list(&[("a", "1")], "10"))
            .watch(answer)
            .list(list(&[("a", "1")], "12"))
            .watch(open(vec![]));
        let fixture = ReflectorFixture::listing(script);
        fixture.pass(ms(799)).await;
        assert_eq!(lists(&fixture), ["0"], "the wait is 0.8 s at least");
        fixture.pass(ms(10)).await;
        assert_eq!(lists(&fixture), ["0", "10"]);
        assert_eq!(fixture.nexts(), [Recovery::Relist { after: ms(800) }], "{:?}", fixture.errors());
        assert_eq!(fixture.store.stored(), ["a@1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn ihc_20_a_busy_server_receives_no_list_request() {
    let mut script = Script::default().list(list(&[], "10"));
    for _ in 0..4 {
        script = script.watch(refuse_watch(too_many()));
    }
    let fixture = ReflectorFixture::listing(script.watch(open(vec![])));
    fixture.pass(ms(60_000)).await;
    let watch = Entry::Watch("10".into());
    let mut expected = vec![Entry::List("0".into(), String::new(), 500)];
    expected.extend(std::iter::repeat_n(watch, 5));
    assert_eq!(fixture.diary.requests(), expected);
}

#[tokio::test(start_paused = true)]
async fn ihc_20_a_watch_with_events_is_followed_at_once() {
    let script = Script::default()
        .list(list(&[], "10"))
        .watch(closed(vec![added("a", "11")], ms(10)))
        .watch(closed(vec![], ms(10)))
        .list(list(&[("a", "11")], "11"))
        .watch(open(vec![]));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(ms(5000)).await;
    let list = |version: &str, limit| Entry::List(version.into(), String::new(), limit);
    let watch = |version: &str| Entry::Watch(version.into());
    assert_eq!(fixture.diary.requests(), [list("0", 500), watch("10"), watch("11"), list("11", 0), watch("11")]);
    let times = fixture.diary.request_times(fixture.start);
    assert_eq!(times[2] - times[1], ms(10), "no wait");
    assert!(times[3] - times[2] >= ms(800), "a wait after one that said nothing");
    assert_eq!(fixture.status.report().short_watches, 1);
}

#[tokio::test(start_paused = true)]
async fn ihc_21_initial_events_of_a_watch_without_version_do_not_move_the_version() {
    let script = Script::default().list(list(&[], "0"));
    let events = script.live();
    let fixture = ReflectorFixture::listing(script);
    events.send(added("a", "7")).unwrap();
    events.send(added("b", "5")).unwrap();
    fixture.settle().await;
    assert_eq!(fixture.status.last_sync_resource_version(), "0");
    events.send(modified("a", "9")).unwrap();
    fixture.settle().await;
    assert_eq!(fixture.status.last_sync_resource_version(), "9");
}

/// Rejects objects named `x`.
fn refusing(object: crate::Object) -> Result<crate::Object, crate::source::BoxError> {
    if object.key().name() == "x" { Err("no x here".into()) } else { Ok(object) }
}

#[tokio::test(start_paused = true)]
async fn ihc_22_an_object_that_cannot_be_transformed_is_skipped_and_reported() {
    let listed = Script::default()
        .list(list(&[("a", "1"), ("x", "2")], "10"))
        .watch(open(vec![added("x", "11"), added("b", "12")]));
    let fixture = ReflectorFixture::with(listed, |builder| builder.watch_list(false).transform(refusing));
    fixture.settle().await;
    assert_eq!(fixture.store.stored(), ["a@1", "b@12"]);
    assert_eq!(fixture.status.last_sync_resource_version(), "12");
    assert_eq!(fixture.errors(), ["failed to transform ns/x: no x here"; 2]);
    assert_eq!(fixture.nexts(), [Recovery::Continue; 2]);

    let streamed = Script::default().watch(open(vec![added("a", "1"), added("x", "2"), all("10"), added("x", "11")]));
    let fixture = ReflectorFixture::with(streamed, |builder| builder.transform(refusing));
    fixture.settle().await;
    assert_eq!(fixture.store.stored(), ["a@1"]);
    assert_eq!(fixture.errors().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn ihc_22_a_policy_fails_the_list_instead_of_skipping_an_object() {
    let script = Script::default()
        .list(list(&[("a", "1"), ("x", "2")], "10"))
        .list(list(&[("a", "1")], "11"))
        .watch(open(vec![added("x", "12")]))
        .list(list(&[("a", "1")], "13"))
        .watch(open(vec![]));
    let fixture = ReflectorFixture::with(script, |builder| {
        builder.watch_list(false).transform(refusing).on_transform_error(OnTransformError::Fail)
    });
    fixture.settle().await;
    assert!(fixture.diary.writes().is_empty(), "nothing of a list with such an object is written");
    fixture.pass(ms(60_000)).await;
    assert_eq!(lists(&fixture), ["0", "0", "12"]);
    let relist = |after| Recovery::Relist { after: ms(after) };
    assert_eq!(fixture.nexts(), [relist(800), relist(1600)]);
}

#[tokio::test(start_paused = true)]
async fn ihc_23_a_watch_list_that_ends_early_is_requested_again() {
    let script =
        Script::default().watch(closed(vec![added("p1", "1")], ms(10))).watch(open(vec![added("p1", "1"), all("1")]));
    let fixture = ReflectorFixture::streaming(script);
    fixture.pass(ms(5000)).await;
    assert_eq!(fixture.diary.requests(), [Entry::WatchList(String::new()), Entry::WatchList(String::new())]);
    assert_eq!(fixture.store.stored(), ["p1@1"]);
    let times = fixture.diary.request_times(fixture.start);
    assert!(times[1] - times[0] >= ms(800), "not as fast as it ends");
}

#[tokio::test(start_paused = true)]
async fn ihc_23_a_bookmark_without_the_annotation_does_not_complete_the_list() {
    let fixture = ReflectorFixture::streaming(Script::default().watch(open(vec![added("p1", "1"), bookmark("1")])));
    fixture.pass(ms(200_000)).await;
    assert!(fixture.diary.writes().is_empty());
    assert_eq!(fixture.status.last_sync_resource_version(), "");
}

#[tokio::test(start_paused = true)]
async fn ihc_24_a_source_without_watch_list_is_listed_and_retried_next_round() {
    let invalid = || refuse_watch(Status::failure(422, Reason::INVALID, "sendInitialEvents is forbidden"));
    let script =
        Script::default().watch(invalid()).list(list(&[], "1")).watch(refuse_watch(gone())).watch(open(vec![all("2")]));
    let fixture = ReflectorFixture::streaming(script);
    fixture.settle().await;
    assert!(fixture.status.report().is_watch_list_unavailable);
    fixture.pass(ms(5000)).await;
    let list = Entry::List("0".into(), String::new(), 500);
    let (stream, watch) = (|version: &str| Entry::WatchList(version.into()), Entry::Watch("1".into()));
    assert_eq!(fixture.diary.requests(), [stream(""), list, watch, stream("1")]);
    assert!(!fixture.status.report().is_watch_list_unavailable);
}

#[tokio::test(start_paused = true)]
async fn ihc_25_each_object_is_transformed_once_in_both_modes() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let streamed = Script::default().watch(open(vec![added("a", "1"), added("b", "2"), all("2"), added("c", "3")]));
    let listed =
        Script::default().list(list(&[("a", "1"), ("b", "2")], "2")).watch(open(vec![added("c", "3")])).no_watch_list();
    for script in [streamed, listed] {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let fixture = ReflectorFixture::with(script, |builder| {
            builder.transform(move |object| {
                counted.fetch_add(1, Ordering::Relaxed);
                Ok(object)
            })
        });
        fixture.settle().await;
        assert_eq!(fixture.store.stored(), ["a@1", "b@2", "c@3"]);
        assert_eq!(calls.load(Ordering::Relaxed), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_refused_is_tried_again_from_the_same_version() {
    let refused = || WatchAnswer::Refuse(SourceError::ConnectionRefused("no listener".into()));
    let script = Script::default().list(list(&[], "10")).watch(refused()).watch(refused()).watch(open(vec![]));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(ms(10_000)).await;
    assert_eq!(lists(&fixture), ["0"]);
    assert_eq!(fixture.nexts(), [Recovery::Rewatch { after: ms(800) }, Recovery::Rewatch { after: ms(1600) }]);
}
