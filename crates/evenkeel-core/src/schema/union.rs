//! Enums: a structural schema has the properties of all variants, and its variants contain no structure.

use serde_json::{Map, Value, json};

use super::inline::{anything, merge};

/// Moves the structure of `oneOf`, `anyOf` and `allOf` into the schema itself.
pub(super) fn flatten(schema: &mut Value) {
    for key in ["oneOf", "anyOf", "allOf"] {
        let Some(Value::Array(parts)) = schema.as_object_mut().and_then(|object| object.remove(key)) else {
            continue;
        };
        let parts: Vec<Map<String, Value>> =
            parts.into_iter().map(|part| part.as_object().cloned().unwrap_or_default()).collect();
        let replaced = if parts.iter().all(|part| part.contains_key("enum")) {
            names(&parts)
        } else if parts.iter().all(is_object) {
            Some(objects(key, parts, schema))
        } else {
            int_or_string(&parts)
        };
        // Variants of different types have no structural form.
        merge(schema, replaced.unwrap_or_else(anything));
    }
}

fn is_object(part: &Map<String, Value>) -> bool {
    part.is_empty() || part.get("type") == Some(&json!("object"))
}

/// Variants without fields: one list of names.
fn names(parts: &[Map<String, Value>]) -> Option<Value> {
    let kind = parts.first()?.get("type")?;
    let values: Vec<&Value> = parts.iter().filter_map(|part| part["enum"].as_array()).flatten().collect();
    let is_plain = parts.iter().all(|part| part.get("type") == Some(kind));
    is_plain.then(|| json!({"type": kind, "enum": values}))
}

fn int_or_string(parts: &[Map<String, Value>]) -> Option<Value> {
    let has = |name: &str| parts.iter().any(|part| part.get("type") == Some(&json!(name)));
    (parts.len() == 2 && has("integer") && has("string")).then(|| json!({"x-kubernetes-int-or-string": true}))
}

/// Variants with fields: the properties of all of them. If each variant requires a property that no other has, exactly that is
/// validated; otherwise only what all variants require.
fn objects(key: &str, parts: Vec<Map<String, Value>>, around: &Value) -> Value {
    let mut properties = around.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut required: Vec<Vec<Value>> = Vec::new();
    let mut keeps_unknown = false;
    for mut part in parts {
        keeps_unknown |=
            part.contains_key("x-kubernetes-preserve-unknown-fields") || part.contains_key("additionalProperties");
        required.push(part.get("required").and_then(Value::as_array).cloned().unwrap_or_default());
        let description = part.remove("description");
        let Some(Value::Object(mut own)) = part.remove("properties") else {
            continue;
        };
        // The documentation of a variant is that of its only property.
        if let (1, Some(description), "oneOf") = (own.len(), description, key) {
            own.values_mut().for_each(|property| merge(property, json!({"description": description})));
        }
        for (name, property) in own {
            match properties.get_mut(&name) {
                Some(present) => *present = either(present, property),
                None => drop(properties.insert(name, property)),
            }
        }
    }
    let mut result = json!({"type": "object", "properties": properties});
    if keeps_unknown {
        result["x-kubernetes-preserve-unknown-fields"] = json!(true);
    }
    let mut common = around.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    if key == "allOf" {
        common.extend(required.into_iter().flatten());
    } else {
        let of_all = |name: &Value| required.iter().all(|names| names.contains(name));
        let shared: Vec<Value> = required.first().into_iter().flatten().filter(|name| of_all(name)).cloned().collect();
        required.iter_mut().for_each(|names| names.retain(|name| !shared.contains(name)));
        common.extend(shared);
        // Variants that exclude one another need a property that distinguishes them.
        if required.iter().all(|names| !names.is_empty()) {
            result[key] = required.iter().map(|names| json!({"required": names})).collect();
        }
    }
    if !common.is_empty() {
        common.sort_by_key(ToString::to_string);
        common.dedup();
        result["required"] = common.into();
    }
    result
}

/// Returns a schema for a property of two variants: of both lists of names, else of any value.
fn either(one: &Value, other: Value) -> Value {
    if *one == other {
        return other;
    }
    let names = |schema: &Value| schema.get("enum").and_then(Value::as_array).cloned();
    match (names(one), names(&other)) {
        (Some(mut all), Some(more)) if one.get("type") == other.get("type") => {
            all.extend(more.into_iter().filter(|name| !one["enum"].as_array().is_some_and(|all| all.contains(name))));
            json!({"type": one["type"], "enum": all})
        }
        _ => anything(),
    }
}
