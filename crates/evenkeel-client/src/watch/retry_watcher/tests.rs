use std::time::Duration;

use bytes::Bytes;
use evenkeel_core::codec::{Codec, WatchDecoder};
use evenkeel_core::{DecodeError, Reason, ResourceInfo, Status, StatusDetails, StreamError};
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use tokio::time::Instant;

use super::super::testing::{Event, Log, Scripted, api_error, bookmark, pod, short, source, version};
use super::machine::{MIN_INTERVAL, WatchAction, WatchMachine};
use super::*;
use crate::error::RequestName;
use crate::rest::RequestError;
use crate::transport::{TransportError, TransportFault};

fn added(version: &str) -> Event {
    WatchEvent::Added(pod("a", version))
}

fn error_event(code: u16, reason: Reason) -> Event {
    WatchEvent::Error(Box::new(Status::failure(code, reason, "")))
}

fn request() -> RequestName {
    RequestName::new(&http::Method::GET, "/api/v1/pods")
}

/// Collects all events.
async fn drain<W: WatchSource<Pod>>(watcher: &mut RetryWatcher<Pod, W>) -> Vec<String> {
    let mut events = Vec::new();
    while let Some(event) = watcher.next().await {
        events.push(short(&event));
    }
    events
}

/// Collects the first events.
async fn take<W: WatchSource<Pod>>(watcher: &mut RetryWatcher<Pod, W>, count: usize) -> Vec<String> {
    let mut events = Vec::new();
    while events.len() < count {
        events.push(short(&watcher.next().await.unwrap()));
    }
    events
}

