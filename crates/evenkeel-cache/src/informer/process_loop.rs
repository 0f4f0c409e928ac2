//! [`ProcessLoop`]: pops deltas, writes the store, and passes the notifications to the processor.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use evenkeel_base::planted::{Defect, is_planted};
use evenkeel_core::{ObjectKey, ResourceVersion};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::metrics::InformerMetrics;
use super::observe::{InformerEvent, Notify};
use super::shared::InformerShared;
use crate::Object;
use crate::delta::Delta;
use crate::delta_queue::{BATCH_LIMIT, DeltaQueue, StoreView};
use crate::event::Notifications;
use crate::namespaces::Scope;
use crate::reflector::{DeltaSink, SinkError, SinkRequest};
use crate::shard_scope::Places;

/// The sink of an informer's reflector: the delta queue, and behind it the store and the listeners.
///
/// One task drives the reflector and the process loop, so nothing is applied while a delta is queued, and the store has no
/// other writer. The store is always written before the listeners are notified. The reflectors of several namespaces share a process
/// loop and lock it: [`ScopedSink`](super::scoped_sink::ScopedSink).
pub(super) struct ProcessLoop {
    shared: Arc<InformerShared>,
    queue: DeltaQueue,
    synced: bool,
    metrics: InformerMetrics,
    /// Requests of the consistency check. Those of several namespaces have one channel each.
    repairs: Option<mpsc::Receiver<SinkRequest>>,
}

impl ProcessLoop {
    pub(super) fn new(shared: Arc<InformerShared>, queue: DeltaQueue, repairs: mpsc::Receiver<SinkRequest>) -> Self {
        let metrics = InformerMetrics::new(&shared.identity);
        ProcessLoop { shared, queue, synced: false, metrics, repairs: Some(repairs) }
    }

    /// Returns the process loop of an informer of several reflectors. The queue does not decide when such an informer has synced: each
    /// namespace has a list of its own.
    pub(super) fn scoped(shared: Arc<InformerShared>, queue: DeltaQueue) -> Self {
        let metrics = InformerMetrics::new(&shared.identity);
        ProcessLoop { shared, queue, synced: true, metrics, repairs: None }
    }

    /// Applies the queued deltas, then a list of one scope in one step.
    pub(super) fn replace_scope(&mut self, scope: &Scope, list: Delta) {
        self.process();
        let started = Instant::now();
        self.shared.observers.notify(InformerEvent::Received(&list));
        self.shared.views.prepare(std::slice::from_ref(&list));
        let Delta::ReplacedAll { objects, resource_version } = list else { return };
        self.shared.complete_lists.fetch_add(1, Ordering::Relaxed);
        let initial = self.shared.scoped.as_ref().is_some_and(|scoped| !scoped.is_listed(scope.namespace()));
        let notifications = self.shared.table.replace_scope(scope, objects, resource_version, initial);
        self.distribute(notifications);
        self.shared.scope_listed(scope);
        self.metrics.processed(started.elapsed());
        self.measure();
    }

    /// Applies the queued deltas, then a list of some places in one step. Returns the objects that were removed.
    pub(super) fn replace_places(&mut self, places: &Places, list: Delta, initial: bool) -> Vec<Object> {
        self.process();
        let started = Instant::now();
        self.shared.observers.notify(InformerEvent::Received(&list));
        self.shared.views.prepare(std::slice::from_ref(&list));
        let Delta::ReplacedAll { objects, .. } = list else { return Vec::new() };
        self.shared.complete_lists.fetch_add(1, Ordering::Relaxed);
        let notifications = self.shared.table.replace_places(places, objects, initial);
        let removed = notifications.deleted_objects();
        self.distribute(notifications);
        self.metrics.processed(started.elapsed());
        self.measure();
        removed
    }

    /// Notifies the observers of a delta that is not pushed.
    pub(super) fn received(&self, delta: &Delta) {
        self.shared.observers.notify(InformerEvent::Received(delta));
    }

    /// Applies the queued deltas, then removes the objects of all other places, and returns them.
    pub(super) fn remove_outside(&mut self, places: &Places) -> Vec<Object> {
        self.process();
        let notifications = self.shared.table.remove_outside(places);
        let removed = notifications.deleted_objects();
        self.distribute(notifications);
        self.measure();
        removed
    }

