//! The watches of a reflector, event by event.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use evenkeel_base::planted::{Defect, is_planted};
use evenkeel_base::task::scheduled;
use evenkeel_core::{ResourceVersion, StreamError, Untyped, WatchEvent};
use tokio::task::yield_now;
use tokio::time::Instant;

use super::{Driver, Timer, WatchAbort, WatchStart, YIELD_AFTER, key_of};
use crate::delta::Delta;
use crate::metrics::ReflectorCounter;
use crate::reflector::consistency;
use crate::reflector::error::{Recovery, ReflectorError};
use crate::reflector::ingest::Ingested;
use crate::reflector::initial_list::InitialList;
use crate::reflector::limits::check_dropped;
use crate::reflector::machine::{WatchEnd, WatchEndKind};
use crate::reflector::shards::Shards;
use crate::reflector::sink::{DeltaSink, SinkError};
use crate::reflector::status::ReflectorPhase;
use crate::source::{SourceError, WatchEvents, WatchRequest, is_about_protobuf};
use crate::{Deleted, Object};

/// The outcome of polling a watch.
enum PollOutcome {
    /// More events are ready.
    More,
    /// The watch ended.
    Ended(WatchOutcome),
}

/// Why a watch ended.
enum WatchOutcome {
    Closed,
    Failed(SourceError),
    Aborted(WatchAbort),
}

impl From<WatchAbort> for WatchOutcome {
    fn from(abort: WatchAbort) -> Self {
        WatchOutcome::Aborted(abort)
    }
}

impl Driver {
    /// Watches until the watch ends.
    pub(super) async fn watch(&mut self, mut request: WatchRequest, sink: &mut dyn DeltaSink) {
        if !request.initial_events && !self.start_watch(&mut request) {
            return;
        }
        request.shard_selector = self.select_shards();
        let requested = Instant::now();
        let mut initial = request.initial_events.then(|| InitialList::new(self.check_consistency));
        self.metrics.increment(ReflectorCounter::Watches);
        self.status.change(|report| {
            report.watches += 1;
            report.phase = if initial.is_some() { ReflectorPhase::Listing } else { ReflectorPhase::Watching };
        });
        if initial.is_some() {
            self.start_list();
        }
        if is_planted(Defect::WatchTaskLeaked) {
            drop(tokio::spawn(scheduled(std::future::pending::<()>())));
        }
        let mut timer = Timer::default();
        let source = Arc::clone(&self.source);
        let mut opening = source.watch(request);
        let opened = poll_fn(|context| match opening.as_mut().poll(context) {
            Poll::Ready(opened) => Poll::Ready(Ok(opened)),
            Poll::Pending => self.poll_due(&mut timer, sink, context).map(Err),
        })
        .await;
        drop(opening);
        let mut events = 0;
        let outcome = match opened {
            Err(abort) => abort.into(),
            Ok(Err(error)) => return self.refused(error, requested),
            Ok(Ok(mut stream)) => {
                self.machine.watch_opened(Instant::now());
                #[cfg(planted)]
                if is_planted(Defect::BookmarkBeforeEvents) && initial.is_none() {
                    stream = Box::new(super::overtaking::OvertakingBookmarks::new(stream));
                }
                loop {
                    let turn = poll_fn(|context| {
                        self.poll_events(&mut *stream, &mut timer, &mut initial, &mut events, sink, context)
                    });
                    match turn.await {
                        PollOutcome::More => yield_now().await,
                        PollOutcome::Ended(outcome) => break outcome,
                    }
                }
            }
        };
        self.metrics.watched(events, requested.elapsed());
        self.ended(outcome);
    }

