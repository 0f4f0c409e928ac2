//! What kind of request a request is, and how long it may take.

use std::time::Duration;

use http::Method;
use http::request::Parts;

use super::auth;
use crate::query::Query;

/// The deadline of requests that do not shorten it with `timeout` (URL-10): `--request-timeout` of kube-apiserver.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The kinds of requests that have limits of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestClass {
    /// Changes nothing.
    Read,
    /// May change something.
    Write,
    /// Asks for the health of the server.
    Probe,
    /// Streams without a fixed end: watches, logs, exec, attach, port-forward, proxy.
    LongRunning,
}

impl RequestClass {
    pub(crate) fn of(parts: &Parts) -> Self {
        let path = parts.uri.path();
        if auth::is_health_probe(&parts.method, path) {
            return RequestClass::Probe;
        }
        if is_session(path) || is_watch(parts) {
            return RequestClass::LongRunning;
        }
        match parts.method {
            Method::GET | Method::HEAD | Method::OPTIONS => RequestClass::Read,
            _ => RequestClass::Write,
        }
    }
}

/// Returns the time that a request has, from its arrival to the start of its response.
pub(crate) fn allotted_time(parts: &Parts) -> Duration {
    // An unreadable timeout is refused later, and zero stands for the default.
    let shorter = parts.uri.query().filter(|query| query.contains("timeout=")).and_then(|query| {
        let query = Query::parse(Some(query));
        query.timeout().ok().flatten().filter(|timeout| !timeout.is_zero() && !query.is_watch())
    });
    shorter.map_or(REQUEST_TIMEOUT, |timeout| timeout.min(REQUEST_TIMEOUT))
}

/// A cheap check that never misses a watch. In a query, any character may be percent-encoded.
pub(crate) fn may_be_watch(parts: &Parts) -> bool {
    let by_query = |query: &str| query.contains("watch") || query.contains('%');
    parts.method == Method::GET && (parts.uri.query().is_some_and(by_query) || parts.uri.path().contains("/watch/"))
}

fn is_watch(parts: &Parts) -> bool {
    may_be_watch(parts) && (parts.uri.path().contains("/watch/") || Query::parse(parts.uri.query()).is_watch())
}

/// Returns whether a path is that of a session or log of a pod.
fn is_session(path: &str) -> bool {
    let mut segments = path.rsplit('/');
    let subresource = segments.next().unwrap_or_default();
    matches!(subresource, "exec" | "attach" | "portforward" | "log" | "proxy")
        && segments.nth(1).is_some_and(|resource| matches!(resource, "pods" | "services" | "nodes"))
}

#[cfg(test)]
mod tests;
