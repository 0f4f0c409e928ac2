//! [`Recording`]: what is kept of a run beside its timeline, to look at it step by step.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::fault_rules::FaultRules;
use crate::state::ClusterState;

/// The objects after every write, and the requests that failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recording {
    pub(crate) scenario: Arc<str>,
    /// The names of the processes, in the order of the scenario.
    pub(crate) processes: Vec<Arc<str>>,
    /// What repeats the run: the part of a replay line after the name of the scenario.
    pub(crate) spec: String,
    pub(crate) changes: Vec<ObjectChange>,
    pub(crate) requests: FaultRules,
    /// The objects as they were last observed.
    pub(crate) last: BTreeMap<(String, String), Value>,
}

/// An object that was created, changed or deleted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ObjectChange {
    /// The number of the line of the timeline after which this was observed.
    pub(crate) line: usize,
    /// The plural, such as `configmaps`.
    pub(crate) resource: String,
    pub(crate) key: String,
    /// The object without `managedFields`; none if it was deleted.
    pub(crate) object: Option<Value>,
}

impl Recording {
    /// Notes how the objects differ from those of the last call.
    pub(crate) fn observe(&mut self, line: usize, state: &ClusterState) {
        let mut now = BTreeMap::new();
        for (resource, key, object) in state.all() {
            let mut object = object.clone();
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("managedFields");
            }
            now.insert((resource.to_owned(), key), object);
        }
        let mut change = |(resource, key): &(String, String), object: Option<&Value>| {
            let (resource, key, object) = (resource.clone(), key.clone(), object.cloned());
            self.changes.push(ObjectChange { line, resource, key, object });
        };
        for (place, object) in now.iter().filter(|(place, object)| self.last.get(*place) != Some(object)) {
            change(place, Some(object));
        }
        self.last.keys().filter(|place| !now.contains_key(*place)).for_each(|place| change(place, None));
        self.last = now;
    }
}
