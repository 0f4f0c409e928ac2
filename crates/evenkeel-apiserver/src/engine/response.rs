//! Builds HTTP responses.

use std::collections::BTreeSet;

use evenkeel_core::Status;
use http::header::{CONTENT_TYPE, HeaderValue, WARNING};
use http::{Response, StatusCode};

use super::request::ResourceRequest;
use crate::http_types::Body;
use crate::negotiate::Representation;
pub(crate) use crate::negotiate::status_response_in as status;

/// Warnings longer than this in total are shortened, and those that still do not fit are dropped (NEG-12).
const ALL_WARNINGS: usize = 4096;
const ONE_WARNING: usize = 256;

pub(crate) fn ok(representation: Representation, body: impl Into<Body>) -> Response<Body> {
    with_body(representation, body.into())
}

pub(crate) fn with_code(code: StatusCode, representation: Representation, body: impl Into<Body>) -> Response<Body> {
    let mut response = ok(representation, body);
    *response.status_mut() = code;
    response
}

pub(crate) fn with_body(representation: Representation, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, representation.media.content_type());
    response
}

/// Returns the response to a create that stored no object of its own.
pub(crate) fn created(request: &ResourceRequest<'_>) -> Response<Body> {
    let mut success = Status::success();
    success.code = 201;
    status(&success, request.status_representation())
}

/// Adds a Warning header for each text (NEG-12).
pub(crate) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    let mut seen = BTreeSet::new();
    let distinct: Vec<&String> =
        warnings.iter().filter(|text| !text.is_empty() && seen.insert(text.as_str())).collect();
    let total: usize = distinct.iter().map(|warning| warning.chars().count()).sum();
    let limit = if total > ALL_WARNINGS { ONE_WARNING } else { usize::MAX };
    let mut written = 0;
    for warning in distinct {
        if written >= ALL_WARNINGS {
            break;
        }
        let mut text = String::from("299 - \"");
        for character in warning.chars().filter(|c| !c.is_control()).take(limit) {
            if matches!(character, '"' | '\\') {
                text.push('\\');
            }
            text.push(character);
            written += 1;
        }
        text.push('"');
        if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
}
