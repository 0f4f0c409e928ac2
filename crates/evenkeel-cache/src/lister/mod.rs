//! [`Lister`]: reads objects from the store of an informer.

mod error;
mod query;

use std::fmt;
use std::sync::Arc;

use evenkeel_core::{LabelSelector, Obj, ObjectKey, ResourceInfo, ResourceVersion};
use kube_core::{ClusterResourceScope, Resource};

pub use self::error::{EmptyNamespace, LookupError, NotFound, NotSynced, OutOfScope};
pub use self::query::{ListQuery, SelectError};
use crate::informer::WeakInformer;
use crate::store::{NAMESPACE_INDEX, StoreStopped};
use crate::{Indexer, SharedInformer};

/// Reads the objects of one kind from the store of an informer.
///
/// Cheap to clone. A lister neither starts nor stops its informer.
///
/// # Guarantees
///
/// - A read makes no request and waits for no more than one write of the store.
/// - Objects are shared by all readers and never change.
///
/// # Not guaranteed
///
/// - That lists are complete before the informer [has synced](SharedInformer::has_synced): they return what is stored by then,
///   which may be nothing. [`synced`](Self::synced) and [`require`](Self::require) return an error then.
/// - That reads are as new as the server. [`at_least`](Self::at_least) waits until they include a write.
/// - Any order of listed objects, except for informers of [several namespaces](crate::NamespaceSet): those are sorted by key.
///
/// ```
/// # async fn example(
/// #     pods: evenkeel_cache::SharedInformer<k8s_openapi::api::core::v1::Pod>,
/// #     written: evenkeel_cache::Obj<k8s_openapi::api::core::v1::Pod>,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_core::LabelSelector;
///
/// let lister = pods.lister();
/// let web = lister.list(&LabelSelector::parse("app=web")?);
/// let here = lister.namespace("default")?;
/// if let Some(pod) = here.get("web-0") {
///     let node = pod.path("spec.nodeName")?.map(|node| node.text().into_owned());
///     println!("{} of {} are web; web-0 runs on {node:?}", web.len(), here.list_all().len());
/// }
/// let mine = lister.at_least(&written.version()).await?.require(written.key())?;
/// # Ok(())
/// # }
/// ```
///
/// A name alone identifies objects of cluster-scoped kinds only:
///
/// ```compile_fail,E0277
/// # fn example(pods: evenkeel_cache::Lister<k8s_openapi::api::core::v1::Pod>) {
/// let pod = pods.get("web-0"); // of which namespace?
/// # }
/// ```
pub struct Lister<K> {
    indexer: Indexer<K>,
    info: Arc<ResourceInfo>,
    /// The informer that writes the store; `None` for other stores.
    informer: Option<WeakInformer<K>>,
}

/// Reads the objects of one kind in one namespace: see [`Lister::namespace`].
pub struct NamespaceLister<K> {
    lister: Lister<K>,
    namespace: Arc<str>,
}

/// Identifies one object of kind `K` in a [`Lister`]: an [`ObjectKey`], or the name of an object of a cluster-scoped kind.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not identify an object of `{K}`",
    note = "the name of an object of a namespaced kind needs a namespace: `lister.namespace(\"default\")?.get(name)`",
    note = "an `ObjectKey` works for every kind"
)]
pub trait ListerKey<K> {
    /// Returns the key of the object in the store.
    fn store_key(&self) -> &str;

    /// Returns the bytes of that key.
    fn store_bytes(&self) -> &[u8] {
        self.store_key().as_bytes()
    }
}

impl<K> ListerKey<K> for ObjectKey {
    fn store_key(&self) -> &str {
        self.as_str()
    }

    fn store_bytes(&self) -> &[u8] {
        // Without the check whether they are a text.
        self.as_bytes()
    }
}

impl<K: Resource<Scope = ClusterResourceScope>> ListerKey<K> for str {
    fn store_key(&self) -> &str {
        self
    }
}

impl<K: Resource<Scope = ClusterResourceScope>> ListerKey<K> for String {
    fn store_key(&self) -> &str {
        self
    }
}

impl<K, T: ListerKey<K> + ?Sized> ListerKey<K> for &T {
    fn store_key(&self) -> &str {
        T::store_key(self)
    }

    fn store_bytes(&self) -> &[u8] {
        T::store_bytes(self)
    }
}

