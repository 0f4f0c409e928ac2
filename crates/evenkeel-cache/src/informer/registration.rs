//! [`Registration`]: a handler's place in an informer.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::core::Core;
use super::listener::{Lag, Listener, Told};
use crate::source::BoxFuture;
use crate::wait::DoneChecker;

/// A handler's place in an informer. Dropping this changes nothing: the handler stays until it is
/// [removed](Self::remove), or the informer ends.
#[derive(Clone)]
pub struct Registration {
    informer: String,
    /// Not to keep the objects.
    core: Weak<Core>,
    listener: Arc<Listener>,
}

/// What was waited for will not come: the informer has ended, or the handler was removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("informer {informer}: {what} because it has stopped already")]
pub struct Stopped {
    informer: String,
    what: &'static str,
}

impl Stopped {
    pub(super) fn new(informer: &str, what: &'static str) -> Self {
        Stopped { informer: informer.to_owned(), what }
    }
}

impl Registration {
    pub(super) fn new(core: &Arc<Core>, listener: &Arc<Listener>) -> Self {
        Registration { informer: core.name.clone(), core: Arc::downgrade(core), listener: Arc::clone(listener) }
    }

    /// The handler's name, as logs and metrics have it.
    pub fn name(&self) -> &str {
        &self.listener.name
    }

    /// Whether the handler has been told of everything that there was when the informer began, or when it was added if that
    /// was later: all those calls have returned.
    pub fn has_synced(&self) -> bool {
        self.listener.is_told()
    }

    /// Waits until [`has_synced`](Self::has_synced).
    ///
    /// # Errors
    /// If that cannot happen any more: the handler was removed, or the informer ended.
    pub async fn synced(&self) -> Result<(), Stopped> {
        let mut told = self.listener.told();
        let outcome = told.wait_for(|told| *told != Told::NotYet).await.map(|told| *told);
        match outcome {
            Ok(Told::All) => Ok(()),
            _ => Err(Stopped::new(&self.informer, "the handler was not told of everything")),
        }
    }

    /// How often the handler is told of all objects again, changed or not, which may be less often than it asked for; zero
    /// for never, and for a handler that was removed.
    pub fn resync_period(&self) -> Duration {
        self.core.upgrade().and_then(|core| core.processor().period_of(&self.listener)).unwrap_or_default()
    }

    /// How far the handler is behind.
    pub fn lag(&self) -> Lag {
        self.listener.lag()
    }

    /// How many calls of the handler have returned, or panicked.
    pub fn delivered(&self) -> u64 {
        self.listener.delivered.load(Ordering::Relaxed)
    }

    /// How many calls of the handler have panicked.
    pub fn panics(&self) -> u64 {
        self.listener.panics.load(Ordering::Relaxed)
    }

    /// Whether the handler is told of what happens: it was not removed, and the informer has not ended.
    pub fn is_active(&self) -> bool {
        !self.listener.is_revoked()
    }

    /// Removes the handler. A call that is being made runs to its end; no other begins once this has returned, and what the
    /// handler has not been told it will not be told. Doing this again does nothing. It may be called from the handler
    /// itself.
    pub fn remove(&self) {
        match self.core.upgrade() {
            Some(core) => core.leave(&self.listener),
            None => self.listener.revoke(),
        }
    }

    /// Removes the handler, and waits until a call that is being made has returned and the handler was dropped.
    ///
    /// A handler that waits for its own removal waits for ever; it can [`remove`](Self::remove) itself.
    pub async fn shutdown(&self) {
        self.remove();
        self.listener.dropped().await;
    }
}

impl DoneChecker for Registration {
    fn name(&self) -> Cow<'_, str> {
        format!("informer {} + handler {}", self.informer, self.listener.name).into()
    }

    fn is_done(&self) -> bool {
        self.has_synced()
    }

    fn done(&self) -> BoxFuture<'static, ()> {
        let mut told = self.listener.told();
        Box::pin(async move {
            if told.wait_for(|told| *told == Told::All).await.is_err() {
                std::future::pending().await
            }
        })
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
