//! A record of the last requests, for tests that check what a client sent (OPS-2).

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Method, StatusCode};

/// The number of requests kept.
const CAPACITY: usize = 4096;
/// The length at which a path is truncated: longer than that of any regular client.
const MAX_PATH: usize = 8192;

/// One request that the server handled, or dropped by a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord {
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
