//! Small reads and writes on an object's tree.

use serde_json::{Map, Value};

use crate::registry::Resource;
use crate::store::Facts;

/// The metadata of an object; null if it has none.
pub(super) fn metadata(object: &Value) -> &Value {
    object.get("metadata").unwrap_or(&Value::Null)
}

/// A text of the metadata; empty if absent.
pub(super) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    metadata(object).get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The metadata of an object, made if need be. What is no object becomes one.
pub(super) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    fields_of(fields_of(object).entry("metadata").or_insert(Value::Null))
}

fn fields_of(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(fields) => fields,
        _ => unreachable!("it has just been made an object"),
    }
}

/// Whether `metadata.deletionTimestamp` is set.
pub(super) fn is_deleting(object: &Value) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

pub(super) fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    let list = metadata(object).get("finalizers").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    list.iter().filter_map(Value::as_str)
}

/// Replaces the finalizers; an empty list is no list.
pub(super) fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    let metadata = metadata_mut(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), finalizers.into());
    }
}

/// Moves a top-level field from one object to another: present, replaced; absent, removed.
pub(super) fn copy_field(to: &mut Value, from: &Value, key: &str) {
    let Some(fields) = to.as_object_mut() else { return };
    match from.get(key) {
        Some(value) => fields.insert(key.to_owned(), value.clone()),
        None => fields.remove(key),
    };
}

/// The facts that the store keeps parsed beside an object's bytes.
pub(super) fn facts(resource: &Resource, object: &Value) -> Facts {
    let labels = metadata(object).get("labels").and_then(Value::as_object);
    let labels =
        labels.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())));
    let selectable = if resource.custom.is_none() { &resource.strategy.selectable[..] } else { &[] };
    let fields = selectable.iter().map(|field| {
        let value = field.path.iter().try_fold(object, |value, key| value.get(key));
        selectable_text(value).unwrap_or_else(|| resource.absent_field(&field.label).into())
    });
    Facts {
        uid: text(object, "uid").into(),
        labels: labels.collect(),
        fields: fields.collect(),
        deleting: is_deleting(object),
        schema_stamp: resource.custom.as_ref().map_or(0, |custom| custom.schema_stamp),
    }
}

/// A value as field selectors compare it.
fn selectable_text(value: Option<&Value>) -> Option<Box<str>> {
    match value? {
        Value::String(text) => Some(text.as_str().into()),
        Value::Number(number) => Some(number.to_string().into()),
        Value::Bool(flag) => Some(flag.to_string().into()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
