//! [`EventRecorder`]: the handle by which a controller tells people what it does.

use std::fmt;
use std::sync::Arc;

use evenkeel_client::{Client, ToReference};
use k8s_openapi::jiff::Timestamp;

use super::broadcaster::{EventBroadcaster, EventsApi};
use super::finish::{Flush, Shutdown};
use super::options::SinkOptions;
use super::{Event, EventType, Reporter};
use crate::environment::hostname;

/// Tells people what a controller does, by events about the objects that it does it to.
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
/// # What holds
/// - Recording never waits, never fails, and can be done from anywhere: what cannot be recorded is logged and counted.
/// - Events that are equal are counted and not written again and again; how many are written about one object is
///   limited. See [`SinkOptions`].
/// - Events about one thing are written one after the other. Others do not wait for them.
/// - What the server cannot take now is tried again; what it does not accept is dropped.
/// - Nothing grows without a bound: neither the queue, nor what is remembered, nor what is being written.
///
/// # What does not
/// Events are news, and no record of what happened. They are lost if there are too many, if the server is away for
/// longer than the attempts last, and if the program ends before they are written.
///
/// Handles are cheap to clone. When the last one is gone, what was recorded is brought to its end (each event has one more
/// attempt), and then nothing runs any more. [`shutdown`](Self::shutdown) does the same and can be waited for.
#[derive(Clone)]
pub struct EventRecorder {
    broadcaster: EventBroadcaster,
    reporter: Arc<Reporter>,
}

impl EventRecorder {
    /// A recorder for the controller of this name, which writes with this client. `events.k8s.io` wants a name as labels have
    /// them: `job-controller`, or `example.com/job-controller`.
    pub fn new(client: &Client, controller: impl Into<String>) -> Self {
        EventRecorder::builder(client, controller).build()
    }

    /// A recorder with other settings than those of [`new`](Self::new).
    pub fn builder(client: &Client, controller: impl Into<String>) -> RecorderBuilder {
        RecorderBuilder::new(Some(client.clone()), None, controller.into())
    }

    /// Says what happened to an object: an `Obj`, or any reference to one.
    ///
    /// `reason` is a word in CamelCase for machines, `note` a sentence for people. For more than that there is
    /// [`record`](Self::record).
    pub fn event(
        &self,
        regarding: &(impl ToReference + ?Sized),
        event_type: EventType,
        reason: impl Into<String>,
        note: impl Into<String>,
    ) {
        self.record(Event::new(event_type, reason).note(note).regarding(regarding));
    }

    /// Says what happened.
    pub fn record(&self, event: Event) {
        self.broadcaster.shared.record(event, &self.reporter);
    }

    /// Waits until what was recorded before this call has been written, held back, or given up.
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
    /// Counts of a series that have yet to be written are not waited for; [`shutdown`](Self::shutdown) writes them.
    pub fn flush(&self) -> Flush {
        self.broadcaster.flush()
    }

    /// Ends the recorder, and all others of its [broadcaster](EventBroadcaster): see [`EventBroadcaster::shutdown`].
    pub fn shutdown(&self) -> Shutdown {
        self.broadcaster.shared.stop();
        Shutdown::new(&self.broadcaster.shared, &self.reporter.controller)
    }

    /// What brings the events to where they are written.
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

/// Makes an [`EventRecorder`].
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

    /// Which instance of the controller this is, in place of its name and that of the machine.
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = Some(instance.into());
        self
    }

    /// The node that events of `v1` are said to come from: none, unless told so.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Which API events are written to. A recorder of a broadcaster writes to whatever that has.
    pub fn api(mut self, api: EventsApi) -> Self {
        self.api = api;
        self
    }

    /// How events are counted, put together, held back and delivered. A recorder of a broadcaster leaves that to its sinks.
    pub fn options(mut self, options: SinkOptions) -> Self {
        self.options = options;
        self
    }

    /// Also logs every event, as [`EventBroadcaster::start_logging`] does.
    pub fn log(mut self) -> Self {
        self.is_logging = true;
        self
    }

    /// Tells the time in place of the machine's clock. A recorder of a broadcaster has the clock of that.
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.broadcaster.get_or_insert_with(|| EventBroadcaster::with_clock(clock));
        self
    }

    /// The recorder.
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
