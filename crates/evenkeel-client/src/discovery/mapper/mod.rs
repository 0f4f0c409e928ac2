//! [`RestMapper`]: maps names to resources.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_core::ResourceInfo;
use kube_core::{GroupVersion, GroupVersionKind};
use tokio::time::Instant;

mod guess;
mod query;
mod table;

pub use guess::guess_names;
pub use query::ResourceQuery;
pub use table::KindTable;

use super::cached::CachedDiscovery;
use super::error::DiscoveryError;
use super::served::{Discovered, ServedSubresource};

/// The minimal interval between refreshes for unknown names.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);
/// How many warnings are kept for deduplication.
const MAX_WARNED: usize = 256;

/// Maps kinds, plurals, singulars, short names and categories to resources, by discovery.
///
/// The first lookup runs discovery. An unknown name runs it again, so that new resources are found; at most every ten
/// seconds, however many unknown names there are. The result is an [`Arc<ResourceInfo>`], which requests and dynamic
/// clients take.
///
/// [`KindTable`] states the priority of ambiguous names. Group versions that failed count as not served. If the server
/// is unavailable, known names are still resolved.
///
/// Clones share the cache.
#[derive(Clone)]
pub struct RestMapper {
    inner: Arc<MapperInner>,
}

struct MapperInner {
    cache: CachedDiscovery,
    /// The table, and the discovery result that it was built from.
    table: Mutex<Option<(Arc<Discovered>, Arc<KindTable>)>>,
    /// When an unknown name last ran discovery.
    refreshed: Mutex<Option<Instant>>,
    warn: Box<dyn Fn(&str) + Send + Sync>,
    /// The warnings so far.
    warned: Mutex<HashSet<String>>,
}

impl RestMapper {
    /// Creates a mapper with this cache.
    pub fn new(cache: CachedDiscovery) -> Self {
        Self::with_warnings(cache, |warning| tracing::warn!("{warning}"))
    }

    /// Creates a mapper that passes warnings about ambiguous short names to this function, once each. It must not
    /// block.
    pub fn with_warnings(cache: CachedDiscovery, warn: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let inner = MapperInner {
            cache,
            table: Mutex::default(),
            refreshed: Mutex::default(),
            warn: Box::new(warn),
            warned: Mutex::default(),
        };
        RestMapper { inner: Arc::new(inner) }
    }

    /// Returns the discovery cache.
    pub fn discovery(&self) -> &CachedDiscovery {
        &self.inner.cache
    }

    /// Returns the resource of a kind: in the first of these versions that has it, or without versions in the preferred
    /// one.
    pub async fn mapping(
        &self,
        group: &str,
        kind: &str,
        versions: &[&str],
    ) -> Result<Arc<ResourceInfo>, DiscoveryError> {
        self.lookup(|_, table| table.mapping(group, kind, versions)).await
    }

    /// Returns the resources of a kind in all of these versions, in their order, or without versions in all versions, by
    /// priority (client-go's `RESTMappings`).
    pub async fn mappings(
        &self,
        group: &str,
        kind: &str,
        versions: &[&str],
    ) -> Result<Vec<Arc<ResourceInfo>>, DiscoveryError> {
        self.lookup(|_, table| table.mappings(group, kind, versions)).await
    }

    /// Returns the singular of a resource name; a name that is not known is its own singular (client-go's
    /// `ResourceSingularizer`). An unknown name does not run discovery again.
    pub async fn singular(&self, resource: &str) -> Result<String, DiscoveryError> {
        let (_, table) = self.table(self.inner.cache.groups_and_resources().await?);
        Ok(table.singular(resource))
    }

    /// Returns the resource with this name: a plural, a singular or a short name, in upper or lower case.
    pub async fn resource_for(&self, query: impl Into<ResourceQuery>) -> Result<Arc<ResourceInfo>, DiscoveryError> {
        let query = query.into();
        self.lookup(|_, table| {
            self.warn_ambiguous(&query, table);
            table.resource_for(&query)
        })
        .await
    }

    /// Returns all resources with this name, by priority.
    pub async fn resources_for(
        &self,
        query: impl Into<ResourceQuery>,
    ) -> Result<Vec<Arc<ResourceInfo>>, DiscoveryError> {
        let query = query.into();
        self.lookup(|_, table| {
            self.warn_ambiguous(&query, table);
            table.resources_for(&query)
        })
        .await
    }

