//! The wire formats of discovery, and their conversion.
//!
//! There are two formats: the aggregated one, two documents with everything, and the legacy one, a list of groups and
//! one document per group version. Both are decoded leniently (absent and null fields are empty, unknown ones are
//! skipped) but bounded, and with names that are valid in a path only: they become parts of requests.

use std::collections::HashMap;
use std::sync::Arc;

use evenkeel_core::ResourceInfo;
use kube_core::{GroupVersion, GroupVersionKind};
use serde::{Deserialize, Deserializer};

use super::error::DiscoveryError;
use super::served::{ApiGroup, Discovered, GroupVersionFailure, ResourceList, ServedResource, ServedSubresource};

/// The aggregated format. The order of its parameters matters to servers.
pub(super) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// The aggregated format without the resources of peers of other versions.
pub(super) const AGGREGATED_NO_PEERS: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer";
/// The legacy format.
pub(super) const LEGACY: &str = "application/json";

/// The maximal number of group versions. Large clusters have some hundreds.
pub(super) const MAX_GROUP_VERSIONS: usize = 5_000;
/// The maximal number of resources of a group version.
pub(super) const MAX_RESOURCES: usize = 20_000;

/// The response of `/api` or `/apis`, or of both.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The groups, and their resources if it is aggregated.
    pub(super) found: Discovered,
    /// Whether it is in the legacy format, so that the resources are requested per group version.
    pub(super) legacy: bool,
}

impl Listing {
    /// Merges both, the core group first. The result is legacy if one of them is.
    pub(super) fn join(mut self, groups: Listing) -> Listing {
        self.legacy |= groups.legacy;
        self.found.groups.extend(groups.found.groups);
        self.found.resources.extend(groups.found.resources);
        self.found.failures.extend(groups.found.failures);
        self.found.sort_failures();
        if self.legacy {
            self.found.resources.clear();
        }
        self
    }
}

/// The roots of discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Root {
    /// `/api`, the core group.
    Core,
    /// `/apis`, all other groups.
    Groups,
}

impl Root {
    pub(super) fn path(self) -> &'static str {
        match self {
            Root::Core => "/api",
            Root::Groups => "/apis",
        }
    }
}

/// Returns whether a media type is aggregated: its parameters count, in any order and with others.
pub(super) fn is_aggregated(media_type: &str) -> bool {
    let mut parts = media_type.split(';').map(str::trim);
    if !parts.next().is_some_and(|essence| essence.eq_ignore_ascii_case("application/json")) {
        return false;
    }
    let mut wanted = [("g", "apidiscovery.k8s.io", false), ("v", "v2", false), ("as", "APIGroupDiscoveryList", false)];
    for part in parts {
        let Some((name, value)) = part.split_once('=') else { continue };
        let value = value.trim().trim_matches('"');
        for (wanted_name, wanted_value, found) in &mut wanted {
            *found |= name.trim().eq_ignore_ascii_case(wanted_name) && value == *wanted_value;
        }
    }
    wanted.iter().all(|(_, _, found)| *found)
}

/// Decodes the response of `/api` or `/apis`.
pub(super) fn read_listing(root: Root, media_type: &str, body: &[u8]) -> Result<Listing, String> {
    if is_aggregated(media_type) {
        let list: GroupDiscoveryList = read(body)?;
        expect_kind(&list.kind, "APIGroupDiscoveryList")?;
        return Ok(Listing { found: split(list)?, legacy: false });
    }
    let groups = match root {
        Root::Core => {
            let versions: ApiVersions = read(body)?;
            expect_kind(&versions.kind, "APIVersions")?;
            let preferred = versions.versions.first().cloned();
            let some = !versions.versions.is_empty();
            some.then(|| ApiGroup::new(String::new(), versions.versions, preferred)).into_iter().collect::<Vec<_>>()
        }
        Root::Groups => {
            let list: ApiGroupList = read(body)?;
            expect_kind(&list.kind, "APIGroupList")?;
            list.groups.into_iter().map(WireGroup::into_group).collect()
        }
    };
    within("versions of groups", groups.iter().map(|group| group.versions.len()).sum(), MAX_GROUP_VERSIONS)?;
    Ok(Listing { found: Discovered { groups, ..Discovered::default() }, legacy: true })
}

/// Decodes the resources of a group version in the legacy format.
pub(super) fn read_resources(group_version: &GroupVersion, body: &[u8]) -> Result<ResourceList, String> {
    let list: ApiResourceList = read(body)?;
    expect_kind(&list.kind, "APIResourceList")?;
    within("resources", list.resources.len(), MAX_RESOURCES)?;
    Ok(nest(group_version, list.resources))
}

/// Rejects a group version whose name is invalid in a path.
pub(super) fn check_group_version(group_version: &GroupVersion) -> Result<(), DiscoveryError> {
    let GroupVersion { group, version } = group_version;
    let bad = [(group, group.is_empty() || is_path_segment(group)), (version, is_path_segment(version))];
    match bad.into_iter().find(|(_, usable)| !usable) {
        None => Ok(()),
        Some((name, _)) => Err(DiscoveryError::Unusable {
            what: format!("the version {:?} of the group {:?}", shorten(version), shorten(group)),
            problem: format!("{:?} is invalid in a path", shorten(name)),
        }),
    }
}

