//! WatchList: watches that start with all objects.

use std::time::Duration;

use evenkeel_core::{Reason, Status};

use super::{gone, ms, secs};
use crate::reflector::testing::*;
use crate::reflector::{Recovery, ReflectorPhase};
use crate::source::SourceError;

fn stream(version: &str) -> Entry {
    Entry::WatchList(version.into())
}

fn first_list() -> Entry {
    Entry::List("0".into(), String::new(), 500)
}

/// A stream with an empty initial list, which then fails.
fn synced_then(version: &str, end: Event) -> WatchAnswer {
    open(vec![all(version), end])
}

#[tokio::test(start_paused = true)]
async fn ref_004_a_source_without_watch_list_receives_no_watch_list_request() {
    let fixture = ReflectorFixture::streaming(Script::default().no_watch_list().list(list(&[], "1")));
    fixture.settle().await;
    assert_eq!(fixture.diary.requests()[0], first_list());
    let fixture = ReflectorFixture::listing(Script::default().list(list(&[], "1")));
    fixture.settle().await;
    assert_eq!(fixture.diary.requests()[0], first_list(), "nor one with WatchList disabled");
    let fixture = ReflectorFixture::streaming(Script::default());
    fixture.settle().await;
    assert_eq!(fixture.diary.requests(), [stream("")]);
}

#[tokio::test(start_paused = true)]
async fn wls_001_the_newest_version_is_requested_first_then_not_older_than_the_last() {
    let script = Script::default().watch(synced_then("10", error(gone()))).watch(open(vec![all("11")]));
    let fixture = ReflectorFixture::streaming(script);
    fixture.pass(secs(1)).await;
    assert_eq!(fixture.diary.requests(), [stream(""), stream("10")]);
    assert_eq!(*fixture.timeouts.lock().unwrap(), [secs(300); 2]);
}

#[tokio::test(start_paused = true)]
async fn wls_002_the_bookmark_completes_the_initial_list() {
    let script = Script::default();
    let events = script.live();
    let fixture = ReflectorFixture::streaming(script);
    events.send(added("a", "1")).unwrap();
    events.send(bookmark("2")).unwrap();
    fixture.settle().await;
    assert!(fixture.diary.writes().is_empty());
    assert_eq!(fixture.status.phase(), ReflectorPhase::Listing);
    events.send(all("3")).unwrap();
    fixture.settle().await;
    assert_eq!(fixture.diary.writes(), [Entry::Replace(vec!["a@1".into()], "3".into())]);
    assert_eq!(fixture.status.phase(), ReflectorPhase::Watching);
}

#[tokio::test(start_paused = true)]
async fn wls_003_changes_before_the_bookmark_belong_to_the_initial_list() {
    let events = vec![
        added("a", "1"),
        added("b", "2"),
        added("c", "3"),
        modified("a", "4"),
        deleted("b", "5"),
        added("b", "6"),
        deleted("c", "7"),
        all("7"),
    ];
    let fixture = ReflectorFixture::streaming(Script::default().watch(open(events)));
    fixture.settle().await;
    assert_eq!(fixture.store.stored(), ["a@4", "b@6"]);
}

#[tokio::test(start_paused = true)]
async fn wls_004_the_same_stream_continues_as_the_watch() {
    let fixture =
        ReflectorFixture::streaming(Script::default().watch(open(vec![added("a", "1"), all("2"), modified("a", "3")])));
    fixture.settle().await;
    assert_eq!(fixture.diary.writes(), [Entry::Replace(vec!["a@1".into()], "2".into()), Entry::Update("a@3".into())]);
    assert_eq!(fixture.diary.requests(), [stream("")]);
    assert_eq!(fixture.status.last_sync_resource_version(), "3");
}

#[tokio::test(start_paused = true)]
async fn wls_005_the_version_is_that_of_the_bookmark() {
    let script = Script::default().watch(open(vec![added("a", "8"), modified("a", "9"), all("5")]));
    let fixture = ReflectorFixture::streaming(script);
    fixture.settle().await;
    assert_eq!(fixture.status.last_sync_resource_version(), "5");
}

#[tokio::test(start_paused = true)]
async fn wls_006_objects_keep_the_order_of_their_events() {
    let events = vec![added("c", "1"), added("a", "2"), added("b", "3"), modified("c", "4"), all("4")];
    let fixture = ReflectorFixture::streaming(Script::default().watch(open(events)));
    fixture.settle().await;
    let order = vec!["c@4".into(), "a@2".into(), "b@3".into()];
    assert_eq!(fixture.diary.writes(), [Entry::Replace(order, "4".into())]);
}

#[tokio::test(start_paused = true)]
async fn wls_007_nothing_is_written_before_the_bookmark() {
    let mut fixture =
        ReflectorFixture::streaming(Script::default().watch(open(vec![added("a", "1"), added("b", "2")])));
    fixture.pass(secs(100)).await;
    fixture.stop().await;
    assert!(fixture.diary.writes().is_empty() && fixture.store.stored().is_empty());
}

