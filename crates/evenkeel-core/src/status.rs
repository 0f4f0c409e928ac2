//! [`Status`]: how a Kubernetes API server says that something went wrong (or, rarely, right).
//!
//! A `Status` is an error in its own right: it has a message for people, a machine-readable [`Reason`], the HTTP code,
//! and details that name the object. Programs should ask the predicates (`is_not_found`, `is_conflict`, …), which follow
//! client-go's `apierrors`: the reason decides, and only when the server sent no reason that we know does the code.
//! So a `409 AlreadyExists` is no conflict, and a bare 409 is.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The machine-readable part of a [`Status`].
///
/// Servers may send reasons that are not listed here; they are kept verbatim and compare by their text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Reason(Cow<'static, str>);

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        impl Reason {
            $($(#[$doc])* pub const $name: Reason = Reason(Cow::Borrowed($text));)*

            /// Every reason that client-go has a name for.
            pub const KNOWN: &[Reason] = &[$(Reason::$name),*];
        }
    };
}

reasons! {
    /// The credentials are missing or wrong (401).
    UNAUTHORIZED = "Unauthorized";
    /// The user may not do this (403).
    FORBIDDEN = "Forbidden";
    /// The object, or the resource itself, is not there (404).
    NOT_FOUND = "NotFound";
    /// The object that was to be created is there already (409).
    ALREADY_EXISTS = "AlreadyExists";
    /// The write was based on an old version of the object (409).
    CONFLICT = "Conflict";
    /// The object was there, but no longer is, and its address is not known (410).
    GONE = "Gone";
    /// The object does not pass validation (422).
    INVALID = "Invalid";
    /// The server could not finish in time, though the request is sound (500).
    SERVER_TIMEOUT = "ServerTimeout";
    /// The request did not finish in the time the client gave it (504).
    TIMEOUT = "Timeout";
    /// The server wants fewer requests (429).
    TOO_MANY_REQUESTS = "TooManyRequests";
    /// The request makes no sense to the server (400).
    BAD_REQUEST = "BadRequest";
    /// The resource does not support this verb (405).
    METHOD_NOT_ALLOWED = "MethodNotAllowed";
    /// The server cannot answer in any media type that was asked for (406).
    NOT_ACCEPTABLE = "NotAcceptable";
    /// The request's body is larger than the server takes (413).
    REQUEST_ENTITY_TOO_LARGE = "RequestEntityTooLarge";
    /// The request's body has a media type that the server does not read (415).
    UNSUPPORTED_MEDIA_TYPE = "UnsupportedMediaType";
    /// Something broke inside the server (500).
    INTERNAL_ERROR = "InternalError";
    /// The resource version or continue token is older than the server's history (410).
    EXPIRED = "Expired";
    /// The server is not ready for this request (503).
    SERVICE_UNAVAILABLE = "ServiceUnavailable";
    /// The object could not be read from storage (500).
    STORE_READ_ERROR = "StorageReadError";
}

impl Reason {
    /// The reason as it stands in the JSON; empty when the server gave none.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the server gave no reason at all.
    pub fn is_unknown(&self) -> bool {
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

/// The answer of an API server that is not an object: a failure, or the success of an operation with nothing to show.
///
/// Unknown fields of the wire form are ignored; absent ones are empty. `Display` prints the message alone, so that
/// `Status` reads well at the end of an error chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Always `Status`: an object of another kind is no Status.
    kind: StatusKind,
    /// Always `v1`; whatever a server says here is not read.
    #[serde(skip_deserializing)]
    api_version: StatusApiVersion,
    /// List metadata; only `continue` and `resourceVersion` are ever set, and only on an expired list.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: StatusMeta,
    /// `Success` or `Failure`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// What happened, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What happened, for programs.
    #[serde(skip_serializing_if = "Reason::is_unknown")]
    pub reason: Reason,
    /// To what it happened, and what to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails>,
    /// The HTTP status code; 0 when the server did not say, or said what is none.
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "number_or_zero")]
    pub code: u16,
}

/// List metadata as far as a [`Status`] carries it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusMeta {
    /// Where an expired list may be continued, inconsistently.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
    /// The resource version, if the server gave one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
}

/// To what a [`Status`] happened.
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
    /// What exactly is wrong, one entry per fault.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    /// How long to wait before trying again; 0 when the server did not say, or said what is no time.
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "number_or_zero")]
    pub retry_after_seconds: u32,
}

