//! [`EventBroadcaster`]: distributes events from recorders to sinks, loggers and watchers.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::environment::time_of_day;
use evenkeel_base::task::scheduled;
use evenkeel_client::Client;
use k8s_openapi::api::{core, events};
use k8s_openapi::jiff::Timestamp;
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::correlator::Correlator;
use super::driver::{Inbox, Queued, drive, has_new_api};
use super::drop_log::DropLog;
use super::finish::{Flush, Shutdown};
use super::metrics::{self, Dropped};
use super::names::event_name;
use super::options::SinkOptions;
use super::recorder::RecorderBuilder;
use super::series::Series;
use super::sink::EventSink;
use super::tracker::Tracker;
use super::{Event, Occurrence, Reporter};

/// Distributes recorded events to sinks, which write them, and to other listeners.
///
/// [`EventRecorder::new`](super::EventRecorder::new) creates one with a single sink, which is all that most programs
/// need. Create one for several sinks or several recorders:
///
/// ```
/// # fn example(client: &evenkeel_client::Client) {
/// use evenkeel_runtime::events::{EventBroadcaster, EventsApi, SinkOptions};
///
/// let broadcaster = EventBroadcaster::new();
/// broadcaster.record_to(client, EventsApi::Discover, SinkOptions::new());
/// broadcaster.start_logging();
/// let scheduler = broadcaster.recorder("scheduler").build();
/// let binder = broadcaster.recorder("binder").build();
/// # }
/// ```
///
/// # Guarantees
/// - Every listener has its own queue and receives all events recorded after it was added, in order. A listener whose
///   queue is full misses events; others do not.
/// - Recording never waits.
/// - After the last handle (broadcaster or recorder) is dropped, pending events get one more attempt each without
///   delay, and then all tasks end.
///
/// It may be created outside of a runtime. Its tasks start with the first call inside of one; until then events stay
/// queued.
#[derive(Clone)]
pub struct EventBroadcaster {
    pub(crate) shared: Arc<BroadcasterShared>,
}

pub(crate) struct BroadcasterShared {
    state: Mutex<BroadcasterState>,
    /// Events that sinks and listeners have not finished.
    pub(crate) events: Arc<Tracker>,
    /// Running tasks.
    pub(crate) tasks: Arc<Tracker>,
    /// Dates events.
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    /// Durations are measured from here, because the time of day may jump.
    start: Instant,
    drops: DropLog,
    invalid: DropLog,
}

struct BroadcasterState {
    is_stopped: bool,
    outlets: Vec<Outlet>,
    next_id: u64,
    /// Tasks that wait for a runtime.
    parked: Vec<Task>,
    running: Vec<AbortHandle>,
    /// The time of the last event in nanoseconds. It is part of the names of events, so it is unique.
    last: i128,
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One listener.
struct Outlet {
    id: u64,
    /// `None` for a listener that only waits for the shutdown.
    events: Option<mpsc::Sender<Queued>>,
    /// Whether a task of the broadcaster serves it: a flush waits for those.
    is_awaited: bool,
    /// Dropping it stops the task.
    _alive: watch::Sender<()>,
}

/// The API that events are written to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventsApi {
    /// `events.k8s.io/v1` if the server has it, else `v1`. Discovered once, before the first event is written.
    #[default]
    Discover,
    /// `v1`: equal events are counted, similar ones aggregated.
    Core,
    /// `events.k8s.io/v1`: events that differ only in their notes form a series.
    Events,
}

/// The broadcaster was shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("broadcaster already stopped")]
#[non_exhaustive]
pub struct Stopped;

impl EventBroadcaster {
    /// Returns a broadcaster without listeners.
    pub fn new() -> Self {
        EventBroadcaster::with_clock(time_of_day)
    }

