//! The driver task of an informer whose places change: runs one reflector for each stream, until the informer stops.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_base::task::scheduled;
use evenkeel_core::shard::ShardRanges;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::consistency::{CheckedRanges, sleep_until_some};
use super::observe::{InformerEvent, Notify as _};
use super::process_loop::ProcessLoop;
use super::ranged_sink::RangedSink;
use super::ranged_streams::{NewStream, RangedStreams, lock_streams};
use super::scoped_driver::{next_resync, propagate_panic};
use super::shared::{InformerShared, StopMode};
use crate::delta_queue::DeltaQueue;
use crate::reflector::shards::Shards;
use crate::reflector::{ReflectorBuilder, ReflectorFailure};
use crate::source::ListerWatcher;

/// The reflectors of an informer whose places change, until the driver task takes them.
pub(super) struct RangedReflectors {
    pub(super) source: Arc<dyn ListerWatcher>,
    /// Returns a reflector of some places.
    pub(super) reflector: Box<dyn Fn() -> ReflectorBuilder + Send + Sync>,
    /// The key and the server, without places.
    pub(super) prototype: Arc<Shards>,
    pub(super) wanted: watch::Receiver<ShardRanges>,
}

/// Runs the reflectors of an informer whose places change.
pub(super) struct RangedDriver {
    shared: Arc<InformerShared>,
    reflectors: RangedReflectors,
    streams: Arc<Mutex<RangedStreams>>,
    tasks: JoinSet<()>,
    freed: Arc<Notify>,
}

impl RangedDriver {
    pub(super) fn new(shared: &Arc<InformerShared>, reflectors: RangedReflectors, queue: DeltaQueue) -> Self {
        let process_loop = ProcessLoop::scoped(Arc::clone(shared), queue);
        let freed = Arc::new(Notify::new());
        let streams = RangedStreams::new(shared, process_loop, reflectors.prototype.key(), Arc::clone(&freed));
        let streams = Arc::new(Mutex::new(streams));
        RangedDriver { shared: Arc::clone(shared), reflectors, streams, tasks: JoinSet::new(), freed }
    }

    /// Returns the streams, for the consistency check.
    pub(super) fn checked_ranges(&self) -> CheckedRanges {
        CheckedRanges {
            shared: Arc::clone(&self.shared),
            source: Arc::clone(&self.reflectors.source),
            streams: Arc::clone(&self.streams),
        }
    }

    /// Runs until the informer is stopped.
    pub(super) async fn run(mut self) {
        let mut stop_mode = self.shared.watch_stop_mode();
        let mut stopped = pin!(async move {
            // The sender is a field of the informer, so the wait does not fail.
            let _ = stop_mode.wait_for(|mode| *mode != StopMode::KeepRunning).await;
        });
        let mut period: Duration = self.shared.processor().check_period();
        let mut next = next_resync(period);
        self.apply();
        loop {
            let shared = &self.shared;
            tokio::select! {
                biased;
                () = &mut stopped => break,
                Ok(()) = self.reflectors.wanted.changed() => self.apply(),
                () = self.freed.notified() => self.apply(),
                Some(ended) = self.tasks.join_next() => propagate_panic(ended),
                changed = poll_fn(|context| shared.processor().poll_check_period(context)) => {
                    period = changed;
                    next = next_resync(period);
                }
                () = sleep_until_some(next) => {
                    lock_streams(&self.streams).resync();
                    next = next_resync(period);
                }
            }
        }
        // No delta follows when the informer has stopped.
        self.tasks.shutdown().await;
        if self.shared.is_retiring() {
            lock_streams(&self.streams).remove_all();
        }
    }

    /// Follows the wanted places.
    fn apply(&mut self) {
        let wanted = self.reflectors.wanted.borrow_and_update().clone();
        let started = lock_streams(&self.streams).apply(&wanted, &self.reflectors.prototype);
        if let Some(stream) = started {
            self.start(stream);
        }
    }

    fn start(&mut self, stream: NewStream) {
        let NewStream { id, shards, requests } = stream;
        let observers = Arc::clone(&self.shared.observers);
        let observer = move |failure: &ReflectorFailure| observers.notify(InformerEvent::Failed(failure));
        let streams = Arc::clone(&self.streams);
        let mut reflector = (self.reflectors.reflector)()
            // Another replica has written these objects until now: what it wrote must be in the list.
            .consistent_restart(true)
            .keep_places(shards.key())
            .shared_shards(Some(shards))
            .before_watch(Box::new(move || lock_streams(&streams).before_watch(id)))
            .observe_errors(observer)
            .build();
        if let Some(ranged) = &self.shared.ranged {
            ranged.reflector_started(id, reflector.status());
        }
        let mut sink =
            RangedSink { shared: Arc::clone(&self.shared), streams: Arc::clone(&self.streams), id, requests };
        let guard = self.shared.task();
        let task = self.tasks.spawn(scheduled(async move {
            let _guard = guard;
            reflector.run(&mut sink).await;
        }));
        lock_streams(&self.streams).set_task(id, task);
    }
}
