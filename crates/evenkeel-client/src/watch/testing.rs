//! Fixtures of this module's tests: objects, events, and scripted sources.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_core::{Obj, ResourceInfo, ResourceVersion, Status, WatchEvent};
use futures_core::Stream;
use k8s_openapi::api::core::v1::Pod;
use tokio::time::Instant;

use crate::error::{Error, RequestName};

pub(crate) type Event = WatchEvent<Pod>;

pub(crate) fn version(text: &str) -> ResourceVersion {
    ResourceVersion::new(text)
}

pub(crate) fn pod(name: &str, version: &str) -> Obj<Pod> {
    let json = format!(r#"{{"metadata":{{"namespace":"ns","name":"{name}","resourceVersion":"{version}"}}}}"#);
    Obj::from_json(&Arc::new(ResourceInfo::of::<Pod>()), json).unwrap()
}

pub(crate) fn bookmark(version: &str) -> Event {
    WatchEvent::Bookmark { resource_version: ResourceVersion::new(version), initial_events_end: false }
}

pub(crate) fn api_error(status: Status) -> Error {
    Error::Api { request: RequestName::new(&http::Method::GET, "/api/v1/pods"), status: Box::new(status) }
}

/// A short text of an event: its type and version.
pub(crate) fn short(event: &Event) -> String {
    match event {
        WatchEvent::Added(object) => format!("+{}", object.resource_version()),
        WatchEvent::Modified(object) => format!("~{}", object.resource_version()),
        WatchEvent::Deleted(object) => format!("-{}", object.resource_version()),
        WatchEvent::Bookmark { resource_version, .. } => format!("={resource_version}"),
        WatchEvent::Error(status) => format!("!{}", status.code),
    }
}

/// A stream of these items, which then ends or stays open.
pub(crate) struct Scripted {
    pub(crate) items: VecDeque<Result<Event, Error>>,
    pub(crate) stays_open: bool,
    /// How long it stays open before it ends.
    pub(crate) life: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Scripted {
    pub(crate) fn of(events: impl IntoIterator<Item = Event>) -> Self {
        Scripted { items: events.into_iter().map(Ok).collect(), stays_open: false, life: None }
    }

    pub(crate) fn open(mut self) -> Self {
        self.stays_open = true;
        self
    }

    pub(crate) fn ending_after(mut self, life: Duration) -> Self {
        self.life = Some(Box::pin(tokio::time::sleep(life)));
        self
    }

    pub(crate) fn then(mut self, error: Error) -> Self {
        self.items.push_back(Err(error));
        self
    }
}

impl Stream for Scripted {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(item) = self.items.pop_front() {
            return Poll::Ready(Some(item));
        }
        if self.stays_open {
            return Poll::Pending;
        }
        if let Some(life) = &mut self.life {
            std::task::ready!(life.as_mut().poll(context));
        }
        Poll::Ready(None)
    }
}

/// The opened watches: from which version, and when, in milliseconds since the start.
#[derive(Clone)]
pub(crate) struct Log {
    begin: Instant,
    requests: Arc<Mutex<Vec<(String, u128)>>>,
}

impl Log {
    pub(crate) fn new() -> Self {
        Log { begin: Instant::now(), requests: Arc::default() }
    }

    pub(crate) fn note(&self, what: &str) {
        self.all().push((what.to_owned(), self.begin.elapsed().as_millis()));
    }

    fn all(&self) -> MutexGuard<'_, Vec<(String, u128)>> {
        self.requests.lock().unwrap()
    }

    pub(crate) fn versions(&self) -> Vec<String> {
        self.all().iter().map(|(version, _)| version.clone()).collect()
    }

    pub(crate) fn times(&self) -> Vec<u128> {
        self.all().iter().map(|(_, time)| *time).collect()
    }
}

type Answer = Result<Scripted, Error>;

/// Returns a source of watches that calls `answer` for the n-th request, counted from 0.
pub(crate) fn source(
    log: &Log,
    answer: impl Fn(usize, &str) -> Answer + Send + Sync,
) -> impl Fn(ResourceVersion) -> std::future::Ready<Answer> {
    let log = log.clone();
    move |from| {
        let nth = log.all().len();
        log.note(from.as_str());
        std::future::ready(answer(nth, from.as_str()))
    }
}
