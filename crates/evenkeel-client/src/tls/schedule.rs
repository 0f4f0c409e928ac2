//! When files are looked at again: decided here, done elsewhere.

use std::time::Duration;

use tokio::time::Instant;

/// How old a look at the client certificate may be when a connection is made. Handshakes are rare and slow, so another
/// look costs them nothing that shows.
const IDENTITY_AT_HANDSHAKE: Duration = Duration::from_secs(1);
/// How old it may be when a request is made. Certificates are renewed days before they end; a minute is early enough for
/// connections that live for ever, and seldom enough for everyone else.
const IDENTITY_AT_REQUEST: Duration = Duration::from_secs(60);
/// How old a look at the authorities may be, whoever asks. Failures count as looks.
const CA: Duration = Duration::from_secs(5 * 60);

/// Why somebody wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occasion {
    Request,
    Handshake,
}

/// Which files to look at now.
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

/// Remembers when files were looked at last; `None` for what is not in files.
#[derive(Debug)]
pub(super) struct Schedule {
    identity: Option<Instant>,
    ca: Option<Instant>,
    /// Somebody is looking. On a file system that hangs one thread is enough to lose.
    busy: bool,
}

impl Schedule {
    /// Everything that is in files was read just now.
    pub(super) fn new(identity: bool, ca: bool, now: Instant) -> Self {
        Schedule { identity: identity.then_some(now), ca: ca.then_some(now), busy: false }
    }

    /// What is due. Whoever is told has to look, and to say when that is [done](Self::done); before that nobody else is
    /// told anything.
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

    /// Whoever was told to look has looked, or will not.
    pub(super) fn done(&mut self) {
        self.busy = false;
    }

    /// Before when a request need not ask.
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
