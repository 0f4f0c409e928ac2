//! JSON Merge Patch (RFC 7386).

use serde_json::{Map, Value};

use super::PatchError;
use crate::go_json::kind_of;

/// Applies the merge patch in `body` (PAT-6).
///
/// On an error the document is unchanged.
pub(crate) fn apply_merge_patch(doc: &mut Value, body: &[u8]) -> Result<(), PatchError> {
    let patch: Value = serde_json::from_slice(body).map_err(|_| PatchError::NotJson)?;
    match patch {
        Value::Object(_) => {
            merge(doc, patch);
            Ok(())
        }
        Value::Null => Err(PatchError::NullMerge),
        other => Err(PatchError::Shape(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            kind_of(&other)
        ))),
    }
}

/// Merges `patch` into `target`: `null` deletes, objects merge, everything else replaces.
///
/// The recursion is as deep as the patch, which the JSON parser bounds. The result is no deeper than the deeper of the
/// two.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(&name);
        } else {
            merge(target.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// Returns the merge patch that turns `from` into `to`, if there is one: a merge patch cannot write a `null`.
#[cfg(test)]
pub(crate) fn create_merge_patch(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return to.clone();
    };
    let mut patch = Map::new();
    for name in from.keys().filter(|name| !to.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in to {
        match from.get(name) {
            Some(old) if old == value => {}
            // An object replaces a non-object as a whole, which is the same as merging into nothing.
            Some(old) => drop(patch.insert(name.clone(), create_merge_patch(old, value))),
            None => drop(patch.insert(name.clone(), value.clone())),
        }
    }
    Value::Object(patch)
}
