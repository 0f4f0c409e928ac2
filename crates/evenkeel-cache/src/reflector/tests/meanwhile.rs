//! Resyncs and dead watches, with no events and with too many.

use std::time::Duration;

use super::{gone, listed_at_ten, lists_of, secs, watches_of};
use crate::reflector::testing::*;
use crate::reflector::{Backoff, Recovery, ReflectorPhase};
use crate::source::SourceError;

fn resyncs(fixture: &ReflectorFixture) -> usize {
    fixture.diary.count(|entry| *entry == Entry::Resync)
}

#[tokio::test(start_paused = true)]
async fn ref_050_resyncs_follow_the_period_and_need_one() {
    let script = || listed_at_ten().watch(open(vec![]));
    let fixture = ReflectorFixture::with(script(), |builder| builder.watch_list(false).resync_period(secs(10)));
    fixture.pass(secs(35)).await;
    assert_eq!(resyncs(&fixture), 3);
    let fixture = ReflectorFixture::listing(script());
    fixture.pass(secs(3600)).await;
    assert_eq!(resyncs(&fixture), 0);
}

#[tokio::test(start_paused = true)]
async fn ref_051_resyncs_run_only_during_a_watch() {
    let script = listed_at_ten().watch(refuse_watch(too_many())).watch(WatchAnswer::Hang);
    let curve = Backoff { initial: secs(15), ..Backoff::default() };
    let fixture =
        ReflectorFixture::with(script, |builder| builder.watch_list(false).resync_period(secs(10)).backoff(curve));
    fixture.pass(secs(14)).await;
    assert_eq!(resyncs(&fixture), 1, "while it waits to watch again");
    fixture.pass(secs(11)).await;
    assert_eq!(resyncs(&fixture), 2, "while a watch is being opened");

    let script = listed_at_ten().watch(refuse_watch(gone())).list(list(&[], "11")).watch(open(vec![]));
    let fixture =
        ReflectorFixture::with(script, |builder| builder.watch_list(false).resync_period(secs(10)).backoff(curve));
    fixture.pass(secs(24)).await;
    assert_eq!(resyncs(&fixture), 0, "not while it waits for a list, and from there the period begins anew");
    fixture.pass(secs(2)).await;
    assert_eq!(resyncs(&fixture), 1);
}

#[tokio::test(start_paused = true)]
async fn ref_052_a_resync_sends_no_request() {
    let fixture = ReflectorFixture::with(listed_at_ten().watch(open(vec![])), |builder| {
        builder.watch_list(false).resync_period(secs(10))
    });
    fixture.pass(secs(95)).await;
    assert_eq!((resyncs(&fixture), fixture.diary.requests().len()), (9, 2));
}

