//! [`Status`]: the error (or, rarely, success) response of a Kubernetes API server.
//!
//! A `Status` is an error: it has a message, a machine-readable [`Reason`], the HTTP code, and details that name the object. Programs
//! use the predicates (`is_not_found`, `is_conflict`, …), which follow client-go's `apierrors`: the reason decides, and the code
//! only if the server sent no known reason. So a `409 AlreadyExists` is no conflict, and a bare 409 is.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

#[cfg(feature = "internals")]
mod internals;

#[cfg(feature = "internals")]
pub use internals::qualified;

/// The machine-readable part of a [`Status`].
///
/// Servers may send reasons that are not listed here. They are kept verbatim and compare by their text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Reason(Cow<'static, str>);

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        impl Reason {
            $($(#[$doc])* pub const $name: Reason = Reason(Cow::Borrowed($text));)*

            /// Every reason that client-go names.
            pub const KNOWN: &[Reason] = &[$(Reason::$name),*];
        }
    };
}

reasons! {
    /// The credentials are missing or wrong (401).
    UNAUTHORIZED = "Unauthorized";
    /// The user is not authorized (403).
    FORBIDDEN = "Forbidden";
    /// The object or the resource does not exist (404).
    NOT_FOUND = "NotFound";
    /// The object to create already exists (409).
    ALREADY_EXISTS = "AlreadyExists";
    /// The write was based on an old version of the object (409).
    CONFLICT = "Conflict";
    /// The object no longer exists, and its address is not known (410).
    GONE = "Gone";
    /// The object does not pass validation (422).
    INVALID = "Invalid";
    /// The server could not finish a valid request in time (500).
    SERVER_TIMEOUT = "ServerTimeout";
    /// The request did not finish within the timeout of the client (504).
    TIMEOUT = "Timeout";
    /// The server throttles requests (429).
    TOO_MANY_REQUESTS = "TooManyRequests";
    /// The request is malformed (400).
    BAD_REQUEST = "BadRequest";
    /// The resource does not support this verb (405).
    METHOD_NOT_ALLOWED = "MethodNotAllowed";
    /// The server supports none of the requested media types (406).
    NOT_ACCEPTABLE = "NotAcceptable";
    /// The body of the request exceeds the limit of the server (413).
    REQUEST_ENTITY_TOO_LARGE = "RequestEntityTooLarge";
    /// The server does not support the media type of the body (415).
    UNSUPPORTED_MEDIA_TYPE = "UnsupportedMediaType";
    /// An internal error of the server (500).
    INTERNAL_ERROR = "InternalError";
    /// The resource version or continue token is older than the server's history (410).
    EXPIRED = "Expired";
    /// The server cannot serve the request now (503).
    SERVICE_UNAVAILABLE = "ServiceUnavailable";
    /// The object could not be read from storage (500).
    STORE_READ_ERROR = "StorageReadError";
}

impl Reason {
    /// Returns the reason as in the JSON; empty if the server sent none.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the server sent no reason.
    pub(crate) fn is_unknown(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&'static str> for Reason {
    fn from(text: &'static str) -> Self {
        Reason(Cow::Borrowed(text))
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Reason(Cow::Owned(text))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The response of an API server that is not an object: an error, or the success of an operation without a result.
///
/// Unknown fields are ignored; absent ones are empty. `Display` prints the message alone, as the end of an error chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Always `Status`: an object of another kind is no status.
    kind: StatusKind,
    /// Always `v1`; the value of the server is ignored.
    #[serde(skip_deserializing)]
    api_version: StatusApiVersion,
    /// List metadata; only `continue` and `resourceVersion` are ever set, and only on an expired list.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: StatusMeta,
    /// `Success` or `Failure`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// A message for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The reason, for programs.
    #[serde(skip_serializing_if = "Reason::is_unknown")]
    pub reason: Reason,
    /// The affected object, and what to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails>,
    /// The HTTP status code; 0 if the server sent none or an invalid one.
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "number_or_zero")]
    pub code: u16,
}

/// The list metadata of a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusMeta {
    /// The token to continue an expired list, inconsistently.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
    /// The resource version, if the server sent one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
}

/// The affected object of a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusDetails {
    /// The name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its API group; empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Its kind for validation errors, its resource (`pods`) for most others.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The causes, one entry each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    /// The delay before a retry; 0 if the server sent none or an invalid one.
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "number_or_zero")]
    pub retry_after_seconds: u32,
}

/// One cause of an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    /// The reason, such as `FieldValueRequired`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A message for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The path of the field, such as `spec.containers[0].name`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum StatusKind {
    #[default]
    Status,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum StatusApiVersion {
    #[default]
    #[serde(rename = "v1")]
    V1,
}

