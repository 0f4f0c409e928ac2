//! [`Index`]: a way to find objects by something other than their key.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use evenkeel_core::{Obj, Untyped};

use crate::Object;

type Values = Arc<dyn Fn(&Object) -> Vec<Box<str>> + Send + Sync>;

/// A way to find objects of kind `K` by something other than their key: a name, and a function from an object to the
/// values that it is found under, of which there may be none, one or many.
pub struct Index<K> {
    name: Arc<str>,
    values: Values,
    kind: PhantomData<fn() -> K>,
}

impl<K: 'static> Index<K> {
    /// An index by whatever this function says of an object.
    pub fn by_object<V>(name: &str, values: impl Fn(&Obj<K>) -> V + Send + Sync + 'static) -> Self
    where
        V: IntoIterator,
        V::Item: Into<Box<str>>,
    {
        let values = move |object: &Object| values(object.as_kind()).into_iter().map(Into::into).collect();
        Index { name: name.into(), values: Arc::new(values), kind: PhantomData }
    }
}

impl<K> Index<K> {
    /// The name it is asked by.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn values(&self, object: &Object) -> Vec<Box<str>> {
        (self.values)(object)
    }

    pub(crate) fn cast<L>(self) -> Index<L> {
        Index { name: self.name, values: self.values, kind: PhantomData }
    }
}

impl Index<Untyped> {
    /// The index that every informer has, under the name `namespace`: the namespace, empty for objects that live in none.
    pub fn by_namespace() -> Self {
        Index::by_object("namespace", |object| [object.key().namespace().unwrap_or_default().to_owned()])
    }
}

impl<K> fmt::Debug for Index<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Index").field(&self.name).finish()
    }
}

/// An index cannot be asked, or cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// There is no index of this name.
    #[error("there is no index {name:?}")]
    Unknown {
        /// The name.
        name: String,
    },
    /// There is an index of this name already; nothing was added.
    #[error("indexer conflict: there is an index {name:?} already; none was added")]
    Conflict {
        /// The name.
        name: String,
    },
}
