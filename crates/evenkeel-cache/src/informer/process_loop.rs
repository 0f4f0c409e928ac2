//! [`ProcessLoop`]: pops deltas, writes the store, and passes the notifications to the processor.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use evenkeel_core::ObjectKey;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::metrics::InformerMetrics;
use super::observe::{InformerEvent, Notify};
use super::shared::InformerShared;
use crate::Object;
use crate::delta::Delta;
use crate::delta_queue::{BATCH_LIMIT, DeltaQueue, StoreView};
use crate::event::Notifications;
use crate::reflector::{DeltaSink, SinkError, SinkRequest};

/// The sink of an informer's reflector: the delta queue, and behind it the store and the listeners.
///
/// One task drives the reflector and the process loop, so nothing is applied while a delta is queued, and the store has no
/// other writer. The store is always written before the listeners are notified.
pub(super) struct ProcessLoop {
    shared: Arc<InformerShared>,
    queue: DeltaQueue,
    synced: bool,
    metrics: InformerMetrics,
    /// Requests of the consistency check.
    repairs: mpsc::Receiver<SinkRequest>,
}

impl ProcessLoop {
    pub(super) fn new(shared: Arc<InformerShared>, queue: DeltaQueue, repairs: mpsc::Receiver<SinkRequest>) -> Self {
        let metrics = InformerMetrics::new(&shared.identity);
        ProcessLoop { shared, queue, synced: false, metrics, repairs }
    }

    /// Applies all queued deltas.
    fn process(&mut self) {
        self.update_queue_length();
        if self.queue.is_empty() {
            // A list without objects may leave nothing to apply.
            self.update_synced();
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
        let table = &self.shared.table;
        self.metrics.stored(table.version().as_str(), table.len(), table.payload_bytes());
        self.shared.processor().measure(Instant::now());
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
            // This list repairs what an earlier check found.
            while self.repairs.try_recv().is_ok() {}
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
        if let Poll::Ready(Some(repair)) = self.repairs.poll_recv(context) {
            return Poll::Ready(repair);
        }
        let period = ready!(self.shared.processor().poll_check_period(context));
        Poll::Ready(SinkRequest::ResyncPeriod(period))
    }
}
