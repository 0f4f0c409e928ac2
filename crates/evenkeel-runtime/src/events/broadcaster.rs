//! [`EventBroadcaster`]: from recorders to sinks, loggers and watchers.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use evenkeel_client::Client;
use k8s_openapi::api::{core, events};
use k8s_openapi::jiff::Timestamp;
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::correlator::Correlator;
use super::driver::{Clock, Inbox, Queued, drive, has_new_api};
use super::drops::DropLog;
use super::finish::{Flush, Shutdown};
use super::metrics::{self, Dropped};
use super::names::event_name;
use super::options::SinkOptions;
use super::recorder::RecorderBuilder;
use super::series::Series;
use super::sink::EventSink;
use super::tracker::Tracker;
use super::{Event, Occurrence, Reporter};

/// Brings what recorders record to sinks, which write it, and to whoever else listens.
///
/// [`EventRecorder::new`](super::EventRecorder::new) makes one with a single sink, which is all that most programs need. Make one yourself for several
/// sinks or several recorders:
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
/// # What holds
/// - Every listener has a queue of its own, and is told of everything that is recorded from then on, in that order. One that
///   is behind misses what finds no room in its queue; nobody else does.
/// - Recording never waits.
/// - Nothing runs after the last handle (broadcaster or recorder) is gone, but to bring what was recorded to its end: each event
///   is tried once more, and not waited for.
///
/// It may be made outside of a runtime. What runs for it begins to run with the first call that is made inside of one; until then,
/// events wait in the queues.
#[derive(Clone)]
pub struct EventBroadcaster {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    state: Mutex<State>,
    /// Events that sinks and listeners have not brought to their end.
    pub(crate) events: Arc<Tracker>,
    /// Tasks that run.
    pub(crate) tasks: Arc<Tracker>,
    clock: Clock,
    drops: DropLog,
    invalid: DropLog,
}

struct State {
    is_stopped: bool,
    outlets: Vec<Outlet>,
    next_id: u64,
    /// Tasks that wait for a runtime to run on.
    parked: Vec<Task>,
    running: Vec<AbortHandle>,
    /// The nanosecond of the last event: no two events have the same, because it is part of their names.
    last: i128,
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One that listens.
struct Outlet {
    id: u64,
    /// None if it wants to know only when to end.
    events: Option<mpsc::Sender<Queued>>,
    /// Those that are told by a task of ours: to flush is to wait for them.
    is_awaited: bool,
    /// Tells the task to come to an end, by being dropped.
    _alive: watch::Sender<()>,
}

/// Which API events are written to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventsApi {
    /// `events.k8s.io/v1` if the server has it, else `v1`. The server is asked once, before the first event is written.
    #[default]
    Discover,
    /// `v1`: equal events are counted, and similar ones put together.
    Core,
    /// `events.k8s.io/v1`: events that differ in nothing but their notes are a series.
    Events,
}

/// The broadcaster was shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("broadcaster already stopped")]
#[non_exhaustive]
pub struct Stopped;

impl EventBroadcaster {
    /// A broadcaster to which nobody listens yet.
    pub fn new() -> Self {
        EventBroadcaster::with_clock(now)
    }

    /// One with another clock than the machine's. For tests and simulations in a time of their own.
    pub fn with_clock(clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let state = State {
            is_stopped: false,
            outlets: Vec::new(),
            next_id: 0,
            parked: Vec::new(),
            running: Vec::new(),
            last: i128::MIN,
        };
        let shared = Shared {
            state: Mutex::new(state),
            events: Arc::default(),
            tasks: Arc::default(),
            clock: Arc::new(clock),
            drops: DropLog::default(),
            invalid: DropLog::default(),
        };
        EventBroadcaster { shared: Arc::new(shared) }
    }

    /// A recorder for the controller of this name.
    pub fn recorder(&self, controller: impl Into<String>) -> RecorderBuilder {
        RecorderBuilder::attached(self, controller.into())
    }

    /// Writes events to a server. Each call adds a sink that counts for itself.
    pub fn record_to(&self, client: &Client, api: EventsApi, options: SinkOptions) -> Subscription {
        let (client, clock) = (client.clone(), Arc::clone(&self.shared.clock));
        self.listen(options.queue, true, move |inbox| async move {
            let is_new = match api {
                EventsApi::Core => false,
                EventsApi::Events => true,
                EventsApi::Discover => has_new_api(&client, &inbox.alive, &options).await,
            };
            if is_new {
                drive(inbox, Series::new(&options), Arc::new(client), options, clock).await;
            } else {
                drive(inbox, Correlator::new(&options), Arc::new(client), options, clock).await;
            }
        })
    }

    /// Writes events of `v1` to a sink of one's own.
    pub fn record_to_core(&self, sink: impl EventSink<core::v1::Event>, options: SinkOptions) -> Subscription {
        let clock = Arc::clone(&self.shared.clock);
        self.listen(options.queue, true, move |inbox| {
            drive(inbox, Correlator::new(&options), Arc::new(sink), options, clock)
        })
    }

    /// Writes events of `events.k8s.io/v1` to a sink of one's own.
    pub fn record_to_events(&self, sink: impl EventSink<events::v1::Event>, options: SinkOptions) -> Subscription {
        let clock = Arc::clone(&self.shared.clock);
        self.listen(options.queue, true, move |inbox| {
            drive(inbox, Series::new(&options), Arc::new(sink), options, clock)
        })
    }

    /// Logs every event, at the level of information, with its fields.
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

    /// Calls a function for every event, in a task of its own. The function should not block: it holds up nobody else, but a
    /// thread of the runtime.
    ///
    /// If it panics, it is not called again.
    pub fn for_each(&self, mut handle: impl FnMut(&Occurrence) + Send + 'static) -> Subscription {
        self.listen(QUEUE, true, move |mut inbox| async move {
            while let Some(queued) = inbox.events.recv().await {
                handle(&queued.occurrence);
            }
        })
    }

