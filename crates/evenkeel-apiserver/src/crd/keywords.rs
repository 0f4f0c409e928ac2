//! The rules for single keywords of a schema, at any position (CRD-5).

use std::collections::HashSet;

use serde_json::{Value, json};

use super::structure::{at_property, entries, within};
use super::{flag, list, text, texts};
use crate::field::{FieldError, is_full};
use crate::schema::path::Path;

/// Checks a schema from its root down.
pub(super) fn check(schema: &Value, path: &mut Path, errors: &mut Vec<FieldError>) {
    keywords(schema, &Restrictions::default(), true, path, errors);
}

/// The restrictions that a schema's position imposes.
#[derive(Clone, Default)]
struct Restrictions {
    /// Why defaults are forbidden.
    no_defaults: Option<String>,
    inside_metadata: bool,
}

fn keywords(schema: &Value, restrictions: &Restrictions, is_root: bool, path: &mut Path, errors: &mut Vec<FieldError>) {
    unsupported(schema, restrictions, path, errors);
    let properties = schema.get("properties").unwrap_or(&Value::Null);
    if let Some(additional) = schema.get("additionalProperties") {
        if entries(properties).next().is_some() && *additional != Value::Bool(true) {
            let detail = "additionalProperties and properties are mutual exclusive";
            errors.push(FieldError::forbidden(path.child("additionalProperties"), detail));
        }
        let mut inner = restrictions.clone();
        if restrictions.inside_metadata {
            inner.no_defaults = Some("inside additionalProperties applying to object metadata".to_owned());
        }
        within(path, "additionalProperties", |path| {
            keywords(additional, &inner, false, path, errors);
        });
    }
    let is_resource = is_root || flag(schema, &["x-kubernetes-embedded-resource"]);
    for (name, property) in entries(properties) {
        let mut inner = restrictions.clone();
        if is_resource && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
            inner.inside_metadata = true;
            if is_root {
                inner.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        at_property(path, name, |path| keywords(property, &inner, false, path, errors));
    }
    if let Some(not) = schema.get("not") {
        within(path, "not", |path| keywords(not, restrictions, false, path, errors));
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        for (index, part) in list(schema, &[key]).iter().enumerate() {
            within(path, &format!("{key}[{index}]"), |path| {
                keywords(part, restrictions, false, path, errors);
            });
        }
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        within(path, "items", |path| keywords(items, restrictions, false, path, errors));
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        errors.push(FieldError::invalid(
            path.child("x-kubernetes-preserve-unknown-fields"),
            &Value::from(false),
            "must be true or undefined",
        ));
    }
    merge_keywords(schema, path, errors);
}

/// Checks for keywords of OpenAPI that definitions must not use.
fn unsupported(schema: &Value, restrictions: &Restrictions, path: &Path, errors: &mut Vec<FieldError>) {
    const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
    let kind = text(schema, &["type"]);
    if !kind.is_empty() && !TYPES.contains(&kind) {
        let place = path.child("type");
        errors.push(FieldError::not_supported(place, &Value::from(kind), &TYPES));
    }
    let mut forbid = |key: &str, detail: String| errors.push(FieldError::forbidden(path.child(key), detail));
    if let (Some(reason), Some(_)) = (&restrictions.no_defaults, schema.get("default")) {
        forbid("default", format!("must not be set {reason}"));
    }
    for key in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if schema.get(key).is_some_and(|value| !value.is_null()) {
            forbid(key, format!("{key} is not supported"));
        }
    }
    if kind == "null" {
        forbid("type", "type cannot be set to null, use nullable as an alternative".to_owned());
    }
    if schema.get("items").is_some_and(Value::is_array) {
        forbid("items", "items must be a schema object and not an array".to_owned());
    }
    if restrictions.inside_metadata && flag(schema, &["x-kubernetes-embedded-resource"]) {
        let detail = "must not be used inside of resource meta".to_owned();
        forbid("x-kubernetes-embedded-resource", detail);
    }
    if flag(schema, &["uniqueItems"]) {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        forbid("uniqueItems", detail.to_owned());
    }
}

