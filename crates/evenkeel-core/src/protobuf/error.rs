//! [`BoxedError`]: an error while it propagates.

use std::fmt;

use serde::{de, ser};

use crate::error::{ProtobufError, TypeMismatch, WireError};

/// A [`ProtobufError`] in a box, so that results stay small. It collects its path while it propagates.
#[derive(Debug)]
pub(crate) struct BoxedError(Box<ProtobufError>);

impl BoxedError {
    #[cold]
    pub(crate) fn new(error: ProtobufError) -> BoxedError {
        BoxedError(Box::new(error))
    }

    #[cold]
    pub(crate) fn unexpected(expected: &'static str) -> BoxedError {
        BoxedError::new(ProtobufError::Unexpected { path: "".into(), expected })
    }

    /// Prepends the name of a field to the path.
    #[cold]
    pub(crate) fn in_field(mut self, name: &str) -> BoxedError {
        if let Some(path) = self.0.path_mut() {
            let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
            *path = format!("{name}{dot}{path}").into();
        }
        self
    }

    /// Prepends the index of a list item to the path.
    #[cold]
    pub(crate) fn in_item(self, index: usize) -> BoxedError {
        self.in_field(&format!("[{index}]"))
    }
}

impl From<WireError> for BoxedError {
    #[cold]
    fn from(source: WireError) -> BoxedError {
        BoxedError::new(ProtobufError::Malformed { path: "".into(), source })
    }
}

impl From<BoxedError> for ProtobufError {
    fn from(error: BoxedError) -> ProtobufError {
        *error.0
    }
}

impl fmt::Display for BoxedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for BoxedError {}

impl de::Error for BoxedError {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> BoxedError {
        let source = TypeMismatch::new(&<serde_json::Error as de::Error>::custom(message));
        BoxedError::new(ProtobufError::TypeMismatch { path: "".into(), source })
    }

    // Null is the unit of JSON.

    #[cold]
    fn invalid_type(unexpected: de::Unexpected<'_>, expected: &dyn de::Expected) -> BoxedError {
        de::Error::custom(<serde_json::Error as de::Error>::invalid_type(unexpected, expected))
    }

    #[cold]
    fn invalid_value(unexpected: de::Unexpected<'_>, expected: &dyn de::Expected) -> BoxedError {
        de::Error::custom(<serde_json::Error as de::Error>::invalid_value(unexpected, expected))
    }
}

impl ser::Error for BoxedError {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> BoxedError {
        de::Error::custom(message)
    }
}
