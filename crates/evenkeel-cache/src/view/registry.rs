//! [`Views`]: the views of one informer.

use std::any::{Any, TypeId};
use std::sync::{Arc, Mutex, PoisonError};

use super::definition::{PreparedView, ViewDefinition};
use crate::Object;
use crate::delta::Delta;

/// The views of an informer. They stay for as long as the informer.
#[derive(Default)]
pub(crate) struct Views {
    registered: Mutex<Arc<[RegisteredView]>>,
}

#[derive(Clone)]
struct RegisteredView {
    /// None for the view that decodes objects as its type.
    name: Option<Box<str>>,
    value: TypeId,
    definition: Arc<dyn PreparedView>,
}

impl Views {
    /// Returns the view of this name and type, and whether it is new.
    pub(super) fn get_or_register<V: Send + Sync + 'static>(
        &self,
        name: Option<&str>,
        define: impl FnOnce() -> ViewDefinition<V>,
    ) -> (Arc<ViewDefinition<V>>, bool) {
        let value = TypeId::of::<V>();
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        let mut same = registered.iter().filter(|view| view.value == value && view.name.as_deref() == name);
        let known = same.find_map(|view| {
            let definition: Arc<dyn Any + Send + Sync> = Arc::clone(&view.definition) as _;
            definition.downcast().ok()
        });
        if let Some(known) = known {
            return (known, false);
        }
        let definition = Arc::new(define());
        let view = RegisteredView { name: name.map(Into::into), value, definition: Arc::clone(&definition) as _ };
        *registered = registered.iter().cloned().chain([view]).collect();
        (definition, true)
    }

    /// Evaluates all views of an object.
    pub(crate) fn prepare_object(&self, object: &Object) {
        for RegisteredView { definition, .. } in &*self.registered() {
            definition.prepare(object);
        }
    }

    /// Evaluates all views of the objects that these deltas store, before the store is written. Most have been evaluated before they
    /// were packed.
    pub(crate) fn prepare(&self, deltas: &[Delta]) {
        for RegisteredView { definition, .. } in &*self.registered() {
            for delta in deltas {
                match delta {
                    Delta::ReplacedAll { objects, .. } => objects.iter().for_each(|object| definition.prepare(object)),
                    delta => delta.stored_object().into_iter().for_each(|object| definition.prepare(object)),
                }
            }
        }
    }

    /// Returns the views: user code runs without the lock.
    fn registered(&self) -> Arc<[RegisteredView]> {
        Arc::clone(&*self.registered.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
