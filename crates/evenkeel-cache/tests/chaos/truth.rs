//! [`Truth`]: the states that the server had, as the writers recorded them.

use std::collections::{HashMap, HashSet};

use evenkeel_cache::{Obj, ObjectKey};
use k8s_openapi::api::core::v1::ConfigMap;

/// An object of the test.
pub(crate) type Map = Obj<ConfigMap>;

/// The states that the server had.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    states: HashMap<(ObjectKey, u64), Map>,
    /// The uids that were deleted, or left the selection.
    gone: HashSet<String>,
    /// The uids that left the selection.
    left: HashSet<String>,
    backups: u32,
}

impl Truth {
    /// Records a state of the server.
    pub(crate) fn state(&mut self, object: &Map) {
        self.states.insert((object.key().clone(), version(object)), object.clone());
    }

    /// Records the deletion of an object.
    pub(crate) fn deleted(&mut self, uid: &str) {
        self.gone.insert(uid.to_owned());
    }

    /// Records that an object may have left the selection.
    pub(crate) fn left(&mut self, uid: &str) {
        self.gone.insert(uid.to_owned());
        self.left.insert(uid.to_owned());
    }

    /// Records the restore of a backup: everything that was written may disappear or reappear.
    pub(crate) fn backup(&mut self) {
        self.backups += 1;
        let uids: HashSet<String> = self.states.values().map(|object| object.uid().to_owned()).collect();
        self.left.extend(self.gone.iter().cloned());
        self.left.extend(uids.iter().cloned());
        self.gone.extend(uids);
    }

    /// Returns the number of restored backups.
    pub(crate) fn backups(&self) -> u32 {
        self.backups
    }

    pub(crate) fn has_gone(&self, uid: &str) -> bool {
        self.gone.contains(uid)
    }

    pub(crate) fn has_left(&self, uid: &str) -> bool {
        self.left.contains(uid)
    }

    /// Returns an error unless the server had this state.
    pub(crate) fn check_state(&self, object: &Map) -> Result<(), String> {
        let version = version(object);
        let Some(state) = self.states.get(&(object.key().clone(), version)) else {
            return Err(format!("never had version {version}"));
        };
        if state.uid() != object.uid() || contents(state) != contents(object) {
            return Err(format!("was {} at {version}, not {}", contents(state), contents(object)));
        }
        Ok(())
    }
}

/// Returns the resource version as a number.
pub(crate) fn version(object: &Map) -> u64 {
    object.resource_version().parse().unwrap_or_default()
}

/// Returns the mutable contents of an object.
pub(crate) fn contents(object: &Map) -> String {
    let text = |path: &str| object.path(path).unwrap().map(|value| value.text().into_owned()).unwrap_or_default();
    let labels: Vec<String> = object.labels().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{} [{}]", text("data.n"), labels.join(","))
}