/// Returns whether a name is valid in a path. Groups, versions and resources have DNS names.
pub(super) fn is_path_segment(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    !name.is_empty() && name.len() <= 253 && name.bytes().all(allowed) && name.bytes().any(|byte| byte != b'.')
}

fn shorten(name: &str) -> String {
    name.chars().take(64).collect()
}

/// Decodes a JSON object; `what` is its name in errors.
pub(super) fn read_object<'de, T: Deserialize<'de>>(what: &str, body: &'de [u8]) -> Result<T, String> {
    // serde would accept an array for a struct.
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(format!("it is no {what}"));
    }
    serde_json::from_slice(body)
        .map_err(|error| format!("it is no {what} (line {}, column {})", error.line(), error.column()))
}

fn read<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, String> {
    read_object("discovery document", body)
}

fn expect_kind(kind: &str, expected: &str) -> Result<(), String> {
    if kind.is_empty() || kind == expected {
        return Ok(());
    }
    Err(format!("it is of the kind {:?}, not {expected}", shorten(kind)))
}

fn within(what: &str, count: usize, limit: usize) -> Result<(), String> {
    if count <= limit { Ok(()) } else { Err(format!("it has {count} {what}, more than the limit of {limit}")) }
}

/// Splits an aggregated document into groups, resources and failures.
fn split(list: GroupDiscoveryList) -> Result<Discovered, String> {
    within("versions of groups", list.items.iter().map(|group| group.versions.len()).sum(), MAX_GROUP_VERSIONS)?;
    let mut discovered = Discovered::default();
    for group in list.items {
        let name = group.metadata.name;
        let mut versions = Vec::with_capacity(group.versions.len());
        for version in group.versions {
            let group_version = GroupVersion { group: name.clone(), version: version.version };
            match read_version(&group_version, version.freshness, version.resources) {
                Ok(resources) => {
                    versions.push(group_version.version);
                    discovered.resources.push(resources);
                }
                Err(error) => discovered.failures.push(GroupVersionFailure::new(group_version, error)),
            }
        }
        let preferred = versions.first().cloned();
        discovered.groups.push(ApiGroup::new(name, versions, preferred));
    }
    discovered.sort_failures();
    Ok(discovered)
}

fn read_version(
    group_version: &GroupVersion,
    freshness: Freshness,
    resources: Vec<ResourceDiscovery>,
) -> Result<ResourceList, DiscoveryError> {
    check_group_version(group_version)?;
    if freshness == Freshness::Stale {
        return Err(DiscoveryError::Stale { group_version: group_version.clone() });
    }
    match within("resources", resources.len(), MAX_RESOURCES) {
        Ok(()) => Ok(nest_aggregated(group_version, resources)),
        Err(problem) => {
            let what = format!("the list of resources of {}", group_version.api_version());
            Err(DiscoveryError::Unusable { what, problem })
        }
    }
}

/// Returns whether requests can name the resource. Invalid ones are skipped: metrics adapters derive resources from the
/// names of metrics.
fn is_usable(group_version: &GroupVersion, name: &str) -> bool {
    let usable = is_path_segment(name);
    if !usable {
        let (group_version, name) = (group_version.api_version(), shorten(name));
        tracing::debug!(group_version, name, "skipping a resource whose name is invalid in a path");
    }
    usable
}

fn nest_aggregated(group_version: &GroupVersion, resources: Vec<ResourceDiscovery>) -> ResourceList {
    let mut list = ResourceList::new(group_version.clone());
    for resource in resources {
        if !is_usable(group_version, &resource.resource) {
            continue;
        }
        let namespaced = resource.scope == "Namespaced";
        let mut subresources = Vec::with_capacity(resource.subresources.len());
        for subresource in resource.subresources {
            let kind = subresource.response_kind.and_then(|kind| kind.within(group_version));
            if let Some(kind) = kind.filter(|_| is_usable(group_version, &subresource.subresource)) {
                subresources.push(ServedSubresource {
                    resource: resource.resource.clone(),
                    name: subresource.subresource,
                    namespaced,
                    kind,
                    verbs: subresource.verbs,
                });
            }
        }
        match resource.response_kind.and_then(|kind| kind.within(group_version)) {
            Some(kind) => list.resources.push(ServedResource {
                info: info(group_version, &kind.kind, &resource.resource, namespaced),
                singular: resource.singular_resource,
                verbs: resource.verbs,
                short_names: resource.short_names,
                categories: resource.categories,
                subresources,
            }),
            None => list.orphans.extend(subresources),
        }
    }
    list
}

