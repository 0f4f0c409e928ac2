//! Rewrites a schema without references into a structural one.

use serde_json::{Map, Value, json};

use super::inline::{anything, merge};
use super::union;
use crate::formats;

/// The keywords that a definition may contain.
const KEYWORDS: &[&str] = &[
    "additionalProperties",
    "allOf",
    "anyOf",
    "default",
    "description",
    "enum",
    "example",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "externalDocs",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "nullable",
    "oneOf",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
    "uniqueItems",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

/// Rewrites the schema of a whole object.
pub(super) fn rewrite_root(schema: &mut Value) {
    rewrite(schema);
    let Value::Object(root) = schema else { return };
    // A definition allows neither of them here, and an object is never null.
    root.remove("nullable");
    root.remove("additionalProperties");
    root.insert("type".to_owned(), json!("object"));
}

fn rewrite(schema: &mut Value) {
    if !schema.is_object() {
        // `true`, of a type that can be any value.
        *schema = anything();
        return;
    }
    collapse_optional(schema);
    let Value::Object(object) = schema else { return };
    map_of_patterns(object);
    tuple(object);
    for (_, property) in object.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        rewrite(property);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(key).filter(|inner| **inner != json!(false)) {
            rewrite(inner);
        }
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        object.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten().for_each(rewrite_part);
    }
    if let Some(inner) = object.get_mut("not") {
        constant(inner);
    }
    constant(schema);
    union::flatten(schema);
    let Value::Object(object) = schema else { return };
    types(object);
    null_values(object);
    numbers(object);
    list(object);
    additional(object);
    object.retain(|key, _| KEYWORDS.contains(&key.as_str()));
    if needs_type(object) {
        merge(schema, anything());
    }
}

/// Rewrites a variant, which needs no type of its own.
fn rewrite_part(schema: &mut Value) {
    // A variant of a flattened enum may be empty.
    if schema.as_object().is_some_and(|object| !object.is_empty()) {
        rewrite(schema);
    }
}

/// `anyOf` of a schema and null is the schema, and nullable.
fn collapse_optional(schema: &mut Value) {
    let is_null = |part: &Value| part.get("type") == Some(&json!("null"));
    let Some(parts) = schema.get_mut("anyOf").and_then(Value::as_array_mut) else {
        return;
    };
    if !parts.iter().any(is_null) {
        return;
    }
    parts.retain(|part| !is_null(part));
    let only = (parts.len() == 1).then(|| parts.remove(0));
    if let Some(mut only) = only {
        if let Value::Object(object) = schema {
            object.remove("anyOf");
        }
        if !only.is_object() {
            only = json!({});
        }
        merge(&mut only, std::mem::take(schema));
        *schema = only;
    }
    merge(schema, json!({"nullable": true}));
}

/// A map whose keys are not texts has patterns for them. JSON has texts only.
fn map_of_patterns(object: &mut Map<String, Value>) {
    let Some(Value::Object(patterns)) = object.remove("patternProperties") else {
        return;
    };
    let mut values = patterns.into_iter().map(|(_, value)| value);
    if let (Some(value), None) = (values.next(), values.next()) {
        object.insert("additionalProperties".to_owned(), value);
    } else {
        object.insert("additionalProperties".to_owned(), json!(true));
    }
}

/// A tuple becomes a list: of its type if all its fields have the same one, else of any values.
fn tuple(object: &mut Map<String, Value>) {
    let Some(Value::Array(fields)) = object.remove("prefixItems") else {
        return;
    };
    let item = match fields.split_first() {
        Some((first, rest)) if rest.iter().all(|other| other == first) => first.clone(),
        _ => json!(true),
    };
    object.insert("items".to_owned(), item);
}

fn constant(schema: &mut Value) {
    if let Some(object) = schema.as_object_mut()
        && let Some(value) = object.remove("const")
    {
        object.insert("enum".to_owned(), json!([value]));
    }
}

/// A list of types is one type, and nullable; or it is an integer or a string; or it is anything.
fn types(object: &mut Map<String, Value>) {
    let Some(Value::Array(types)) = object.get("type") else {
        if object.get("type") == Some(&json!("null")) {
            object.remove("type");
            object.insert("nullable".to_owned(), json!(true));
        }
        return;
    };
    let mut types: Vec<String> = types.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
    let all = types.len();
    types.retain(|name| name != "null");
    if types.len() < all {
        object.insert("nullable".to_owned(), json!(true));
    }
    object.remove("type");
    types.sort();
    match types.as_slice() {
        [one] => object.insert("type".to_owned(), json!(one)),
        [a, b] if a == "integer" && b == "string" => {
            object.insert("x-kubernetes-int-or-string".to_owned(), json!(true))
        }
        _ => None,
    };
}

/// Null is no default, and `nullable` permits it beside an `enum`.
fn null_values(object: &mut Map<String, Value>) {
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
    if let Some(values) = object.get_mut("enum").and_then(Value::as_array_mut) {
        let all = values.len();
        values.retain(|value| !value.is_null());
        if values.len() < all {
            object.insert("nullable".to_owned(), json!(true));
        }
    }
}

fn numbers(object: &mut Map<String, Value>) {
    let format = object.get("format").and_then(Value::as_str).unwrap_or_default().to_owned();
    if format == "uint32" {
        object.entry("maximum").or_insert_with(|| json!(u32::MAX));
    }
    if !formats::is_known(&format) {
        object.remove("format");
    }
    // A limit that is excluded is a flag in the dialect of definitions.
    for (exclusive, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if let Some(value) = object.get(exclusive).filter(|value| value.is_number()).cloned() {
            object.insert(limit.to_owned(), value);
            object.insert(exclusive.to_owned(), json!(true));
        }
    }
}

/// A definition must not ask for unique items. A set of scalars is a list type; other sets are not validated.
fn list(object: &mut Map<String, Value>) {
    if object.remove("uniqueItems") == Some(json!(true)) {
        let item = object.get("items").and_then(|items| items.get("type")).and_then(Value::as_str);
        if matches!(item, Some("string" | "integer" | "number" | "boolean")) {
            object.entry("x-kubernetes-list-type").or_insert_with(|| json!("set"));
        }
    }
    if object.get("type") == Some(&json!("array")) {
        object.entry("items").or_insert_with(anything);
    }
}

/// A definition must not have both properties and additional ones.
fn additional(object: &mut Map<String, Value>) {
    let has_properties = object.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
    match object.get("additionalProperties") {
        Some(Value::Bool(false)) => drop(object.remove("additionalProperties")),
        Some(_) if has_properties => {
            object.remove("additionalProperties");
            object.insert("x-kubernetes-preserve-unknown-fields".to_owned(), json!(true));
        }
        _ => {}
    }
    if has_properties {
        object.entry("type").or_insert_with(|| json!("object"));
    }
}

fn needs_type(object: &Map<String, Value>) -> bool {
    let is_set = |key: &str| object.get(key) == Some(&json!(true));
    !object.contains_key("type")
        && !is_set("x-kubernetes-int-or-string")
        && !is_set("x-kubernetes-preserve-unknown-fields")
}
