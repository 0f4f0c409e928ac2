//! [`Sessions`]: the tasks of upgraded connections.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinSet;

/// The tasks of upgraded connections, which end with the last clone. A network connection has its own; in-process callers
/// share those of the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions(Arc<Mutex<JoinSet<()>>>);

impl Sessions {
    pub(crate) fn spawn(&self, session: impl Future<Output = ()> + Send + 'static) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while sessions.try_join_next().is_some() {}
        sessions.spawn(session);
    }

    /// Waits until all sessions have ended.
    pub(crate) async fn finished(&self) {
        // Aborts the sessions when the future is dropped.
        let mut sessions = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        while sessions.join_next().await.is_some() {}
    }

    /// Ends all sessions.
    pub(crate) fn abort(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}
