//! [`Discovery`]: asking a server what it serves.

use std::time::Duration;

use bytes::Bytes;
use kube_core::GroupVersion;
use tokio::task::JoinSet;

use super::cached::CachedDiscovery;
use super::disk::DiskCache;
use super::documents::{Document, Documents, Wanted};
use super::error::DiscoveryError;
use super::served::{ApiGroup, Discovered, GroupVersionFailure, ResourceList, VersionInfo};
use super::wire::{self, Listing, Root};
use crate::client::Client;

/// How many group versions are asked about at the same time, where the server wants to be asked one by one.
const PARALLEL: usize = 16;
/// How often an answer with failures in it is asked for.
const TRIES: usize = 2;
const OPENAPI_V2: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// Asks a server what it serves. Made by [`Client::discovery`].
///
/// Servers since 1.27 answer with everything in two documents; older ones are asked about one group version after the
/// other, a few at a time. Which it was makes no difference to the result. Nothing is remembered from call to call;
/// [`cached`](Self::cached) gives a handle that does.
///
/// Every request has 32 seconds, or what the client's configuration allows.
#[derive(Clone, Debug)]
pub struct Discovery {
    pub(super) documents: Documents,
    form: Form,
}

/// What to ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Aggregated,
    NoPeers,
    Legacy,
}

impl Discovery {
    pub(super) fn new(client: &Client) -> Self {
        Discovery { documents: Documents::live(client), form: Form::default() }
    }

