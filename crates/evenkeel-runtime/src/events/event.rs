//! [`Event`]: what a program says about an object, and [`Occurrence`], what becomes of it when it is said.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use evenkeel_client::ToReference;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;

/// Whether an event is good news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// Something went as it should.
    Normal,
    /// Something did not, and somebody should look.
    Warning,
}

impl EventType {
    /// `Normal` or `Warning`, as the API has it.
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

/// What to say about an object. Made with [`Event::normal`] or [`Event::warning`], and given to
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
#[must_use = "an event is told to nobody until a recorder records it"]
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
    /// Something went as it should, for this reason: a word in CamelCase that machines can understand, such as `Created`.
    pub fn normal(reason: impl Into<String>) -> Self {
        Event::new(EventType::Normal, reason)
    }

    /// Something did not go as it should, for this reason: a word in CamelCase that machines can understand, such as
    /// `FailedCreate`.
    pub fn warning(reason: impl Into<String>) -> Self {
        Event::new(EventType::Warning, reason)
    }

    /// An event of this type, for this reason.
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

    /// The object that it is about. An event that is about nothing is not recorded.
    pub fn regarding(mut self, object: &(impl ToReference + ?Sized)) -> Self {
        self.regarding = object.to_reference();
        self
    }

    /// Another object that has to do with it: the pod that a job has created. One that cannot be named is left out.
    pub fn related(mut self, object: &(impl ToReference + ?Sized)) -> Self {
        self.related = Some(object.to_reference());
        self
    }

    /// What was done, or was to be done, in a word in CamelCase. `events.k8s.io` wants one; without it, the reason stands in.
    pub fn action(mut self, action: impl Into<String>) -> Self {
        self.action = Some(action.into());
        self
    }

    /// The story, for people. `events.k8s.io` takes no more than 1024 bytes of it.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// An annotation for the event.
    pub fn annotation(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(name.into(), value.into());
        self
    }
}

/// Who reports.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Reporter {
    /// The name of the controller, such as `deployment-controller` or `example.com/backup`.
    pub controller: String,
    /// Which of its instances: the controller and the name of the machine, unless told otherwise.
    pub instance: String,
    /// The node that events of `v1` are said to come from, if the controller cares for one.
    pub host: Option<String>,
}

/// An event that somebody has reported: what sinks, watchers and the functions of [`SinkOptions`](super::SinkOptions) see.
///
/// [`Display`](fmt::Display) shows it as client-go's logging does.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Occurrence {
    /// When it was recorded.
    pub at: Timestamp,
    /// Whether it is good news.
    pub event_type: EventType,
    /// Why it happened, in a word.
    pub reason: String,
    /// What was done, if the event says so.
    pub action: Option<String>,
    /// The story.
    pub note: String,
    /// The object that it is about.
    pub regarding: ObjectReference,
    /// Another one that has to do with it.
    pub related: Option<ObjectReference>,
    /// The annotations of the event.
    pub annotations: BTreeMap<String, String>,
    /// Who reports it.
    pub reporter: Arc<Reporter>,
    /// The name of the object that it becomes, if it becomes one.
    pub(crate) name: String,
}

/// There is nobody to tell about an object whose kind is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AboutNothing;

impl Occurrence {
    /// `name` is asked for a name for the event, from the name of the object.
    pub(crate) fn new(
        event: Event,
        reporter: &Arc<Reporter>,
        at: Timestamp,
        name: impl FnOnce(&str) -> String,
    ) -> Result<Self, AboutNothing> {
        if !is_known(&event.regarding) {
            return Err(AboutNothing);
        }
        Ok(Occurrence {
            at,
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

    /// Where the event lives: with the object, or in `default` if that lives in no namespace.
    pub fn namespace(&self) -> &str {
        self.regarding.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
    }

    /// What was done; if nobody said so, the reason.
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

/// A reference as Go prints it.
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
