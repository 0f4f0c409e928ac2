//! [`Lister`]: reads of what an informer has, and of nothing else.

mod error;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use evenkeel_core::{LabelSelector, Obj, ResourceInfo, ResourceVersion};

pub use self::error::{EmptyNamespace, NotFound};
use crate::store::{NAMESPACE_INDEX, StoreStopped};
use crate::{Indexer, SharedInformer};

/// Reads the objects of one kind from the store of an informer.
///
/// Cheap to clone. A lister neither starts nor stops its informer.
///
/// # What may be assumed
///
/// - No read waits for more than a small write, and none makes a request.
/// - Objects that are read are shared with everybody and never change.
///
/// # What is not promised
///
/// - That reads are complete before the informer [has synced](SharedInformer::has_synced): they show what there is by then,
///   which may be nothing.
/// - That reads are as new as what the server has. [`at_least`](Self::at_least) waits until they are as new as a write that
///   the server has answered.
/// - Any order of what is listed.
///
/// ```
/// # async fn example(
/// #     pods: evenkeel_cache::SharedInformer<k8s_openapi::api::core::v1::Pod>,
/// #     written: evenkeel_cache::ResourceVersion,
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
/// let mine = lister.at_least(&written).await?.require("default/web-1")?;
/// # Ok(())
/// # }
/// ```
pub struct Lister<K> {
    indexer: Indexer<K>,
    info: Arc<ResourceInfo>,
}

/// Reads the objects of one kind in one namespace: a [`Lister`] that has made up its mind.
pub struct NamespaceLister<K> {
    lister: Lister<K>,
    namespace: Arc<str>,
}

impl<K> SharedInformer<K> {
    /// Returns a lister of the informer's objects.
    pub fn lister(&self) -> Lister<K> {
        Lister { indexer: self.indexer(), info: Arc::clone(self.resource()) }
    }
}

impl<K> Lister<K> {
    /// Reads of what is in this store, which nobody or somebody else fills. This is for tests of code that takes a lister.
    pub fn over(indexer: &Indexer<K>, info: &Arc<ResourceInfo>) -> Self {
        Lister { indexer: indexer.clone(), info: Arc::clone(info) }
    }

    /// The kind of the objects.
    pub fn resource(&self) -> &Arc<ResourceInfo> {
        &self.info
    }

    /// The object with this key: an [`ObjectKey`](crate::ObjectKey), `namespace/name`, or the bare name of an object that
    /// lives in no namespace.
    pub fn get(&self, key: impl AsRef<str>) -> Option<Obj<K>> {
        self.indexer.get(key)
    }

    /// The object with this key, for those to whom it is an error that there is none.
    ///
    /// # Errors
    /// [`NotFound`], which says what was looked for.
    pub fn require(&self, key: impl AsRef<str>) -> Result<Obj<K>, NotFound> {
        let key = key.as_ref();
        self.get(key).ok_or_else(|| NotFound::new(&self.info, key))
    }

    /// The objects whose labels match, in no particular order. See [`LabelSelector::everything`] and
    /// [`list_all`](Self::list_all) for all of them.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Obj<K>> {
        matching(self.indexer.snapshot().iter(), selector)
    }

    /// All objects, in no particular order.
    pub fn list_all(&self) -> Vec<Obj<K>> {
        self.indexer.list()
    }

    /// Only those in this namespace. Of a kind that lives in no namespace there are none.
    ///
    /// # Errors
    /// If the namespace is empty, which names none, and is more often a mistake than a wish for all of them.
    pub fn namespace(&self, namespace: &str) -> Result<NamespaceLister<K>, EmptyNamespace> {
        if namespace.is_empty() {
            return Err(EmptyNamespace::new(&self.info));
        }
        Ok(NamespaceLister { lister: self.clone(), namespace: namespace.into() })
    }

    /// Waits until reads are at least as new as this version, which a write of an object of this kind was answered with, and
    /// gives them. The empty version and `0` stand for any.
    ///
    /// There is no limit of time; put one around it. The future may be dropped.
    ///
    /// # Errors
    /// If the informer has stopped, so that the store will not become that new.
    pub async fn at_least(&self, version: &ResourceVersion) -> Result<&Self, StoreStopped> {
        self.indexer.at_least(version).await?;
        Ok(self)
    }
}

impl<K> NamespaceLister<K> {
    /// The namespace.
    pub fn name(&self) -> &str {
        &self.namespace
    }

    /// The object of this name.
    pub fn get(&self, name: &str) -> Option<Obj<K>> {
        self.lister.get(self.key(name))
    }

    /// The object of this name, for those to whom it is an error that there is none.
    ///
    /// # Errors
    /// [`NotFound`], which says what was looked for.
    pub fn require(&self, name: &str) -> Result<Obj<K>, NotFound> {
        self.lister.require(self.key(name))
    }

    /// The objects of the namespace whose labels match, in no particular order.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Obj<K>> {
        let snapshot = self.lister.indexer.snapshot();
        match snapshot.by_index(NAMESPACE_INDEX, &self.namespace) {
            Ok(objects) => matching(objects, selector),
            Err(missing) => {
                // Every informer has this index; a store that somebody made need not.
                tracing::warn!(kind = self.lister.info.kind(), error = %missing, "listing a namespace the slow way");
                let is_here = |object: &&Obj<K>| object.key().namespace() == Some(&self.namespace);
                matching(snapshot.iter().filter(is_here), selector)
            }
        }
    }

    /// All objects of the namespace, in no particular order.
    pub fn list_all(&self) -> Vec<Obj<K>> {
        self.list(&LabelSelector::everything())
    }

    /// Waits until reads are at least as new as this version, and gives them; see [`Lister::at_least`].
    ///
    /// # Errors
    /// If the informer has stopped.
    pub async fn at_least(&self, version: &ResourceVersion) -> Result<&Self, StoreStopped> {
        self.lister.at_least(version).await?;
        Ok(self)
    }

    fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.namespace)
    }
}

/// Labels are only looked at if somebody asks for some.
fn matching<'a, K: 'a>(objects: impl Iterator<Item = &'a Obj<K>>, selector: &LabelSelector) -> Vec<Obj<K>> {
    if selector.is_empty() {
        return objects.cloned().collect();
    }
    objects.filter(|object| selector.matches(|key| object.label(key))).cloned().collect()
}

impl<K> Clone for Lister<K> {
    fn clone(&self) -> Self {
        Lister { indexer: self.indexer.clone(), info: Arc::clone(&self.info) }
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
