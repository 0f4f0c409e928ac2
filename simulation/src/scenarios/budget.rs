//! [`Budgeted`]: a source that checks how often its reflector lists, and which versions it names (INV-15).

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use evenkeel::cache::source::{
    BoxFuture, ListItems, ListPart, ListRequest, ListerWatcher, SourceError, WatchEvents, WatchRequest,
};
use evenkeel::core::{Status, Untyped, WatchEvent};
use evenkeel_sim::Process;
use tokio::time::Instant;

/// The number of requests that a reflector may send in [`WINDOW`].
const REQUESTS: usize = 60;
const WINDOW: Duration = Duration::from_secs(10);
/// A watch that ends sooner, without events, is followed by a list.
const SHORT: Duration = Duration::from_secs(1);

/// A source, and the requests of its reflector.
///
/// - A list or WatchList after the first has a reason: a request failed, a watch ended at once, an object was unreadable.
/// - A list after a watch that has expired does not name its version if that has happened before: the result would expire again.
/// - There is no storm of requests.
#[derive(Debug)]
pub(super) struct Budgeted<S> {
    source: S,
    requests: Requests,
}

/// What the reflector has requested, and why it may list.
#[derive(Clone, Debug)]
struct Requests {
    process: Process,
    state: Arc<Mutex<RequestCounts>>,
}

#[derive(Debug, Default)]
struct RequestCounts {
    lists: u32,
    reasons: u32,
    /// The number of watches that have expired before their first event, by version.
    expired: BTreeMap<String, u32>,
    /// The version of the last watch, if it has expired.
    just_expired: Option<String>,
    recent: VecDeque<Instant>,
}

impl<S> Budgeted<S> {
    pub(super) fn new(source: S, process: &Process) -> Self {
        Budgeted { source, requests: Requests { process: process.clone(), state: Arc::default() } }
    }
}

impl Requests {
    fn lock(&self) -> MutexGuard<'_, RequestCounts> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn over(&self, message: String) {
        self.process.fail("request budget", message);
    }

    fn sent(&self) {
        let now = Instant::now();
        let mut counts = self.lock();
        while counts.recent.front().is_some_and(|sent| *sent + WINDOW <= now) {
            counts.recent.pop_front();
        }
        counts.recent.push_back(now);
        if counts.recent.len() > REQUESTS {
            self.over(format!("{} requests in {WINDOW:?}", counts.recent.len()));
        }
    }

    /// Checks a list or WatchList.
    fn lists(&self, version: &str) {
        let mut counts = self.lock();
        counts.lists += 1;
        let (lists, reasons) = (counts.lists, counts.reasons);
        let is_expired = counts.just_expired.as_deref() == Some(version);
        let expired = counts.expired.get(version).copied().filter(|_| is_expired).unwrap_or_default();
        drop(counts);
        if lists > 1 + reasons {
            self.over(format!("{lists} lists, and {reasons} reasons to list again"));
        }
        if expired > 1 {
            self.over(format!("a list names version {version}, at which {expired} watches have expired"));
        }
    }

    fn has_reason(&self) {
        self.lock().reasons += 1;
    }

    fn expired(&self, version: &str) {
        let mut counts = self.lock();
        *counts.expired.entry(version.to_owned()).or_default() += 1;
        counts.just_expired = Some(version.to_owned());
    }
}

/// A request that is a reason to list again unless it is completed.
struct Attempt {
    requests: Requests,
    is_complete: bool,
}

impl Attempt {
    fn new(requests: &Requests, is_complete: bool) -> Self {
        requests.sent();
        Attempt { requests: requests.clone(), is_complete }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_complete {
            self.requests.has_reason();
        }
    }
}

impl<S: ListerWatcher> ListerWatcher for Budgeted<S> {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Box<dyn ListItems>, SourceError>> {
        if request.continue_token.is_empty() {
            self.requests.lists(&request.resource_version);
        }
        let attempt = Attempt::new(&self.requests, false);
        Box::pin(async move {
            let items = self.source.list(request).await?;
            Ok(Box::new(BudgetedItems { items, attempt }) as Box<dyn ListItems>)
        })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Box<dyn WatchEvents>, SourceError>> {
        if request.initial_events {
            self.requests.lists(&request.resource_version);
        } else {
            self.requests.lock().just_expired = None;
        }
        let attempt = Attempt::new(&self.requests, !request.initial_events);
        let (version, requested) = (request.resource_version.clone(), Instant::now());
        Box::pin(async move {
            let mut watch = BudgetedEvents { events: None, attempt, version, requested, received: 0 };
            match self.source.watch(request).await {
                Ok(events) => watch.events = Some(events),
                Err(error) => {
                    watch.failed(error.status());
                    return Err(error);
                }
            }
            Ok(Box::new(watch) as Box<dyn WatchEvents>)
        })
    }

    fn supports_watch_list(&self) -> bool {
        self.source.supports_watch_list()
    }

    fn is_metadata_only(&self) -> bool {
        self.source.is_metadata_only()
    }
}

struct BudgetedItems {
    items: Box<dyn ListItems>,
    attempt: Attempt,
}

impl ListItems for BudgetedItems {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<ListPart, SourceError>> {
        let part = ready!(self.items.poll_next(context));
        match &part {
            Ok(ListPart::End { .. }) => self.attempt.is_complete = true,
            Ok(ListPart::Unreadable(_)) => self.attempt.requests.has_reason(),
            Ok(ListPart::Object(_)) | Err(_) => {}
        }
        Poll::Ready(part)
    }
}

struct BudgetedEvents {
    events: Option<Box<dyn WatchEvents>>,
    /// Complete once the initial events are.
    attempt: Attempt,
    version: String,
    requested: Instant,
    received: u32,
}

impl BudgetedEvents {
    /// Records the failure of the watch, or of its request.
    fn failed(&mut self, status: Option<&Status>) {
        if self.received == 0 && self.attempt.is_complete && status.is_some_and(Status::is_expired) {
            self.attempt.requests.expired(&self.version);
        }
        self.attempt.is_complete = false;
    }
}

impl WatchEvents for BudgetedEvents {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<WatchEvent<Untyped>, SourceError>>> {
        let Some(events) = &mut self.events else { return Poll::Ready(None) };
        let event = ready!(events.poll_next(context));
        match &event {
            Some(Ok(WatchEvent::Error(status))) => self.failed(Some(status)),
            Some(Ok(WatchEvent::Bookmark { initial_events_end, .. })) => {
                self.attempt.is_complete |= initial_events_end;
                self.received += 1;
            }
            Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object))) => {
                self.received += 1;
                if object.kind() != "ConfigMap" {
                    self.attempt.requests.has_reason();
                }
            }
            // The watch goes on, and a list repairs what it has missed.
            Some(Err(SourceError::Unreadable(_))) => self.attempt.requests.has_reason(),
            Some(Err(error)) => self.failed(error.status()),
            None if self.received == 0 && self.requested.elapsed() < SHORT => self.attempt.is_complete = false,
            None => {}
        }
        Poll::Ready(event)
    }
}
