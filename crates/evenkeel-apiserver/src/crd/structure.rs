//! Structural schemas, and the other rules for schemas of definitions (CRD-5).
//!
//! A schema is checked in four passes: the keywords at its root, the structural invariants, the defaults, and the
//! rules for single keywords. Defaults are checked only if the schema is structural.

use serde_json::{Map, Value, json};

use super::patterns::Patterns;
use super::rules::RuleTree;
use super::{flag, keywords, list, text};
use crate::field::FieldError;
use crate::schema::Schema;
use crate::schema::path::Path;

/// Returns all errors of a schema. `path` is its path in the definition.
pub(super) fn check<'a>(
    schema: &'a Value,
    path: &str,
    has_status: bool,
    patterns: &mut Patterns<'a>,
) -> Vec<FieldError> {
    // Also bounds the depth of the following passes.
    if let Err(fault) = Schema::structural(schema) {
        return vec![FieldError::invalid(path, &Value::from(""), fault.to_string())];
    }
    let mut errors = Vec::new();
    if has_status {
        root(schema, path, &mut errors);
    }
    if flag(schema, &["nullable"]) {
        let detail = "nullable cannot be true at the root";
        errors.push(FieldError::forbidden(format!("{path}.nullable"), detail));
    }
    let mut rounds = Vec::new();
    let mut place = Path::from(path.to_owned());
    invariants(schema, Level::Root, &mut place, &mut rounds);
    completeness(schema, schema, path, path, &mut rounds);
    patterns.check(schema, &mut place, &mut rounds);
    rounds.sort_by_cached_key(ToString::to_string);
    if rounds.is_empty() {
        defaults(schema, &mut place, &mut rounds);
    }
    errors.append(&mut rounds);
    keywords::check(schema, &mut place, &mut errors);
    errors
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Keywords that are allowed beside a status sub-resource, whose schema is a property of the root.
const ROOT_KEYWORDS: &[(&str, &str)] = &[
    ("description", "Description"),
    ("type", "Type"),
    ("format", "Format"),
    ("title", "Title"),
    ("maximum", "Maximum"),
    ("exclusiveMaximum", "ExclusiveMaximum"),
    ("minimum", "Minimum"),
    ("exclusiveMinimum", "ExclusiveMinimum"),
    ("maxLength", "MaxLength"),
    ("minLength", "MinLength"),
    ("pattern", "Pattern"),
    ("maxItems", "MaxItems"),
    ("minItems", "MinItems"),
    ("uniqueItems", "UniqueItems"),
    ("multipleOf", "MultipleOf"),
    ("required", "Required"),
    ("items", "Items"),
    ("properties", "Properties"),
    ("externalDocs", "ExternalDocs"),
    ("example", "Example"),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields"),
    ("x-kubernetes-validations", "XValidations"),
];

fn root(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let kind = text(schema, &["type"]);
    if !kind.is_empty() && kind != "object" {
        let detail =
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(FieldError::invalid(format!("{path}.type"), &Value::from(kind), detail));
    }
    let is_set = |value: &Value| !matches!(value, Value::Null | Value::Bool(false)) && *value != json!("");
    let stray =
        entries(schema).any(|(key, value)| is_set(value) && !ROOT_KEYWORDS.iter().any(|(known, _)| known == key));
    if stray {
        let known: Vec<&str> = ROOT_KEYWORDS.iter().map(|(_, name)| *name).collect();
        let detail = format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
            known.join(" ")
        );
        errors.push(FieldError::invalid(path, schema, detail));
    }
}

