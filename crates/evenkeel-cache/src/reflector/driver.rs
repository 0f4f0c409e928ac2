//! [`Driver`]: lists, watches and writes as the [`Course`] says.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use evenkeel_core::{ResourceVersion, StreamError, Untyped, WatchEvent};
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep_until};

use super::consistency::{self, Check};
use super::course::{Course, Due, Ending, Page, Step, VerdictKind};
use super::failure::{ErrorHandler, Failure, Next, ReflectorError};
use super::gathering::Gathering;
use super::intake::{Intake, Taken};
use super::status::{LastError, Phase, ReflectorStatus};
use super::target::ReflectorStore;
use crate::Object;
use crate::metrics::ReflectorMetrics;
use crate::source::{ListItems, ListPart, ListRequest, ListerWatcher, SourceError, WatchEvents, WatchRequest};

/// How many events or objects are taken in a row before others get their turn.
const TURN: usize = 1000;
/// A list that takes longer than this is told of.
const LONG: Duration = Duration::from_secs(10);

pub(super) struct Driver {
    pub(super) source: Arc<dyn ListerWatcher>,
    pub(super) name: Arc<str>,
    pub(super) intake: Intake,
    pub(super) course: Course,
    pub(super) on_error: ErrorHandler,
    pub(super) status: ReflectorStatus,
    pub(super) metrics: ReflectorMetrics,
    pub(super) random: fn() -> f64,
    pub(super) check_consistency: bool,
    pub(super) checking: Option<Check>,
    /// What has come of the list that is under way.
    pub(super) listed: Vec<Object>,
    pub(super) list_began: Option<Instant>,
}

/// What became of a stretch of a watch.
enum Turn {
    /// More is at hand.
    More,
    /// It is over.
    Over(Over),
}

/// Why a watch is over.
enum Over {
    Closed,
    Failed(SourceError),
    Halted(Halt),
}

/// Why the reflector ends a watch by itself.
struct Halt {
    error: ReflectorError,
    /// The watch seems to be dead, but what it said is sound.
    is_dead: bool,
}

impl Halt {
    fn dead(error: ReflectorError) -> Self {
        Halt { error, is_dead: true }
    }

    fn unusable(error: ReflectorError) -> Self {
        Halt { error, is_dead: false }
    }
}

impl From<Halt> for Over {
    fn from(halt: Halt) -> Self {
        Over::Halted(halt)
    }
}

/// Says that the reflector is idle when its future is dropped.
struct Idle(ReflectorStatus);

impl Drop for Idle {
    fn drop(&mut self) {
        self.0.change(|report| report.phase = Phase::Idle);
    }
}

impl Driver {
    pub(super) async fn run(&mut self, store: &mut dyn ReflectorStore) -> Infallible {
        let _idle = Idle(self.status.clone());
        self.course.restart();
        self.listed = Vec::new();
        self.list_began = None;
        self.checking = None;
        loop {
            match self.course.step(Instant::now(), (self.random)()) {
                Step::Wait(until) => self.wait(until, store).await,
                Step::List(request) => self.list(request, store).await,
                Step::Watch(request) => self.watch(request, store).await,
            }
        }
    }

    /// Waits, and resyncs meanwhile if that is due.
    async fn wait(&mut self, until: Instant, store: &mut dyn ReflectorStore) {
        self.status.change(|report| report.phase = Phase::Waiting { until });
        let mut timer = Timer::default();
        let mut wait = Box::pin(sleep_until(until));
        poll_fn(|context| {
            if wait.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            let halt = ready!(self.poll_due(&mut timer, store, context));
            let next = self.course.list_unusable(Instant::now(), (self.random)());
            self.failed(halt.error, next);
            Poll::Ready(())
        })
        .await;
    }

