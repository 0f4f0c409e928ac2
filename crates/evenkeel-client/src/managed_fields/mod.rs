//! Field ownership (`metadata.managedFields`): the fields that a manager applied, and the upgrade from client-side apply.
//!
//! - [`Partial::extract`] returns the fields that a manager owns, to change them and apply them again. For custom resources it
//!   is [`Extractor::extract`], which reads their schema from the server.
//! - [`upgrade_from_client_side_apply`] turns the fields of an old manager into applied ones, so that the next apply can remove
//!   them.
//! - [`apply_conflicts`] lists the fields of a conflict and their managers.

mod conflicts;
mod entries;
mod extract;
mod schema;
mod upgrade;

pub use conflicts::{ApplyConflict, apply_conflicts};
pub use extract::Extractor;
pub use upgrade::{client_side_managers, upgrade_from_client_side_apply};

use crate::api::Partial;
use crate::error::Error;

/// The ownership of an object's fields cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManagedFieldsError {
    /// The object has no managed fields.
    ///
    /// A cache may drop them. The fields of a manager are then unknown, and an apply of none would remove all of them.
    #[error(
        "{object} has no managedFields, so the fields of a manager are unknown: read it from the server, or keep managedFields in the cache"
    )]
    Missing {
        /// Kind and key of the object.
        object: String,
    },
    /// An entry cannot be read.
    #[error("the managedFields of {object} cannot be read: {problem}")]
    Malformed {
        /// Kind and key of the object.
        object: String,
        /// Why.
        problem: String,
    },
    /// The kind is no built-in one, so its schema is unknown.
    #[error("the schema of {kind} of {api_version} is not built in: use `Extractor`, which reads it from the server")]
    UnknownSchema {
        /// The API version.
        api_version: String,
        /// The kind.
        kind: String,
    },
}

impl From<ManagedFieldsError> for Error {
    fn from(error: ManagedFieldsError) -> Self {
        Error::ManagedFields(error)
    }
}

/// The type of the result of an extraction.
type Extracted<K> = Result<Partial<K>, ManagedFieldsError>;

#[cfg(test)]
mod tests;
