//! [`EventKey`]: the identity by which occurrences are compared.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;

use super::Occurrence;

/// The identity by which occurrences are compared: a list of texts.
///
/// Two keys are equal if they have the same texts at the same positions. Texts are not concatenated, so `"ab", "c"`
/// and `"a", "bc"` are different keys. Cheap to clone.
///
/// ```
/// use evenkeel_runtime::events::EventKey;
///
/// assert_ne!(EventKey::of(["ab", "c"]), EventKey::of(["a", "bc"]));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventKey(Arc<[Box<str>]>);

impl EventKey {
    /// Returns the key of these texts, in this order.
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
    /// Returns the key by which occurrences are counted: reporter, object without its version, type, reason and note.
    pub(crate) fn count_key(&self) -> EventKey {
        let [kind, namespace, name, uid, api_version, field_path] = identity(&self.regarding);
        let [component, host] = self.source();
        let said = [self.event_type.as_str(), &self.reason, &self.note];
        EventKey::of([component, host, kind, namespace, name, field_path, uid, api_version].into_iter().chain(said))
    }

    /// Returns the key that similar occurrences share, whatever their notes and the field path of the object.
    ///
    /// This is the default grouping; [`SinkOptions::group_by`](super::SinkOptions::group_by) replaces it.
    pub fn group_key(&self) -> EventKey {
        let [kind, namespace, name, uid, api_version, _] = identity(&self.regarding);
        let [component, host] = self.source();
        let reporter = [self.reporter.controller.as_str(), host];
        let said = [self.event_type.as_str(), &self.reason];
        let texts = [component, host, kind, namespace, name, uid, api_version];
        EventKey::of(texts.into_iter().chain(said).chain(reporter))
    }

    /// Returns the key of the spam filter's bucket: one per reporter, object and type, whatever the reason and note.
    ///
    /// This is the default; [`SinkOptions::spam_key`](super::SinkOptions::spam_key) replaces it.
    pub fn spam_key(&self) -> EventKey {
        let [kind, namespace, name, uid, api_version, _] = identity(&self.regarding);
        let [component, host] = self.source();
        EventKey::of([component, host, kind, namespace, name, uid, api_version, self.event_type.as_str()])
    }

    /// Returns the key of a series: everything but the note, the time and the versions of the objects.
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

/// Returns kind, namespace, name, uid, API version and field path: a reference without its resource version, which
/// changes while the object stays the same.
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
