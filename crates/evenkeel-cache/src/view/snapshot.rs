//! [`ViewSnapshot`]: objects and their values in a view at one moment.

use std::fmt;
use std::sync::Arc;

use evenkeel_core::Obj;

use super::definition::ViewDefinition;
use super::error::ViewError;
use crate::Snapshot;
use crate::lister::ListerKey;
use crate::store::IndexError;

/// The objects of a store at one moment, with their values in a [`View`](super::View). It returns references, without reference
/// counting. What is said of a [`Snapshot`] holds for it too.
pub struct ViewSnapshot<K, V> {
    pub(super) objects: Snapshot<K>,
    pub(super) definition: Arc<ViewDefinition<V>>,
}

impl<K, V: Send + Sync + 'static> ViewSnapshot<K, V> {
    /// Returns the value of the object with this key; `None` if there is no such object.
    ///
    /// # Errors
    /// If the object has no value in the view.
    pub fn get(&self, key: impl ListerKey<K>) -> Result<Option<&V>, &ViewError> {
        self.objects.find(key.store_bytes()).and_then(|object| self.definition.borrowed(object)).transpose()
    }

    /// Returns the objects and their values, in no particular order. Objects without a value are left out: see
    /// [`errors`](Self::errors).
    pub fn iter(&self) -> impl Iterator<Item = (&Obj<K>, &V)> + use<'_, K, V> {
        self.objects.iter().filter_map(|object| self.with_value(object))
    }

    /// Returns the objects with a value in an index and their values, in no particular order. Objects without a value in the view
    /// are left out.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn by_index(
        &self,
        name: &str,
        value: &str,
    ) -> Result<impl Iterator<Item = (&Obj<K>, &V)> + use<'_, K, V>, IndexError> {
        Ok(self.objects.by_index(name, value)?.filter_map(|object| self.with_value(object)))
    }

    /// Returns the error of each object that has no value in the view.
    pub fn errors(&self) -> impl Iterator<Item = &ViewError> + use<'_, K, V> {
        self.objects.iter().filter_map(|object| self.definition.borrowed(object)?.err())
    }

    /// Returns the objects, with and without a value in the view.
    pub fn objects(&self) -> &Snapshot<K> {
        &self.objects
    }

    #[inline]
    fn with_value<'o>(&self, object: &'o Obj<K>) -> Option<(&'o Obj<K>, &'o V)> {
        Some((object, self.definition.borrowed(object)?.ok()?))
    }
}

impl<K, V> Clone for ViewSnapshot<K, V> {
    fn clone(&self) -> Self {
        ViewSnapshot { objects: self.objects.clone(), definition: Arc::clone(&self.definition) }
    }
}

impl<K, V> fmt::Debug for ViewSnapshot<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ViewSnapshot").field("objects", &self.objects).finish_non_exhaustive()
    }
}