    /// Applies the queued deltas, then advances the version of one scope.
    pub(super) fn bookmark_scope(&mut self, scope: &Scope, version: ResourceVersion) {
        self.process();
        self.shared.table.bookmark_scope(scope, &version);
        self.shared.observers.notify(InformerEvent::Received(&Delta::Bookmark(version)));
    }

    /// Applies the queued deltas, then deletes all objects, as a relist would that finds none. Does nothing before the initial list.
    pub(super) fn remove_all(&mut self) {
        self.process();
        if self.synced {
            let resource_version = self.shared.table.version();
            let none = Delta::ReplacedAll { objects: Vec::new(), resource_version };
            self.queue.push_over(none, &StoreView::new(&self.shared.table, None));
            self.process();
        }
    }

    /// Applies the queued deltas, then removes the objects of all other scopes.
    pub(super) fn set_scopes(&mut self, scopes: &[Scope]) {
        self.process();
        let notifications = self.shared.table.set_scopes(scopes);
        self.distribute(notifications);
        self.measure();
    }

    fn measure(&self) {
        let table = &self.shared.table;
        self.metrics.stored(table.version().as_str(), table.len(), table.payload_bytes());
        self.shared.processor().measure(Instant::now());
    }

    /// Applies all queued deltas.
    fn process(&mut self) {
        self.update_queue_length();
        if self.queue.is_empty() {
            // A list without objects may leave nothing to apply.
            self.update_synced();
            return;
        }
        if is_planted(Defect::SlowHandlerBlocks) && self.shared.processor().is_any_behind() {
            return;
        }
        while let Some(mut batch) = self.queue.pop(BATCH_LIMIT) {
            let started = Instant::now();
            self.shared.views.prepare(&batch.deltas);
            let notifications = self.shared.table.apply(&mut batch.deltas, batch.initial);
            self.distribute(notifications);
            self.queue.processed(batch.count);
            self.queue.recycle(batch.deltas);
            self.update_synced();
            self.update_queue_length();
            self.metrics.processed(started.elapsed());
        }
        self.measure();
    }

    fn distribute(&self, notifications: Notifications) {
        if notifications.events.is_empty() {
            return;
        }
        if self.shared.observers.is_any() {
            for event in &notifications.events {
                self.shared.observers.notify(InformerEvent::Applied { event, is_resync: notifications.is_resync });
            }
        }
        self.shared.processor().distribute(notifications, Instant::now());
    }

    fn update_queue_length(&self) {
        self.shared.queued.store(self.queue.len(), Ordering::Relaxed);
        self.metrics.queued(self.queue.len());
    }

    fn update_synced(&mut self) {
        if !self.synced && self.queue.has_synced() {
            self.synced = true;
            self.shared.set_synced(Instant::now());
        }
    }
}

impl DeltaSink for ProcessLoop {
    fn push(&mut self, delta: Delta) -> Result<(), SinkError> {
        if let Delta::ReplacedAll { .. } = delta {
            self.shared.complete_lists.fetch_add(1, Ordering::Relaxed);
            // This list repairs what an earlier check found.
            while self.repairs.as_mut().is_some_and(|repairs| repairs.try_recv().is_ok()) {}
        }
        match &delta {
            Delta::SyncAll => {
                self.process();
                if !self.shared.processor().check_resync(Instant::now()) {
                    return Ok(());
                }
            }
            delta => self.shared.observers.notify(InformerEvent::Received(delta)),
        }
        self.queue.push_over(delta, &StoreView::new(&self.shared.table, None));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.process();
        Ok(())
    }

    fn known(&self, key: &ObjectKey) -> Option<Object> {
        self.shared.table.get(key.as_str())
    }

    fn prepare(&self, object: &Object) {
        self.shared.views.prepare_object(object);
    }

    fn poll_request(&mut self, context: &mut Context<'_>) -> Poll<SinkRequest> {
        if let Some(repairs) = &mut self.repairs
            && let Poll::Ready(Some(repair)) = repairs.poll_recv(context)
        {
            return Poll::Ready(repair);
        }
        let period = ready!(self.shared.processor().poll_check_period(context));
        Poll::Ready(SinkRequest::ResyncPeriod(period))
    }
}