#[tokio::test(start_paused = true)]
async fn wls_008_a_busy_or_unreachable_server_is_retried_with_backoff() {
    let script = Script::default()
        .watch(refuse_watch(too_many()))
        .watch(WatchAnswer::Refuse(SourceError::ConnectionRefused("refused".into())))
        .watch(open(vec![added("old", "1"), error(too_many())]))
        .watch(open(vec![added("a", "2"), all("2")]));
    let fixture = ReflectorFixture::streaming(script);
    fixture.pass(secs(30)).await;
    assert_eq!(fixture.diary.requests(), [stream(""), stream(""), stream(""), stream("")]);
    assert_eq!(fixture.store.stored(), ["a@2"], "what came before is forgotten");
    let waits = [ms(800), ms(1600), ms(3200)].map(|after| Recovery::Relist { after });
    assert_eq!(fixture.nexts(), waits);
}

#[tokio::test(start_paused = true)]
async fn wls_009_the_backoff_can_be_cancelled() {
    let mut fixture = ReflectorFixture::streaming(Script::default().watch(refuse_watch(too_many())));
    fixture.settle().await;
    assert!(matches!(fixture.status.phase(), ReflectorPhase::Waiting { .. }));
    fixture.stop().await;
    assert_eq!(fixture.status.phase(), ReflectorPhase::Idle);
    assert!(fixture.start.elapsed() < ms(800));
}

#[tokio::test(start_paused = true)]
async fn wls_010_a_version_that_is_too_old_is_replaced_at_once_but_only_the_first_time() {
    let script = Script::default()
        .watch(synced_then("10", error(gone())))
        .watch(refuse_watch(gone()))
        .watch(refuse_watch(gone()))
        .watch(open(vec![error(gone())]))
        .watch(open(vec![all("12")]));
    let fixture = ReflectorFixture::streaming(script);
    fixture.pass(secs(60)).await;
    let requests = fixture.diary.requests();
    assert_eq!(requests, [stream(""), stream("10"), stream(""), stream(""), stream("")]);
    let times = fixture.diary.request_times(fixture.start);
    assert_eq!(times[2] - times[1], ms(0));
    assert!(times[3] - times[2] >= ms(1600) && times[4] - times[3] >= ms(3200), "then it is waited for");
}

#[tokio::test(start_paused = true)]
async fn wls_011_a_watch_list_that_ends_early_is_retried_with_backoff() {
    let script = Script::default()
        .watch(closed(vec![added("gone", "1")], ms(1)))
        .watch(closed(vec![], secs(2)))
        .watch(open(vec![all("9")]));
    let fixture = ReflectorFixture::streaming(script);
    fixture.pass(secs(60)).await;
    let times = fixture.diary.request_times(fixture.start);
    assert_eq!(times, [ms(0), ms(801), ms(801) + secs(2) + ms(1600)]);
    assert!(fixture.store.stored().is_empty(), "what came before is forgotten");
    assert_eq!(fixture.errors(), ["the watch ended before the initial list was complete"; 2]);
}

#[tokio::test(start_paused = true)]
async fn wls_010_each_round_has_its_own_first_time() {
    let round = |script: Script, version: &str| {
        script.watch(refuse_watch(gone())).watch(open(vec![all(version), error(gone())]))
    };
    let script = Script::default().watch(synced_then("10", error(gone())));
    let fixture = ReflectorFixture::streaming(round(round(script, "11"), "12"));
    fixture.pass(secs(60)).await;
    let times = fixture.diary.request_times(fixture.start);
    assert_eq!((times[2] - times[1], times[4] - times[3]), (ms(0), ms(0)));
}

#[tokio::test(start_paused = true)]
async fn wls_011_a_server_that_never_ends_the_initial_events_is_listed() {
    let mut script = Script::default();
    for _ in 0..3 {
        script = script.watch(closed(vec![added("a", "1")], secs(25)));
    }
    let fixture = ReflectorFixture::streaming(script.list(list(&[("a", "1")], "5")).watch(open(vec![])));
    fixture.pass(secs(100)).await;
    let requests = fixture.diary.requests();
    assert_eq!(requests, [stream(""), stream(""), stream(""), first_list(), Entry::Watch("5".into())]);
    assert_eq!(fixture.store.stored(), ["a@1"]);
}