impl<K> SharedInformer<K> {
    /// Returns a lister of the informer's objects.
    pub fn lister(&self) -> Lister<K> {
        Lister { indexer: self.indexer(), info: Arc::clone(self.resource()), informer: Some(self.downgrade()) }
    }
}

impl<K> Lister<K> {
    /// Returns a lister of any store, for tests of code that takes a lister.
    pub fn over(indexer: &Indexer<K>, info: &Arc<ResourceInfo>) -> Self {
        Lister { indexer: indexer.clone(), info: Arc::clone(info), informer: None }
    }

    /// Returns the object with this [`ObjectKey`], or with this name if the kind is cluster-scoped. `None` also for an object in a
    /// namespace that is not in the [set](crate::NamespaceSet) of the informer: [`require`](Self::require) tells the difference.
    pub fn get(&self, key: impl ListerKey<K>) -> Option<Obj<K>> {
        self.indexer.table().look_up(key.store_bytes(), |object| object.clone().cast())
    }

    /// Returns the object with this [`ObjectKey`], or with this name if the kind is cluster-scoped.
    ///
    /// # Errors
    /// [`LookupError::NotFound`], with kind and key, if it is not stored; [`LookupError::OutOfScope`] if its namespace is not in the
    /// [set](crate::NamespaceSet) of the informer; [`LookupError::NotSynced`] if it is not stored and the informer has not synced.
    pub fn require(&self, key: impl ListerKey<K>) -> Result<Obj<K>, LookupError> {
        self.find(key.store_key())
    }

    fn find(&self, key: &str) -> Result<Obj<K>, LookupError> {
        self.indexer.get(key).ok_or_else(|| {
            let namespace = key.split_once('/').map(|(namespace, _)| namespace);
            match namespace.and_then(|namespace| self.out_of_scope(namespace)) {
                Some(error) => error,
                None => match self.synced() {
                    Ok(_) => LookupError::NotFound(NotFound::new(&self.info, key)),
                    Err(error) => error,
                },
            }
        })
    }

    /// Returns the lister if its reads are complete: the informer has synced. A lister of a store without an informer always is.
    ///
    /// ```
    /// # fn example(pods: evenkeel_cache::Lister<k8s_openapi::api::core::v1::Pod>) -> Result<(), evenkeel_cache::lister::LookupError> {
    /// println!("{} pods, and there are no others", pods.synced()?.list_all().len());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`LookupError::NotSynced`].
    pub fn synced(&self) -> Result<&Self, LookupError> {
        let informer = self.informer.as_ref().and_then(WeakInformer::upgrade);
        match informer.filter(|informer| !informer.has_synced()) {
            None => Ok(self),
            Some(informer) => {
                let (resource, informer) = (Arc::clone(&self.info), informer.name().to_owned());
                Err(LookupError::NotSynced(NotSynced { resource, informer }))
            }
        }
    }

    /// Returns the error of a read in a namespace that is not in the set of the informer.
    fn out_of_scope(&self, namespace: &str) -> Option<LookupError> {
        let set = self.indexer.table().namespaces().filter(|set| !set.covers(namespace))?;
        let resource = Arc::clone(&self.info);
        let namespaces = set.list();
        Some(LookupError::OutOfScope(OutOfScope { resource, namespace: namespace.to_owned(), namespaces }))
    }

    /// Returns whether the store may contain an object with this key: `false` if its namespace is not in the
    /// [set](crate::NamespaceSet) of the informer.
    pub fn is_in_scope(&self, key: &ObjectKey) -> bool {
        self.indexer.is_in_scope(key)
    }

    /// Returns the objects whose labels match, in no particular order; sorted by key for an informer of
    /// [several namespaces](crate::NamespaceSet).
    pub fn list(&self, selector: &LabelSelector) -> Vec<Obj<K>> {
        self.ordered(matching(self.indexer.snapshot().iter(), selector))
    }

    /// Returns all objects, in no particular order; sorted by key for an informer of [several namespaces](crate::NamespaceSet).
    pub fn list_all(&self) -> Vec<Obj<K>> {
        self.ordered(self.indexer.list())
    }

    /// Sorts objects of several namespaces, which are listed and watched apart from each other.
    fn ordered(&self, mut objects: Vec<Obj<K>>) -> Vec<Obj<K>> {
        if self.has_several_namespaces() {
            objects.sort_unstable_by(|left, right| left.key().cmp(right.key()));
        }
        objects
    }

    fn has_several_namespaces(&self) -> bool {
        self.indexer.table().namespaces().is_some()
    }

