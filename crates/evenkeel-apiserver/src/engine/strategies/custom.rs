//! Custom resources: validated by their schema, and bound to the life of their definition.

use evenkeel_core::Status;
use serde_json::Value;

use super::KindHooks;
use crate::engine::ApiEngine;
use crate::engine::target::WriteScope;
use crate::field::FieldError;
use crate::registry::Resource;

#[derive(Debug)]
pub(crate) struct CustomResourceHooks;

impl KindHooks for CustomResourceHooks {
    fn check_create(&self, engine: &ApiEngine, resource: &Resource, name: &str) -> Result<(), Status> {
        match &resource.custom {
            Some(custom) => engine.check_definition_accepts_objects(resource, custom, name),
            None => Ok(()),
        }
    }

    fn prepare_create(&self, _: &ApiEngine, _: &Resource, _: &mut Value) -> Result<(), Status> {
        Ok(())
    }

    fn has_first_generation(&self, _: &Resource) -> bool {
        true
    }

    fn validate_create(&self, resource: &Resource, new: &Value, errors: &mut Vec<FieldError>) {
        if let Some(schema) = resource.schema() {
            errors.extend(schema.validate(new));
        }
    }

    fn prepare_update(&self, _: &ApiEngine, _: &Resource, _: &mut Value, _: &Value) -> Result<Vec<FieldError>, Status> {
        Ok(Vec::new())
    }

    /// Compares all fields. An empty list or map differs from an absent one: only the custom resource knows what it
    /// means.
    fn generation_changes(&self, resource: &Resource, new: &Value, old: &Value) -> bool {
        let counts = |key: &str| match key {
            "apiVersion" | "kind" | "metadata" => false,
            "status" => !resource.strategy.has_status,
            _ => true,
        };
        !content(new, &counts).eq(content(old, &counts))
    }

    fn validate_update(
        &self,
        resource: &Resource,
        _: WriteScope<'_>,
        new: &Value,
        old: &Value,
        errors: &mut Vec<FieldError>,
    ) {
        if let Some(schema) = resource.schema() {
            errors.extend(schema.validate_update(new, old));
        }
    }

    fn check_rules(
        &self,
        resource: &Resource,
        new: &Value,
        old: Option<&Value>,
        errors: &mut Vec<FieldError>,
        warnings: &mut Vec<String>,
    ) {
        if let Some(rules) = resource.custom.as_ref().and_then(|custom| custom.rules.as_ref()) {
            let findings = rules.validate(new, old, errors);
            errors.extend(findings.errors);
            warnings.extend(findings.warnings);
        }
    }

    /// The removed object may have been the last one of a terminating definition. The store decides: the resource of
    /// the request may predate the deletion of the definition.
    fn after_delete(&self, engine: &ApiEngine, resource: &Resource, _: Option<&str>, _: &str) {
        if let Some(custom) = &resource.custom
            && engine.is_definition_terminating(&custom.definition)
        {
            engine.sync_definition(&custom.definition);
        }
    }
}

/// Returns the fields of an object that count, in order.
fn content<'a>(object: &'a Value, counts: &dyn Fn(&str) -> bool) -> impl Iterator<Item = (&'a String, &'a Value)> {
    object.as_object().into_iter().flatten().filter(|(key, _)| counts(key))
}