pub(super) fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn invariants(schema: &Value, level: Level, path: &mut Path, errors: &mut Vec<FieldError>) {
    let kind = text(schema, &["type"]);
    let embedded = flag(schema, &["x-kubernetes-embedded-resource"]);
    let preserve = flag(schema, &["x-kubernetes-preserve-unknown-fields"]);
    let int_or_string = flag(schema, &["x-kubernetes-int-or-string"]);
    let additional = schema.get("additionalProperties");

    match schema.get("items") {
        Some(items) if items.is_object() => within(path, "items", |path| {
            invariants(items, Level::Item, path, errors);
        }),
        _ if kind == "array" => errors.push(FieldError::required(path.child("items"), "must be specified")),
        _ => {}
    }
    for (name, property) in entries(schema.get("properties").unwrap_or(&Value::Null)) {
        at_property(path, name, |path| invariants(property, Level::Field, path, errors));
    }
    if let Some(additional) = additional {
        if level == Level::Root {
            let detail = "must not be used at the root";
            errors.push(FieldError::forbidden(path.child("additionalProperties"), detail));
        }
        if additional.is_object() {
            within(path, "additionalProperties", |path| {
                invariants(additional, Level::Field, path, errors);
            });
        }
        if embedded {
            let detail = "must not be used if x-kubernetes-embedded-resource is set";
            errors.push(FieldError::forbidden(path.child("additionalProperties"), detail));
        }
    }
    for (key, set) in [("x-kubernetes-preserve-unknown-fields", preserve), ("x-kubernetes-embedded-resource", embedded)]
    {
        if int_or_string && set {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(path.child(key), &Value::from(true), detail));
        }
    }
    values(schema, is_either_pattern(schema), path, errors);

    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if kind.is_empty() {
            FieldError::required(path.child("type"), detail)
        } else {
            FieldError::invalid(path.child("type"), &Value::from(kind), detail)
        });
    } else if kind.is_empty() && !int_or_string && !preserve {
        let place = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field => "for specified object fields",
        };
        let detail = format!("must not be empty {place}");
        errors.push(FieldError::required(path.child("type"), detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        let detail = "must be object at the root";
        errors.push(FieldError::invalid(path.child("type"), &Value::from(kind), detail));
    }
    metadata(schema, level, embedded, path, errors);
    let no_properties = entries(schema.get("properties").unwrap_or(&Value::Null)).next().is_none();
    if embedded && !preserve && no_properties {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(path.child("properties"), detail));
    }
}

/// Checks that the schema restricts only the name within the metadata of an object.
fn metadata(schema: &Value, level: Level, embedded: bool, path: &Path, errors: &mut Vec<FieldError>) {
    let is_resource = level == Level::Root || embedded;
    let place = |name: &str| path.child(&format!("properties[{name}]"));
    let property = |name: &str| schema.get("properties").and_then(|all| all.get(name));
    for name in ["kind", "apiVersion"] {
        if let Some(property) = property(name).filter(|_| is_resource) {
            let kind = text(property, &["type"]);
            if kind != "string" {
                let place = format!("{}.type", place(name));
                errors.push(FieldError::invalid(place, &Value::from(kind), "must be string"));
            }
        }
    }
    let Some(property) = property("metadata") else {
        return;
    };
    let kind = text(property, &["type"]);
    if is_resource && kind != "object" {
        let place = format!("{}.type", place("metadata"));
        errors.push(FieldError::invalid(place, &Value::from(kind), "must be object"));
    }
    if level == Level::Root {
        let only_known = entries(property).all(|(key, value)| match key.as_str() {
            "type" | "default" => true,
            "properties" => entries(value).all(|(name, _)| matches!(name.as_str(), "name" | "generateName")),
            _ => value.is_null(),
        });
        if !only_known {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly \
                          specified";
            errors.push(FieldError::forbidden(place("metadata"), detail));
        }
    }
}

/// The form of the only exception to structure: `anyOf` of integer and string, alone or first in `allOf`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Either {
    any_of: bool,
    first_of_all: bool,
}

fn is_either_pattern(schema: &Value) -> Either {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    Either {
        any_of: schema.get("anyOf") == Some(&either),
        first_of_all: list(schema, &["allOf"]).first().and_then(|first| first.get("anyOf")) == Some(&either),
    }
}

/// Checks the value validations of a schema: they must not change its structure.
fn values(schema: &Value, either: Either, path: &mut Path, errors: &mut Vec<FieldError>) {
    for key in ["anyOf", "allOf", "oneOf"] {
        if key == "anyOf" && either.any_of {
            continue;
        }
        for (index, part) in list(schema, &[key]).iter().enumerate() {
            let inner = Either { any_of: key == "allOf" && index == 0 && either.first_of_all, ..Either::default() };
            within(path, &format!("{key}[{index}]"), |path| nested(part, inner, path, errors));
        }
    }
    if let Some(part) = schema.get("not") {
        within(path, "not", |path| nested(part, Either::default(), path, errors));
    }
}