    /// The time that one request may take; zero stands for 32 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.documents = self.documents.within(timeout);
        self
    }

    /// Never asks for the aggregated form.
    pub fn legacy(mut self) -> Self {
        self.form = Form::Legacy;
        self
    }

    /// Asks for what this server serves itself, without what its peers of another version add.
    pub fn no_peers(mut self) -> Self {
        self.form = Form::NoPeers;
        self
    }

    /// A handle that asks once and remembers.
    pub fn cached(self) -> CachedDiscovery {
        CachedDiscovery::new(self.keeping(None))
    }

    /// A handle that remembers on disk too, beyond the end of the process.
    pub fn cached_on_disk(self, cache: DiskCache) -> CachedDiscovery {
        CachedDiscovery::new(self.keeping(Some(cache)))
    }

    fn keeping(mut self, disk: Option<DiskCache>) -> Self {
        self.documents = self.documents.keeping(disk);
        self
    }

    /// The groups, the core group first. A server without a core group is fine; one without `/apis` is not.
    pub async fn groups(&self) -> Result<Vec<ApiGroup>, DiscoveryError> {
        Ok(self.listing().await?.found.groups)
    }

    /// The groups and all their resources. If some could not be found out, asks once more before saying so.
    ///
    /// Half an answer is an answer: see [`Discovered::failures`].
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

    /// Every resource in the one version to use it in; see [`Discovered::preferred`]. If some could not be found out, asks
    /// once more before saying so.
    pub async fn preferred_resources(&self) -> Result<Discovered, DiscoveryError> {
        Ok(self.groups_and_resources().await?.preferred())
    }

    /// Every resource that lives in namespaces, in the one version to use it in. Asks once only.
    pub async fn preferred_namespaced_resources(&self) -> Result<Discovered, DiscoveryError> {
        Ok(self.discover().await?.preferred().namespaced())
    }

    /// The resources of one version of a group. A server without the core group has an empty one.
    pub async fn resources_for_group_version(
        &self,
        group_version: &GroupVersion,
    ) -> Result<ResourceList, DiscoveryError> {
        wire::check_group_version(group_version)?;
        let root = if group_version.group.is_empty() { "/api/" } else { "/apis/" };
        let path = format!("{root}{}", group_version.api_version());
        let wanted = Wanted::new(&path, wire::LEGACY);
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

    /// What the server says of itself.
    pub async fn server_version(&self) -> Result<VersionInfo, DiscoveryError> {
        let live = self.documents.clone().without_cache();
        let read = |document: &Document| wire::read_object("version", &document.body);
        Ok(live.get(Wanted::new("/version", "application/json"), read, |_| false).await?)
    }

    /// Whether the server serves this version of this group. A server that lists no group at all is given the benefit of
    /// the doubt: it may not want to tell us.
    pub async fn supports_version(&self, group_version: &GroupVersion) -> Result<bool, DiscoveryError> {
        let groups = self.groups().await?;
        let mut versions = groups.iter().flat_map(ApiGroup::group_versions).peekable();
        Ok(versions.peek().is_none() || versions.any(|version| version == *group_version))
    }

    /// Whether the server serves this resource in this version of a group.
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

    /// The OpenAPI v2 document in protobuf, as it is.
    pub async fn openapi_v2(&self) -> Result<Bytes, DiscoveryError> {
        let live = self.documents.clone().without_cache();
        Ok(live.get(Wanted::new("/openapi/v2", OPENAPI_V2), |document| Ok(document.body.clone()), |_| false).await?)
    }

    /// Everything, asked for once.
    pub(super) async fn discover(&self) -> Result<Discovered, DiscoveryError> {
        let listing = self.listing().await?;
        Ok(if listing.legacy { self.one_by_one(listing.found).await } else { listing.found })
    }

    /// The two roots as one answer. It is aggregated only if both are.
    async fn listing(&self) -> Result<Listing, DiscoveryError> {
        let (core, groups) = tokio::join!(self.root(Root::Core), self.root(Root::Groups));
        let core = match core {
            Err(error) if error.is_not_found() => Listing::default(),
            core => core?,
        };
        Ok(core.join(groups?))
    }

    async fn root(&self, root: Root) -> Result<Listing, DiscoveryError> {
        let accept = match self.form {
            Form::Aggregated => format!("{},{}", wire::AGGREGATED, wire::LEGACY),
            Form::NoPeers => format!("{},{},{}", wire::AGGREGATED_NO_PEERS, wire::AGGREGATED, wire::LEGACY),
            Form::Legacy => wire::LEGACY.to_owned(),
        };
        let read = |document: &Document| wire::read_listing(root, &document.media_type, &document.body);
        // What is stale or empty today should be asked for again tomorrow.
        let is_whole = |listing: &Listing| listing.found.failures.is_empty() && !listing.found.groups.is_empty();
        Ok(self.documents.get(Wanted::new(root.path(), &accept), read, is_whole).await?)
    }

    /// Asks about every version of every group, a few at a time.
    async fn one_by_one(&self, mut discovered: Discovered) -> Discovered {
        let wanted: Vec<GroupVersion> = discovered.groups.iter().flat_map(ApiGroup::group_versions).collect();
        let mut answers = Vec::new();
        answers.resize_with(wanted.len(), || None);
        let mut waiting = wanted.iter().cloned().enumerate();
        // Dropping the set ends what is still under way.
        let mut asked = JoinSet::new();
        loop {
            while asked.len() < PARALLEL {
                let Some((place, group_version)) = waiting.next() else { break };
                let discovery = self.clone();
                asked.spawn(async move { (place, discovery.resources_for_group_version(&group_version).await) });
            }
            match asked.join_next().await {
                None => break,
                Some(Ok((place, answer))) => {
                    if let Some(slot) = answers.get_mut(place) {
                        *slot = Some(answer);
                    }
                }
                Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                // The runtime is shutting down, and nobody waits for the answer.
                Some(Err(_)) => {}
            }
        }
        for (group_version, answer) in wanted.into_iter().zip(answers) {
            match answer {
                Some(Ok(list)) => discovered.resources.push(list),
                Some(Err(error)) => discovered.failures.push(GroupVersionFailure::new(group_version, error)),
                None => {}
            }
        }
        discovered.sort_failures();
        discovered
    }
}
