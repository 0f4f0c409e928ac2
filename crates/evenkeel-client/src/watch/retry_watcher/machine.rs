//! [`WatchMachine`]: the state machine of a [`RetryWatcher`](super::RetryWatcher). No I/O; the time is an argument.

use std::time::Duration;

use evenkeel_core::{ResourceVersion, Status, StreamError, WatchEvent};
use tokio::time::Instant;

use crate::error::Error;
use crate::rest::RequestError;
use crate::retry::server_retry_delay;

/// The minimal interval between openings.
pub(super) const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// How many times in a row an expired version is retried.
const EXPIRED_ATTEMPTS: u32 = 5;

/// The state of a retried watch.
#[derive(Debug)]
pub(super) struct WatchMachine {
    /// The version of the last returned event, or of the last bookmark.
    version: String,
    /// When the last watch was opened.
    started: Option<Instant>,
    /// How many times in a row the version was rejected as expired.
    expired: u32,
    pub(super) expired_attempts: u32,
}

/// What the driver does next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum WatchAction {
    /// Return the event.
    Forward,
    /// Read on.
    Read,
    /// Reopen the watch, from [`WatchMachine::version`], at this time.
    WatchAt(Instant),
    /// Return this error and end.
    Fail(Box<Status>),
}

impl WatchMachine {
    pub(super) fn new(from: &ResourceVersion) -> Result<Self, Error> {
        let version = from.as_str();
        if version.is_empty() || version == "0" {
            let problem = format!(
                "a retried watch cannot start at resource version {version:?}, which is not definite: list \
                 first, and start at the version of the list"
            );
            return Err(RequestError::Invalid { problem }.into());
        }
        Ok(WatchMachine { version: version.to_owned(), started: None, expired: 0, expired_attempts: EXPIRED_ATTEMPTS })
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// A watch is being opened.
    pub(super) fn opening(&mut self, now: Instant) {
        self.started = Some(now);
    }

    /// The watch was opened.
    pub(super) fn opened(&mut self) {
        self.expired = 0;
    }

    /// Opening the watch failed.
    pub(super) fn failed(&mut self, error: &Error, now: Instant) -> WatchAction {
        if let Error::Request(_) | Error::Config(_) = error {
            // Nothing was sent, and a retry would not be sent either.
            return WatchAction::Fail(Box::new(Status::internal(error)));
        }
        let Some(status) = error.status() else { return self.reopen(Duration::ZERO, now) };
        if status.is_unauthorized() || status.is_forbidden() {
            return WatchAction::Fail(Box::new(status.clone()));
        }
        if status.is_expired() {
            // A server that has just started, or a replica that lags, may accept the version later.
            self.expired += 1;
            if self.expired >= self.expired_attempts {
                return WatchAction::Fail(Box::new(status.clone()));
            }
        }
        self.reopen(server_retry_delay(status), now)
    }

    /// The watch closed, or cannot be decoded any further.
    pub(super) fn ended(&mut self, now: Instant) -> WatchAction {
        self.reopen(Duration::ZERO, now)
    }

    /// The watch returned this event. Advances the version, so call it when the event is returned.
    pub(super) fn event<K>(&mut self, event: &WatchEvent<K>, now: Instant) -> WatchAction {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                self.advance(object.resource_version(), WatchAction::Forward)
            }
            WatchEvent::Bookmark { resource_version, .. } => self.advance(resource_version.as_str(), WatchAction::Read),
            WatchEvent::Error(status) if status.is_expired() => WatchAction::Fail(status.clone()),
            WatchEvent::Error(status) => self.reopen(server_retry_delay(status), now),
        }
    }

    /// An event of the watch cannot be decoded.
    pub(super) fn undecodable(&mut self, error: &Error, now: Instant) -> WatchAction {
        match error {
            // The version to continue from is in what cannot be decoded: continuing could skip an event.
            Error::Stream { source: StreamError::Object { .. } | StreamError::UnknownEvent { .. }, .. } => {
                WatchAction::Fail(Box::new(Status::internal(format_args!("the watch cannot continue: {error}"))))
            }
            _ => self.reopen(Duration::ZERO, now),
        }
    }

    fn advance(&mut self, version: &str, then: WatchAction) -> WatchAction {
        if version.is_empty() {
            let problem = "the watch cannot continue: an event has no resource version";
            return WatchAction::Fail(Box::new(Status::internal(problem)));
        }
        self.version.clear();
        self.version.push_str(version);
        then
    }

    fn reopen(&self, after: Duration, now: Instant) -> WatchAction {
        let paced = self.started.map_or(now, |started| started + MIN_INTERVAL);
        WatchAction::WatchAt(paced.max(now + after))
    }
}
