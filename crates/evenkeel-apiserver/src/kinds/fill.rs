//! Helpers that fill in omitted fields.
//!
//! The server distinguishes two kinds of "omitted": a field that is a pointer in Kubernetes' Go types counts as unset
//! only when it is absent (or null), while a plain field also counts as unset when it has its zero value (`""` or
//! `0`). A table of [`DefaultRule`]s specifies which applies.

use evenkeel_core::quantity::ExactQuantity;
use serde_json::{Map, Value};

pub(super) type Object = Map<String, Value>;

/// A constant default.
#[derive(Clone, Copy)]
pub(super) enum Constant {
    Text(&'static str),
    Int(i64),
    Bool(bool),
    /// `{}`
    Empty,
    /// `null`, for times that are not set.
    Null,
}

impl From<Constant> for Value {
    fn from(constant: Constant) -> Value {
        match constant {
            Constant::Text(text) => text.into(),
            Constant::Int(number) => number.into(),
            Constant::Bool(truth) => truth.into(),
            Constant::Empty => Value::Object(Map::new()),
            Constant::Null => Value::Null,
        }
    }
}

/// The default of one field.
pub(super) struct DefaultRule {
    key: &'static str,
    value: Constant,
    replaces_zero: bool,
}

/// Returns the default of a field that counts as unset when it is absent or null.
pub(super) const fn absent(key: &'static str, value: Constant) -> DefaultRule {
    DefaultRule { key, value, replaces_zero: false }
}

/// Returns the default of a field that also counts as unset when it has its zero value.
pub(super) const fn zero(key: &'static str, value: Constant) -> DefaultRule {
    DefaultRule { key, value, replaces_zero: true }
}

/// Applies the rules to one object.
pub(super) fn fill(object: &mut Object, rules: &[DefaultRule]) {
    for rule in rules {
        let unset = match object.get(rule.key) {
            None | Some(Value::Null) => true,
            Some(Value::String(text)) => rule.replaces_zero && text.is_empty(),
            Some(Value::Number(number)) => rule.replaces_zero && number.as_i64() == Some(0),
            Some(_) => false,
        };
        if unset {
            object.insert(rule.key.to_owned(), rule.value.into());
        }
    }
}

/// Returns the child object, if there is one.
pub(super) fn child<'a>(object: &'a mut Object, key: &str) -> Option<&'a mut Object> {
    object.get_mut(key)?.as_object_mut()
}

/// Returns the child object, created if it is absent or null. `None` if the field has another type.
pub(super) fn ensure<'a>(object: &'a mut Object, key: &str) -> Option<&'a mut Object> {
    let slot = object.entry(key).or_insert(Value::Null);
    if slot.is_null() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut()
}

/// Returns the objects in a list.
pub(super) fn items<'a>(object: &'a mut Object, key: &str) -> impl Iterator<Item = &'a mut Object> {
    object.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Returns whether the field is absent or null.
pub(super) fn is_absent(object: &Object, key: &str) -> bool {
    object.get(key).is_none_or(Value::is_null)
}

/// Returns whether a list or a map is absent or empty.
pub(super) fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    }
}

/// Returns the string in a field; empty if absent.
pub(super) fn text<'a>(object: &'a Object, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the string at a path of keys; empty if absent.
pub(super) fn text_at<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the quantity that a string or a number spells.
pub(super) fn quantity(value: &Value) -> Option<ExactQuantity> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

/// Returns the value at a path of keys, unless it is absent or null.
pub(super) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key)).filter(|value| !value.is_null())
}

/// Returns the list at a path of keys; empty if absent.
pub(super) fn list_at<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
