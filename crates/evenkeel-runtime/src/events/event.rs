//! [`Event`]: an event to record, and [`Occurrence`], a recorded one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_client::ToReference;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// Something went as it should.
    Normal,
    /// Something went wrong and may need attention.
    Warning,
}

impl EventType {
    /// Returns `Normal` or `Warning`, as the API spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An event to record. Created with [`Event::normal`] or [`Event::warning`] and passed to
/// [`EventRecorder::record`](super::EventRecorder::record).
///
/// ```
/// # fn example(recorder: &evenkeel_runtime::EventRecorder, job: &evenkeel_core::Obj<k8s_openapi::api::batch::v1::Job>,
/// #     pod: &evenkeel_core::Obj<k8s_openapi::api::core::v1::Pod>) {
/// use evenkeel_runtime::events::Event;
///
/// recorder.record(
///     Event::warning("BackOff").action("Restarting").note("the third pod has failed").regarding(job).related(pod),
/// );
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "an event has no effect until a recorder records it"]
pub struct Event {
    pub(crate) event_type: EventType,
    pub(crate) reason: String,
    pub(crate) action: Option<String>,
    pub(crate) note: String,
    pub(crate) regarding: ObjectReference,
    pub(crate) related: Option<ObjectReference>,
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Event {
    /// Returns a normal event with this reason: a CamelCase word for programs, such as `Created`.
    pub fn normal(reason: impl Into<String>) -> Self {
        Event::new(EventType::Normal, reason)
    }

    /// Returns a warning with this reason: a CamelCase word for programs, such as `FailedCreate`.
    pub fn warning(reason: impl Into<String>) -> Self {
        Event::new(EventType::Warning, reason)
    }

    /// Returns an event of this type with this reason.
    pub fn new(event_type: EventType, reason: impl Into<String>) -> Self {
        Event {
            event_type,
            reason: reason.into(),
            action: None,
            note: String::new(),
            regarding: ObjectReference::default(),
            related: None,
            annotations: BTreeMap::new(),
        }
    }

    /// Sets the object that the event is about. An event without one is not recorded.
    pub fn regarding(mut self, object: &(impl ToReference + ?Sized)) -> Self {
        self.regarding = object.to_reference();
        self
    }

    /// Sets a second object that is involved, such as the pod that a job created. One without a known kind is left
    /// out.
    pub fn related(mut self, object: &(impl ToReference + ?Sized)) -> Self {
        self.related = Some(object.to_reference());
        self
    }

    /// Sets the action that was taken, a CamelCase word. `events.k8s.io` requires one; the default is the reason.
    pub fn action(mut self, action: impl Into<String>) -> Self {
        self.action = Some(action.into());
        self
    }

    /// Sets the human-readable note. `events.k8s.io` limits it to 1024 bytes.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Adds an annotation to the event.
    pub fn annotation(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(name.into(), value.into());
        self
    }
}

/// The reporter of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Reporter {
    /// The name of the controller, such as `deployment-controller` or `example.com/backup`.
    pub controller: String,
    /// The instance of the controller. Default: the controller's name and the host name.
    pub instance: String,
    /// The source host of `v1` events, if any.
    pub host: Option<String>,
}

/// A recorded event: the input of sinks, watchers and the functions of [`SinkOptions`](super::SinkOptions).
///
/// [`Display`](fmt::Display) formats it as client-go's logging does.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Occurrence {
    /// When it was recorded, by the time of day. It dates the event; nothing is measured with it.
    pub at: Timestamp,
    /// When it was recorded, as the time since some moment. It never goes back.
    pub(crate) since_start: Duration,
    /// The type of the event.
    pub event_type: EventType,
    /// The reason, a CamelCase word.
    pub reason: String,
    /// The action that was taken, if the event names one.
    pub action: Option<String>,
    /// The human-readable note.
    pub note: String,
    /// The object that the event is about.
    pub regarding: ObjectReference,
    /// A second object that is involved.
    pub related: Option<ObjectReference>,
    /// The annotations of the event.
    pub annotations: BTreeMap<String, String>,
    /// The reporter.
    pub reporter: Arc<Reporter>,
    /// The name of the Event object that it becomes, if any.
    pub(crate) name: String,
}

/// The kind of the object is unknown, so the event cannot refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnknownKind;

impl Occurrence {
    /// Calls `name` with the object's name to name the event.
    pub(crate) fn new(
        event: Event,
        reporter: &Arc<Reporter>,
        at: Timestamp,
        since_start: Duration,
        name: impl FnOnce(&str) -> String,
    ) -> Result<Self, UnknownKind> {
        if !is_known(&event.regarding) {
            return Err(UnknownKind);
        }
        Ok(Occurrence {
            at,
            since_start,
            name: name(event.regarding.name.as_deref().unwrap_or_default()),
            event_type: event.event_type,
            reason: event.reason,
            action: event.action.filter(|action| !action.is_empty()),
            note: event.note,
            related: event.related.filter(is_known),
            regarding: event.regarding,
            annotations: event.annotations,
            reporter: Arc::clone(reporter),
        })
    }

    /// Returns the namespace of the event: the object's, or `default` for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        self.regarding.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
    }

    /// Returns the action, or the reason if there is none.
    pub(crate) fn action(&self) -> &str {
        self.action.as_deref().unwrap_or(&self.reason)
    }
}

fn is_known(reference: &ObjectReference) -> bool {
    reference.kind.as_deref().is_some_and(|kind| !kind.is_empty())
}

impl fmt::Display for Occurrence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = Reference(&self.regarding);
        let (event_type, reason, note) = (self.event_type, &self.reason, &self.note);
        write!(f, "Event({object}): type: '{event_type}' reason: '{reason}' {note}")
    }
}

/// Formats a reference as Go does.
struct Reference<'a>(&'a ObjectReference);

impl fmt::Display for Reference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectReference { kind, namespace, name, uid, api_version, resource_version, field_path } = self.0;
        let fields = [
            ("Kind", kind),
            ("Namespace", namespace),
            ("Name", name),
            ("UID", uid),
            ("APIVersion", api_version),
            ("ResourceVersion", resource_version),
            ("FieldPath", field_path),
        ];
        f.write_str("v1.ObjectReference{")?;
        for (number, (field, value)) in fields.into_iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            write!(f, "{comma}{field}:{:?}", value.as_deref().unwrap_or_default())?;
        }
        f.write_str("}")
    }
}
