//! [`AccessLogs`]: what each user has used of the API.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use evenkeel_client::access::AccessLog;

use super::RequestRecord;

/// The number of users that are recorded.
const MAX_USERS: usize = 1024;

/// What each user has used, by the name of the user.
#[derive(Debug, Default)]
pub(crate) struct AccessLogs(Mutex<BTreeMap<String, AccessLog>>);

impl AccessLogs {
    /// Adds a request. Requests without a user were refused.
    pub(crate) fn record(&self, request: &RequestRecord) {
        if request.user.is_empty() {
            return;
        }
        let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if users.len() >= MAX_USERS && !users.contains_key(&request.user) {
            return;
        }
        let log = match users.get_mut(&request.user) {
            Some(log) => log,
            None => users.entry(request.user.clone()).or_default(),
        };
        log.add_request(&request.method, &request.path, request.status.map(|status| status.as_u16()));
    }

    /// Returns what a user has used.
    pub(crate) fn of(&self, user: &str) -> AccessLog {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(user).cloned().unwrap_or_default()
    }
}
