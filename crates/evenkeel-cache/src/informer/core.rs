//! What all handles of one informer share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use evenkeel_core::{ResourceInfo, ResourceVersion};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

use super::listener::{self, Listener};
use super::metrics::Identity;
use super::observe::Observers;
use super::processor::{HandlerRunner, Processor};
use super::status::InformerStatus;
use crate::Event;
use crate::delta::DeltaQueue;
use crate::reflector::{ReflectorBuilder, ReflectorStatus};
use crate::store::Table;

/// What all handles of one informer share.
pub(super) struct Core {
    pub(super) name: String,
    pub(super) identity: Identity,
    pub(super) info: Arc<ResourceInfo>,
    pub(super) table: Arc<Table>,
    processor: Mutex<Processor>,
    life: watch::Sender<Life>,
    order: watch::Sender<Order>,
    /// How many tasks there are.
    tasks: watch::Sender<usize>,
    runtime: OnceLock<Handle>,
    /// How many deltas wait to be applied.
    pub(super) queued: AtomicUsize,
    /// How many streams there have been.
    pub(super) subscriptions: AtomicUsize,
    engine: Mutex<Option<Engine>>,
    reflector: OnceLock<ReflectorStatus>,
    pub(super) observers: Arc<Observers>,
}

/// What the driver is to drive.
pub(super) struct Engine {
    pub(super) reflector: ReflectorBuilder,
    pub(super) queue: DeltaQueue,
}

/// How far an informer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) phase: Phase,
    pub(super) synced: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Created,
    Running,
    Stopped,
}

/// What the informer's tasks are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    Run,
    /// End; handlers are still told what is waiting for them.
    Drain,
    /// End.
    Stop,
}

/// Somebody uses the informer. When the last of these is gone, it ends.
pub(super) struct User(pub(super) Arc<Core>);

impl Drop for User {
    fn drop(&mut self) {
        self.0.stop(Order::Stop);
    }
}

/// Counts a task for as long as it lives, also if it panics or is dropped.
pub(super) struct TaskGuard(Arc<Core>);

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.tasks.send_modify(|tasks| *tasks -= 1);
    }
}

/// A handler's task is a user of the informer.
struct HandlerGuard {
    listener: Arc<Listener>,
    _task: TaskGuard,
    _user: Arc<User>,
}

impl Drop for HandlerGuard {
    fn drop(&mut self) {
        self.listener.set_alive(false);
    }
}

impl Core {
    pub(super) fn new(
        name: String,
        identity: Identity,
        info: Arc<ResourceInfo>,
        table: Arc<Table>,
        processor: Processor,
        engine: Engine,
    ) -> Self {
        Core {
            identity,
            name,
            info,
            table,
            processor: Mutex::new(processor),
            life: watch::Sender::new(Life { phase: Phase::Created, synced: false }),
            order: watch::Sender::new(Order::Run),
            tasks: watch::Sender::new(0),
            runtime: OnceLock::new(),
            queued: AtomicUsize::new(0),
            subscriptions: AtomicUsize::new(0),
            engine: Mutex::new(Some(engine)),
            reflector: OnceLock::new(),
            observers: Arc::default(),
        }
    }

    pub(super) fn processor(&self) -> MutexGuard<'_, Processor> {
        self.processor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn life(&self) -> Life {
        *self.life.borrow()
    }

    pub(super) fn lives(&self) -> watch::Receiver<Life> {
        self.life.subscribe()
    }

    pub(super) fn orders(&self) -> watch::Receiver<Order> {
        self.order.subscribe()
    }

    /// Whether it has ever run.
    pub(super) fn has_begun(&self) -> bool {
        self.runtime.get().is_some()
    }

    /// Whether it runs, or may yet be started: nobody has ended it.
    pub(super) fn is_to_run(&self) -> bool {
        *self.order.borrow() == Order::Run && self.life().phase != Phase::Stopped
    }

    /// Begins, unless somebody has begun already. Handlers are started; the driver is for the caller.
    pub(super) fn begin(self: &Arc<Self>, user: &Arc<User>, runtime: &Handle) -> Option<TaskGuard> {
        let mut processor = self.processor();
        let begun = self.life.send_if_modified(|life| {
            let first = life.phase == Phase::Created;
            if first {
                life.phase = Phase::Running;
            }
            first
        });
        if !begun {
            return None;
        }
        let _ = self.runtime.set(runtime.clone());
        // Under the lock, so that whoever ends it meanwhile waits for these tasks too.
        for (listener, runner) in processor.start() {
            self.spawn(user, listener, runner);
        }
        Some(self.task())
    }

    fn task(self: &Arc<Self>) -> TaskGuard {
        self.tasks.send_modify(|tasks| *tasks += 1);
        TaskGuard(Arc::clone(self))
    }

