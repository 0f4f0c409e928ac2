//! Protects open servers from web pages (SEC-62, SEC-69).
//!
//! A page may send requests to any address of the user's machine and network. What distinguishes it from a program is what
//! a browser does not let it choose: the `Host`, the `Origin`, `Sec-Fetch-Site`, and the content type of a request that the
//! server has not agreed to (a CORS preflight, which this server refuses). A server that requires credentials needs none of
//! this: a page has no credentials.

use std::net::IpAddr;

use evenkeel_core::{Reason, Status};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Uri, header};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The content types that a page may send to another site without its consent. A body without a content type is one more.
const SIMPLE: [&str; 3] = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"];

/// Refuses requests to an open server that a page of another site may have sent: those with its `Origin`, and writes that a
/// browser sends without a preflight. Requests that only read are not refused for their content type: no page can read the
/// response.
pub(crate) fn check(parts: &Parts, has_body: bool) -> Result<(), Box<Status>> {
    let headers = &parts.headers;
    let host = host(&parts.uri, headers);
    let origin = headers.get(header::ORIGIN);
    let same_origin = origin.map(|origin| origin.to_str().is_ok_and(|origin| matches(origin, host)));
    let upgrades = headers.contains_key(header::UPGRADE);
    if same_origin == Some(true) || (parts.method.is_safe() && !upgrades) {
        return Ok(());
    }
    let site = headers.get(SEC_FETCH_SITE).map_or("none", |site| site.to_str().unwrap_or("?"));
    if same_origin == Some(false) || !matches!(site, "none" | "same-origin") {
        return Err(refused(403, Reason::FORBIDDEN, "a request of a web page from another origin"));
    }
    if has_body && !parts.method.is_safe() && is_simple(headers) {
        return Err(refused(
            415,
            Reason::UNSUPPORTED_MEDIA_TYPE,
            "a body without a content type that web pages cannot send, such as application/json",
        ));
    }
    Ok(())
}

fn refused(code: u16, reason: Reason, what: &str) -> Box<Status> {
    let message = format!("the server requires no credentials, so it rejects {what}");
    Box::new(Status::failure(code, reason, message))
}

fn is_simple(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return true };
    let Ok(value) = value.to_str() else { return true };
    let essence = value.split(';').next().unwrap_or_default().trim();
    // Browsers join several values; a value with a comma is none of the known types.
    essence.is_empty() || essence.contains(',') || SIMPLE.iter().any(|simple| essence.eq_ignore_ascii_case(simple))
}

/// Returns whether an origin is that of this host.
fn matches(origin: &str, host: Option<&str>) -> bool {
    let name = origin.split_once("://").map(|(_, name)| name);
    name.is_some() && name.zip(host).is_some_and(|(name, host)| name.eq_ignore_ascii_case(host))
}

fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    match uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => headers.get(header::HOST).map(|value| value.to_str().unwrap_or("?")),
    }
}

/// Rejects requests that a web page may have sent by a host name of its own that resolves to this machine. For a
/// server without credentials the host is the only difference between a local program and a browser; a name that the
/// page's author controls is never an IP address or `localhost`.
pub(crate) fn check_host(uri: &Uri, headers: &HeaderMap) -> Result<(), Box<Status>> {
    let origin = headers.get(header::ORIGIN).map(|value| {
        let origin = value.to_str().unwrap_or("?");
        origin.split_once("://").map_or(origin, |(_, host)| host)
    });
    for name in [host(uri, headers), origin].into_iter().flatten() {
        if !is_local(name) {
            return Err(Box::new(Status::failure(
                403,
                Reason::FORBIDDEN,
                format!("forbidden: the server requires no credentials, so it rejects the host {name:?}"),
            )));
        }
    }
    Ok(())
}

/// Returns whether a `host[:port]` is an IP address or `localhost`.
fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}
