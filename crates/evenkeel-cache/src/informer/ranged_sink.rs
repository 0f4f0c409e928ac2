//! [`RangedSink`]: the sink of one of the reflectors of an informer whose places change.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use evenkeel_core::ObjectKey;
use tokio::sync::mpsc;

use super::ranged_streams::{RangedStreams, lock_streams};
use super::shared::InformerShared;
use crate::Object;
use crate::delta::Delta;
use crate::reflector::{DeltaSink, SinkError, SinkRequest};

/// The sink of one stream. All streams of an informer share the process loop, and lock it for each delta. When the stream has ended, the
/// sink is closed.
pub(super) struct RangedSink {
    pub(super) shared: Arc<InformerShared>,
    pub(super) streams: Arc<Mutex<RangedStreams>>,
    pub(super) id: u64,
    pub(super) requests: mpsc::Receiver<SinkRequest>,
}

impl DeltaSink for RangedSink {
    fn push(&mut self, delta: Delta) -> Result<(), SinkError> {
        if let Delta::ReplacedAll { .. } = delta {
            // This list repairs what an earlier check found.
            while self.requests.try_recv().is_ok() {}
        }
        let closed = || SinkError::Closed { name: self.shared.name().to_owned() };
        lock_streams(&self.streams).push(self.id, delta, closed)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        lock_streams(&self.streams).flush()
    }

    fn known(&self, key: &ObjectKey) -> Option<Object> {
        self.shared.table.get(key.as_str())
    }

    fn prepare(&self, object: &Object) {
        self.shared.views.prepare_object(object);
    }

    fn poll_request(&mut self, context: &mut Context<'_>) -> Poll<SinkRequest> {
        match self.requests.poll_recv(context) {
            Poll::Ready(Some(request)) => Poll::Ready(request),
            // The stream has ended.
            Poll::Ready(None) => Poll::Ready(SinkRequest::Stop),
            Poll::Pending => Poll::Pending,
        }
    }
}
