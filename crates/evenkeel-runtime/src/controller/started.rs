//! [`StartedController`]: a controller that has begun, of whatever kind.

use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use evenkeel_cache::source::BoxFuture;
use evenkeel_cache::{InformerFactory, Registration};
use evenkeel_core::ObjectKey;
use evenkeel_queue::{AddOptions, Item, WorkQueue};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::Instrument;

use super::context::{Context, ControllerShared};
use super::error::ControllerError;
use super::history::{DiagnosticsEntry, EnqueueReason, History};
use super::metrics::ControllerMetrics;
use super::next::{Next, ReconcileError, Requeue};
use super::parked_keys::{CacheWaiter, ParkedKeys};
use super::watched_kind::WatchedKind;
use crate::panic_guard::{catch_panic, panic_message};

/// What is done for a key.
pub(super) type Reconcile = Arc<dyn Fn(Context) -> BoxFuture<'static, Result<Next, ReconcileError>> + Send + Sync>;

/// How long events that were recorded may take to be written when a controller ends.
const EVENT_FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(super) struct ControllerSettings {
    pub(super) concurrency: usize,
    pub(super) timeout: Option<Duration>,
    pub(super) sync_timeout: Duration,
    pub(super) grace: Duration,
    /// How long own writes are waited for; `None` if they are not.
    pub(super) own_writes: Option<Duration>,
    pub(super) recover_panics: bool,
}

/// A controller that has begun: informers run and fill the queue, and nobody works yet. Requeue it is dropped, all of it ends.
pub(super) struct StartedController {
    pub(super) shared: Arc<ControllerShared>,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) registrations: Vec<Registration>,
    pub(super) metrics: Arc<ControllerMetrics>,
    pub(super) settings: ControllerSettings,
    pub(super) informers: InformerFactory,
    /// Whether the informers are nobody else's.
    pub(super) owns_informers: bool,
    pub(super) owns_recorder: bool,
    pub(super) history: History,
    /// Where it can be looked at, if that was asked for.
    pub(super) diagnostics_entry: Option<DiagnosticsEntry>,
}

impl StartedController {
    fn name(&self) -> String {
        self.shared.name.to_string()
    }

    /// Waits until every handler has been told of everything that there was.
    pub(super) async fn synced(&self) -> Result<(), ControllerError> {
        self.readiness().await
    }

    /// As [`synced`](Self::synced), for whoever does not have this at hand while waiting.
    pub(super) fn readiness(&self) -> impl Future<Output = Result<(), ControllerError>> + Send + use<> {
        let readiness = Readiness {
            controller: self.name(),
            registrations: self.registrations.clone(),
            informers: self.informers.clone(),
            limit: self.settings.sync_timeout,
        };
        async move { readiness.synced().await }
    }

    /// Works until `shutdown`, and comes to an end in good order.
    pub(super) async fn run(
        self,
        mut shutdown: Pin<&mut (dyn Future<Output = ()> + Send)>,
        reconcile: Reconcile,
    ) -> Result<(), ControllerError> {
        let begun = tokio::select! {
            biased;
            () = &mut shutdown => Ok(false),
            synced = self.synced() => synced.map(|()| true),
        };
        let outcome = match begun {
            Ok(true) => self.work(shutdown, reconcile).await,
            begun => begun.map(drop),
        };
        self.end().await;
        outcome
    }

