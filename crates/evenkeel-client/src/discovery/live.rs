//! [`Discovery`]: requests what a server serves.

use std::time::Duration;

use bytes::Bytes;
use evenkeel_base::task::scheduled;
use kube_core::GroupVersion;
use tokio::task::JoinSet;

use super::cached::CachedDiscovery;
use super::disk::DiskCache;
use super::documents::{Document, DocumentRequest, Documents};
use super::error::DiscoveryError;
use super::served::{ApiGroup, Discovered, GroupVersionFailure, ResourceList, VersionInfo};
use super::wire::{self, Listing, Root};
use crate::client::Client;

/// How many group versions are requested concurrently from a server without aggregated discovery.
const PARALLEL: usize = 16;
/// How often a response with failures is requested.
const TRIES: usize = 2;
const OPENAPI_V2: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// Requests what a server serves. Created by [`Client::discovery`].
///
/// Servers since 1.27 return everything in two documents; older ones are pending for each group version, a few at a time.
/// The result is the same. Nothing is cached; [`cached`](Self::cached) returns a handle with a cache.
///
/// Every request has a timeout of 32 seconds, or the client's.
#[derive(Clone, Debug)]
pub struct Discovery {
    pub(super) documents: Documents,
    format: DiscoveryFormat,
}

/// The requested format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DiscoveryFormat {
    #[default]
    Aggregated,
    NoPeers,
    Legacy,
}

impl Discovery {
    pub(super) fn new(client: &Client) -> Self {
        Discovery { documents: Documents::live(client), format: DiscoveryFormat::default() }
    }

