//! Watches: when they are reopened, and the effects of their events.

use std::time::Duration;

use evenkeel_core::{Reason, Status, StreamError};

use super::{gone, listed_at_ten, lists_of, ms, secs, watches_of};
use crate::reflector::Recovery;
use crate::reflector::testing::*;
use crate::source::SourceError;

#[tokio::test(start_paused = true)]
async fn ref_008_every_relist_is_preceded_by_a_wait() {
    let fixture = ReflectorFixture::listing(listed_at_ten().watch(open(vec![error(gone())])).list(list(&[], "11")));
    fixture.pass(ms(799)).await;
    assert_eq!(lists_of(&fixture), 1);
    fixture.pass(ms(2)).await;
    assert_eq!(lists_of(&fixture), 2);
}

#[tokio::test(start_paused = true)]
async fn ref_010_lists_and_watches_wait_by_the_same_rule() {
    let script = listed_at_ten()
        .watch(refuse_watch(too_many()))
        .watch(open(vec![error(too_many())]))
        .watch(refuse_watch(gone()))
        .list(list(&[], "11"))
        .watch(refuse_watch(too_many()))
        .watch(open(vec![]));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(secs(60)).await;
    let waits: Vec<_> = fixture
        .nexts()
        .into_iter()
        .map(|next| match next {
            Recovery::Rewatch { after } | Recovery::Relist { after } => after,
            _ => Duration::ZERO,
        })
        .collect();
    assert_eq!(waits, [ms(800), ms(1600), ms(3200), ms(6400)]);
}

#[tokio::test(start_paused = true)]
async fn ref_009_short_successes_do_not_reset_the_backoff() {
    let mut script = listed_at_ten();
    for _ in 0..12 {
        script = script.watch(refuse_watch(too_many()));
    }
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(secs(600)).await;
    let last = fixture.nexts()[11];
    assert_eq!(last, Recovery::Rewatch { after: secs(30) }, "after four minutes of failures it is not 0.8 s again");
}

#[tokio::test(start_paused = true)]
async fn ref_009_a_period_without_failures_resets_the_backoff() {
    let script = listed_at_ten()
        .watch(refuse_watch(too_many()))
        .watch(refuse_watch(too_many()))
        .watch(closed(vec![added("b", "11")], secs(121)))
        .watch(refuse_watch(too_many()))
        .watch(open(vec![]));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(secs(200)).await;
    assert_eq!(fixture.nexts()[2], Recovery::Rewatch { after: ms(800) });
}

#[tokio::test(start_paused = true)]
async fn ref_014_the_watch_ends_with_the_reflector() {
    let script = listed_at_ten();
    let events = script.live();
    let mut fixture = ReflectorFixture::listing(script);
    fixture.settle().await;
    fixture.stop().await;
    assert!(events.is_closed());
    assert_eq!(fixture.diary.count(|entry| *entry == Entry::Stop), 1);
}

#[tokio::test(start_paused = true)]
async fn ref_029_a_watch_starts_at_the_version_of_the_list_with_at_least_five_minutes() {
    let fixture = ReflectorFixture::listing(listed_at_ten().watch(open(vec![])));
    fixture.settle().await;
    assert_eq!(watches_of(&fixture), ["10"]);
    assert_eq!(*fixture.timeouts.lock().unwrap(), [secs(300)], "of a die that shows the least");
}

#[tokio::test(start_paused = true)]
async fn ref_031_a_reflector_stopped_before_it_starts_sends_no_request() {
    let mut fixture = ReflectorFixture::listing(listed_at_ten());
    fixture.stop().await;
    assert!(fixture.diary.entries().is_empty());
}

#[tokio::test(start_paused = true)]
async fn ref_032_every_watch_is_dropped_when_it_ends() {
    let script = listed_at_ten()
        .watch(closed(vec![added("b", "11")], ms(10)))
        .watch(open(vec![error(too_many())]))
        .watch(open(vec![error(gone())]))
        .list(list(&[], "12"))
        .watch(open(vec![]));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(secs(30)).await;
    assert_eq!(watches_of(&fixture).len(), 4);
    assert_eq!(fixture.diary.count(|entry| *entry == Entry::Stop), 3, "the last one is open");
}

