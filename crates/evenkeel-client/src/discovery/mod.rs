//! What a server serves: groups, versions, resources, names and schemas.
//!
//! [`Discovery`] asks, [`CachedDiscovery`] remembers (with a [`DiskCache`] even beyond the end of the process),
//! [`RestMapper`] turns what people say (`deploy`, `deployments.apps`, `Deployment`) into the
//! [`ResourceInfo`](evenkeel_core::ResourceInfo) that requests are made with, and [`OpenApi`] has the schemas.
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
//! Everything keeps the server's order, so that the same server always gives the same answer. Names and URLs that the
//! server chooses are checked before they become part of a request, and nothing is read without a bound.

mod cached;
mod disk;
mod documents;
mod error;
mod live;
mod mapper;
mod openapi;
mod served;
mod shared;
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
    /// Asks the server what it serves.
    pub fn discovery(&self) -> Discovery {
        Discovery::new(self)
    }

    /// The OpenAPI documents of the server. Keep the handle: it remembers what it has fetched.
    pub fn openapi(&self) -> OpenApi {
        OpenApi::new(Documents::live(self).keeping(None))
    }

    /// What the server says of itself.
    pub async fn server_version(&self) -> Result<VersionInfo, DiscoveryError> {
        self.discovery().server_version().await
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
