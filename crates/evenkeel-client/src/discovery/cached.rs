//! [`CachedDiscovery`]: discovery with a cache.

use std::fmt;
use std::sync::Arc;

use kube_core::GroupVersion;

use super::error::DiscoveryError;
use super::live::Discovery;
use super::openapi::OpenApi;
use super::served::{ApiGroup, Discovered, GroupVersionFailure, ResourceList};
use super::single_flight::SingleFlight;

/// Discovery with a cache. Created by [`Discovery::cached`]. Clones share the cache.
///
/// Concurrent callers share one fetch. The result is kept until [`invalidate`](Self::invalidate); fetching it again
/// costs few bytes if nothing has changed, because requests carry the ETag. An error of the group list is not cached. A
/// group version that failed for a transient reason (no connection, a timeout, an overloaded server) is fetched again
/// when it is needed; one that failed for another reason stays failed until [`invalidate`](Self::invalidate).
///
/// A group version that is not in the cache is not requested. Use a [`RestMapper`](super::RestMapper), or invalidate,
/// to find new ones.
#[derive(Clone)]
pub struct CachedDiscovery {
    inner: Arc<CachedDiscoveryInner>,
}

struct CachedDiscoveryInner {
    discovery: Discovery,
    openapi: OpenApi,
    known: SingleFlight<Discovered>,
}

impl CachedDiscovery {
    pub(super) fn new(discovery: Discovery) -> Self {
        let openapi = OpenApi::new(discovery.documents.clone());
        CachedDiscovery { inner: Arc::new(CachedDiscoveryInner { discovery, openapi, known: SingleFlight::default() }) }
    }

    /// Returns the groups and all their resources.
    pub async fn groups_and_resources(&self) -> Result<Arc<Discovered>, DiscoveryError> {
        self.inner.known.get(self.inner.discovery.groups_and_resources()).await
    }

    /// Returns the groups.
    pub async fn groups(&self) -> Result<Vec<ApiGroup>, DiscoveryError> {
        Ok(self.groups_and_resources().await?.groups.clone())
    }

    /// Returns every resource in its preferred version; see [`Discovered::preferred`].
    pub async fn preferred_resources(&self) -> Result<Discovered, DiscoveryError> {
        Ok(Discovered::clone(&*self.groups_and_resources().await?).preferred())
    }

    /// Returns the resources of a group version. An empty or unknown one is an error.
    pub async fn resources_for_group_version(
        &self,
        group_version: &GroupVersion,
    ) -> Result<ResourceList, DiscoveryError> {
        let known = self.groups_and_resources().await?;
        let known = match find_failure(&known, group_version) {
            Some(failure) if failure.error.is_transient() => {
                self.inner.known.renew(&known, self.refetch(&known, group_version)).await?
            }
            _ => known,
        };
        if let Some(failure) = find_failure(&known, group_version) {
            return Err(failure.error.clone());
        }
        match known.list(group_version) {
            None => Err(DiscoveryError::NotServed { group_version: group_version.clone() }),
            Some(list) if list.is_empty() => Err(DiscoveryError::Empty { group_version: group_version.clone() }),
            Some(list) => Ok(list.clone()),
        }
    }

    /// Returns the OpenAPI documents, which are invalidated with the cache.
    pub fn openapi(&self) -> &OpenApi {
        &self.inner.openapi
    }

    /// Returns whether the cache is filled from the server since the last invalidation, not from files of another
    /// process.
    pub fn is_fresh(&self) -> bool {
        self.inner.known.peek().is_some() && self.inner.discovery.documents.disk().is_none_or(|disk| disk.is_fresh())
    }

    /// Clears the cache, so that the next call fetches from the server.
    pub fn invalidate(&self) {
        self.inner.discovery.documents.revalidate_disk();
        self.inner.openapi.invalidate();
        self.inner.known.clear();
    }

    /// Fetches again, if `old` is the cached value. The old value stays until the new one has arrived.
    pub(super) async fn renew(&self, old: &Arc<Discovered>) -> Result<Arc<Discovered>, DiscoveryError> {
        let fetch = async {
            self.inner.discovery.documents.revalidate_disk();
            self.inner.discovery.groups_and_resources().await
        };
        self.inner.known.renew(old, fetch).await
    }

    /// Fetches a group version again and merges it into the cached value.
    async fn refetch(&self, known: &Discovered, group_version: &GroupVersion) -> Result<Discovered, DiscoveryError> {
        let fetched = self.inner.discovery.resources_for_group_version(group_version).await;
        let mut merged = known.clone();
        merged.failures.retain(|failure| failure.group_version != *group_version);
        match fetched {
            Ok(list) => {
                merged.resources.push(list);
                // Restores the server's order.
                let order: Vec<_> = merged.groups.iter().flat_map(ApiGroup::group_versions).collect();
                merged.resources.sort_by_key(|list| order.iter().position(|known| *known == list.group_version));
            }
            Err(error) => {
                merged.failures.push(GroupVersionFailure::new(group_version.clone(), error));
                merged.sort_failures();
            }
        }
        Ok(merged)
    }
}

impl fmt::Debug for CachedDiscovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filled = self.inner.known.peek().is_some();
        f.debug_struct("CachedDiscovery").field("filled", &filled).field("discovery", &self.inner.discovery).finish()
    }
}

fn find_failure<'a>(known: &'a Discovered, group_version: &GroupVersion) -> Option<&'a GroupVersionFailure> {
    known.failures.iter().find(|failure| failure.group_version == *group_version)
}

#[cfg(test)]
mod tests;
