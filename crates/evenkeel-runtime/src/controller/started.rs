//! [`StartedController`]: a controller whose informers run, without the type of its kind.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel_base::task::scheduled;
use evenkeel_cache::informer::InformerStatus;
use evenkeel_cache::{InformerFactory, InformerHold, RunningInformers};
use evenkeel_core::ObjectKey;
use evenkeel_queue::WorkQueue;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::context::ControllerShared;
use super::error::ControllerError;
use super::handle::{CellGuard, ControllerHandle};
use super::history::{DiagnosticsEntry, History};
use super::metrics::ControllerMetrics;
use super::parked_keys::{CacheWaiter, ParkedKeys};
use super::sharding::ControllerShards;
use super::source_set::SourceSet;
use super::standby::StopReport;
use super::workers::{Reconcile, Workers};
use crate::inspect::Inspector;
use crate::ring::WorkingRing;

/// The time that recorded events have to be written when a controller shuts down.
const EVENT_FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// The time that informers have to stop. They hold no user code once the handlers are removed.
const INFORMER_STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// The grace period that stands for "no limit": about 30 years.
const FAR_FUTURE: Duration = Duration::from_secs(86_400 * 365 * 30);

#[derive(Clone, Debug)]
pub(super) struct ControllerSettings {
    pub(super) concurrency: usize,
    pub(super) timeout: Option<Duration>,
    pub(super) sync_timeout: Duration,
    pub(super) grace: Duration,
    /// How long the caches may take to show own writes; `None` if keys are not parked.
    pub(super) own_writes: Option<Duration>,
    pub(super) recover_panics: bool,
    /// The resync period of the handlers, if it is not that of the informers.
    pub(super) resync: Option<Duration>,
}

/// A controller whose informers run and fill the queue, without workers. Dropping it stops everything that it started.
pub(super) struct StartedController {
    pub(super) shared: Arc<ControllerShared>,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) sources: Arc<SourceSet>,
    pub(super) metrics: Arc<ControllerMetrics>,
    pub(super) settings: ControllerSettings,
    pub(super) informers: InformerFactory,
    /// Handle of the informers that this controller started for others: its own are held by its sources.
    pub(super) running: RunningInformers,
    pub(super) owns_recorder: bool,
    pub(super) history: History,
    pub(super) inspector: Option<Inspector>,
    /// The entry in the diagnostics, if there is one.
    pub(super) diagnostics_entry: Option<DiagnosticsEntry>,
    /// The number of keys that were queued when the controller stopped.
    pub(super) dropped_keys: OnceLock<usize>,
    /// Ends the handles of the controller.
    pub(super) cell: CellGuard,
    /// The ring that divides the controller.
    pub(super) ring: Option<Arc<WorkingRing>>,
}

/// How the workers ended.
struct WorkersResult {
    outcome: Result<(), ControllerError>,
    /// The number of reconciles that were dropped at the end of the grace period.
    dropped: usize,
}

impl StartedController {
    fn name(&self) -> String {
        self.shared.label()
    }

    /// Returns a handle of the controller.
    pub(super) fn handle(&self) -> ControllerHandle {
        self.cell.handle(self.name())
    }

    /// Waits until every handler has received the initial list.
    pub(super) async fn synced(&self) -> Result<(), ControllerError> {
        self.sources.synced().await
    }

    /// Returns [`synced`](Self::synced) as a future that does not borrow the controller.
    pub(super) fn readiness(&self) -> impl Future<Output = Result<(), ControllerError>> + Send + use<> {
        let sources = Arc::clone(&self.sources);
        async move { sources.synced().await }
    }

    /// Reconciles until `shutdown` resolves, then drains within the grace period. Returns what was left undone.
    pub(super) async fn run(
        mut self,
        mut shutdown: Pin<&mut (dyn Future<Output = ()> + Send)>,
        reconcile: Reconcile,
    ) -> Result<StopReport, ControllerError> {
        let synced = tokio::select! {
            biased;
            () = &mut shutdown => Ok(false),
            synced = self.synced() => synced.map(|()| true),
        };
        let (workers, deadline) = match synced {
            Ok(true) => match self.ring.clone().zip(self.shared.shards.clone()) {
                None => self.work(shutdown, reconcile).await,
                Some((ring, shards)) => self.work_in(&ring, shards, shutdown, reconcile).await,
            },
            not_started => (WorkersResult { outcome: not_started.map(drop), dropped: 0 }, self.deadline()),
        };
        let WorkersResult { outcome, dropped: running } = workers;
        let handlers = self.shut_down(deadline).await;
        outcome?;
        if running + handlers > 0 {
            let grace = self.settings.grace;
            return Err(ControllerError::GraceExceeded { controller: self.name(), running, handlers, grace });
        }
        Ok(StopReport { dropped_keys: self.dropped_keys() })
    }

    /// Runs the workers while this replica is in the ring. It leaves the ring when `shutdown` resolves.
    async fn work_in(
        &self,
        ring: &WorkingRing,
        shards: Arc<ControllerShards>,
        shutdown: Pin<&mut (dyn Future<Output = ()> + Send)>,
        reconcile: Reconcile,
    ) -> (WorkersResult, Instant) {
        let mut ended = Ok(());
        let (mut result, deadline) = {
            let left = pin!(async { ended = ring.run(shards, shutdown).await });
            self.work(left, reconcile).await
        };
        if let Err(error) = ended {
            let (controller, ring) = (self.name(), ring.ring().name().to_owned());
            result.outcome =
                result.outcome.and(Err(ControllerError::RingLost { controller, ring, error: Arc::new(error) }));
        }
        (result, deadline)
    }

