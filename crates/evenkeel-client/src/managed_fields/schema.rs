//! [`FieldType`]: whether values are owned as a whole, by the type of a built-in kind or by a schema of the server.

use evenkeel_core::merge_rules::{ListOwnership, MergeType};
use serde_json::{Map, Value};

const REFERENCE: &str = "#/components/schemas/";

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum FieldType<'a> {
    BuiltIn(MergeType),
    Document {
        schemas: &'a Map<String, Value>,
        node: &'a Value,
    },
    /// A field that the schema does not describe: maps are owned key by key, lists as a whole.
    Undescribed,
}

impl<'a> FieldType<'a> {
    /// Returns the type of a kind in an OpenAPI document.
    pub(super) fn in_document(document: &'a Value, group: &str, version: &str, kind: &str) -> Option<Self> {
        let schemas = document.get("components")?.get("schemas")?.as_object()?;
        let node = schemas.values().find(|schema| {
            let kinds = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
            kinds.is_some_and(|kinds| {
                kinds.iter().any(|stated| {
                    let text = |name: &str| stated.get(name).and_then(Value::as_str).unwrap_or_default();
                    (text("group"), text("version"), text("kind")) == (group, version, kind)
                })
            })
        })?;
        Some(FieldType::Document { schemas, node })
    }

    pub(super) fn field(self, name: &str) -> FieldType<'a> {
        match self {
            FieldType::BuiltIn(types) => types.field(name).map_or(FieldType::Undescribed, FieldType::BuiltIn),
            FieldType::Document { schemas, node } => {
                let node = target(schemas, node);
                let property = node.get("properties").and_then(|properties| properties.get(name));
                match property.or_else(|| node.get("additionalProperties").filter(|node| node.is_object())) {
                    Some(node) => FieldType::Document { schemas, node },
                    None => FieldType::Undescribed,
                }
            }
            FieldType::Undescribed => FieldType::Undescribed,
        }
    }

    pub(super) fn items(self) -> FieldType<'a> {
        match self {
            FieldType::BuiltIn(types) => types.items().map_or(FieldType::Undescribed, FieldType::BuiltIn),
            FieldType::Document { schemas, node } => match target(schemas, node).get("items") {
                Some(node) => FieldType::Document { schemas, node },
                None => FieldType::Undescribed,
            },
            FieldType::Undescribed => FieldType::Undescribed,
        }
    }

    /// Returns whether a value of this type is owned as a whole.
    pub(super) fn is_atomic(self, value: &Value) -> bool {
        match (self, value) {
            (FieldType::BuiltIn(types), Value::Object(_)) => types.is_atomic(),
            (FieldType::BuiltIn(types), Value::Array(_)) => types.list_ownership() == ListOwnership::Atomic,
            (FieldType::Document { schemas, node }, Value::Object(_)) => {
                let stated =
                    |node: &Value| node.get("x-kubernetes-map-type").and_then(Value::as_str).map(str::to_owned);
                stated(node).or_else(|| stated(target(schemas, node))).as_deref() == Some("atomic")
            }
            (FieldType::Document { schemas, node }, Value::Array(_)) => {
                let stated = target(schemas, node).get("x-kubernetes-list-type").and_then(Value::as_str);
                !matches!(stated, Some("map" | "set"))
            }
            (FieldType::Undescribed, Value::Object(_)) => false,
            _ => true,
        }
    }
}

impl FieldType<'_> {
    /// Returns whether an absent field of this object has this value, so that an item of a list has it as a key without
    /// stating it.
    pub(super) fn is_default(self, name: &str, value: &Value) -> bool {
        match self {
            // The one key of a built-in kind with a default.
            FieldType::BuiltIn(_) => name == "protocol" && value == "TCP",
            FieldType::Document { schemas, node } => {
                let property = target(schemas, node).get("properties").and_then(|properties| properties.get(name));
                property.and_then(|property| property.get("default")) == Some(value)
            }
            FieldType::Undescribed => false,
        }
    }
}

/// Returns the schema that a node refers to, or the node itself.
fn target<'a>(schemas: &'a Map<String, Value>, node: &'a Value) -> &'a Value {
    let only = node.get("allOf").and_then(Value::as_array).filter(|all| all.len() == 1).and_then(|all| all.first());
    let reference = only.unwrap_or(node).get("$ref").and_then(Value::as_str);
    let name = reference.and_then(|reference| reference.strip_prefix(REFERENCE));
    name.and_then(|name| schemas.get(name)).unwrap_or(node)
}
