//! [`Lazy`]: a value that is computed on demand.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;

use crate::source::BoxFuture;

type Evaluate<T, E> = Box<dyn Fn() -> BoxFuture<'static, Result<T, E>> + Send + Sync>;

/// A value that is computed on demand, and again after [`notify`](Self::notify).
///
/// - Concurrent callers wait for the same evaluation.
/// - A caller after `notify` gets a value whose evaluation started after `notify` was called. An earlier evaluation may end
///   later: only the callers that waited for it get its value.
/// - Errors are not kept: the next caller evaluates again, as does one that waited for an evaluation that failed or was
///   cancelled.
/// - Nothing is evaluated before the first call.
///
/// ```
/// use std::convert::Infallible;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use evenkeel_cache::compat::synctrack::Lazy;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let source = Arc::new(AtomicU32::new(1));
/// let double = {
///     let source = Arc::clone(&source);
///     Lazy::<u32, Infallible>::new(move || {
///         let source = Arc::clone(&source);
///         async move { Ok(2 * source.load(Ordering::Relaxed)) }
///     })
/// };
/// assert_eq!(double.get().await, Ok(2));
/// source.store(4, Ordering::Relaxed);
/// assert_eq!(double.get().await, Ok(2));
/// double.notify();
/// assert_eq!(double.get().await, Ok(8));
/// # });
/// ```
pub struct Lazy<T, E> {
    evaluate: Evaluate<T, E>,
    /// The value since the last notification.
    current: Mutex<Arc<OnceCell<T>>>,
}

impl<T: Clone, E> Lazy<T, E> {
    /// Returns a value that this function computes.
    pub fn new<F>(evaluate: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let evaluate: Evaluate<T, E> = Box::new(move || Box::pin(evaluate()));
        Lazy { evaluate, current: Mutex::new(Arc::new(OnceCell::new())) }
    }

    /// Discards the value, because it may have changed.
    pub fn notify(&self) {
        *self.lock() = Arc::new(OnceCell::new());
    }

    /// Returns the value.
    pub async fn get(&self) -> Result<T, E> {
        let current = Arc::clone(&self.lock());
        current.get_or_try_init(|| (self.evaluate)()).await.cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Arc<OnceCell<T>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, E> fmt::Debug for Lazy<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lazy").finish_non_exhaustive()
    }
}