    /// Gives a handler a task of its own.
    fn spawn(self: &Arc<Self>, user: &Arc<User>, listener: Arc<Listener>, runner: HandlerRunner) {
        let Some(runtime) = self.runtime.get() else { return };
        listener.set_alive(true);
        let guard = HandlerGuard { listener: Arc::clone(&listener), _task: self.task(), _user: Arc::clone(user) };
        let HandlerRunner { callback, blocking } = runner;
        if blocking {
            let handle = runtime.clone();
            runtime.spawn_blocking(move || {
                let _guard = guard;
                listener::run_blocking(&listener, callback, &handle);
            });
        } else {
            runtime.spawn(async move {
                let _guard = guard;
                listener::run(listener, callback).await;
            });
        }
    }

    /// Takes a listener in, and tells it what there is. Answers `false` if the informer has ended.
    pub(super) fn join(
        self: &Arc<Self>,
        user: &Arc<User>,
        listener: &Arc<Listener>,
        resync: Option<std::time::Duration>,
        runner: Option<HandlerRunner>,
    ) -> bool {
        let now = Instant::now();
        let mut processor = self.processor();
        let life = self.life();
        if !self.is_to_run() {
            return false;
        }
        // What is committed after this is told to the listener by the driver, as it has its entry when the processor is next
        // looked at; what was committed before is not, as it is among what it is told now.
        let (commit, objects) = self.table.commits_and_objects();
        listener.push(&objects.into_iter().map(|object| Event::Add { object, initial: true }).collect(), now);
        if life.synced {
            listener.push_synced(now);
        }
        let (waiting, runner) = match life.phase {
            Phase::Created => (runner, None),
            _ => (None, runner),
        };
        processor.join(Arc::clone(listener), resync, commit, waiting, now);
        if let Some(runner) = runner {
            self.spawn(user, Arc::clone(listener), runner);
        }
        true
    }

    /// Lets a listener go. A call that is being made runs to its end; no other begins once this has returned.
    pub(super) fn leave(&self, listener: &Arc<Listener>) {
        listener.revoke();
        let entry = self.processor().leave(listener);
        // Not under the lock: the handler may be in it, and who knows what its end leads to.
        drop(entry);
        tracing::debug!(informer = self.name, handler = listener.name, "a handler is removed");
    }

    /// All of the first list is in the store.
    pub(super) fn synced(&self, now: Instant) {
        let mut processor = self.processor();
        self.life.send_if_modified(|life| !std::mem::replace(&mut life.synced, true));
        processor.synced(now);
    }

    /// Has the tasks end. What was ordered before is not taken back.
    pub(super) fn stop(&self, order: Order) {
        self.order.send_if_modified(|now| {
            let further = order > *now;
            if further {
                *now = order;
            }
            further
        });
        if self.life().phase == Phase::Created {
            // Before it runs there is no driver to end it.
            self.ended();
        } else if order == Order::Stop {
            // Whatever the driver is at: nothing more is told.
            self.dismiss(order);
        }
    }

    /// The driver has ended: nothing more comes.
    pub(super) fn ended(&self) {
        let mut began = false;
        self.life.send_modify(|life| {
            began = life.phase != Phase::Created;
            life.phase = Phase::Stopped;
        });
        self.queued.store(0, Ordering::Relaxed);
        self.table.stop_waiting();
        // What has not begun has nothing to tell.
        let order = if began { *self.order.borrow() } else { Order::Stop };
        self.dismiss(order);
    }

    fn dismiss(&self, order: Order) {
        if order == Order::Drain {
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

    /// Waits until no task is left.
    pub(super) async fn idle(&self) {
        let mut tasks = self.tasks.subscribe();
        // The sender lives in here.
        let _ = tasks.wait_for(|tasks| *tasks == 0).await;
    }

    /// What is to be driven, for the one who drives it.
    pub(super) fn take_engine(&self) -> Option<Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn watch_reflector(&self, status: ReflectorStatus) {
        // There is one driver, so nobody was here before.
        let _ = self.reflector.set(status);
    }

    pub(super) fn last_sync_resource_version(&self) -> ResourceVersion {
        let version = self.reflector.get().map(ReflectorStatus::last_sync_resource_version).unwrap_or_default();
        ResourceVersion::new(&version)
    }

    pub(super) fn status(&self) -> InformerStatus {
        let life = self.life();
        InformerStatus {
            name: self.name.clone(),
            is_started: self.has_begun(),
            is_stopped: life.phase == Phase::Stopped,
            has_synced: life.synced,
            objects: self.table.len(),
            store_resource_version: self.table.version().as_str().to_owned(),
            queued: self.queued.load(Ordering::Relaxed),
            reflector: self.reflector.get().map(ReflectorStatus::report).unwrap_or_default(),
            handlers: self
                .processor()
                .entries()
                .iter()
                .filter(|entry| !entry.listener.is_revoked())
                .map(|entry| (entry.listener.name.clone(), entry.listener.lag()))
                .collect(),
        }
    }
}