    /// Returns a broadcaster whose events are dated by this clock, for tests and simulations.
    pub fn with_clock(clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let state = BroadcasterState {
            is_stopped: false,
            outlets: Vec::new(),
            next_id: 0,
            parked: Vec::new(),
            running: Vec::new(),
            last: i128::MIN,
        };
        let shared = BroadcasterShared {
            state: Mutex::new(state),
            events: Arc::default(),
            tasks: Arc::default(),
            clock: Box::new(clock),
            start: Instant::now(),
            drops: DropLog::default(),
            invalid: DropLog::default(),
        };
        EventBroadcaster { shared: Arc::new(shared) }
    }

    /// Returns a builder for a recorder of the controller of this name.
    pub fn recorder(&self, controller: impl Into<String>) -> RecorderBuilder {
        RecorderBuilder::attached(self, controller.into())
    }

    /// Adds a sink that writes events to a server. Each sink correlates independently.
    pub fn record_to(&self, client: &Client, api: EventsApi, options: SinkOptions) -> Subscription {
        let (client, start) = (client.clone(), self.shared.start);
        self.listen(options.queue, true, move |inbox| async move {
            let is_new = match api {
                EventsApi::Core => false,
                EventsApi::Events => true,
                EventsApi::Discover => has_new_api(&client, &inbox.alive, &options).await,
            };
            if is_new {
                drive(inbox, Series::new(&options), Arc::new(client), options, start).await;
            } else {
                drive(inbox, Correlator::new(&options), Arc::new(client), options, start).await;
            }
        })
    }

    /// Adds a user-defined sink for events of `v1`.
    pub fn record_to_core(&self, sink: impl EventSink<core::v1::Event>, options: SinkOptions) -> Subscription {
        let start = self.shared.start;
        self.listen(options.queue, true, move |inbox| {
            drive(inbox, Correlator::new(&options), Arc::new(sink), options, start)
        })
    }

    /// Adds a user-defined sink for events of `events.k8s.io/v1`.
    pub fn record_to_events(&self, sink: impl EventSink<events::v1::Event>, options: SinkOptions) -> Subscription {
        let start = self.shared.start;
        self.listen(options.queue, true, move |inbox| {
            drive(inbox, Series::new(&options), Arc::new(sink), options, start)
        })
    }

    /// Logs every event at info level, with its fields.
    pub fn start_logging(&self) -> Subscription {
        self.for_each(|event| {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let object = &event.regarding;
            let name = match object.namespace.as_deref().unwrap_or_default() {
                "" => text(&object.name),
                namespace => format!("{namespace}/{}", text(&object.name)),
            };
            tracing::info!(
                object = name,
                field_path = text(&object.field_path),
                kind = text(&object.kind),
                api_version = text(&object.api_version),
                r#type = event.event_type.as_str(),
                reason = event.reason,
                note = event.note,
                "Event occurred"
            );
        })
    }

    /// Calls a function for every event, in a task of its own. The function should not block: it delays no other
    /// listener, but it occupies a thread of the runtime.
    ///
    /// If it panics, it is not called again.
    pub fn for_each(&self, mut handle: impl FnMut(&Occurrence) + Send + 'static) -> Subscription {
        self.listen(QUEUE, true, move |mut inbox| async move {
            while let Some(queued) = inbox.events.recv().await {
                handle(&queued.occurrence);
            }
        })
    }

    /// Returns the events from now on as a stream. It ends after the broadcaster was shut down and all queued events
    /// were taken.
    ///
    /// [`flush`](Self::flush) does not wait for it.
    pub fn watch(&self) -> Result<EventWatch, Stopped> {
        self.watch_some(QUEUE)
    }

    pub(crate) fn watch_some(&self, queue: usize) -> Result<EventWatch, Stopped> {
        let (inbox, id) = self.shared.state().add(queue, false).ok_or(Stopped)?;
        Ok(EventWatch { events: inbox.events, subscription: Subscription { shared: Arc::downgrade(&self.shared), id } })
    }

    /// Waits until the events recorded before this call have been written, filtered or given up.
    pub fn flush(&self) -> Flush {
        self.shared.start();
        Flush::new(&self.shared)
    }