#[tokio::test(start_paused = true)]
async fn ref_053_a_failed_resync_is_reported_and_causes_a_relist() {
    let script = listed_at_ten().watch(open(vec![])).list(list(&[], "11")).watch(open(vec![]));
    let store = Notes::default();
    store.failing.lock().unwrap().push("resync");
    let fixture = ReflectorFixture::on(script, store, |builder| builder.watch_list(false).resync_period(secs(10)));
    fixture.pass(secs(12)).await;
    assert_eq!(lists_of(&fixture), 2);
    assert_eq!(fixture.errors(), ["failed to write: resync fails"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_closed_after_its_timeout() {
    let fixture = ReflectorFixture::listing(listed_at_ten().watch(open(vec![added("b", "11")])).watch(open(vec![])));
    fixture.pass(secs(329)).await;
    assert_eq!(watches_of(&fixture).len(), 1);
    fixture.pass(secs(2)).await;
    assert_eq!((lists_of(&fixture), watches_of(&fixture)), (1, vec!["10".to_owned(), "11".into()]));
    assert_eq!(fixture.nexts(), [Recovery::Rewatch { after: Duration::ZERO }]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_request_that_hangs_is_cancelled_in_time() {
    let fixture = ReflectorFixture::listing(listed_at_ten().watch(WatchAnswer::Hang).watch(open(vec![])));
    fixture.pass(secs(331)).await;
    assert_eq!((lists_of(&fixture), watches_of(&fixture).len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_bookmarks_is_reopened() {
    let beats = || {
        let beat = |version: &str| (secs(20), bookmark(version));
        WatchAnswer::Events(vec![beat("11"), beat("12"), beat("13")], Then::Open)
    };
    let how = |silence| {
        move |builder: crate::reflector::ReflectorBuilder| {
            builder.watch_list(false).silence(silence).min_watch_timeout(secs(3600))
        }
    };
    let fixture = ReflectorFixture::with(listed_at_ten().watch(beats()).watch(open(vec![])), how(Some(secs(100))));
    fixture.pass(secs(159)).await;
    assert_eq!(watches_of(&fixture).len(), 1);
    fixture.pass(secs(2)).await;
    assert_eq!((lists_of(&fixture), watches_of(&fixture)), (1, vec!["10".to_owned(), "13".into()]));
    assert_eq!(fixture.errors(), ["the watch was silent for 100s"]);
    fixture.pass(secs(1000)).await;
    assert_eq!(watches_of(&fixture).len(), 2, "the next one has sent no bookmarks, so its silence says nothing");

    let fixture = ReflectorFixture::with(listed_at_ten().watch(beats()), how(None));
    fixture.pass(secs(3000)).await;
    assert_eq!(watches_of(&fixture).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_status_has_phase_and_time_of_the_last_event() {
    let script = listed_at_ten();
    let events = script.live();
    let fixture = ReflectorFixture::listing(script);
    fixture.settle().await;
    assert_eq!(fixture.status.phase(), ReflectorPhase::Watching);
    let heard = fixture.status.report().last_received.unwrap();
    fixture.pass(secs(60)).await;
    assert_eq!(fixture.status.report().last_received, Some(heard), "nothing came");
    events.send(bookmark("12")).unwrap();
    fixture.settle().await;
    let report = fixture.status.report();
    assert!(report.last_received.unwrap() >= heard + secs(60));
    assert_eq!((report.lists, report.watches, report.syncs, report.failures), (1, 1, 1, 0));
}

struct Flood;

impl crate::ListerWatcher for Flood {
    fn list(
        &self,
        _: crate::source::ListRequest,
    ) -> crate::source::BoxFuture<'_, Result<Box<dyn crate::source::ListItems>, SourceError>> {
        Box::pin(async { Err(SourceError::Other("it has only watches".into())) })
    }

    fn watch(
        &self,
        _: crate::source::WatchRequest,
    ) -> crate::source::BoxFuture<'_, Result<Box<dyn crate::source::WatchEvents>, SourceError>> {
        Box::pin(async { Ok(Box::new(Water(false)) as Box<dyn crate::source::WatchEvents>) })
    }
}

struct Water(bool);

impl crate::source::WatchEvents for Water {
    fn poll_next(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Option<Event>> {
        let has_begun = std::mem::replace(&mut self.0, true);
        std::task::Poll::Ready(Some(if has_begun { bookmark("2") } else { all("1") }))
    }
}

#[tokio::test(start_paused = true)]
async fn ref_050_a_flood_of_events_delays_neither_resyncs_nor_other_tasks() {
    let mut reflector =
        crate::reflector::Reflector::builder(std::sync::Arc::new(Flood), pods()).resync_period(secs(10)).build();
    let store = Notes::default();
    let mut target = store.clone();
    let task = tokio::spawn(async move {
        reflector.run(&mut target).await;
    });
    for _ in 0..5 {
        tokio::task::yield_now().await;
    }
    tokio::time::advance(secs(11)).await;
    for _ in 0..5 {
        tokio::task::yield_now().await;
    }
    task.abort();
    assert_eq!(store.diary.count(|entry| *entry == Entry::Resync), 1);
}
