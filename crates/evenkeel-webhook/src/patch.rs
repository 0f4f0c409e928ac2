//! JSON patches of what a hook has changed. Sans-IO.
//!
//! What the hook has changed in the typed object is laid over the object as the API server sent it, so that fields that the
//! type does not have stay, also in elements of lists. The patch leads from the object of the API server to that result.

#[cfg(test)]
mod tests;

use evenkeel_core::difference::{ListPatch, json_patch, overlay};
use serde::Serialize;

use crate::changed_members::ChangedMembers;

/// Returns the JSON patch for a change of the typed object; `None` if the JSON is equal.
pub(crate) fn of_change<K: Serialize>(raw: &[u8], before: &K, after: &K) -> Result<Option<Vec<u8>>, serde_json::Error> {
    let ChangedMembers { raw, before, after } = ChangedMembers::find(raw, before, after)?;
    let mut result = raw.clone();
    overlay(&mut result, &before, after);
    let operations = json_patch(&raw, &result, ListPatch::Elements);
    if operations.is_empty() { Ok(None) } else { serde_json::to_vec(&operations).map(Some) }
}
