//! [`Index`]: finds objects by values other than their key.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_core::Obj;
use evenkeel_core::json::{JsonPaths, PathError};
use serde::de::DeserializeOwned;

use super::values::Values;
use crate::Object;

/// The name of the index that every informer has.
pub const NAMESPACE_INDEX: &str = "namespace";

type Function = Arc<dyn Fn(&Object, &mut Values) + Send + Sync>;

/// An index of objects of kind `K`: a name, and a function from an object to its values, of which there may be none, one or many.
///
/// The writing thread calls the function once for each written object, before the write and without a lock. It must depend on the
/// object alone: the values are kept for as long as the object is
/// stored. If it panics, the object is stored with no value in this index, counts as a
/// [misfit](super::Indexer::misfits), and the panic is logged with its key.
///
/// ```
/// use evenkeel_cache::{Index, Store};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let pods: Store<Pod> = Store::new([
///     Index::namespace(),
///     Index::label("app"),
///     Index::controller("controller"),
///     Index::by_path("node", "spec.nodeName")?,
///     Index::by("image", |pod: &Pod| {
///         let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
///         containers.filter_map(|container| container.image.clone()).collect::<Vec<_>>()
///     }),
/// ]);
/// assert!(pods.by_index("node", "node-1")?.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Index<K> {
    name: Arc<str>,
    function: Function,
    kind: PhantomData<fn() -> K>,
}

impl<K> Index<K> {
    fn new(name: &str, function: impl Fn(&Object, &mut Values) + Send + Sync + 'static) -> Self {
        Index { name: name.into(), function: Arc::new(function), kind: PhantomData }
    }

    /// Returns an index by the value at a path such as `spec.nodeName`, read from the payload without decoding it. The value of a
    /// string is its text, of anything else its JSON. An object where it is absent or null has no value; the empty string is one.
    ///
    /// # Errors
    ///
    /// The path does not parse: see [`Obj::path`] for the grammar.
    pub fn by_path(name: &str, path: &str) -> Result<Self, PathError> {
        JsonPaths::new([path])?;
        let path: Box<str> = path.into();
        Ok(Self::new(name, move |object, values| match object.path(&path) {
            Ok(Some(value)) => values.push(&value.text()),
            Ok(None) => {}
            Err(error) => tracing::error!(%error, path = &*path, "unreadable object; it has no value in this index"),
        }))
    }

    /// Returns an index by the value at a path, named after the path, as [`by_path`](Self::by_path): for
    /// [field selectors](crate::lister::ListQuery::fields).
    ///
    /// # Errors
    ///
    /// The path does not parse: see [`Obj::path`] for the grammar.
    pub fn field(path: &str) -> Result<Self, PathError> {
        Self::by_path(path, path)
    }

    /// Returns the index [`NAMESPACE_INDEX`], by namespace: one value for each object, empty for cluster-scoped objects.
    pub fn namespace() -> Self {
        Self::new(NAMESPACE_INDEX, |object, values| values.push(object.key().namespace().unwrap_or_default()))
    }

    /// Returns an index by the value of a label, named after the label. Objects without the label have no value.
    pub fn label(label: &str) -> Self {
        let key: Box<str> = label.into();
        Self::new(label, move |object, values| {
            if let Some(value) = object.label(&key) {
                values.push(value);
            }
        })
    }

    /// Returns an index by the uids of all owners.
    pub fn owner(name: &str) -> Self {
        Self::new(name, |object, values| object.owner_references().for_each(|owner| values.push(owner.uid)))
    }

    /// Returns an index by the uid of the controlling owner. Objects without one have no value.
    pub fn controller(name: &str) -> Self {
        Self::new(name, |object, values| {
            if let Some(owner) = object.controller() {
                values.push(owner.uid);
            }
        })
    }

    /// Returns the name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn evaluate(&self, object: &Object, values: &mut Values) {
        (self.function)(object, values);
    }

    pub(crate) fn cast<L>(self) -> Index<L> {
        Index { name: self.name, function: self.function, kind: PhantomData }
    }
}

impl<K: 'static> Index<K> {
    /// Returns an index by a function of an object's header or payload.
    pub fn by_object<V>(name: &str, values: impl Fn(&Obj<K>) -> V + Send + Sync + 'static) -> Self
    where
        V: IntoIterator,
        V::Item: AsRef<str>,
    {
        let own_name: Box<str> = name.into();
        Self::new(name, move |object, found| {
            found.contain(&own_name, object, |found| {
                values(object.as_kind()).into_iter().for_each(|value| found.push(value.as_ref()));
            });
        })
    }
}

impl<K: DeserializeOwned + Send + Sync + 'static> Index<K> {
    /// Returns an index by a function of the decoded object.
    ///
    /// Every written object is decoded, which costs far more than [`by_path`](Self::by_path). An object that does not fit `K` is
    /// stored without a value, counts as a [misfit](super::Indexer::misfits), and the first one is logged.
    pub fn by<V>(name: &str, values: impl Fn(&K) -> V + Send + Sync + 'static) -> Self
    where
        V: IntoIterator,
        V::Item: AsRef<str>,
    {
        let warned = AtomicBool::new(false);
        let own_name: Box<str> = name.into();
        Self::new(name, move |object, found| match object.as_kind::<K>().typed() {
            Ok(value) => found.contain(&own_name, object, |found| {
                values(&value).into_iter().for_each(|value| found.push(value.as_ref()));
            }),
            Err(error) => {
                found.misfit();
                if !warned.swap(true, Ordering::Relaxed) {
                    tracing::warn!(index = &*own_name, %error, "object cannot be decoded; it has no value in this index");
                }
            }
        })
    }
}

impl<K> Clone for Index<K> {
    fn clone(&self) -> Self {
        Index { name: Arc::clone(&self.name), function: Arc::clone(&self.function), kind: PhantomData }
    }
}

impl<K> fmt::Debug for Index<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Index").field(&self.name).finish()
    }
}

/// An index cannot be read or added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// There is no index of this name.
    #[error("there is no index {name:?}")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The name is taken; no index was added.
    #[error("indexer conflict: there is an index {name:?} already; none was added")]
    Conflict {
        /// The name.
        name: String,
    },
    /// The informer has stopped; no index was added.
    #[error("no index was added to informer {informer} because it has stopped already")]
    Stopped {
        /// The informer.
        informer: String,
    },
}
