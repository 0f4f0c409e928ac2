//! Answers that are no success, made into errors that name the call, its object and what the server said.

use evenkeel_core::codec::Codec;
use evenkeel_core::status::{StatusCause, StatusDetails, qualified};
use evenkeel_core::{Reason, Status};
use http::{HeaderMap, Method, StatusCode, response};

use super::media::{Codecs, MediaError, media_type};
use super::retry::retry_after;
use super::text::escaped;
use crate::error::{CallName, Error, UNEXPECTED_SERVER_RESPONSE};

/// How much is shown of a text that is no [`Status`].
const SHOWN: usize = 2048;

/// What is said of a text that cannot be shown.
const UNKNOWN: &str = "unknown";

/// What a request is about, as far as errors tell. Empty for a request to a path that is no resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// The API group; empty for the core group.
    pub(crate) group: Box<str>,
    /// The resource, such as `pods`.
    pub(crate) resource: Box<str>,
    /// The name of the object; empty for a collection.
    pub(crate) name: Box<str>,
    /// The part of the object, such as `scale`; empty for the object itself.
    pub(crate) subresource: Box<str>,
}

impl Target {
    /// Whether this is a part of an object that is of another kind than the object.
    pub(super) fn is_part(&self) -> bool {
        !matches!(&*self.subresource, "" | "status")
    }
}

/// The error for an answer that is no success. `body` is as much of its body as was read.
pub(super) fn refusal(call: &CallName, target: &Target, codecs: &Codecs, head: &response::Parts, body: &[u8]) -> Error {
    let codec = match codecs.of_answer(&head.headers) {
        Ok(codec) => Some(codec),
        Err(MediaError::Unknown(_)) => None,
        Err(malformed) => return nonsense(call, &malformed),
    };
    let status = match codec.and_then(|codec| failure_in(codec, body)) {
        Some(mut status) => {
            if status.code == 0 {
                status.code = head.status.as_u16();
            }
            status
        }
        None => unstructured(call.method(), target, head, body),
    };
    Error::Api { call: call.clone(), status: Box::new(status) }
}

/// The error for an answer whose media type makes no sense: what else it says is not to be trusted then.
pub(super) fn nonsense(call: &CallName, error: &MediaError) -> Error {
    let status = Status::internal(format_args!("the answer cannot be read: {error}"));
    Error::Api { call: call.clone(), status: Box::new(status) }
}

/// The failure that a body states. A `Status` that does not say `Failure` explains none.
pub(super) fn failure_in(codec: Codec, body: &[u8]) -> Option<Status> {
    codec.decode_status(body).filter(is_failure)
}

pub(super) fn is_failure(status: &Status) -> bool {
    status.status == "Failure"
}

/// What can be said of a failure that does not explain itself: the code, the call, and the text if there is one.
fn unstructured(method: &Method, target: &Target, head: &response::Parts, body: &[u8]) -> Status {
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

/// The body, if it is text: proxies answer so, and it is all there is to go by.
fn text_of(headers: &HeaderMap, body: &[u8]) -> String {
    match media_type(headers) {
        Ok(media_type) if media_type.is_empty() || media_type.starts_with("text/") => escaped(body, SHOWN),
        _ => String::new(),
    }
}

/// The reason that a code stands for, and a sentence for it.
fn reason_of(code: StatusCode, method: &Method, said: Option<&str>) -> (Reason, String) {
    let in_their_words = |otherwise: &str| said.unwrap_or(otherwise).to_owned();
    match code.as_u16() {
        400 => (Reason::BAD_REQUEST, "the server does not understand the request".into()),
        401 => (Reason::UNAUTHORIZED, "the server asks for credentials, or for better ones".into()),
        403 => (Reason::FORBIDDEN, in_their_words("the server does not allow the request")),
        404 => (Reason::NOT_FOUND, "the server does not have what was asked for".into()),
        405 => (Reason::METHOD_NOT_ALLOWED, "the server does not do this with the resource".into()),
        406 => (Reason::NOT_ACCEPTABLE, in_their_words("the server has no media type to answer in that we read")),
        409 if *method == Method::POST => (Reason::ALREADY_EXISTS, "the server says that it is there already".into()),
        409 => (Reason::CONFLICT, "the server reports a conflict".into()),
        415 => (Reason::UNSUPPORTED_MEDIA_TYPE, in_their_words("the server does not read the media type that we sent")),
        422 => (Reason::INVALID, "the server finds the request invalid".into()),
        429 => (Reason::TOO_MANY_REQUESTS, "the server has too many requests; it asks to try again later".into()),
        503 => (Reason::SERVICE_UNAVAILABLE, "the server cannot serve the request at the moment".into()),
        504 => (Reason::TIMEOUT, "the server did not finish in time; it may still be at work on the request".into()),
        500.. => {
            let said = said.unwrap_or(UNKNOWN);
            (Reason::INTERNAL_ERROR, format!("an error on the server (\"{said}\") kept the request from succeeding"))
        }
        other => (Reason::default(), format!("the server answered with code {other} and no explanation")),
    }
}

#[cfg(test)]
mod tests;
