//! The types of `self`: what expressions may know of a schema (CEL-003 to CEL-006), and the largest sizes of values
//! (CEL-035).

use std::sync::Arc;

use evenkeel_cel::{DeclKind, DeclType, ListIdentity, MAX_REQUEST_BYTES, ObjectDecl};
use serde_json::{Map, Value, json};

use super::super::{flag, list, text, texts};

/// The name of the type of `self`.
const SELF_TYPE: &str = "selfType";

/// The bytes of an empty string, list or object in JSON.
const EMPTY: u64 = 2;

/// Returns the type of a schema; `None` if expressions cannot know it.
pub(super) fn declared(schema: &Value, is_resource: bool) -> Option<DeclType> {
    declare(schema, is_resource, SELF_TYPE)
}

fn declare(schema: &Value, is_resource: bool, name: &str) -> Option<DeclType> {
    let limit = |key: &str| schema.get(key).and_then(Value::as_i64).map(|limit| u64::try_from(limit).unwrap_or(0));
    let longest = MAX_REQUEST_BYTES - EMPTY;
    if flag(schema, &["x-kubernetes-int-or-string"]) {
        let length = limit("maxLength").map_or(longest, |length| length.saturating_mul(4));
        return Some(DeclType::new(DeclKind::Dyn, Some(length), 1));
    }
    let embedded = |schema: &Value| flag(schema, &["x-kubernetes-embedded-resource"]);
    match text(schema, &["type"]) {
        "array" => {
            let items = schema.get("items")?;
            let item = declare(items, embedded(items), &format!("{name}.@idx"))?;
            let most = limit("maxItems").unwrap_or(longest / (item.min_serialized() + 1));
            let identity = match text(schema, &["x-kubernetes-list-type"]) {
                "set" => ListIdentity::Set,
                "map" => ListIdentity::Map(texts(schema, &["x-kubernetes-list-map-keys"]).map(str::to_owned).collect()),
                _ => ListIdentity::Atomic,
            };
            Some(DeclType::new(DeclKind::List(Arc::new(item), identity), Some(most), EMPTY))
        }
        "object" => match schema.get("additionalProperties").filter(|values| values.is_object()) {
            Some(values) => {
                let value = declare(values, embedded(values), &format!("{name}.@elem"))?;
                let most = limit("maxProperties").unwrap_or(longest / (value.min_serialized() + 6));
                Some(DeclType::new(DeclKind::Map(Arc::new(value)), Some(most), EMPTY))
            }
            None => Some(object(schema, is_resource, name)),
        },
        "string" => Some(string(schema, limit("maxLength"), longest)),
        "boolean" => Some(DeclType::new(DeclKind::Bool, None, 4)),
        "number" => Some(DeclType::new(DeclKind::Double, None, 1)),
        "integer" => Some(DeclType::new(DeclKind::Int, None, 1)),
        _ => None,
    }
}

fn object(schema: &Value, is_resource: bool, name: &str) -> DeclType {
    let none = Map::new();
    let declared = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let mut metadata = json!({});
    let mut properties: Vec<(&str, &Value)> = declared.iter().map(|(name, schema)| (name.as_str(), schema)).collect();
    if is_resource {
        let name = json!({"type": "string", "maxLength": 253});
        metadata = json!({
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object", "properties": {"name": name, "generateName": name}},
        });
        properties.retain(|(name, _)| metadata.get(name).is_none());
    }
    let added = metadata.as_object().into_iter().flatten().map(|(name, schema)| (name.as_str(), schema));
    properties.extend(added);
    let mut smallest = EMPTY;
    let mut fields = Vec::with_capacity(properties.len());
    for (field, schema) in properties {
        let embedded = flag(schema, &["x-kubernetes-embedded-resource"]);
        let Some(decl) = declare(schema, embedded, &format!("{name}.{field}")) else { continue };
        fields.push((field.to_owned(), decl));
    }
    for required in texts(schema, &["required"]) {
        let has_default = declared.get(required).is_some_and(|schema| schema.get("default").is_some());
        if let Some((_, decl)) = fields.iter().find(|(name, _)| name == required).filter(|_| !has_default) {
            smallest += required.len() as u64 + decl.min_serialized() + 4;
        }
    }
    DeclType::new(DeclKind::Object(Arc::new(ObjectDecl::new(name, fields))), None, smallest)
}

fn string(schema: &Value, limit: Option<u64>, longest: u64) -> DeclType {
    let (kind, most, smallest) = match text(schema, &["format"]) {
        "byte" => (DeclKind::Bytes, limit.unwrap_or(longest), EMPTY),
        "duration" => (DeclKind::Duration, 32, 3),
        "date" => (DeclKind::Date, 12, 12),
        "date-time" => (DeclKind::DateTime, 32, 21),
        _ => {
            let choices = list(schema, &["enum"]);
            let most = match limit {
                // A character has up to four bytes.
                Some(limit) => limit.saturating_mul(4),
                None if !choices.is_empty() => {
                    choices.iter().filter_map(Value::as_str).map(|choice| choice.len() as u64).max().unwrap_or(0)
                }
                None => longest,
            };
            (DeclKind::String, most, EMPTY)
        }
    };
    DeclType::new(kind, Some(most), smallest)
}