    async fn work(
        &self,
        shutdown: Pin<&mut (dyn Future<Output = ()> + Send)>,
        reconcile: Reconcile,
    ) -> Result<(), ControllerError> {
        let (parked_keys, waits) = ParkedKeys::new(&self.metrics);
        self.history.set_parked_keys(&parked_keys);
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
        let shared_workers = Arc::new(Workers {
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
            workers.spawn(Arc::clone(&shared_workers).work());
        }
        tracing::info!(controller = %self.shared.name, workers = workers.len(), "the controller has begun");
        let ended = tokio::select! {
            biased;
            () = shutdown => None,
            // A worker ends before it is told to only if a panic is to be passed on.
            Some(ended) = workers.join_next() => {
                propagate_panic(ended);
                None
            }
            kind = any_stopped(&self.shared.kinds) => Some(kind),
        };
        self.stop();
        let finished = timeout(self.settings.grace, async {
            while let Some(ended) = workers.join_next().await {
                propagate_panic(ended);
            }
        });
        let outcome = match finished.await {
            Ok(()) => Ok(()),
            Err(_) => {
                let (running, grace) = (workers.len(), self.settings.grace);
                workers.shutdown().await;
                Err(ControllerError::GraceExceeded { controller: self.name(), running, grace })
            }
        };
        cache_waiters.shutdown().await;
        match ended {
            Some(kind) => Err(ControllerError::InformerLost { controller: self.name(), kind }),
            None => outcome,
        }
    }

    /// No key is taken any more.
    fn stop(&self) {
        self.shared.stopping.send_replace(true);
        self.queue.shut_down();
    }

    /// Ends everything that is left, and waits for it.
    async fn end(&self) {
        self.stop();
        for registration in &self.registrations {
            registration.shutdown().await;
        }
        if self.owns_informers {
            self.informers.shutdown().await;
        }
        if let Some(recorder) = self.shared.recorder.get() {
            let written = match self.owns_recorder {
                true => recorder.shutdown().within(EVENT_FLUSH_TIMEOUT).await,
                false => recorder.flush().within(EVENT_FLUSH_TIMEOUT).await,
            };
            if let Err(unfinished) = written {
                tracing::warn!(controller = %self.shared.name, %unfinished, "events were not written");
            }
        }
        tracing::info!(controller = %self.shared.name, "the controller has ended");
    }
}

/// What it takes to know whether a controller has everything at hand.
struct Readiness {
    controller: String,
    registrations: Vec<Registration>,
    informers: InformerFactory,
    limit: Duration,
}

impl Readiness {
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
            Ok(Err(source)) => Err(ControllerError::InformerStopped { controller: self.controller.clone(), source }),
            Err(_) => {
                let late = self.registrations.iter().filter(|registration| !registration.has_synced());
                let waiting_for = late.map(|registration| self.describe(registration)).collect();
                Err(ControllerError::SyncTimeout { controller: self.controller.clone(), limit, waiting_for })
            }
        }
    }

    /// A handler that is not done, and what is known of why.
    fn describe(&self, registration: &Registration) -> String {
        let what = evenkeel_cache::wait::DoneChecker::name(registration).into_owned();
        let is_of = |name: &str| what.starts_with(&format!("informer {name} + "));
        let status = self.informers.statuses().into_iter().find(|status| is_of(&status.name));
        match status.and_then(|status| status.reflector.last_error) {
            Some(error) => format!("{what} ({})", error.message),
            None => what,
        }
    }
}

impl Drop for StartedController {
    fn drop(&mut self) {
        // While the name is still its own.
        self.diagnostics_entry = None;
        self.stop();
        for registration in &self.registrations {
            registration.remove();
        }
        if self.owns_informers {
            for kind in self.shared.kinds.iter() {
                kind.stop();
            }
        }
    }
}

