//! [`StopSignal`]: the sign to end.

use std::future::Future;

use tokio::sync::watch;

/// The sign to end. Cheap to clone; once it is given, it stays so.
#[derive(Clone, Debug)]
pub struct StopSignal(watch::Receiver<bool>);

impl StopSignal {
    pub(super) fn new() -> (watch::Sender<bool>, Self) {
        let (give, sign) = watch::channel(false);
        (give, StopSignal(sign))
    }

    /// Waits for the sign. What waits owns what it needs, so that it can be given to a task, or to a
    /// [`Controller`](crate::Controller).
    pub fn requested(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut sign = self.0.clone();
        async move {
            // If there is nobody left to give the sign, it is given by that.
            let _ = sign.wait_for(|given| *given).await;
        }
    }

    /// Whether the sign was given.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }
}
