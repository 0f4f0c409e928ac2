//! [`DiscoveryError`]: the errors of discovery.

use std::sync::Arc;

use evenkeel_core::ResourceInfo;
use kube_core::GroupVersion;

use super::mapper::ResourceQuery;
use super::served::GroupVersionFailure;
use crate::error::Error;
use crate::transport::TransportFault;

/// Why discovery failed, or why a name has no match or an ambiguous one.
///
/// Cheap to clone: concurrent callers share the error of one request.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// The request failed.
    #[error(transparent)]
    Api(Arc<Error>),
    /// Some group versions failed.
    #[error("discovery is incomplete: {}", each(failures))]
    Partial {
        /// The failures.
        failures: Vec<GroupVersionFailure>,
    },
    /// The server's information about this group version is stale, because its extension server does not respond.
    #[error("the server's discovery information about {} is stale", group_version.api_version())]
    Stale {
        /// The group version.
        group_version: GroupVersion,
    },
    /// The group version has no resources.
    #[error("{} has no resources", group_version.api_version())]
    Empty {
        /// The group version.
        group_version: GroupVersion,
    },
    /// The server does not serve this group version.
    #[error("the server does not serve {}", group_version.api_version())]
    NotServed {
        /// The group version.
        group_version: GroupVersion,
    },
    /// The server's response is invalid: a name that is invalid in a path, a URL outside of the server, or too many
    /// entries.
    #[error("{what} is invalid: {problem}")]
    Unusable {
        /// The invalid part.
        what: String,
        /// Why.
        problem: String,
    },
    /// No resource has this name.
    #[error("the server has no resource {:?}", query.to_string())]
    NoResource {
        /// The query.
        query: ResourceQuery,
    },
    /// No resource has this kind.
    #[error("the server has no kind {kind:?} in the group {group:?}{}", in_versions(versions))]
    NoKind {
        /// The group.
        group: String,
        /// The kind.
        kind: String,
        /// The accepted versions; empty for any.
        versions: Vec<String>,
    },
    /// The resource has no such subresource.
    #[error("the resource {resource} of {} has no subresource {name:?}", group_version.api_version())]
    NoSubresource {
        /// The group and version of the resource.
        group_version: GroupVersion,
        /// The plural of the resource.
        resource: String,
        /// The name.
        name: String,
    },
    /// Several resources have this name and the same priority.
    #[error("{query} is ambiguous: {}", all(matches))]
    AmbiguousResource {
        /// The query.
        query: ResourceQuery,
        /// The matches.
        matches: Vec<Arc<ResourceInfo>>,
    },
    /// Several resources have this kind and the same priority.
    #[error("the kind {kind:?} of the group {group:?} is ambiguous: {}", all(matches))]
    AmbiguousKind {
        /// The group.
        group: String,
        /// The kind.
        kind: String,
        /// The matches.
        matches: Vec<Arc<ResourceInfo>>,
    },
    /// The server has no OpenAPI document for this group version.
    #[error("the server has no OpenAPI document for {}", group_version.api_version())]
    NoSchema {
        /// The group version.
        group_version: GroupVersion,
    },
}

impl DiscoveryError {
    /// Returns whether the group version, resource, subresource, kind or document does not exist.
    pub fn is_not_found(&self) -> bool {
        match self {
            DiscoveryError::Api(error) => error.is_not_found(),
            DiscoveryError::NotServed { .. }
            | DiscoveryError::NoResource { .. }
            | DiscoveryError::NoKind { .. }
            | DiscoveryError::NoSubresource { .. }
            | DiscoveryError::NoSchema { .. } => true,
            _ => false,
        }
    }

    /// Returns whether a name or kind has no match.
    pub(crate) fn is_no_match(&self) -> bool {
        use DiscoveryError::{NoKind, NoResource, NoSubresource};
        matches!(self, NoResource { .. } | NoKind { .. } | NoSubresource { .. })
    }

    /// Returns whether a retry may succeed: no connection, a timeout, an overloaded or failing server.
    pub fn is_transient(&self) -> bool {
        let DiscoveryError::Api(error) = self else { return false };
        match &**error {
            Error::Timeout { .. } | Error::RateLimited { .. } => true,
            Error::Transport { source, .. } => {
                source.is_timeout()
                    || source.is_connection_lost()
                    || matches!(source.fault(), TransportFault::Refused | TransportFault::StreamReset)
            }
            Error::Api { status, .. } => status.code >= 500 || status.is_too_many_requests(),
            _ => false,
        }
    }
}

impl From<Error> for DiscoveryError {
    fn from(error: Error) -> Self {
        DiscoveryError::Api(Arc::new(error))
    }
}

fn each(failures: &[GroupVersionFailure]) -> String {
    failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn all(matches: &[Arc<ResourceInfo>]) -> String {
    let name = |info: &Arc<ResourceInfo>| format!("{} of {} ({})", info.plural(), info.api_version(), info.kind());
    matches.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn in_versions(versions: &[String]) -> String {
    if versions.is_empty() { String::new() } else { format!(" in any of the versions {}", versions.join(", ")) }
}
