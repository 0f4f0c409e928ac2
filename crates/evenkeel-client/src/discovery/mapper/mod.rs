//! [`RestMapper`]: from names to resources.

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

/// How often names that nobody knows may send us back to the server.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);
/// How many ambiguous short names are remembered as told.
const MAX_TOLD: usize = 256;

/// From names to resources: kinds, plurals, singulars, short names and categories, as the server knows them.
///
/// Nothing is asked before the first question. When a name is not known, the server is asked once more what it serves, so
/// that a resource that has appeared since is found without further ado; this happens at most every ten seconds, however
/// many names nobody knows. What is found is an [`Arc<ResourceInfo>`], which requests and dynamic clients are made from.
///
/// Which of several resources a name means is said at [`KindTable`]. Versions of groups that could not be looked at are
/// as if they were not served. If the server cannot be asked at all, questions whose answer is known are still answered.
///
/// Clones are the same mapper.
#[derive(Clone)]
pub struct RestMapper {
    inner: Arc<Inner>,
}

struct Inner {
    cache: CachedDiscovery,
    /// The table, and what it was made from.
    table: Mutex<Option<(Arc<Discovered>, Arc<KindTable>)>>,
    /// When a name that nobody knew last made us ask.
    refreshed: Mutex<Option<Instant>>,
    warn: Box<dyn Fn(&str) + Send + Sync>,
    /// The warnings that have been given.
    told: Mutex<HashSet<String>>,
}

impl RestMapper {
    /// A mapper for what this cache knows.
    pub fn new(cache: CachedDiscovery) -> Self {
        Self::with_warnings(cache, |warning| tracing::warn!("{warning}"))
    }

    /// A mapper that tells this function, once each, about short names that mean several resources. Must not block.
    pub fn with_warnings(cache: CachedDiscovery, warn: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let inner = Inner {
            cache,
            table: Mutex::default(),
            refreshed: Mutex::default(),
            warn: Box::new(warn),
            told: Mutex::default(),
        };
        RestMapper { inner: Arc::new(inner) }
    }

    /// What the mapper knows it from.
    pub fn discovery(&self) -> &CachedDiscovery {
        &self.inner.cache
    }

    /// The resource of a kind: in the first of these versions that has it, or, if none is given, in the preferred one.
    pub async fn mapping(
        &self,
        group: &str,
        kind: &str,
        versions: &[&str],
    ) -> Result<Arc<ResourceInfo>, DiscoveryError> {
        self.ask(|_, table| table.mapping(group, kind, versions)).await
    }

    /// The resource that a name stands for: a plural, a singular or a short name, in any case.
    pub async fn resource_for(&self, query: impl Into<ResourceQuery>) -> Result<Arc<ResourceInfo>, DiscoveryError> {
        let query = query.into();
        self.ask(|_, table| {
            self.tell(&query, table);
            table.resource_for(&query)
        })
        .await
    }

    /// All resources that a name stands for, the best first.
    pub async fn resources_for(
        &self,
        query: impl Into<ResourceQuery>,
    ) -> Result<Vec<Arc<ResourceInfo>>, DiscoveryError> {
        let query = query.into();
        self.ask(|_, table| {
            self.tell(&query, table);
            table.resources_for(&query)
        })
        .await
    }

    /// The kind that a name stands for.
    pub async fn kind_for(&self, query: impl Into<ResourceQuery>) -> Result<GroupVersionKind, DiscoveryError> {
        Ok(kind_of(&*self.resource_for(query).await?))
    }

    /// All kinds that a name stands for, the best first.
    pub async fn kinds_for(&self, query: impl Into<ResourceQuery>) -> Result<Vec<GroupVersionKind>, DiscoveryError> {
        Ok(self.resources_for(query).await?.iter().map(|info| kind_of(info)).collect())
    }

    /// The resource that an argument of a command line stands for: `pods`, `po`, `deployments.apps`,
    /// `deployments.v1.apps`, `Deployment`.
    pub async fn resolve(&self, argument: &str) -> Result<Arc<ResourceInfo>, DiscoveryError> {
        let query = ResourceQuery::of_argument(argument);
        self.ask(|_, table| {
            self.tell(&query, table);
            table.resolve(argument)
        })
        .await
    }

    /// What is known of a subresource, such as `scale`: the kind that is sent and received there, and the verbs.
    pub async fn subresource(&self, info: &ResourceInfo, name: &str) -> Result<ServedSubresource, DiscoveryError> {
        let group_version = GroupVersion::gv(info.group(), info.version());
        self.ask(|known, _| {
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

    /// The resources of a category such as `all`; none if there is no such category.
    pub async fn expand(&self, category: &str) -> Result<Option<Vec<Arc<ResourceInfo>>>, DiscoveryError> {
        let (_, table) = self.table(self.inner.cache.groups_and_resources().await?);
        Ok(table.expand(category))
    }

    /// Forgets everything, so that the next question asks the server.
    pub fn reset(&self) {
        self.inner.cache.invalidate();
        *lock(&self.inner.table) = None;
    }

    /// Answers from what is known; if that has no match, from what the server says now.
    async fn ask<T>(
        &self,
        question: impl Fn(&Discovered, &KindTable) -> Result<T, DiscoveryError>,
    ) -> Result<T, DiscoveryError> {
        let was_known = self.inner.cache.is_fresh();
        let (known, table) = self.table(self.inner.cache.groups_and_resources().await?);
        match question(&known, &table) {
            // What has just been fetched for this very question is not fetched again.
            Err(error) if error.is_no_match() && (was_known || !self.inner.cache.is_fresh()) => {
                if !self.may_refresh() {
                    return Err(error);
                }
                let (known, table) = self.table(self.inner.cache.renew(&known).await?);
                *lock(&self.inner.refreshed) = Some(Instant::now());
                question(&known, &table)
            }
            outcome => outcome,
        }
    }

    fn may_refresh(&self) -> bool {
        lock(&self.inner.refreshed).is_none_or(|last| last.elapsed() >= REFRESH_INTERVAL)
    }

    /// The table for what is known, made anew only if that has changed.
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

    fn tell(&self, query: &ResourceQuery, table: &KindTable) {
        let expansion = table.expand_short_name(query);
        for other in expansion.others {
            self.warn_once(format!(
                "the short name {query} stands for {}; it could also match {other}",
                expansion.query
            ));
        }
    }

    fn warn_once(&self, warning: String) {
        let mut told = lock(&self.inner.told);
        if told.len() < MAX_TOLD && told.insert(warning.clone()) {
            drop(told);
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
