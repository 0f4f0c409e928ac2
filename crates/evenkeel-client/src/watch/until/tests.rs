use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_core::Status;
use k8s_openapi::api::core::v1::Pod;

use super::super::RetryWatcher;
use super::super::testing::{Event, Log, Scripted, api_error, pod, short, source, version};
use super::*;
use crate::wait::is_interrupted;

fn seen(text: &'static str) -> EventCondition<'static, Pod> {
    when(move |event| Ok(short(event) == text))
}

fn three() -> Scripted {
    Scripted::of([
        WatchEvent::Added(pod("a", "1")),
        WatchEvent::Modified(pod("a", "2")),
        WatchEvent::Deleted(pod("a", "3")),
    ])
}

fn text(event: Option<Event>) -> Option<String> {
    event.as_ref().map(short)
}

#[tokio::test(start_paused = true)]
async fn un_001_conditions_are_met_in_order() {
    assert_eq!(text(until(three(), [seen("+1")]).await.unwrap()).unwrap(), "+1");
    assert_eq!(text(until(three(), [seen("+1"), seen("-3")]).await.unwrap()).unwrap(), "-3");
    let out_of_order = until(three(), [seen("-3"), seen("+1")]).await.unwrap_err();
    assert!(matches!(out_of_order.reason, UntilFailure::Closed));
}

#[tokio::test(start_paused = true)]
async fn un_001_the_next_condition_receives_the_last_event_first() {
    let any = || when(|_| Ok(true));
    let last = until(three().open(), [seen("~2"), any(), seen("~2"), any()]).await.unwrap();
    assert_eq!(text(last).unwrap(), "~2");
}

#[tokio::test(start_paused = true)]
async fn un_002_no_conditions_are_met_at_once() {
    assert!(until(Scripted::of([]).open(), []).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn un_002_a_failed_condition_ends_the_wait() {
    let failing = when(|event| if short(event) == "~2" { Err("enough".into()) } else { Ok(false) });
    let error = until(three(), [failing]).await.unwrap_err();
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "enough");
    assert_eq!(text(error.last).unwrap(), "~2");
}

#[tokio::test(start_paused = true)]
async fn un_002_a_stop_and_the_end_of_the_watch_return_the_last_event() {
    let waiting = until(three().open(), [seen("+9")]).stop_on(tokio::time::sleep(Duration::from_secs(5)));
    let error = waiting.await.unwrap_err();
    assert!(is_interrupted(&error));
    assert_eq!(text(error.last).unwrap(), "-3");

    let error = until(three(), [seen("+9")]).await.unwrap_err();
    assert!(matches!(error.reason, UntilFailure::Closed) && !is_interrupted(&error));
    assert_eq!(text(error.last).unwrap(), "-3");

    let error = until(Scripted::of([]), [seen("+9")]).await.unwrap_err();
    assert!(error.last.is_none());
}

/// Records its drop.
struct Noticed(Scripted, Arc<AtomicBool>);

impl Stream for Noticed {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.0).poll_next(context)
    }
}

impl Drop for Noticed {
    fn drop(&mut self) {
        self.1.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn un_002_the_watch_is_ended_in_every_case() {
    for conditions in [vec![], vec![seen("+1")], vec![seen("+9")], vec![when(|_| Err("no".into()))]] {
        let dropped = Arc::new(AtomicBool::new(false));
        let mut waiting = until(Noticed(three(), Arc::clone(&dropped)), conditions);
        let _ = (&mut waiting).await;
        assert!(dropped.load(Ordering::Relaxed), "while the future itself is still there");
    }
}

#[tokio::test(start_paused = true)]
async fn un_003_a_retry_watcher_survives_disconnects() {
    let log = Log::new();
    let watch = source(&log, |nth, _| {
        Ok(match nth {
            0 => Scripted::of([WatchEvent::Added(pod("a", "11"))]),
            _ => Scripted::of([WatchEvent::Deleted(pod("a", "12"))]),
        })
    });
    let watcher = RetryWatcher::new(&version("10"), watch).unwrap();
    assert_eq!(text(until(watcher, [seen("+11"), seen("-12")]).await.unwrap()).unwrap(), "-12");
    assert_eq!(log.versions(), ["10", "11"]);
}

#[tokio::test(start_paused = true)]
async fn un_003_error_events_reach_the_conditions() {
    let log = Log::new();
    let refused = source(&log, |_, _| Err(api_error(Status::unauthorized())));
    let watcher = RetryWatcher::new(&version("10"), refused).unwrap();
    let stop_at_errors = when(|event| match event {
        WatchEvent::Error(status) => Err(status.to_string().into()),
        _ => Ok(false),
    });
    let error = until(watcher, [stop_at_errors]).await.unwrap_err();
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "Unauthorized");
    assert_eq!(text(error.last).unwrap(), "!401");
}