    /// Asks for a page, and writes all of them if it is the last.
    async fn list(&mut self, request: ListRequest, store: &mut dyn ReflectorStore) {
        if request.continue_token.is_empty() {
            self.begin_list();
            self.listed.clear();
        }
        let outcome = self.page(request, store).await;
        let now = Instant::now();
        let (error, next) = match outcome {
            Ok((version, token)) => match self.course.page(version, token) {
                Page::More => return self.heard(now),
                Page::Last(version) => {
                    let objects = std::mem::take(&mut self.listed);
                    match self.replace(objects, &version, store) {
                        Ok(()) => return,
                        Err(error) => (error, self.course.list_unusable(Instant::now(), (self.random)())),
                    }
                }
                Page::Endless => (ReflectorError::EndlessList, self.course.list_unusable(now, (self.random)())),
            },
            Err(ReflectorError::List(source)) => {
                let next = self.course.list_failed(&source, now, (self.random)());
                (ReflectorError::List(source), next)
            }
            Err(error) => (error, self.course.list_unusable(now, (self.random)())),
        };
        self.listed = Vec::new();
        self.failed(error, next);
    }

    fn begin_list(&mut self) {
        self.metrics.lists.increment(1);
        self.list_began = Some(Instant::now());
        self.status.change(|report| {
            report.lists += 1;
            report.phase = Phase::Listing;
        });
    }

    /// Reads a page, object by object.
    async fn page(
        &mut self,
        request: ListRequest,
        store: &mut dyn ReflectorStore,
    ) -> Result<(ResourceVersion, String), ReflectorError> {
        let source = Arc::clone(&self.source);
        let mut items = source.list(request).await.map_err(ReflectorError::List)?;
        loop {
            match poll_fn(|context| self.poll_items(&mut *items, store, context)).await? {
                Some(end) => return Ok(end),
                None => yield_now().await,
            }
        }
    }

