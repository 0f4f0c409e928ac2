//! [`InformerHold`]: one use of an informer that runs until its last user is gone.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use evenkeel_base::task::scheduled;

use super::SharedInformer;
use super::driver::{self, DriverGuard};
use super::registration::Stopped;
use super::shared::{InformerShared, StopMode};

/// One use of an informer. An informer that a hold started runs until the last hold is dropped, and then leaves its factory.
///
/// For users that come and go: each holds the informers that it reads, and none stops an informer that others use.
///
/// - A hold does not start the informer: add handlers first, then call [`start`](Self::start).
/// - While an informer is held, [`InformerFactory::start`](crate::InformerFactory::start) leaves its start to the holds.
/// - An informer that [`SharedInformer::start`] or a factory started is stopped by the [`RunningInformers`](super::RunningInformers)
///   handle of that call, and by nothing else. Holds do not keep it running.
///
/// ```
/// # async fn example(informers: evenkeel_cache::InformerFactory) -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::core::v1::Pod;
///
/// let pods = informers.of::<Pod>();
/// let hold = pods.hold()?;
/// hold.start();
/// pods.synced().await?;
/// hold.release().await; // stops the informer, unless it is held elsewhere
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping the last hold stops the informer"]
pub struct InformerHold {
    shared: Arc<InformerShared>,
}

/// The holds of an informer.
#[derive(Debug, Default)]
pub(super) struct HoldCount {
    count: usize,
    /// Whether a hold started the informer, so that the last one stops it.
    is_started_by_hold: bool,
}

impl<K> SharedInformer<K> {
    /// Returns a hold of the informer: see [`InformerHold`].
    ///
    /// # Errors
    /// If the informer has stopped. A factory returns another one for the same kind.
    pub fn hold(&self) -> Result<InformerHold, Stopped> {
        let mut holds = self.shared.holds();
        if !self.shared.can_run() {
            return Err(Stopped::new(self.name(), "it cannot be held"));
        }
        holds.count += 1;
        Ok(InformerHold { shared: Arc::clone(&self.shared) })
    }
}

impl InformerShared {
    /// Returns `true` if the informer is held.
    pub(crate) fn is_held(&self) -> bool {
        self.holds().count > 0
    }
}

impl InformerHold {
    /// Starts the informer in tasks of the current runtime, unless it has been started.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(&self) {
        let runtime = tokio::runtime::Handle::current();
        let mut holds = self.shared.holds();
        if let Some(task) = self.shared.start(&runtime) {
            holds.is_started_by_hold = true;
            runtime.spawn(scheduled(driver::drive(DriverGuard { shared: Arc::clone(&self.shared), _task: task })));
        }
    }

    /// Drops the hold. The returned future waits until no task of the informer is left, if this was the last hold; it does nothing
    /// otherwise.
    pub fn release(self) -> impl Future<Output = ()> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        drop(self);
        async move {
            if !shared.can_run() {
                shared.stopped().await;
            }
        }
    }
}

impl Drop for InformerHold {
    fn drop(&mut self) {
        let mut holds = self.shared.holds();
        holds.count -= 1;
        if holds.count > 0 || !holds.is_started_by_hold {
            return;
        }
        // Under the lock, so that a concurrent `hold` finds a stopped informer or is counted before.
        self.shared.stop(StopMode::Immediate);
        drop(holds);
        self.shared.leave_factory();
    }
}

impl fmt::Debug for InformerHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerHold").field("informer", &self.shared.name).finish()
    }
}
