//! The last-applied annotation of client-side apply, for the migration to server-side apply with kubectl (SSA-16).

use serde_json::Value;

use super::FieldTypes;
use super::compare::changes;
use super::conflict::Conflict;
use super::fields::fields_of;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The size limit of the annotation; a longer one is dropped.
const MAX_BYTES: usize = 256 << 10;

/// Drops the conflicts about fields that still have the value in the annotation: kubectl set them as another manager.
/// Without a readable annotation all conflicts remain.
pub(super) fn drop_kubectl_conflicts<T: FieldTypes>(
    conflicts: &mut Vec<Conflict<'_>>,
    live: &Value,
    types: Option<&T>,
    api_version: &str,
) {
    let annotation = live.get("metadata").and_then(|metadata| metadata.get("annotations")?.get(ANNOTATION)?.as_str());
    let Some(last) = annotation.and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
        return;
    };
    if last.get("apiVersion").and_then(Value::as_str) != Some(api_version) {
        return;
    }
    let mut unchanged = fields_of(&last, types);
    let since = changes(Some(&last), live, types);
    for changed in [&since.added, &since.modified, &since.removed] {
        unchanged.subtract(changed);
    }
    conflicts.retain_mut(|conflict| {
        conflict.fields.subtract(&unchanged);
        !conflict.fields.is_empty()
    });
}

/// Updates the annotation of an object, so that its owner can return to client-side apply.
pub(super) fn refresh(object: &mut Value, intent: &Value) {
    let annotations = object.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    let Some(Value::Object(annotations)) = annotations else {
        return;
    };
    if annotations.get(ANNOTATION).and_then(Value::as_str).is_none_or(str::is_empty) {
        return;
    }
    let mut applied = intent.clone();
    if let Some(Value::Object(annotations)) =
        applied.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"))
    {
        annotations.remove(ANNOTATION);
    }
    let text = format!("{applied}\n");
    if text.len() > MAX_BYTES {
        annotations.remove(ANNOTATION);
    } else {
        annotations.insert(ANNOTATION.to_owned(), Value::String(text));
    }
}
