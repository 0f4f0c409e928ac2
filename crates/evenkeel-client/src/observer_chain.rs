//! [`ObserverChain`]: the observers of a client, and those of the client it was made from.

use std::fmt;
use std::sync::Arc;

/// The observers of a client: the newest, and those of the client it was made from. Cheap to clone and to extend.
pub(crate) struct ObserverChain<T: ?Sized>(Option<Arc<ChainLink<T>>>);

struct ChainLink<T: ?Sized> {
    outer: ObserverChain<T>,
    observer: Box<T>,
}

impl<T: ?Sized> ObserverChain<T> {
    /// Returns a chain with one more observer.
    pub(crate) fn with(&self, observer: Box<T>) -> Self {
        ObserverChain(Some(Arc::new(ChainLink { outer: self.clone(), observer })))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the observers, the newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::successors(self.0.as_deref(), |link| link.outer.0.as_deref()).map(|link| &*link.observer)
    }
}

impl<T: ?Sized> Clone for ObserverChain<T> {
    fn clone(&self) -> Self {
        ObserverChain(self.0.clone())
    }
}

impl<T: ?Sized> Default for ObserverChain<T> {
    fn default() -> Self {
        ObserverChain(None)
    }
}

impl<T: ?Sized> fmt::Debug for ObserverChain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObserverChain({})", self.iter().count())
    }
}
