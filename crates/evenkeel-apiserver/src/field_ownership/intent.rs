//! Validation of an intent: all its fields are in the schema, and no list item occurs twice.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use super::compare::element;
use super::path::PathElement;
use crate::schema::{ListType, MAX_REPORTS, RoughKind, Schema};

/// Checks an intent against the schema. The error is worded like kube-apiserver's.
pub(crate) fn check(intent: &Value, schema: &Schema) -> Result<(), String> {
    let mut checker = Checker::default();
    checker.value(intent, Some(schema));
    match checker.faults.as_slice() {
        [] => Ok(()),
        [only] => Err(only.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

#[derive(Default)]
struct Checker {
    path: String,
    faults: Vec<String>,
}

impl Checker {
    fn fault(&mut self, what: impl fmt::Display) {
        if self.faults.len() < MAX_REPORTS {
            let path = &self.path;
            self.faults.push(if path.is_empty() { what.to_string() } else { format!("{path}: {what}") });
        }
    }

    /// The recursion is as deep as the intent, which the parser bounds.
    fn value(&mut self, value: &Value, schema: Option<&Schema>) {
        // Values that the schema does not describe are not checked.
        let Some(schema) = schema else { return };
        match (schema.rough_kind(), value) {
            (RoughKind::Any, _) | (_, Value::Null) => {}
            (RoughKind::Map, Value::Object(fields)) => self.map(fields, schema),
            (RoughKind::List, Value::Array(items)) => self.list(items, schema),
            (RoughKind::Text | RoughKind::Scalar, Value::String(_)) => {}
            (RoughKind::Numeric | RoughKind::Scalar, Value::Number(_)) => {}
            (RoughKind::Boolean | RoughKind::Scalar, Value::Bool(_)) => {}
            (expected, found) => {
                let expected = match expected {
                    RoughKind::Map => "map",
                    RoughKind::List => "list",
                    RoughKind::Text => "string",
                    RoughKind::Numeric => "numeric (int or float)",
                    RoughKind::Boolean => "boolean",
                    RoughKind::Scalar | RoughKind::Any => "any scalar",
                };
                self.fault(format_args!("expected {expected}, got {found}"));
            }
        }
    }

    fn map(&mut self, fields: &Map<String, Value>, schema: &Schema) {
        for (name, value) in fields {
            let declared = schema.declares(name) || schema.takes_any_field();
            self.within(&PathElement::Field(name), |checker| {
                if declared {
                    checker.value(value, schema.field(name));
                } else {
                    checker.fault("field not declared in schema");
                }
            });
            if !declared {
                return;
            }
        }
    }

    fn list(&mut self, items: &[Value], schema: &Schema) {
        let mut seen = BTreeSet::new();
        for (index, item) in (0..).zip(items) {
            let step = match schema.list_type() {
                ListType::Atomic => PathElement::Index(index),
                kind => match element(item, schema) {
                    Some(element) => element,
                    None => {
                        self.fault(format_args!("element {index}: {}", missing_key(kind, item)));
                        return;
                    }
                },
            };
            self.within(&step, |checker| checker.value(item, schema.items()));
            if seen.contains(&step) {
                self.fault(format_args!("duplicate entries for key {step}"));
            }
            seen.insert(step);
        }
    }

    fn within(&mut self, step: &PathElement<'_>, check: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(&step.to_string());
        check(self);
        self.path.truncate(length);
    }
}

/// Returns why an item has no key.
fn missing_key(list: ListType<'_>, item: &Value) -> String {
    match (list, item) {
        (ListType::Map(keys), Value::Object(_)) => format!(
            "associative list with keys has an element that omits all key fields {} (and doesn't have default values \
             for any key fields)",
            format!("{keys:?}").replace(',', "")
        ),
        (ListType::Map(_), Value::Null) => "associative list with keys may not have a null element".into(),
        (ListType::Map(_), _) => "associative list with keys may not have non-map elements".into(),
        (_, Value::Object(_)) => "associative list without keys has an element that's a map type".into(),
        (_, Value::Array(_)) => "not supported: associative list with lists as elements".into(),
        (_, _) => "associative list without keys has an element that's an explicit null".into(),
    }
}
