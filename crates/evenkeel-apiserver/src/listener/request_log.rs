//! A record of the last requests, for tests that check what a client sent (OPS-2).

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Method, StatusCode};
use jiff::Timestamp;

use super::request_info::RequestInfo;
use crate::query::Query;

/// The number of requests kept.
const CAPACITY: usize = 4096;
/// The length at which a path is truncated: longer than that of any regular client.
const MAX_PATH: usize = 8192;

/// One request that the server handled, or dropped by a fault.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_apiserver::ApiServer;
///
/// let server = ApiServer::builder().start().await?;
/// // … run the controller under test …
/// let requests = server.requests();
/// let lists = requests.iter().filter(|request| {
///     let target = request.target();
///     (target.verb, target.resource) == ("list", "pods") && request.query("resourceVersion").as_deref() == Some("0")
/// });
/// assert!(lists.count() <= 1, "pods are listed from the cache of the server, once");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// The time of the request, by the clock of the server.
    pub time: Timestamp,
    /// The method.
    pub method: Method,
    /// The path with its query, truncated to 8,192 characters.
    pub path: String,
    /// The name of the user; empty if not authenticated.
    pub user: String,
    /// The status of the response; `None` if a fault dropped it, or if the client went away first.
    pub status: Option<StatusCode>,
    /// The time from the request to the start of the response.
    pub latency: Duration,
    /// The length of the response's body; `None` if it is streamed.
    pub bytes: Option<u64>,
}

impl RequestRecord {
    /// Returns what the request addresses.
    pub fn target(&self) -> RequestTarget<'_> {
        let (path, query) = self.split();
        // An apply is a patch, as in authorization.
        let info = RequestInfo::parse(&self.method, path, query, false);
        RequestTarget {
            verb: info.verb,
            group: info.group,
            version: info.version,
            resource: info.resource,
            subresource: info.subresource,
            namespace: info.namespace,
            name: info.name,
        }
    }

    /// Returns the first value of a parameter of the query, such as `resourceVersion` or `fieldManager`.
    pub fn query(&self, parameter: &str) -> Option<String> {
        Query::parse(self.split().1).get(parameter).map(str::to_owned)
    }

    fn split(&self) -> (&str, Option<&str>) {
        self.path.split_once('?').map_or((&self.path, None), |(path, query)| (path, Some(query)))
    }
}

/// What a request addresses, by its method and path. Absent parts are empty, as all but the verb are of paths that name no
/// resource. Names are as in the path, percent-encoded. Whether the resource exists is not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTarget<'a> {
    /// The verb of authorization, such as `list`, `watch` or `deletecollection`. Outside of resources, the method in lower
    /// case.
    pub verb: &'static str,
    /// The API group; empty for core.
    pub group: &'a str,
    /// The API version.
    pub version: &'a str,
    /// The resource, such as `pods`.
    pub resource: &'a str,
    /// The subresource, such as `status`.
    pub subresource: &'a str,
    /// The namespace.
    pub namespace: &'a str,
    /// The name of the object.
    pub name: &'a str,
}

#[derive(Debug, Default)]
pub(crate) struct RequestLog(Mutex<VecDeque<RequestRecord>>);

impl RequestLog {
    pub(crate) fn push(&self, mut record: RequestRecord) {
        if record.path.len() > MAX_PATH {
            record.path = record.path.chars().take(MAX_PATH).collect();
        }
        let mut records = self.lock();
        if records.len() == CAPACITY {
            records.pop_front();
        }
        records.push_back(record);
    }

    /// Returns the recorded requests, oldest first.
    pub(crate) fn snapshot(&self) -> Vec<RequestRecord> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<RequestRecord>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
