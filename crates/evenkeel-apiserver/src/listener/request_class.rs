//! What kind of request a request is, and how long it may take.

use std::time::Duration;

use http::request::Parts;
use http::{Method, Uri};

use super::auth;
use super::request_info::RequestInfo;
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
    pub(crate) fn of(method: &Method, info: &RequestInfo<'_>) -> Self {
        match () {
            () if auth::is_health_probe(method, info.path) => RequestClass::Probe,
            () if info.is_long_running() => RequestClass::LongRunning,
            () if info.only_reads() => RequestClass::Read,
            () => RequestClass::Write,
        }
    }
}

/// Returns the time that a request has, from its arrival to the start of its response.
pub(crate) fn allotted_time(uri: &Uri) -> Duration {
    // An unreadable timeout is refused later, and zero stands for the default.
    let shorter = uri.query().filter(|query| query.contains("timeout=")).and_then(|query| {
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

#[cfg(test)]
mod tests;
