//! [`RunningInformers`]: the handle that starting gives.

use std::fmt;
use std::sync::Arc;

use super::shared::{InformerShared, StopMode};

/// Handle of the informers that one call of `start` started. Dropping it stops them.
///
/// [`SharedInformer::start`](crate::SharedInformer::start) and `InformerFactory::start` return it.
///
/// | call | reads from the server | queued notifications | waits |
/// |---|---|---|---|
/// | `drop(running)` | stop | are discarded | no |
/// | [`stop`](Self::stop) | stop | are discarded | until no task is left |
/// | [`drain`](Self::drain) | stop | are delivered | until no task is left |
///
/// In every case a handler call in progress runs to its end, and the stores keep their contents. Informers that another call
/// of `start` started are not affected. `let _ = informer.start()` drops the handle at once: name it.
#[must_use = "dropping the handle stops the informers"]
#[derive(Default)]
pub struct RunningInformers {
    informers: Vec<Arc<InformerShared>>,
}

impl RunningInformers {
    pub(crate) fn push(&mut self, informer: Arc<InformerShared>) {
        self.informers.push(informer);
    }

    /// Adds the informers of another handle to this one.
    pub fn merge(&mut self, mut other: RunningInformers) {
        self.informers.append(&mut other.informers);
    }

    /// Stops the informers, discards queued notifications, and waits until no task is left.
    ///
    /// A handler call that does not return keeps this waiting. Dropping the future is safe: the informers are stopped.
    pub async fn stop(self) {
        self.finish(StopMode::Immediate).await;
    }

    /// Stops the informers, delivers queued notifications, and waits until no task is left.
    ///
    /// A handler call that does not return keeps this waiting. Dropping the future discards what is still queued, so a
    /// timeout around it is a grace period.
    pub async fn drain(self) {
        self.finish(StopMode::Drain).await;
    }

    async fn finish(mut self, mode: StopMode) {
        for informer in &self.informers {
            informer.stop(mode);
        }
        for informer in &self.informers {
            informer.stopped().await;
        }
        // Nothing is left to stop.
        self.informers.clear();
    }
}

impl Drop for RunningInformers {
    fn drop(&mut self) {
        for informer in &self.informers {
            informer.stop(StopMode::Immediate);
        }
    }
}

impl fmt::Debug for RunningInformers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.informers.iter().map(|informer| &informer.name)).finish()
    }
}
