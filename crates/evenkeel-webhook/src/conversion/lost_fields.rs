//! Keeps what a conversion loses, in an annotation of the converted object. Sans-IO.
//!
//! ```text
//!  v1 object ──there──► v2 object + annotation {"v1": {"spec": …}}
//!                            │ a client changes it
//!  v1 object ◄──back──  v2 object + annotation
//!   = the stored v1 object, with the difference between what the stored one would become and what the changed one becomes
//! ```

use evenkeel_core::difference::overlay;
use serde_json::{Map, Value};

use super::kind::BoxError;

/// Members that are never stored: names, and what API servers restore from the original.
const NEVER_KEPT: [&str; 3] = ["apiVersion", "kind", "metadata"];

type Convert<'a> = dyn Fn(&Value) -> Result<Value, BoxError> + 'a;

/// Returns the name of the annotation for kinds of this group.
pub(super) fn annotation(group: &str) -> String {
    format!("{group}/conversion-data")
}

/// A conversion between two versions, one of which is the hub.
pub(super) struct Step<'a> {
    pub(super) from: &'a str,
    pub(super) to: &'a str,
    pub(super) there: &'a Convert<'a>,
    pub(super) back: &'a Convert<'a>,
    /// Decodes an object of the version `from` and encodes it again.
    pub(super) reencode: &'a Convert<'a>,
}

impl Step<'_> {
    /// Converts an object, restores what an earlier conversion has stored for the version `to`, and stores what is lost now.
    pub(super) fn convert(&self, mut object: Value, annotation: &str) -> Result<Value, BoxError> {
        let mut kept = take(&mut object, annotation);
        // Of the version that the object has, the object itself is newer.
        kept.remove(self.from);
        let stored = kept.remove(self.to);
        let mut converted = (self.there)(&object)?;
        if let Some(Value::Object(stored)) = stored {
            converted = self.restored(stored, converted);
        }
        let lost = self.lost(&object, &converted)?;
        if !lost.is_empty() {
            kept.insert(self.from.to_owned(), lost.into());
        }
        put(&mut converted, annotation, kept);
        Ok(converted)
    }

    /// Lays the changes since then over what was stored.
    fn restored(&self, stored: Map<String, Value>, converted: Value) -> Value {
        let mut original = converted.clone();
        if let Value::Object(members) = &mut original {
            members.extend(stored.into_iter().filter(|(name, _)| !NEVER_KEPT.contains(&&**name)));
        }
        // What was stored may have been damaged: then there is nothing to restore.
        match (self.back)(&original).and_then(|there| (self.there)(&there)) {
            Ok(unchanged) => {
                overlay(&mut original, &unchanged, converted);
                original
            }
            Err(_) => converted,
        }
    }

    /// Returns the members of the object that would not come back as they are.
    fn lost(&self, object: &Value, converted: &Value) -> Result<Map<String, Value>, BoxError> {
        let (before, after) = ((self.reencode)(object)?, (self.back)(converted).unwrap_or_default());
        let members = object.as_object().into_iter().flatten();
        let lost = members.filter(|(name, _)| !NEVER_KEPT.contains(&&***name) && before.get(name) != after.get(name));
        Ok(lost.map(|(name, value)| (name.clone(), value.clone())).collect())
    }
}

/// Removes the annotation and returns its content: by version, the members that were lost.
fn take(object: &mut Value, annotation: &str) -> Map<String, Value> {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return Map::new() };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return Map::new() };
    let content = annotations.remove(annotation);
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    content.and_then(|content| serde_json::from_str(content.as_str()?).ok()).unwrap_or_default()
}

fn put(object: &mut Value, annotation: &str, content: Map<String, Value>) {
    if content.is_empty() {
        return;
    }
    // Without metadata the object is refused later.
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        let annotations = metadata.entry("annotations").or_insert_with(|| Map::new().into());
        if let Value::Object(annotations) = annotations {
            annotations.insert(annotation.to_owned(), Value::Object(content).to_string().into());
        }
    }
}
