//! [`Driver`]: performs the actions of the [`ReflectorMachine`]: lists, watches, and sends deltas to the sink.

mod list;
#[cfg(planted)]
mod overtaking;
mod watch;

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use evenkeel_core::shard::ShardSelector;
use evenkeel_core::{Header, ObjectKey, ResourceVersion, StreamError};
use tokio::time::{Instant, Sleep, sleep_until};

use super::consistency::ConsistencyCheck;
use super::error::{ErrorHandler, Recovery, ReflectorError, ReflectorFailure};
use super::ingest::Ingest;
use super::limits::ListLimits;
use super::machine::{DueAction, ReflectorAction, ReflectorMachine, WatchEnd};
use super::shards::{RequestShards, Shards};
use super::sink::{DeltaSink, SinkError, SinkRequest};
use super::stall::StallClock;
use super::status::{LastError, ReflectorPhase, ReflectorStatus};
use crate::Object;
use crate::delta::Delta;
use crate::metrics::{ReflectorCounter, ReflectorMetrics};
use crate::source::{ListerWatcher, SourceError};

/// The number of events or objects that are processed before the task yields.
const YIELD_AFTER: usize = 1000;

/// Performs the actions of the machine.
pub(super) struct Driver {
    pub(super) source: Arc<dyn ListerWatcher>,
    pub(super) name: Arc<str>,
    pub(super) ingest: Ingest,
    pub(super) machine: ReflectorMachine,
    pub(super) on_error: ErrorHandler,
    pub(super) status: ReflectorStatus,
    pub(super) metrics: ReflectorMetrics,
    pub(super) random: fn() -> f64,
    pub(super) check_consistency: bool,
    pub(super) consistency_check: Option<ConsistencyCheck>,
    /// The objects of the list in progress.
    pub(super) listed: Vec<Object>,
    /// The number of objects that the list has sent, unreadable and skipped ones included.
    pub(super) received_objects: usize,
    /// The bytes of the listed objects' payloads.
    pub(super) listed_bytes: usize,
    pub(super) limits: ListLimits,
    /// The places of the objects; `None` for all objects.
    pub(super) shards: Option<Arc<Shards>>,
    /// Called before a watch that continues at a version.
    pub(super) before_watch: Option<BeforeWatch>,
    /// The shard selector of the list or watch in progress.
    pub(super) request_shards: RequestShards,
    /// The last event of the watch was out of range, so that the sink has not seen its version.
    pub(super) has_dropped_last: bool,
    pub(super) list_started: Option<Instant>,
    /// When a list that takes long is logged.
    pub(super) long_list: Option<StallClock>,
    /// The sink is closed: the reflector stops.
    pub(super) is_closed: bool,
}

/// Called before a watch that continues at a version: the owner of the reflector's places may change them now.
pub(crate) type BeforeWatch = Box<dyn FnMut() -> WatchStart + Send>;

/// Where a watch starts.
#[derive(Debug)]
pub(crate) enum WatchStart {
    /// At the version that the reflector has reached.
    Here,
    /// At this earlier version. The sink has reached the other one for some objects, so lists must not be older than that.
    Earlier { version: ResourceVersion, reached: ResourceVersion },
    /// Nowhere: the reflector relists.
    Relist,
}

/// Why the reflector ends a watch.
struct WatchAbort {
    /// `None` if it is requested again with other parameters.
    error: Option<ReflectorError>,
    /// What that means for the events so far.
    end: WatchEnd<'static>,
}

impl WatchAbort {
    /// The watch is dead, but its events so far are valid.
    fn dead(error: ReflectorError) -> Self {
        WatchAbort { error: Some(error), end: WatchEnd::Dead }
    }

    fn unusable(error: ReflectorError) -> Self {
        WatchAbort { error: Some(error), end: WatchEnd::Unusable }
    }
}

/// Sets the phase to idle when the future is dropped.
struct ResetPhase(ReflectorStatus);

impl Drop for ResetPhase {
    fn drop(&mut self) {
        self.0.change(|report| report.phase = ReflectorPhase::Idle);
    }
}