/// Checks `x-kubernetes-map-type`, `x-kubernetes-list-type` and `x-kubernetes-list-map-keys`.
fn merge_keywords(schema: &Value, path: &mut Path, errors: &mut Vec<FieldError>) {
    let kind = text(schema, &["type"]);
    let choice = |key: &str| schema.get(key).and_then(Value::as_str);
    let (map_type, list_type) = (choice("x-kubernetes-map-type"), choice("x-kubernetes-list-type"));
    let keys: Vec<&str> = texts(schema, &["x-kubernetes-list-map-keys"]).collect();
    for (value, key, needed, known) in [
        (map_type, "x-kubernetes-map-type", "object", &["atomic", "granular"][..]),
        (list_type, "x-kubernetes-list-type", "array", &["atomic", "set", "map"][..]),
    ] {
        let Some(value) = value else { continue };
        if kind != needed {
            let detail = format!("must be {needed} if {key} is specified");
            errors.push(if kind.is_empty() {
                FieldError::required(path.child("type"), detail)
            } else {
                FieldError::invalid(path.child("type"), &Value::from(kind), detail)
            });
        }
        if !known.contains(&value) {
            let place = path.child(key);
            errors.push(FieldError::not_supported(place, &Value::from(value), known));
        }
    }
    if !keys.is_empty() && list_type != Some("map") {
        let place = path.child("x-kubernetes-list-type");
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match list_type {
            None => FieldError::required(place, detail),
            Some(other) => FieldError::invalid(place, &Value::from(other), detail),
        });
    }
    let items = schema.get("items").filter(|items| items.is_object());
    match (list_type, items) {
        (Some("set"), Some(items)) => within(path, "items", |path| set_items(items, path, errors)),
        (Some("map"), items) => map_items(schema, items, &keys, path, errors),
        _ => {}
    }
    if let (Some(list_type @ ("set" | "map")), Some(items)) = (list_type, items)
        && flag(items, &["nullable"])
    {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(path.child("items.nullable"), detail));
    }
}

/// Checks that the items of a set are atomic.
fn set_items(items: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let key = match text(items, &["type"]) {
        "array" if !matches!(text(items, &["x-kubernetes-list-type"]), "" | "atomic") => "x-kubernetes-list-type",
        "object" if text(items, &["x-kubernetes-map-type"]) != "atomic" => "x-kubernetes-map-type",
        _ => return,
    };
    let value = items.get(key).cloned().unwrap_or_default();
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    errors.push(FieldError::invalid(path.child(key), &value, detail));
}

/// Checks that the items of a map are objects whose keys are scalars and required or defaulted.
fn map_items(schema: &Value, items: Option<&Value>, keys: &[&str], path: &Path, errors: &mut Vec<FieldError>) {
    let keys_place = path.child("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(keys_place.clone(), detail));
    }
    let Some(items) = items else {
        if schema.get("items").is_none() {
            let detail = "must have a schema if x-kubernetes-list-type is map";
            errors.push(FieldError::required(path.child("items"), detail));
        }
        return;
    };
    let kind = text(items, &["type"]);
    if kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        let place = path.child("items.type");
        errors.push(FieldError::invalid(place, &Value::from(kind), detail));
        return;
    }
    let keys_value = json!(keys);
    let required: HashSet<&str> = texts(items, &["required"]).collect();
    let mut seen: HashSet<&str> = HashSet::new();
    for key in keys {
        if is_full(errors) {
            return;
        }
        let place = path.child(&format!("items.properties[{key}]"));
        match items.get("properties").and_then(|all| all.get(key)) {
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(keys_place.clone(), &keys_value, detail));
            }
            Some(property) => {
                if matches!(text(property, &["type"]), "array" | "object") {
                    let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    let place = format!("{place}.type");
                    errors.push(FieldError::invalid(place, &Value::from(kind), detail));
                }
                if !required.contains(key) && property.get("default").is_none() {
                    let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a \
                                  required property";
                    errors.push(FieldError::required(format!("{place}.default"), detail));
                }
                if flag(property, &["nullable"]) {
                    let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                    errors.push(FieldError::forbidden(format!("{place}.nullable"), detail));
                }
            }
        }
        if !seen.insert(key) {
            let detail = "must not contain duplicate entries";
            errors.push(FieldError::invalid(keys_place.clone(), &keys_value, detail));
        }
    }
}
