//! [`SharedRecords`]: what the processes of a run note for its checks.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// One record of each type, created when it is first used.
#[derive(Default)]
pub(crate) struct SharedRecords(Mutex<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl SharedRecords {
    pub(crate) fn get<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let record = records.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        // The key is the type, so the record has it.
        Arc::clone(record).downcast().unwrap_or_default()
    }
}

impl fmt::Debug for SharedRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRecords").finish_non_exhaustive()
    }
}
