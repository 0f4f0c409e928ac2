//! [`CachedDiscovery`]: discovery that asks once and remembers.

use std::fmt;
use std::sync::Arc;

use kube_core::GroupVersion;

use super::error::DiscoveryError;
use super::live::Discovery;
use super::openapi::OpenApi;
use super::served::{ApiGroup, Discovered, GroupVersionFailure, ResourceList};
use super::shared::Shared;

/// Discovery that asks once and remembers. Made by [`Discovery::cached`]. Clones are the same cache.
///
/// The first to ask fetches everything while the others wait. What is known stays until
/// [`invalidate`](Self::invalidate); asking for it again costs few bytes if nothing has changed, because the server is
/// told which state is known. A failure to list the groups is not remembered. A version of a group that failed for a
/// reason that passes (no connection, no time, a server in trouble) is asked for again when it is wanted; one that failed
/// for another reason stays failed until [`invalidate`](Self::invalidate).
///
/// A version of a group that is not known is not asked for either. Whoever waits for a new one to appear uses a
/// [`RestMapper`](super::RestMapper), or invalidates.
#[derive(Clone)]
pub struct CachedDiscovery {
    inner: Arc<Inner>,
}

struct Inner {
    discovery: Discovery,
    openapi: OpenApi,
    known: Shared<Discovered>,
}

impl CachedDiscovery {
    pub(super) fn new(discovery: Discovery) -> Self {
        let openapi = OpenApi::new(discovery.documents.clone());
        CachedDiscovery { inner: Arc::new(Inner { discovery, openapi, known: Shared::default() }) }
    }

    /// The groups and all their resources.
    pub async fn groups_and_resources(&self) -> Result<Arc<Discovered>, DiscoveryError> {
        self.inner.known.get(self.inner.discovery.groups_and_resources()).await
    }

    /// The groups.
    pub async fn groups(&self) -> Result<Vec<ApiGroup>, DiscoveryError> {
        Ok(self.groups_and_resources().await?.groups.clone())
    }

    /// Every resource in the one version to use it in; see [`Discovered::preferred`].
    pub async fn preferred_resources(&self) -> Result<Discovered, DiscoveryError> {
        Ok(Discovered::clone(&*self.groups_and_resources().await?).preferred())
    }

    /// The resources of one version of a group. One that has none is an error, as is one that is not known.
    pub async fn resources_for_group_version(
        &self,
        group_version: &GroupVersion,
    ) -> Result<ResourceList, DiscoveryError> {
        let known = self.groups_and_resources().await?;
        let known = match find_failure(&known, group_version) {
            Some(failure) if failure.error.is_transient() => {
                self.inner.known.renew(&known, self.mend(&known, group_version)).await?
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

    /// The OpenAPI documents. They are forgotten with the rest.
    pub fn openapi(&self) -> &OpenApi {
        &self.inner.openapi
    }

    /// Whether everything is known, and known from the server itself since the last invalidation, not from what another
    /// process left on disk.
    pub fn is_fresh(&self) -> bool {
        self.inner.known.peek().is_some() && self.inner.discovery.documents.disk().is_none_or(|disk| disk.is_fresh())
    }

    /// Forgets everything, so that the next call asks the server.
    pub fn invalidate(&self) {
        self.inner.discovery.documents.distrust_disk();
        self.inner.openapi.invalidate();
        self.inner.known.clear();
    }

    /// What the server says now, if this is what is known. Until it has answered, the old answer stays.
    pub(super) async fn renew(&self, old: &Arc<Discovered>) -> Result<Arc<Discovered>, DiscoveryError> {
        let fetch = async {
            self.inner.discovery.documents.distrust_disk();
            self.inner.discovery.groups_and_resources().await
        };
        self.inner.known.renew(old, fetch).await
    }

    /// What is known, with this version of a group asked for anew.
    async fn mend(&self, known: &Discovered, group_version: &GroupVersion) -> Result<Discovered, DiscoveryError> {
        let answer = self.inner.discovery.resources_for_group_version(group_version).await;
        let mut mended = known.clone();
        mended.failures.retain(|failure| failure.group_version != *group_version);
        match answer {
            Ok(list) => {
                mended.resources.push(list);
                // Back to the server's order.
                let order: Vec<_> = mended.groups.iter().flat_map(ApiGroup::group_versions).collect();
                mended.resources.sort_by_key(|list| order.iter().position(|known| *known == list.group_version));
            }
            Err(error) => {
                mended.failures.push(GroupVersionFailure::new(group_version.clone(), error));
                mended.sort_failures();
            }
        }
        Ok(mended)
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
