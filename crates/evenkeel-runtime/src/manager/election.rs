//! [`Election`]: who decides whether this process leads.

use std::future::Future;

use evenkeel_cache::source::BoxFuture;
use tokio::sync::{mpsc, watch};

use super::error::BoxError;
use crate::election::LeaderElector;

/// Decides whether this process leads.
pub trait Election: Send + Sync + 'static {
    /// Takes part. When this process leads, [`Term::lead`] is to be run, with what tells that it no longer does; when that
    /// has returned, the lease can be given back, and this returns.
    ///
    /// Dropping this ends it, whether it leads or not.
    ///
    /// # Errors
    /// If leadership was lost.
    fn campaign(&self, term: Term) -> BoxFuture<'_, Result<(), BoxError>>;
}

/// One lease for all that is elected. It is given back when all of it has ended.
impl Election for LeaderElector {
    fn campaign(&self, term: Term) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async move {
            self.run(|lease| async move { term.lead(lease.lost()).await }).await?;
            Ok(())
        })
    }
}

/// A time of leading, for an [`Election`].
#[derive(Debug)]
pub struct Term {
    words: mpsc::UnboundedSender<TermEvent>,
    over: watch::Receiver<bool>,
}

/// What a term tells the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TermEvent {
    Elected,
    Lost,
}

impl Term {
    pub(super) fn new(words: &mpsc::UnboundedSender<TermEvent>) -> (watch::Sender<bool>, Self) {
        let (end, over) = watch::channel(false);
        (end, Term { words: words.clone(), over })
    }

    /// Leads: what waits to be elected begins now. Returns when all of it has ended, because the manager ends or because
    /// leadership was `lost`. Dropping this is losing it too.
    pub async fn lead(mut self, lost: impl Future) {
        let mut loss = LossGuard { words: Some(self.words.clone()) };
        // Nobody listens any more if the manager is ending, and then there is nothing to begin.
        let _ = self.words.send(TermEvent::Elected);
        let is_lost = tokio::select! {
            biased;
            _ = self.over.wait_for(|over| *over) => false,
            _ = lost => true,
        };
        if is_lost {
            loss.tell();
            let _ = self.over.wait_for(|over| *over).await;
        }
        loss.words = None;
    }
}

/// Tells that leadership is lost, if only because nobody keeps it.
struct LossGuard {
    words: Option<mpsc::UnboundedSender<TermEvent>>,
}

impl LossGuard {
    fn tell(&mut self) {
        if let Some(words) = self.words.take() {
            let _ = words.send(TermEvent::Lost);
        }
    }
}

impl Drop for LossGuard {
    fn drop(&mut self) {
        self.tell();
    }
}
