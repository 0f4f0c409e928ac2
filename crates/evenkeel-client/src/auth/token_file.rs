//! [`TokenFile`]: a token in a file that others renew, as kubelet does with those of service accounts.

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

/// How long a token is used: a minute, less ten seconds for what is under way.
const REREAD_AFTER: Duration = Duration::from_secs(50);
/// After a failure the file is left alone for a while: requests do not all wait for a broken disk, and the log is not
/// flooded.
const RETRY_AFTER: Duration = Duration::from_secs(10);
/// How long requests wait for the file; it is on a disk of this machine, as a rule.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most that a token may have.
const MAX_TOKEN: u64 = 1 << 20;

/// A token in a file, as the value of `Authorization`.
///
/// One request reads for all: while it does (on a thread for blocking work, because nobody knows what the path leads to),
/// others that come by wait for the result. Whoever waits may be dropped; the next one takes over. A file that cannot be
/// used, or not in time, is logged without its content, and the last good token stays.
pub(super) struct TokenFile {
    path: PathBuf,
    cache: Mutex<Cache>,
    /// Held by whoever waits for the file first. A read that takes too long, or whose waiter gave up, is kept here for the
    /// next: on a file system that hangs one thread is enough to lose.
    reading: tokio::sync::Mutex<Option<Reading>>,
}

/// A read that is under way.
struct Reading {
    /// What it finds was there at this moment, and perhaps no longer.
    since: Instant,
    task: JoinHandle<io::Result<HeaderValue>>,
}

/// What is known, and when to look again: no clock, no file.
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

    /// Whoever sent something at this moment was not believed. Only a look from before that is overtaken.
    fn invalidate(&mut self, sent: Instant) {
        if self.looked_at <= sent {
            self.look_at = self.looked_at;
        }
    }
}

impl TokenFile {
    /// Reads the file. If that fails there has to be a fallback, which is used until it succeeds.
    pub(super) fn open(path: PathBuf, fallback: Option<HeaderValue>, now: Instant) -> Result<Self, ConfigError> {
        let (value, pause) = match (read(&path), fallback) {
            (Ok(value), _) => (value, REREAD_AFTER),
            (Err(error), Some(fallback)) => {
                tracing::warn!(path = %path.display(), %error, "no token in the file yet; the fallback is used");
                (fallback, RETRY_AFTER)
            }
            (Err(source), None) => return Err(ConfigError::Read { what: "the bearer token", path, source }),
        };
        let cache = Mutex::new(Cache { value, looked_at: now, look_at: now + pause });
        Ok(TokenFile { path, cache, reading: tokio::sync::Mutex::default() })
    }

    /// The value of `Authorization` for a request made now.
    pub(super) async fn authorization(&self) -> HeaderValue {
        if let Some(value) = self.cache().at(Instant::now()) {
            return value;
        }
        let mut reading = self.reading.lock().await;
        let now = Instant::now();
        if let Some(value) = self.cache().at(now) {
            return value;
        }
        // What was read for somebody who gave up may be old by now.
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
            tracing::warn!(path = %self.path.display(), %error, "cannot read the token again; the last good one stays");
        }
        let mut cache = self.cache();
        cache.settle(found.ok(), looked_at);
        cache.value.clone()
    }

    /// See [`Credentials::invalidate`](super::Credentials::invalidate).
    pub(super) fn invalidate(&self, sent: Instant) {
        self.cache().invalidate(sent);
    }

    /// Nothing that can panic is done while this is held.
    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The value of `Authorization` from a file. Blocks. No error repeats what is in the file.
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