#[tokio::test(start_paused = true)]
async fn wls_012_any_other_error_causes_a_list_at_once() {
    let ends = [
        refuse_watch(Status::failure(422, Reason::INVALID, "sendInitialEvents is forbidden")),
        refuse_watch(Status::failure(403, Reason::FORBIDDEN, "no")),
        closed(vec![], ms(1)),
        open(vec![added("a", "1"), error(Status::internal("broken"))]),
        WatchAnswer::Refuse(SourceError::Connection("lost".into())),
    ];
    for end in ends {
        let script = Script::default().watch(end).list(list(&[("b", "2")], "2")).watch(open(vec![]));
        let fixture = ReflectorFixture::streaming(script);
        fixture.pass(ms(100)).await;
        assert_eq!(fixture.diary.requests()[..2], [stream(""), first_list()]);
        assert_eq!(fixture.store.stored(), ["b@2"]);
        assert_eq!(fixture.nexts(), [Recovery::Relist { after: Duration::ZERO }], "and it is reported");
        assert!(fixture.status.report().is_watch_list_unavailable);
    }
}

#[tokio::test(start_paused = true)]
async fn wls_013_a_stream_is_tried_again_with_each_round() {
    let script = Script::default()
        .watch(refuse_watch(Status::failure(422, Reason::INVALID, "no")))
        .list(refuse_list(Status::failure(503, Reason::SERVICE_UNAVAILABLE, "not yet")))
        .watch(open(vec![all("1")]));
    let fixture = ReflectorFixture::streaming(script);
    fixture.pass(secs(1)).await;
    assert_eq!(fixture.diary.requests(), [stream(""), first_list(), stream("")]);
}

#[tokio::test(start_paused = true)]
async fn wls_014_a_stream_that_ends_after_the_bookmark_is_followed_by_a_watch() {
    let script = Script::default().watch(closed(vec![all("5"), added("a", "6")], ms(10))).watch(open(vec![]));
    let fixture = ReflectorFixture::streaming(script);
    fixture.settle().await;
    fixture.pass(secs(1)).await;
    assert_eq!(fixture.diary.requests(), [stream(""), Entry::Watch("6".into())]);
}

#[tokio::test(start_paused = true)]
async fn ref_009_a_complete_watch_list_counts_as_a_success() {
    let script = Script::default()
        .watch(refuse_watch(too_many()))
        .watch(refuse_watch(too_many()))
        .watch(closed(vec![all("5")], secs(121)))
        .watch(refuse_watch(too_many()))
        .watch(open(vec![]));
    let fixture = ReflectorFixture::streaming(script);
    fixture.pass(secs(200)).await;
    assert_eq!(fixture.nexts()[2], Recovery::Rewatch { after: ms(800) });
}

#[tokio::test(start_paused = true)]
async fn wls_015_an_object_whose_state_is_known_is_not_transformed_again() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let script = Script::default()
        .watch(open(vec![added("a", "1"), added("b", "2"), all("2"), error(gone())]))
        .watch(open(vec![added("a", "1"), added("b", "3"), all("3")]));
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let fixture = ReflectorFixture::with(script, |builder| {
        builder.transform(move |object| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(object)
        })
    });
    fixture.pass(secs(1)).await;
    assert_eq!(fixture.store.stored(), ["a@1", "b@3"]);
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn wls_016_a_stream_without_its_bookmark_is_reported_and_replaced_by_a_list() {
    let (logs, _guard) = Logs::listen();
    let script = Script::default().list(list(&[("a", "1")], "5"));
    let events = script.live();
    let script = script.watch(open(vec![]));
    let fixture = ReflectorFixture::streaming(script);
    events.send(added("a", "1")).unwrap();
    fixture.pass(secs(11)).await;
    assert_eq!(logs.lines(), ["WARN initial list is not complete; still waiting"]);
    let report = fixture.status.report();
    assert_eq!((report.stalls, report.listed), (1, 1));
    assert!(report.last_error.unwrap().message.contains("initial list is not complete"));
    assert!(fixture.errors().is_empty() && fixture.store.stored().is_empty());
    // Events about known objects are no progress.
    events.send(modified("a", "2")).unwrap();
    fixture.pass(secs(20)).await;
    assert_eq!(
        fixture.diary.requests(),
        [stream(""), Entry::List("0".into(), "".into(), 500), Entry::Watch("5".into())]
    );
    assert_eq!(fixture.nexts(), [Recovery::Relist { after: ms(0) }]);
    assert!(fixture.errors()[0].contains("no progress for 30"), "{:?}", fixture.errors());
    assert!(fixture.status.report().is_watch_list_unavailable);
    assert_eq!(fixture.store.stored(), ["a@1"]);
}

#[tokio::test(start_paused = true)]
async fn wls_016_a_slow_stream_is_not_replaced_while_it_grows() {
    let script = Script::default();
    let events = script.live();
    let fixture = ReflectorFixture::streaming(script);
    for name in ["a", "b", "c", "d"] {
        fixture.pass(secs(29)).await;
        events.send(added(name, "1")).unwrap();
    }
    fixture.pass(secs(29)).await;
    events.send(all("1")).unwrap();
    fixture.pass(secs(100)).await;
    assert_eq!(fixture.diary.requests(), [stream("")]);
    assert!(fixture.errors().is_empty());
    assert_eq!((fixture.status.report().stalls, fixture.store.stored().len()), (5, 4));
}

