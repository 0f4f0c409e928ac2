//! [`ViewError`]: why an object has no value in a view.

use std::sync::Arc;

use evenkeel_core::{DecodeError, ObjectKey};

use crate::source::BoxError;

/// An object has no value in a view.
///
/// The error is kept with the object: every read of its view returns it, until the object changes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The object cannot be decoded as the type of the view.
    #[error(
        "no value in view {view}: {source}; a field that may be absent or of another type needs an `Option` or a default"
    )]
    Decode {
        /// The name of the view.
        view: Arc<str>,
        /// What does not fit, with the kind and the key of the object.
        source: DecodeError,
    },
    /// The function of the view returned an error.
    #[error("no value in view {view}: its function failed for {kind} {key}: {source}")]
    Function {
        /// The name of the view.
        view: Arc<str>,
        /// The kind of the object.
        kind: Box<str>,
        /// The key of the object.
        key: ObjectKey,
        /// The error of the function.
        source: BoxError,
    },
    /// The function of the view, or the decoder of its type, panicked.
    #[error("no value in view {view}: its function panicked for {kind} {key}: {message}")]
    Panicked {
        /// The name of the view.
        view: Arc<str>,
        /// The kind of the object.
        kind: Box<str>,
        /// The key of the object.
        key: ObjectKey,
        /// The message of the panic.
        message: Box<str>,
    },
}
