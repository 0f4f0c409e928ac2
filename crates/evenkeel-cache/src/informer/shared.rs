//! [`InformerShared`]: the state that all handles and tasks of one informer share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use evenkeel_base::planted::{Defect, is_planted};
use evenkeel_base::task::scheduled;
use evenkeel_core::shard::ShardRanges;
use evenkeel_core::{Obj, ResourceInfo, ResourceVersion, Untyped};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::consistency::{CheckRequest, ConsistencyChecker, ConsistencyReport};
use super::hold::HoldCount;
use super::kind_gone::KindGone;
use super::listener::{self, Listener};
use super::metrics::Identity;
use super::observe::Observers;
use super::processor::{HandlerRunner, Processor};
use super::ranged::RangedShared;
use super::ranged_driver::RangedReflectors;
use super::scoped_driver::ScopedReflectors;
use super::scopes::{ScopedShared, merged_report};
use super::status::InformerStatus;
use crate::delta_queue::DeltaQueue;
use crate::reflector::{ReflectorBuilder, ReflectorStatus};
use crate::source::ListerWatcher;
use crate::store::Table;
use crate::view::{BUILD_STEP, PreparedView, Views};
use crate::{Event, Indexer, Snapshot};

/// State that all handles and tasks of one informer share.
pub(crate) struct InformerShared {
    pub(super) name: String,
    pub(super) identity: Identity,
    pub(super) info: Arc<ResourceInfo>,
    pub(super) table: Arc<Table>,
    processor: Mutex<Processor>,
    lifecycle: watch::Sender<Lifecycle>,
    stop_mode: watch::Sender<StopMode>,
    /// Number of live tasks.
    tasks: watch::Sender<usize>,
    runtime: OnceLock<Handle>,
    /// Number of deltas in the queue.
    pub(super) queued: AtomicUsize,
    /// Number of complete lists that were received so far. Counted before they are applied.
    pub(super) complete_lists: AtomicU64,
    /// Number of subscriptions created so far.
    pub(super) subscriptions: AtomicUsize,
    parts: Mutex<Option<Parts>>,
    reflector: OnceLock<ReflectorStatus>,
    checks: mpsc::Sender<CheckRequest>,
    last_check: Mutex<Option<ConsistencyReport>>,
    pub(super) observers: Arc<Observers>,
    pub(super) views: Views,
    /// Of an informer of several namespaces only.
    pub(super) scoped: Option<ScopedShared>,
    /// Of an informer whose places change only.
    pub(super) ranged: Option<RangedShared>,
    /// The places of any other informer.
    pub(super) selected: ShardRanges,
    /// Set when the kind is not served any more.
    pub(super) gone: OnceLock<KindGone>,
    holds: Mutex<HoldCount>,
    /// Removes the informer from its factory.
    leave_factory: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// Reflectors and queue, until the driver task takes them.
pub(super) struct Parts {
    pub(super) reflectors: Reflectors,
    pub(super) queue: DeltaQueue,
    pub(super) checker: ConsistencyChecker,
    /// Requests for consistency checks.
    pub(super) checks: mpsc::Receiver<CheckRequest>,
}

/// The reflectors of an informer.
pub(super) enum Reflectors {
    One { reflector: Box<ReflectorBuilder>, source: Arc<dyn ListerWatcher> },
    PerNamespace(ScopedReflectors),
    Ranged(RangedReflectors),
}

/// How far an informer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lifecycle {
    pub(super) phase: InformerPhase,
    pub(super) synced: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InformerPhase {
    Created,
    Running,
    Stopped,
}

/// Whether and how the tasks of an informer stop. A mode never returns to a lesser one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StopMode {
    KeepRunning,
    /// Stop; listeners deliver what is queued.
    Drain,
    /// Stop; queued notifications are discarded.
    Immediate,
}

/// A listener that was added and waits for the current objects.
#[must_use]
pub(super) struct JoiningListener {
    objects: Snapshot<Untyped>,
    synced: bool,
    now: Instant,
}

impl JoiningListener {
    pub(super) fn send_initial(self, listener: &Listener) {
        let added = |object: &Obj<Untyped>| Event::Add { object: object.clone(), initial: true };
        listener.release(&self.objects.iter().map(added).collect(), self.synced, self.now);
    }
}

