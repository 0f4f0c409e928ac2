//! A recorder for tests: records to memory, without a server.
//!
//! ```
//! use evenkeel_runtime::EventType;
//! use evenkeel_runtime::events::fake;
//! # fn reconcile(recorder: &evenkeel_runtime::EventRecorder) {
//! #     let pod = k8s_openapi::api::core::v1::ObjectReference { kind: Some("Pod".into()), ..Default::default() };
//! #     recorder.event(&pod, EventType::Normal, "Created", "made a pod");
//! # }
//!
//! let (recorder, mut events) = fake::recorder(10);
//! reconcile(&recorder);
//! assert_eq!(events.lines(), ["Normal Created made a pod"]);
//! ```

use std::fmt::Write as _;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;

use super::broadcaster::{EventBroadcaster, EventWatch};
use super::{EventRecorder, Occurrence};

/// Returns a recorder that records to memory, and its events: up to `room`. Further ones are dropped; recording never
/// waits.
///
/// With a room of zero, every event is discarded.
pub fn recorder(room: usize) -> (EventRecorder, FakeEvents) {
    let broadcaster = EventBroadcaster::new();
    // A new broadcaster is not stopped.
    let events = broadcaster.watch_some(room).ok();
    (broadcaster.recorder("fake").build(), FakeEvents { events, shows_objects: false, is_verbose: false })
}

/// The events of a fake recorder.
#[derive(Debug)]
pub struct FakeEvents {
    events: Option<EventWatch>,
    shows_objects: bool,
    is_verbose: bool,
}

impl FakeEvents {
    /// Adds the kind of the object to each line.
    #[must_use]
    pub fn show_objects(mut self) -> Self {
        self.shows_objects = true;
        self
    }

    /// Adds the action and the kinds of both objects to each line.
    #[must_use]
    pub fn verbose(mut self) -> Self {
        self.is_verbose = true;
        self
    }

    /// Returns the events that were not taken yet.
    pub fn take(&mut self) -> Vec<Arc<Occurrence>> {
        std::iter::from_fn(|| self.events.as_mut()?.try_next()).collect()
    }

    /// Returns the events that were not taken yet, one line each: `TYPE REASON note`, and annotations as
    /// `map[name:value]` if there are any.
    pub fn lines(&mut self) -> Vec<String> {
        self.take().iter().map(|event| self.line(event)).collect()
    }

    fn line(&self, event: &Occurrence) -> String {
        let mut line = format!("{} {} {}", event.event_type, event.reason, event.note);
        if self.is_verbose {
            let _ = write!(line, " action={}", event.action.as_deref().unwrap_or_default());
            let _ = write!(line, " regarding{}", KindName(&event.regarding));
            if let Some(related) = &event.related {
                let _ = write!(line, " related{}", KindName(related));
            }
        }
        if self.shows_objects {
            let _ = write!(line, " involvedObject{}", KindName(&event.regarding));
        }
        if !event.annotations.is_empty() {
            let pairs: Vec<String> = event.annotations.iter().map(|(name, value)| format!("{name}:{value}")).collect();
            let _ = write!(line, " map[{}]", pairs.join(" "));
        }
        line
    }
}

struct KindName<'a>(&'a ObjectReference);

impl std::fmt::Display for KindName<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [kind, version] = [&self.0.kind, &self.0.api_version].map(|text| text.as_deref().unwrap_or_default());
        write!(f, "{{kind={kind},apiVersion={version}}}")
    }
}
