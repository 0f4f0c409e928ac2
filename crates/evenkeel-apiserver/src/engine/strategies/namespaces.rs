//! Namespaces: held by `spec.finalizers`, and emptied by the namespace controller.

use evenkeel_core::Status;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{KindHooks, add_new};
use crate::engine::options::DeleteOptions;
use crate::engine::target::WriteScope;
use crate::engine::verbs::delete::DeletePlan;
use crate::engine::{ApiEngine, object};
use crate::env::rfc3339;
use crate::field::FieldError;
use crate::kinds;
use crate::registry::Resource;

/// Namespaces that cannot be deleted (NS-5).
const UNDELETABLE: &[&str] = &["default", "kube-system", "kube-public"];

#[derive(Debug)]
pub(crate) struct NamespaceHooks;

impl KindHooks for NamespaceHooks {
    /// Validates whichever endpoint writes.
    fn validate_update(
        &self,
        resource: &Resource,
        _: WriteScope<'_>,
        new: &Value,
        old: &Value,
        errors: &mut Vec<FieldError>,
    ) {
        add_new(errors, kinds::validate_update(&resource.group, &resource.kind, new, old));
    }

    fn after_write(&self, engine: &ApiEngine, name: &str) {
        engine.schedule_default_service_account(name);
    }

    fn check_delete(&self, name: &str) -> Result<(), Status> {
        if UNDELETABLE.contains(&name) {
            return Err(Status::forbidden("", "namespaces", name, "this namespace may not be deleted"));
        }
        Ok(())
    }

    fn contains_objects(&self) -> bool {
        true
    }

    /// Marks the namespace; the namespace controller does the rest (NS-6).
    fn plan_delete(&self, _: &Resource, old: &Value, _: &DeleteOptions, now: Timestamp) -> DeletePlan {
        if object::is_deleting(old) {
            let held = self.has_own_finalizers(old) || object::finalizers(old).next().is_some();
            return if held { DeletePlan::Nothing } else { DeletePlan::Remove };
        }
        let mut new = old.clone();
        object::metadata_mut(&mut new).insert("deletionTimestamp".into(), rfc3339(now).into());
        if let Some(fields) = new.as_object_mut() {
            let status = fields.entry("status").or_insert_with(|| json!({}));
            if let Some(status) = status.as_object_mut() {
                status.insert("phase".into(), "Terminating".into());
            }
        }
        DeletePlan::Mark(new)
    }

    fn has_own_finalizers(&self, namespace: &Value) -> bool {
        namespace.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|list| !list.is_empty())
    }

    fn namespace_of<'a>(&self, _: Option<&'a str>, name: &'a str) -> Option<&'a str> {
        Some(name)
    }
}