    /// Takes objects of a list until it is over or somebody else should have a turn.
    fn poll_items(
        &mut self,
        items: &mut dyn ListItems,
        store: &mut dyn ReflectorStore,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<(ResourceVersion, String)>, ReflectorError>> {
        for _ in 0..TURN {
            match ready!(items.poll_next(context)) {
                Ok(ListPart::Object(object)) => {
                    if let Some(object) = self.take_listed(object, store)? {
                        self.listed.push(object);
                    }
                }
                Ok(ListPart::Unreadable(error)) => {
                    let known = key_of(&error).and_then(|key| store.known(key));
                    self.listed.extend(known);
                    self.unreadable(error);
                }
                Ok(ListPart::End { resource_version, continue_token }) => {
                    return Poll::Ready(Ok(Some((resource_version, continue_token))));
                }
                Err(SourceError::Unreadable(error)) => self.unreadable(error),
                Err(error) => return Poll::Ready(Err(ReflectorError::List(error))),
            }
        }
        Poll::Ready(Ok(None))
    }

    /// The object as it is to be stored; `None` if it is left out.
    fn take_listed(
        &mut self,
        object: Object,
        store: &mut dyn ReflectorStore,
    ) -> Result<Option<Object>, ReflectorError> {
        let key = object.key().clone();
        match self.intake.listed(object, |key| store.known(key)) {
            Taken::Object(object) => Ok(Some(object)),
            Taken::Raw(object, error) => {
                self.failed(error, Next::GoOn);
                Ok(Some(object))
            }
            Taken::Stale(error) => {
                self.failed(error, Next::GoOn);
                Ok(store.known(&key))
            }
            Taken::Stranger(error) => {
                self.failed(error, Next::GoOn);
                Ok(None)
            }
            Taken::Fail(error) => Err(error),
        }
    }

    /// Writes all objects.
    fn replace(
        &mut self,
        objects: Vec<Object>,
        version: &ResourceVersion,
        store: &mut dyn ReflectorStore,
    ) -> Result<(), ReflectorError> {
        let count = objects.len();
        store.replace(objects, version.clone()).map_err(ReflectorError::Store)?;
        let now = Instant::now();
        self.course.synced(version, now);
        let took = self.list_began.take().map_or(Duration::ZERO, |began| now.saturating_duration_since(began));
        self.metrics.listed(count, took);
        if took > LONG {
            tracing::info!(reflector = &*self.name, count, ?took, "it took long to list all objects");
        }
        self.status.change(|report| {
            report.syncs += 1;
            report.phase = Phase::Watching;
        });
        self.heard(now);
        store.flush().map_err(ReflectorError::Store)
    }

    /// Watches until that is over.
    async fn watch(&mut self, request: WatchRequest, store: &mut dyn ReflectorStore) {
        let asked = Instant::now();
        let mut gathering = request.initial_events.then(|| Gathering::new(self.check_consistency));
        self.metrics.watches.increment(1);
        self.status.change(|report| {
            report.watches += 1;
            report.phase = if gathering.is_some() { Phase::Listing } else { Phase::Watching };
        });
        if gathering.is_some() {
            self.begin_list();
        }
        let mut timer = Timer::default();
        let source = Arc::clone(&self.source);
        let mut opening = source.watch(request);
        let opened = poll_fn(|context| match opening.as_mut().poll(context) {
            Poll::Ready(opened) => Poll::Ready(Ok(opened)),
            Poll::Pending => self.poll_due(&mut timer, store, context).map(Err),
        })
        .await;
        drop(opening);
        let mut events = 0;
        let over = match opened {
            Err(halt) => halt.into(),
            Ok(Err(error)) => return self.refused(error, asked),
            Ok(Ok(mut stream)) => {
                self.course.watch_opened(Instant::now());
                loop {
                    let turn = poll_fn(|context| {
                        self.poll_events(&mut *stream, &mut timer, &mut gathering, &mut events, store, context)
                    });
                    match turn.await {
                        Turn::More => yield_now().await,
                        Turn::Over(over) => break over,
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
        let verdict = self.course.watch_ended(Ending::Refused(&error), Instant::now(), (self.random)());
        self.failed(ReflectorError::Watch(error), verdict.next);
    }

    /// The watch has ended.
    fn over(&mut self, over: Over) {
        let ending = match &over {
            Over::Closed => Ending::Closed,
            Over::Failed(error) => Ending::Failed(error),
            Over::Halted(Halt { is_dead: true, .. }) => Ending::Dead,
            Over::Halted(Halt { is_dead: false, .. }) => Ending::Unusable,
        };
        let verdict = self.course.watch_ended(ending, Instant::now(), (self.random)());
        if verdict.kind == VerdictKind::Short {
            self.metrics.short_watches.increment(1);
            self.status.change(|report| report.short_watches += 1);
        }
        let error = match (over, verdict.kind) {
            (Over::Failed(error), _) => ReflectorError::Stream(error),
            (Over::Halted(halt), _) => halt.error,
            (Over::Closed, VerdictKind::Short) => ReflectorError::VeryShortWatch,
            (Over::Closed, VerdictKind::Hasty) => ReflectorError::HastyWatch,
            (Over::Closed, VerdictKind::Early) => ReflectorError::EndedBeforeSync,
            (Over::Closed, VerdictKind::Usual) => {
                tracing::trace!(reflector = &*self.name, version = self.course.version(), "the watch ended");
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
        gathering: &mut Option<Gathering>,
        events: &mut u64,
        store: &mut dyn ReflectorStore,
        context: &mut Context<'_>,
    ) -> Poll<Turn> {
        let mut taken = 0;
        let mut result = loop {
            if taken == TURN {
                break Poll::Ready(Turn::More);
            }
            let event = match stream.poll_next(context) {
                Poll::Pending => break Poll::Pending,
                Poll::Ready(None) => break Poll::Ready(Turn::Over(Over::Closed)),
                Poll::Ready(Some(event)) => event,
            };
            taken += 1;
            if let Err(over) = self.event(event, gathering, store) {
                break Poll::Ready(Turn::Over(over));
            }
        };
        if taken > 0 {
            *events += taken as u64;
            let now = Instant::now();
            self.course.heard(now);
            self.heard(now);
            if let Err(error) = store.flush() {
                result = Poll::Ready(Turn::Over(Halt::unusable(ReflectorError::Store(error)).into()));
            }
        }
        if let Some(check) = &mut self.checking
            && let Poll::Ready(found) = check.as_mut().poll(context)
        {
            self.checking = None;
            if let Some(inconsistent) = found {
                self.failed(inconsistent, Next::GoOn);
            }
        }
        match result {
            Poll::Pending => self.poll_due(timer, store, context).map(|halt| Turn::Over(halt.into())),
            ready => ready,
        }
    }

    fn event(
        &mut self,
        event: Result<WatchEvent<Untyped>, SourceError>,
        gathering: &mut Option<Gathering>,
        store: &mut dyn ReflectorStore,
    ) -> Result<(), Over> {
        match event {
            Ok(WatchEvent::Bookmark { resource_version, initial_events_end }) => {
                match gathering.take_if(|_| initial_events_end) {
                    Some(mut gathered) => {
                        let states = gathered.take_states();
                        let objects = gathered.into_objects();
                        self.course.bookmark(resource_version.as_str(), Instant::now());
                        self.replace(objects, &resource_version, store).map_err(Halt::unusable)?;
                        self.status.change(|report| report.is_watch_list_unavailable = false);
                        self.checking = states
                            .and_then(|states| consistency::check(Arc::clone(&self.source), resource_version, states));
                    }
                    None => {
                        self.course.bookmark(resource_version.as_str(), Instant::now());
                        if gathering.is_none() && !resource_version.as_str().is_empty() {
                            store.bookmark(&resource_version);
                        }
                    }
                }
                Ok(())
            }
            Ok(WatchEvent::Error(status)) => Err(Over::Failed(SourceError::Status(status))),
            Ok(WatchEvent::Added(object)) => self.change(Change::Added, object, gathering, store),
            Ok(WatchEvent::Modified(object)) => self.change(Change::Modified, object, gathering, store),
            Ok(WatchEvent::Deleted(object)) => self.change(Change::Deleted, object, gathering, store),
            Err(SourceError::Unreadable(error @ StreamError::Object { .. })) => {
                match (gathering, key_of(&error)) {
                    // Of an object that nothing is known of, nothing is known to be right either.
                    (None, None) => {
                        self.count_unreadable();
                        return Err(Over::Failed(SourceError::Unreadable(error)));
                    }
                    (None, Some(_)) => self.course.unreadable(Instant::now()),
                    (Some(gathering), Some(key)) => {
                        if let Some(known) = store.known(key) {
                            gathering.put(known);
                        }
                    }
                    (Some(_), None) => {}
                }
                self.unreadable(error);
                Ok(())
            }
            Err(error) => Err(Over::Failed(error)),
        }
    }

    /// An object has come, has changed or is gone.
    fn change(
        &mut self,
        change: Change,
        object: Object,
        gathering: &mut Option<Gathering>,
        store: &mut dyn ReflectorStore,
    ) -> Result<(), Over> {
        if let Err(stranger) = self.intake.check(&object) {
            self.failed(stranger, Next::GoOn);
            return Ok(());
        }
        // The version is the server's, whatever a transform leaves of it.
        self.course.event(object.resource_version(), change == Change::Added);
        let Some(gathering) = gathering else { return self.write(change, object, store) };
        gathering.note(&object, change == Change::Deleted);
        match change {
            Change::Deleted => gathering.remove(object.key()),
            Change::Added | Change::Modified => {
                if let Some(object) = self.take_listed(object, store).map_err(Halt::unusable)? {
                    gathering.put(object);
                }
            }
        }
        Ok(())
    }

    /// Writes what a watch says of an object.
    fn write(&mut self, change: Change, object: Object, store: &mut dyn ReflectorStore) -> Result<(), Over> {
        let key = (change == Change::Deleted).then(|| object.key().clone());
        let object = match self.intake.changed(object) {
            Taken::Object(object) => object,
            Taken::Raw(object, error) => {
                self.failed(error, Next::GoOn);
                object
            }
            Taken::Stale(error) | Taken::Stranger(error) => {
                self.failed(error, Next::GoOn);
                // What is gone is gone, whatever its last state was. If it never was here, nobody needs to know.
                match key.and_then(|key| store.known(&key)) {
                    Some(known) => known,
                    None => return Ok(()),
                }
            }
            Taken::Fail(error) => return Err(Halt::unusable(error).into()),
        };
        match change {
            Change::Added => store.add(object),
            Change::Modified => store.update(object),
            Change::Deleted => store.delete(object),
        }
        .map_err(|error| Halt::unusable(ReflectorError::Store(error)).into())
    }

    /// Does what is due, and says if that ends the watch.
    fn poll_due(&mut self, timer: &mut Timer, store: &mut dyn ReflectorStore, context: &mut Context<'_>) -> Poll<Halt> {
        loop {
            ready!(timer.poll(self.course.wake_at(), context));
            let now = Instant::now();
            match self.course.due(now) {
                Due::Nothing => {}
                Due::Resync => {
                    if let Err(error) = store.resync(now).and_then(|()| store.flush()) {
                        return Poll::Ready(Halt::unusable(ReflectorError::Store(error)));
                    }
                    self.course.resynced(Instant::now());
                }
                Due::Overdue { timeout } => return Poll::Ready(Halt::dead(ReflectorError::Overdue { timeout })),
                Due::Silent { silence } => return Poll::Ready(Halt::dead(ReflectorError::Silent { silence })),
                Due::Relist => return Poll::Ready(Halt::unusable(ReflectorError::PerhapsGone)),
                Due::StillSyncing { silence } => {
                    let (reflector, kind) = (&*self.name, self.intake.resource.kind());
                    tracing::warn!(reflector, kind, ?silence, "the watch has not said yet that all objects have come");
                }
            }
        }
    }

    /// The server was heard.
    fn heard(&mut self, now: Instant) {
        let version = self.course.version();
        self.metrics.heard(version);
        self.status.change(|report| {
            report.last_heard = Some(now);
            if report.last_sync_resource_version != version {
                report.last_sync_resource_version.clear();
                report.last_sync_resource_version.push_str(version);
            }
        });
    }

    #[cold]
    fn count_unreadable(&self) {
        self.metrics.decode_failures.increment(1);
        self.status.change(|report| report.decode_failures += 1);
    }

    #[cold]
    fn unreadable(&mut self, error: StreamError) {
        self.count_unreadable();
        self.failed(ReflectorError::Unreadable(error), Next::GoOn);
    }

    /// Tells what went wrong, and what is next.
    #[cold]
    fn failed(&mut self, error: ReflectorError, next: Next) {
        if let Next::Relist { .. } = next {
            self.metrics.relists.increment(1);
        }
        let (is_instead, message) = (self.course.is_listing_instead(), error.to_string());
        let mut phase = Phase::Idle;
        self.status.change(|report| {
            phase = report.phase;
            report.failures += 1;
            report.last_error = Some(LastError { message, at: Instant::now() });
            report.is_watch_list_unavailable |= is_instead;
        });
        let failure = Failure {
            reflector: Arc::clone(&self.name),
            resource: Arc::clone(&self.intake.resource),
            phase,
            error,
            next,
            attempt: self.course.failures(),
        };
        (self.on_error)(&failure);
    }
}

/// What has become of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Added,
    Modified,
    Deleted,
}

/// Which object could not be read, if that can be told.
fn key_of(error: &StreamError) -> Option<&evenkeel_core::ObjectKey> {
    match error {
        StreamError::Object { key, .. } => key.as_ref(),
        _ => None,
    }
}

/// A timer that is only set anew when it must go off earlier.
#[derive(Default)]
struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timer {
    /// Ready at this time, or earlier. Never if there is none.
    fn poll(&mut self, at: Option<Instant>, context: &mut Context<'_>) -> Poll<()> {
        let Some(at) = at else { return Poll::Pending };
        match &mut self.sleep {
            None => self.sleep = Some(Box::pin(sleep_until(at))),
            Some(sleep) if sleep.deadline() > at || sleep.is_elapsed() => sleep.as_mut().reset(at),
            Some(_) => {}
        }
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}
