//! The lists of a reflector, page by page and object by object.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use evenkeel_core::ResourceVersion;
use tokio::task::yield_now;
use tokio::time::Instant;

use super::{Driver, YIELD_AFTER, key_of};
use crate::Object;
use crate::delta::Delta;
use crate::metrics::ReflectorCounter;
use crate::reflector::error::{Recovery, ReflectorError};
use crate::reflector::ingest::Ingested;
use crate::reflector::machine::PageOutcome;
use crate::reflector::sink::DeltaSink;
use crate::reflector::status::ReflectorPhase;
use crate::source::{ListItems, ListPart, ListRequest};

/// A list that takes longer than this is logged.
const LONG: Duration = Duration::from_secs(10);

impl Driver {
    /// Requests a page. After the last one, sends the whole list to the sink.
    pub(super) async fn list(&mut self, request: ListRequest, sink: &mut dyn DeltaSink) {
        if request.continue_token.is_empty() {
            self.start_list();
        }
        let outcome = self.page(request, sink).await;
        let now = Instant::now();
        let (error, next) = match outcome {
            Ok((version, token)) => match self.machine.page(version, token) {
                PageOutcome::More => return self.received(now),
                PageOutcome::Last(version) => {
                    let objects = std::mem::take(&mut self.listed);
                    match self.replace(objects, &version, sink) {
                        Ok(()) => return,
                        Err(error) => (error, self.machine.list_unusable(Instant::now(), (self.random)())),
                    }
                }
                PageOutcome::Endless => (ReflectorError::EndlessList, self.machine.list_unusable(now, (self.random)())),
            },
            Err(ReflectorError::List(source)) => {
                let next = self.machine.list_failed(&source, now, (self.random)());
                (ReflectorError::List(source), next)
            }
            Err(error) => (error, self.machine.list_unusable(now, (self.random)())),
        };
        self.listed = Vec::new();
        self.failed(error, next);
    }

    pub(super) fn start_list(&mut self) {
        self.metrics.increment(ReflectorCounter::Lists);
        self.list_started = Some(Instant::now());
        self.status.change(|report| {
            report.lists += 1;
            report.phase = ReflectorPhase::Listing;
        });
    }

    /// Reads a page, object by object.
    async fn page(
        &mut self,
        request: ListRequest,
        sink: &mut dyn DeltaSink,
    ) -> Result<(ResourceVersion, String), ReflectorError> {
        let source = Arc::clone(&self.source);
        let mut items = source.list(request).await.map_err(ReflectorError::List)?;
        loop {
            match poll_fn(|context| self.poll_items(&mut *items, sink, context)).await? {
                Some(end) => return Ok(end),
                None => {
                    self.received(Instant::now());
                    yield_now().await;
                }
            }
        }
    }

    /// Processes objects of a list until it ends, or until the task should yield.
    fn poll_items(
        &mut self,
        items: &mut dyn ListItems,
        sink: &mut dyn DeltaSink,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<(ResourceVersion, String)>, ReflectorError>> {
        for _ in 0..YIELD_AFTER {
            match ready!(items.poll_next(context)) {
                Ok(ListPart::Object(object)) => {
                    if let Some(object) = self.ingest_listed(object, sink)? {
                        self.listed.push(object);
                    }
                }
                Ok(ListPart::Unreadable(error)) => {
                    let known = key_of(&error).and_then(|key| sink.known(key));
                    self.listed.extend(known);
                    self.unreadable(error);
                }
                Ok(ListPart::End { resource_version, continue_token }) => {
                    return Poll::Ready(Ok(Some((resource_version, continue_token))));
                }
                Err(error) => return Poll::Ready(Err(ReflectorError::List(error))),
            }
        }
        Poll::Ready(Ok(None))
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
        sink.push(Delta::ReplacedAll { objects, resource_version: version.clone() }).map_err(ReflectorError::Sink)?;
        let now = Instant::now();
        self.machine.synced(version, now);
        let took = self.list_started.take().map_or(Duration::ZERO, |started| now.saturating_duration_since(started));
        self.metrics.listed(count, took);
        if took > LONG {
            tracing::info!(reflector = &*self.name, count, ?took, "slow list");
        }
        self.status.change(|report| {
            report.syncs += 1;
            report.phase = ReflectorPhase::Watching;
        });
        self.received(now);
        sink.flush().map_err(ReflectorError::Sink)
    }
}
