//! [`InformerStatus`]: the state of an informer.

use std::collections::BTreeMap;

use super::consistency::ConsistencyReport;
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
    /// Number of stored objects.
    pub objects: usize,
    /// Resource version of the store.
    pub store_resource_version: String,
    /// Number of deltas in the queue.
    pub queued: usize,
    /// State of the reflector, and its number of lists and watches.
    pub reflector: ReflectorReport,
    /// The last consistency check, if there was one.
    pub consistency: Option<ConsistencyReport>,
    /// Lag of each handler. The lags of handlers of the same name are added.
    pub handlers: BTreeMap<String, Lag>,
}