    /// Has the owner of the places change them, now that no watch is open. Returns whether the watch is requested.
    fn start_watch(&mut self, request: &mut WatchRequest) -> bool {
        match self.before_watch.as_mut().map_or(WatchStart::Here, |before_watch| before_watch()) {
            WatchStart::Here => true,
            WatchStart::Earlier { version, reached } => {
                self.machine.rewind(&version, reached);
                request.resource_version = version.as_str().to_owned();
                true
            }
            WatchStart::Relist => {
                self.machine.distrust_version();
                self.machine.restart();
                false
            }
        }
    }

    /// Handles a watch request that failed.
    fn refused(&mut self, error: SourceError, requested: Instant) {
        self.metrics.watched(0, requested.elapsed());
        let next = match self.are_shards_refused(&error) {
            true => self.machine.watch_with_others(),
            false => self.machine.watch_ended(WatchEnd::Refused(&error), Instant::now(), (self.random)()).next,
        };
        self.failed(ReflectorError::Watch(error), next);
    }

    /// Handles the end of a watch.
    fn ended(&mut self, outcome: WatchOutcome) {
        let end = match &outcome {
            WatchOutcome::Closed => WatchEnd::Closed,
            WatchOutcome::Failed(error) => WatchEnd::Failed(error),
            WatchOutcome::Aborted(WatchAbort { end, .. }) => *end,
        };
        let verdict = self.machine.watch_ended(end, Instant::now(), (self.random)());
        if verdict.kind == WatchEndKind::Short {
            self.metrics.increment(ReflectorCounter::ShortWatches);
            self.status.change(|report| report.short_watches += 1);
        }
        let error = match (outcome, verdict.kind) {
            (WatchOutcome::Failed(error), _) => ReflectorError::Stream(error),
            (WatchOutcome::Aborted(WatchAbort { error: Some(error), .. }), _) => error,
            (WatchOutcome::Aborted(WatchAbort { error: None, .. }), _) => {
                tracing::trace!(reflector = &*self.name, version = self.machine.version(), "watching other places");
                return;
            }
            (WatchOutcome::Closed, WatchEndKind::Short) => ReflectorError::VeryShortWatch,
            (WatchOutcome::Closed, WatchEndKind::Hasty) => ReflectorError::HastyWatch,
            (WatchOutcome::Closed, WatchEndKind::Early) => ReflectorError::EndedBeforeSync,
            (WatchOutcome::Closed, WatchEndKind::Usual) => {
                tracing::trace!(
                    reflector = &*self.name,
                    version = self.machine.version(),
                    "watch closed; watching again"
                );
                return;
            }
        };
        self.failed(error, verdict.next);
    }

    /// Processes events until none is ready, the watch ends, or the task should yield.
    fn poll_events(
        &mut self,
        stream: &mut dyn WatchEvents,
        timer: &mut Timer,
        initial: &mut Option<InitialList>,
        events: &mut u64,
        sink: &mut dyn DeltaSink,
        context: &mut Context<'_>,
    ) -> Poll<PollOutcome> {
        let mut taken = 0;
        let mut result = loop {
            if taken == YIELD_AFTER {
                break Poll::Ready(PollOutcome::More);
            }
            let event = match stream.poll_next(context) {
                Poll::Pending => break Poll::Pending,
                Poll::Ready(None) => {
                    if let Some(partial) = initial.take_if(|_| is_planted(Defect::SyncedWithoutBookmark)) {
                        let objects = partial.into_objects();
                        let last = objects.last().map_or("", |object| object.resource_version());
                        let version = ResourceVersion::new(last);
                        if let Err(error) = self.replace(objects, &version, sink) {
                            break Poll::Ready(PollOutcome::Ended(WatchAbort::unusable(error).into()));
                        }
                    }
                    break Poll::Ready(PollOutcome::Ended(WatchOutcome::Closed));
                }
                Poll::Ready(Some(event)) => event,
            };
            taken += 1;
            if let Err(over) = self.event(event, initial, sink) {
                break Poll::Ready(PollOutcome::Ended(over));
            }
        };
        if taken > 0 {
            *events += taken as u64;
            let now = Instant::now();
            self.machine.received(now);
            self.received(now);
            if let Some(initial) = initial {
                self.status.change(|report| report.listed = initial.size().0);
            }
            if let Err(error) = self.pass_dropped_version(sink).and_then(|()| sink.flush()) {
                result = Poll::Ready(PollOutcome::Ended(WatchAbort::unusable(ReflectorError::Sink(error)).into()));
            }
        }
        if let Some(check) = &mut self.consistency_check
            && let Poll::Ready(found) = check.as_mut().poll(context)
        {
            self.consistency_check = None;
            if let Some(inconsistent) = found {
                self.failed(inconsistent, Recovery::Continue);
            }
        }
        match result {
            // Timers are served even if events are always ready.
            Poll::Pending | Poll::Ready(PollOutcome::More) => match self.poll_due(timer, sink, context) {
                Poll::Ready(abort) => Poll::Ready(PollOutcome::Ended(abort.into())),
                Poll::Pending => result,
            },
            over => over,
        }
    }

