//! [`WeakInformer`]: an informer that this does not keep running.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

use super::SharedInformer;
use super::core::{Core, User};
#[cfg(feature = "client")]
use super::core::{Order, Phase};

/// An informer that this does not keep running: see [`SharedInformer::downgrade`].
pub struct WeakInformer<K> {
    user: Weak<User>,
    /// Its tasks have this too, so that it is there until the last of them has ended.
    core: Weak<Core>,
    kind: PhantomData<fn() -> K>,
}

impl<K> SharedInformer<K> {
    /// A handle that does not keep the informer running.
    pub fn downgrade(&self) -> WeakInformer<K> {
        WeakInformer { user: Arc::downgrade(&self.user), core: Arc::downgrade(self.core()), kind: PhantomData }
    }
}

#[cfg(feature = "client")]
impl<K> SharedInformer<K> {
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

impl<K> WeakInformer<K> {
    /// The informer, if somebody still uses it. A handler does, as long as it is called.
    pub fn upgrade(&self) -> Option<SharedInformer<K>> {
        self.user.upgrade().map(|user| SharedInformer { user, kind: PhantomData })
    }

    /// Whether both are handles of the same informer.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.core.ptr_eq(&other.core)
    }
}

#[cfg(feature = "client")]
impl<K> WeakInformer<K> {
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

impl<K> Clone for WeakInformer<K> {
    fn clone(&self) -> Self {
        WeakInformer { user: Weak::clone(&self.user), core: Weak::clone(&self.core), kind: PhantomData }
    }
}

impl<K> fmt::Debug for WeakInformer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.core.upgrade().map(|core| core.name.clone());
        f.debug_struct("WeakInformer").field("name", &name).finish_non_exhaustive()
    }
}
