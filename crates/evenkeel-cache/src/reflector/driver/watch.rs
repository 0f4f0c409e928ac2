//! Watches, event by event.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use evenkeel_core::{StreamError, Untyped, WatchEvent};
use tokio::task::yield_now;
use tokio::time::Instant;

use super::{Driver, TURN, Timer, WatchAbort, key_of};
use crate::delta::Delta;
use crate::reflector::consistency;
use crate::reflector::error::{Recovery, ReflectorError};
use crate::reflector::ingest::Ingested;
use crate::reflector::initial_list::InitialList;
use crate::reflector::machine::{WatchEnd, WatchEndKind};
use crate::reflector::sink::DeltaSink;
use crate::reflector::status::ReflectorPhase;
use crate::source::{SourceError, WatchEvents, WatchRequest, is_about_protobuf};

/// What became of a stretch of a watch.
enum Turn {
    /// More is at hand.
    More,
    /// It is over.
    WatchOutcome(WatchOutcome),
}

/// Why a watch is over.
enum WatchOutcome {
    Closed,
    Failed(SourceError),
    Halted(WatchAbort),
}

impl From<WatchAbort> for WatchOutcome {
    fn from(halt: WatchAbort) -> Self {
        WatchOutcome::Halted(halt)
    }
}

impl Driver {
    /// Watches until that is over.
    pub(super) async fn watch(&mut self, request: WatchRequest, sink: &mut dyn DeltaSink) {
        let asked = Instant::now();
        let mut initial = request.initial_events.then(|| InitialList::new(self.check_consistency));
        self.metrics.watches.increment(1);
        self.status.change(|report| {
            report.watches += 1;
            report.phase = if initial.is_some() { ReflectorPhase::Listing } else { ReflectorPhase::Watching };
        });
        if initial.is_some() {
            self.begin_list();
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
        let over = match opened {
            Err(halt) => halt.into(),
            Ok(Err(error)) => return self.refused(error, asked),
            Ok(Ok(mut stream)) => {
                self.machine.watch_opened(Instant::now());
                loop {
                    let turn = poll_fn(|context| {
                        self.poll_events(&mut *stream, &mut timer, &mut initial, &mut events, sink, context)
                    });
                    match turn.await {
                        Turn::More => yield_now().await,
                        Turn::WatchOutcome(over) => break over,
                    }
                }
            }
        };
        self.metrics.watched(events, asked.elapsed());
        self.over(over);
    }

    /// The watch could not be had.
    fn refused(&mut self, error: SourceError, asked: Instant) {
        self.metrics.watched(0, asked.elapsed());
        let verdict = self.machine.watch_ended(WatchEnd::Refused(&error), Instant::now(), (self.random)());
        self.failed(ReflectorError::Watch(error), verdict.next);
    }

    /// The watch has ended.
    fn over(&mut self, over: WatchOutcome) {
        let ending = match &over {
            WatchOutcome::Closed => WatchEnd::Closed,
            WatchOutcome::Failed(error) => WatchEnd::Failed(error),
            WatchOutcome::Halted(WatchAbort { is_dead: true, .. }) => WatchEnd::Dead,
            WatchOutcome::Halted(WatchAbort { is_dead: false, .. }) => WatchEnd::Unusable,
        };
        let verdict = self.machine.watch_ended(ending, Instant::now(), (self.random)());
        if verdict.kind == WatchEndKind::Short {
            self.metrics.short_watches.increment(1);
            self.status.change(|report| report.short_watches += 1);
        }
        let error = match (over, verdict.kind) {
            (WatchOutcome::Failed(error), _) => ReflectorError::Stream(error),
            (WatchOutcome::Halted(halt), _) => halt.error,
            (WatchOutcome::Closed, WatchEndKind::Short) => ReflectorError::VeryShortWatch,
            (WatchOutcome::Closed, WatchEndKind::Hasty) => ReflectorError::HastyWatch,
            (WatchOutcome::Closed, WatchEndKind::Early) => ReflectorError::EndedBeforeSync,
            (WatchOutcome::Closed, WatchEndKind::Usual) => {
                tracing::trace!(reflector = &*self.name, version = self.machine.version(), "the watch ended");
                return;
            }
        };
        self.failed(error, verdict.next);
    }

    /// Takes events until none is at hand, the watch is over or somebody else should have a turn.
    fn poll_events(
        &mut self,
        stream: &mut dyn WatchEvents,
        timer: &mut Timer,
        initial: &mut Option<InitialList>,
        events: &mut u64,
        sink: &mut dyn DeltaSink,
        context: &mut Context<'_>,
    ) -> Poll<Turn> {
        let mut taken = 0;
        let mut result = loop {
            if taken == TURN {
                break Poll::Ready(Turn::More);
            }
            let event = match stream.poll_next(context) {
                Poll::Pending => break Poll::Pending,
                Poll::Ready(None) => break Poll::Ready(Turn::WatchOutcome(WatchOutcome::Closed)),
                Poll::Ready(Some(event)) => event,
            };
            taken += 1;
            if let Err(over) = self.event(event, initial, sink) {
                break Poll::Ready(Turn::WatchOutcome(over));
            }
        };
        if taken > 0 {
            *events += taken as u64;
            let now = Instant::now();
            self.machine.heard(now);
            self.heard(now);
            if let Err(error) = sink.flush() {
                result = Poll::Ready(Turn::WatchOutcome(WatchAbort::unusable(ReflectorError::Sink(error)).into()));
            }
        }
        if let Some(check) = &mut self.checking
            && let Poll::Ready(found) = check.as_mut().poll(context)
        {
            self.checking = None;
            if let Some(inconsistent) = found {
                self.failed(inconsistent, Recovery::Continue);
            }
        }
        match result {
            // Even if there is always more at hand, what is due is done.
            Poll::Pending | Poll::Ready(Turn::More) => match self.poll_due(timer, sink, context) {
                Poll::Ready(halt) => Poll::Ready(Turn::WatchOutcome(halt.into())),
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
                        self.checking = states
                            .and_then(|states| consistency::check(Arc::clone(&self.source), resource_version, states));
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
                // What cannot be read as protobuf may be readable as JSON, which is what the client asks for next.
                let is_worth_another_try = initial.is_some() && is_about_protobuf(&error);
                match (initial, key_of(&error)) {
                    _ if is_worth_another_try => {
                        self.count_unreadable();
                        return Err(WatchOutcome::Failed(SourceError::Unreadable(error)));
                    }
                    // Of an object that nothing is known of, nothing is known to be right either.
                    (None, None) => {
                        self.count_unreadable();
                        return Err(WatchOutcome::Failed(SourceError::Unreadable(error)));
                    }
                    (None, Some(_)) => self.machine.unreadable(Instant::now()),
                    (Some(initial), Some(key)) => {
                        if let Some(known) = sink.known(key) {
                            initial.put(known);
                        }
                    }
                    (Some(_), None) => {}
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
            self.failed(other_kind, Recovery::Continue);
            return Ok(());
        }
        // The version is the server's, whatever a transform leaves of it.
        self.machine.event(object.resource_version(), matches!(delta, Delta::Added(_)));
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
                    initial.put(object);
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

    fn send(&mut self, delta: Delta, sink: &mut dyn DeltaSink) -> Result<(), WatchOutcome> {
        sink.push(delta).map_err(|error| WatchAbort::unusable(ReflectorError::Sink(error)).into())
    }
}