    /// Shuts down: from now on nothing is recorded and no listener can be added. Queued events are delivered; each
    /// unwritten event gets one more attempt without delay. The shutdown has started when the call returns; await the
    /// returned value to know when it is complete. If the server does not respond, that takes up to 30 seconds for
    /// every eight events, unless there is a [deadline](Shutdown::within).
    pub fn shutdown(&self) -> Shutdown {
        self.shared.stop();
        Shutdown::new(&self.shared, "")
    }

    /// Calls [`shutdown`](Self::shutdown) when `signal` completes. Needs a runtime. The waiting task holds no handle
    /// of the broadcaster and ends with it.
    pub fn shutdown_when(&self, signal: impl Future<Output = ()> + Send + 'static) -> Subscription {
        let shared = Arc::downgrade(&self.shared);
        self.listen(0, false, move |mut inbox| async move {
            tokio::select! {
                biased;
                () = signal => {
                    if let Some(shared) = shared.upgrade() {
                        shared.stop();
                    }
                }
                _ = inbox.alive.changed() => {}
            }
        })
    }

    fn listen<F>(&self, queue: usize, is_awaited: bool, task: impl FnOnce(Inbox) -> F) -> Subscription
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut state = self.shared.state();
        let Some((inbox, id)) = state.add(queue, is_awaited) else {
            drop(state);
            tracing::warn!("cannot add an event listener: {Stopped}");
            return Subscription { shared: Weak::new(), id: 0 };
        };
        let (task, hold) = (task(inbox), self.shared.tasks.hold());
        state.parked.push(Box::pin(async move {
            let _hold = hold;
            task.await;
        }));
        drop(state);
        self.shared.start();
        Subscription { shared: Arc::downgrade(&self.shared), id }
    }
}

/// The default queue size of a listener.
const QUEUE: usize = 1000;

impl BroadcasterShared {
    pub(crate) fn record(self: &Arc<Self>, event: Event, reporter: &Arc<Reporter>) {
        let controller = &reporter.controller;
        metrics::recorded(controller, event.event_type.as_str());
        self.start();
        let at = (self.clock)();
        let nanoseconds = self.state().next_nanosecond(at);
        let name = |object: &str| event_name(object, nanoseconds, fastrand::u128(..));
        let Ok(occurrence) = Occurrence::new(event, reporter, at, self.start.elapsed(), name) else {
            metrics::dropped(controller, Dropped::Invalid);
            if let Some(events) = self.invalid.dropped(1, Instant::now()) {
                tracing::warn!(
                    controller,
                    events,
                    "events are about objects whose kind is not known, and not recorded"
                );
            }
            return;
        };
        let Ok(dropped) = self.state().send(&Arc::new(occurrence), &self.events) else {
            metrics::dropped(controller, Dropped::Stopped);
            tracing::debug!(controller, "event not recorded: {Stopped}");
            return;
        };
        for _ in 0..dropped {
            metrics::dropped(controller, Dropped::Full);
        }
        if dropped > 0
            && let Some(events) = self.drops.dropped(dropped, Instant::now())
        {
            tracing::warn!(controller, events, "events dropped; they are recorded faster than they are written");
        }
    }

    /// Spawns parked tasks if there is a runtime.
    pub(crate) fn start(&self) {
        let mut state = self.state();
        if state.parked.is_empty() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        state.running.retain(|task| !task.is_finished());
        for task in std::mem::take(&mut state.parked) {
            let running = runtime.spawn(scheduled(task)).abort_handle();
            state.running.push(running);
        }
    }

    /// Stops all listeners.
    pub(crate) fn stop(&self) {
        self.start();
        let mut state = self.state();
        state.is_stopped = true;
        state.outlets.clear();
    }

    /// Aborts all tasks.
    pub(crate) fn abort(&self) {
        let (parked, running) = {
            let mut state = self.state();
            (std::mem::take(&mut state.parked), std::mem::take(&mut state.running))
        };
        // Their captures may run any code when dropped, so they are dropped after the lock was released.
        drop(parked);
        for task in running {
            task.abort();
        }
    }