    fn event(
        &mut self,
        event: Result<WatchEvent<Untyped>, SourceError>,
        initial: &mut Option<InitialList>,
        sink: &mut dyn DeltaSink,
    ) -> Result<(), WatchOutcome> {
        match event {
            Ok(WatchEvent::Bookmark { resource_version, initial_events_end }) => {
                match initial.take_if(|_| initial_events_end) {
                    Some(mut gathered) => {
                        let states = gathered.take_versions();
                        let objects = gathered.into_objects();
                        self.machine.bookmark(resource_version.as_str(), Instant::now());
                        self.replace(objects, &resource_version, sink).map_err(WatchAbort::unusable)?;
                        self.status.change(|report| report.is_watch_list_unavailable = false);
                        self.consistency_check = states.and_then(|states| {
                            let shards = self.shards.clone();
                            consistency::check(Arc::clone(&self.source), shards, resource_version, states)
                        });
                    }
                    None => {
                        self.machine.bookmark(resource_version.as_str(), Instant::now());
                        if initial.is_none() && !resource_version.as_str().is_empty() {
                            self.send(Delta::Bookmark(resource_version), sink)?;
                        }
                    }
                }
                Ok(())
            }
            Ok(WatchEvent::Error(status)) => Err(WatchOutcome::Failed(SourceError::Status(status))),
            Ok(WatchEvent::Added(object)) => self.delta(Delta::Added(object), initial, sink),
            Ok(WatchEvent::Modified(object)) => self.delta(Delta::Updated(object), initial, sink),
            Ok(WatchEvent::Deleted(object)) => self.delta(Delta::Deleted(object.into()), initial, sink),
            Err(SourceError::Unreadable(error @ StreamError::Object { .. })) => {
                // An object that is unreadable as protobuf may be readable as JSON, which the client requests next.
                let retry_as_json = initial.is_some() && is_about_protobuf(&error);
                match (initial, key_of(&error)) {
                    _ if retry_as_json => {
                        self.count_unreadable();
                        return Err(WatchOutcome::Failed(SourceError::Unreadable(error)));
                    }
                    // Without a key, no stored object can be trusted.
                    (None, None) => {
                        self.count_unreadable();
                        return Err(WatchOutcome::Failed(SourceError::Unreadable(error)));
                    }
                    (None, Some(_)) => {
                        self.set_steady(false);
                        self.machine.unreadable(Instant::now());
                    }
                    (Some(initial), Some(key)) => {
                        // It may have been damaged on its way.
                        self.machine.unreadable_initial_object();
                        if let Some(known) = sink.known(key) {
                            initial.put(known);
                        }
                    }
                    (Some(_), None) if self.machine.lost_initial_object() => {}
                    (Some(_), None) => {
                        self.count_unreadable();
                        return Err(WatchAbort::unusable(ReflectorError::Unreadable(error)).into());
                    }
                }
                self.unreadable(error);
                Ok(())
            }
            Err(error) => Err(WatchOutcome::Failed(error)),
        }
    }

