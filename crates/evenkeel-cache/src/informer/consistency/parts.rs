//! [`CheckParts`]: what a consistency check compares with one list each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::Untyped;
use tokio::sync::mpsc;

use crate::informer::process_loop::ProcessLoop;
use crate::informer::scoped_sink::lock;
use crate::informer::shared::InformerShared;
use crate::namespaces::Scope;
use crate::reflector::{DeltaSink, SinkRequest};
use crate::source::ListerWatcher;
use crate::{Indexer, Snapshot};

/// The part of a store that one reflector fills, at one moment.
pub(in crate::informer) struct CheckPart {
    pub(super) source: Arc<dyn ListerWatcher>,
    pub(super) repairs: mpsc::Sender<SinkRequest>,
    pub(super) snapshot: Snapshot<Untyped>,
    /// The version of the part in the snapshot.
    pub(super) version: String,
    /// `None` for the whole store.
    pub(super) scope: Option<Scope>,
}

/// The parts of a store.
pub(in crate::informer) trait CheckParts: Send + Sync {
    /// Returns the names of the parts.
    fn names(&self) -> Vec<Arc<str>>;

    /// Returns a part as it is now; `None` if it has been removed. The objects and the version of the part belong together.
    fn part(&self, name: &str) -> Option<CheckPart>;
}

/// The store of an informer with one reflector.
pub(in crate::informer) struct WholeStore {
    pub(in crate::informer) shared: Arc<InformerShared>,
    pub(in crate::informer) source: Arc<dyn ListerWatcher>,
    pub(in crate::informer) repairs: mpsc::Sender<SinkRequest>,
}

impl CheckParts for WholeStore {
    fn names(&self) -> Vec<Arc<str>> {
        vec![Arc::from("")]
    }

    fn part(&self, _: &str) -> Option<CheckPart> {
        Some(CheckPart {
            source: Arc::clone(&self.source),
            repairs: self.repairs.clone(),
            // The reflector runs in this task and has applied everything that it received, so these belong together.
            snapshot: Indexer::over(Arc::clone(&self.shared.table)).snapshot(),
            version: self.shared.last_sync_resource_version().as_str().to_owned(),
            scope: None,
        })
    }
}

/// The store of an informer of several namespaces: one part for each. Cheap to clone.
#[derive(Clone)]
pub(in crate::informer) struct CheckedScopes {
    shared: Arc<InformerShared>,
    process_loop: Arc<Mutex<ProcessLoop>>,
    scopes: Arc<Mutex<BTreeMap<Arc<str>, CheckedScope>>>,
}

struct CheckedScope {
    scope: Scope,
    source: Arc<dyn ListerWatcher>,
    repairs: mpsc::Sender<SinkRequest>,
}

impl CheckedScopes {
    pub(in crate::informer) fn new(shared: &Arc<InformerShared>, process_loop: &Arc<Mutex<ProcessLoop>>) -> Self {
        CheckedScopes { shared: Arc::clone(shared), process_loop: Arc::clone(process_loop), scopes: Arc::default() }
    }

    /// Adds a scope whose reflector starts. Returns the requests to the reflector.
    pub(in crate::informer) fn add(
        &self,
        scope: &Scope,
        source: Arc<dyn ListerWatcher>,
    ) -> mpsc::Receiver<SinkRequest> {
        let (repairs, requests) = mpsc::channel(1);
        let checked = CheckedScope { scope: scope.clone(), source, repairs };
        self.lock().insert(Arc::clone(scope.namespace()), checked);
        requests
    }

    /// Removes a scope whose reflector has stopped.
    pub(in crate::informer) fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, CheckedScope>> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CheckParts for CheckedScopes {
    fn names(&self) -> Vec<Arc<str>> {
        self.lock().keys().cloned().collect()
    }

    fn part(&self, name: &str) -> Option<CheckPart> {
        let (scope, source, repairs) = {
            let scopes = self.lock();
            let checked = scopes.get(name)?;
            (checked.scope.clone(), Arc::clone(&checked.source), checked.repairs.clone())
        };
        let snapshot: Snapshot<Untyped> = {
            let mut process_loop = lock(&self.process_loop);
            // Without queued deltas, objects and version belong together.
            let _ = process_loop.flush();
            Indexer::over(Arc::clone(&self.shared.table)).snapshot()
        };
        let version = snapshot.scope_version(&scope).as_str().to_owned();
        Some(CheckPart { source, repairs, snapshot, version, scope: Some(scope) })
    }
}
