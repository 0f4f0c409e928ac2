//! The lists of a reflector, page by page and object by object.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use evenkeel_base::planted::{Defect, is_planted};
use evenkeel_core::ResourceVersion;
use tokio::task::yield_now;
use tokio::time::Instant;

use super::{Driver, Timer, YIELD_AFTER, key_of};
use crate::Object;
use crate::delta::Delta;
use crate::metrics::ReflectorCounter;
use crate::reflector::error::{Recovery, ReflectorError};
use crate::reflector::ingest::Ingested;
use crate::reflector::limits::check_dropped;
use crate::reflector::machine::PageOutcome;
use crate::reflector::sink::DeltaSink;
use crate::reflector::stall::StallClock;
use crate::reflector::status::ReflectorPhase;
use crate::source::{ListItems, ListPart, ListRequest};

/// A list that takes longer than this is logged.
const LONG: Duration = Duration::from_secs(10);

/// The end of a page.
struct PageEnd {
    version: ResourceVersion,
    token: String,
    /// The number of objects, unreadable and skipped ones included.
    objects: usize,
}

impl Driver {
    /// Requests a page. After the last one, sends the whole list to the sink.
    pub(super) async fn list(&mut self, mut request: ListRequest, sink: &mut dyn DeltaSink) {
        if request.continue_token.is_empty() {
            self.start_list();
            self.select_shards();
        }
        // A continue token does not hold the selector: another one would mix the objects of two.
        request.shard_selector = self.request_shards.sent.clone();
        let outcome = self.page(request, sink).await;
        let now = Instant::now();
        let (error, next) = match outcome {
            Ok(PageEnd { version, token, objects }) => match self.machine.page(version, token, objects) {
                PageOutcome::More => return self.received(now),
                PageOutcome::Last(version) => {
                    let objects = std::mem::take(&mut self.listed);
                    self.forget_list();
                    match self.replace(objects, &version, sink) {
                        Ok(()) => return,
                        Err(error) => (error, self.machine.list_unusable(Instant::now(), (self.random)())),
                    }
                }
                PageOutcome::Endless(error) => (error, self.machine.list_unusable(now, (self.random)())),
            },
            Err(ReflectorError::List(source)) if self.machine.continues_inconsistently(&source) => return,
            Err(ReflectorError::List(source)) if self.are_shards_refused(&source) => {
                (ReflectorError::List(source), self.machine.list_again())
            }
            Err(ReflectorError::List(source)) => {
                let next = self.machine.list_failed(&source, now, (self.random)());
                if source.is_expired() && is_planted(Defect::ExpiredPagesKept) {
                    return self.failed(ReflectorError::List(source), next);
                }
                (ReflectorError::List(source), next)
            }
            Err(error) => (error, self.machine.list_unusable(now, (self.random)())),
        };
        self.forget_list();
        self.failed(error, next);
    }

    pub(super) fn start_list(&mut self) {
        self.set_steady(false);
        self.metrics.increment(ReflectorCounter::Lists);
        self.list_started = Some(Instant::now());
        self.long_list = Some(StallClock::new(Instant::now()));
        self.status.change(|report| {
            report.lists += 1;
            report.listed = 0;
            report.phase = ReflectorPhase::Listing;
        });
    }

    /// Reads a page, object by object.
    async fn page(&mut self, request: ListRequest, sink: &mut dyn DeltaSink) -> Result<PageEnd, ReflectorError> {
        let source = Arc::clone(&self.source);
        let mut stall = StallClock::new(Instant::now());
        let mut timer = Timer::default();
        let mut opening = source.list(request);
        let opened = poll_fn(|context| {
            if let Poll::Ready(opened) = opening.as_mut().poll(context) {
                return Poll::Ready(opened);
            }
            self.poll_stall("no response to the list; still waiting", &mut stall, &mut timer, context);
            Poll::Pending
        });
        let mut items = opened.await.map_err(ReflectorError::List)?;
        let mut page_objects = 0;
        loop {
            let turn = poll_fn(|context| {
                let before = page_objects;
                let turn = self.poll_items(&mut *items, &mut page_objects, sink, context);
                if page_objects > before {
                    stall.progress(Instant::now());
                }
                if turn.is_pending() {
                    self.poll_stall("the list makes no progress; still waiting", &mut stall, &mut timer, context);
                }
                turn
            });
            match turn.await? {
                Some((version, token)) => return Ok(PageEnd { version, token, objects: page_objects }),
                None => {
                    self.received(Instant::now());
                    yield_now().await;
                }
            }
        }
    }

