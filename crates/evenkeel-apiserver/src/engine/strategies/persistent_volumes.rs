//! PersistentVolumes: the server records when their phase changes.

use evenkeel_core::Status;
use serde_json::Value;

use super::{KindHooks, prepare_builtin_create};
use crate::engine::ApiEngine;
use crate::engine::object::{self, set_path};
use crate::env::rfc3339;
use crate::registry::Resource;

const PHASE: &str = "/status/phase";
const CHANGED: &str = "/status/lastPhaseTransitionTime";

#[derive(Debug)]
pub(crate) struct PersistentVolumeHooks;

impl KindHooks for PersistentVolumeHooks {
    fn prepare_create(&self, _: &ApiEngine, resource: &Resource, new: &mut Value) -> Result<(), Status> {
        prepare_builtin_create(resource, new);
        let created = object::metadata(new).get("creationTimestamp").cloned();
        set_path(new, &["status", "lastPhaseTransitionTime"], created);
        Ok(())
    }

    /// A client may set the time itself; one that only repeats the old time with a new phase has not.
    fn prepare_status_update(&self, engine: &ApiEngine, new: &mut Value, old: &Value) {
        let is_same_phase = new.pointer(PHASE) == old.pointer(PHASE);
        let (given, known) = (new.pointer(CHANGED).filter(|time| !time.is_null()), old.pointer(CHANGED));
        let changed = match given {
            None if is_same_phase => known.cloned(),
            None => Some(rfc3339(engine.env.wall()).into()),
            given if !is_same_phase && given == known => Some(rfc3339(engine.env.wall()).into()),
            given => given.cloned(),
        };
        set_path(new, &["status", "lastPhaseTransitionTime"], changed);
    }
}
