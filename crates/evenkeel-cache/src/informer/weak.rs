//! [`WeakInformer`]: an informer that this does not keep running.

use std::marker::PhantomData;
use std::sync::{Arc, Weak};

use super::SharedInformer;
use super::core::{Core, Order, Phase, User};

/// An informer, of whatever kind, that this does not keep running.
#[derive(Clone)]
pub(crate) struct WeakInformer {
    user: Weak<User>,
    /// Its tasks have this too, so that it is there until the last of them has ended.
    core: Weak<Core>,
}

impl<K> SharedInformer<K> {
    pub(crate) fn downgrade(&self) -> WeakInformer {
        WeakInformer { user: Arc::downgrade(&self.user), core: Arc::downgrade(self.core()) }
    }

    /// The same informer, whose objects are decoded as `L`.
    pub(crate) fn cast<L>(self) -> SharedInformer<L> {
        SharedInformer { user: self.user, kind: PhantomData }
    }

    /// Whether it runs, or may yet be started: nobody has ended it.
    pub(crate) fn is_to_run(&self) -> bool {
        self.core().is_to_run()
    }

    /// Begins to end it in an orderly way: what [`shutdown`](Self::shutdown) waits for.
    pub(crate) fn drain(&self) {
        self.core().stop(Order::Drain);
    }
}

impl WeakInformer {
    /// The informer, if somebody still uses it.
    pub(crate) fn upgrade<K>(&self) -> Option<SharedInformer<K>> {
        self.user.upgrade().map(|user| SharedInformer { user, kind: PhantomData })
    }

    /// Whether nothing is left of it.
    pub(crate) fn is_gone(&self) -> bool {
        self.core.strong_count() == 0
    }

    /// Waits until it has been stopped and none of its tasks is left.
    pub(crate) async fn ended(&self) {
        if let Some(core) = self.core.upgrade() {
            let mut life = core.lives();
            // The sender is in what we hold.
            let _ = life.wait_for(|life| life.phase == Phase::Stopped).await;
            core.idle().await;
        }
    }
}