#[tokio::test(start_paused = true)]
async fn ref_033_a_refused_watch_is_retried_without_limit() {
    let mut script = listed_at_ten();
    for _ in 0..50 {
        script = script.watch(WatchAnswer::Refuse(SourceError::ConnectionRefused("refused".into())));
    }
    let fixture = ReflectorFixture::listing(script.watch(open(vec![])));
    fixture.pass(secs(1500)).await;
    assert_eq!((lists_of(&fixture), watches_of(&fixture).len()), (1, 51));
    assert_eq!(fixture.failures.lock().unwrap().len(), 50, "each of them is reported");
}

#[tokio::test(start_paused = true)]
async fn ref_034_a_watch_that_cannot_be_opened_causes_a_relist() {
    let refusals = [
        SourceError::from(gone()),
        Status::failure(403, Reason::FORBIDDEN, "no").into(),
        SourceError::Connection("lost".into()),
    ];
    for refusal in refusals {
        let script = listed_at_ten().watch(WatchAnswer::Refuse(refusal)).list(list(&[], "11")).watch(open(vec![]));
        let fixture = ReflectorFixture::listing(script);
        fixture.pass(secs(1)).await;
        assert_eq!(lists_of(&fixture), 2);
        assert_eq!(fixture.nexts(), [Recovery::Relist { after: ms(800) }]);
    }
}

#[tokio::test(start_paused = true)]
async fn ref_035_a_watch_that_ends_is_followed_by_another_at_once() {
    let script = listed_at_ten().watch(closed(vec![], secs(1))).watch(open(vec![]));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(secs(5)).await;
    assert_eq!((lists_of(&fixture), watches_of(&fixture)), (1, vec!["10".to_owned(), "10".into()]));
    let times = fixture.diary.request_times(fixture.start);
    assert_eq!(times[2] - times[1], secs(1));
    assert!(fixture.errors().is_empty(), "watches end, and that is no failure");
}

#[tokio::test(start_paused = true)]
async fn ref_035_a_lost_connection_is_an_ordinary_end_that_is_reported() {
    for lost in [
        SourceError::Connection("lost".into()),
        SourceError::Garbled(StreamError::Truncated { offset: 1, path: String::new() }),
    ] {
        let script = listed_at_ten().watch(open(vec![added("b", "11"), Err(lost)])).watch(open(vec![]));
        let fixture = ReflectorFixture::listing(script);
        fixture.settle().await;
        assert_eq!((lists_of(&fixture), watches_of(&fixture)), (1, vec!["10".to_owned(), "11".into()]));
        assert_eq!(fixture.nexts(), [Recovery::Rewatch { after: Duration::ZERO }]);
    }
}

#[tokio::test(start_paused = true)]
async fn ref_035_watches_that_repeatedly_end_at_once_are_slowed_down() {
    let mut script = listed_at_ten();
    for version in ["11", "12", "13", "14"] {
        script = script.watch(closed(vec![added("b", version)], ms(1)));
    }
    let fixture = ReflectorFixture::listing(script.watch(open(vec![])));
    fixture.pass(secs(60)).await;
    let times = fixture.diary.request_times(fixture.start);
    let gaps: Vec<_> = times.windows(2).skip(1).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps, [ms(1), ms(11), ms(21), ms(41)]);
    assert_eq!(fixture.errors(), ["the watch ended within a second again"; 3]);
    assert_eq!(lists_of(&fixture), 1);
}

#[tokio::test(start_paused = true)]
async fn ref_036_a_throttled_watch_continues_at_its_version() {
    let script = listed_at_ten().watch(open(vec![added("b", "11"), error(too_many())])).watch(open(vec![]));
    let fixture = ReflectorFixture::listing(script);
    fixture.pass(secs(5)).await;
    assert_eq!((lists_of(&fixture), watches_of(&fixture)), (1, vec!["10".to_owned(), "11".into()]));
    assert_eq!(fixture.nexts(), [Recovery::Rewatch { after: ms(800) }]);
}

fn broken() -> Event {
    error(Status::internal("etcd is away"))
}

