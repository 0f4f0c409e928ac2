//! [`StartedController`]: a controller whose informers run, without the type of its kind.

use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use evenkeel_cache::informer::InformerStatus;
use evenkeel_cache::source::BoxFuture;
use evenkeel_cache::{InformerFactory, Registration, RunningInformers};
use evenkeel_core::ObjectKey;
use evenkeel_queue::WorkQueue;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::context::ControllerShared;
use super::error::ControllerError;
use super::history::{DiagnosticsEntry, History};
use super::metrics::ControllerMetrics;
use super::parked_keys::{CacheWaiter, ParkedKeys};
use super::watched_kind::WatchedKind;
use super::workers::{Reconcile, Workers};
use crate::inspect::Inspector;

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
    pub(super) registrations: Vec<Registration>,
    pub(super) metrics: Arc<ControllerMetrics>,
    pub(super) settings: ControllerSettings,
    pub(super) informers: InformerFactory,
    /// Handle of the informers that this controller started.
    pub(super) running: RunningInformers,
    pub(super) owns_recorder: bool,
    pub(super) history: History,
    pub(super) inspector: Option<Inspector>,
    /// The entry in the diagnostics, if there is one.
    pub(super) diagnostics_entry: Option<DiagnosticsEntry>,
}

/// How the workers ended.
struct WorkersResult {
    outcome: Result<(), ControllerError>,
    /// The number of reconciles that were dropped at the end of the grace period.
    dropped: usize,
}

impl StartedController {
    fn name(&self) -> String {
        self.shared.name.to_string()
    }

    /// Waits until every handler has received the initial list.
    pub(super) async fn synced(&self) -> Result<(), ControllerError> {
        self.readiness().await
    }

    /// Returns [`synced`](Self::synced) as a future that does not borrow the controller.
    pub(super) fn readiness(&self) -> impl Future<Output = Result<(), ControllerError>> + Send + use<> {
        let check = SyncCheck {
            controller: self.name(),
            registrations: self.registrations.clone(),
            kinds: Arc::clone(&self.shared.kinds),
            limit: self.settings.sync_timeout,
        };
        async move { check.synced().await }
    }

    /// Reconciles until `shutdown` resolves, then drains within the grace period.
    pub(super) async fn run(
        mut self,
        mut shutdown: Pin<&mut (dyn Future<Output = ()> + Send)>,
        reconcile: Reconcile,
    ) -> Result<(), ControllerError> {
        let synced = tokio::select! {
            biased;
            () = &mut shutdown => Ok(false),
            synced = self.synced() => synced.map(|()| true),
        };
        let (workers, deadline) = match synced {
            Ok(true) => self.work(shutdown, reconcile).await,
            not_started => (WorkersResult { outcome: not_started.map(drop), dropped: 0 }, self.deadline()),
        };
        let WorkersResult { outcome, dropped: running } = workers;
        let handlers = self.shut_down(deadline).await;
        outcome?;
        if running + handlers > 0 {
            let grace = self.settings.grace;
            return Err(ControllerError::GraceExceeded { controller: self.name(), running, handlers, grace });
        }
        Ok(())
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
                kinds: Arc::clone(&self.shared.kinds),
                metrics: Arc::clone(&self.metrics),
                limit,
                history: self.history.clone(),
            };
            cache_waiters.spawn(cache_waiter.run(waits));
        }
        let shared = Arc::new(Workers {
            shared: Arc::clone(&self.shared),
            queue: self.queue.clone(),
            parked_keys,
            metrics: Arc::clone(&self.metrics),
            settings: self.settings.clone(),
            history: self.history.clone(),
            reconcile,
        });
        let mut workers = JoinSet::new();
        for _ in 0..self.settings.concurrency {
            workers.spawn(Arc::clone(&shared).work());
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
            kind = any_stopped(&self.shared.kinds) => Some(kind),
        };
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
            Some(kind) => Err(ControllerError::InformerLost { controller: self.name(), kind }),
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
        self.queue.shut_down();
        // A queue that shuts down accepts no keys, so the handlers have no effect any more.
        for registration in &self.registrations {
            registration.remove();
        }
    }

    /// Waits for the handlers until the deadline, stops the informers and flushes the events. Returns the number of handlers that
    /// did not return.
    async fn shut_down(&mut self, deadline: Instant) -> usize {
        self.stop();
        let mut blocked = 0;
        for registration in &self.registrations {
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
        tracing::info!(controller = %self.shared.name, "controller stopped");
        blocked
    }

    /// Stops the informers, and waits for them unless one of their handlers blocks.
    async fn stop_informers(&mut self, is_blocked: bool) {
        let running = std::mem::take(&mut self.running);
        if !is_blocked && timeout(INFORMER_STOP_TIMEOUT, running.stop()).await.is_err() {
            tracing::warn!(controller = %self.shared.name, "informers did not stop in time; left behind");
        }
    }
}

/// Waits for the initial lists of a controller.
struct SyncCheck {
    controller: String,
    registrations: Vec<Registration>,
    kinds: Arc<[WatchedKind]>,
    limit: Duration,
}

impl SyncCheck {
    async fn synced(&self) -> Result<(), ControllerError> {
        let limit = self.limit;
        let all = async {
            for registration in &self.registrations {
                registration.synced().await?;
            }
            Ok(())
        };
        match timeout(limit, all).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(stopped)) => Err(ControllerError::InformerStopped { controller: self.controller.clone(), stopped }),
            Err(_) => {
                let late = self.registrations.iter().filter(|registration| !registration.has_synced());
                let mut waiting_for: Vec<_> = late.map(|registration| self.describe(registration)).collect();
                waiting_for.dedup();
                Err(ControllerError::SyncTimeout { controller: self.controller.clone(), limit, waiting_for })
            }
        }
    }

    /// Describes the informer of a handler that has not synced, with its last error.
    fn describe(&self, registration: &Registration) -> String {
        let informer = registration.informer();
        let status = self.kinds.iter().map(WatchedKind::status).find(|status| status.name == informer);
        match status {
            Some(status) if status.has_synced => format!("{informer}: the handler {} blocks", registration.name()),
            Some(status) => not_synced(&status),
            None => format!("{informer}: the initial list is not complete"),
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
    }
}

/// Waits until one of the informers has stopped, and returns its kind.
async fn any_stopped(kinds: &[WatchedKind]) -> String {
    let mut stopped: Vec<_> = kinds.iter().map(|kind| (kind, kind.stopped())).collect();
    poll_fn(|context| {
        let has_stopped =
            |(_, stopped): &mut (&WatchedKind, BoxFuture<'_, ()>)| stopped.as_mut().poll(context).is_ready();
        match stopped.iter_mut().position(has_stopped) {
            Some(index) => Poll::Ready(stopped[index].0.kind().to_owned()),
            None => Poll::Pending,
        }
    })
    .await
}

fn propagate_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        resume_unwind(panic);
    }
}
