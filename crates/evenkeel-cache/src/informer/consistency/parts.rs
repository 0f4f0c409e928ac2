//! [`CheckParts`]: what a consistency check compares with one list each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::Untyped;
use tokio::sync::mpsc;

use crate::informer::process_loop::ProcessLoop;
use crate::informer::ranged_streams::{RangedStreams, StreamPart, lock_streams};
use crate::informer::scoped_sink::lock;
use crate::informer::shared::InformerShared;
use crate::namespaces::Scope;
use crate::reflector::shards::Shards;
use crate::reflector::{DeltaSink, SinkRequest};
use crate::shard_scope::Places;
use crate::source::ListerWatcher;
use crate::{Indexer, Snapshot};

/// The part of a store that one reflector fills, at one moment.
pub(in crate::informer) struct CheckPart {
    pub(super) source: Arc<dyn ListerWatcher>,
    pub(super) repairs: mpsc::Sender<SinkRequest>,
    pub(super) snapshot: Snapshot<Untyped>,
    /// The version of the part in the snapshot.
    pub(super) version: String,
    pub(super) filter: PartFilter,
    /// The places of the part, unless they are those of the informer.
    pub(super) shards: Option<Arc<Shards>>,
}

/// The objects of a part.
pub(super) enum PartFilter {
    Whole,
    Scope(Scope),
    Places(Places),
}

/// The parts of a store.
pub(in crate::informer) trait CheckParts: Send + Sync {
    /// Returns the names of the parts.
    fn names(&self) -> Vec<Arc<str>>;

    /// Returns a part as it is now; `None` if it has been removed. The objects and the version of the part belong together.
    fn part(&self, name: &str) -> Option<CheckPart>;

    /// Returns why there is no part.
    fn why_none(&self) -> &'static str {
        "the set has no namespaces"
    }
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
            filter: PartFilter::Whole,
            shards: None,
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
        let filter = PartFilter::Scope(scope);
        Some(CheckPart { source, repairs, snapshot, version, filter, shards: None })
    }
}

/// The store of an informer whose places change: one part for each stream.
pub(in crate::informer) struct CheckedRanges {
    pub(in crate::informer) shared: Arc<InformerShared>,
    pub(in crate::informer) source: Arc<dyn ListerWatcher>,
    pub(in crate::informer) streams: Arc<Mutex<RangedStreams>>,
}

impl CheckParts for CheckedRanges {
    fn names(&self) -> Vec<Arc<str>> {
        lock_streams(&self.streams).stream_ids().iter().map(|id| Arc::from(id.to_string())).collect()
    }

    fn part(&self, name: &str) -> Option<CheckPart> {
        let mut streams = lock_streams(&self.streams);
        let StreamPart { places, shards, version, requests: repairs } = streams.checked_part(name.parse().ok()?)?;
        let snapshot = Indexer::over(Arc::clone(&self.shared.table)).snapshot();
        drop(streams);
        Some(CheckPart {
            source: Arc::clone(&self.source),
            repairs,
            snapshot,
            version: version.as_str().to_owned(),
            filter: PartFilter::Places(places),
            shards: Some(shards),
        })
    }

    fn why_none(&self) -> &'static str {
        "no watch of the informer is at a single version now"
    }
}
