//! [`ClusterKey`]: the key of an object in one of several clusters.

use std::fmt;
use std::sync::Arc;

use evenkeel_core::ObjectKey;

/// The name of the home cluster.
pub const HOME: &str = "";

/// The key of an object in one of several clusters. Two keys are equal if both cluster and key are.
///
/// ```
/// use evenkeel_core::ObjectKey;
/// use evenkeel_runtime::clusters::ClusterKey;
///
/// let key = ClusterKey::new("eu-1", ObjectKey::namespaced("default", "web"));
/// assert_eq!(key.to_string(), "cluster://eu-1/default/web");
/// assert_ne!(key, ClusterKey::new("eu-2", ObjectKey::namespaced("default", "web")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterKey {
    cluster: Arc<str>,
    key: ObjectKey,
}

impl ClusterKey {
    /// Returns the key of an object in a cluster. The cluster [`HOME`] is the home cluster.
    pub fn new(cluster: impl Into<Arc<str>>, key: ObjectKey) -> Self {
        ClusterKey { cluster: cluster.into(), key }
    }

    /// Returns the name of the cluster.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Returns the key of the object in its cluster.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }
}

/// Shows `cluster://<cluster>/<namespace>/<name>`.
impl fmt::Display for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cluster://{}/{}", self.cluster, self.key)
    }
}