/// One fault of several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    /// The kind of fault, such as `FieldValueRequired`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The fault in words.
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

/// Go reads null as nothing.
fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A Status tells what went wrong, so an odd number in it must not hide the rest.
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
    /// A failure with a code, a reason and a message, and no details.
    pub fn failure(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Status { status: "Failure".into(), message: message.into(), reason, code, ..Status::default() }
    }

    /// The success of an operation that has no object to show.
    pub fn success() -> Self {
        Status { status: "Success".into(), ..Status::default() }
    }

    /// The same status with these details.
    pub fn with_details(mut self, details: StatusDetails) -> Self {
        self.details = Some(details);
        self
    }

    /// The object is not there. `resource` is the plural, e.g. `pods`.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", qualified(group, resource));
        Status::failure(404, Reason::NOT_FOUND, message).with_details(details(group, resource, name))
    }

    /// The object to create is there already.
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", qualified(group, resource));
        Status::failure(409, Reason::ALREADY_EXISTS, message).with_details(details(group, resource, name))
    }

    /// The write cannot be done on the object as it is now; `why` completes the sentence.
    pub fn conflict(group: &str, resource: &str, name: &str, why: impl fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(group, resource));
        Status::failure(409, Reason::CONFLICT, message).with_details(details(group, resource, name))
    }

    /// The user may not do this; `why` completes the sentence.
    pub fn forbidden(group: &str, resource: &str, name: &str, why: impl fmt::Display) -> Self {
        let message = if name.is_empty() {
            format!("{} is forbidden: {why}", qualified(group, resource))
        } else {
            format!("{} \"{name}\" is forbidden: {why}", qualified(group, resource))
        };
        Status::failure(403, Reason::FORBIDDEN, message).with_details(details(group, resource, name))
    }

    /// The request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Status::failure(400, Reason::BAD_REQUEST, message)
    }

    /// The credentials are missing or wrong.
    pub fn unauthorized() -> Self {
        Status::failure(401, Reason::UNAUTHORIZED, "Unauthorized")
    }

    /// Something broke inside the server.
    pub fn internal(message: impl fmt::Display) -> Self {
        let cause = StatusCause { message: message.to_string(), ..StatusCause::default() };
        Status::failure(500, Reason::INTERNAL_ERROR, format!("Internal error occurred: {message}"))
            .with_details(StatusDetails { causes: vec![cause], ..StatusDetails::default() })
    }

    /// The requested resource version or continue token is older than the history.
    pub fn expired(message: impl Into<String>) -> Self {
        Status::failure(410, Reason::EXPIRED, message)
    }

    /// The requested resource version is one that the server has not reached yet.
    pub fn too_large_resource_version(wanted: u64, current: u64) -> Self {
        let cause = StatusCause {
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".into(),
            field: String::new(),
        };
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        Status::failure(504, Reason::TIMEOUT, message).with_details(StatusDetails {
            causes: vec![cause],
            retry_after_seconds: 1,
            ..StatusDetails::default()
        })
    }

    /// Whether this is a success.
    pub fn is_success(&self) -> bool {
        self.status == "Success"
    }

    /// What the server asks to wait before the next try.
    pub fn retry_after(&self) -> Option<std::time::Duration> {
        match self.details.as_ref().map_or(0, |details| details.retry_after_seconds) {
            0 => None,
            seconds => Some(std::time::Duration::from_secs(seconds.into())),
        }
    }

    /// Whether a cause of this reason is among the details.
    pub fn has_cause(&self, reason: &str) -> bool {
        self.details.iter().flat_map(|details| &details.causes).any(|cause| cause.reason == reason)
    }

    /// client-go's rule: a known reason decides alone; otherwise the code does.
    fn is(&self, reason: Reason, code: u16) -> bool {
        self.reason == reason || (!Reason::KNOWN.contains(&self.reason) && self.code == code)
    }

    /// The object or the resource is not there.
    pub fn is_not_found(&self) -> bool {
        self.is(Reason::NOT_FOUND, 404)
    }

    /// The object to create is there already.
    pub fn is_already_exists(&self) -> bool {
        self.reason == Reason::ALREADY_EXISTS
    }

    /// The write was based on an old version; read again and retry.
    pub fn is_conflict(&self) -> bool {
        self.is(Reason::CONFLICT, 409)
    }

    /// The object does not pass validation.
    pub fn is_invalid(&self) -> bool {
        self.is(Reason::INVALID, 422)
    }

    /// The object is gone for good. Servers say this for an old resource version too: see [`Status::is_expired`], which
    /// is what a watcher wants to know.
    pub fn is_gone(&self) -> bool {
        self.is(Reason::GONE, 410)
    }

    /// The resource version or continue token is too old: list again. Covers servers that say `Gone` for it, so this is
    /// client-go's `IsResourceExpired` or `IsGone`; compare `reason` with [`Reason::EXPIRED`] for the first alone.
    pub fn is_expired(&self) -> bool {
        self.reason == Reason::EXPIRED || self.is_gone()
    }

    /// The server cannot answer in the media type that was asked for.
    pub fn is_not_acceptable(&self) -> bool {
        self.is(Reason::NOT_ACCEPTABLE, 406)
    }

    /// The server does not read the media type that was sent.
    pub fn is_unsupported_media_type(&self) -> bool {
        self.is(Reason::UNSUPPORTED_MEDIA_TYPE, 415)
    }

    /// The resource does not support the verb.
    pub fn is_method_not_supported(&self) -> bool {
        self.is(Reason::METHOD_NOT_ALLOWED, 405)
    }

    /// The server is not ready.
    pub fn is_service_unavailable(&self) -> bool {
        self.is(Reason::SERVICE_UNAVAILABLE, 503)
    }

    /// The request makes no sense to the server.
    pub fn is_bad_request(&self) -> bool {
        self.is(Reason::BAD_REQUEST, 400)
    }

    /// The credentials are missing or wrong.
    pub fn is_unauthorized(&self) -> bool {
        self.is(Reason::UNAUTHORIZED, 401)
    }

    /// The user may not do this.
    pub fn is_forbidden(&self) -> bool {
        self.is(Reason::FORBIDDEN, 403)
    }

    /// The request did not finish in the client's time.
    pub fn is_timeout(&self) -> bool {
        self.is(Reason::TIMEOUT, 504)
    }

    /// The server could not finish in time and asks to try again.
    pub fn is_server_timeout(&self) -> bool {
        self.reason == Reason::SERVER_TIMEOUT
    }

    /// Something broke inside the server.
    pub fn is_internal_error(&self) -> bool {
        self.is(Reason::INTERNAL_ERROR, 500)
    }

    /// The server wants fewer requests. Here the code decides as well, whatever the reason: proxies answer so too.
    pub fn is_too_many_requests(&self) -> bool {
        self.reason == Reason::TOO_MANY_REQUESTS || self.code == 429
    }

    /// The body was larger than the server takes. Here the code decides as well, whatever the reason.
    pub fn is_request_entity_too_large(&self) -> bool {
        self.reason == Reason::REQUEST_ENTITY_TOO_LARGE || self.code == 413
    }

    /// A list or get asked for a resource version that the server has not reached yet.
    pub fn is_too_large_resource_version(&self) -> bool {
        self.is_timeout() && self.has_cause("ResourceVersionTooLarge")
    }

    /// A create was refused because its namespace is being deleted.
    pub fn is_namespace_terminating(&self) -> bool {
        self.is_forbidden() && self.has_cause("NamespaceTerminating")
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.message.is_empty(), self.reason.is_unknown()) {
            (false, _) => write_harmless(f, &self.message),
            (true, false) => write!(f, "{} ({})", self.reason, self.code),
            (true, true) => write!(f, "the server answered with code {} and no message", self.code),
        }
    }
}

/// A server's words, with whatever a terminal would obey rather than show written as escapes: control characters but for
/// line breaks and tabs, and those that turn the direction of the text around them.
fn write_harmless(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let is_obeyed = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t')) || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut rest = text;
    while let Some((at, obeyed)) = rest.char_indices().find(|(_, c)| is_obeyed(*c)) {
        let (before, after) = rest.split_at(at);
        write!(f, "{before}{}", obeyed.escape_default())?;
        rest = after.get(obeyed.len_utf8()..).unwrap_or_default();
    }
    f.write_str(rest)
}

impl std::error::Error for Status {}

/// `pods`, or `deployments.apps`.
pub fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn details(group: &str, kind: &str, name: &str) -> StatusDetails {
    StatusDetails { group: group.into(), kind: kind.into(), name: name.into(), ..StatusDetails::default() }
}

#[cfg(test)]
mod tests;
