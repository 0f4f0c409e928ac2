//! Watches: when they are asked for again, what their events do, and what happens meanwhile.

use std::time::Duration;

use evenkeel_core::{Reason, Status, StreamError, WatchEvent};

use crate::reflector::testing::*;
use crate::reflector::{Backoff, Next, Phase};
use crate::source::SourceError;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn gone() -> Status {
    Status::expired("too old resource version")
}

/// A list at version 10, to be watched from there.
fn listed() -> Script {
    Script::default().list(list(&[("a", "1")], "10"))
}

fn watches(desk: &Desk) -> Vec<String> {
    let version = |entry| match entry {
        Entry::Watch(version) => Some(version),
        _ => None,
    };
    desk.diary.requests().into_iter().filter_map(version).collect()
}

fn lists(desk: &Desk) -> usize {
    desk.diary.count(|entry| matches!(entry, Entry::List(..)))
}

#[tokio::test(start_paused = true)]
async fn ref_008_there_is_a_wait_after_any_end_that_needs_a_list() {
    let desk = Desk::listing(listed().watch(open(vec![error(gone())])).list(list(&[], "11")));
    desk.pass(ms(799)).await;
    assert_eq!(lists(&desk), 1);
    desk.pass(ms(2)).await;
    assert_eq!(lists(&desk), 2);
}

#[tokio::test(start_paused = true)]
async fn ref_010_lists_and_watches_wait_by_the_same_rule() {
    let script = listed()
        .watch(refuse_watch(too_many()))
        .watch(open(vec![error(too_many())]))
        .watch(refuse_watch(gone()))
        .list(list(&[], "11"))
        .watch(refuse_watch(too_many()))
        .watch(open(vec![]));
    let desk = Desk::listing(script);
    desk.pass(secs(60)).await;
    let waits: Vec<_> = desk
        .nexts()
        .into_iter()
        .map(|next| match next {
            Next::Watch { after } | Next::Relist { after } => after,
            _ => Duration::ZERO,
        })
        .collect();
    assert_eq!(waits, [ms(800), ms(1600), ms(3200), ms(6400)]);
}

#[tokio::test(start_paused = true)]
async fn ref_009_the_waits_stay_long_while_nothing_works_for_long() {
    let mut script = listed();
    for _ in 0..12 {
        script = script.watch(refuse_watch(too_many()));
    }
    let desk = Desk::listing(script);
    desk.pass(secs(600)).await;
    let last = desk.nexts()[11];
    assert_eq!(last, Next::Watch { after: secs(30) }, "after four minutes of failures it is not 0.8 s again");
}

#[tokio::test(start_paused = true)]
async fn ref_009_the_waits_are_short_again_after_a_while_that_worked() {
    let script = listed()
        .watch(refuse_watch(too_many()))
        .watch(refuse_watch(too_many()))
        .watch(closed(vec![added("b", "11")], secs(121)))
        .watch(refuse_watch(too_many()))
        .watch(open(vec![]));
    let desk = Desk::listing(script);
    desk.pass(secs(200)).await;
    assert_eq!(desk.nexts()[2], Next::Watch { after: ms(800) });
}

#[tokio::test(start_paused = true)]
async fn ref_014_the_watch_ends_with_the_reflector() {
    let script = listed();
    let events = script.live();
    let mut desk = Desk::listing(script);
    desk.settle().await;
    desk.stop().await;
    assert!(events.is_closed());
    assert_eq!(desk.diary.count(|entry| *entry == Entry::Stop), 1);
}

#[tokio::test(start_paused = true)]
async fn ref_029_a_watch_begins_where_the_list_ended_and_has_five_minutes_at_least() {
    let desk = Desk::listing(listed().watch(open(vec![])));
    desk.settle().await;
    assert_eq!(watches(&desk), ["10"]);
    assert_eq!(*desk.timeouts.lock().unwrap(), [secs(300)], "of a die that shows the least");
}

#[tokio::test(start_paused = true)]
async fn ref_031_what_is_stopped_before_it_begins_asks_for_nothing() {
    let mut desk = Desk::listing(listed());
    desk.stop().await;
    assert!(desk.diary.entries().is_empty());
}