    /// Returns a lister of one namespace. For a cluster-scoped kind it is empty.
    ///
    /// # Errors
    /// If the namespace is empty: that names none, and is more often a mistake than a request for all of them. If it is not in the
    /// [set](crate::NamespaceSet) of the informer. If it leaves the set later, [`NamespaceLister::require`] returns that error.
    pub fn namespace(&self, namespace: &str) -> Result<NamespaceLister<K>, LookupError> {
        if namespace.is_empty() {
            return Err(LookupError::EmptyNamespace(EmptyNamespace::new(&self.info)));
        }
        if let Some(error) = self.out_of_scope(namespace) {
            return Err(error);
        }
        Ok(NamespaceLister { lister: self.clone(), namespace: namespace.into() })
    }

    /// Waits until reads are at least as new as this resource version, which a write of an object of this kind returned. The
    /// empty version and `0` stand for any.
    ///
    /// There is no time limit; put a timeout around it. Cancel safe.
    ///
    /// # Errors
    /// If the informer has stopped, so that the store does not reach that version.
    pub async fn at_least(&self, version: &ResourceVersion) -> Result<&Self, StoreStopped> {
        self.indexer.at_least(version).await?;
        Ok(self)
    }

    /// Waits until reads of an object are at least as new as this resource version, which a write of the object returned. As
    /// [`at_least`](Self::at_least), except for an informer of [several namespaces](crate::NamespaceSet): this waits for the namespace
    /// of the object only.
    ///
    /// # Errors
    /// If the informer has stopped, or the namespace is not in its set.
    pub async fn at_least_for(&self, key: &ObjectKey, version: &ResourceVersion) -> Result<&Self, StoreStopped> {
        self.indexer.at_least_for(key, version).await?;
        Ok(self)
    }
}

impl<K> NamespaceLister<K> {
    /// Returns the object of this name.
    pub fn get(&self, name: &str) -> Option<Obj<K>> {
        self.lister.indexer.get(self.key(name))
    }

    /// Returns the object of this name.
    ///
    /// # Errors
    /// [`LookupError::NotFound`], with kind and key, if it is not stored; [`LookupError::OutOfScope`] if the namespace has left the
    /// [set](crate::NamespaceSet) of the informer; [`LookupError::NotSynced`] if it is not stored and the informer has not synced.
    pub fn require(&self, name: &str) -> Result<Obj<K>, LookupError> {
        self.lister.find(&self.key(name))
    }

    /// Returns the objects of the namespace whose labels match, in no particular order.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Obj<K>> {
        let snapshot = self.lister.indexer.snapshot();
        match snapshot.by_index(NAMESPACE_INDEX, &self.namespace) {
            Ok(objects) => matching(objects, selector),
            Err(missing) => {
                // Every informer has this index; another store may not.
                tracing::warn!(kind = self.lister.info.kind(), error = %missing, "listing a namespace without an index");
                let is_here = |object: &&Obj<K>| object.key().namespace() == Some(&self.namespace);
                matching(snapshot.iter().filter(is_here), selector)
            }
        }
    }

    /// Returns all objects of the namespace, in no particular order.
    pub fn list_all(&self) -> Vec<Obj<K>> {
        self.list(&LabelSelector::everything())
    }

    fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.namespace)
    }
}

/// Labels are only read if the selector is not empty.
fn matching<'a, K: 'a>(objects: impl Iterator<Item = &'a Obj<K>>, selector: &LabelSelector) -> Vec<Obj<K>> {
    if selector.is_empty() {
        return objects.cloned().collect();
    }
    objects.filter(|object| selector.matches(|key| object.label(key))).cloned().collect()
}

impl<K> Clone for Lister<K> {
    fn clone(&self) -> Self {
        Lister { indexer: self.indexer.clone(), info: Arc::clone(&self.info), informer: self.informer.clone() }
    }
}

impl<K> Clone for NamespaceLister<K> {
    fn clone(&self) -> Self {
        NamespaceLister { lister: self.lister.clone(), namespace: Arc::clone(&self.namespace) }
    }
}

impl<K> fmt::Debug for Lister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lister").field("resource", &self.info).finish_non_exhaustive()
    }
}

impl<K> fmt::Debug for NamespaceLister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamespaceLister").field("lister", &self.lister).field("namespace", &self.namespace).finish()
    }
}

#[cfg(test)]
mod tests;
