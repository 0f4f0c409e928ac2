//! Factories of fewer objects that share the informers of another one.

use std::any::TypeId;
use std::sync::Arc;

use evenkeel_core::ResourceInfo;
use evenkeel_core::shard::ShardKey;
use kube_core::Resource;

use super::kind_options::Selection;
use super::registry::Key;
use super::settings::Settings;
use super::{FactoryInner, InformerFactory};
use crate::ShardScope;
use crate::informer::InformerShards;

/// A factory cannot be narrowed to a namespace, because its informers are in another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the informers are restricted to namespace {informers:?} and have no objects of namespace {requested:?}")]
pub struct OtherNamespace {
    /// The namespace of the informers.
    pub informers: String,
    /// The requested namespace.
    pub requested: String,
}

/// Factories of fewer objects.
///
/// A narrowed factory and the one that it narrows share all informers of the same kind, namespace and selectors, and start them
/// together: there is one cache for each kind and scope. Other informers of the narrowed one have its scope in their names.
impl InformerFactory {
    /// Returns a factory of the objects in this namespace; the same factory if the name is empty. It does not affect cluster-scoped kinds.
    ///
    /// ```
    /// # fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use evenkeel_cache::InformerFactory;
    /// use k8s_openapi::api::core::v1::{Node, Pod};
    ///
    /// let informers = InformerFactory::builder(&client).build();
    /// let prod = informers.in_namespace("prod")?;
    /// let (all, of_prod) = (informers.lister::<Pod>(), prod.lister::<Pod>()); // two caches
    /// let nodes = (informers.lister::<Node>(), prod.lister::<Node>()); // one cache
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the informers of this factory, or of one of its kinds, are in another namespace.
    pub fn in_namespace(&self, namespace: impl Into<String>) -> Result<Self, OtherNamespace> {
        let namespace = namespace.into();
        if namespace.is_empty() {
            return Ok(self.clone());
        }
        let mut settings = self.inner.settings.clone();
        let Settings { all, kinds, .. } = &mut settings;
        for options in std::iter::once(all).chain(kinds.values_mut()) {
            let own = options.selection.namespace.take().filter(|own| !own.is_empty() && *own != namespace);
            if let Some(own) = own {
                return Err(OtherNamespace { informers: own, requested: namespace });
            }
        }
        settings.all.selection.namespace = Some(namespace);
        Ok(self.narrowed(settings))
    }

    /// Returns a factory whose informers follow the places of a scope, by this key: see
    /// [`InformerOptions::shard_scope`](crate::InformerOptions::shard_scope). It replaces the places of single kinds.
    pub fn in_shards(&self, key: ShardKey, scope: &ShardScope) -> Self {
        let mut settings = self.inner.settings.clone();
        let Settings { all, kinds, .. } = &mut settings;
        for options in std::iter::once(all).chain(kinds.values_mut()) {
            options.settings.shards = Some(InformerShards::Scope(key, scope.clone()));
        }
        self.narrowed(settings)
    }

    /// Returns a factory with additional selectors of the objects of one kind, which may be empty.
    pub fn selecting<K: Resource + 'static>(&self, labels: &str, fields: &str) -> Self {
        self.with_selectors(Key::Typed(TypeId::of::<K>()), labels, fields)
    }

    /// Returns a factory with additional selectors of the objects of a kind that is only known at run time.
    pub fn selecting_dynamic(&self, info: &Arc<ResourceInfo>, labels: &str, fields: &str) -> Self {
        self.with_selectors(Key::Dynamic(Arc::clone(info)), labels, fields)
    }

    /// Returns a factory with additional selectors of the metadata of a kind.
    pub fn selecting_metadata(&self, info: &Arc<ResourceInfo>, labels: &str, fields: &str) -> Self {
        self.with_selectors(Key::Metadata(Arc::clone(info)), labels, fields)
    }

    fn with_selectors(&self, key: Key, labels: &str, fields: &str) -> Self {
        let mut settings = self.inner.settings.clone();
        let Selection { labels: all_labels, fields: all_fields, .. } = settings.options(&key).selection;
        let options = settings.kinds.entry(key).or_default();
        options.selection.labels = both(all_labels, labels);
        options.selection.fields = both(all_fields, fields);
        self.narrowed(settings)
    }

    fn narrowed(&self, mut settings: Settings) -> Self {
        let FactoryInner { client, settings: own, registry } = &*self.inner;
        settings.widest.get_or_insert_with(|| Arc::new(own.clone()));
        let (client, registry) = (client.clone(), Arc::clone(registry));
        InformerFactory { inner: Arc::new(FactoryInner { client, settings, registry }) }
    }

    /// Returns whether the two factories share their informers: one is a clone of the other, or they narrow the same one.
    pub fn shares_informers_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner.registry, &other.inner.registry)
    }

    /// Returns the names of informers that exist in both factories: caches of the same objects, read with the same client. Empty if
    /// the factories share their informers.
    pub fn cached_twice(&self, other: &Self) -> Vec<String> {
        let is_same_client = self.inner.client.shares_connections_with(&other.inner.client);
        if self.shares_informers_with(other) || !is_same_client {
            return Vec::new();
        }
        self.inner.registry.in_both(&other.inner.registry)
    }
}

/// Joins two selectors. Objects have to match both.
fn both(first: Option<String>, second: &str) -> Option<String> {
    match first.filter(|first| !first.is_empty()) {
        Some(first) if second.is_empty() => Some(first),
        Some(first) => Some(format!("{first},{second}")),
        None => Some(second.to_owned()),
    }
}