impl Driver {
    pub(super) async fn run(&mut self, sink: &mut dyn DeltaSink) {
        let _reset = ResetPhase(self.status.clone());
        self.machine.restart();
        self.forget_list();
        self.list_started = None;
        self.consistency_check = None;
        self.is_closed = false;
        while !self.is_closed {
            match self.machine.step(Instant::now(), (self.random)()) {
                ReflectorAction::Wait(until) => self.wait(until, sink).await,
                ReflectorAction::List(request) => self.list(request, sink).await,
                ReflectorAction::Watch(request) => self.watch(request, sink).await,
            }
        }
    }

    /// Waits, and resyncs meanwhile if a resync is due.
    async fn wait(&mut self, until: Instant, sink: &mut dyn DeltaSink) {
        self.status.change(|report| report.phase = ReflectorPhase::Waiting { until });
        let mut timer = Timer::default();
        let mut wait = Box::pin(sleep_until(until));
        poll_fn(|context| {
            if wait.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            let abort = ready!(self.poll_due(&mut timer, sink, context));
            if let Some(error) = abort.error {
                let next = self.machine.list_unusable(Instant::now(), (self.random)());
                self.failed(error, next);
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Does what is due. Ready if that ends the watch.
    fn poll_due(&mut self, timer: &mut Timer, sink: &mut dyn DeltaSink, context: &mut Context<'_>) -> Poll<WatchAbort> {
        while let Poll::Ready(request) = sink.poll_request(context) {
            match request {
                SinkRequest::ResyncPeriod(period) => self.machine.set_resync_period(period, Instant::now()),
                SinkRequest::Rewatch => self.machine.rewatch(Instant::now()),
                SinkRequest::Stop => {
                    let closed = SinkError::Closed { name: self.name.to_string() };
                    return Poll::Ready(WatchAbort::unusable(ReflectorError::Sink(closed)));
                }
                SinkRequest::Repair { version, missing, extra, other } => {
                    self.machine.distrust_version();
                    let error = ReflectorError::Inconsistent { version, missing, extra, other };
                    return Poll::Ready(WatchAbort::unusable(error));
                }
            }
        }
        loop {
            ready!(timer.poll(self.machine.wake_at(), context));
            let now = Instant::now();
            match self.machine.due(now) {
                DueAction::Nothing => {}
                DueAction::Resync => {
                    if let Err(error) = sink.push(Delta::SyncAll).and_then(|()| sink.flush()) {
                        return Poll::Ready(WatchAbort::unusable(ReflectorError::Sink(error)));
                    }
                    self.machine.resynced(Instant::now());
                }
                DueAction::Overdue { timeout } => {
                    return Poll::Ready(WatchAbort::dead(ReflectorError::Overdue { timeout }));
                }
                DueAction::Silent { silence } => {
                    return Poll::Ready(WatchAbort::dead(ReflectorError::Silent { silence }));
                }
                DueAction::Rewatch => return Poll::Ready(WatchAbort { error: None, end: WatchEnd::Replaced }),
                DueAction::Relist => return Poll::Ready(WatchAbort::unusable(ReflectorError::PerhapsDeleted)),
                DueAction::Stalled { waited, initial_events: true } => {
                    self.stalled("initial list is not complete; still waiting", waited);
                }
                DueAction::Stalled { waited, initial_events: false } => {
                    self.stalled("no response to the watch; still waiting", waited);
                }
                DueAction::NoBookmark { waited } => {
                    let error = ReflectorError::NoBookmark { waited };
                    return Poll::Ready(WatchAbort { error: Some(error), end: WatchEnd::NoBookmark });
                }
            }
        }
    }

    /// Reports a request without progress.
    #[cold]
    fn stalled(&mut self, what: &'static str, waited: Duration) {
        let (reflector, kind) = (&*self.name, self.ingest.resource.kind());
        tracing::warn!(reflector, kind, ?waited, "{what}");
        self.metrics.increment(ReflectorCounter::Stalls);
        self.status.change(|report| {
            report.stalls += 1;
            report.last_error = Some(LastError { message: format!("{what} ({waited:.0?})"), at: Instant::now() });
        });
    }

    /// Drops the objects of the list in progress.
    fn forget_list(&mut self) {
        self.listed = Vec::new();
        self.received_objects = 0;
        self.listed_bytes = 0;
        self.status.change(|report| report.listed = 0);
    }

    /// Starts a list or watch with the shard selector of now.
    fn select_shards(&mut self) -> Option<ShardSelector> {
        self.request_shards = self.shards.as_ref().map(|shards| shards.request(Instant::now())).unwrap_or_default();
        self.request_shards.sent.clone()
    }

    /// Returns whether an object is in range. One that is not is counted.
    fn is_in_range(&mut self, object: &Header) -> bool {
        let Some(shards) = self.shards.as_ref().filter(|shards| !shards.admits(object)) else { return true };
        shards.dropped(object, &mut self.request_shards);
        false
    }

    /// Returns whether an event was applied before by another reflector, whose places this one has taken over.
    fn is_repeated(&self, object: &Header) -> bool {
        self.shards.as_ref().is_some_and(|shards| shards.is_repeated(object))
    }

    /// Records whether the sink has received everything up to the version, and will.
    fn set_steady(&self, is_steady: bool) {
        if let Some(shards) = &self.shards {
            shards.set_steady(is_steady);
        }
    }

    /// Makes a relist due because an event was lost.
    fn relist_later(&mut self) {
        self.set_steady(false);
        self.machine.relist_later(Instant::now());
    }

    /// Returns whether a request failed because of its shard selector. The next one has none.
    fn are_shards_refused(&self, error: &SourceError) -> bool {
        let sent = self.request_shards.sent.as_ref();
        self.shards.as_ref().is_some_and(|shards| shards.refused(error, sent, Instant::now()))
    }

    /// Records that the server sent something.
    fn received(&mut self, now: Instant) {
        if let Some(waited) = self.long_list.as_mut().and_then(|clock| clock.due(now)) {
            let objects = self.status.report().listed;
            tracing::info!(reflector = &*self.name, objects, ?waited, "list is not complete; still reading");
        }
        let version = self.machine.version();
        self.metrics.received(version);
        if let Some(shards) = &self.shards {
            shards.reached(version);
        }
        self.status.change(|report| {
            report.last_received = Some(now);
            report.listed = report.listed.max(self.listed.len());
            if report.last_sync_resource_version != version {
                report.last_sync_resource_version.clear();
                report.last_sync_resource_version.push_str(version);
            }
        });
    }

    #[cold]
    fn count_unreadable(&self) {
        self.metrics.increment(ReflectorCounter::DecodeFailures);
        self.status.change(|report| report.decode_failures += 1);
    }

    #[cold]
    fn unreadable(&mut self, error: StreamError) {
        self.count_unreadable();
        self.failed(ReflectorError::Unreadable(error), Recovery::Continue);
    }

    /// Reports a failure and the recovery from it.
    #[cold]
    fn failed(&mut self, error: ReflectorError, next: Recovery) {
        if let ReflectorError::Sink(SinkError::Closed { .. }) = error {
            self.is_closed = true;
            tracing::debug!(reflector = &*self.name, %error, "sink closed; reflector stops");
            return;
        }
        if let Recovery::Relist { .. } = next {
            self.set_steady(false);
            self.metrics.increment(ReflectorCounter::Relists);
        }
        let is_instead = self.machine.is_listing_instead();
        let message = error.about(&self.ingest.resource).to_string();
        let mut phase = ReflectorPhase::Idle;
        self.status.change(|report| {
            phase = report.phase;
            report.failures += 1;
            report.last_error = Some(LastError { message, at: Instant::now() });
            report.is_watch_list_unavailable |= is_instead;
        });
        let failure = ReflectorFailure {
            reflector: Arc::clone(&self.name),
            resource: Arc::clone(&self.ingest.resource),
            phase,
            error,
            next,
            attempt: self.machine.failures(),
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.on_error)(&failure))) {
            let message = crate::panic_message(&*panic);
            tracing::error!(reflector = &*self.name, message, "error handler panicked; the reflector continues");
        }
    }
}

/// Returns the key of an unreadable object, if it is known.
fn key_of(error: &StreamError) -> Option<&ObjectKey> {
    match error {
        StreamError::Object { key, .. } => key.as_deref(),
        _ => None,
    }
}

/// A timer that is reset only to fire earlier.
#[derive(Default)]
struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timer {
    /// Ready at this time or earlier; never for `None`.
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
