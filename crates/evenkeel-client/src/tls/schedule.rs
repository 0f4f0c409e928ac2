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
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_is_not_in_files_is_never_due() {
        let start = Instant::now();
        let mut schedule = Schedule::new(false, false, start);
        assert_eq!(schedule.claim(Occasion::Handshake, start + 1_000_000 * SECOND), Due::default());
        assert_eq!(schedule.next_for_request(), None);
    }

    #[test]
    fn trn_012_trn_013_handshakes_look_every_second_requests_every_minute_and_at_the_ca_every_five() {
        let start = Instant::now();
        let mut schedule = Schedule::new(true, true, start);
        let mut claim = |occasion, now| {
            let due = schedule.claim(occasion, now);
            schedule.done();
            due
        };
        let nothing = Due::default();
        let identity = Due { identity: true, ca: false };
        assert_eq!(claim(Occasion::Handshake, start), nothing, "the first load is no rotation");
        assert_eq!(claim(Occasion::Handshake, start + SECOND / 2), nothing);
        assert_eq!(claim(Occasion::Handshake, start + SECOND), identity);
        assert_eq!(claim(Occasion::Handshake, start + SECOND), nothing, "one looks for all");
        assert_eq!(claim(Occasion::Request, start + 60 * SECOND), nothing);
        assert_eq!(claim(Occasion::Request, start + 61 * SECOND), identity);
        assert_eq!(claim(Occasion::Request, start + 300 * SECOND), Due { identity: true, ca: true });
        assert_eq!(claim(Occasion::Handshake, start + 599 * SECOND), identity);
        assert_eq!(claim(Occasion::Handshake, start + 600 * SECOND), Due { identity: true, ca: true });
        assert_eq!(schedule.next_for_request(), Some(start + 660 * SECOND));
    }

    #[test]
    fn one_looks_at_a_time() {
        let start = Instant::now();
        let mut schedule = Schedule::new(true, true, start);
        assert!(schedule.claim(Occasion::Handshake, start + SECOND).any());
        assert!(!schedule.claim(Occasion::Handshake, start + 1000 * SECOND).any());
        schedule.done();
        assert!(schedule.claim(Occasion::Handshake, start + 1000 * SECOND).any());
    }
}