#[tokio::test(start_paused = true)]
async fn ref_032_every_watch_is_given_up_when_it_is_over() {
    let script = listed()
        .watch(closed(vec![added("b", "11")], ms(10)))
        .watch(open(vec![error(too_many())]))
        .watch(open(vec![error(gone())]))
        .list(list(&[], "12"))
        .watch(open(vec![]));
    let desk = Desk::listing(script);
    desk.pass(secs(30)).await;
    assert_eq!(watches(&desk).len(), 4);
    assert_eq!(desk.diary.count(|entry| *entry == Entry::Stop), 3, "the last one is open");
}

#[tokio::test(start_paused = true)]
async fn ref_033_a_watch_that_is_refused_for_a_while_is_asked_for_again_without_end() {
    let mut script = listed();
    for _ in 0..50 {
        script = script.watch(WatchAnswer::Refuse(SourceError::ConnectionRefused("nobody".into())));
    }
    let desk = Desk::listing(script.watch(open(vec![])));
    desk.pass(secs(1500)).await;
    assert_eq!((lists(&desk), watches(&desk).len()), (1, 51));
    assert_eq!(desk.failures.lock().unwrap().len(), 50, "each of them is told");
}

#[tokio::test(start_paused = true)]
async fn ref_034_a_watch_that_is_refused_for_good_leads_to_a_list() {
    let refusals = [
        SourceError::from(gone()),
        Status::failure(403, Reason::FORBIDDEN, "no").into(),
        SourceError::Connection("lost".into()),
    ];
    for refusal in refusals {
        let script = listed().watch(WatchAnswer::Refuse(refusal)).list(list(&[], "11")).watch(open(vec![]));
        let desk = Desk::listing(script);
        desk.pass(secs(1)).await;
        assert_eq!(lists(&desk), 2);
        assert_eq!(desk.nexts(), [Next::Relist { after: ms(800) }]);
    }
}

#[tokio::test(start_paused = true)]
async fn ref_035_a_watch_that_ends_is_followed_by_another_at_once() {
    let script = listed().watch(closed(vec![], secs(1))).watch(open(vec![]));
    let desk = Desk::listing(script);
    desk.pass(secs(5)).await;
    assert_eq!((lists(&desk), watches(&desk)), (1, vec!["10".to_owned(), "10".into()]));
    let times = desk.diary.request_times(desk.start);
    assert_eq!(times[2] - times[1], secs(1));
    assert!(desk.errors().is_empty(), "watches end, and that is no failure");
}

#[tokio::test(start_paused = true)]
async fn ref_035_a_connection_that_is_lost_is_an_end_like_any_other_but_told() {
    for lost in [
        SourceError::Connection("lost".into()),
        SourceError::Garbled(StreamError::Truncated { offset: 1, path: String::new() }),
    ] {
        let script = listed().watch(open(vec![added("b", "11"), Err(lost)])).watch(open(vec![]));
        let desk = Desk::listing(script);
        desk.settle().await;
        assert_eq!((lists(&desk), watches(&desk)), (1, vec!["10".to_owned(), "11".into()]));
        assert_eq!(desk.nexts(), [Next::Watch { after: Duration::ZERO }]);
    }
}

#[tokio::test(start_paused = true)]
async fn ref_035_watches_that_end_at_once_again_and_again_are_not_asked_for_as_fast() {
    let mut script = listed();
    for version in ["11", "12", "13", "14"] {
        script = script.watch(closed(vec![added("b", version)], ms(1)));
    }
    let desk = Desk::listing(script.watch(open(vec![])));
    desk.pass(secs(60)).await;
    let times = desk.diary.request_times(desk.start);
    let gaps: Vec<_> = times.windows(2).skip(1).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps, [ms(1), ms(801), ms(1601), ms(3201)]);
    assert_eq!(desk.errors(), ["the watch ended within a second again"; 3]);
    assert_eq!(lists(&desk), 1);
}

#[tokio::test(start_paused = true)]
async fn ref_036_a_watch_that_is_told_to_slow_down_goes_on_from_where_it_was() {
    let script = listed().watch(open(vec![added("b", "11"), error(too_many())])).watch(open(vec![]));
    let desk = Desk::listing(script);
    desk.pass(secs(5)).await;
    assert_eq!((lists(&desk), watches(&desk)), (1, vec!["10".to_owned(), "11".into()]));
    assert_eq!(desk.nexts(), [Next::Watch { after: ms(800) }]);
}

