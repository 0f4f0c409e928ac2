//! [`Workers`]: take keys from the queue, reconcile them, and requeue them by the result.

use std::any::Any;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_base::planted::{Defect, is_planted};
use evenkeel_cache::source::BoxFuture;
use evenkeel_core::ObjectKey;
use evenkeel_queue::{AddOptions, Item, WorkQueue};
use tokio::time::{Instant, timeout};
use tracing::Instrument;

use super::context::{Context, ControllerShared};
use super::history::{EnqueueReason, History};
use super::metrics::ControllerMetrics;
use super::next::{Next, Requeue};
use super::parked_keys::ParkedKeys;
use super::reconcile_error::{ReconcileError, Retry};
use super::started::ControllerSettings;
use crate::clusters::WorkerTurn;
use crate::panic_guard::{catch_panic, panic_message};

/// Reconciles the key of a context.
pub(super) type Reconcile = Arc<dyn Fn(Context) -> BoxFuture<'static, Result<Next, ReconcileError>> + Send + Sync>;

/// What the workers of a controller share.
pub(super) struct Workers {
    pub(super) shared: Arc<ControllerShared>,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) parked_keys: Arc<ParkedKeys>,
    pub(super) metrics: Arc<ControllerMetrics>,
    pub(super) settings: ControllerSettings,
    pub(super) history: History,
    pub(super) reconcile: Reconcile,
}

/// Tells the log lines of one reconcile from those of others: a random UUID, as controller-runtime's.
struct ReconcileId(u128);

impl ReconcileId {
    fn random() -> Self {
        ReconcileId(fastrand::u128(..))
    }
}

impl fmt::Display for ReconcileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Version 4, variant 1.
        let id = self.0 & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
        let part = |shift: u32, digits: u32| (id >> shift) & ((1 << (4 * digits)) - 1);
        let parts = (part(96, 8), part(80, 4), part(64, 4), part(48, 4), part(0, 12));
        write!(f, "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", parts.0, parts.1, parts.2, parts.3, parts.4)
    }
}

/// How a reconcile ended.
enum ReconcileOutcome {
    Succeeded(Next),
    Failed(ReconcileError),
    Panicked(Box<dyn Any + Send>),
    TimedOut(Duration),
    /// The key moved to another replica, or the Lease of this one is over.
    Revoked,
}

impl Workers {
    /// Runs one worker until the queue is shut down.
    pub(super) async fn work(self: Arc<Self>) {
        while let Some((item, _turn)) = self.next().await {
            if *self.shared.stopping.borrow() {
                return item.done();
            }
            if !self.is_in_scope(item.key()) {
                self.metrics.out_of_scope.increment(1);
                tracing::debug!(controller = %self.shared.name, key = %item.key(), "namespace left the set; key dropped");
                item.forget();
                continue;
            }
            if let Some(shards) = &self.shared.shards
                && !shards.may_start(item.key()).await
            {
                item.done();
                continue;
            }
            if let Some(item) = self.parked_keys.admit(item) {
                self.process(item).await;
            }
        }
    }

    /// Waits for the next key; in a controller of several clusters, also for a turn of its workers. Returns `None` when the queue is
    /// shut down and empty, or when the controller stops while it waits for a turn.
    async fn next(&self) -> Option<(Item<ObjectKey>, Option<WorkerTurn>)> {
        let Some(member) = &self.shared.member else { return Some((self.queue.next().await?, None)) };
        let mut stopping = self.shared.stopping.subscribe();
        tokio::select! {
            biased;
            _ = stopping.wait_for(|stopping| *stopping) => None,
            next = member.next(&self.queue) => next.map(|(item, turn)| (item, Some(turn))),
        }
    }

    /// Returns whether the namespace of the key is in the set of the informer of the controller's own kind.
    fn is_in_scope(&self, key: &ObjectKey) -> bool {
        self.shared.kinds.primary().is_none_or(|kind| kind.is_in_scope(key))
    }

