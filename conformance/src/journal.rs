//! [`Journal`]: the notifications of an informer's handlers, in order, and a wait for more.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::command::Notification;

/// The notifications of an informer's handlers, in order.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    entries: Mutex<Vec<Notification>>,
    grown: Notify,
}

impl Journal {
    pub(crate) fn push(&self, notification: Notification) {
        self.lock().push(notification);
        self.grown.notify_waiters();
    }

    /// Waits until `holds` is true of the notifications so far.
    pub(crate) async fn until(&self, mut holds: impl FnMut(&[Notification]) -> bool) {
        loop {
            let grown = self.grown.notified();
            tokio::pin!(grown);
            // From here on every push is noticed.
            grown.as_mut().enable();
            if holds(&self.lock()) {
                return;
            }
            grown.await;
        }
    }

    pub(crate) fn entries(&self) -> Vec<Notification> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Notification>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
