//! [`Election`]: decides whether this process leads.

use std::future::Future;

use evenkeel_cache::source::BoxFuture;
use tokio::sync::{mpsc, watch};

use super::error::BoxError;
use crate::election::{ElectorHandle, LeaderElector};

/// Decides whether this process leads.
pub trait Election: Send + Sync + 'static {
    /// Takes part in the election. When this process becomes leader, the implementation runs [`Term::lead`] with a future that
    /// resolves when leadership is lost. When `lead` has returned, it releases the lease and returns.
    ///
    /// Dropping the future ends the campaign and the term.
    ///
    /// # Errors
    /// Returns an error if leadership was lost.
    fn campaign(&self, term: Term) -> BoxFuture<'_, Result<(), BoxError>>;

    /// Returns a handle for the [live page](crate::inspect), which shows whether this process leads. Default: none.
    fn handle(&self) -> Option<ElectorHandle> {
        None
    }
}

/// Holds one lease for all elected tasks. Releases it when all of them have stopped.
impl Election for LeaderElector {
    fn campaign(&self, term: Term) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async move {
            self.run(|lease| async move { term.lead(lease.lost()).await }).await?;
            Ok(())
        })
    }

    fn handle(&self) -> Option<ElectorHandle> {
        Some(LeaderElector::handle(self))
    }
}

/// One term as leader, for an [`Election`].
#[derive(Debug)]
pub struct Term {
    events: mpsc::UnboundedSender<TermEvent>,
    over: watch::Receiver<bool>,
}

/// What a term reports to the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TermEvent {
    Elected,
    Lost,
}

impl Term {
    pub(super) fn new(events: &mpsc::UnboundedSender<TermEvent>) -> (watch::Sender<bool>, Self) {
        let (end, over) = watch::channel(false);
        (end, Term { events: events.clone(), over })
    }

    /// Starts the elected tasks. Returns when all of them have stopped, because the manager shuts down or because leadership was
    /// `lost`. Dropping the future counts as a loss.
    pub async fn lead(mut self, lost: impl Future) {
        let mut guard = LossGuard { events: Some(self.events.clone()) };
        // The receiver is dropped if the manager was, and then there is nothing to start.
        let _ = self.events.send(TermEvent::Elected);
        let is_lost = tokio::select! {
            biased;
            _ = self.over.wait_for(|over| *over) => false,
            _ = lost => true,
        };
        if is_lost {
            guard.report();
            let _ = self.over.wait_for(|over| *over).await;
        }
        guard.events = None;
    }
}

/// Reports the loss of leadership, also when [`Term::lead`] is dropped.
struct LossGuard {
    events: Option<mpsc::UnboundedSender<TermEvent>>,
}

impl LossGuard {
    fn report(&mut self) {
        if let Some(events) = self.events.take() {
            let _ = events.send(TermEvent::Lost);
        }
    }
}

impl Drop for LossGuard {
    fn drop(&mut self) {
        self.report();
    }
}
