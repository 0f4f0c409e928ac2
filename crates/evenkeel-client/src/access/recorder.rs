//! [`AccessRecorder`]: notes what clients use of the API.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::check::AccessError;
use super::log::AccessLog;
use super::request::Access;
use super::rules::RbacRules;

/// Notes every verb and resource that clients use: reads, watches and writes, subresources and sessions, by any API of the
/// client. Given to a client by [`Client::with_access_recorder`](crate::Client::with_access_recorder). Clones share one log.
///
/// # Guarantees
/// - A use is noted before the request is sent, so also if it is refused, fails or is cancelled.
/// - An apply or update that created its object counts as a create as well, as servers authorize it.
/// - Retries and redirects count once.
///
/// # Not guaranteed
/// - Other requests that API servers make on behalf of the client, such as evictions of a drain, are not seen.
#[derive(Clone, Debug, Default)]
pub struct AccessRecorder(Arc<Mutex<AccessLog>>);

impl AccessRecorder {
    /// Returns a recorder that has seen nothing.
    pub fn new() -> Self {
        AccessRecorder::default()
    }

    /// Returns what was used so far.
    pub fn log(&self) -> AccessLog {
        self.lock().clone()
    }

    /// Forgets what was used so far: what a test did to prepare, for example.
    pub fn clear(&self) {
        *self.lock() = AccessLog::default();
    }

    /// Returns the minimal rules that allow what was used. See [`AccessLog::rules`].
    pub fn rules(&self) -> RbacRules {
        self.lock().rules()
    }

    /// Checks that everything that was used is granted. Returns what is granted and was not used.
    ///
    /// # Errors
    /// Something was used and is not granted: the error lists it.
    pub fn check(&self, granted: &RbacRules) -> Result<Vec<Access>, AccessError> {
        granted.check(&self.lock())
    }

    pub(crate) fn record(&self, access: &Access) {
        let mut log = self.lock();
        log.extend(access.also_needs());
        log.add(access.clone());
    }

    pub(crate) fn record_created(&self, access: &Access) {
        self.lock().extend(access.if_created());
    }

    fn lock(&self) -> MutexGuard<'_, AccessLog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
