//! Field errors: the results of validation, and their form in a Status.

use std::collections::HashSet;
use std::fmt;

use evenkeel_core::{Reason, Status, StatusCause, StatusDetails};
use serde_json::Value;

/// The most errors that one response reports.
pub(crate) const MAX_ERRORS: usize = 100;

/// The most bytes of an invalid value that one error shows.
const MAX_SHOWN: usize = 16 << 10;

/// The most supported values that one error lists.
pub(crate) const MAX_SUPPORTED: usize = 100;

/// Returns whether further errors would not be reported. The first error beyond the limit is kept, so that the response
/// shows that there are more.
pub(crate) fn is_full(errors: &[FieldError]) -> bool {
    errors.len() > MAX_ERRORS
}

/// Formats an invalid value as JSON, up to a limit.
fn shown(value: &Value) -> String {
    shortened(value.to_string())
}

/// Truncates a text that is longer than an error shows.
fn shortened(mut text: String) -> String {
    if text.len() > MAX_SHOWN {
        let end = (0..=MAX_SHOWN).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}

/// The fault of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FieldFault {
    Required,
    Invalid,
    TypeInvalid,
    NotSupported,
    Duplicate,
    Forbidden,
    TooLong,
    TooMany,
    NotFound,
}

impl FieldFault {
    /// Returns the `reason` of the cause in a Status.
    fn reason(self) -> &'static str {
        match self {
            FieldFault::Required => "FieldValueRequired",
            FieldFault::Invalid => "FieldValueInvalid",
            FieldFault::TypeInvalid => "FieldValueTypeInvalid",
            FieldFault::NotSupported => "FieldValueNotSupported",
            FieldFault::Duplicate => "FieldValueDuplicate",
            FieldFault::Forbidden => "FieldValueForbidden",
            FieldFault::TooLong => "FieldValueTooLong",
            FieldFault::TooMany => "FieldValueTooMany",
            FieldFault::NotFound => "FieldValueNotFound",
        }
    }

    fn text(self) -> &'static str {
        match self {
            FieldFault::Required => "Required value",
            FieldFault::Invalid | FieldFault::TypeInvalid => "Invalid value",
            FieldFault::NotSupported => "Unsupported value",
            FieldFault::Duplicate => "Duplicate value",
            FieldFault::Forbidden => "Forbidden",
            FieldFault::TooLong => "Too long",
            FieldFault::TooMany => "Too many",
            FieldFault::NotFound => "Not found",
        }
    }
}

/// One fault of one field of the sent object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldError {
    pub(crate) fault: FieldFault,
    /// The path, such as `spec.containers[0].name`; `<nil>` for the object itself.
    pub(crate) field: String,
    /// The invalid value as the message prints it (strings are quoted), if it does.
    pub(crate) value: Option<String>,
    /// The rest of the message; may be empty.
    pub(crate) detail: String,
}

impl FieldError {
    pub(crate) fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        FieldError { fault: FieldFault::Required, field: field.into(), value: None, detail: detail.into() }
    }

    pub(crate) fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        FieldError { fault: FieldFault::Forbidden, field: field.into(), value: None, detail: detail.into() }
    }

    pub(crate) fn invalid(field: impl Into<String>, value: &Value, detail: impl Into<String>) -> Self {
        FieldError { fault: FieldFault::Invalid, field: field.into(), value: Some(shown(value)), detail: detail.into() }
    }

    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        FieldError {
            fault: FieldFault::Duplicate,
            field: field.into(),
            value: Some(shown(value)),
            detail: String::new(),
        }
    }

    pub(crate) fn type_invalid(field: impl Into<String>, value: impl Into<String>, detail: impl Into<String>) -> Self {
        FieldError {
            fault: FieldFault::TypeInvalid,
            field: field.into(),
            value: Some(shortened(format!("{:?}", value.into()))),
            detail: detail.into(),
        }
    }

    pub(crate) fn too_long(field: impl Into<String>, limit: u64) -> Self {
        FieldError {
            fault: FieldFault::TooLong,
            field: field.into(),
            value: None,
            detail: format!("may not be more than {limit} bytes"),
        }
    }

    pub(crate) fn too_many(field: impl Into<String>, actual: usize, limit: u64) -> Self {
        FieldError {
            fault: FieldFault::TooMany,
            field: field.into(),
            value: Some(actual.to_string()),
            detail: format!("must have at most {limit} items"),
        }
    }

    /// `supported` is printed quoted and in the given order.
    pub(crate) fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let mut listed: Vec<String> = supported.iter().take(MAX_SUPPORTED).map(|text| format!("{text:?}")).collect();
        if supported.len() > MAX_SUPPORTED {
            listed.push("...".to_owned());
        }
        FieldError {
            fault: FieldFault::NotSupported,
            field: field.into(),
            value: Some(shown(value)),
            detail: format!("supported values: {}", listed.join(", ")),
        }
    }

    /// Returns the message without the path, as in a cause.
    pub(crate) fn message(&self) -> String {
        let mut message = self.fault.text().to_owned();
        for part in self.value.as_deref().into_iter().chain((!self.detail.is_empty()).then_some(self.detail.as_str())) {
            message.push_str(": ");
            message.push_str(part);
        }
        message
    }

    pub(crate) fn cause(&self) -> StatusCause {
        StatusCause { reason: self.fault.reason().into(), message: self.message(), field: self.field.clone() }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message())
    }
}

/// Returns the 422 for these errors (ERR-6), which must not be empty. Reports the first [`MAX_ERRORS`].
pub(crate) fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Status {
    let qualified = evenkeel_core::status::qualified(group, kind);
    let reported = errors.get(..MAX_ERRORS).unwrap_or(errors);
    let omitted = errors.len() > reported.len();
    let errors = reported;
    let text = match errors {
        [only] => only.to_string(),
        several => {
            let mut seen = HashSet::with_capacity(several.len());
            let mut texts: Vec<String> =
                several.iter().map(FieldError::to_string).filter(|text| seen.insert(text.clone())).collect();
            if omitted {
                texts.push("further errors are omitted".to_owned());
            }
            if texts.len() == 1 { texts.remove(0) } else { format!("[{}]", texts.join(", ")) }
        }
    };
    Status::failure(422, Reason::INVALID, format!("{qualified} \"{name}\" is invalid: {text}")).with_details(
        StatusDetails {
            name: name.into(),
            group: group.into(),
            kind: kind.into(),
            causes: errors.iter().map(FieldError::cause).collect(),
            ..StatusDetails::default()
        },
    )
}

#[cfg(test)]
mod tests;