    /// Sets the timeout of a request; zero for 32 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.documents = self.documents.within(timeout);
        self
    }

    /// Disables aggregated discovery.
    pub fn legacy(mut self) -> Self {
        self.format = DiscoveryFormat::Legacy;
        self
    }

    /// Requests what this server itself serves, without its peers of another version.
    pub fn no_peers(mut self) -> Self {
        self.format = DiscoveryFormat::NoPeers;
        self
    }

    /// Returns a handle with a cache in memory.
    pub fn cached(self) -> CachedDiscovery {
        CachedDiscovery::new(self.keeping(None))
    }

    /// Returns a handle with a cache on disk, which outlives the process.
    pub fn cached_on_disk(self, cache: DiskCache) -> CachedDiscovery {
        CachedDiscovery::new(self.keeping(Some(cache)))
    }

    fn keeping(mut self, disk: Option<DiskCache>) -> Self {
        self.documents = self.documents.keeping(disk);
        self
    }

    /// Returns the groups, the core group first. A server without a core group is accepted; one without `/apis` is an
    /// error.
    pub async fn groups(&self) -> Result<Vec<ApiGroup>, DiscoveryError> {
        Ok(self.listing().await?.found.groups)
    }

    /// Returns the groups and all their resources. Retries once if some failed.
    ///
    /// A partial result is no error: see [`Discovered::failures`].
    pub async fn groups_and_resources(&self) -> Result<Discovered, DiscoveryError> {
        let mut discovered = self.discover().await?;
        for _ in 1..TRIES {
            if discovered.failures.is_empty() {
                break;
            }
            discovered = self.discover().await?;
        }
        Ok(discovered)
    }

    /// Returns every resource in its preferred version; see [`Discovered::preferred`]. Retries once if some failed.
    pub async fn preferred_resources(&self) -> Result<Discovered, DiscoveryError> {
        Ok(self.groups_and_resources().await?.preferred())
    }

    /// Returns every namespaced resource in its preferred version. Does not retry.
    pub async fn preferred_namespaced_resources(&self) -> Result<Discovered, DiscoveryError> {
        Ok(self.discover().await?.preferred().namespaced())
    }

    /// Returns the resources of a group version. The core group of a server without one is empty.
    pub async fn resources_for_group_version(
        &self,
        group_version: &GroupVersion,
    ) -> Result<ResourceList, DiscoveryError> {
        wire::check_group_version(group_version)?;
        let root = if group_version.group.is_empty() { "/api/" } else { "/apis/" };
        let path = format!("{root}{}", group_version.api_version());
        let wanted = DocumentRequest::new(&path, wire::LEGACY);
        let read = self
            .documents
            .get(wanted, |document| wire::read_resources(group_version, &document.body), |list| !list.is_empty())
            .await;
        match read {
            Err(error) if error.is_not_found() && group_version.api_version() == "v1" => {
                Ok(ResourceList::new(group_version.clone()))
            }
            read => Ok(read?),
        }
    }

    /// Returns the server's version.
    pub async fn server_version(&self) -> Result<VersionInfo, DiscoveryError> {
        let live = self.documents.clone().without_cache();
        let read = |document: &Document| wire::read_object("version", &document.body);
        Ok(live.get(DocumentRequest::new("/version", "application/json"), read, |_| false).await?)
    }

    /// Returns whether the server serves this group version. A server that lists no groups at all counts as serving it:
    /// the user may not be allowed to list them.
    pub async fn supports_version(&self, group_version: &GroupVersion) -> Result<bool, DiscoveryError> {
        let groups = self.groups().await?;
        let mut versions = groups.iter().flat_map(ApiGroup::group_versions).peekable();
        Ok(versions.peek().is_none() || versions.any(|version| version == *group_version))
    }

    /// Returns whether the server serves this resource in this group version.
    pub async fn is_resource_enabled(
        &self,
        group_version: &GroupVersion,
        plural: &str,
    ) -> Result<bool, DiscoveryError> {
        match self.resources_for_group_version(group_version).await {
            Ok(list) => Ok(list.resource(plural).is_some()),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the OpenAPI v2 document in protobuf, unchanged.
    pub async fn openapi_v2(&self) -> Result<Bytes, DiscoveryError> {
        let live = self.documents.clone().without_cache();
        Ok(live
            .get(DocumentRequest::new("/openapi/v2", OPENAPI_V2), |document| Ok(document.body.clone()), |_| false)
            .await?)
    }

    /// Requests everything once.
    pub(super) async fn discover(&self) -> Result<Discovered, DiscoveryError> {
        let listing = self.listing().await?;
        Ok(if listing.legacy { self.one_by_one(listing.found).await } else { listing.found })
    }

    /// Merges the two roots. The result is aggregated only if both are.
    async fn listing(&self) -> Result<Listing, DiscoveryError> {
        let (core, groups) = tokio::join!(self.root(Root::Core), self.root(Root::Groups));
        let core = match core {
            Err(error) if error.is_not_found() => Listing::default(),
            core => core?,
        };
        Ok(core.join(groups?))
    }

    async fn root(&self, root: Root) -> Result<Listing, DiscoveryError> {
        let accept = match self.format {
            DiscoveryFormat::Aggregated => format!("{},{}", wire::AGGREGATED, wire::LEGACY),
            DiscoveryFormat::NoPeers => format!("{},{},{}", wire::AGGREGATED_NO_PEERS, wire::AGGREGATED, wire::LEGACY),
            DiscoveryFormat::Legacy => wire::LEGACY.to_owned(),
        };
        let read = |document: &Document| wire::read_listing(root, &document.media_type, &document.body);
        // A stale or empty document is not cached.
        let is_whole = |listing: &Listing| listing.found.failures.is_empty() && !listing.found.groups.is_empty();
        Ok(self.documents.get(DocumentRequest::new(root.path(), &accept), read, is_whole).await?)
    }

    /// Requests every group version, a few at a time.
    async fn one_by_one(&self, mut discovered: Discovered) -> Discovered {
        let wanted: Vec<GroupVersion> = discovered.groups.iter().flat_map(ApiGroup::group_versions).collect();
        let mut results = Vec::new();
        results.resize_with(wanted.len(), || None);
        let mut waiting = wanted.iter().cloned().enumerate();
        // Dropping the set cancels the pending requests.
        let mut pending = JoinSet::new();
        loop {
            while pending.len() < PARALLEL {
                let Some((position, group_version)) = waiting.next() else { break };
                let discovery = self.clone();
                pending.spawn(scheduled(async move {
                    (position, discovery.resources_for_group_version(&group_version).await)
                }));
            }
            match pending.join_next().await {
                None => break,
                Some(Ok((position, result))) => {
                    if let Some(slot) = results.get_mut(position) {
                        *slot = Some(result);
                    }
                }
                Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                // The runtime is shutting down.
                Some(Err(_)) => {}
            }
        }
        for (group_version, result) in wanted.into_iter().zip(results) {
            match result {
                Some(Ok(list)) => discovered.resources.push(list),
                Some(Err(error)) => discovered.failures.push(GroupVersionFailure::new(group_version, error)),
                None => {}
            }
        }
        discovered.sort_failures();
        discovered
    }
}