    /// Reports a list without progress when that is due.
    fn poll_stall(&mut self, what: &'static str, stall: &mut StallClock, timer: &mut Timer, context: &mut Context<'_>) {
        while timer.poll(Some(stall.report_at()), context).is_ready() {
            if let Some(waited) = stall.due(Instant::now()) {
                self.stalled(what, waited);
            }
        }
    }

    /// Processes objects of a list until it ends, or until the task should yield.
    fn poll_items(
        &mut self,
        items: &mut dyn ListItems,
        page_objects: &mut usize,
        sink: &mut dyn DeltaSink,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<(ResourceVersion, String)>, ReflectorError>> {
        for _ in 0..YIELD_AFTER {
            match ready!(items.poll_next(context)) {
                Ok(ListPart::Object(object)) => {
                    *page_objects += 1;
                    // Leaving it out would delete what the list should have contained.
                    self.ingest.check(&object)?;
                    if !self.is_in_range(object.header()) {
                        check_dropped(self.request_shards.dropped)?;
                        continue;
                    }
                    if let Some(object) = self.ingest_listed(object, sink)? {
                        self.listed_bytes += object.payload_bytes();
                        self.listed.push(object);
                    }
                    self.count_received()?;
                }
                Ok(ListPart::Unreadable(error)) => {
                    *page_objects += 1;
                    match key_of(&error) {
                        Some(key) => self.listed.extend(sink.known(key)),
                        None if self.machine.lost_initial_object() => {}
                        None => {
                            self.count_unreadable();
                            return Poll::Ready(Err(ReflectorError::Unreadable(error)));
                        }
                    }
                    self.unreadable(error);
                    self.count_received()?;
                }
                Ok(ListPart::End { resource_version, continue_token }) => {
                    if let Some(shards) = &self.shards {
                        shards.told(items.shard_selector(), &self.request_shards);
                    }
                    return Poll::Ready(Ok(Some((resource_version, continue_token))));
                }
                Err(error) => return Poll::Ready(Err(ReflectorError::List(error))),
            }
        }
        Poll::Ready(Ok(None))
    }

    /// Counts an object of the list against its limits.
    fn count_received(&mut self) -> Result<(), ReflectorError> {
        self.received_objects += 1;
        self.limits.check(self.received_objects, self.listed_bytes)
    }

    /// Returns the object as it is to be stored; `None` if it is skipped.
    pub(super) fn ingest_listed(
        &mut self,
        object: Object,
        sink: &mut dyn DeltaSink,
    ) -> Result<Option<Object>, ReflectorError> {
        let Ingested { accepted, error } = self.ingest.listed(object, sink)?;
        if let Some(error) = error {
            self.failed(error, Recovery::Continue);
        }
        Ok(accepted)
    }

    /// Sends a complete list to the sink.
    pub(super) fn replace(
        &mut self,
        objects: Vec<Object>,
        version: &ResourceVersion,
        sink: &mut dyn DeltaSink,
    ) -> Result<(), ReflectorError> {
        let count = objects.len();
        if let Some(shards) = &self.shards {
            shards.completed(&self.request_shards);
        }
        sink.push(Delta::ReplacedAll { objects, resource_version: version.clone() }).map_err(ReflectorError::Sink)?;
        let now = Instant::now();
        self.long_list = None;
        self.machine.synced(version, now);
        self.set_steady(!self.machine.is_relist_due());
        if let Some(shards) = &self.shards {
            shards.relisted();
        }
        let took = self.list_started.take().map_or(Duration::ZERO, |started| now.saturating_duration_since(started));
        self.metrics.listed(count, took);
        if took > LONG {
            tracing::info!(reflector = &*self.name, count, ?took, "slow list");
        }
        self.status.change(|report| {
            report.syncs += 1;
            report.listed = 0;
            report.phase = ReflectorPhase::Watching;
        });
        self.received(now);
        sink.flush().map_err(ReflectorError::Sink)
    }
}
