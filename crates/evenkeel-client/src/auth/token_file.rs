//! [`TokenFile`]: a token in a file that is renewed externally, such as a service account token by the kubelet.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use zeroize::Zeroizing;

use crate::config::ConfigError;
use crate::small_file;

/// How long a token is used: a minute, less ten seconds for requests in flight.
const REREAD_AFTER: Duration = Duration::from_secs(50);
/// The pause after a failed read, so that requests do not all wait for a broken disk and the log is not flooded.
const RETRY_AFTER: Duration = Duration::from_secs(10);
/// How long requests wait for the file, which is usually on a local disk.
const PATIENCE: Duration = Duration::from_secs(2);
/// The maximum size of a token.
const MAX_TOKEN: u64 = 1 << 20;

/// A token in a file, as the value of `Authorization`.
///
/// One request reads for all: while it does (on a blocking thread, because the path may lead anywhere), concurrent
/// requests wait for the result. A waiting request may be dropped; the next one takes over. A file that cannot be read
/// in time is logged without its content, and the last good token stays.
pub(super) struct TokenFile {
    path: PathBuf,
    cache: Mutex<Cache>,
    /// Held by the first request that waits for the file. A read that takes too long, or whose waiter was dropped, is
    /// kept here for the next: on a file system that hangs, at most one thread is lost.
    reading: tokio::sync::Mutex<Option<Reading>>,
}

/// A read in progress.
struct Reading {
    /// When the read started; the content may have changed since.
    since: Instant,
    task: JoinHandle<io::Result<HeaderValue>>,
}

/// The current token and when to re-read it, without clock and file.
struct Cache {
    value: HeaderValue,
    looked_at: Instant,
    look_at: Instant,
}

impl Cache {
    fn at(&self, now: Instant) -> Option<HeaderValue> {
        (now < self.look_at).then(|| self.value.clone())
    }

    fn settle(&mut self, found: Option<HeaderValue>, now: Instant) {
        self.looked_at = now;
        self.look_at = now + if found.is_some() { REREAD_AFTER } else { RETRY_AFTER };
        if let Some(value) = found {
            self.value = value;
        }
    }

    /// Reports a 401 for a request sent at this time. Only an older read is invalidated.
    fn invalidate(&mut self, sent: Instant) {
        if self.looked_at <= sent {
            self.look_at = self.looked_at;
        }
    }
}

impl TokenFile {
    /// Reads the file. If that fails a fallback is required, which is used until a read succeeds.
    pub(super) fn open(path: PathBuf, fallback: Option<HeaderValue>, now: Instant) -> Result<Self, ConfigError> {
        let (value, pause) = match (read(&path), fallback) {
            (Ok(value), _) => (value, REREAD_AFTER),
            (Err(error), Some(fallback)) => {
                tracing::warn!(path = %path.display(), %error, "the token file has no token yet; using the fallback");
                (fallback, RETRY_AFTER)
            }
            (Err(source), None) => return Err(ConfigError::Read { what: "the bearer token", path, source }),
        };
        let cache = Mutex::new(Cache { value, looked_at: now, look_at: now + pause });
        Ok(TokenFile { path, cache, reading: tokio::sync::Mutex::default() })
    }

    /// Returns the value of `Authorization` for a request sent now.
    pub(super) async fn authorization(&self) -> HeaderValue {
        if let Some(value) = self.cache().at(Instant::now()) {
            return value;
        }
        let mut reading = self.reading.lock().await;
        let now = Instant::now();
        if let Some(value) = self.cache().at(now) {
            return value;
        }
        // The result of a read whose waiter was dropped may be stale.
        if reading.as_ref().is_some_and(|reading| reading.task.is_finished()) {
            *reading = None;
        }
        let read = reading.get_or_insert_with(|| {
            let path = self.path.clone();
            Reading { since: now, task: tokio::task::spawn_blocking(move || read(&path)) }
        });
        let (found, looked_at) = match timeout(PATIENCE, &mut read.task).await {
            Ok(found) => {
                let since = read.since;
                *reading = None;
                (found.unwrap_or_else(|error| Err(io::Error::other(error))), since)
            }
            Err(_) => (Err(io::ErrorKind::TimedOut.into()), now),
        };
        if let Err(error) = &found {
            tracing::warn!(path = %self.path.display(), %error, "cannot re-read the token; keeping the last one");
        }
        let mut cache = self.cache();
        cache.settle(found.ok(), looked_at);
        cache.value.clone()
    }

    /// See [`Credentials::invalidate`](super::Credentials::invalidate).
    pub(super) fn invalidate(&self, sent: Instant) {
        self.cache().invalidate(sent);
    }

    /// Nothing that can panic runs while this is held.
    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the value of `Authorization` from a file. Blocks. No error repeats the content.
fn read(path: &Path) -> io::Result<HeaderValue> {
    let refuse = |problem: &str| Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    let content = small_file::read(path, MAX_TOKEN)?;
    let token = content.trim_ascii();
    if token.is_empty() {
        return refuse("it is empty");
    }
    let mut text = Zeroizing::new(Vec::with_capacity("Bearer ".len() + token.len()));
    text.extend_from_slice(b"Bearer ");
    text.extend_from_slice(token);
    let Ok(mut value) = HeaderValue::from_bytes(&text) else {
        return refuse("there is a line break or another control character inside the token");
    };
    value.set_sensitive(true);
    Ok(value)
}