/// Reads null as the default, as Go does.
fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads an invalid number as zero, so that it does not hide the rest of the error.
fn number_or_zero<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + TryFrom<i64>,
{
    let number: Option<i64> = Option::deserialize(deserializer)?;
    Ok(number.and_then(|number| T::try_from(number).ok()).unwrap_or_default())
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Status {
    /// Returns an error with a code, a reason and a message, and no details.
    pub fn failure(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Status { status: "Failure".into(), message: message.into(), reason, code, ..Status::default() }
    }

    /// Returns the error for an object that does not exist. `resource` is the plural, such as `pods`.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", group_resource(group, resource));
        Status::failure(404, Reason::NOT_FOUND, message).of_object(group, resource, name)
    }

    /// Returns the error for a write to an outdated version; `why` completes the message.
    pub fn conflict(group: &str, resource: &str, name: &str, why: impl fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", group_resource(group, resource));
        Status::failure(409, Reason::CONFLICT, message).of_object(group, resource, name)
    }

    /// Returns the delay before a retry, if the server sent one.
    pub fn retry_after(&self) -> Option<std::time::Duration> {
        match self.details.as_ref().map_or(0, |details| details.retry_after_seconds) {
            0 => None,
            seconds => Some(std::time::Duration::from_secs(seconds.into())),
        }
    }

    /// Returns whether the details contain a cause of this reason.
    pub fn has_cause(&self, reason: &str) -> bool {
        self.details.iter().flat_map(|details| &details.causes).any(|cause| cause.reason == reason)
    }

    fn of_object(self, group: &str, resource: &str, name: &str) -> Self {
        Status { details: Some(details(group, resource, name)), ..self }
    }

    /// Implements client-go's rule: a known reason decides alone; otherwise the code does.
    fn is(&self, reason: Reason, code: u16) -> bool {
        self.reason == reason || (!Reason::KNOWN.contains(&self.reason) && self.code == code)
    }

    /// Returns whether the object or the resource does not exist.
    pub fn is_not_found(&self) -> bool {
        self.is(Reason::NOT_FOUND, 404)
    }

    /// Returns whether the object to create already exists.
    pub fn is_already_exists(&self) -> bool {
        self.reason == Reason::ALREADY_EXISTS
    }

    /// Returns whether the write was based on an old version: read again and retry.
    pub fn is_conflict(&self) -> bool {
        self.is(Reason::CONFLICT, 409)
    }

    /// Returns whether the object failed validation.
    pub fn is_invalid(&self) -> bool {
        self.is(Reason::INVALID, 422)
    }

    /// Returns whether the reason is `Gone`. Servers also send it for an old resource version: watchers use
    /// [`is_expired`](Self::is_expired).
    pub fn is_gone(&self) -> bool {
        self.is(Reason::GONE, 410)
    }

    /// Returns whether the resource version or continue token is too old: relist. It includes servers that send `Gone`, so it is
    /// client-go's `IsResourceExpired` or `IsGone`; compare `reason` with [`Reason::EXPIRED`] for the first alone.
    pub fn is_expired(&self) -> bool {
        self.reason == Reason::EXPIRED || self.is_gone()
    }

    /// Returns whether the server cannot serve the request now.
    pub fn is_service_unavailable(&self) -> bool {
        self.is(Reason::SERVICE_UNAVAILABLE, 503)
    }

    /// Returns whether the request is malformed.
    pub fn is_bad_request(&self) -> bool {
        self.is(Reason::BAD_REQUEST, 400)
    }

    /// Returns whether the credentials are missing or wrong.
    pub fn is_unauthorized(&self) -> bool {
        self.is(Reason::UNAUTHORIZED, 401)
    }

    /// Returns whether the user is not authorized.
    pub fn is_forbidden(&self) -> bool {
        self.is(Reason::FORBIDDEN, 403)
    }

    /// Returns whether the request did not finish within the timeout of the client.
    pub fn is_timeout(&self) -> bool {
        self.is(Reason::TIMEOUT, 504)
    }

    /// Returns whether an internal error of the server occurred.
    pub fn is_internal_error(&self) -> bool {
        self.is(Reason::INTERNAL_ERROR, 500)
    }

    /// Returns whether the server throttles requests. The code suffices, whatever the reason: proxies send it too.
    pub fn is_too_many_requests(&self) -> bool {
        self.reason == Reason::TOO_MANY_REQUESTS || self.code == 429
    }

    /// Returns whether a list or get requested a resource version that the server has not reached yet.
    pub fn is_too_large_resource_version(&self) -> bool {
        self.is_timeout() && self.has_cause("ResourceVersionTooLarge")
    }

    /// Returns whether a create was rejected because its namespace is being deleted.
    pub fn is_namespace_terminating(&self) -> bool {
        self.is_forbidden() && self.has_cause("NamespaceTerminating")
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.message.is_empty(), self.reason.is_unknown()) {
            (false, _) => write_escaped(f, &self.message),
            (true, false) => write!(f, "{} ({})", self.reason, self.code),
            (true, true) => write!(f, "the server returned code {} and no message", self.code),
        }
    }
}

/// Writes a server's message with terminal control sequences escaped: control characters except line breaks and tabs, and characters
/// that change the direction of the text.
fn write_escaped(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let is_control = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t')) || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut rest = text;
    while let Some((at, control)) = rest.char_indices().find(|(_, c)| is_control(*c)) {
        let (before, after) = rest.split_at(at);
        write!(f, "{before}{}", control.escape_default())?;
        rest = after.get(control.len_utf8()..).unwrap_or_default();
    }
    f.write_str(rest)
}

impl std::error::Error for Status {}

/// Returns `pods`, or `deployments.apps`.
fn group_resource(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn details(group: &str, kind: &str, name: &str) -> StatusDetails {
    StatusDetails { group: group.into(), kind: kind.into(), name: name.into(), ..StatusDetails::default() }
}

#[cfg(test)]
mod tests;
