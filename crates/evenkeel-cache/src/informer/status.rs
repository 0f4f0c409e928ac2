//! [`InformerStatus`]: how an informer is doing.

use std::collections::BTreeMap;

use super::listener::Lag;
use crate::reflector::ReflectorReport;

/// How an informer is doing, at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerStatus {
    /// What it is called.
    pub name: String,
    /// Whether it has begun.
    pub is_started: bool,
    /// Whether it has ended.
    pub is_stopped: bool,
    /// Whether the store has been filled once.
    pub has_synced: bool,
    /// How many objects the store has.
    pub objects: usize,
    /// The version that the store has reached.
    pub store_resource_version: String,
    /// How many deltas wait to be applied.
    pub queued: usize,
    /// What the reflector does, and how often it had to begin anew.
    pub reflector: ReflectorReport,
    /// How far each handler is behind. Handlers of the same name are one entry.
    pub handlers: BTreeMap<String, Lag>,
}
