//! Lays a change of a typed value over the JSON that it was decoded from.

use serde_json::Value;

use super::alignment::align;

/// Changes `raw`, which was decoded to `before`, as `before` was changed to `after`.
///
/// Members that the type does not have are kept, also in elements of lists that were changed, moved or inserted. What did not
/// change is left as it is in `raw`, so that a type which writes a value in another form changes nothing.
pub fn overlay(raw: &mut Value, before: &Value, after: Value) {
    if *before == after {
        return;
    }
    match (raw, before, after) {
        (Value::Object(raw), Value::Object(before), Value::Object(after)) => {
            for removed in before.keys().filter(|key| !after.contains_key(*key)) {
                raw.remove(removed);
            }
            for (key, value) in after {
                match (raw.get_mut(&key), before.get(&key)) {
                    (Some(raw), Some(before)) => overlay(raw, before, value),
                    // Decoding has added it: a default of the type, which the object need not state.
                    (None, Some(before)) if *before == value => {}
                    _ => drop(raw.insert(key, value)),
                }
            }
        }
        // A list that the type decodes to another number of elements cannot be aligned, and is replaced.
        (Value::Array(raw), Value::Array(before), Value::Array(after)) if raw.len() == before.len() => {
            let aligned = align(before, &after);
            let mut elements: Vec<Option<Value>> = std::mem::take(raw).into_iter().map(Some).collect();
            for (value, index) in after.into_iter().zip(aligned) {
                let known = index.and_then(|index| Some((elements.get_mut(index)?.take()?, before.get(index)?)));
                raw.push(match known {
                    Some((mut element, before)) => {
                        overlay(&mut element, before, value);
                        element
                    }
                    None => value,
                });
            }
        }
        (raw, _, after) => *raw = after,
    }
}
