//! [`InformerStatus`]: the state of an informer.

use std::collections::BTreeMap;

use super::consistency::ConsistencyReport;
use super::kind_gone::KindGone;
use super::listener::Lag;
use crate::reflector::ReflectorReport;

/// State of an informer at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerStatus {
    /// Name of the informer.
    pub name: String,
    /// Whether the informer has been started.
    pub is_started: bool,
    /// Whether the informer has stopped.
    pub is_stopped: bool,
    /// Whether the store holds the complete initial list.
    pub has_synced: bool,
    /// Why the informer has ended, if its kind is not served any more.
    pub gone: Option<KindGone>,
    /// Number of stored objects.
    pub objects: usize,
    /// Resource version of the store.
    pub store_resource_version: String,
    /// Number of deltas in the queue.
    pub queued: usize,
    /// State of the reflector, and its number of lists and watches. For an informer of several namespaces: the sums over all of
    /// them, and the errors of those that have not synced, or else the last error. With a [scope](crate::ShardScope) of places: the sums
    /// over all reflectors since the start, and the last error.
    pub reflector: ReflectorReport,
    /// State of each namespace, of an informer of [several namespaces](crate::NamespaceSet). The empty name stands for all others.
    pub namespaces: BTreeMap<String, NamespaceStatus>,
    /// The last consistency check, if there was one.
    pub consistency: Option<ConsistencyReport>,
    /// Lag of each handler, by its name.
    pub handlers: BTreeMap<String, Lag>,
}

/// State of one namespace of an informer of [several namespaces](crate::NamespaceSet).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NamespaceStatus {
    /// Whether the store holds a complete list of the namespace.
    pub has_synced: bool,
    /// The message of the server, if the last request for the namespace was forbidden.
    pub forbidden: Option<String>,
    /// Resource version of the namespace in the store.
    pub store_resource_version: String,
    /// State of the reflector of the namespace.
    pub reflector: ReflectorReport,
}

impl NamespaceStatus {
    /// Returns the last error of the namespace of this name in words, such as `in team-b: forbidden: …`.
    pub(super) fn trouble(&self, name: &str) -> Option<String> {
        let place = if name.is_empty() { "all other namespaces" } else { name };
        let error = self.reflector.last_error.as_ref();
        match &self.forbidden {
            Some(message) => Some(format!("in {place}: forbidden: {message}")),
            None => error.map(|error| format!("in {place}: {}", error.message)),
        }
    }
}

impl InformerStatus {
    /// Returns the namespaces that the server forbids to read, each with its message.
    pub fn forbidden(&self) -> impl Iterator<Item = (&str, &str)> {
        self.namespaces.iter().filter_map(|(name, status)| Some((name.as_str(), status.forbidden.as_deref()?)))
    }
}