#[tokio::test(start_paused = true)]
async fn ref_028_a_slow_list_is_logged() {
    let (logs, _guard) = Logs::listen();
    let script = Script::default();
    let events = script.live();
    let fixture = ReflectorFixture::streaming(script);
    fixture.pass(secs(12)).await;
    events.send(all("1")).unwrap();
    fixture.settle().await;
    assert!(logs.lines().contains(&"INFO slow list".to_owned()), "{:?}", logs.lines());
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_object_does_not_affect_others() {
    let unreadable = || Err(SourceError::Unreadable(unreadable("x")));
    let script = Script::default().watch(open(vec![unreadable(), added("a", "1"), all("2")]));
    let fixture = ReflectorFixture::streaming(script);
    fixture.settle().await;
    assert_eq!(fixture.store.stored(), ["a@1"]);
    assert_eq!(fixture.nexts(), [Recovery::Continue]);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_initial_object_is_relisted_later() {
    let script = Script::default()
        .watch(open(vec![Err(SourceError::Unreadable(unreadable("x"))), added("a", "1"), all("2")]))
        .watch(open(vec![added("a", "1"), added("x", "2"), all("2")]));
    let fixture = ReflectorFixture::streaming(script);
    fixture.pass(secs(29)).await;
    assert_eq!(fixture.store.stored(), ["a@1"]);
    fixture.pass(secs(2)).await;
    assert_eq!(fixture.store.stored(), ["a@1", "x@2"]);
}

fn checked(listed: ListAnswer) -> ReflectorFixture {
    let events = vec![added("a", "1"), added("b", "2"), modified("a", "3"), all("3"), added("later", "4")];
    let script = Script::default().watch(open(events)).list(listed);
    ReflectorFixture::with(script, |builder| {
        builder.check_consistency(true).transform(|object| match object.key().name() {
            "b" => Err("left out".into()),
            _ => Ok(object),
        })
    })
}

#[tokio::test(start_paused = true)]
async fn cdt_001_a_watch_list_is_compared_with_a_list_of_its_version() {
    let fixture = checked(list(&[("b", "2"), ("a", "3")], "3"));
    fixture.settle().await;
    assert_eq!(fixture.diary.requests(), [stream(""), Entry::List("3".into(), String::new(), 0)]);
    assert_eq!(*fixture.exact.lock().unwrap(), [true]);
    assert_eq!(fixture.errors(), ["failed to transform ns/b: left out"], "nothing but that is wrong");
    assert_eq!(fixture.store.stored(), ["a@3", "later@4"], "the watch goes on meanwhile");
}

#[tokio::test(start_paused = true)]
async fn cdt_002_a_difference_is_reported() {
    let fixture = checked(list(&[("a", "1"), ("c", "2"), ("d", "2")], "3"));
    fixture.settle().await;
    assert_eq!(
        fixture.errors().last().unwrap(),
        "objects differ from the list at version 3: 2 missing, 1 extra, 1 in another state"
    );
    assert_eq!(fixture.nexts().last(), Some(&Recovery::Continue));
}

#[tokio::test(start_paused = true)]
async fn cdt_002_a_failed_list_is_retried_until_its_version_expires() {
    let events = vec![added("a", "1"), all("3")];
    let script = Script::default()
        .watch(open(events))
        .list(refuse_list(Status::internal("broken")))
        .list(refuse_list(gone()))
        .list(list(&[], "3"));
    let fixture = ReflectorFixture::with(script, |builder| builder.check_consistency(true));
    fixture.pass(secs(10)).await;
    assert_eq!(fixture.diary.request_times(fixture.start), [ms(0), ms(0), secs(1)]);
    assert!(fixture.errors().is_empty());
}

#[tokio::test(start_paused = true)]
async fn cdt_002_a_zero_version_is_not_compared() {
    let script = Script::default().watch(open(vec![added("a", "1"), all("0")]));
    let fixture = ReflectorFixture::with(script, |builder| builder.check_consistency(true));
    fixture.pass(secs(10)).await;
    assert_eq!(fixture.diary.requests(), [stream("")]);
}

#[tokio::test(start_paused = true)]
async fn cdt_003_the_compared_list_is_never_a_page() {
    let fixture = ReflectorFixture::with(
        Script::default().watch(open(vec![added("a", "1"), all("3")])).list(list(&[("a", "1")], "3")),
        |builder| builder.check_consistency(true).page_size(1),
    );
    fixture.settle().await;
    assert_eq!(fixture.diary.requests()[1], Entry::List("3".into(), String::new(), 0));
}
