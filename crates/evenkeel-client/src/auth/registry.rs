//! [`CredentialRegistry`]: credentials that clients with equal settings share.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::config::ConfigError;
use crate::tls::Digest;

/// The most entries that are kept. The least recently requested one is dropped beyond that; its clients keep it, and
/// only later clients get another.
const MOST: usize = 64;

/// The credentials in use by a digest of their settings, the most recently requested last. Kept after their last client
/// is dropped, so that a program that creates a client for every task does not obtain a credential for every task.
pub(super) struct CredentialRegistry<T> {
    entries: Mutex<VecDeque<(Digest, T)>>,
}

impl<T> Default for CredentialRegistry<T> {
    fn default() -> Self {
        CredentialRegistry { entries: Mutex::default() }
    }
}

impl<T: Clone> CredentialRegistry<T> {
    /// Returns the entry of these settings: the one in use, or a new one. `create` runs without the lock, so it may read
    /// files. If another thread is faster, its entry is returned.
    pub(super) fn get_or_create(
        &self,
        key: Digest,
        create: impl FnOnce() -> Result<T, ConfigError>,
    ) -> Result<T, ConfigError> {
        if let Some(found) = touch(&mut self.lock(), key) {
            return Ok(found);
        }
        let created = create()?;
        let mut entries = self.lock();
        if let Some(found) = touch(&mut entries, key) {
            drop(entries);
            return Ok(found);
        }
        entries.push_back((key, created.clone()));
        let dropped = if entries.len() > MOST { entries.pop_front() } else { None };
        drop(entries);
        drop(dropped);
        Ok(created)
    }

    /// No entry is dropped while this is held.
    fn lock(&self) -> MutexGuard<'_, VecDeque<(Digest, T)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns an entry and makes it the most recently requested one.
fn touch<T: Clone>(entries: &mut VecDeque<(Digest, T)>, key: Digest) -> Option<T> {
    let index = entries.iter().position(|(digest, _)| *digest == key)?;
    let entry = entries.remove(index)?;
    let found = entry.1.clone();
    entries.push_back(entry);
    Some(found)
}
