//! Tables: the output of `kubectl get`, a row per object.
//!
//! A column combines its heading with the function that fills its cells, so the two always match. The columns of
//! built-in kinds are constants, those of a custom resource are compiled from its definition (TAB-4), and every other
//! kind has its name and its creation time (TAB-3).

mod age;
mod builtin;
mod cell;
mod cluster;
mod control;
mod network;
mod pods;
mod storage;
#[cfg(test)]
mod tests;
mod workloads;

use std::borrow::Cow;

use evenkeel_core::jsonpath::{Dialect, JsonPathTemplate};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

pub(crate) use age::human_duration;

use crate::registry::{PrinterColumn, Resource};
use cell::{Column, Row};

/// The heading of a column, as serialized.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ColumnDefinition {
    pub(crate) name: Cow<'static, str>,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    #[serde(rename = "type")]
    pub(crate) kind: Cow<'static, str>,
    /// `name` for the column with the object's name, mostly empty otherwise.
    pub(crate) format: Cow<'static, str>,
    pub(crate) description: Cow<'static, str>,
    /// Columns above zero are shown only in wide output.
    pub(crate) priority: i32,
}

/// Prints the objects of one resource. Created per request, not per object.
pub(crate) struct Printer(Columns);

enum Columns {
    Builtin(&'static [Column]),
    Custom(Vec<CustomColumn>),
}

/// A column of a custom resource; the path is `None` if it is malformed, and its cells are null then.
struct CustomColumn {
    definition: ColumnDefinition,
    path: Option<JsonPathTemplate>,
}

impl Printer {
    pub(crate) fn new(resource: &Resource) -> Printer {
        Printer(match &resource.custom {
            Some(facts) if facts.columns.is_empty() => Columns::Builtin(cell::NAME_AND_AGE),
            Some(facts) => Columns::Custom(facts.columns.iter().map(CustomColumn::new).collect()),
            None => Columns::Builtin(builtin::columns(&resource.group, &resource.kind)),
        })
    }

    /// Returns the headings.
    pub(crate) fn columns(&self) -> Vec<ColumnDefinition> {
        match &self.0 {
            Columns::Builtin(columns) => columns.iter().map(Column::definition).collect(),
            Columns::Custom(columns) => std::iter::once(cell::NAME.definition())
                .chain(columns.iter().map(|column| column.definition.clone()))
                .collect(),
        }
    }

    /// Returns the cells of one object, one per heading. Ages are relative to `now`.
    pub(crate) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let row = Row::new(object, now);
        match &self.0 {
            Columns::Builtin(columns) => columns.iter().map(|column| column.cell(&row)).collect(),
            Columns::Custom(columns) => std::iter::once(cell::NAME.cell(&row))
                .chain(columns.iter().map(|column| column.cell(object, now)))
                .collect(),
        }
    }
}

/// Returns the conditions of a row, for kinds that complete: a pod that has terminated.
pub(crate) fn row_conditions(group: &str, kind: &str, object: &Value) -> Option<Value> {
    if (group, kind) != ("", "Pod") {
        return None;
    }
    let (reason, message) = match object.get("status")?.get("phase")?.as_str()? {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"message": message, "reason": reason, "status": "True", "type": "Completed"}]))
}

impl CustomColumn {
    fn new(column: &PrinterColumn) -> CustomColumn {
        let description = if column.description.is_empty() {
            format!("Custom resource definition column (in JSONPath format): {}", column.json_path)
        } else {
            column.description.clone()
        };
        CustomColumn {
            definition: ColumnDefinition {
                name: column.name.clone().into(),
                kind: column.kind.clone().into(),
                format: column.format.clone().into(),
                description: description.into(),
                priority: column.priority,
            },
            path: JsonPathTemplate::parse_dialect(&format!("{{{}}}", column.json_path), Dialect::Kubectl)
                .ok()
                .map(|path| path.allow_missing_keys(true)),
        }
    }

    /// Values that do not match the column's type are null.
    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(value) = self.path.as_ref().and_then(|path| path.first(object).ok().flatten()) else {
            return Value::Null;
        };
        match (self.definition.kind.as_ref(), value) {
            (_, Value::Null) => Value::Null,
            ("string", Value::String(_)) => value.clone(),
            ("string", other) => other.to_string().into(),
            ("integer", Value::Number(number)) => match number.as_i64() {
                Some(_) => value.clone(),
                None => number.as_f64().map_or(Value::Null, |number| Value::from(number as i64)),
            },
            ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
            ("date", Value::String(text)) if text.is_empty() => "<unknown>".into(),
            ("date", Value::String(_)) => match age::parse(Some(value)) {
                Some(time) => human_duration(age::whole_seconds(time, now)).into(),
                None => "<invalid>".into(),
            },
            _ => Value::Null,
        }
    }
}
