//! [`ScopedSink`]: the sink of one of several reflectors of an informer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use evenkeel_core::ObjectKey;
use tokio::sync::mpsc;

use super::process_loop::ProcessLoop;
use super::shared::InformerShared;
use crate::Object;
use crate::delta::Delta;
use crate::namespaces::Scope;
use crate::reflector::{DeltaSink, SinkError, SinkRequest};

/// The sink of the reflector of one scope. All scopes of an informer share the process loop, and lock it for each delta: the store has
/// one writer at a time, and notifications have one order.
///
/// A reflector writes objects of its scope only: others are dropped, whatever the server sends.
pub(super) struct ScopedSink {
    pub(super) shared: Arc<InformerShared>,
    pub(super) process_loop: Arc<Mutex<ProcessLoop>>,
    pub(super) scope: Scope,
    /// Whether the last request was forbidden.
    pub(super) is_forbidden: Arc<AtomicBool>,
    /// Requests of the consistency check.
    pub(super) repairs: mpsc::Receiver<SinkRequest>,
}

/// Locks the process loop of several reflectors.
pub(super) fn lock(process_loop: &Mutex<ProcessLoop>) -> MutexGuard<'_, ProcessLoop> {
    // Panics of user code are caught, and those of a source end the informer.
    process_loop.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ScopedSink {
    fn contains(&self, key: &ObjectKey) -> bool {
        let is_inside = self.scope.contains(key.namespace().unwrap_or_default());
        if !is_inside {
            let (informer, scope) = (self.shared.name.as_str(), self.scope.describe());
            tracing::warn!(informer, scope, %key, "server sent an object of another namespace; dropped");
        }
        is_inside
    }
}

impl DeltaSink for ScopedSink {
    fn push(&mut self, delta: Delta) -> Result<(), SinkError> {
        if self.is_forbidden.load(Ordering::Relaxed) {
            self.is_forbidden.store(false, Ordering::Relaxed);
            self.shared.scope_readable(&self.scope);
        }
        match delta {
            Delta::ReplacedAll { mut objects, resource_version } => {
                // This list repairs what an earlier check found.
                while self.repairs.try_recv().is_ok() {}
                objects.retain(|object| self.contains(object.key()));
                let list = Delta::ReplacedAll { objects, resource_version };
                lock(&self.process_loop).replace_scope(&self.scope, list);
            }
            Delta::Bookmark(version) => lock(&self.process_loop).bookmark_scope(&self.scope, version),
            delta if delta.key().is_some_and(|key| self.contains(key)) => {
                lock(&self.process_loop).push(delta)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        lock(&self.process_loop).flush()
    }

    fn known(&self, key: &ObjectKey) -> Option<Object> {
        self.shared.table.get(key.as_str())
    }

    fn prepare(&self, object: &Object) {
        self.shared.views.prepare_object(object);
    }

    fn poll_request(&mut self, context: &mut Context<'_>) -> Poll<SinkRequest> {
        match self.repairs.poll_recv(context) {
            Poll::Ready(Some(repair)) => Poll::Ready(repair),
            _ => Poll::Pending,
        }
    }
}
