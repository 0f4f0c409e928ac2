//! Checks shared by several kinds: numbers, immutability, label selectors.

use std::fmt;

use serde_json::Value;

use crate::field::FieldError;
use crate::meta::{self, NEGATIVE, label_value, qualified_name, refuse};

use super::fill::{at, list_at, text_at};

/// Requires that `parent.key` is not negative.
pub(super) fn nonnegative(errors: &mut Vec<FieldError>, object: &Value, parent: &str, key: &str) {
    if let Some(value) = object.get(key)
        && value.as_i64().is_some_and(|number| number < 0)
    {
        errors.push(FieldError::invalid(format!("{parent}.{key}"), value, NEGATIVE));
    }
}

/// Requires that the field at `path` (keys from the object down) is unchanged.
pub(super) fn immutable(errors: &mut Vec<FieldError>, new: &Value, old: &Value, path: &[&str]) {
    let value = at(new, path);
    if !same(value, at(old, path)) {
        errors.push(FieldError::invalid(path.join("."), value.unwrap_or(&Value::Null), "field is immutable"));
    }
}

/// Returns whether two values are equivalent: absent, null, an empty list and an empty map are the same.
pub(super) fn same(one: Option<&Value>, other: Option<&Value>) -> bool {
    match (significant(one), significant(other)) {
        (None, None) => true,
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            one.iter().all(|(key, value)| same(Some(value), other.get(key)))
                && other.iter().all(|(key, value)| one.contains_key(key) || same(None, Some(value)))
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(Some(one), Some(other)))
        }
        (one, other) => one == other,
    }
}

/// Returns whether two objects are equivalent, as Go's semantic equality has it.
pub(crate) fn same_value(one: &Value, other: &Value) -> bool {
    same(Some(one), Some(other))
}

fn significant(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| match value {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    })
}

/// Requires that `parent.key`, if present, is one of `supported`.
pub(super) fn supported(
    errors: &mut Vec<FieldError>,
    object: &Value,
    parent: impl fmt::Display,
    key: &str,
    supported: &[&str],
) {
    if let Some(value) = object.get(key).filter(|value| !value.is_null())
        && !value.as_str().is_some_and(|text| supported.contains(&text))
    {
        errors.push(FieldError::not_supported(format!("{parent}.{key}"), value, supported));
    }
}

/// Checks a selector with `matchLabels` and `matchExpressions`.
pub(super) fn label_selector(errors: &mut Vec<FieldError>, selector: &Value, path: &str) {
    meta::validate_labels(selector.get("matchLabels"), &format!("{path}.matchLabels"), errors);
    for (index, expression) in list_at(selector, &["matchExpressions"]).iter().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        let values = list_at(expression, &["values"]);
        match text_at(expression, &["operator"]) {
            "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
                format!("{path}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "In" | "NotIn" => {}
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
                format!("{path}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "Exists" | "DoesNotExist" => {}
            other => errors.push(FieldError::invalid(
                format!("{path}.operator"),
                &Value::from(other),
                "not a valid selector operator",
            )),
        }
        let key = text_at(expression, &["key"]);
        refuse(errors, format_args!("{path}.key"), key, qualified_name(key));
        for (index, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            refuse(errors, format_args!("{path}.values[{index}]"), value, label_value(value));
        }
    }
}

/// Returns whether a selector has no requirements.
pub(super) fn selects_all(selector: &Value) -> bool {
    same(selector.get("matchLabels"), None) && same(selector.get("matchExpressions"), None)
}

/// Returns whether a selector that passed [`label_selector`] matches these labels.
pub(super) fn matches(selector: &Value, labels: Option<&Value>) -> bool {
    selector_matches(selector, |key| labels?.get(key)?.as_str())
}

/// Returns whether a selector that passed [`label_selector`] matches an object; `label` looks up its labels.
pub(crate) fn selector_matches<'a>(selector: &Value, label: impl Fn(&str) -> Option<&'a str>) -> bool {
    let by_labels = match selector.get("matchLabels").and_then(Value::as_object) {
        Some(wanted) => wanted.iter().all(|(key, value)| label(key) == value.as_str()),
        None => true,
    };
    by_labels
        && list_at(selector, &["matchExpressions"]).iter().all(|expression| {
            let found = label(text_at(expression, &["key"]));
            let values = list_at(expression, &["values"]);
            let listed = found.is_some_and(|found| values.iter().any(|value| value.as_str() == Some(found)));
            match text_at(expression, &["operator"]) {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}
