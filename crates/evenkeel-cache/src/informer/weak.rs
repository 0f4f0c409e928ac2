//! [`WeakInformer`]: a handle that does not keep the store.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

use super::SharedInformer;
use super::shared::InformerShared;

/// A handle that does not keep the informer's store alive: see [`SharedInformer::downgrade`].
pub struct WeakInformer<K> {
    shared: Weak<InformerShared>,
    kind: PhantomData<fn() -> K>,
}

impl<K> SharedInformer<K> {
    /// Returns a handle that does not keep the store alive once the informer has stopped and all other handles are dropped.
    pub fn downgrade(&self) -> WeakInformer<K> {
        WeakInformer { shared: Arc::downgrade(&self.shared), kind: PhantomData }
    }
}

impl<K> WeakInformer<K> {
    /// Returns the informer, if it runs or another handle of it exists.
    pub fn upgrade(&self) -> Option<SharedInformer<K>> {
        self.shared.upgrade().map(|shared| SharedInformer { shared, kind: PhantomData })
    }

    /// Returns `true` if both are handles of the same informer.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.shared.ptr_eq(&other.shared)
    }
}

impl<K> Clone for WeakInformer<K> {
    fn clone(&self) -> Self {
        WeakInformer { shared: Weak::clone(&self.shared), kind: PhantomData }
    }
}

impl<K> fmt::Debug for WeakInformer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.shared.upgrade().map(|shared| shared.name.clone());
        f.debug_struct("WeakInformer").field("name", &name).finish_non_exhaustive()
    }
}
