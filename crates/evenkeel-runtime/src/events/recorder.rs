//! [`EventRecorder`]: records events about objects.

use std::fmt;
use std::sync::Arc;

use evenkeel_client::{Client, ToReference};
use k8s_openapi::jiff::Timestamp;

use super::broadcaster::{EventBroadcaster, EventsApi};
use super::finish::{Flush, Shutdown};
use super::options::SinkOptions;
use super::{Event, EventType, Reporter};
use crate::environment::hostname;

/// Records events about the objects that a controller acts on.
///
/// ```no_run
/// # async fn example(client: evenkeel_client::Client, job: evenkeel_core::Obj<k8s_openapi::api::batch::v1::Job>) {
/// use std::time::Duration;
/// use evenkeel_runtime::{EventRecorder, EventType};
///
/// let recorder = EventRecorder::new(&client, "example.com/job-controller");
/// recorder.event(&job, EventType::Warning, "FailedCreate", "there is no room for another pod");
/// // ... and when the program ends:
/// let _ = recorder.shutdown().within(Duration::from_secs(5)).await;
/// # }
/// ```
///
/// # Guarantees
/// - Recording never waits and never fails, and works on any thread. Events that cannot be recorded are logged and
///   counted.
/// - Equal events are counted instead of written again; the number of writes per object is limited. See
///   [`SinkOptions`].
/// - Writes of one event are ordered. Different events do not wait for each other.
/// - Transient failures of the server are retried; events that the server rejects are dropped.
/// - The queue, the correlation state and the writes in flight are bounded.
///
/// # Not guaranteed
/// Events are notifications, not an audit log. They are lost if there are too many, if the server is unavailable for
/// longer than the attempts last, and if the program exits before they are written.
///
/// Handles are cheap to clone. When the last one is dropped, pending events get one more attempt each and the tasks
/// end. [`shutdown`](Self::shutdown) does the same and can be awaited.
#[derive(Clone)]
pub struct EventRecorder {
    broadcaster: EventBroadcaster,
    reporter: Arc<Reporter>,
}

impl EventRecorder {
    /// Returns a recorder for the controller of this name that writes with this client. `events.k8s.io` requires a
    /// qualified name: `job-controller`, or `example.com/job-controller`.
    pub fn new(client: &Client, controller: impl Into<String>) -> Self {
        EventRecorder::builder(client, controller).build()
    }

    /// Returns a builder for a recorder with other settings than those of [`new`](Self::new).
    pub fn builder(client: &Client, controller: impl Into<String>) -> RecorderBuilder {
        RecorderBuilder::new(Some(client.clone()), None, controller.into())
    }

    /// Records an event about an object: an `Obj`, or any reference to one.
    ///
    /// `reason` is a CamelCase word for programs, `note` a sentence for people. [`record`](Self::record) takes more
    /// fields.
    pub fn event(
        &self,
        regarding: &(impl ToReference + ?Sized),
        event_type: EventType,
        reason: impl Into<String>,
        note: impl Into<String>,
    ) {
        self.record(Event::new(event_type, reason).note(note).regarding(regarding));
    }

    /// Records an event.
    pub fn record(&self, event: Event) {
        self.broadcaster.shared.record(event, &self.reporter);
    }

    /// Waits until the events recorded before this call have been written, filtered or given up.
    ///
    /// ```no_run
    /// # async fn example(recorder: evenkeel_runtime::EventRecorder) {
    /// # use std::time::Duration;
    /// if let Err(unfinished) = recorder.flush().within(Duration::from_secs(2)).await {
    ///     eprintln!("{unfinished}");
    /// }
    /// # }
    /// ```
    ///
    /// Series counts that are not due yet are not awaited; [`shutdown`](Self::shutdown) writes them.
    pub fn flush(&self) -> Flush {
        self.broadcaster.flush()
    }

    /// Shuts down the recorder and all others of its [broadcaster](EventBroadcaster): see
    /// [`EventBroadcaster::shutdown`].
    pub fn shutdown(&self) -> Shutdown {
        self.broadcaster.shared.stop();
        Shutdown::new(&self.broadcaster.shared, &self.reporter.controller)
    }

    /// Returns the broadcaster of this recorder.
    pub fn broadcaster(&self) -> &EventBroadcaster {
        &self.broadcaster
    }
}

impl fmt::Debug for EventRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventRecorder")
            .field("reporter", &self.reporter)
            .field("broadcaster", &self.broadcaster)
            .finish_non_exhaustive()
    }
}

/// Builds an [`EventRecorder`].
#[must_use = "nothing is made until `build` is called"]
pub struct RecorderBuilder {
    client: Option<Client>,
    broadcaster: Option<EventBroadcaster>,
    controller: String,
    instance: Option<String>,
    host: Option<String>,
    api: EventsApi,
    options: SinkOptions,
    is_logging: bool,
}

impl RecorderBuilder {
    fn new(client: Option<Client>, broadcaster: Option<EventBroadcaster>, controller: String) -> Self {
        RecorderBuilder {
            client,
            broadcaster,
            controller,
            instance: None,
            host: None,
            api: EventsApi::Discover,
            options: SinkOptions::new(),
            is_logging: false,
        }
    }

    pub(crate) fn attached(broadcaster: &EventBroadcaster, controller: String) -> Self {
        RecorderBuilder::new(None, Some(broadcaster.clone()), controller)
    }

    /// Sets the reporting instance. Default: the controller's name and the host name.
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = Some(instance.into());
        self
    }

    /// Sets the source host of `v1` events. Default: none.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Sets the API that events are written to. Ignored for a recorder of a broadcaster, which has its own sinks.
    pub fn api(mut self, api: EventsApi) -> Self {
        self.api = api;
        self
    }

    /// Sets how events are counted, aggregated, filtered and delivered. Ignored for a recorder of a broadcaster.
    pub fn options(mut self, options: SinkOptions) -> Self {
        self.options = options;
        self
    }

    /// Also logs every event, as [`EventBroadcaster::start_logging`] does.
    pub fn log(mut self) -> Self {
        self.is_logging = true;
        self
    }

    /// Replaces the system clock. Ignored for a recorder of a broadcaster, which has its own.
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.broadcaster.get_or_insert_with(|| EventBroadcaster::with_clock(clock));
        self
    }

    /// Builds the recorder.
    pub fn build(self) -> EventRecorder {
        let broadcaster = self.broadcaster.unwrap_or_default();
        if let Some(client) = &self.client {
            let _ = broadcaster.record_to(client, self.api, self.options);
        }
        if self.is_logging {
            let _ = broadcaster.start_logging();
        }
        let instance = self.instance.unwrap_or_else(|| format!("{}-{}", self.controller, hostname()));
        let reporter = Reporter { controller: self.controller, instance, host: self.host };
        EventRecorder { broadcaster, reporter: Arc::new(reporter) }
    }
}

impl fmt::Debug for RecorderBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecorderBuilder")
            .field("controller", &self.controller)
            .field("instance", &self.instance)
            .field("host", &self.host)
            .field("api", &self.api)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
