//! [`Registration`]: a handler of an informer.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::listener::{InitialSync, Lag, Listener};
use super::shared::InformerShared;
use crate::source::BoxFuture;

/// A handler of an informer. Dropping this does not remove the handler: see [`remove`](Self::remove).
#[derive(Clone)]
pub struct Registration {
    informer: String,
    /// Weak, so that a registration does not keep the store.
    shared: Weak<InformerShared>,
    listener: Arc<Listener>,
}

/// The informer has stopped, or the handler was removed, before the operation could complete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("informer {informer} has stopped: {consequence}")]
pub struct Stopped {
    informer: String,
    consequence: &'static str,
}

impl Stopped {
    pub(crate) fn new(informer: &str, consequence: &'static str) -> Self {
        Stopped { informer: informer.to_owned(), consequence }
    }
}

impl Registration {
    pub(super) fn new(shared: &Arc<InformerShared>, listener: &Arc<Listener>) -> Self {
        Registration { informer: shared.name.clone(), shared: Arc::downgrade(shared), listener: Arc::clone(listener) }
    }

    /// Returns the name of the handler in logs and metrics.
    pub fn name(&self) -> &str {
        &self.listener.name
    }

    /// Returns the name of the informer.
    pub fn informer(&self) -> &str {
        &self.informer
    }

    /// Returns `true` once the handler has processed the initial list: the objects of the informer's first list, or the stored
    /// objects if it was added later. All those calls have returned.
    pub fn has_synced(&self) -> bool {
        self.listener.is_synced()
    }

    /// Waits until [`has_synced`](Self::has_synced).
    ///
    /// # Errors
    /// If the handler was removed or the informer stopped before.
    pub async fn synced(&self) -> Result<(), Stopped> {
        let mut sync = self.listener.synced();
        let outcome = sync.wait_for(|sync| *sync != InitialSync::Pending).await.map(|sync| *sync);
        match outcome {
            Ok(InitialSync::Done) => Ok(()),
            _ => Err(Stopped::new(&self.informer, "the handler did not receive the whole initial list")),
        }
    }

    /// Returns a future that is ready when the handler has synced, and never if the informer stops before. It keeps no store.
    pub(crate) fn synced_or_never(&self) -> BoxFuture<'static, ()> {
        let mut sync = self.listener.synced();
        Box::pin(async move {
            if sync.wait_for(|sync| *sync == InitialSync::Done).await.is_err() {
                std::future::pending().await
            }
        })
    }

    /// Returns the resync period of the handler, which may be longer than requested; zero for no resync, and for a handler
    /// that was removed.
    pub fn resync_period(&self) -> Duration {
        self.shared.upgrade().and_then(|shared| shared.processor().period_of(&self.listener)).unwrap_or_default()
    }

    /// Returns how far the handler is behind, and the number of its calls.
    pub fn lag(&self) -> Lag {
        self.listener.lag()
    }

    /// Returns `true` until the handler is removed or the informer has stopped.
    pub fn is_active(&self) -> bool {
        !self.listener.is_revoked()
    }

    /// Removes the handler. A call in progress runs to its end; no other starts once this has returned. Queued notifications
    /// are discarded. A second call has no effect. The handler itself may call this.
    pub fn remove(&self) {
        match self.shared.upgrade() {
            Some(shared) => shared.remove_listener(&self.listener),
            None => self.listener.revoke(),
        }
    }

    /// Removes the handler, and waits until a call in progress has returned and the handler is dropped.
    ///
    /// A handler that waits for its own removal never returns; it can [`remove`](Self::remove) itself.
    pub async fn shutdown(&self) {
        self.remove();
        self.listener.dropped().await;
    }
}

/// The informer and the handler, for logs and errors.
impl fmt::Display for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "informer {} + handler {}", self.informer, self.listener.name)
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("informer", &self.informer)
            .field("handler", &self.listener.name)
            .field("has_synced", &self.has_synced())
            .field("lag", &self.lag())
            .finish()
    }
}
