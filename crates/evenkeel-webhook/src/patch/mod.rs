//! JSON patches of what a hook has changed. Sans-IO.
//!
//! ```text
//!  before ─┐
//!  after  ─┴─► overlay ──► the object as it should be ─┐
//!  raw object ──┴──────────────────────────────────────┴─► difference ──► JSON patch
//! ```
//!
//! `before` and `after` are the typed object. What the hook has changed between them is laid over the object as the API server
//! sent it, so that fields that the type does not have stay, also in elements of lists. The patch leads from the object of the
//! API server to that result.

mod alignment;
mod difference;
mod overlay;

#[cfg(test)]
mod tests;

use serde::Serialize;
use serde_json::Value;

/// Returns the JSON patch for a change of the typed object; `None` if the JSON is equal.
pub(crate) fn of_change<K: Serialize>(raw: &[u8], before: &K, after: &K) -> Result<Option<Vec<u8>>, serde_json::Error> {
    let (before, after) = (serde_json::to_value(before)?, serde_json::to_value(after)?);
    let raw: Value = serde_json::from_slice(raw)?;
    let mut result = raw.clone();
    overlay::overlay(&mut result, &before, after);
    let operations = difference::difference(&raw, &result);
    if operations.is_empty() { Ok(None) } else { serde_json::to_vec(&operations).map(Some) }
}