/// Counts a task for as long as it lives, also if it panics or is dropped.
pub(super) struct TaskGuard(Arc<InformerShared>);

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.tasks.send_modify(|tasks| *tasks -= 1);
    }
}

struct ListenerGuard {
    listener: Arc<Listener>,
    _task: TaskGuard,
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        self.listener.set_alive(false);
    }
}

impl InformerShared {
    pub(super) fn new(
        name: String,
        identity: Identity,
        info: Arc<ResourceInfo>,
        table: Arc<Table>,
        processor: Processor,
        parts: Parts,
        checks: mpsc::Sender<CheckRequest>,
    ) -> Self {
        InformerShared {
            identity,
            name,
            info,
            table,
            processor: Mutex::new(processor),
            lifecycle: watch::Sender::new(Lifecycle { phase: InformerPhase::Created, synced: false }),
            stop_mode: watch::Sender::new(StopMode::KeepRunning),
            tasks: watch::Sender::new(0),
            runtime: OnceLock::new(),
            queued: AtomicUsize::new(0),
            complete_lists: AtomicU64::new(0),
            subscriptions: AtomicUsize::new(0),
            parts: Mutex::new(Some(parts)),
            reflector: OnceLock::new(),
            checks,
            last_check: Mutex::new(None),
            observers: Arc::default(),
            views: Views::default(),
            scoped: None,
            ranged: None,
            selected: ShardRanges::full(),
            gone: OnceLock::new(),
            holds: Mutex::default(),
            leave_factory: OnceLock::new(),
        }
    }