/// Waits until one of the informers has ended, and answers of which kind it was.
async fn any_stopped(kinds: &[WatchedKind]) -> String {
    let mut ended: Vec<_> = kinds.iter().map(|kind| (kind, kind.stopped())).collect();
    poll_fn(|context| {
        let is_over = |(_, ended): &mut (&WatchedKind, BoxFuture<'_, ()>)| ended.as_mut().poll(context).is_ready();
        match ended.iter_mut().position(is_over) {
            Some(place) => Poll::Ready(ended[place].0.kind().to_owned()),
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

/// What workers share.
struct Workers {
    shared: Arc<ControllerShared>,
    queue: WorkQueue<ObjectKey>,
    parked_keys: Arc<ParkedKeys>,
    metrics: Arc<ControllerMetrics>,
    settings: ControllerSettings,
    history: History,
    reconcile: Reconcile,
}

/// How a reconcile went.
enum ReconcileOutcome {
    Succeeded(Next),
    Failed(ReconcileError),
    Panicked(Box<dyn Any + Send>),
    TimedOut(Duration),
}

impl Workers {
    async fn work(self: Arc<Self>) {
        while let Some(item) = self.queue.next().await {
            if *self.shared.stopping.borrow() {
                return;
            }
            if let Some(item) = self.parked_keys.admit(item) {
                self.process(item).await;
            }
        }
    }

    async fn process(&self, item: Item<ObjectKey>) {
        let about = (item.failures(), item.priority(), item.waited());
        let context = Context::new(&self.shared, item.key().clone(), about);
        let begun = Instant::now();
        let outcome = {
            let _running = self.metrics.running();
            let span = tracing::debug_span!("evenkeel.reconcile", controller = %self.shared.name, key = %item.key());
            self.attempt(context.clone()).instrument(span).await
        };
        self.metrics.took(begun.elapsed());
        let wants = context.notes().close();
        if self.settings.own_writes.is_some() && !wants.is_empty() {
            self.parked_keys.hold(item.key(), wants);
        }
        self.conclude(item, outcome);
    }

    async fn attempt(&self, context: Context) -> ReconcileOutcome {
        let reconcile = catch_panic((self.reconcile)(context));
        let answer = match self.settings.timeout {
            None => reconcile.await,
            Some(limit) => match timeout(limit, reconcile).await {
                Ok(answer) => answer,
                Err(_) => return ReconcileOutcome::TimedOut(limit),
            },
        };
        match answer {
            Ok(Ok(next)) => ReconcileOutcome::Succeeded(next),
            Ok(Err(failure)) => ReconcileOutcome::Failed(failure),
            Err(panic) if self.settings.recover_panics => ReconcileOutcome::Panicked(panic),
            Err(panic) => resume_unwind(panic),
        }
    }

    fn conclude(&self, item: Item<ObjectKey>, outcome: ReconcileOutcome) {
        let metrics = &self.metrics;
        let Next { requeue, priority } = match outcome {
            ReconcileOutcome::Succeeded(next) => next,
            failed => return self.fail(item, failed),
        };
        let add = AddOptions::new().priority(priority.unwrap_or(item.priority()));
        match requeue {
            Requeue::No => {
                metrics.success.increment(1);
                item.forget();
            }
            Requeue::Backoff => {
                metrics.requeue.increment(1);
                self.history.queued(item.key(), || EnqueueReason::Requeue);
                self.queue.add_all([item.key().clone()], add.rate_limited());
                item.done();
            }
            Requeue::After(wait) => {
                metrics.requeue_after.increment(1);
                self.history.queued(item.key(), || EnqueueReason::After(wait));
                if priority.is_none() {
                    return item.requeue_after(wait);
                }
                self.queue.forget(item.key());
                self.queue.add_all([item.key().clone()], add.after(wait));
                item.done();
            }
        }
    }

    fn fail(&self, item: Item<ObjectKey>, outcome: ReconcileOutcome) {
        let metrics = &self.metrics;
        metrics.error.increment(1);
        metrics.errors.increment(1);
        match outcome {
            ReconcileOutcome::Failed(failure) if failure.is_terminal() => {
                metrics.terminal_errors.increment(1);
                self.history.failed(item.key(), &failure, item.failures().saturating_add(1), true);
                item.give_up(failure);
            }
            ReconcileOutcome::Failed(failure) => self.retry(item, failure),
            ReconcileOutcome::Panicked(panic) => {
                metrics.panics.increment(1);
                self.retry(item, format_args!("panic: {} [recovered]", panic_message(&*panic)));
            }
            ReconcileOutcome::TimedOut(limit) => {
                metrics.timeouts.increment(1);
                self.retry(item, format_args!("the reconcile took longer than {limit:?} and was cut short"));
            }
            ReconcileOutcome::Succeeded(_) => {}
        }
    }

    fn retry(&self, item: Item<ObjectKey>, error: impl fmt::Display) {
        let failures = item.failures().saturating_add(1);
        self.history.failed(item.key(), &error, failures, false);
        self.history.queued(item.key(), || EnqueueReason::Retry { failures });
        item.retry(error);
    }
}