    /// The events from now on, as a stream that ends when the broadcaster is shut down and all of them have been taken.
    ///
    /// [`flush`](Self::flush) does not wait for it.
    pub fn watch(&self) -> Result<EventWatch, Stopped> {
        self.watch_some(QUEUE)
    }

    pub(crate) fn watch_some(&self, queue: usize) -> Result<EventWatch, Stopped> {
        let (inbox, id) = self.shared.state().add(queue, false).ok_or(Stopped)?;
        Ok(EventWatch { events: inbox.events, subscription: Subscription { shared: Arc::downgrade(&self.shared), id } })
    }

    /// Waits until what was recorded before this call has been written, held back, or given up.
    pub fn flush(&self) -> Flush {
        self.shared.start();
        Flush::new(&self.shared)
    }

    /// Ends it: from now on nothing is recorded, and nobody can listen. What is queued is delivered; each event that has not
    /// been written is tried once more, and not waited for. All of this has begun when the call returns; await what it returns
    /// to know when it is done. If the server does not answer, that takes up to 30 seconds for every eight events, unless there is a
    /// [deadline](Shutdown::within).
    pub fn shutdown(&self) -> Shutdown {
        self.shared.stop();
        Shutdown::new(&self.shared, "")
    }

    /// Does what [`shutdown`](Self::shutdown) does when `signal` completes. Needs a runtime to wait on; the waiting keeps no handle
    /// of the broadcaster, and ends with it.
    pub fn shutdown_when(&self, signal: impl Future<Output = ()> + Send + 'static) -> Subscription {
        let shared = Arc::downgrade(&self.shared);
        self.listen(0, false, move |mut inbox| async move {
            tokio::select! {
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
            tracing::warn!("nobody can listen to events any more: {Stopped}");
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

/// How many events may wait for one that listens, unless it says otherwise.
const QUEUE: usize = 1000;

impl Shared {
    pub(crate) fn record(self: &Arc<Self>, event: Event, reporter: &Arc<Reporter>) {
        let controller = &reporter.controller;
        metrics::recorded(controller, event.event_type.as_str());
        self.start();
        let at = (self.clock)();
        let nanoseconds = self.state().next_nanosecond(at);
        let name = |object: &str| event_name(object, nanoseconds, fastrand::u128(..));
        let Ok(occurrence) = Occurrence::new(event, reporter, at, name) else {
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
            tracing::debug!(controller, "an event is not recorded: {Stopped}");
            return;
        };
        for _ in 0..dropped {
            metrics::dropped(controller, Dropped::Full);
        }
        if dropped > 0
            && let Some(events) = self.drops.dropped(dropped, Instant::now())
        {
            tracing::warn!(controller, events, "events are dropped, because they come faster than they are written");
        }
    }

    /// Runs what waits for a runtime, if there is one.
    pub(crate) fn start(&self) {
        let mut state = self.state();
        if state.parked.is_empty() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        state.running.retain(|task| !task.is_finished());
        for task in std::mem::take(&mut state.parked) {
            let running = runtime.spawn(task).abort_handle();
            state.running.push(running);
        }
    }

    /// Tells everybody to come to an end.
    pub(crate) fn stop(&self) {
        self.start();
        let mut state = self.state();
        state.is_stopped = true;
        state.outlets.clear();
    }

    /// Ends all tasks, wherever they are.
    pub(crate) fn abort(&self) {
        let (parked, running) = {
            let mut state = self.state();
            (std::mem::take(&mut state.parked), std::mem::take(&mut state.running))
        };
        // What they hold may be anything, so they are dropped when the lock is gone.
        drop(parked);
        for task in running {
            task.abort();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// One that no other event has had.
    fn next_nanosecond(&mut self, at: Timestamp) -> i128 {
        self.last = at.as_nanosecond().max(self.last.saturating_add(1));
        self.last
    }

    /// Tells everybody. Answers with how many had no room for it.
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
                    tracing::warn!("one that listened to events has ended; it hears of no more");
                    false
                }
            }
        });
        Ok(dropped)
    }

    /// Adds one that listens; to nothing but the end if it has no queue.
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

/// One that listens to a broadcaster. Dropping this leaves it alone; [`stop`](Self::stop) ends it.
#[derive(Clone)]
pub struct Subscription {
    shared: Weak<Shared>,
    id: u64,
}

impl Subscription {
    /// Tells it of no more events. What it was told of is brought to its end as by [`EventBroadcaster::shutdown`]. Others go on.
    /// To stop twice is as good as once.
    pub fn stop(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.state().outlets.retain(|outlet| outlet.id != self.id);
        }
    }

    /// Whether it is told of events that are recorded now.
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

/// The events of a broadcaster, as they come. See [`EventBroadcaster::watch`]. Stops when it is dropped.
pub struct EventWatch {
    events: mpsc::Receiver<Queued>,
    subscription: Subscription,
}

impl EventWatch {
    /// The next event. None if there will be no more. A wait that is given up loses none.
    pub async fn next(&mut self) -> Option<Arc<Occurrence>> {
        self.events.recv().await.map(|queued| queued.occurrence)
    }

    /// The next event, if there is one already.
    pub fn try_next(&mut self) -> Option<Arc<Occurrence>> {
        self.events.try_recv().ok().map(|queued| queued.occurrence)
    }

    /// Hears of no more events. Those that are waiting can still be taken. Others go on; to stop twice is as good as once.
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

#[expect(clippy::disallowed_methods, reason = "the machine's clock is what events are dated by")]
fn now() -> Timestamp {
    Timestamp::now()
}