    pub(super) fn processor(&self) -> MutexGuard<'_, Processor> {
        self.processor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn holds(&self) -> MutexGuard<'_, HoldCount> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_leave_factory(&self, leave: Box<dyn Fn() + Send + Sync>) {
        // An informer is added to one factory.
        let _ = self.leave_factory.set(leave);
    }

    /// Removes the informer from its factory, if it has one.
    pub(super) fn leave_factory(&self) {
        if let Some(leave) = self.leave_factory.get() {
            leave();
        }
    }

    /// Returns `true` if the objects are to be reported as deleted: the kind is gone, and nothing discards the notifications.
    pub(super) fn is_retiring(&self) -> bool {
        self.gone.get().is_some() && *self.stop_mode.borrow() == StopMode::Drain
    }

    pub(super) fn lifecycle(&self) -> Lifecycle {
        *self.lifecycle.borrow()
    }

    pub(super) fn watch_lifecycle(&self) -> watch::Receiver<Lifecycle> {
        self.lifecycle.subscribe()
    }

    pub(super) fn watch_stop_mode(&self) -> watch::Receiver<StopMode> {
        self.stop_mode.subscribe()
    }

    /// Returns `true` if the informer has ever been started.
    pub(super) fn is_started(&self) -> bool {
        self.runtime.get().is_some()
    }

    /// Returns `true` if the informer runs or can still be started.
    pub(super) fn can_run(&self) -> bool {
        *self.stop_mode.borrow() == StopMode::KeepRunning && self.lifecycle().phase != InformerPhase::Stopped
    }

    /// Starts the listeners, once, and returns the guard of the driver task, which the caller spawns.
    pub(super) fn start(self: &Arc<Self>, runtime: &Handle) -> Option<TaskGuard> {
        let mut processor = self.processor();
        let is_first = self.lifecycle.send_if_modified(|lifecycle| {
            let is_first = lifecycle.phase == InformerPhase::Created;
            if is_first {
                lifecycle.phase = InformerPhase::Running;
            }
            is_first
        });
        if !is_first {
            return None;
        }
        let _ = self.runtime.set(runtime.clone());
        // Under the lock, so that a concurrent stop waits for these tasks too.
        for (listener, runner) in processor.start() {
            self.spawn(listener, runner);
        }
        Some(self.task())
    }

    pub(super) fn task(self: &Arc<Self>) -> TaskGuard {
        self.tasks.send_modify(|tasks| *tasks += 1);
        TaskGuard(Arc::clone(self))
    }

    /// Spawns a task that ends when the informer stops, if it runs.
    pub(super) fn spawn_task(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        let Some(runtime) = self.runtime.get() else { return };
        let guard = self.task();
        runtime.spawn(scheduled(async move {
            let _guard = guard;
            task.await;
        }));
    }

    /// Spawns the task of a listener.
    fn spawn(self: &Arc<Self>, listener: Arc<Listener>, runner: HandlerRunner) {
        let Some(runtime) = self.runtime.get() else { return };
        listener.set_alive(true);
        let guard = ListenerGuard { listener: Arc::clone(&listener), _task: self.task() };
        let HandlerRunner { callback, blocking } = runner;
        if blocking {
            let handle = runtime.clone();
            runtime.spawn_blocking(move || {
                let _guard = guard;
                listener::run_blocking(&listener, callback, &handle);
            });
        } else {
            runtime.spawn(scheduled(async move {
                let _guard = guard;
                listener::run(listener, callback).await;
            }));
        }
    }

    /// Evaluates a new view of the objects that are stored, in a task. The process loop evaluates it for objects that are stored later.
    pub(super) fn build_view(self: &Arc<Self>, view: Arc<dyn PreparedView>) {
        let Some(runtime) = self.runtime.get().filter(|_| self.can_run()) else { return };
        let task = self.task();
        runtime.spawn(scheduled(async move {
            let shared = &task.0;
            let objects = Indexer::<Untyped>::over(Arc::clone(&shared.table)).snapshot();
            for (number, object) in (1..).zip(objects.iter()) {
                view.prepare(object);
                if number % BUILD_STEP == 0 {
                    tokio::task::yield_now().await;
                    if !shared.can_run() {
                        return;
                    }
                }
            }
        }));
    }

    /// Adds a listener and queues the current objects for it. Returns `false` if the informer has stopped.
    pub(super) fn add_listener(
        self: &Arc<Self>,
        listener: &Arc<Listener>,
        resync: Option<std::time::Duration>,
        runner: Option<HandlerRunner>,
    ) -> bool {
        self.admit_listener(listener, resync, runner).map(|joining| joining.send_initial(listener)).is_some()
    }

    /// Adds a listener. [`JoiningListener::send_initial`] then copies the current objects without the processor's lock, which
    /// the process loop needs for every notification.
    pub(super) fn admit_listener(
        self: &Arc<Self>,
        listener: &Arc<Listener>,
        resync: Option<std::time::Duration>,
        runner: Option<HandlerRunner>,
    ) -> Option<JoiningListener> {
        let now = Instant::now();
        let mut processor = self.processor();
        let lifecycle = self.lifecycle();
        if !self.can_run() {
            return None;
        }
        // Later commits reach the listener through the processor, whose lock is held here. Earlier commits are part of these
        // objects.
        let objects = Indexer::over(Arc::clone(&self.table)).snapshot();
        listener.hold();
        let (waiting, runner) = match lifecycle.phase {
            InformerPhase::Created => (runner, None),
            _ => (None, runner),
        };
        let is_late = lifecycle.phase != InformerPhase::Created;
        // With the defect, the write after these objects counts as part of them.
        let missed = u64::from(is_late && is_planted(Defect::LateHandlerMisses));
        processor.join(Arc::clone(listener), resync, objects.commits() + missed, waiting, now);
        if let Some(runner) = runner {
            self.spawn(Arc::clone(listener), runner);
        }
        Some(JoiningListener { objects, synced: lifecycle.synced, now })
    }

    /// Removes a listener. A call in progress runs to its end; no other starts once this has returned.
    pub(super) fn remove_listener(&self, listener: &Arc<Listener>) {
        listener.revoke();
        let removed = self.processor().leave(listener);
        // Not under the lock: dropping a handler runs user code.
        drop(removed);
        tracing::debug!(informer = self.name, handler = listener.name, "handler removed");
    }

    /// Notes that all of the initial list is in the store.
    pub(super) fn set_synced(&self, now: Instant) {
        let mut processor = self.processor();
        if self.lifecycle.send_if_modified(|lifecycle| !std::mem::replace(&mut lifecycle.synced, true)) {
            processor.synced(now);
        }
    }

    /// Stops the tasks.
    pub(super) fn stop(&self, mode: StopMode) {
        self.stop_mode.send_if_modified(|current| {
            let is_further = mode > *current;
            if is_further {
                *current = mode;
            }
            is_further
        });
        if self.lifecycle().phase == InformerPhase::Created {
            // Before the start there is no driver to do this.
            self.set_stopped();
        } else if mode == StopMode::Immediate {
            // Whatever the driver is doing, no notification is delivered from now on.
            self.stop_listeners(mode);
        }
    }

    /// Notes that the driver has stopped.
    pub(super) fn set_stopped(&self) {
        let mut was_started = false;
        self.lifecycle.send_modify(|lifecycle| {
            was_started = lifecycle.phase != InformerPhase::Created;
            lifecycle.phase = InformerPhase::Stopped;
        });
        self.queued.store(0, Ordering::Relaxed);
        self.table.stop_waiting();
        // Without a driver, this ends the consistency checks that wait.
        drop(self.take_parts());
        // Without a start there are no tasks that could drain.
        let mode = if was_started { *self.stop_mode.borrow() } else { StopMode::Immediate };
        self.stop_listeners(mode);
    }

    fn stop_listeners(&self, mode: StopMode) {
        if mode == StopMode::Drain {
            let listeners: Vec<_> =
                self.processor().entries().iter().map(|entry| Arc::clone(&entry.listener)).collect();
            listeners.iter().for_each(|listener| listener.drain());
            return;
        }
        let entries = self.processor().clear();
        for entry in &entries {
            entry.listener.revoke();
        }
    }

    /// Waits until the informer has stopped and no task is left.
    pub(super) async fn stopped(&self) {
        // The senders are fields of `self`, so neither wait fails.
        let _ = self.watch_lifecycle().wait_for(|lifecycle| lifecycle.phase == InformerPhase::Stopped).await;
        let _ = self.tasks.subscribe().wait_for(|tasks| *tasks == 0).await;
    }

    /// Takes reflector and queue, for the driver.
    pub(super) fn take_parts(&self) -> Option<Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn watch_reflector(&self, status: ReflectorStatus) {
        // There is one driver, so this is set once.
        let _ = self.reflector.set(status);
    }

    pub(super) fn last_sync_resource_version(&self) -> ResourceVersion {
        if self.scoped.is_some() || self.ranged.is_some() {
            return self.table.version();
        }
        let version = self.reflector.get().map(ReflectorStatus::last_sync_resource_version).unwrap_or_default();
        ResourceVersion::new(&version)
    }

    /// Has the driver check the consistency of the store.
    pub(super) async fn check_consistency(&self) -> ConsistencyReport {
        let inconclusive = |reason: &str| ConsistencyReport::inconclusive(String::new(), 0, reason.to_owned());
        if self.lifecycle().phase != InformerPhase::Running {
            return inconclusive("the informer does not run");
        }
        let (sender, report) = oneshot::channel();
        // A driver that has stopped drops the receiver, or the sender of the report.
        let _ = self.checks.send(sender).await;
        report.await.unwrap_or_else(|_| inconclusive("the informer stopped"))
    }

    pub(super) fn set_last_check(&self, report: ConsistencyReport) {
        *self.last_check.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }

    pub(super) fn status(&self) -> InformerStatus {
        let lifecycle = self.lifecycle();
        let mut handlers = BTreeMap::new();
        for entry in self.processor().entries().iter().filter(|entry| !entry.listener.is_revoked()) {
            handlers.insert(entry.listener.name.clone(), entry.listener.lag());
        }
        let namespaces = self.namespace_statuses();
        let store_resource_version = self.table.version().as_str().to_owned();
        let reflector = match (&self.scoped, &self.ranged) {
            (Some(_), _) => merged_report(&namespaces, store_resource_version.clone()),
            (None, Some(ranged)) => ranged.report(store_resource_version.clone()),
            (None, None) => self.reflector.get().map(ReflectorStatus::report).unwrap_or_default(),
        };
        InformerStatus {
            name: self.name.clone(),
            is_started: self.is_started(),
            is_stopped: lifecycle.phase == InformerPhase::Stopped,
            has_synced: lifecycle.synced,
            gone: self.gone.get().cloned(),
            objects: self.table.len(),
            store_resource_version,
            queued: self.queued.load(Ordering::Relaxed),
            reflector,
            namespaces,
            consistency: self.last_check.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            handlers,
        }
    }
}

/// Without handles and tasks, a stopped informer is what registrations and waiting readers are left with.
impl Drop for InformerShared {
    fn drop(&mut self) {
        if self.lifecycle().phase != InformerPhase::Stopped {
            self.set_stopped();
        }
    }
}