#[tokio::test(start_paused = true)]
async fn ref_037_an_internal_error_causes_a_relist_unless_configured_otherwise() {
    let fixture = ReflectorFixture::listing(listed_at_ten().watch(open(vec![broken()])).list(list(&[], "11")));
    fixture.pass(secs(1)).await;
    assert_eq!(lists_of(&fixture), 2);

    let script = listed_at_ten().watch(open(vec![broken()])).watch(open(vec![]));
    let fixture = ReflectorFixture::with(script, |builder| builder.watch_list(false).internal_error_retry(secs(30)));
    fixture.pass(secs(5)).await;
    assert_eq!((lists_of(&fixture), watches_of(&fixture).len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn rwd_004_internal_errors_are_retried_within_the_window_and_relisted_after_it() {
    let mut script = listed_at_ten();
    for _ in 0..8 {
        script = script.watch(open(vec![broken()]));
    }
    let script = script.list(list(&[], "11")).watch(open(vec![]));
    let fixture = ReflectorFixture::with(script, |builder| builder.watch_list(false).internal_error_retry(secs(30)));
    fixture.pass(secs(300)).await;
    let watch = |after| Recovery::Rewatch { after };
    assert_eq!(
        fixture.nexts()[..6],
        [watch(ms(800)), watch(ms(1600)), watch(ms(3200)), watch(ms(6400)), watch(ms(12_800)), watch(ms(25_600)),],
        "not one a second, and not at once"
    );
    assert!(matches!(fixture.nexts()[6], Recovery::Relist { .. }), "50 seconds after the first error");
    assert_eq!(lists_of(&fixture), 2);
}

#[tokio::test(start_paused = true)]
async fn ref_038_any_other_error_of_a_watch_is_reported_and_causes_a_relist() {
    let ends = [
        error(Status::failure(500, "StorageReadError".into(), "cannot be decoded")),
        Err(SourceError::Garbled(StreamError::Closed)),
        Err(SourceError::Other("something".into())),
    ];
    for end in ends {
        let script = listed_at_ten().watch(open(vec![added("b", "11"), end])).list(list(&[], "12")).watch(open(vec![]));
        let fixture = ReflectorFixture::listing(script);
        fixture.pass(secs(1)).await;
        assert_eq!(fixture.diary.requests()[2], Entry::List("11".into(), String::new(), 0));
        assert_eq!(fixture.nexts(), [Recovery::Relist { after: ms(800) }]);
    }
}

#[tokio::test(start_paused = true)]
async fn ref_039_an_expired_watch_causes_a_list_of_that_version() {
    let fixture = ReflectorFixture::listing(listed_at_ten().watch(open(vec![error(gone())])).list(list(&[], "11")));
    fixture.pass(secs(1)).await;
    assert_eq!(fixture.diary.requests()[2], Entry::List("10".into(), String::new(), 0), "not of the newest");
}

#[tokio::test(start_paused = true)]
async fn ref_040_a_very_short_watch_causes_a_relist() {
    let fixture = ReflectorFixture::listing(
        listed_at_ten().watch(closed(vec![], ms(999))).list(list(&[], "11")).watch(open(vec![])),
    );
    fixture.pass(secs(5)).await;
    assert_eq!(fixture.nexts(), [Recovery::Relist { after: ms(800) }]);
    assert_eq!((lists_of(&fixture), fixture.status.report().short_watches), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn ref_041_the_duration_of_a_watch_includes_its_request() {
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
    let script = listed_at_ten().watch(closed(vec![], ms(1))).watch(open(vec![]));
    let diary = script.diary.clone();
    let mut reflector =
        crate::reflector::Reflector::builder(std::sync::Arc::new(Slow(std::sync::Arc::new(script))), pods())
            .watch_list(false)
            .build();
    let _ = tokio::time::timeout(secs(5), reflector.run(&mut Notes::default())).await;
    assert_eq!(diary.count(|entry| matches!(entry, Entry::List(..))), 1, "it was open for a second and more");
}

/// A source whose watch always has more to say.

#[tokio::test(start_paused = true)]
async fn ref_054_without_a_handler_failures_are_logged_by_severity() {
    let (logs, _guard) = Logs::listen();
    let script = listed_at_ten()
        .watch(refuse_watch(gone()))
        .list(refuse_list(Status::failure(403, Reason::FORBIDDEN, "no")))
        .list(list(&[], "11"));
    let mut reflector =
        crate::reflector::Reflector::builder(std::sync::Arc::new(script), pods()).watch_list(false).build();
    let _ = tokio::time::timeout(secs(10), reflector.run(&mut Notes::default())).await;
    assert_eq!(logs.lines(), ["DEBUG the watch ended", "ERROR failed to list or watch"]);
}