    async fn process(&self, item: Item<ObjectKey>) {
        let about = (item.failures(), item.priority(), item.waited());
        let context = Context::new(&self.shared, item.key().clone(), about);
        let started = Instant::now();
        let span = tracing::info_span!(
            "reconcile",
            controller = %self.shared.name,
            cluster = self.shared.member.as_ref().map(|member| member.cluster().name()),
            namespace = item.key().namespace(),
            name = item.key().name(),
            reconcileID = %ReconcileId::random(),
        );
        let outcome = {
            let _active = self.metrics.running();
            let attempt = self.attempt(context.clone());
            async {
                match &self.shared.shards {
                    None => attempt.await,
                    Some(shards) => shards.guard(context.key(), attempt).await.unwrap_or(ReconcileOutcome::Revoked),
                }
            }
            .instrument(span.clone())
            .await
        };
        self.metrics.took(started.elapsed());
        let is_awaited = self.settings.own_writes.is_some() && !is_planted(Defect::OwnWritesNotAwaited);
        if let Some(writes) = context.observed_writes().close().filter(|_| is_awaited) {
            self.parked_keys.hold(item.key(), writes);
        }
        span.in_scope(|| self.conclude(item, outcome));
    }

    async fn attempt(&self, context: Context) -> ReconcileOutcome {
        let reconcile = catch_panic((self.reconcile)(context));
        let result = match self.settings.timeout {
            None => reconcile.await,
            Some(limit) => match timeout(limit, reconcile).await {
                Ok(result) => result,
                Err(_) => return ReconcileOutcome::TimedOut(limit),
            },
        };
        match result {
            Ok(Ok(next)) => ReconcileOutcome::Succeeded(next),
            Ok(Err(error)) => ReconcileOutcome::Failed(error),
            Err(panic) if self.settings.recover_panics => ReconcileOutcome::Panicked(panic),
            Err(panic) => resume_unwind(panic),
        }
    }

    fn conclude(&self, item: Item<ObjectKey>, outcome: ReconcileOutcome) {
        let metrics = &self.metrics;
        let Next { requeue, priority } = match outcome {
            ReconcileOutcome::Succeeded(next) => next,
            // If the key stays here, it is reconciled again.
            ReconcileOutcome::Revoked => {
                tracing::debug!("reconcile dropped: the lease is over, or the key moved to another replica");
                self.queue.add(item.key().clone());
                return item.done();
            }
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
            ReconcileOutcome::Failed(error) => match error.retry() {
                Retry::Backoff => self.retry(item, error),
                Retry::After(wait) => {
                    let failures = item.failures().saturating_add(1);
                    self.history.failed(item.key(), &error, failures, false);
                    self.history.queued(item.key(), || EnqueueReason::Retry { failures });
                    item.fail_after(wait, error);
                }
                Retry::Never => {
                    metrics.terminal_errors.increment(1);
                    self.history.failed(item.key(), &error, item.failures().saturating_add(1), true);
                    item.give_up(error);
                }
            },
            ReconcileOutcome::Panicked(panic) => {
                metrics.panics.increment(1);
                self.retry(item, format_args!("panic: {} [recovered]", panic_message(&*panic)));
            }
            ReconcileOutcome::TimedOut(limit) => {
                metrics.timeouts.increment(1);
                self.retry(item, format_args!("the reconcile exceeded the timeout of {limit:?} and was dropped"));
            }
            ReconcileOutcome::Succeeded(_) | ReconcileOutcome::Revoked => {}
        }
    }

    fn retry(&self, item: Item<ObjectKey>, error: impl fmt::Display) {
        let failures = item.failures().saturating_add(1);
        self.history.failed(item.key(), &error, failures, false);
        self.history.queued(item.key(), || EnqueueReason::Retry { failures });
        item.retry(error);
    }
}
