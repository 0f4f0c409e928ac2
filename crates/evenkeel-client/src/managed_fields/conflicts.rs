//! [`apply_conflicts`]: the fields that other managers own.

use crate::error::Error;

/// A field that another manager owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApplyConflict {
    /// The manager that owns the field; empty if the server does not state it.
    pub manager: String,
    /// The path of the field, such as `.spec.replicas`.
    pub field: String,
}

/// Returns the fields for which an apply was rejected, and who owns them; empty for other errors.
/// [`ApiRequest::force`](crate::ApiRequest::force) would take them.
pub fn apply_conflicts(error: &Error) -> Vec<ApplyConflict> {
    let Some(details) = error.status().filter(|status| status.is_conflict()).and_then(|status| status.details.as_ref())
    else {
        return Vec::new();
    };
    let conflicts = details.causes.iter().filter(|cause| cause.reason == "FieldManagerConflict");
    conflicts
        .map(|cause| ApplyConflict { manager: quoted(&cause.message).unwrap_or_default(), field: cause.field.clone() })
        .collect()
}

/// Returns the first text in double quotes, without Go's escapes: `conflict with "kubectl" using apps/v1`.
fn quoted(message: &str) -> Option<String> {
    let mut values = serde_json::Deserializer::from_str(message.split_at_checked(message.find('"')?)?.1).into_iter();
    values.next()?.ok()
}
