//! [`Course`]: what a watch that survives disconnects does next. No I/O; the time is passed in.

use std::time::Duration;

use evenkeel_core::{ResourceVersion, Status, StreamError, WatchEvent};
use tokio::time::Instant;

use crate::error::Error;
use crate::rest::RequestError;
use crate::retry::asked_by;

/// Watches begin at least this far apart.
pub(super) const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// How many watches in a row may be refused because their version is too old, before that is believed.
const EXPIRED_ATTEMPTS: u32 = 5;

/// Where a watch stands, and what it does about what happens to it.
#[derive(Debug)]
pub(super) struct Course {
    /// The version of the last event that was handed out, or of the last bookmark.
    version: String,
    /// When the last watch was asked for.
    started: Option<Instant>,
    /// How many watches in a row were refused because their version is too old.
    expired: u32,
    pub(super) expired_attempts: u32,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next {
    /// Hand out the event.
    Forward,
    /// Keep reading.
    Read,
    /// Watch again, from [`Course::version`], at this time.
    WatchAt(Instant),
    /// Hand out this error and end.
    Fail(Box<Status>),
}

impl Course {
    pub(super) fn new(from: &ResourceVersion) -> Result<Self, Error> {
        let version = from.as_str();
        if version.is_empty() || version == "0" {
            let problem = format!(
                "a watch that is to survive disconnects cannot begin at resource version {version:?}, which is no \
                 certain one: list first, and begin at the version of the list"
            );
            return Err(RequestError::Invalid { problem }.into());
        }
        Ok(Course { version: version.to_owned(), started: None, expired: 0, expired_attempts: EXPIRED_ATTEMPTS })
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// A watch is asked for.
    pub(super) fn begin(&mut self, now: Instant) {
        self.started = Some(now);
    }

    /// The watch is there.
    pub(super) fn established(&mut self) {
        self.expired = 0;
    }

    /// The watch could not be had.
    pub(super) fn failed(&mut self, error: &Error, now: Instant) -> Next {
        if let Error::Request(_) | Error::Config(_) = error {
            // Nothing was sent, and nothing ever will be.
            return Next::Fail(Box::new(Status::internal(error)));
        }
        let Some(status) = error.status() else { return self.again(Duration::ZERO, now) };
        if status.is_unauthorized() || status.is_forbidden() {
            return Next::Fail(Box::new(status.clone()));
        }
        if status.is_expired() {
            // A server that has just started, or a replica that lags, may know better in a moment.
            self.expired += 1;
            if self.expired >= self.expired_attempts {
                return Next::Fail(Box::new(status.clone()));
            }
        }
        self.again(asked_by(status), now)
    }

    /// The watch has ended, or what came cannot be understood any more.
    pub(super) fn ended(&mut self, now: Instant) -> Next {
        self.again(Duration::ZERO, now)
    }

    /// The watch says this. The version moves on when this is called, so call it when the event is handed out.
    pub(super) fn event<K>(&mut self, event: &WatchEvent<K>, now: Instant) -> Next {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                self.advance(object.resource_version(), Next::Forward)
            }
            WatchEvent::Bookmark { resource_version, .. } => self.advance(resource_version.as_str(), Next::Read),
            WatchEvent::Error(status) if status.is_expired() => Next::Fail(status.clone()),
            WatchEvent::Error(status) => self.again(asked_by(status), now),
        }
    }

    /// An event of the watch makes no sense.
    pub(super) fn nonsense(&mut self, error: &Error, now: Instant) -> Next {
        match error {
            // Where the next watch would have to begin is in what cannot be read: going on could leave something out.
            Error::Stream { source: StreamError::Object { .. } | StreamError::UnknownEvent { .. }, .. } => {
                Next::Fail(Box::new(Status::internal(format_args!("the watch cannot go on: {error}"))))
            }
            _ => self.again(Duration::ZERO, now),
        }
    }

    fn advance(&mut self, version: &str, then: Next) -> Next {
        if version.is_empty() {
            let problem = "the watch cannot go on: an event came without a resource version";
            return Next::Fail(Box::new(Status::internal(problem)));
        }
        self.version.clear();
        self.version.push_str(version);
        then
    }

    fn again(&self, after: Duration, now: Instant) -> Next {
        let paced = self.started.map_or(now, |started| started + MIN_INTERVAL);
        Next::WatchAt(paced.max(now + after))
    }
}
