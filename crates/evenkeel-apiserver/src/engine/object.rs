//! Helpers that read and write objects as JSON values.

use serde_json::{Map, Value};

use crate::registry::Resource;
use crate::store::Facts;

/// Returns the metadata of an object; null if it has none.
pub(crate) fn metadata(object: &Value) -> &Value {
    object.get("metadata").unwrap_or(&Value::Null)
}

/// Returns a string of the metadata; empty if absent.
pub(crate) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    metadata(object).get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the metadata of an object and creates it if absent. A value that is not an object is replaced by one.
pub(crate) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    fields_of(fields_of(object).entry("metadata").or_insert(Value::Null))
}

fn fields_of(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(fields) => fields,
        _ => unreachable!("the value was replaced by an object above"),
    }
}

/// Returns whether `metadata.deletionTimestamp` is set.
pub(crate) fn is_deleting(object: &Value) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

pub(crate) fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    let list = metadata(object).get("finalizers").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    list.iter().filter_map(Value::as_str)
}

/// Replaces the finalizers. An empty list removes the field.
pub(crate) fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    let metadata = metadata_mut(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), finalizers.into());
    }
}

/// Copies a top-level field. A field that `from` lacks is removed.
pub(crate) fn copy_field(to: &mut Value, from: &Value, key: &str) {
    let Some(fields) = to.as_object_mut() else { return };
    match from.get(key) {
        Some(value) => fields.insert(key.to_owned(), value.clone()),
        None => fields.remove(key),
    };
}

/// Sets a field by its path and creates missing parents. `None` removes the field.
pub(crate) fn set_path(object: &mut Value, path: &[&str], value: Option<Value>) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut parent = object;
    for key in parents {
        let Some(fields) = parent.as_object_mut() else { return };
        parent = fields.entry(*key).or_insert_with(|| Value::Object(Map::new()));
    }
    let Some(fields) = parent.as_object_mut() else { return };
    match value {
        Some(value) => fields.insert((*last).to_owned(), value),
        None => fields.remove(*last),
    };
}

/// Returns the facts that the store keeps parsed beside the bytes of an object.
pub(crate) fn facts(resource: &Resource, object: &Value) -> Facts {
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
        owned: metadata(object)
            .get("ownerReferences")
            .and_then(Value::as_array)
            .is_some_and(|references| !references.is_empty()),
        schema_stamp: resource.custom.as_ref().map_or(0, |custom| custom.schema_stamp),
    }
}

/// Returns a value as field selectors compare it.
fn selectable_text(value: Option<&Value>) -> Option<Box<str>> {
    match value? {
        Value::String(text) => Some(text.as_str().into()),
        Value::Number(number) => Some(number.to_string().into()),
        Value::Bool(flag) => Some(flag.to_string().into()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
