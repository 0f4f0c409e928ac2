//! Patches: what the body of a PATCH request does to the object it is sent to.
//!
//! JSON Patch and JSON Merge Patch are pure functions of the object and the body; strategic merge also needs the schema.
//! Server-side apply is about who owns what, and lives in [`field_ownership`](crate::field_ownership).

mod json_patch;
mod merge_patch;
mod strategic;
#[cfg(test)]
mod strategic_tests;
#[cfg(test)]
mod tests;

use evenkeel_core::{Reason, Status, StatusDetails};
use serde_json::Value;
use thiserror::Error;

use crate::field::{self, FieldError};
use crate::negotiate::PatchType;
use crate::schema::Schema;

use json_patch::MAX_OPERATIONS;
pub(crate) use json_patch::apply_json_patch;
pub(crate) use merge_patch::apply_merge_patch;
use strategic::{StrategicError, apply_strategic_merge};

/// What a patch made of an object.
#[derive(Debug)]
pub(crate) struct Patched {
    pub(crate) object: Value,
    /// The fields that occur twice in a strategic merge patch.
    pub(crate) duplicates: Vec<String>,
}

/// Applies a patch and gives the patched object; what it must still satisfy (PAT-4) is the caller's to check.
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

/// The 422 for an object that a patch made and that cannot be read as its kind (PAT-8), or not without strict errors
/// (DRY-4).
pub(crate) fn unreadable_result(patched: &Value, why: &str) -> Status {
    let error = FieldError::invalid("patch", &Value::from(patched.to_string()), why);
    field::invalid("", "", "", &[error])
}

/// For the places that server-side apply does not reach.
fn not_implemented() -> Status {
    let message = "this server does not support server-side apply to this sub-resource yet";
    Status::failure(501, Reason::from("NotImplemented"), message)
}

/// Why a patch was refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum PatchError {
    /// The body is not JSON at all.
    #[error("invalid JSON patch")]
    NotJson,
    /// The body is JSON of the wrong shape; the text says what was expected.
    #[error("error decoding patch: {0}")]
    Shape(String),
    /// A strategic merge patch that is no JSON object, in the words of Go's JSON package.
    #[error("{0}")]
    Syntax(String),
    /// A strategic merge patch that makes no sense.
    #[error("{0}")]
    Strategic(#[from] StrategicError),
    /// A merge patch that is `null`: there is nothing it could mean for a whole object.
    #[error("Invalid JSON Patch")]
    NullMerge,
    /// More operations than a JSON patch may have.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {got}")]
    TooManyOperations {
        /// How many there are.
        got: usize,
    },
    /// An operation cannot be done on this object.
    #[error("operation {index} ({op} {path:?}): {why}")]
    Operation {
        /// The position in the patch, from 0.
        index: usize,
        /// `add`, `remove`, …
        op: String,
        /// The JSON pointer.
        path: String,
        /// What is in the way.
        why: OperationError,
    },
}

/// Why one operation of a JSON patch failed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(crate) enum OperationError {
    /// A pointer leads nowhere.
    #[error("there is nothing at this path")]
    Missing,
    /// A pointer does not start with a slash, or is empty where the whole object cannot be meant.
    #[error("this is not a usable path")]
    BadPath,
    /// Not an index of this list.
    #[error("this is not an index of the list")]
    BadIndex,
    /// A `test` found another value.
    #[error("the value is another one")]
    TestFailed,
    /// There is no such operation.
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

/// The 422 whose reason stays on the server: clients have always been told just this.
fn rejected() -> Status {
    Status::failure(422, Reason::INVALID, "the server rejected our request due to an error in our request")
        .with_details(StatusDetails::default())
}
