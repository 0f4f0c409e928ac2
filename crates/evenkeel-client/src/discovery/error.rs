//! [`DiscoveryError`]: why it is not known what a server serves.

use std::sync::Arc;

use evenkeel_core::ResourceInfo;
use kube_core::GroupVersion;

use super::mapper::ResourceQuery;
use super::served::GroupVersionFailure;
use crate::error::Error;
use crate::transport::TransportFault;

/// Why it is not known what a server serves, or why a name means nothing, or too much, to it.
///
/// Cheap to clone: callers who waited for the same request share its failure.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// The request failed.
    #[error(transparent)]
    Api(Arc<Error>),
    /// Some versions of groups could not be looked at.
    #[error("not everything that the server serves could be found out: {}", each(failures))]
    Partial {
        /// Which, and why.
        failures: Vec<GroupVersionFailure>,
    },
    /// The server only has an outdated idea of this version of a group, because whoever serves it does not answer.
    #[error("the server does not know at the moment what {} has", group_version.api_version())]
    Stale {
        /// Which group and version.
        group_version: GroupVersion,
    },
    /// The version of the group has no resources.
    #[error("{} has no resources", group_version.api_version())]
    Empty {
        /// Which group and version.
        group_version: GroupVersion,
    },
    /// The server does not serve this version of this group.
    #[error("the server does not serve {}", group_version.api_version())]
    NotServed {
        /// Which group and version.
        group_version: GroupVersion,
    },
    /// The server said something that cannot be used: a name that cannot stand in a path, a URL that leads elsewhere,
    /// more than is accepted.
    #[error("{what} cannot be used: {problem}")]
    Unusable {
        /// What.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// No resource has this name, as far as is known since the last look.
    #[error("the server has no resource {:?}", query.to_string())]
    NoResource {
        /// What was looked for.
        query: ResourceQuery,
    },
    /// No resource has this kind, as far as is known since the last look.
    #[error("the server has no kind {kind:?} in the group {group:?}{}", in_versions(versions))]
    NoKind {
        /// The group.
        group: String,
        /// The kind.
        kind: String,
        /// The versions that would do; empty for any.
        versions: Vec<String>,
    },
    /// The resource has no such subresource, as far as is known since the last look.
    #[error("the resource {resource} of {} has no subresource {name:?}", group_version.api_version())]
    NoSubresource {
        /// The group and version of the resource.
        group_version: GroupVersion,
        /// The plural of the resource.
        resource: String,
        /// What was looked for.
        name: String,
    },
    /// Several resources have this name, and none comes before the others.
    #[error("{query} may mean several resources: {}", all(matches))]
    AmbiguousResource {
        /// What was looked for.
        query: ResourceQuery,
        /// What was found.
        matches: Vec<Arc<ResourceInfo>>,
    },
    /// Several resources have this kind, and none comes before the others.
    #[error("the kind {kind:?} of the group {group:?} may mean several resources: {}", all(matches))]
    AmbiguousKind {
        /// The group.
        group: String,
        /// The kind.
        kind: String,
        /// What was found.
        matches: Vec<Arc<ResourceInfo>>,
    },
    /// The server has no OpenAPI document for this version of this group.
    #[error("the server has no OpenAPI document for {}", group_version.api_version())]
    NoSchema {
        /// Which group and version.
        group_version: GroupVersion,
    },
}

impl DiscoveryError {
    /// Whether there is no such thing, as far as is known: no such group version, resource, subresource, kind or document.
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

    /// Whether a name or kind has no match.
    pub(crate) fn is_no_match(&self) -> bool {
        use DiscoveryError::{NoKind, NoResource, NoSubresource};
        matches!(self, NoResource { .. } | NoKind { .. } | NoSubresource { .. })
    }

    /// Whether the same question may well be answered a moment later: no connection, no time, a server that is too busy
    /// or broken.
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
