//! DaemonSets: an annotation counts the changes of the template, which a field of an earlier version did.

use evenkeel_core::Status;
use serde_json::Value;

use super::{KindHooks, prepare_builtin_create};
use crate::engine::ApiEngine;
use crate::engine::object::{self, set_path};
use crate::field::FieldError;
use crate::kinds;
use crate::registry::Resource;

const GENERATION: &str = "deprecated.daemonset.template.generation";

#[derive(Debug)]
pub(crate) struct DaemonSetHooks;

impl KindHooks for DaemonSetHooks {
    fn prepare_create(&self, _: &ApiEngine, resource: &Resource, new: &mut Value) -> Result<(), Status> {
        prepare_builtin_create(resource, new);
        let generation = template_generation(new)?;
        set_template_generation(new, generation.max(1));
        Ok(())
    }

    fn prepare_update(
        &self,
        _: &ApiEngine,
        resource: &Resource,
        new: &mut Value,
        old: &Value,
    ) -> Result<Vec<FieldError>, Status> {
        kinds::prepare_update(&resource.group, &resource.kind, new, old);
        template_generation(new)?;
        let changes = new.pointer("/spec/template") != old.pointer("/spec/template");
        let generation = template_generation(old).unwrap_or_default();
        set_template_generation(new, generation.saturating_add(i64::from(changes)));
        Ok(Vec::new())
    }

    fn prepare_status_update(&self, _: &ApiEngine, new: &mut Value, old: &Value) {
        set_template_generation(new, template_generation(old).unwrap_or_default());
    }
}

/// Returns the number in the annotation; zero if it is absent.
fn template_generation(set: &Value) -> Result<i64, Status> {
    let annotation = object::metadata(set).get("annotations").and_then(|all| all.get(GENERATION));
    let Some(text) = annotation.and_then(Value::as_str) else { return Ok(0) };
    text.parse().map_err(|_| {
        Status::bad_request(format!(
            "DaemonSet in version \"v1\" cannot be handled as a DaemonSet: strconv.ParseInt: parsing {text:?}: invalid \
             syntax"
        ))
    })
}

fn set_template_generation(set: &mut Value, generation: i64) {
    set_path(set, &["metadata", "annotations", GENERATION], Some(generation.to_string().into()));
}
