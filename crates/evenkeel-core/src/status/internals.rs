//! Constructors and predicates of [`Status`] for the other crates of evenkeel: the errors of the embedded API server, and the
//! conditions that the client handles itself.

use std::fmt;

use super::{Reason, Status, StatusCause, StatusDetails, details, group_resource};

/// Returns `pods`, or `deployments.apps`.
pub fn qualified(group: &str, resource: &str) -> String {
    group_resource(group, resource)
}

impl Status {
    /// Returns the success of an operation without a result.
    pub fn success() -> Self {
        Status { status: "Success".into(), ..Status::default() }
    }

    /// Returns the error for an object that already exists.
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", group_resource(group, resource));
        Status::failure(409, Reason::ALREADY_EXISTS, message).with_details(details(group, resource, name))
    }

    /// Returns the error for an unauthorized request; `why` completes the message.
    pub fn forbidden(group: &str, resource: &str, name: &str, why: impl fmt::Display) -> Self {
        let message = if name.is_empty() {
            format!("{} is forbidden: {why}", group_resource(group, resource))
        } else {
            format!("{} \"{name}\" is forbidden: {why}", group_resource(group, resource))
        };
        Status::failure(403, Reason::FORBIDDEN, message).with_details(details(group, resource, name))
    }

    /// Returns the error for a malformed request.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Status::failure(400, Reason::BAD_REQUEST, message)
    }

    /// Returns the error for missing or wrong credentials.
    pub fn unauthorized() -> Self {
        Status::failure(401, Reason::UNAUTHORIZED, "Unauthorized")
    }

    /// Returns an internal error of the server.
    pub fn internal(message: impl fmt::Display) -> Self {
        let cause = StatusCause { message: message.to_string(), ..StatusCause::default() };
        Status::failure(500, Reason::INTERNAL_ERROR, format!("Internal error occurred: {message}"))
            .with_details(StatusDetails { causes: vec![cause], ..StatusDetails::default() })
    }

    /// Returns the error for a resource version or continue token that is older than the history.
    pub fn expired(message: impl Into<String>) -> Self {
        Status::failure(410, Reason::EXPIRED, message)
    }

    /// Returns the error for a resource version that the server has not reached yet.
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
}

impl Status {
    /// Sets the details.
    pub fn with_details(mut self, details: StatusDetails) -> Self {
        self.details = Some(details);
        self
    }

    /// Returns whether this is a success.
    pub fn is_success(&self) -> bool {
        self.status == "Success"
    }

    /// Returns whether the server supports none of the requested media types.
    pub fn is_not_acceptable(&self) -> bool {
        self.is(Reason::NOT_ACCEPTABLE, 406)
    }

    /// Returns whether the server does not support the media type of the body.
    pub fn is_unsupported_media_type(&self) -> bool {
        self.is(Reason::UNSUPPORTED_MEDIA_TYPE, 415)
    }

    /// Returns whether the resource does not support the verb.
    pub fn is_method_not_supported(&self) -> bool {
        self.is(Reason::METHOD_NOT_ALLOWED, 405)
    }

    /// Returns whether the body exceeds the limit of the server. The code suffices, whatever the reason.
    pub fn is_request_entity_too_large(&self) -> bool {
        self.reason == Reason::REQUEST_ENTITY_TOO_LARGE || self.code == 413
    }

    /// Returns whether the server could not finish in time and requests a retry.
    pub fn is_server_timeout(&self) -> bool {
        self.reason == Reason::SERVER_TIMEOUT
    }
}
