//! What a server serves, in words of our own: [`ApiGroup`], [`ResourceList`], [`ServedResource`], [`Discovered`].

use std::fmt;
use std::sync::Arc;

use evenkeel_core::ResourceInfo;
use kube_core::{GroupVersion, GroupVersionKind};
use serde::{Deserialize, Serialize};

use super::error::DiscoveryError;

/// A group of the API and its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApiGroup {
    /// The name; empty for the core group.
    pub name: String,
    /// The versions that can be used, in the server's order.
    pub versions: Vec<String>,
    /// The version to use if one is free to choose. None if no version can be used at the moment.
    pub preferred: Option<String>,
}

impl ApiGroup {
    pub(super) fn new(name: String, versions: Vec<String>, preferred: Option<String>) -> Self {
        ApiGroup { name, versions, preferred }
    }

    /// The group's versions with its name.
    pub fn group_versions(&self) -> impl Iterator<Item = GroupVersion> + '_ {
        self.versions.iter().map(|version| GroupVersion::gv(&self.name, version))
    }
}

/// The resources of one version of a group, in the server's order.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ResourceList {
    /// Which group and version.
    pub group_version: GroupVersion,
    /// The resources.
    pub resources: Vec<ServedResource>,
    /// Subresources of resources that have no kind and therefore stand nowhere else.
    pub orphans: Vec<ServedSubresource>,
}

impl ResourceList {
    pub(super) fn new(group_version: GroupVersion) -> Self {
        ResourceList { group_version, resources: Vec::new(), orphans: Vec::new() }
    }

    /// The resource with this plural.
    pub fn resource(&self, plural: &str) -> Option<&ServedResource> {
        self.resources.iter().find(|resource| resource.info.plural() == plural)
    }

    /// Whether nothing is served.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.orphans.is_empty()
    }
}

/// A resource as a server serves it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServedResource {
    /// Group, version, kind, plural and scope: what requests are made with.
    pub info: Arc<ResourceInfo>,
    /// The singular, such as `pod`; empty if the server names none.
    pub singular: String,
    /// What can be done with it, such as `get` and `watch`.
    pub verbs: Vec<String>,
    /// Shorter names, such as `po`.
    pub short_names: Vec<String>,
    /// The sets it belongs to, such as `all`.
    pub categories: Vec<String>,
    /// Its subresources, in the server's order.
    pub subresources: Vec<ServedSubresource>,
}

impl ServedResource {
    /// Whether the server can do this with it.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|served| served == verb)
    }

    /// The subresource of this name, such as `status`.
    pub fn subresource(&self, name: &str) -> Option<&ServedSubresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }
}

/// A subresource, such as `pods/log`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServedSubresource {
    /// The plural of the resource it belongs to.
    pub resource: String,
    /// Its own name, such as `log` or `status`.
    pub name: String,
    /// Whether it belongs to objects in namespaces.
    pub namespaced: bool,
    /// The kind that is sent and received; may be of another group than the resource's, as that of `scale` is.
    pub kind: GroupVersionKind,
    /// What can be done with it.
    pub verbs: Vec<String>,
}

/// What a server serves, as far as it could be found out.
///
/// Everything is in the server's order, the core group first. A version of a group that could not be looked at is among
/// the failures and nowhere else: one extension server that is down hides its own resources and nobody else's. Whoever
/// cannot live with half an answer asks for [`complete`](Self::complete).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Discovered {
    /// The groups.
    pub groups: Vec<ApiGroup>,
    /// The resources, one list per version of a group.
    pub resources: Vec<ResourceList>,
    /// The versions that could not be looked at, sorted by name.
    pub failures: Vec<GroupVersionFailure>,
}

impl Discovered {
    /// The whole answer, or the failures as an error.
    pub fn complete(self) -> Result<Self, DiscoveryError> {
        if self.failures.is_empty() { Ok(self) } else { Err(DiscoveryError::Partial { failures: self.failures }) }
    }

    /// The group of this name; empty for the core group.
    pub fn group(&self, name: &str) -> Option<&ApiGroup> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// The resources of a version of a group.
    pub fn list(&self, group_version: &GroupVersion) -> Option<&ResourceList> {
        self.resources.iter().find(|list| list.group_version == *group_version)
    }

    /// For every resource the one version to use: the group's preferred one if it has the resource, else the first that
    /// does. There is a list for every version, even if nothing is left in it. Subresources are left out.
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

    /// Only what lives in namespaces.
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

/// A version of a group that could not be looked at, and why.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GroupVersionFailure {
    /// Which group and version.
    pub group_version: GroupVersion,
    /// What happened.
    pub error: DiscoveryError,
}

impl GroupVersionFailure {
    pub(super) fn new(group_version: GroupVersion, error: DiscoveryError) -> Self {
        GroupVersionFailure { group_version, error }
    }
}

impl PartialEq for GroupVersionFailure {
    /// Two failures are equal if they read the same.
    fn eq(&self, other: &Self) -> bool {
        self.group_version == other.group_version && self.error.to_string() == other.error.to_string()
    }
}

impl fmt::Display for GroupVersionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The name is the server's, and may be why it failed.
        let name: String = self.group_version.api_version().escape_debug().take(256).collect();
        write!(f, "{name}: {}", self.error)
    }
}

/// What the server says of itself at `/version`. Fields that it leaves out are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct VersionInfo {
    /// The major version, such as `1`.
    pub major: String,
    /// The minor version, such as `37`; some vendors append a `+`.
    pub minor: String,
    /// The major version whose behaviour is shown.
    pub emulation_major: String,
    /// The minor version whose behaviour is shown.
    pub emulation_minor: String,
    /// The oldest major version that it can go back to.
    pub min_compatibility_major: String,
    /// The oldest minor version that it can go back to.
    pub min_compatibility_minor: String,
    /// The whole version, such as `v1.37.0`.
    pub git_version: String,
    /// The commit it was built from.
    pub git_commit: String,
    /// Whether the sources were changed after that commit.
    pub git_tree_state: String,
    /// When it was built.
    pub build_date: String,
    /// The Go it was built with.
    pub go_version: String,
    /// The compiler it was built with.
    pub compiler: String,
    /// What it runs on, such as `linux/amd64`.
    pub platform: String,
}

impl fmt::Display for VersionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.git_version)
    }
}
