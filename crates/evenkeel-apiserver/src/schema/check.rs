//! The first tier of validation of built-in objects: the requirements of their OpenAPI schema (OBJ-15).

use serde_json::Value;

use super::path::PathStep;
use super::{Form, MAX_DEPTH, MAX_REPORTS, Schema};
use crate::field::FieldError;

impl Schema {
    /// Checks that required fields are present and that enumerated strings have known values.
    ///
    /// Expects an object that passed [`Schema::decode_builtin`], so types are right. A required field with a schema
    /// default is always present, if empty, and passes; the kind's own rules reject empty values.
    pub(crate) fn validate_builtin(&self, value: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        check(self, value, PathStep::ROOT, 0, &mut errors);
        errors
    }
}

fn check(schema: &Schema, value: &Value, path: PathStep<'_>, depth: usize, errors: &mut Vec<FieldError>) {
    if depth > MAX_DEPTH || errors.len() >= MAX_REPORTS {
        return;
    }
    let shape = schema.shape();
    match value {
        Value::Object(object) if shape.form == Form::Object => {
            for name in &shape.required {
                let has_default = || shape.property(name).is_some_and(|field| field.default_value().is_some());
                if object.get(name.as_ref()).is_none_or(Value::is_null) && !has_default() {
                    errors.push(FieldError::required(path.to_path().child(name), ""));
                }
            }
            for (key, value) in object {
                let can_fail = match value {
                    Value::Object(_) | Value::Array(_) => true,
                    Value::String(_) => shape.has_choices,
                    Value::Null | Value::Bool(_) | Value::Number(_) => false,
                };
                if can_fail && let Some(field) = schema.field(key) {
                    check(field, value, path.field(key), depth + 1, errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.items() else { return };
            for (index, item) in items.iter().enumerate() {
                check(schema, item, path.index(index), depth + 1, errors);
            }
        }
        // An empty string counts as not set.
        Value::String(text) if !text.is_empty() => {
            let choices = &schema.node().choices;
            if !choices.is_empty() && !choices.contains(value) {
                let supported: Vec<&str> = choices.iter().filter_map(Value::as_str).collect();
                errors.push(FieldError::not_supported(path.to_path().field(), value, &supported));
            }
        }
        _ => {}
    }
}
