//! A memory of the last requests, for tests to ask what a client did (OPS-2).

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::{Method, StatusCode};

/// How many requests are remembered.
const REMEMBERED: usize = 4096;
/// How much of a path is remembered: more than any client of good will sends.
const LONGEST_PATH: usize = 8192;

/// One request that the server has answered, or dropped by a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// The method.
    pub method: Method,
    /// The path with its query; the first 8,192 letters if it is longer.
    pub path: String,
    /// The name of the user; empty when there was none.
    pub user: String,
    /// The status of the answer; `None` when a fault swallowed it.
    pub status: Option<StatusCode>,
}

#[derive(Debug, Default)]
pub(crate) struct Records(Mutex<VecDeque<RequestRecord>>);

impl Records {
    pub(crate) fn push(&self, mut record: RequestRecord) {
        if record.path.len() > LONGEST_PATH {
            record.path = record.path.chars().take(LONGEST_PATH).collect();
        }
        let mut records = self.lock();
        if records.len() == REMEMBERED {
            records.pop_front();
        }
        records.push_back(record);
    }

    /// The remembered requests, oldest first.
    pub(crate) fn snapshot(&self) -> Vec<RequestRecord> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<RequestRecord>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
