//! Responses.

use std::collections::BTreeSet;

use bytes::Bytes;
use evenkeel_core::Status;
use http::header::{CONTENT_TYPE, HeaderValue, WARNING, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode};

use crate::http_types::Body;
use crate::negotiate::{Representation, status_reply_in};

/// Warnings longer than this in all are shortened, and those that even so do not fit are left out (NEG-12).
const ALL_WARNINGS: usize = 4096;
const ONE_WARNING: usize = 256;

pub(super) fn ok(representation: Representation, body: Bytes) -> Response<Body> {
    with_body(representation, Body::whole(body))
}

pub(super) fn with_code(code: StatusCode, representation: Representation, body: Bytes) -> Response<Body> {
    let mut reply = ok(representation, body);
    *reply.status_mut() = code;
    reply
}

pub(super) fn with_body(representation: Representation, body: Body) -> Response<Body> {
    let mut reply = Response::new(body);
    reply.headers_mut().insert(CONTENT_TYPE, representation.media.content_type());
    reply
}

/// A Status as an answer. What is forbidden is told in words that no browser takes for markup (ERR-20).
pub(super) fn status(status: &Status, representation: Representation) -> Response<Body> {
    if !status.is_forbidden() {
        return status_reply_in(status, representation);
    }
    let mut harmless = status.clone();
    harmless.message = escape_html(&status.message);
    let mut reply = status_reply_in(&harmless, representation);
    reply.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Adds a Warning header for each text (NEG-12).
pub(super) fn warn(reply: &mut Response<Body>, warnings: &[String]) {
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
            reply.headers_mut().append(WARNING, value);
        }
    }
}