fn broken() -> Event {
    error(Status::internal("etcd is away"))
}

#[tokio::test(start_paused = true)]
async fn ref_037_an_internal_error_leads_to_a_list_unless_somebody_wants_otherwise() {
    let desk = Desk::listing(listed().watch(open(vec![broken()])).list(list(&[], "11")));
    desk.pass(secs(1)).await;
    assert_eq!(lists(&desk), 2);

    let script = listed().watch(open(vec![broken()])).watch(open(vec![]));
    let desk = Desk::with(script, |builder| builder.watch_list(false).internal_error_retry(secs(30)));
    desk.pass(secs(5)).await;
    assert_eq!((lists(&desk), watches(&desk).len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn rty_004_there_are_waits_within_the_window_and_a_list_after_it() {
    let mut script = listed();
    for _ in 0..8 {
        script = script.watch(open(vec![broken()]));
    }
    let script = script.list(list(&[], "11")).watch(open(vec![]));
    let desk = Desk::with(script, |builder| builder.watch_list(false).internal_error_retry(secs(30)));
    desk.pass(secs(300)).await;
    let watch = |after| Next::Watch { after };
    assert_eq!(
        desk.nexts()[..6],
        [watch(ms(800)), watch(ms(1600)), watch(ms(3200)), watch(ms(6400)), watch(ms(12_800)), watch(ms(25_600)),],
        "not one a second, and not at once"
    );
    assert!(matches!(desk.nexts()[6], Next::Relist { .. }), "50 seconds after the first error");
    assert_eq!(lists(&desk), 2);
}

#[tokio::test(start_paused = true)]
async fn ref_038_whatever_else_ends_a_watch_is_told_and_leads_to_a_list() {
    let ends = [
        error(Status::failure(500, "StorageReadError".into(), "cannot be decoded")),
        Err(SourceError::Garbled(StreamError::GivenUp)),
        Err(SourceError::Other("something".into())),
    ];
    for end in ends {
        let script = listed().watch(open(vec![added("b", "11"), end])).list(list(&[], "12")).watch(open(vec![]));
        let desk = Desk::listing(script);
        desk.pass(secs(1)).await;
        assert_eq!(desk.diary.requests()[2], Entry::List("11".into(), String::new(), 0));
        assert_eq!(desk.nexts(), [Next::Relist { after: ms(800) }]);
    }
}

#[tokio::test(start_paused = true)]
async fn ref_039_a_watch_whose_version_is_too_old_leads_to_a_list_of_that_version() {
    let desk = Desk::listing(listed().watch(open(vec![error(gone())])).list(list(&[], "11")));
    desk.pass(secs(1)).await;
    assert_eq!(desk.diary.requests()[2], Entry::List("10".into(), String::new(), 0), "not of the newest");
}

#[tokio::test(start_paused = true)]
async fn ref_040_a_watch_that_ends_at_once_and_says_nothing_was_none() {
    let desk = Desk::listing(listed().watch(closed(vec![], ms(999))).list(list(&[], "11")).watch(open(vec![])));
    desk.pass(secs(5)).await;
    assert_eq!(desk.nexts(), [Next::Relist { after: ms(800) }]);
    assert_eq!((lists(&desk), desk.status.report().short_watches), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn ref_041_the_time_to_get_a_watch_is_part_of_its_time() {
    struct Slow(std::sync::Arc<dyn crate::ListerWatcher>);
    impl crate::ListerWatcher for Slow {
        fn list(
            &self,
            request: crate::source::ListRequest,
        ) -> crate::source::BoxFuture<'_, Result<Box<dyn crate::source::ListItems>, SourceError>> {
            self.0.list(request)
        }

        fn watch(
            &self,
            request: crate::source::WatchRequest,
        ) -> crate::source::BoxFuture<'_, Result<Box<dyn crate::source::WatchEvents>, SourceError>> {
            Box::pin(async move {
                tokio::time::sleep(secs(1)).await;
                self.0.watch(request).await
            })
        }
    }
    let script = listed().watch(closed(vec![], ms(1))).watch(open(vec![]));
    let diary = script.diary.clone();
    let mut reflector =
        crate::reflector::Reflector::builder(std::sync::Arc::new(Slow(std::sync::Arc::new(script))), pods())
            .watch_list(false)
            .build();
    let _ = tokio::time::timeout(secs(5), reflector.run(&mut Notes::default())).await;
    assert_eq!(diary.count(|entry| matches!(entry, Entry::List(..))), 1, "it was open for a second and more");
}

#[tokio::test(start_paused = true)]
async fn ref_042_each_event_is_one_write() {
    let events = vec![added("b", "11"), modified("a", "12"), deleted("b", "13"), bookmark("14")];
    let desk = Desk::listing(listed().watch(open(events)));
    desk.settle().await;
    let writes = desk.diary.writes();
    assert_eq!(
        writes[1..],
        [
            Entry::Add("b@11".into()),
            Entry::Update("a@12".into()),
            Entry::Delete("b@13".into()),
            Entry::Bookmark("14".into()),
        ]
    );
    assert_eq!(desk.status.last_sync_resource_version(), "14");
}

#[tokio::test(start_paused = true)]
async fn ref_042_what_is_at_hand_is_written_and_then_flushed_once() {
    let events = (0..2500).map(|number| modified("a", &(11 + number).to_string())).collect();
    let desk = Desk::listing(listed().watch(open(events)));
    desk.settle().await;
    let entries = desk.diary.entries();
    let mut since = 0;
    let mut longest = 0;
    for entry in entries {
        match entry {
            Entry::Update(_) => since += 1,
            Entry::Flush => since = 0,
            _ => {}
        }
        longest = longest.max(since);
    }
    assert_eq!(since, 0, "in the end all is flushed");
    assert!(longest <= 1000 && longest > 1, "{longest}");
}

#[tokio::test(start_paused = true)]
async fn ref_043_events_of_another_kind_are_passed_over_and_do_not_count() {
    let stranger = || pod_from(r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","resourceVersion":"77"}}"#);
    let script = listed().watch(closed(vec![Ok(WatchEvent::Added(stranger()))], ms(10))).list(list(&[], "11"));
    let desk = Desk::listing(script);
    desk.settle().await;
    assert_eq!(desk.store.stored(), ["a@1"]);
    assert_eq!(desk.status.last_sync_resource_version(), "10");
    desk.pass(secs(1)).await;
    assert_eq!(lists(&desk), 2, "so it was a very short watch");
}

#[tokio::test(start_paused = true)]
async fn ref_044_an_event_of_an_unknown_type_ends_the_watch() {
    let unknown = || Err(SourceError::Unreadable(StreamError::UnknownEvent { offset: 0, event: "RENAMED".into() }));
    let script = listed().watch(open(vec![unknown(), added("b", "11")])).list(list(&[], "12")).watch(open(vec![]));
    let desk = Desk::listing(script);
    desk.pass(secs(1)).await;
    assert_eq!(desk.diary.requests()[2], Entry::List("10".into(), String::new(), 0));
    assert_eq!(desk.nexts(), [Next::Relist { after: ms(800) }]);
}

#[tokio::test(start_paused = true)]
async fn ref_045_a_write_that_fails_leads_to_a_list() {
    for write in ["add", "flush"] {
        let script = listed();
        let events = script.live();
        let script = script.list(list(&[("a", "1"), ("b", "11")], "12")).watch(open(vec![]));
        let desk = Desk::listing(script);
        desk.settle().await;
        desk.store.failing.lock().unwrap().push(write);
        events.send(added("b", "11")).unwrap();
        desk.settle().await;
        assert_eq!(desk.nexts(), [Next::Relist { after: ms(800) }], "{write}");
        desk.pass(secs(1)).await;
        assert_eq!(desk.store.stored(), ["a@1", "b@11"]);
    }
}

#[tokio::test(start_paused = true)]
async fn ref_046_the_version_follows_events_and_bookmarks() {
    let script = Script::default().list(list(&[], "1"));
    let events = script.live();
    let desk = Desk::listing(script);
    for (event, version) in
        [(added("a", "10"), "10"), (modified("a", "20"), "20"), (bookmark("30"), "30"), (deleted("a", "40"), "40")]
    {
        events.send(event).unwrap();
        desk.settle().await;
        assert_eq!(desk.status.last_sync_resource_version(), version);
    }
}

#[tokio::test(start_paused = true)]
async fn ref_047_the_version_is_that_of_the_last_event_not_the_largest() {
    let desk = Desk::listing(listed().watch(open(vec![modified("a", "55"), modified("a", "32")])));
    desk.settle().await;
    assert_eq!(desk.status.last_sync_resource_version(), "32");
}

#[tokio::test(start_paused = true)]
async fn ref_049_the_version_is_known_when_it_is_written_not_when_it_is_read() {
    let desk = Desk::listing(listed().watch(open(vec![modified("a", "11")])));
    desk.settle().await;
    let entries = desk.diary.entries();
    let written = entries.iter().position(|entry| *entry == Entry::Update("a@11".into())).unwrap();
    assert!(entries[written..].contains(&Entry::Flush), "the store decides when it is seen");
    assert_eq!(desk.status.last_sync_resource_version(), "11");
}

fn resyncs(desk: &Desk) -> usize {
    desk.diary.count(|entry| *entry == Entry::Resync)
}

#[tokio::test(start_paused = true)]
async fn ref_050_resyncs_come_period_by_period_and_never_without_one() {
    let script = || listed().watch(open(vec![]));
    let desk = Desk::with(script(), |builder| builder.watch_list(false).resync_period(secs(10)));
    desk.pass(secs(35)).await;
    assert_eq!(resyncs(&desk), 3);
    let desk = Desk::listing(script());
    desk.pass(secs(3600)).await;
    assert_eq!(resyncs(&desk), 0);
}

#[tokio::test(start_paused = true)]
async fn ref_051_resyncs_belong_to_watching() {
    let script = listed().watch(refuse_watch(too_many())).watch(WatchAnswer::Hang);
    let curve = Backoff { initial: secs(15), ..Backoff::default() };
    let desk = Desk::with(script, |builder| builder.watch_list(false).resync_period(secs(10)).backoff(curve));
    desk.pass(secs(14)).await;
    assert_eq!(resyncs(&desk), 1, "while it waits to watch again");
    desk.pass(secs(11)).await;
    assert_eq!(resyncs(&desk), 2, "while a watch is being opened");

    let script = listed().watch(refuse_watch(gone())).list(list(&[], "11")).watch(open(vec![]));
    let desk = Desk::with(script, |builder| builder.watch_list(false).resync_period(secs(10)).backoff(curve));
    desk.pass(secs(24)).await;
    assert_eq!(resyncs(&desk), 0, "not while it waits for a list, and from there the period begins anew");
    desk.pass(secs(2)).await;
    assert_eq!(resyncs(&desk), 1);
}

#[tokio::test(start_paused = true)]
async fn ref_052_a_resync_asks_the_server_for_nothing() {
    let desk = Desk::with(listed().watch(open(vec![])), |builder| builder.watch_list(false).resync_period(secs(10)));
    desk.pass(secs(95)).await;
    assert_eq!((resyncs(&desk), desk.diary.requests().len()), (9, 2));
}

#[tokio::test(start_paused = true)]
async fn ref_053_a_resync_that_fails_leads_to_a_list_and_is_told() {
    let script = listed().watch(open(vec![])).list(list(&[], "11")).watch(open(vec![]));
    let store = Notes::default();
    store.failing.lock().unwrap().push("resync");
    let desk = Desk::on(script, store, |builder| builder.watch_list(false).resync_period(secs(10)));
    desk.pass(secs(12)).await;
    assert_eq!(lists(&desk), 2);
    assert_eq!(desk.errors(), ["failed to write: resync fails"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_the_server_does_not_end_is_ended() {
    let desk = Desk::listing(listed().watch(open(vec![added("b", "11")])).watch(open(vec![])));
    desk.pass(secs(329)).await;
    assert_eq!(watches(&desk).len(), 1);
    desk.pass(secs(2)).await;
    assert_eq!((lists(&desk), watches(&desk)), (1, vec!["10".to_owned(), "11".into()]));
    assert_eq!(desk.nexts(), [Next::Watch { after: Duration::ZERO }]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_hangs_before_it_begins_is_given_up_in_time() {
    let desk = Desk::listing(listed().watch(WatchAnswer::Hang).watch(open(vec![])));
    desk.pass(secs(331)).await;
    assert_eq!((lists(&desk), watches(&desk).len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_bookmarks_stay_away_is_dead() {
    let beats = || {
        let beat = |version: &str| (secs(20), bookmark(version));
        WatchAnswer::Events(vec![beat("11"), beat("12"), beat("13")], Then::Open)
    };
    let how = |silence| {
        move |builder: crate::reflector::ReflectorBuilder| {
            builder.watch_list(false).silence(silence).min_watch_timeout(secs(3600))
        }
    };
    let desk = Desk::with(listed().watch(beats()).watch(open(vec![])), how(Some(secs(100))));
    desk.pass(secs(159)).await;
    assert_eq!(watches(&desk).len(), 1);
    desk.pass(secs(2)).await;
    assert_eq!((lists(&desk), watches(&desk)), (1, vec!["10".to_owned(), "13".into()]));
    assert_eq!(desk.errors(), ["nothing was heard of the watch for 100s"]);
    desk.pass(secs(1000)).await;
    assert_eq!(watches(&desk).len(), 2, "the next one has sent no bookmarks, so its silence says nothing");

    let desk = Desk::with(listed().watch(beats()), how(None));
    desk.pass(secs(3000)).await;
    assert_eq!(watches(&desk).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_read_is_passed_over_and_looked_into_later() {
    let script = listed();
    let events = script.live();
    let script = script.list(list(&[("a", "1")], "20"));
    let more = script.live();
    let desk = Desk::listing(script.list(list(&[], "30")).watch(open(vec![])));
    let unreadable = |name| Err(SourceError::Unreadable(unreadable(name)));
    events.send(unreadable("a")).unwrap();
    events.send(added("b", "11")).unwrap();
    desk.settle().await;
    assert_eq!(desk.store.stored(), ["a@1", "b@11"]);
    assert_eq!((desk.status.report().decode_failures, lists(&desk)), (1, 1));
    desk.pass(secs(31)).await;
    assert_eq!(lists(&desk), 2, "it may have been deleted");
    more.send(unreadable("a")).unwrap();
    desk.pass(secs(300)).await;
    assert_eq!(lists(&desk), 2, "not so soon again");
    more.send(added("c", "21")).unwrap();
    desk.pass(secs(400)).await;
    assert_eq!(lists(&desk), 3);
}

#[tokio::test(start_paused = true)]
async fn an_event_of_which_nothing_can_be_read_leads_to_a_list() {
    let mut nameless = unreadable("a");
    if let StreamError::Object { key, .. } = &mut nameless {
        *key = None;
    }
    let script = listed().watch(open(vec![Err(SourceError::Unreadable(nameless))])).list(list(&[], "11"));
    let desk = Desk::listing(script);
    desk.pass(secs(1)).await;
    assert_eq!((lists(&desk), desk.status.report().decode_failures), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_goes_whatever_a_transform_says_of_its_last_state() {
    let script = listed().watch(open(vec![deleted("a", "11"), deleted("never", "12")]));
    let desk = Desk::with(script, |builder| {
        builder.watch_list(false).transform(|object| match object.resource_version() {
            "11" | "12" => Err("no".into()),
            _ => Ok(object),
        })
    });
    desk.settle().await;
    assert!(desk.store.stored().is_empty());
    assert_eq!(desk.diary.writes()[1..], [Entry::Delete("a@1".into())], "as it was last known");
}

#[tokio::test(start_paused = true)]
async fn the_same_version_with_other_contents_is_still_written() {
    let relabelled = pod_from(
        r#"{"metadata":{"namespace":"ns","name":"a","uid":"uid-a","resourceVersion":"1","labels":{"x":"y"}}}"#,
    );
    let desk = Desk::listing(listed().watch(open(vec![Ok(WatchEvent::Modified(relabelled))])));
    desk.settle().await;
    assert_eq!(desk.store.objects.lock().unwrap()[0].label("x"), Some("y"));
}

#[tokio::test(start_paused = true)]
async fn the_status_tells_what_it_does_and_when_it_last_heard() {
    let script = listed();
    let events = script.live();
    let desk = Desk::listing(script);
    desk.settle().await;
    assert_eq!(desk.status.phase(), Phase::Watching);
    let heard = desk.status.report().last_heard.unwrap();
    desk.pass(secs(60)).await;
    assert_eq!(desk.status.report().last_heard, Some(heard), "nothing came");
    events.send(bookmark("12")).unwrap();
    desk.settle().await;
    let report = desk.status.report();
    assert!(report.last_heard.unwrap() >= heard + secs(60));
    assert_eq!((report.lists, report.watches, report.syncs, report.failures), (1, 1, 1, 0));
}
