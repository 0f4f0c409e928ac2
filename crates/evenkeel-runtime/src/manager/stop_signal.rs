//! [`StopSignal`]: requests the tasks of a manager to stop.

use std::future::Future;

use tokio::sync::watch;

/// Requests a task of a [`Manager`](super::Manager) to stop. Cheap to clone. Once requested, it stays so.
#[derive(Clone, Debug)]
pub struct StopSignal(watch::Receiver<bool>);

impl StopSignal {
    pub(super) fn new() -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(false);
        (sender, StopSignal(receiver))
    }

    /// Waits until the task is to stop. The future borrows nothing, so that it can be moved into a task or passed to a
    /// [`Controller`](crate::Controller).
    pub fn requested(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut receiver = self.0.clone();
        async move {
            // A dropped sender counts as a request.
            let _ = receiver.wait_for(|requested| *requested).await;
        }
    }

    /// Waits until this signal or another one is requested.
    pub(super) fn either(&self, other: &StopSignal) -> impl Future<Output = ()> + Send + use<> {
        let (own, other) = (self.requested(), other.requested());
        async move {
            tokio::select! {
                biased;
                () = own => {}
                () = other => {}
            }
        }
    }

    /// Returns whether the task is to stop.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }
}
