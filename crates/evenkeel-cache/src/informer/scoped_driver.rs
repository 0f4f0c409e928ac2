//! The driver task of an informer of several namespaces: runs one reflector for each, until the informer stops.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_base::task::scheduled;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::Instant;

use super::consistency::{CheckedScopes, sleep_until_some};
use super::observe::{InformerEvent, Notify};
use super::process_loop::ProcessLoop;
use super::scoped_sink::{ScopedSink, lock};
use super::shared::{InformerShared, StopMode};
use crate::delta::Delta;
use crate::delta_queue::DeltaQueue;
use crate::namespaces::{Scope, ScopeChanges, WantedNamespaces, plan};
use crate::reflector::{DeltaSink, ReflectorBuilder, ReflectorFailure};
use crate::source::ListerWatcher;

/// Returns the source of a scope.
type SourceOfScope = Box<dyn Fn(&Scope) -> Arc<dyn ListerWatcher> + Send + Sync>;
/// Returns the reflector of a scope, over its source.
type ReflectorOfScope = Box<dyn Fn(&Scope, Arc<dyn ListerWatcher>) -> ReflectorBuilder + Send + Sync>;

/// The reflectors of an informer of several namespaces, until the driver task takes them.
pub(super) struct ScopedReflectors {
    pub(super) source: SourceOfScope,
    pub(super) reflector: ReflectorOfScope,
    pub(super) wanted: watch::Receiver<WantedNamespaces>,
}

/// Runs the reflectors of an informer of several namespaces.
pub(super) struct ScopedDriver {
    shared: Arc<InformerShared>,
    reflectors: ScopedReflectors,
    process_loop: Arc<Mutex<ProcessLoop>>,
    checked: CheckedScopes,
    tasks: JoinSet<()>,
    running: BTreeMap<Arc<str>, RunningScope>,
}

struct RunningScope {
    scope: Scope,
    task: AbortHandle,
}

impl ScopedDriver {
    pub(super) fn new(shared: &Arc<InformerShared>, reflectors: ScopedReflectors, queue: DeltaQueue) -> Self {
        let process_loop = Arc::new(Mutex::new(ProcessLoop::scoped(Arc::clone(shared), queue)));
        ScopedDriver {
            shared: Arc::clone(shared),
            reflectors,
            checked: CheckedScopes::new(shared, &process_loop),
            process_loop,
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
        }
    }

    /// Returns the scopes, for the consistency check.
    pub(super) fn checked_scopes(&self) -> CheckedScopes {
        self.checked.clone()
    }

    /// Runs until the informer is stopped.
    pub(super) async fn run(mut self) {
        let mut stop_mode = self.shared.watch_stop_mode();
        let mut stopped = pin!(async move {
            // The sender is a field of the informer, so the wait does not fail.
            let _ = stop_mode.wait_for(|mode| *mode != StopMode::KeepRunning).await;
        });
        let mut period = self.shared.processor().check_period();
        let mut next = next_resync(period);
        self.apply().await;
        loop {
            let shared = &self.shared;
            tokio::select! {
                biased;
                () = &mut stopped => break,
                Ok(()) = self.reflectors.wanted.changed() => self.apply().await,
                Some(ended) = self.tasks.join_next() => propagate_panic(ended),
                changed = poll_fn(|context| shared.processor().poll_check_period(context)) => {
                    period = changed;
                    next = next_resync(period);
                }
                () = sleep_until_some(next) => {
                    self.resync();
                    next = next_resync(period);
                }
            }
        }
        // No delta follows when the informer has stopped.
        self.tasks.shutdown().await;
        if self.shared.is_retiring() {
            self.remove_all();
        }
    }

    /// Deletes the objects of all namespaces that are listed.
    fn remove_all(&self) {
        let mut process_loop = lock(&self.process_loop);
        let is_listed =
            |scope: &&Scope| self.shared.scoped.as_ref().is_some_and(|scoped| scoped.is_listed(scope.namespace()));
        for scope in self.running.values().map(|running| &running.scope).filter(is_listed) {
            let resource_version = self.shared.table.scope_version(scope.namespace());
            process_loop.replace_scope(scope, Delta::ReplacedAll { objects: Vec::new(), resource_version });
        }
    }

    /// Stops and starts reflectors, so that one runs for each namespace of the set.
    async fn apply(&mut self) {
        let wanted = self.reflectors.wanted.borrow_and_update().clone();
        let scopes = wanted.names.scopes();
        let running = self.running.iter().map(|(name, running)| (Arc::clone(name), running.scope.clone())).collect();
        let ScopeChanges { stop, start } = plan(&running, scopes.clone());
        for name in stop {
            self.stop(&name).await;
        }
        lock(&self.process_loop).set_scopes(&scopes);
        for scope in start {
            self.start(scope);
        }
        self.shared.scopes_in_effect(wanted.generation, wanted.is_complete);
    }

    fn start(&mut self, scope: Scope) {
        let is_forbidden = Arc::new(AtomicBool::new(false));
        let observer = {
            let (shared, scope, is_forbidden) = (Arc::clone(&self.shared), scope.clone(), Arc::clone(&is_forbidden));
            move |failure: &ReflectorFailure| {
                shared.observers.notify(InformerEvent::Failed(failure));
                let status = failure.error.source_error().and_then(|error| error.status());
                if let Some(status) = status.filter(|status| status.is_forbidden()) {
                    is_forbidden.store(true, Ordering::Relaxed);
                    shared.scope_forbidden(&scope, &status.message);
                }
            }
        };
        let source = (self.reflectors.source)(&scope);
        let mut reflector = (self.reflectors.reflector)(&scope, Arc::clone(&source)).observe_errors(observer).build();
        self.shared.scope_started(&scope, reflector.status());
        let mut sink = ScopedSink {
            shared: Arc::clone(&self.shared),
            process_loop: Arc::clone(&self.process_loop),
            scope: scope.clone(),
            is_forbidden,
            repairs: self.checked.add(&scope, source),
        };
        let guard = self.shared.task();
        let task = self.tasks.spawn(scheduled(async move {
            let _guard = guard;
            reflector.run(&mut sink).await;
        }));
        self.running.insert(Arc::clone(scope.namespace()), RunningScope { scope, task });
    }

    /// Stops the reflector of a scope, and waits until its task has ended: no delta of it follows.
    async fn stop(&mut self, name: &Arc<str>) {
        let Some(RunningScope { task, .. }) = self.running.remove(name) else { return };
        self.checked.remove(name);
        task.abort();
        while let Some(ended) = self.tasks.join_next_with_id().await {
            let id = match &ended {
                Ok((id, ())) => *id,
                Err(error) => error.id(),
            };
            propagate_panic(ended.map(drop));
            if id == task.id() {
                break;
            }
        }
        self.shared.scope_stopped(name);
    }

    /// Redelivers the objects of all namespaces to the handlers that are due.
    fn resync(&self) {
        let mut process_loop = lock(&self.process_loop);
        // The process loop accepts everything.
        let _ = process_loop.push(Delta::SyncAll).and_then(|()| process_loop.flush());
    }
}

pub(super) fn next_resync(period: Duration) -> Option<Instant> {
    if period.is_zero() { None } else { Instant::now().checked_add(period) }
}

/// A source that panics ends the informer.
pub(super) fn propagate_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}