fn nested(schema: &Value, either: Either, path: &mut Path, errors: &mut Vec<FieldError>) {
    values(schema, either, path, errors);
    if let Some(items) = schema.get("items") {
        within(path, "items", |path| nested(items, Either::default(), path, errors));
    }
    for (name, property) in entries(schema.get("properties").unwrap_or(&Value::Null)) {
        at_property(path, name, |path| nested(property, Either::default(), path, errors));
        if name == "metadata" {
            let detail = "must not be specified in a nested context";
            errors.push(FieldError::forbidden(path.child("properties[metadata]"), detail));
        }
    }
    for (key, word) in [
        ("type", "empty"),
        ("additionalProperties", "undefined"),
        ("default", "undefined"),
        ("title", "empty"),
        ("description", "empty"),
        ("nullable", "false"),
        ("x-kubernetes-preserve-unknown-fields", "false"),
        ("x-kubernetes-embedded-resource", "false"),
        ("x-kubernetes-int-or-string", "false"),
        ("x-kubernetes-list-map-keys", "empty"),
        ("x-kubernetes-list-type", "undefined"),
        ("x-kubernetes-map-type", "undefined"),
        ("x-kubernetes-validations", "empty"),
    ] {
        let is_set = match schema.get(key) {
            None | Some(Value::Null | Value::Bool(false)) => key == "additionalProperties" && schema.get(key).is_some(),
            Some(Value::String(text)) => !text.is_empty() || word == "undefined",
            Some(Value::Array(items)) => !items.is_empty(),
            Some(_) => true,
        };
        if is_set {
            let detail = format!("must be {word} to be structural");
            errors.push(FieldError::forbidden(path.child(key), detail));
        }
    }
}

/// Checks that fields of a nested part are also specified outside.
fn completeness(part: &Value, whole: &Value, whole_path: &str, path: &str, errors: &mut Vec<FieldError>) {
    let mut visit = |part: &Value, path: String| {
        nested_completeness(part, Some(whole), whole_path, &path, errors);
    };
    if let Some(not) = part.get("not") {
        visit(not, format!("{path}.not"));
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for (index, nested) in list(part, &[key]).iter().enumerate() {
            visit(nested, format!("{path}.{key}[{index}]"));
        }
    }
}

fn nested_completeness(
    part: &Value,
    whole: Option<&Value>,
    whole_path: &str,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let Some(whole) = whole else {
        let detail = format!("because it is defined in {path}");
        errors.push(FieldError::required(whole_path, detail));
        return;
    };
    completeness(part, whole, whole_path, path, errors);
    if let Some(items) = part.get("items") {
        let (whole_path, path) = (format!("{whole_path}.items"), format!("{path}.items"));
        nested_completeness(items, whole.get("items"), &whole_path, &path, errors);
    }
    for (name, property) in entries(part.get("properties").unwrap_or(&Value::Null)) {
        let counterpart = whole.get("properties").and_then(|all| all.get(name));
        let place = |path: &str| format!("{path}.properties[{name}]");
        nested_completeness(property, counterpart, &place(whole_path), &place(path), errors);
    }
}

/// Checks that defaults are valid and survive pruning.
fn defaults(schema: &Value, path: &mut Path, errors: &mut Vec<FieldError>) {
    if let Some(default) = schema.get("default").filter(|value| !value.is_null()) {
        let place = path.child("default");
        if let Ok(compiled) = Schema::fragment(schema) {
            let mut pruned = default.clone();
            if !compiled.prune(&mut pruned).is_empty() {
                errors.push(FieldError::invalid(&*place, default, "must not have unknown fields"));
            }
            let mut found = compiled.validate(default);
            if let Some(rules) = RuleTree::compile(schema, flag(schema, &["x-kubernetes-embedded-resource"])) {
                let findings = rules.validate(default, None, &found);
                found.extend(findings.errors);
            }
            errors.extend(found.into_iter().map(|mut error| {
                error.field = match error.field.as_str() {
                    "<nil>" => place.clone(),
                    inner => format!("{place}.{inner}"),
                };
                error
            }));
        }
    }
    if let Some(items) = schema.get("items") {
        within(path, "items", |path| defaults(items, path, errors));
    }
    for (name, property) in entries(schema.get("properties").unwrap_or(&Value::Null)) {
        at_property(path, name, |path| defaults(property, path, errors));
    }
}

pub(super) fn within(path: &mut Path, key: &str, visit: impl FnOnce(&mut Path)) {
    let mark = path.push(key);
    visit(path);
    path.back(mark);
}

pub(super) fn at_property(path: &mut Path, name: &str, visit: impl FnOnce(&mut Path)) {
    let mark = path.push("properties");
    path.push_key(name);
    visit(path);
    path.back(mark);
}
