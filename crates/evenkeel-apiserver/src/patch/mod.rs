//! The patch formats: JSON Patch, JSON Merge Patch and strategic merge patch, as pure functions.
//!
//! The PATCH verb is `engine/verbs/patch.rs`. Server-side apply is in [`field_ownership`](crate::field_ownership).

mod json_patch;
mod merge_patch;
mod strategic;
#[cfg(test)]
mod tests;
mod tree;

use evenkeel_core::{Reason, Status, StatusDetails};
use serde_json::Value;
use thiserror::Error;

use crate::field::{self, FieldError};
use crate::go_json;
use crate::negotiate::PatchType;
use crate::schema::Schema;

use json_patch::MAX_OPERATIONS;
pub(crate) use json_patch::apply_json_patch;
pub(crate) use merge_patch::apply_merge_patch;
use strategic::{StrategicError, apply_strategic_merge};

/// The result of a patch.
#[derive(Debug)]
pub(crate) struct Patched {
    pub(crate) object: Value,
    /// The fields that occur twice in a strategic merge patch.
    pub(crate) duplicates: Vec<String>,
}

/// Applies a patch and returns the patched object. The caller validates it (PAT-4).
pub(crate) fn apply(
    kind: PatchType,
    mut object: Value,
    body: &[u8],
    schema: Option<&Schema>,
) -> Result<Patched, Status> {
    let mut duplicates = Vec::new();
    match kind {
        PatchType::Json => apply_json_patch(&mut object, body)?,
        PatchType::Merge => apply_merge_patch(&mut object, body)?,
        PatchType::StrategicMerge => duplicates = apply_strategic_merge(&mut object, body, schema)?,
        PatchType::Apply => return Err(not_implemented()),
    }
    Ok(Patched { object, duplicates })
}

/// Returns the 422 for a patched object that cannot be decoded as its kind (PAT-8), or not without strict errors (DRY-4).
pub(crate) fn unreadable_result(patched: &Value, why: &str) -> Status {
    let error = FieldError::invalid("patch", &Value::from(patched.to_string()), why);
    field::invalid("", "", "", &[error])
}

/// Returns the same for a strategic merge patch, whose result kube-apiserver does not decode from JSON: it names the patch,
/// and the types in other words.
pub(crate) fn unreadable_strategic(body: &[u8], why: &str) -> Status {
    let patch: Value = serde_json::from_slice(body).unwrap_or_default();
    let why = conversion_error(why);
    field::invalid("", "", "", &[FieldError::invalid("patch", &Value::from(go_json::print(&patch)), why)])
}

/// Translates the error of Go's JSON package about a type into that of the conversion from maps and lists.
fn conversion_error(why: &str) -> String {
    let types = why.split_once("json: cannot unmarshal ").and_then(|(_, rest)| rest.split_once(' '));
    let Some((given, wanted)) = types.and_then(|(given, rest)| Some((given, rest.rsplit_once(" of type ")?.1))) else {
        return why.to_owned();
    };
    let given = match given {
        "object" => "map",
        "array" => "slice",
        "number" => "int64",
        other => other,
    };
    match wanted {
        wanted if wanted.starts_with("map[") => format!("cannot restore map from {given}"),
        wanted if wanted.starts_with("[]") => format!("cannot restore slice from {given}"),
        "string" if given == "int64" => "cannot convert int64 to string".to_owned(),
        "string" | "bool" | "int32" | "int64" => format!("unrecognized type: {wanted}"),
        _ => format!("cannot restore struct from: {given}"),
    }
}

/// Returns the error for endpoints without server-side apply.
fn not_implemented() -> Status {
    let message = "this server does not support server-side apply to this subresource";
    Status::failure(501, Reason::from("NotImplemented"), message)
}

/// An error of a patch.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum PatchError {
    /// The body is not JSON.
    #[error("invalid JSON patch")]
    NotJson,
    /// The body is JSON of the wrong type; the text names the expected one.
    #[error("error decoding patch: {0}")]
    Shape(String),
    /// A strategic merge patch that is not a JSON object, with the message of Go's JSON package.
    #[error("{0}")]
    Syntax(String),
    /// An invalid strategic merge patch.
    #[error("{0}")]
    Strategic(#[from] StrategicError),
    /// A merge patch that is `null`, which has no meaning for a whole object.
    #[error("Invalid JSON Patch")]
    NullMerge,
    /// A JSON patch with too many operations.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {got}")]
    TooManyOperations {
        /// The number of operations.
        got: usize,
    },
    /// An operation fails on this object.
    #[error("operation {index} ({op} {path:?}): {why}")]
    Operation {
        /// The position in the patch, from 0.
        index: usize,
        /// `add`, `remove`, …
        op: String,
        /// The JSON pointer.
        path: String,
        /// The cause.
        why: OperationError,
    },
}

/// An error of one operation of a JSON patch.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(crate) enum OperationError {
    /// The pointer does not exist in the object.
    #[error("there is nothing at this path")]
    Missing,
    /// The pointer does not start with a slash, or is empty where the whole object is not allowed.
    #[error("this is not a usable path")]
    BadPath,
    /// The token is not an index of the list.
    #[error("this is not an index of the list")]
    BadIndex,
    /// A `test` failed.
    #[error("the value is another one")]
    TestFailed,
    /// The operation is unknown.
    #[error("there is no such operation")]
    UnknownOperation,
    /// The whole object can only become an object or a list.
    #[error("the whole object cannot be replaced by a scalar")]
    ScalarRoot,
    /// A value cannot be moved into itself.
    #[error("a value cannot be moved into itself")]
    IntoItself,
    /// The copies would be larger than the server allows.
    #[error("the copied values are too large")]
    CopiesTooLarge,
    /// The object would be nested deeper than the server allows.
    #[error("the object would be nested too deeply")]
    TooDeep,
}

impl From<PatchError> for Status {
    fn from(error: PatchError) -> Self {
        match error {
            PatchError::Strategic(StrategicError::ListOfLists) => rejected(),
            PatchError::NotJson
            | PatchError::Shape(_)
            | PatchError::Syntax(_)
            | PatchError::Strategic(_)
            | PatchError::NullMerge => Status::bad_request(error.to_string()),
            PatchError::TooManyOperations { .. } => {
                Status::failure(413, Reason::REQUEST_ENTITY_TOO_LARGE, format!("Request entity too large: {error}"))
            }
            PatchError::Operation { .. } => rejected(),
        }
    }
}

/// Returns the 422 of kube-apiserver, which does not name the cause.
fn rejected() -> Status {
    Status::failure(422, Reason::INVALID, "the server rejected our request due to an error in our request")
        .with_details(StatusDetails::default())
}