    fn state(&self) -> MutexGuard<'_, BroadcasterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BroadcasterState {
    /// Returns a time that no other event has.
    fn next_nanosecond(&mut self, at: Timestamp) -> i128 {
        self.last = at.as_nanosecond().max(self.last.saturating_add(1));
        self.last
    }

    /// Sends the event to all listeners. Returns how many queues were full.
    fn send(&mut self, occurrence: &Arc<Occurrence>, tracker: &Arc<Tracker>) -> Result<usize, Stopped> {
        if self.is_stopped {
            return Err(Stopped);
        }
        let mut dropped = 0;
        self.outlets.retain(|outlet| {
            let Some(events) = &outlet.events else { return true };
            let hold = outlet.is_awaited.then(|| tracker.hold());
            match events.try_send(Queued { occurrence: Arc::clone(occurrence), hold }) {
                Ok(()) => true,
                Err(TrySendError::Full(_)) => {
                    dropped += 1;
                    true
                }
                Err(TrySendError::Closed(_)) => {
                    tracing::warn!("event listener ended; removing it");
                    false
                }
            }
        });
        Ok(dropped)
    }

    /// Adds a listener. Without a queue it only waits for the shutdown.
    fn add(&mut self, queue: usize, is_awaited: bool) -> Option<(Inbox, u64)> {
        if self.is_stopped {
            return None;
        }
        let (sender, events) = mpsc::channel(queue.clamp(1, Semaphore::MAX_PERMITS));
        let (alive_sender, alive) = watch::channel(());
        let id = self.next_id;
        self.next_id += 1;
        let sender = (queue > 0).then_some(sender);
        self.outlets.push(Outlet { id, events: sender, is_awaited, _alive: alive_sender });
        Some((Inbox { events, alive }, id))
    }
}

/// A listener of a broadcaster. Dropping this has no effect; [`stop`](Self::stop) ends the listener.
#[derive(Clone)]
pub struct Subscription {
    shared: Weak<BroadcasterShared>,
    id: u64,
}

impl Subscription {
    /// Stops sending events to the listener. Events it has received are finished as by [`EventBroadcaster::shutdown`].
    /// Other listeners are not affected. Idempotent.
    pub fn stop(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.state().outlets.retain(|outlet| outlet.id != self.id);
        }
    }

    /// Returns whether the listener receives events that are recorded now.
    pub fn is_listening(&self) -> bool {
        self.shared.upgrade().is_some_and(|shared| {
            shared
                .state()
                .outlets
                .iter()
                .any(|outlet| outlet.id == self.id && outlet.events.as_ref().is_none_or(|events| !events.is_closed()))
        })
    }
}

/// A stream of the events of a broadcaster. See [`EventBroadcaster::watch`]. Dropping it stops it.
pub struct EventWatch {
    events: mpsc::Receiver<Queued>,
    subscription: Subscription,
}

impl EventWatch {
    /// Returns the next event. `None` if there will be no more. Cancel safe.
    pub async fn next(&mut self) -> Option<Arc<Occurrence>> {
        self.events.recv().await.map(|queued| queued.occurrence)
    }

    /// Returns the next event if one is queued.
    pub fn try_next(&mut self) -> Option<Arc<Occurrence>> {
        self.events.try_recv().ok().map(|queued| queued.occurrence)
    }

    /// Stops receiving events. Queued ones can still be taken. Other listeners are not affected. Idempotent.
    pub fn stop(&self) {
        self.subscription.stop();
    }
}

impl Drop for EventWatch {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Default for EventBroadcaster {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for EventBroadcaster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state();
        f.debug_struct("EventBroadcaster")
            .field("listeners", &state.outlets.len())
            .field("is_stopped", &state.is_stopped)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("is_listening", &self.is_listening()).finish_non_exhaustive()
    }
}

impl fmt::Debug for EventWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventWatch").field("waiting", &self.events.len()).finish_non_exhaustive()
    }
}
