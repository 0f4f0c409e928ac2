//! [`ResourceInfo`]: the description of a resource for requests and decoders.

use std::borrow::Cow;
use std::fmt;

use kube_core::{ClusterResourceScope, NamespaceResourceScope, Resource};

#[cfg(feature = "internals")]
mod internals;

/// A resource as the API server serves it: names, version and scope.
///
/// Create one per kind and share it in an `Arc`: code that uses it need not be generic over kube-core's `DynamicType`.
///
/// ```
/// use evenkeel_core::ResourceInfo;
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// let info = ResourceInfo::of::<Deployment>();
/// assert_eq!(info.api_version(), "apps/v1");
/// assert_eq!((info.kind(), info.plural(), info.namespaced()), ("Deployment", "deployments", true));
/// ```
#[derive(Clone)]
pub struct ResourceInfo {
    group: Box<str>,
    version: Box<str>,
    kind: Box<str>,
    plural: Box<str>,
    api_version: Box<str>,
    namespaced: bool,
}

/// A scope that a Rust type states. Kinds that are known only at run time have none: pass their scope to
/// [`ResourceInfo::describe`].
pub trait StaticScope {
    /// Whether objects are namespaced.
    const NAMESPACED: bool;
}

impl StaticScope for NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

impl StaticScope for ClusterResourceScope {
    const NAMESPACED: bool = false;
}

impl ResourceInfo {
    /// Returns the resource of a type that states its names and scope: all of k8s-openapi and every derived custom resource.
    pub fn of<K>() -> Self
    where
        K: Resource,
        K::DynamicType: Default,
        K::Scope: StaticScope,
    {
        Self::describe::<K>(&K::DynamicType::default(), K::Scope::NAMESPACED)
    }

    /// Returns the resource of a type whose names or scope are known only at run time.
    pub fn describe<K: Resource>(dynamic: &K::DynamicType, namespaced: bool) -> Self {
        Self::of_names([K::group(dynamic), K::version(dynamic), K::kind(dynamic), K::plural(dynamic)], namespaced)
    }

    /// Not generic, because there is a caller for every kind of Kubernetes.
    fn of_names([group, version, kind, plural]: [Cow<'_, str>; 4], namespaced: bool) -> Self {
        Self::new(&group, &version, &kind, &plural, namespaced)
    }

    /// Returns the resource with these names; `group` is empty for the core group.
    pub fn new(group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) -> Self {
        let api_version = if group.is_empty() { version.into() } else { format!("{group}/{version}").into() };
        ResourceInfo {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: plural.into(),
            api_version,
            namespaced,
        }
    }

    /// Returns the API group; empty for the core group.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Returns the version within the group, such as `v1`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns group and version as objects state them: `v1`, `apps/v1`.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// Returns the kind, such as `Pod`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the plural name in URLs, such as `pods`.
    pub fn plural(&self) -> &str {
        &self.plural
    }

    /// Returns whether objects of this kind are namespaced.
    pub fn namespaced(&self) -> bool {
        self.namespaced
    }

    fn names(&self) -> (&str, &str, &str, &str, bool) {
        (&self.group, &self.version, &self.kind, &self.plural, self.namespaced)
    }
}

impl PartialEq for ResourceInfo {
    fn eq(&self, other: &Self) -> bool {
        self.names() == other.names()
    }
}

impl Eq for ResourceInfo {}

impl std::hash::Hash for ResourceInfo {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.names().hash(state);
    }
}

impl fmt::Debug for ResourceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceInfo")
            .field("api_version", &self.api_version)
            .field("kind", &self.kind)
            .field("plural", &self.plural)
            .field("namespaced", &self.namespaced)
            .finish()
    }
}

#[cfg(test)]
mod tests;