    /// Returns the kind with this resource name.
    pub async fn kind_for(&self, query: impl Into<ResourceQuery>) -> Result<GroupVersionKind, DiscoveryError> {
        Ok(kind_of(&*self.resource_for(query).await?))
    }

    /// Returns all kinds with this resource name, by priority.
    pub async fn kinds_for(&self, query: impl Into<ResourceQuery>) -> Result<Vec<GroupVersionKind>, DiscoveryError> {
        Ok(self.resources_for(query).await?.iter().map(|info| kind_of(info)).collect())
    }

    /// Resolves a command line argument: `pods`, `po`, `deployments.apps`, `deployments.v1.apps`, `Deployment`.
    pub async fn resolve(&self, argument: &str) -> Result<Arc<ResourceInfo>, DiscoveryError> {
        let query = ResourceQuery::of_argument(argument);
        self.lookup(|_, table| {
            self.warn_ambiguous(&query, table);
            table.resolve(argument)
        })
        .await
    }

    /// Returns a subresource, such as `scale`, with the kind of its content and its verbs.
    pub async fn subresource(&self, info: &ResourceInfo, name: &str) -> Result<ServedSubresource, DiscoveryError> {
        let group_version = GroupVersion::gv(info.group(), info.version());
        self.lookup(|known, _| {
            let resource = known.list(&group_version).and_then(|list| list.resource(info.plural()));
            let found = resource.and_then(|resource| resource.subresource(name)).cloned();
            found.ok_or_else(|| DiscoveryError::NoSubresource {
                group_version: group_version.clone(),
                resource: info.plural().to_owned(),
                name: name.to_owned(),
            })
        })
        .await
    }

    /// Returns the resources of a category such as `all`; `None` if there is no such category.
    pub async fn expand(&self, category: &str) -> Result<Option<Vec<Arc<ResourceInfo>>>, DiscoveryError> {
        let (_, table) = self.table(self.inner.cache.groups_and_resources().await?);
        Ok(table.expand(category))
    }

    /// Clears the cache, so that the next lookup runs discovery.
    pub fn reset(&self) {
        self.inner.cache.invalidate();
        *lock(&self.inner.table) = None;
    }

    /// Looks up in the cached result; without a match, runs discovery again.
    async fn lookup<T>(
        &self,
        find: impl Fn(&Discovered, &KindTable) -> Result<T, DiscoveryError>,
    ) -> Result<T, DiscoveryError> {
        let was_cached = self.inner.cache.is_fresh();
        let (known, table) = self.table(self.inner.cache.groups_and_resources().await?);
        match find(&known, &table) {
            // A result that was fetched for this lookup is not fetched again.
            Err(error) if error.is_no_match() && (was_cached || !self.inner.cache.is_fresh()) => {
                if !self.may_refresh() {
                    return Err(error);
                }
                let (known, table) = self.table(self.inner.cache.renew(&known).await?);
                *lock(&self.inner.refreshed) = Some(Instant::now());
                find(&known, &table)
            }
            outcome => outcome,
        }
    }

    fn may_refresh(&self) -> bool {
        lock(&self.inner.refreshed).is_none_or(|last| last.elapsed() >= REFRESH_INTERVAL)
    }

    /// Returns the table of a discovery result, rebuilt only if that has changed.
    fn table(&self, known: Arc<Discovered>) -> (Arc<Discovered>, Arc<KindTable>) {
        let mut slot = lock(&self.inner.table);
        match &*slot {
            Some((made_from, table)) if Arc::ptr_eq(made_from, &known) => (known, Arc::clone(table)),
            _ => {
                let table = Arc::new(KindTable::new(&known));
                *slot = Some((Arc::clone(&known), Arc::clone(&table)));
                (known, table)
            }
        }
    }

    fn warn_ambiguous(&self, query: &ResourceQuery, table: &KindTable) {
        let expansion = table.expand_short_name(query);
        for other in expansion.others {
            self.warn_once(format!(
                "the short name {query} is resolved to {}; it could also match {other}",
                expansion.query
            ));
        }
    }

    fn warn_once(&self, warning: String) {
        let mut warned = lock(&self.inner.warned);
        if warned.len() < MAX_WARNED && warned.insert(warning.clone()) {
            drop(warned);
            (self.inner.warn)(&warning);
        }
    }
}

fn kind_of(info: &ResourceInfo) -> GroupVersionKind {
    GroupVersionKind::gvk(info.group(), info.version(), info.kind())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for RestMapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestMapper").field("discovery", &self.inner.cache).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
