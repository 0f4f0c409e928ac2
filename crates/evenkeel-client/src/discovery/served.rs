//! The result of discovery: [`ApiGroup`], [`ResourceList`], [`ServedResource`], [`Discovered`].

use std::fmt;
use std::sync::Arc;

use evenkeel_core::ResourceInfo;
use kube_core::{GroupVersion, GroupVersionKind};
use serde::{Deserialize, Serialize};

use super::error::DiscoveryError;

/// An API group and its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApiGroup {
    /// The name; empty for the core group.
    pub name: String,
    /// The usable versions, in the server's order.
    pub versions: Vec<String>,
    /// The preferred version; `None` if no version is usable.
    pub preferred: Option<String>,
}

impl ApiGroup {
    pub(super) fn new(name: String, versions: Vec<String>, preferred: Option<String>) -> Self {
        ApiGroup { name, versions, preferred }
    }

    /// Returns the group versions.
    pub fn group_versions(&self) -> impl Iterator<Item = GroupVersion> + '_ {
        self.versions.iter().map(|version| GroupVersion::gv(&self.name, version))
    }
}

/// The resources of a group version, in the server's order.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ResourceList {
    /// The group version.
    pub group_version: GroupVersion,
    /// The resources.
    pub resources: Vec<ServedResource>,
    /// Subresources of resources without a kind.
    pub orphans: Vec<ServedSubresource>,
}

impl ResourceList {
    pub(super) fn new(group_version: GroupVersion) -> Self {
        ResourceList { group_version, resources: Vec::new(), orphans: Vec::new() }
    }

    /// Returns the resource with this plural.
    pub fn resource(&self, plural: &str) -> Option<&ServedResource> {
        self.resources.iter().find(|resource| resource.info.plural() == plural)
    }

    /// Returns whether there are no resources.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.orphans.is_empty()
    }
}

/// A resource of a server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServedResource {
    /// Group, version, kind, plural and scope.
    pub info: Arc<ResourceInfo>,
    /// The singular, such as `pod`; empty if the server states none.
    pub singular: String,
    /// The verbs, such as `get` and `watch`.
    pub verbs: Vec<String>,
    /// The short names, such as `po`.
    pub short_names: Vec<String>,
    /// The categories, such as `all`.
    pub categories: Vec<String>,
    /// The subresources, in the server's order.
    pub subresources: Vec<ServedSubresource>,
}

impl ServedResource {
    /// Returns whether the resource supports this verb.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|served| served == verb)
    }

    /// Returns the subresource of this name, such as `status`.
    pub fn subresource(&self, name: &str) -> Option<&ServedSubresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }
}

/// A subresource, such as `pods/log`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServedSubresource {
    /// The plural of the resource.
    pub resource: String,
    /// The name, such as `log` or `status`.
    pub name: String,
    /// Whether the resource is namespaced.
    pub namespaced: bool,
    /// The kind of its content; may be of another group than the resource, as for `scale`.
    pub kind: GroupVersionKind,
    /// The verbs.
    pub verbs: Vec<String>,
}

/// What a server serves, as far as discovery succeeded.
///
/// Everything is in the server's order, the core group first. A group version that failed is in the failures only: an
/// unavailable extension server hides its own resources and no others. [`complete`](Self::complete) turns failures into
/// an error.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Discovered {
    /// The groups.
    pub groups: Vec<ApiGroup>,
    /// The resources, one list per group version.
    pub resources: Vec<ResourceList>,
    /// The group versions that failed, sorted by name.
    pub failures: Vec<GroupVersionFailure>,
}

impl Discovered {
    /// Returns the result if it is complete, else the failures as an error.
    pub fn complete(self) -> Result<Self, DiscoveryError> {
        if self.failures.is_empty() { Ok(self) } else { Err(DiscoveryError::Partial { failures: self.failures }) }
    }

    /// Returns the group of this name; empty for the core group.
    pub fn group(&self, name: &str) -> Option<&ApiGroup> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// Returns the resources of a group version.
    pub fn list(&self, group_version: &GroupVersion) -> Option<&ResourceList> {
        self.resources.iter().find(|list| list.group_version == *group_version)
    }

    /// Returns every resource in one version: the group's preferred one if it has the resource, else the first that
    /// has. Every version keeps a list, even if it is empty. Subresources are left out.
    pub fn preferred(mut self) -> Self {
        let mut chosen = std::collections::HashMap::<(String, String), String>::new();
        for list in &self.resources {
            let GroupVersion { group, version } = &list.group_version;
            let is_preferred =
                self.groups.iter().any(|known| known.name == *group && known.preferred.as_ref() == Some(version));
            for resource in &list.resources {
                let name = (group.clone(), resource.info.plural().to_owned());
                match chosen.entry(name) {
                    std::collections::hash_map::Entry::Vacant(entry) => {
                        entry.insert(version.clone());
                    }
                    std::collections::hash_map::Entry::Occupied(mut entry) if is_preferred => {
                        entry.insert(version.clone());
                    }
                    std::collections::hash_map::Entry::Occupied(_) => {}
                }
            }
        }
        for list in &mut self.resources {
            let GroupVersion { group, version } = &list.group_version;
            list.orphans.clear();
            list.resources.retain_mut(|resource| {
                resource.subresources.clear();
                chosen.get(&(group.clone(), resource.info.plural().to_owned())) == Some(version)
            });
        }
        self
    }

    /// Returns the namespaced resources only.
    pub fn namespaced(mut self) -> Self {
        for list in &mut self.resources {
            list.resources.retain(|resource| resource.info.namespaced());
            list.orphans.retain(|subresource| subresource.namespaced);
        }
        self
    }

    pub(super) fn sort_failures(&mut self) {
        self.failures.sort_by_cached_key(|failure| failure.group_version.api_version());
    }
}

/// A group version that failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GroupVersionFailure {
    /// The group version.
    pub group_version: GroupVersion,
    /// The error.
    pub error: DiscoveryError,
}

impl GroupVersionFailure {
    pub(super) fn new(group_version: GroupVersion, error: DiscoveryError) -> Self {
        GroupVersionFailure { group_version, error }
    }
}

impl PartialEq for GroupVersionFailure {
    /// Two failures are equal if their messages are.
    fn eq(&self, other: &Self) -> bool {
        self.group_version == other.group_version && self.error.to_string() == other.error.to_string()
    }
}

impl fmt::Display for GroupVersionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The name is the server's and may be the reason of the failure.
        let name: String = self.group_version.api_version().escape_debug().take(256).collect();
        write!(f, "{name}: {}", self.error)
    }
}

/// The server's version, from `/version`. Missing fields are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct VersionInfo {
    /// The major version, such as `1`.
    pub major: String,
    /// The minor version, such as `37`; some vendors append a `+`.
    pub minor: String,
    /// The emulated major version.
    pub emulation_major: String,
    /// The emulated minor version.
    pub emulation_minor: String,
    /// The oldest major version that it is compatible with.
    pub min_compatibility_major: String,
    /// The oldest minor version that it is compatible with.
    pub min_compatibility_minor: String,
    /// The full version, such as `v1.37.0`.
    pub git_version: String,
    /// The commit.
    pub git_commit: String,
    /// Whether the sources had uncommitted changes.
    pub git_tree_state: String,
    /// The build date.
    pub build_date: String,
    /// The Go version.
    pub go_version: String,
    /// The Go compiler.
    pub compiler: String,
    /// The platform, such as `linux/amd64`.
    pub platform: String,
}

impl fmt::Display for VersionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.git_version)
    }
}