    /// Runs the workers. Returns how they ended, and the deadline of the shutdown.
    async fn work(
        &self,
        shutdown: Pin<&mut (dyn Future<Output = ()> + Send)>,
        reconcile: Reconcile,
    ) -> (WorkersResult, Instant) {
        let (parked_keys, waits) = ParkedKeys::new(&self.metrics);
        self.history.set_parked_keys(&parked_keys);
        if let Some(inspector) = &self.inspector {
            let parked_keys = Arc::downgrade(&parked_keys);
            let parked = move || Some(parked_keys.upgrade()?.parked().iter().map(ToString::to_string).collect());
            inspector.parked_keys(&self.name(), parked);
        }
        let mut cache_waiters = JoinSet::new();
        if let Some(limit) = self.settings.own_writes {
            let cache_waiter = CacheWaiter {
                controller: self.name(),
                parked_keys: Arc::clone(&parked_keys),
                queue: self.queue.clone(),
                metrics: Arc::clone(&self.metrics),
                limit,
                history: self.history.clone(),
            };
            cache_waiters.spawn(scheduled(cache_waiter.run(waits)));
        }
        let shared = Arc::new(Workers {
            shared: Arc::clone(&self.shared),
            queue: self.queue.clone(),
            parked_keys: Arc::clone(&parked_keys),
            metrics: Arc::clone(&self.metrics),
            settings: self.settings.clone(),
            history: self.history.clone(),
            reconcile,
        });
        let mut workers = JoinSet::new();
        for _ in 0..self.settings.concurrency {
            workers.spawn(scheduled(Arc::clone(&shared).work()));
        }
        tracing::info!(controller = %self.shared.name, workers = workers.len(), "controller started");
        let lost = tokio::select! {
            biased;
            () = shutdown => None,
            // A worker returns before the shutdown only with a panic that is not recovered.
            Some(ended) = workers.join_next() => {
                propagate_panic(ended);
                None
            }
            error = self.sources.failed() => Some(error),
        };
        self.drop_keys(parked_keys.parked().len());
        self.stop();
        let deadline = self.deadline();
        let drained = timeout_at(deadline, async {
            while let Some(ended) = workers.join_next().await {
                propagate_panic(ended);
            }
        });
        let mut dropped = 0;
        if drained.await.is_err() {
            dropped = workers.len();
            workers.shutdown().await;
        }
        cache_waiters.shutdown().await;
        let outcome = match lost {
            Some(error) => Err(error),
            None => Ok(()),
        };
        (WorkersResult { outcome, dropped }, deadline)
    }

    /// Returns the end of a grace period that starts now.
    fn deadline(&self) -> Instant {
        let now = Instant::now();
        now.checked_add(self.settings.grace).unwrap_or(now + FAR_FUTURE)
    }

    /// Stops the workers after the key that each of them has in flight, and removes the handlers.
    fn stop(&self) {
        self.shared.stopping.send_replace(true);
        self.drop_keys(0);
        self.queue.shut_down();
        self.sources.close();
    }

    /// Counts the keys that no worker will take: the queued ones, and those that are parked. The first call decides.
    fn drop_keys(&self, parked: usize) {
        self.dropped_keys.get_or_init(|| {
            let stats = self.queue.stats();
            stats.ready + stats.delayed + parked
        });
    }

    fn dropped_keys(&self) -> usize {
        self.dropped_keys.get().copied().unwrap_or_default()
    }

    /// Waits for the handlers until the deadline, stops the informers and flushes the events. Returns the number of handlers that
    /// did not return.
    async fn shut_down(&mut self, deadline: Instant) -> usize {
        self.stop();
        self.sources.tasks_ended().await;
        let mut blocked = 0;
        for registration in self.sources.registrations() {
            if timeout_at(deadline, registration.shutdown()).await.is_err() {
                blocked += 1;
                let handler = registration.to_string();
                tracing::error!(controller = %self.shared.name, handler, "event handler blocks; left behind");
            }
        }
        self.stop_informers(blocked > 0).await;
        if let Some(recorder) = self.shared.recorder.get() {
            let written = match self.owns_recorder {
                true => recorder.shutdown().within(EVENT_FLUSH_TIMEOUT).await,
                false => recorder.flush().within(EVENT_FLUSH_TIMEOUT).await,
            };
            if let Err(unfinished) = written {
                tracing::warn!(controller = %self.shared.name, %unfinished, "events were not written");
            }
        }
        let dropped_keys = self.dropped_keys();
        tracing::info!(controller = %self.shared.name, dropped_keys, "controller stopped");
        blocked
    }

    /// Stops the informers, and waits for them unless one of their handlers blocks.
    async fn stop_informers(&mut self, is_blocked: bool) {
        let running = std::mem::take(&mut self.running);
        // All are released before the first wait.
        let released: Vec<_> = self.sources.release().into_iter().map(InformerHold::release).collect();
        let stopped = async {
            running.stop().await;
            for stopped in released {
                stopped.await;
            }
        };
        if !is_blocked && timeout(INFORMER_STOP_TIMEOUT, stopped).await.is_err() {
            tracing::warn!(controller = %self.shared.name, "informers did not stop in time; left behind");
        }
    }
}

/// Describes an informer that has not synced, with its last error.
pub(crate) fn not_synced(informer: &InformerStatus) -> String {
    match &informer.reflector.last_error {
        Some(error) => format!("{}: {}", informer.name, error.message),
        None => format!("{}: the initial list is not complete", informer.name),
    }
}

impl Drop for StartedController {
    fn drop(&mut self) {
        // Before the name is released.
        self.diagnostics_entry = None;
        self.stop();
        drop(self.sources.release());
    }
}

fn propagate_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        resume_unwind(panic);
    }
}
