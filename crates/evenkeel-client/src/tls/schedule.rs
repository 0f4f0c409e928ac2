//! When files are re-read. Sans-IO.

use std::time::Duration;

use tokio::time::Instant;

/// The maximum age of the client certificate at a handshake. Handshakes are rare and slow, so a read costs little.
const IDENTITY_AT_HANDSHAKE: Duration = Duration::from_secs(1);
/// The maximum age of the client certificate at a request. Certificates are renewed days before they expire; a minute
/// is early enough for long-lived connections.
const IDENTITY_AT_REQUEST: Duration = Duration::from_secs(60);
/// The maximum age of the authorities. Failed reads count.
const CA: Duration = Duration::from_secs(5 * 60);

/// The occasion of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occasion {
    Request,
    Handshake,
}

/// The files to read now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) identity: bool,
    pub(super) ca: bool,
}

impl Due {
    pub(super) fn any(self) -> bool {
        self.identity || self.ca
    }
}

/// When files were read last; `None` for what is not in files.
#[derive(Debug)]
pub(super) struct Schedule {
    identity: Option<Instant>,
    ca: Option<Instant>,
    /// A read is in progress. On a file system that hangs, at most one thread is lost.
    busy: bool,
}

impl Schedule {
    /// Returns a schedule of files that were read just now.
    pub(super) fn new(identity: bool, ca: bool, now: Instant) -> Self {
        Schedule { identity: identity.then_some(now), ca: ca.then_some(now), busy: false }
    }

    /// Claims the files that are due. The caller must read them and call [`done`](Self::done); until then nothing else
    /// is due.
    pub(super) fn claim(&mut self, occasion: Occasion, now: Instant) -> Due {
        if self.busy {
            return Due::default();
        }
        let every = match occasion {
            Occasion::Request => IDENTITY_AT_REQUEST,
            Occasion::Handshake => IDENTITY_AT_HANDSHAKE,
        };
        let due = Due { identity: claim(&mut self.identity, every, now), ca: claim(&mut self.ca, CA, now) };
        self.busy = due.any();
        due
    }

    /// Ends a claim, whether the files were read or not.
    pub(super) fn done(&mut self) {
        self.busy = false;
    }

    /// Returns the time before which a request need not check.
    pub(super) fn next_for_request(&self) -> Option<Instant> {
        let identity = self.identity.map(|last| last + IDENTITY_AT_REQUEST);
        let ca = self.ca.map(|last| last + CA);
        identity.into_iter().chain(ca).min()
    }
}

fn claim(last: &mut Option<Instant>, every: Duration, now: Instant) -> bool {
    match last {
        Some(last) if now.saturating_duration_since(*last) >= every => {
            *last = now;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
