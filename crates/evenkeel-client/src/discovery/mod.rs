//! Discovery: the groups, versions, resources, names and schemas of a server.
//!
//! [`Discovery`] requests them, [`CachedDiscovery`] caches them (with a [`DiskCache`] across processes), [`RestMapper`]
//! maps names (`deploy`, `deployments.apps`, `Deployment`) to the [`ResourceInfo`](evenkeel_core::ResourceInfo) of
//! requests, and [`OpenApi`] returns schemas.
//!
//! ```
//! # async fn example(client: evenkeel_client::Client) -> Result<(), evenkeel_client::discovery::DiscoveryError> {
//! use evenkeel_client::discovery::RestMapper;
//!
//! let mapper = RestMapper::new(client.discovery().cached());
//! let deployments = mapper.resolve("deploy").await?;
//! assert_eq!(deployments.url_path(Some("default")), "/apis/apps/v1/namespaces/default/deployments");
//! # Ok(())
//! # }
//! ```
//!
//! Everything keeps the server's order, so that the same server always gives the same result. Names and URLs of the
//! server are validated before they become part of a request, and every read is bounded.

mod cached;
mod disk;
mod documents;
mod error;
mod live;
mod mapper;
mod openapi;
mod served;
mod single_flight;
mod wire;

pub use cached::CachedDiscovery;
pub use disk::DiskCache;
pub use error::DiscoveryError;
pub use kube_core::{GroupVersion, GroupVersionKind};
pub use live::Discovery;
pub use mapper::{KindTable, ResourceQuery, RestMapper, guess_names};
pub use openapi::{OpenApi, OpenApiIndex, SchemaUrl};
pub use served::{
    ApiGroup, Discovered, GroupVersionFailure, ResourceList, ServedResource, ServedSubresource, VersionInfo,
};

use crate::client::Client;
use documents::Documents;

impl Client {
    /// Returns the discovery client.
    pub fn discovery(&self) -> Discovery {
        Discovery::new(self)
    }

    /// Returns the OpenAPI documents of the server. Keep the handle: it caches what it fetched.
    pub fn openapi(&self) -> OpenApi {
        OpenApi::new(Documents::live(self).keeping(None))
    }

    /// Returns the server's version.
    pub async fn server_version(&self) -> Result<VersionInfo, DiscoveryError> {
        self.discovery().server_version().await
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
