//! [`Lease`]: leading, as a value.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::core::LostReason;

/// One term of leading. What runs in its name should hold it, ask it, and end with it.
///
/// Clones are the same term. A term that has ended stays ended: when this process leads again, that is another lease with a
/// higher [number](Self::fencing_token).
#[derive(Clone)]
pub struct Lease {
    term: Arc<Term>,
}

struct Term {
    identity: String,
    number: u64,
    state: watch::Sender<State>,
}

#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) valid_until: Instant,
    /// When the last renewal that succeeded was sent.
    pub(super) renewed: Instant,
    pub(super) ending: Option<Ending>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Somebody wants the elector to stop. The lease is renewed while the work ends.
    Asked { at: Instant },
    /// We no longer lead.
    Lost { at: Instant, why: LostReason },
    /// The work is over.
    Over,
}

impl Lease {
    pub(super) fn new(identity: String, number: i32, renewed: Instant, valid_until: Instant) -> Self {
        let (state, _) = watch::channel(State { valid_until, renewed, ending: None });
        Lease { term: Arc::new(Term { identity, number: u64::try_from(number).unwrap_or(0), state }) }
    }

    /// Completes when the work has to end: when the lease is lost, at the latest when the time is over for which it was last
    /// renewed, or when the elector is asked to stop.
    ///
    /// Ask as often as you like; each future may be sent to where it is needed. Who has to leave things in order has the grace
    /// of the [elector](super::LeaderElector::grace) for it, and should ask [`is_valid`](Self::is_valid) before each step.
    pub fn lost(&self) -> Lost {
        let lease = self.clone();
        Lost { inner: Box::pin(async move { lease.wait_for_the_end().await }) }
    }

    /// Whether we lead right now, by the clock and not by what was heard last: also right if nothing else has had a chance to run
    /// for a while.
    ///
    /// Between this answer and what follows from it time passes. Where that matters, send the
    /// [number of the term](Self::fencing_token) along.
    pub fn is_valid(&self) -> bool {
        let state = self.term.state.borrow();
        matches!(state.ending, None | Some(Ending::Asked { .. })) && Instant::now() < state.valid_until
    }

    /// How much longer we lead if no renewal succeeds from now on. Zero if we do not.
    pub fn remaining(&self) -> Duration {
        match self.is_valid() {
            true => self.term.state.borrow().valid_until.saturating_duration_since(Instant::now()),
            false => Duration::ZERO,
        }
    }

    /// The number of this term: higher than that of every term before it, whoever led.
    ///
    /// A process can be stopped for any length of time between asking whether it leads and doing something about it, and no
    /// elector can help that. But a store that remembers the highest number it has seen, and refuses what comes with a lower
    /// one, is safe from leaders of the past.
    ///
    /// It is the `leaseTransitions` of the Lease. If the Lease is deleted, and everybody who has seen it is gone too, numbers start over.
    pub fn fencing_token(&self) -> u64 {
        self.term.number
    }

    /// The name under which we lead.
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
                changed = state.changed() => if changed.is_err() { return },
                () = sleep_until(valid_until) => {}
            }
        }
    }

    /// Whether the time is over for which the lease was last renewed.
    pub(super) fn has_expired(&self) -> bool {
        let state = self.term.state.borrow();
        Instant::now() >= state.valid_until
    }

    pub(super) fn state(&self) -> State {
        self.term.state.borrow().clone()
    }

    pub(super) fn changes(&self) -> watch::Receiver<State> {
        self.term.state.subscribe()
    }

    pub(super) fn renewed(&self, sent: Instant, valid_until: Instant) {
        self.term.state.send_if_modified(|state| {
            // Somebody may have been told already that the term is over. It stays over, though it need not have been.
            let is_in_time = Instant::now() < state.valid_until;
            if is_in_time {
                (state.renewed, state.valid_until) = (sent, valid_until);
            }
            is_in_time
        });
    }

    pub(super) fn end(&self, ending: Ending) {
        self.term.state.send_if_modified(|state| {
            let further = match (&state.ending, &ending) {
                (None, _) | (Some(Ending::Asked { .. }), Ending::Lost { .. }) => true,
                (Some(Ending::Over), _) => false,
                (Some(_), Ending::Over) => true,
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
