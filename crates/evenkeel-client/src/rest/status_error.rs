//! Errors of responses that are no success, with the request, its object and the server's message.

use evenkeel_core::codec::Codec;
use evenkeel_core::status::{StatusCause, StatusDetails, qualified};
use evenkeel_core::{Reason, Status};
use http::{HeaderMap, Method, StatusCode, response};

use super::media::{Codecs, MediaError, media_type};
use super::retry::retry_after;
use super::sanitize::escaped;
use crate::error::{Error, RequestName, UNEXPECTED_SERVER_RESPONSE};

/// The maximal length of a body without a [`Status`] in an error.
const SHOWN: usize = 2048;

/// The message of a body that cannot be shown.
const UNKNOWN: &str = "unknown";

/// The target of a request, for errors and the protobuf fallback. Empty for a raw path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestTarget {
    /// The API group; empty for the core group.
    pub(crate) group: Box<str>,
    /// The resource, such as `pods`.
    pub(crate) resource: Box<str>,
    /// The name of the object; empty for a collection.
    pub(crate) name: Box<str>,
    /// The subresource, such as `scale`; empty for the object itself.
    pub(crate) subresource: Box<str>,
}

impl RequestTarget {
    /// Returns whether this is a subresource of another kind than the object.
    pub(super) fn is_other_kind(&self) -> bool {
        !matches!(&*self.subresource, "" | "status")
    }
}

/// Builds the error of a response that is no success. `body` is the part of its body that was read.
pub(super) fn status_error(
    request: &RequestName,
    target: &RequestTarget,
    codecs: &Codecs,
    head: &response::Parts,
    body: &[u8],
) -> Error {
    let codec = match codecs.of_response(&head.headers) {
        Ok(codec) => Some(codec),
        Err(MediaError::Unknown(_)) => None,
        Err(malformed) => return malformed_response(request, &malformed),
    };
    let status = match codec.and_then(|codec| failure_in(codec, body)) {
        Some(mut status) => {
            if status.code == 0 {
                status.code = head.status.as_u16();
            }
            status
        }
        None => unstructured(request.method(), target, head, body),
    };
    Error::Api { request: request.clone(), status: Box::new(status) }
}

/// Builds the error of a response with a malformed media type, whose body is not trusted.
pub(super) fn malformed_response(request: &RequestName, error: &MediaError) -> Error {
    let status = Status::internal(format_args!("the response cannot be decoded: {error}"));
    Error::Api { request: request.clone(), status: Box::new(status) }
}

/// Returns the failure in a body. A `Status` other than `Failure` is none.
pub(super) fn failure_in(codec: Codec, body: &[u8]) -> Option<Status> {
    codec.decode_status(body).filter(is_failure)
}

pub(super) fn is_failure(status: &Status) -> bool {
    status.status == "Failure"
}

/// Builds a `Status` for a failure without one, from the status code, the request, and the text of the body.
fn unstructured(method: &Method, target: &RequestTarget, head: &response::Parts, body: &[u8]) -> Status {
    let said = Some(text_of(&head.headers, body)).filter(|text| !text.is_empty());
    let (reason, mut message) = reason_of(head.status, method, said.as_deref());
    if !target.resource.is_empty() {
        let verb = method.as_str().to_ascii_lowercase();
        message.push_str(&format!(" ({verb} {}", qualified(&target.group, &target.resource)));
        if !target.name.is_empty() {
            message.push(' ');
            message.push_str(&target.name);
        }
        message.push(')');
    }
    let cause = StatusCause {
        reason: UNEXPECTED_SERVER_RESPONSE.into(),
        message: said.unwrap_or_else(|| UNKNOWN.to_owned()),
        ..StatusCause::default()
    };
    let wait = retry_after(&head.headers).unwrap_or_default();
    Status::failure(head.status.as_u16(), reason, message).with_details(StatusDetails {
        group: target.group.to_string(),
        kind: target.resource.to_string(),
        name: target.name.to_string(),
        retry_after_seconds: u32::try_from(wait.as_secs()).unwrap_or(u32::MAX),
        causes: vec![cause],
        ..StatusDetails::default()
    })
}

/// Returns the body if it is text, as proxies send it.
fn text_of(headers: &HeaderMap, body: &[u8]) -> String {
    match media_type(headers) {
        Ok(media_type) if media_type.is_empty() || media_type.starts_with("text/") => escaped(body, SHOWN),
        _ => String::new(),
    }
}

/// Returns the reason of a status code, and a message.
fn reason_of(code: StatusCode, method: &Method, said: Option<&str>) -> (Reason, String) {
    let message_or = |otherwise: &str| said.unwrap_or(otherwise).to_owned();
    match code.as_u16() {
        400 => (Reason::BAD_REQUEST, "the server does not understand the request".into()),
        401 => (Reason::UNAUTHORIZED, "the server requires valid credentials".into()),
        403 => (Reason::FORBIDDEN, message_or("the server does not allow the request")),
        404 => (Reason::NOT_FOUND, "the server could not find the requested resource".into()),
        405 => (Reason::METHOD_NOT_ALLOWED, "the server does not allow this method on the resource".into()),
        406 => (Reason::NOT_ACCEPTABLE, message_or("the server supports none of the accepted media types")),
        409 if *method == Method::POST => (Reason::ALREADY_EXISTS, "the object already exists".into()),
        409 => (Reason::CONFLICT, "the server reports a conflict".into()),
        415 => (Reason::UNSUPPORTED_MEDIA_TYPE, message_or("the server does not support the media type of the body")),
        422 => (Reason::INVALID, "the server rejected the request as invalid".into()),
        429 => (Reason::TOO_MANY_REQUESTS, "the server has received too many requests; try again later".into()),
        503 => (Reason::SERVICE_UNAVAILABLE, "the server is currently unable to handle the request".into()),
        504 => (Reason::TIMEOUT, "the server did not finish in time; it may still act on the request".into()),
        500.. => {
            let said = said.unwrap_or(UNKNOWN);
            (
                Reason::INTERNAL_ERROR,
                format!("an error on the server (\"{said}\") prevented the request from succeeding"),
            )
        }
        other => (Reason::default(), format!("the server responded with status code {other} and no explanation")),
    }
}

#[cfg(test)]
mod tests;
