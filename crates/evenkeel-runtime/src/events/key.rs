//! [`EventKey`]: what makes two occurrences the same.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;

use super::Occurrence;

/// What makes two occurrences the same to somebody: a list of texts.
///
/// Two keys are equal if they have the same texts in the same places. Nothing is run together, so `"ab", "c"` and
/// `"a", "bc"` are two keys. Cheap to clone.
///
/// ```
/// use evenkeel_runtime::events::EventKey;
///
/// assert_ne!(EventKey::of(["ab", "c"]), EventKey::of(["a", "bc"]));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventKey(Arc<[Box<str>]>);

impl EventKey {
    /// The key of these texts, in this order.
    pub fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        EventKey(texts.into_iter().map(Box::from).collect())
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|text| &**text)
    }
}

impl fmt::Debug for EventKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter()).finish()
    }
}

impl Occurrence {
    /// What tells it from others that are counted by themselves: who reports it, all of the object but its version, type,
    /// reason and note.
    pub(crate) fn count_key(&self) -> EventKey {
        let [kind, namespace, name, uid, api_version, field_path] = identity(&self.regarding);
        let [component, host] = self.source();
        let said = [self.event_type.as_str(), &self.reason, &self.note];
        EventKey::of([component, host, kind, namespace, name, field_path, uid, api_version].into_iter().chain(said))
    }

    /// What it has in common with similar ones, whatever their notes say and whichever part of the object they are about.
    ///
    /// This is how occurrences are put into groups unless [`SinkOptions::group_by`](super::SinkOptions::group_by) says
    /// otherwise.
    pub fn group_key(&self) -> EventKey {
        let [kind, namespace, name, uid, api_version, _] = identity(&self.regarding);
        let [component, host] = self.source();
        let reporter = [self.reporter.controller.as_str(), host];
        let said = [self.event_type.as_str(), &self.reason];
        let texts = [component, host, kind, namespace, name, uid, api_version];
        EventKey::of(texts.into_iter().chain(said).chain(reporter))
    }

    /// Which of the buckets of the spam filter it takes from: one per reporter, object and type, whatever the reason and
    /// the note are.
    ///
    /// [`SinkOptions::spam_key`](super::SinkOptions::spam_key) says otherwise.
    pub fn spam_key(&self) -> EventKey {
        let [kind, namespace, name, uid, api_version, _] = identity(&self.regarding);
        let [component, host] = self.source();
        EventKey::of([component, host, kind, namespace, name, uid, api_version, self.event_type.as_str()])
    }

    /// What makes occurrences a series: all but the note, the time, and the versions of the objects.
    pub(crate) fn series_key(&self) -> EventKey {
        let none = ObjectReference::default();
        let related = identity(self.related.as_ref().unwrap_or(&none));
        let reporter = &self.reporter;
        let said = [self.event_type.as_str(), self.action(), &self.reason, &reporter.controller, &reporter.instance];
        EventKey::of(said.into_iter().chain(identity(&self.regarding)).chain(related))
    }

    fn source(&self) -> [&str; 2] {
        [&self.reporter.controller, self.reporter.host.as_deref().unwrap_or_default()]
    }
}

/// Kind, namespace, name, uid, API version and field path: a reference without its resource version, which changes while
/// the object stays the same.
fn identity(reference: &ObjectReference) -> [&str; 6] {
    [
        reference.kind.as_deref(),
        reference.namespace.as_deref(),
        reference.name.as_deref(),
        reference.uid.as_deref(),
        reference.api_version.as_deref(),
        reference.field_path.as_deref(),
    ]
    .map(Option::unwrap_or_default)
}
