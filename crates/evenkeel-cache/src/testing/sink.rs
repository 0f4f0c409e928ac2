//! [`FakeSink`]: records what a reflector sends.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::ObjectKey;

use crate::Object;
use crate::delta::Delta;
use crate::reflector::{DeltaSink, SinkError};

type OnPush = Box<dyn FnMut(&Delta) -> Result<(), SinkError> + Send>;
type Known = Box<dyn FnMut(&ObjectKey) -> Option<Object> + Send>;

/// A [`DeltaSink`] that stores nothing: it records the deltas, and returns what a test wants.
///
/// Cheap to clone; clones share everything. A test keeps one and gives one to the reflector. The sink keeps all deltas until
/// they are [taken](Self::take).
///
/// ```
/// use evenkeel_cache::ResourceVersion;
/// use evenkeel_cache::delta::Delta;
/// use evenkeel_cache::parts::{DeltaSink, SinkError};
/// use evenkeel_cache::testing::FakeSink;
///
/// let sink = FakeSink::new().on_push(|delta| match delta {
///     Delta::ReplacedAll { .. } => Err(SinkError::rejected("full", None)),
///     _ => Ok(()),
/// });
/// let list = Delta::ReplacedAll { objects: vec![], resource_version: ResourceVersion::new("1") };
/// assert!(sink.clone().push(list).is_err());
/// assert!(matches!(&*sink.deltas(), [Delta::ReplacedAll { objects, .. }] if objects.is_empty()));
/// ```
#[derive(Clone, Default)]
pub struct FakeSink {
    shared: Arc<FakeSinkShared>,
}

#[derive(Default)]
struct FakeSinkShared {
    deltas: Mutex<Vec<Delta>>,
    flushes: Mutex<usize>,
    on_push: Mutex<Option<OnPush>>,
    known: Mutex<Option<Known>>,
}

impl FakeSink {
    /// Returns a sink that accepts every delta and knows no object.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the function that decides on each delta.
    pub fn on_push(self, on_push: impl FnMut(&Delta) -> Result<(), SinkError> + Send + 'static) -> Self {
        *lock(&self.shared.on_push) = Some(Box::new(on_push));
        self
    }

    /// Sets the function that returns known objects.
    pub fn known_by(self, known: impl FnMut(&ObjectKey) -> Option<Object> + Send + 'static) -> Self {
        *lock(&self.shared.known) = Some(Box::new(known));
        self
    }

    /// Returns the deltas so far, oldest first, also those that were not accepted.
    pub fn deltas(&self) -> Vec<Delta> {
        lock(&self.shared.deltas).clone()
    }

    /// Returns and removes the deltas so far, oldest first.
    pub fn take(&self) -> Vec<Delta> {
        std::mem::take(&mut lock(&self.shared.deltas))
    }

    /// Returns how often the reflector flushed.
    pub fn flushes(&self) -> usize {
        *lock(&self.shared.flushes)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DeltaSink for FakeSink {
    fn push(&mut self, delta: Delta) -> Result<(), SinkError> {
        lock(&self.shared.deltas).push(delta.clone());
        lock(&self.shared.on_push).as_mut().map_or(Ok(()), |on_push| on_push(&delta))
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        *lock(&self.shared.flushes) += 1;
        Ok(())
    }

    fn known(&self, key: &ObjectKey) -> Option<Object> {
        lock(&self.shared.known).as_mut().and_then(|known| known(key))
    }
}

impl fmt::Debug for FakeSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeSink").field("deltas", &lock(&self.shared.deltas).len()).finish_non_exhaustive()
    }
}