    /// Processes an event about one object: adds it to the initial list, or sends it to the sink.
    fn delta(
        &mut self,
        delta: Delta,
        initial: &mut Option<InitialList>,
        sink: &mut dyn DeltaSink,
    ) -> Result<(), WatchOutcome> {
        let Some(object) = delta.object() else { return Ok(()) };
        if let Err(other_kind) = self.ingest.check(object) {
            if initial.is_some() {
                // Leaving it out would delete what the list should have contained.
                return Err(WatchAbort::unusable(other_kind).into());
            }
            self.failed(other_kind, Recovery::Continue);
            self.relist_later();
            return Ok(());
        }
        // The version is the server's, whatever a transform leaves of it.
        self.machine.event(object.resource_version(), matches!(delta, Delta::Added(_)));
        if !self.is_in_range(object.header()) {
            return self.out_of_range(object, initial, sink);
        }
        if initial.is_none() && self.is_repeated(object.header()) {
            self.has_dropped_last = true;
            return Ok(());
        }
        let Some(initial) = initial else {
            let Ingested { accepted, error } = self.ingest.delta(delta, sink).map_err(WatchAbort::unusable)?;
            if let Some(error) = error {
                self.failed(error, Recovery::Continue);
            }
            return accepted.map_or(Ok(()), |delta| self.send(delta, sink));
        };
        initial.note(object, delta.is_deleted());
        match delta {
            Delta::Added(object) | Delta::Updated(object) => {
                if let Some(object) = self.ingest_listed(object, sink).map_err(WatchAbort::unusable)? {
                    let is_new = initial.put(object);
                    let (objects, bytes) = initial.size();
                    self.limits.check(objects, bytes).map_err(WatchAbort::unusable)?;
                    if is_new {
                        self.machine.initial_list_grew(Instant::now());
                    }
                }
            }
            deleted => {
                if let Some(key) = deleted.key() {
                    initial.remove(key);
                }
            }
        }
        Ok(())
    }

    /// Processes an event about an object out of range.
    fn out_of_range(
        &mut self,
        object: &Object,
        initial: &mut Option<InitialList>,
        sink: &mut dyn DeltaSink,
    ) -> Result<(), WatchOutcome> {
        let may_have_left = self.shards.as_ref().is_some_and(|shards| !shards.key().is_fixed());
        if let Some(initial) = initial {
            check_dropped(self.request_shards.dropped).map_err(WatchAbort::unusable)?;
            // A server that does not filter may have many in a row.
            self.machine.initial_list_grew(Instant::now());
            if may_have_left {
                initial.remove(object.key());
            }
            return Ok(());
        }
        let has_left = |known: &Object, shards: &Shards| {
            shards.admits(known.header()) && object.header().version().is_newer_than(&known.header().version())
        };
        if may_have_left
            && let Some(known) = sink.known(object.key())
            && self.shards.as_ref().is_some_and(|shards| has_left(&known, shards))
        {
            self.send(Delta::Deleted(Deleted::Moved { object: known }), sink)?;
        }
        self.has_dropped_last = true;
        Ok(())
    }

    /// Tells the sink the version that events out of range have reached, once for those that arrived together.
    fn pass_dropped_version(&mut self, sink: &mut dyn DeltaSink) -> Result<(), SinkError> {
        let version = self.machine.version();
        match std::mem::take(&mut self.has_dropped_last) && !version.is_empty() {
            true => sink.push(Delta::Bookmark(ResourceVersion::new(version))),
            false => Ok(()),
        }
    }

    fn send(&mut self, delta: Delta, sink: &mut dyn DeltaSink) -> Result<(), WatchOutcome> {
        self.has_dropped_last = false;
        sink.push(delta).map_err(|error| WatchAbort::unusable(ReflectorError::Sink(error)).into())
    }
}