/// Assigns the subresources of a flat list to their resources, which may follow them.
fn nest(group_version: &GroupVersion, resources: Vec<ApiResource>) -> ResourceList {
    let mut list = ResourceList::new(group_version.clone());
    let mut places = HashMap::new();
    let mut subresources = Vec::new();
    for resource in resources {
        if let Some((parent, name)) = resource.name.split_once('/') {
            let kind = ResponseKind { group: resource.group, version: resource.version, kind: resource.kind };
            let usable = is_usable(group_version, parent) && is_usable(group_version, name);
            if let Some(kind) = kind.within(group_version).filter(|_| usable) {
                subresources.push(ServedSubresource {
                    resource: parent.to_owned(),
                    name: name.to_owned(),
                    namespaced: resource.namespaced,
                    kind,
                    verbs: resource.verbs,
                });
            }
            continue;
        }
        if !is_path_segment(&resource.kind) || !is_usable(group_version, &resource.name) {
            continue;
        }
        places.insert(resource.name.clone(), list.resources.len());
        list.resources.push(ServedResource {
            info: info(group_version, &resource.kind, &resource.name, resource.namespaced),
            singular: resource.singular_name,
            verbs: resource.verbs,
            short_names: resource.short_names,
            categories: resource.categories,
            subresources: Vec::new(),
        });
    }
    for subresource in subresources {
        let place = places.get(&subresource.resource).and_then(|place| list.resources.get_mut(*place));
        match place {
            Some(resource) => resource.subresources.push(subresource),
            None => list.orphans.push(subresource),
        }
    }
    list
}

fn info(group_version: &GroupVersion, kind: &str, plural: &str, namespaced: bool) -> Arc<ResourceInfo> {
    Arc::new(ResourceInfo::new(&group_version.group, &group_version.version, kind, plural, namespaced))
}

// The documents.

fn lenient<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Deserialize)]
struct GroupDiscoveryList {
    #[serde(default)]
    kind: String,
    #[serde(default, deserialize_with = "lenient")]
    items: Vec<GroupDiscovery>,
}

#[derive(Deserialize)]
struct GroupDiscovery {
    #[serde(default, deserialize_with = "lenient")]
    metadata: Metadata,
    #[serde(default, deserialize_with = "lenient")]
    versions: Vec<VersionDiscovery>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct VersionDiscovery {
    version: String,
    #[serde(default, deserialize_with = "lenient")]
    resources: Vec<ResourceDiscovery>,
    #[serde(default, deserialize_with = "lenient")]
    freshness: Freshness,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
enum Freshness {
    Stale,
    /// `Current` or `Stale`. Unknown values count as current.
    #[default]
    #[serde(other)]
    Current,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceDiscovery {
    resource: String,
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default, deserialize_with = "lenient")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "lenient")]
    short_names: Vec<String>,
    #[serde(default, deserialize_with = "lenient")]
    categories: Vec<String>,
    #[serde(default, deserialize_with = "lenient")]
    subresources: Vec<SubresourceDiscovery>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubresourceDiscovery {
    subresource: String,
    response_kind: Option<ResponseKind>,
    #[serde(default, deserialize_with = "lenient")]
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct ResponseKind {
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    kind: String,
}

impl ResponseKind {
    /// Returns the kind, whose group and version default to those of the list; `None` if there is no valid kind.
    fn within(self, list: &GroupVersion) -> Option<GroupVersionKind> {
        let ResponseKind { group, version, kind } = self;
        if !is_path_segment(&kind) {
            return None;
        }
        if group.is_empty() && version.is_empty() {
            return Some(list.clone().with_kind(&kind));
        }
        Some(GroupVersionKind { group, version, kind })
    }
}

#[derive(Deserialize)]
struct ApiVersions {
    #[serde(default)]
    kind: String,
    #[serde(default, deserialize_with = "lenient")]
    versions: Vec<String>,
}

#[derive(Deserialize)]
struct ApiGroupList {
    #[serde(default)]
    kind: String,
    #[serde(default, deserialize_with = "lenient")]
    groups: Vec<WireGroup>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireGroup {
    #[serde(default)]
    name: String,
    #[serde(default, deserialize_with = "lenient")]
    versions: Vec<WireVersion>,
    preferred_version: Option<WireVersion>,
}

#[derive(Deserialize)]
struct WireVersion {
    #[serde(default)]
    version: String,
}

impl WireGroup {
    fn into_group(self) -> ApiGroup {
        let versions: Vec<String> = self.versions.into_iter().map(|version| version.version).collect();
        let preferred = self.preferred_version.map(|preferred| preferred.version).filter(|name| !name.is_empty());
        let preferred = preferred.or_else(|| versions.first().cloned());
        ApiGroup::new(self.name, versions, preferred)
    }
}

#[derive(Deserialize)]
struct ApiResourceList {
    #[serde(default)]
    kind: String,
    #[serde(default, deserialize_with = "lenient")]
    resources: Vec<ApiResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiResource {
    name: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    kind: String,
    #[serde(default, deserialize_with = "lenient")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "lenient")]
    short_names: Vec<String>,
    #[serde(default, deserialize_with = "lenient")]
    categories: Vec<String>,
}

#[cfg(test)]
mod tests;
