use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_core::codec::{Codec, ListDecoder};
use evenkeel_core::{ResourceInfo, ResourceVersion, Status};
use k8s_openapi::api::core::v1::Pod;

use super::super::conditions::{exists, is_deleted};
use super::*;
use crate::error::RequestName;
use crate::transport::TransportError;
use crate::watch::testing::{Event, Log, Scripted, api_error, pod};

type Reads = Box<dyn Fn(usize) -> Result<List<Pod>, Error> + Send + Sync>;
type Watches = Box<dyn Fn(usize) -> Result<Scripted, Error> + Send + Sync>;

/// Responds to the n-th read and the n-th watch by a script, and records them.
struct Source {
    log: Log,
    counts: Mutex<(usize, usize)>,
    reads: Reads,
    watches: Watches,
}

impl Source {
    fn new(
        log: &Log,
        reads: impl Fn(usize) -> Result<List<Pod>, Error> + Send + Sync + 'static,
        watches: impl Fn(usize) -> Result<Scripted, Error> + Send + Sync + 'static,
    ) -> Self {
        Source { log: log.clone(), counts: Mutex::default(), reads: Box::new(reads), watches: Box::new(watches) }
    }
}

impl WatchSource<Pod> for Source {
    type Events = Scripted;
    type Watching = std::future::Ready<Result<Scripted, Error>>;

    fn watch(&self, from: &ResourceVersion) -> Self::Watching {
        self.log.note(&format!("watch {from}"));
        let mut counts = self.counts.lock().unwrap();
        counts.1 += 1;
        std::future::ready((self.watches)(counts.1 - 1))
    }
}

impl ListSource<Pod> for Source {
    type Listing = std::future::Ready<Result<List<Pod>, Error>>;

    fn list(&self) -> Self::Listing {
        self.log.note("read");
        let mut counts = self.counts.lock().unwrap();
        counts.0 += 1;
        std::future::ready((self.reads)(counts.0 - 1))
    }
}

fn list(version: &str, objects: &[&str]) -> List<Pod> {
    let items: Vec<_> = objects
        .iter()
        .map(|version| format!(r#"{{"metadata":{{"name":"a","resourceVersion":"{version}"}}}}"#))
        .collect();
    let json = format!(r#"{{"metadata":{{"resourceVersion":"{version}"}},"items":[{}]}}"#, items.join(","));
    let mut decoder = ListDecoder::new(Codec::Json, Arc::new(ResourceInfo::of::<Pod>()));
    decoder.push(Bytes::from(json));
    let mut items = Vec::new();
    while let Some(item) = decoder.next_item().unwrap() {
        items.push(item);
    }
    List { items, meta: decoder.finish().unwrap() }
}

fn modified(version: &str) -> Event {
    WatchEvent::Modified(pod("a", version))
}

fn at(version: &'static str) -> impl Fn(Option<&Obj<Pod>>) -> bool {
    move |object| object.is_some_and(|object| object.resource_version() == version)
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_already_holds_needs_no_watch() {
    let log = Log::new();
    let source = Source::new(&log, |_| Ok(list("10", &["7"])), |_| panic!("watched"));
    assert_eq!(wait_until(source, exists()).await.unwrap().unwrap().resource_version(), "7");
    let source = Source::new(&log, |_| Ok(list("10", &[])), |_| panic!("watched"));
    assert!(wait_until(source, is_deleted()).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn changes_are_watched_from_the_list_and_across_disconnects() {
    let log = Log::new();
    let source = Source::new(
        &log,
        |_| Ok(list("10", &["7"])),
        |nth| {
            Ok(match nth {
                0 => Scripted::of([modified("11")]),
                _ => Scripted::of([modified("12"), WatchEvent::Deleted(pod("a", "13"))]),
            })
        },
    );
    assert!(wait_until(source, is_deleted()).await.unwrap().is_none());
    assert_eq!(log.versions(), ["read", "watch 10", "watch 11"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_is_read_again() {
    let log = Log::new();
    let source = Source::new(
        &log,
        |nth| Ok(if nth < 2 { list("10", &["7"]) } else { list("30", &["29"]) }),
        |nth| match nth {
            0 => Ok(Scripted::of([WatchEvent::Error(Box::new(Status::expired("too old")))])),
            _ => Err(api_error(Status::expired("too old"))),
        },
    );
    assert_eq!(wait_until(source, at("29")).await.unwrap().unwrap().resource_version(), "29");
    let asked = log.versions();
    assert_eq!(asked.iter().filter(|what| *what == "read").count(), 3);
    let times = log.times();
    assert_eq!(times[..4], [0, 0, 1000, 1000], "a second between one reading and the next");
}

#[tokio::test(start_paused = true)]
async fn a_temporary_outage_does_not_end_the_wait() {
    let log = Log::new();
    let source = Source::new(
        &log,
        |nth| match nth {
            0 => Err(Error::Transport {
                request: RequestName::new(&http::Method::GET, "/"),
                source: TransportError::bare(TransportFault::Refused, "server"),
                previous: None,
            }),
            1 => Err(api_error(Status::failure(503, "".into(), ""))),
            2 => Err(api_error(Status::failure(429, "".into(), ""))),
            _ => Ok(list("10", &["7"])),
        },
        |_| panic!("watched"),
    );
    let begin = Instant::now();
    assert!(wait_until(source, exists()).await.unwrap().is_some());
    assert!(begin.elapsed() >= Duration::from_millis(3500), "the waits grow");
}

#[tokio::test(start_paused = true)]
async fn wco_009_a_forbidden_request_and_a_missing_kind_end_the_wait() {
    let log = Log::new();
    let forbidden = || api_error(Status::forbidden("", "pods", "", "no"));
    let source = Source::new(&log, move |_| Err(forbidden()), |_| panic!("watched"));
    assert!(wait_until(source, exists()).await.unwrap_err().status().unwrap().is_forbidden());
    let source = Source::new(&log, |_| Ok(list("10", &[])), move |_| Err(forbidden()));
    let error = wait_until(source, exists()).await.unwrap_err();
    assert_eq!(error.to_string(), "GET /api/v1/pods: pods is forbidden: no");
    let missing = || api_error(Status::failure(404, "NotFound".into(), "the server could not find the resource"));
    let source = Source::new(&log, move |_| Err(missing()), |_| panic!("watched"));
    assert!(wait_until(source, exists()).await.unwrap_err().status().unwrap().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn wco_002_a_condition_out_of_reach_ends_the_wait() {
    let log = Log::new();
    let source = Source::new(&log, |_| Ok(list("10", &["7"])), |_| Ok(Scripted::of([modified("11")]).open()));
    let state = |pod: Option<&Obj<Pod>>| match pod.map(|pod| pod.resource_version()) {
        Some("11") => ConditionState::Never("it is too late".to_owned()),
        _ => ConditionState::Pending,
    };
    let error = wait_until(source, state).await.unwrap_err();
    assert!(matches!(&error, WaitError::Never { reason, .. } if reason == "it is too late"));
    assert_eq!(error.to_string(), "Pod ns/a can no longer meet the condition: it is too late");
}

#[tokio::test(start_paused = true)]
async fn a_wait_can_be_wrapped_in_a_timeout() {
    let log = Log::new();
    let source = Source::new(&log, |_| Ok(list("10", &[])), |_| Ok(Scripted::of([]).open()));
    let limited = tokio::time::timeout(Duration::from_secs(5), wait_until(source, exists()));
    assert!(crate::is_interrupted(&limited.await.unwrap_err()));
}
