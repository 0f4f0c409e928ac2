//! [`Lease`]: one term of leadership as a value.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::machine::LostReason;

/// One term of leadership. Work done as the leader should hold it, check it and end with it.
///
/// Clones are the same term. A term that has ended stays ended: a later term of this process is another lease with a
/// higher [fencing token](Self::fencing_token).
#[derive(Clone)]
pub struct Lease {
    term: Arc<Term>,
}

struct Term {
    identity: String,
    number: u64,
    state: watch::Sender<LeaseState>,
}

#[derive(Clone, Debug)]
pub(super) struct LeaseState {
    pub(super) valid_until: Instant,
    /// When the last successful renewal was sent.
    pub(super) renewed: Instant,
    pub(super) ending: Option<TermEnding>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TermEnding {
    /// A stop of the elector was requested. The lease is renewed while the work finishes.
    Asked { at: Instant },
    /// This process no longer leads.
    Lost { at: Instant, why: LostReason },
    /// The work has finished.
    Over,
}

impl Lease {
    pub(super) fn new(identity: String, number: i32, renewed: Instant, valid_until: Instant) -> Self {
        let (state, _) = watch::channel(LeaseState { valid_until, renewed, ending: None });
        Lease { term: Arc::new(Term { identity, number: u64::try_from(number).unwrap_or(0), state }) }
    }

    /// Returns a future that completes when the work has to stop: when the lease is lost, at the latest when its last
    /// renewal expires, or when the elector is stopped.
    ///
    /// May be called any number of times; each future may be sent anywhere. Work that has to clean up has the
    /// [grace](super::LeaderElector::grace) of the elector for it, and should check [`is_valid`](Self::is_valid)
    /// before each step.
    pub fn lost(&self) -> Lost {
        let lease = self.clone();
        Lost { inner: Box::pin(async move { lease.wait_for_the_end().await }) }
    }

    /// Returns whether this process leads right now, by the clock. This is correct even if no other task has run for a
    /// while.
    ///
    /// Time passes between this check and what follows from it. Where that matters, send the [fencing
    /// token](Self::fencing_token) along.
    pub fn is_valid(&self) -> bool {
        let state = self.term.state.borrow();
        matches!(state.ending, None | Some(TermEnding::Asked { .. })) && Instant::now() < state.valid_until
    }

    /// Returns how much longer this process leads if no further renewal succeeds. Zero if it does not lead.
    pub fn remaining(&self) -> Duration {
        match self.is_valid() {
            true => self.term.state.borrow().valid_until.saturating_duration_since(Instant::now()),
            false => Duration::ZERO,
        }
    }

    /// Returns the number of this term: higher than that of every earlier term of any process.
    ///
    /// A process can be suspended for any length of time between checking that it leads and acting on it; no elector
    /// prevents that. A store that remembers the highest number it has seen and rejects lower ones is safe from former
    /// leaders.
    ///
    /// It is the `leaseTransitions` of the Lease. If the Lease is deleted and no running candidate has seen it,
    /// numbers restart.
    pub fn fencing_token(&self) -> u64 {
        self.term.number
    }

    /// Returns the identity of the leader.
    pub fn identity(&self) -> &str {
        &self.term.identity
    }

    async fn wait_for_the_end(&self) {
        let mut state = self.term.state.subscribe();
        loop {
            let valid_until = {
                let state = state.borrow_and_update();
                if state.ending.is_some() || Instant::now() >= state.valid_until {
                    return;
                }
                state.valid_until
            };
            tokio::select! {
                biased;
                changed = state.changed() => if changed.is_err() { return },
                () = sleep_until(valid_until) => {}
            }
        }
    }

    /// Returns whether the last renewal has expired.
    pub(super) fn has_expired(&self) -> bool {
        let state = self.term.state.borrow();
        Instant::now() >= state.valid_until
    }

    pub(super) fn state(&self) -> LeaseState {
        self.term.state.borrow().clone()
    }

    pub(super) fn changes(&self) -> watch::Receiver<LeaseState> {
        self.term.state.subscribe()
    }

    pub(super) fn renewed(&self, sent: Instant, valid_until: Instant) {
        self.term.state.send_if_modified(|state| {
            // A term whose end was already observable stays ended, even if this renewal came just in time.
            let is_in_time = Instant::now() < state.valid_until;
            if is_in_time {
                (state.renewed, state.valid_until) = (sent, valid_until);
            }
            is_in_time
        });
    }

    pub(super) fn end(&self, ending: TermEnding) {
        self.term.state.send_if_modified(|state| {
            let further = match (&state.ending, &ending) {
                (None, _) | (Some(TermEnding::Asked { .. }), TermEnding::Lost { .. }) => true,
                (Some(TermEnding::Over), _) => false,
                (Some(_), TermEnding::Over) => true,
                _ => false,
            };
            if further {
                state.ending = Some(ending);
            }
            further
        });
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("identity", &self.identity())
            .field("fencing_token", &self.fencing_token())
            .field("is_valid", &self.is_valid())
            .finish()
    }
}

/// Completes when a [`Lease`] ends. See [`Lease::lost`].
#[must_use = "a future does nothing until it is awaited"]
pub struct Lost {
    inner: Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
}

impl Future for Lost {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.inner.as_mut().poll(context)
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lost").finish_non_exhaustive()
    }
}