#[test]
fn rw_001_no_version_and_zero_are_refused() {
    for from in ["", "0"] {
        let watch = |_: ResourceVersion| std::future::ready(Ok(Scripted::of([])));
        let error = RetryWatcher::<Pod, _>::new(&version(from), watch).unwrap_err();
        assert!(matches!(error, Error::Request(RequestError::Invalid { .. })));
        assert!(error.to_string().contains(&format!("resource version {from:?}")), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn rw_002_changes_are_in_order_and_bookmarks_advance_the_version_only() {
    let log = Log::new();
    let watch = source(&log, |nth, _| {
        Ok(match nth {
            0 => Scripted::of([
                added("11"),
                WatchEvent::Modified(pod("a", "12")),
                WatchEvent::Deleted(pod("a", "14")),
                bookmark("20"),
            ]),
            _ => Scripted::of([]).open(),
        })
    });
    let mut watcher = RetryWatcher::new(&version("10"), watch).unwrap();
    assert_eq!(take(&mut watcher, 3).await, ["+11", "~12", "-14"]);
    assert_eq!(watcher.resource_version(), "14");
    assert!(tokio::time::timeout(MIN_INTERVAL * 2, watcher.next()).await.is_err());
    assert_eq!(watcher.resource_version(), "20");
    assert_eq!(log.versions(), ["10", "20"], "the second watch begins at the bookmark");
}

#[tokio::test(start_paused = true)]
async fn rw_003_the_version_advances_only_when_an_event_is_returned() {
    let log = Log::new();
    let watch = source(&log, |_, _| Ok(Scripted::of([added("11"), added("12")]).open()));
    let mut watcher = RetryWatcher::new(&version("10"), watch).unwrap();
    assert_eq!(watcher.resource_version(), "10");
    assert_eq!(take(&mut watcher, 1).await, ["+11"]);
    assert_eq!(watcher.resource_version(), "11", "12 is there but has not been taken");
}

#[tokio::test(start_paused = true)]
async fn rw_004_nothing_is_lost_or_repeated_across_closed_watches() {
    // Versions with gaps; every watch returns two events and closes.
    let history = ["11", "12", "20", "21", "300", "301", "302", "4000", "4001", "50000"];
    let log = Log::new();
    let watch = source(&log, move |_, from| {
        let from: u64 = from.parse().unwrap();
        let after: Vec<_> = history.iter().filter(|version| version.parse::<u64>().unwrap() > from).collect();
        let events = after.iter().take(2).map(|version| added(version));
        Ok(if after.is_empty() { Scripted::of([]).open() } else { Scripted::of(events) })
    });
    let mut watcher = RetryWatcher::new(&version("10"), watch).unwrap();
    assert_eq!(take(&mut watcher, 10).await, history.map(|version| format!("+{version}")));
    assert_eq!(log.versions(), ["10", "12", "21", "301", "4000"], "five watches, each from the last event");
}

#[tokio::test(start_paused = true)]
async fn rw_005_watches_start_at_least_a_second_apart() {
    let log = Log::new();
    let watch = source(&log, |nth, _| {
        Ok(match nth {
            0 | 1 => Scripted::of([]),
            2 => Scripted::of([]).ending_after(Duration::from_millis(400)),
            3 => Scripted::of([]).ending_after(Duration::from_millis(2500)),
            _ => Scripted::of([added("11")]),
        })
    });
    let mut watcher = RetryWatcher::new(&version("10"), watch).unwrap();
    take(&mut watcher, 1).await;
    assert_eq!(log.times(), [0, 1000, 2000, 3000, 5500], "the one that lived for longer was followed at once");
}

#[tokio::test(start_paused = true)]
async fn rw_006_failures_to_establish_are_retried() {
    let transport =
        |fault| Error::Transport { request: request(), source: TransportError::bare(fault, "server"), previous: None };
    let log = Log::new();
    let watch = source(&log, move |nth, _| match nth {
        0 => Err(transport(TransportFault::Closed)),
        1 => Err(transport(TransportFault::Reset)),
        2 => Err(transport(TransportFault::Refused)),
        3 => Err(transport(TransportFault::Timeout)),
        4 => Err(Error::Timeout { request: request(), limit: Duration::from_secs(1), previous: None }),
        5 => Err(api_error(Status::internal("broken"))),
        6 => Err(api_error(Status::not_found("", "pods", ""))),
        _ => Ok(Scripted::of([added("11")])),
    });
    let mut watcher = RetryWatcher::new(&version("10"), watch).unwrap();
    assert_eq!(take(&mut watcher, 1).await, ["+11"]);
    assert_eq!(log.times(), [0, 1000, 2000, 3000, 4000, 5000, 6000, 7000]);
    assert!(log.versions().iter().all(|version| version == "10"));
    assert!(watcher.failure().is_none());
}

#[tokio::test(start_paused = true)]
async fn rw_006_an_invalid_request_ends_the_watch() {
    // Better: an invalid request is not retried.
    let log = Log::new();
    let refused = || Error::Request(RequestError::Invalid { problem: "no such thing".into() });
    let mut watcher = RetryWatcher::new(&version("10"), source(&log, move |_, _| Err(refused()))).unwrap();
    assert_eq!(drain(&mut watcher).await, ["!500"]);
    assert!(matches!(watcher.failure(), Some(Error::Request(_))));
}

#[tokio::test(start_paused = true)]
async fn rw_006_a_retry_after_of_the_server_is_obeyed() {
    let details = StatusDetails { retry_after_seconds: 7, ..StatusDetails::default() };
    let busy = Status::failure(429, Reason::TOO_MANY_REQUESTS, "").with_details(details);
    let log = Log::new();
    let watch = source(&log, move |nth, _| match nth {
        0 => Err(api_error(busy.clone())),
        _ => Ok(Scripted::of([added("11")])),
    });
    take(&mut RetryWatcher::new(&version("10"), watch).unwrap(), 1).await;
    assert_eq!(log.times(), [0, 7000]);
}

#[tokio::test(start_paused = true)]
async fn the_servers_retry_after_is_bounded() {
    let details = StatusDetails { retry_after_seconds: u32::MAX, ..StatusDetails::default() };
    let never = Status::failure(503, Reason::SERVICE_UNAVAILABLE, "").with_details(details);
    let mut machine = WatchMachine::new(&version("10")).unwrap();
    let now = Instant::now();
    let next = machine.failed(&api_error(never), now);
    assert_eq!(next, WatchAction::WatchAt(now + Duration::from_secs(300)));
}

#[tokio::test(start_paused = true)]
async fn rw_007_an_expired_version_is_retried() {
    let log = Log::new();
    let watch = source(&log, |nth, _| match nth {
        0..4 => Err(api_error(Status::expired("too old"))),
        4 => Ok(Scripted::of([added("11")])),
        5..9 => Err(api_error(Status::expired("too old"))),
        _ => Ok(Scripted::of([added("12")])),
    });
    let mut watcher = RetryWatcher::new(&version("10"), watch).unwrap();
    assert_eq!(take(&mut watcher, 2).await, ["+11", "+12"], "a watch that succeeds starts the count anew");
    let versions = log.versions();
    assert!(versions[..5].iter().all(|version| version == "10") && versions[5..].iter().all(|version| version == "11"));
}

#[tokio::test(start_paused = true)]
async fn qhc_21_rw_007_a_version_that_stays_expired_is_returned() {
    // Better: client-go retries once a second forever.
    let log = Log::new();
    let watch = source(&log, |_, _| Err(api_error(Status::expired("too old"))));
    let mut watcher = RetryWatcher::new(&version("10"), watch).unwrap().expired_attempts(3);
    assert_eq!(drain(&mut watcher).await, ["!410"]);
    assert_eq!(log.times(), [0, 1000, 2000], "no event until then, and at least a second between attempts");
    let failure = watcher.failure().unwrap();
    assert_eq!(failure.to_string(), "GET /api/v1/pods: too old");
}

#[tokio::test(start_paused = true)]
async fn rw_008_a_forbidden_watch_ends_at_once() {
    for status in [Status::unauthorized(), Status::forbidden("", "pods", "", "no")] {
        let code = status.code;
        let log = Log::new();
        let mut watcher =
            RetryWatcher::new(&version("10"), source(&log, move |_, _| Err(api_error(status.clone())))).unwrap();
        assert_eq!(drain(&mut watcher).await, [format!("!{code}")]);
        assert_eq!(log.times(), [0]);
        assert!(watcher.is_terminated() && watcher.next().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn qhc_21_rw_009_gone_in_the_stream_is_the_last_event() {
    let log = Log::new();
    let watch = source(&log, |_, _| Ok(Scripted::of([added("11"), error_event(410, Reason::EXPIRED), added("12")])));
    let mut watcher = RetryWatcher::new(&version("10"), watch).unwrap();
    assert_eq!(drain(&mut watcher).await, ["+11", "!410"]);
    assert_eq!(log.versions(), ["10"], "exactly one error, and no other watch");
}

#[tokio::test(start_paused = true)]
async fn rw_009_other_errors_in_the_stream_are_retried() {
    let details = StatusDetails { retry_after_seconds: 5, ..StatusDetails::default() };
    let slow_down = Status::failure(500, Reason::INTERNAL_ERROR, "").with_details(details);
    let log = Log::new();
    let watch = source(&log, move |nth, _| {
        Ok(match nth {
            0 => Scripted::of([added("11"), error_event(500, Reason::INTERNAL_ERROR)]),
            1 => Scripted::of([error_event(504, Reason::TIMEOUT)]),
            2 => Scripted::of([error_event(666, "Odd".into())]),
            3 => Scripted::of([WatchEvent::Error(Box::new(slow_down.clone()))]),
            4 => Scripted::of([]).then(bad_status()),
            _ => Scripted::of([added("12")]),
        })
    });
    let mut watcher = RetryWatcher::new(&version("10"), watch).unwrap();
    assert_eq!(take(&mut watcher, 2).await, ["+11", "+12"]);
    assert_eq!(log.times(), [0, 1000, 2000, 3000, 8000, 9000]);
    assert!(log.versions()[1..].iter().all(|version| version == "11"));
}

/// The error of an Error event whose object is no Status.
fn bad_status() -> Error {
    nonsense(r#"{"type":"ERROR","object":{"kind":"Pod","metadata":{"name":"a"}}}"#)
}

/// The error of a watch for this event.
fn nonsense(event: &'static str) -> Error {
    let mut decoder = WatchDecoder::<Pod>::new(Codec::Json, std::sync::Arc::new(ResourceInfo::of::<Pod>()));
    decoder.push(Bytes::from_static(event.as_bytes()));
    Error::Stream { request: request(), source: decoder.next_event().unwrap_err() }
}

#[tokio::test(start_paused = true)]
async fn rw_010_an_event_without_a_version_ends_the_watch() {
    for event in [added(""), WatchEvent::Deleted(pod("a", "")), bookmark("")] {
        let log = Log::new();
        let watch = source(&log, move |_, _| Ok(Scripted::of([added("11"), event.clone(), added("13")])));
        let mut watcher = RetryWatcher::new(&version("10"), watch).unwrap();
        assert_eq!(drain(&mut watcher).await, ["+11", "!500"]);
        assert_eq!((watcher.resource_version(), log.versions().len()), ("11", 1));
    }
}

#[tokio::test(start_paused = true)]
async fn rw_010_an_unreadable_event_ends_the_watch() {
    for (event, why) in [
        (r#"{"type":"SURPRISE","object":{"metadata":{"name":"a","resourceVersion":"12"}}}"#, "SURPRISE"),
        (r#"{"type":"ADDED","object":{"spec":{}}}"#, "no metadata"),
    ] {
        let error = nonsense(event);
        assert!(matches!(
            error,
            Error::Stream {
                source: StreamError::UnknownEvent { .. }
                    | StreamError::Object { source: DecodeError::NoMetadata { .. }, .. },
                ..
            }
        ));
        let mut machine = WatchMachine::new(&version("10")).unwrap();
        let WatchAction::Fail(status) = machine.undecodable(&error, Instant::now()) else { panic!("it goes on") };
        assert!(status.is_internal_error() && status.message.contains(why), "{status}");
    }
    let log = Log::new();
    let watch =
        source(&log, |_, _| Ok(Scripted::of([added("11")]).then(nonsense(r#"{"type":"ADDED","object":{"spec":{}}}"#))));
    assert_eq!(drain(&mut RetryWatcher::new(&version("10"), watch).unwrap()).await, ["+11", "!500"]);
}

#[tokio::test(start_paused = true)]
async fn qhc_22_unread_events_are_left_to_the_next_watcher() {
    let history = |from: &str| match from {
        "10" => Ok(Scripted::of([added("11"), added("12")]).open()),
        "11" => Ok(Scripted::of([added("12")]).open()),
        other => panic!("watched from {other}"),
    };
    let log = Log::new();
    let mut watcher = RetryWatcher::new(&version("10"), source(&log, move |_, from| history(from))).unwrap();
    assert_eq!(take(&mut watcher, 1).await, ["+11"]);
    // Another event is pending.
    watcher.stop();
    watcher.stop();
    assert!(watcher.is_terminated() && watcher.next().await.is_none(), "at once, and with the event unread");
    let mut second =
        RetryWatcher::new(&version(watcher.resource_version()), source(&log, move |_, from| history(from))).unwrap();
    assert_eq!(take(&mut second, 1).await, ["+12"]);
}

#[tokio::test(start_paused = true)]
async fn rw_011_a_watcher_can_be_stopped_at_any_time_and_repeatedly() {
    // Better: there is no task and no channel that could leak.
    let begin = Instant::now();
    let log = Log::new();
    let mut unstarted = RetryWatcher::<Pod, _>::new(&version("10"), source(&log, |_, _| panic!("watched"))).unwrap();
    unstarted.stop();
    assert!(unstarted.next().await.is_none());
    let mut waiting = RetryWatcher::new(&version("10"), source(&log, |_, _| Ok(Scripted::of([])))).unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(1), waiting.next()).await.is_err());
    waiting.stop();
    waiting.stop();
    assert!(waiting.next().await.is_none() && waiting.next().await.is_none());
    let mut reading = RetryWatcher::new(&version("10"), source(&log, |_, _| Ok(Scripted::of([]).open()))).unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(1), reading.next()).await.is_err());
    reading.stop();
    assert!(reading.next().await.is_none());
    assert_eq!(begin.elapsed(), Duration::from_millis(2), "at once");
}

proptest! {
    /// For all versions, all cuts of watches, and all numbers of failures.
    #[test]
    fn rw_004_every_event_is_returned_once_and_in_order(
        steps in proptest::collection::vec(1u64..1000, 1..30),
        cuts in proptest::collection::vec((0usize..5, 0u8..6), 1..20),
    ) {
        let history: Vec<u64> = steps.iter().scan(10, |at, step| { *at += step; Some(*at) }).collect();
        let expected: Vec<_> = history.iter().map(|version| format!("+{version}")).collect();
        let events = expected.len();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let seen = runtime.block_on(async {
            let log = Log::new();
            let watch = source(&log, |nth, from| {
                let from: u64 = from.parse().unwrap();
                let after = history.iter().filter(|version| **version > from).map(|version| added(&version.to_string()));
                match cuts.get(nth) {
                    None => Ok(Scripted::of(after).open()),
                    Some((_, 0)) => Err(api_error(Status::internal("broken"))),
                    Some((count, 1)) => {
                        Ok(Scripted::of(after.take(*count).chain([error_event(504, Reason::TIMEOUT)])))
                    }
                    Some((count, 2)) => Ok(Scripted::of(after.take(*count)).then(bad_status())),
                    Some((count, _)) => Ok(Scripted::of(after.take(*count))),
                }
            });
            let mut watcher = RetryWatcher::new(&version("10"), watch).unwrap();
            take(&mut watcher, events).await
        });
        prop_assert_eq!(seen, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_next_loses_neither_the_watch_nor_the_wait() {
    let log = Log::new();
    let watch = source(&log, |nth, _| {
        Ok(match nth {
            0 => Scripted::of([]),
            _ => Scripted::of([added("11")]),
        })
    });
    let mut watcher = RetryWatcher::new(&version("10"), watch).unwrap();
    for _ in 0..9 {
        assert!(tokio::time::timeout(Duration::from_millis(100), watcher.next()).await.is_err());
    }
    assert_eq!(take(&mut watcher, 1).await, ["+11"]);
    assert_eq!(log.times(), [0, 1000]);
}
