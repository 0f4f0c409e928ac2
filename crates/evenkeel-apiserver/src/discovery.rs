//! Discovery: the documents that list the served resources, and the server's version.

use std::fmt::Write as _;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use serde::Serialize;
use sha2::{Digest, Sha512};

use crate::http_types::Body;
use crate::negotiate::{choose, status_response};
use crate::registry::{Group, Registry, Resource, Subresource, Version};
use crate::route::Refusal;
use crate::version::ServerVersion;

/// The discovery document that a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DiscoveryPath {
    /// `/api`
    Core,
    /// `/apis`
    Groups,
    /// `/apis/{group}`
    Group(String),
    /// `/api/v1` and `/apis/{group}/{version}`
    Version {
        /// Empty for the core group.
        group: String,
        version: String,
    },
}

/// An aggregated document (DIS-4) with its ETag (DIS-6).
#[derive(Debug)]
pub(crate) struct Aggregated {
    pub(crate) json: Bytes,
    pub(crate) etag: HeaderValue,
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Serves a discovery document. `server_address` is the `HOST:PORT` that `/api` returns to clients.
pub(crate) fn respond(
    registry: &Registry,
    path: &DiscoveryPath,
    headers: &HeaderMap,
    server_address: &str,
) -> http::Response<Body> {
    let json = ("application/json", &[][..]);
    let aggregated =
        ("application/json", &[("g", "apidiscovery.k8s.io"), ("v", "v2"), ("as", "APIGroupDiscoveryList")][..]);
    match path {
        DiscoveryPath::Core | DiscoveryPath::Groups => match choose(headers, &[aggregated, json]) {
            Ok(0) => aggregated_reply(aggregated_document(registry, path), headers),
            Ok(_) if *path == DiscoveryPath::Core => varying(json_reply(core_versions(server_address))),
            Ok(_) => {
                let groups = registry.documents().groups.get_or_init(|| group_list(registry));
                varying(json_reply(groups.clone()))
            }
            Err(status) => status_response(&status),
        },
        DiscoveryPath::Group(name) => match (registry.group(name), choose(headers, &[json])) {
            (None, _) => Refusal::PageNotFound.response(),
            (_, Err(status)) => status_response(&status),
            (Some(group), Ok(_)) => json_reply(to_bytes(&ApiGroup::of(group, true))),
        },
        DiscoveryPath::Version { group, version } => {
            let version = registry.group(group).and_then(|group| group.version(version));
            match (version, choose(headers, &[json])) {
                (None, _) => Refusal::PageNotFound.response(),
                (_, Err(status)) => status_response(&status),
                (Some(version), Ok(_)) => {
                    let document = version.discovery.get_or_init(|| resource_list(version));
                    json_reply(document.clone())
                }
            }
        }
    }
}

/// Serves `/evenkeel/contract`: the emulated release, and the admission plugins in their order (ADM-002).
pub(crate) fn contract_reply(
    version: ServerVersion,
    plugins: impl Iterator<Item = (&'static str, bool)>,
) -> http::Response<Body> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Contract {
        git_version: String,
        admission_plugins: Vec<Plugin>,
    }
    #[derive(Serialize)]
    struct Plugin {
        name: &'static str,
        enabled: bool,
    }
    json_reply(to_bytes(&Contract {
        git_version: git_version(version),
        admission_plugins: plugins.map(|(name, enabled)| Plugin { name, enabled }).collect(),
    }))
}

fn git_version(version: ServerVersion) -> String {
    format!("v1.{}.0+evenkeel", version.minor())
}

/// Serves `/version` (DIS-10).
pub(crate) fn version_reply(version: ServerVersion) -> http::Response<Body> {
    let minor = version.minor().to_string();
    json_reply(to_bytes(&VersionInfo {
        major: "1",
        minor: &minor,
        emulation_major: "1",
        emulation_minor: &minor,
        min_compatibility_major: "1",
        min_compatibility_minor: &(version.minor() - 1).to_string(),
        git_version: &git_version(version),
        git_commit: "",
        git_tree_state: "clean",
        build_date: "1970-01-01T00:00:00Z",
        go_version: "",
        compiler: "rustc",
        platform: PLATFORM,
    }))
}

pub(crate) fn json_reply(body: Bytes) -> http::Response<Body> {
    let mut reply = http::Response::new(Body::whole(body));
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

fn varying(mut reply: http::Response<Body>) -> http::Response<Body> {
    reply.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    reply
}

fn aggregated_reply(document: &Aggregated, headers: &HeaderMap) -> http::Response<Body> {
    let unchanged = is_known(headers, &document.etag);
    let mut reply = http::Response::new(Body::whole(if unchanged { Bytes::new() } else { document.json.clone() }));
    if unchanged {
        *reply.status_mut() = http::StatusCode::NOT_MODIFIED;
    } else {
        reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
    }
    reply.headers_mut().insert(header::ETAG, document.etag.clone());
    reply.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    varying(reply)
}

/// Returns whether the client already has the document with this ETag.
pub(crate) fn is_known(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    let Ok(etag) = etag.to_str() else { return false };
    headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|tag| tag.trim().trim_start_matches("W/"))
        .any(|tag| tag == "*" || tag == etag)
}

/// Returns the SHA-512 in uppercase hex.
pub(crate) fn digest(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(128);
    for byte in Sha512::digest(bytes) {
        // Writing to a String does not fail.
        let _ = write!(hex, "{byte:02X}");
    }
    hex
}

pub(crate) fn quoted_etag(digest: &str) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{digest}\"")).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

fn to_bytes(document: &impl Serialize) -> Bytes {
    serde_json::to_vec(document).unwrap_or_default().into()
}

// The documents, with their fields in the order in which kube-apiserver writes them.

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionInfo<'a> {
    major: &'a str,
    minor: &'a str,
    emulation_major: &'a str,
    emulation_minor: &'a str,
    min_compatibility_major: &'a str,
    min_compatibility_minor: &'a str,
    git_version: &'a str,
    git_commit: &'a str,
    git_tree_state: &'a str,
    build_date: &'a str,
    go_version: &'a str,
    compiler: &'a str,
    platform: &'a str,
}

/// In Go's notation.
const PLATFORM: &str = match (cfg!(target_os = "linux"), cfg!(target_os = "macos"), cfg!(target_arch = "aarch64")) {
    (true, _, true) => "linux/arm64",
    (true, _, false) => "linux/amd64",
    (_, true, true) => "darwin/arm64",
    (_, true, false) => "darwin/amd64",
    _ => "windows/amd64",
};

fn core_versions(server_address: &str) -> Bytes {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct ApiVersions<'a> {
        kind: &'a str,
        versions: [&'a str; 1],
        #[serde(rename = "serverAddressByClientCIDRs")]
        addresses: [Address<'a>; 1],
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Address<'a> {
        #[serde(rename = "clientCIDR")]
        client_cidr: &'a str,
        server_address: &'a str,
    }
    to_bytes(&ApiVersions {
        kind: "APIVersions",
        versions: ["v1"],
        addresses: [Address { client_cidr: "0.0.0.0/0", server_address }],
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiGroup<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'a str>,
    name: &'a str,
    versions: Vec<GroupVersion<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preferred_version: Option<GroupVersion<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersion<'a> {
    group_version: String,
    version: &'a str,
}

impl<'a> ApiGroup<'a> {
    fn of(group: &'a Group, typed: bool) -> Self {
        let version = |version: &'a std::sync::Arc<Version>| GroupVersion {
            group_version: version.api_version(),
            version: &version.name,
        };
        ApiGroup {
            kind: typed.then_some("APIGroup"),
            api_version: typed.then_some("v1"),
            name: &group.name,
            versions: group.versions.iter().map(version).collect(),
            preferred_version: group.preferred().map(version),
        }
    }
}

fn group_list(registry: &Registry) -> Bytes {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct ApiGroupList<'a> {
        kind: &'a str,
        api_version: &'a str,
        groups: Vec<ApiGroup<'a>>,
    }
    to_bytes(&ApiGroupList {
        kind: "APIGroupList",
        api_version: "v1",
        groups: registry
            .groups()
            .iter()
            .filter(|group| !group.name.is_empty())
            .map(|group| ApiGroup::of(group, false))
            .collect(),
    })
}

fn resource_list(version: &Version) -> Bytes {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct ApiResourceList<'a> {
        kind: &'a str,
        api_version: &'a str,
        group_version: String,
        resources: Vec<ApiResource<'a>>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct ApiResource<'a> {
        name: String,
        singular_name: &'a str,
        namespaced: bool,
        #[serde(skip_serializing_if = "str::is_empty")]
        group: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        version: &'a str,
        kind: &'a str,
        verbs: &'a [String],
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        short_names: &'a [String],
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        categories: &'a [String],
        #[serde(skip_serializing_if = "Option::is_none")]
        storage_version_hash: Option<String>,
    }
    let mut resources = Vec::new();
    for resource in &version.resources {
        resources.push(ApiResource {
            name: resource.plural.clone(),
            singular_name: &resource.singular,
            namespaced: resource.namespaced,
            group: "",
            version: "",
            kind: &resource.kind,
            verbs: &resource.verbs,
            short_names: &resource.short_names,
            categories: &resource.categories,
            storage_version_hash: resource.storage_version_hash(),
        });
        resources.extend(resource.subresources.iter().map(|subresource| {
            let foreign = foreign_kind(resource, subresource);
            ApiResource {
                name: format!("{}/{}", resource.plural, subresource.name),
                singular_name: "",
                namespaced: resource.namespaced,
                group: if foreign { &subresource.response_group } else { "" },
                version: if foreign { &subresource.response_version } else { "" },
                kind: &subresource.response_kind,
                verbs: &subresource.verbs,
                short_names: &[],
                categories: &[],
                storage_version_hash: None,
            }
        }));
    }
    to_bytes(&ApiResourceList {
        kind: "APIResourceList",
        api_version: "v1",
        group_version: version.api_version(),
        resources,
    })
}

/// Returns whether a sub-resource has a kind of another group version, such as `scale`.
fn foreign_kind(resource: &Resource, subresource: &Subresource) -> bool {
    (&subresource.response_group, &subresource.response_version) != (&resource.group, &resource.version)
}

/// Returns the aggregated form of `/api` or `/apis`, encoded on first request.
pub(crate) fn aggregated_document<'a>(registry: &'a Registry, path: &DiscoveryPath) -> &'a Aggregated {
    let core = *path == DiscoveryPath::Core;
    let documents = registry.documents();
    let document = if core { &documents.aggregated_core } else { &documents.aggregated_groups };
    document.get_or_init(|| {
        let groups = registry.groups().iter().filter(|group| group.name.is_empty() == core);
        let json = aggregate(groups.map(|group| &**group));
        let etag = quoted_etag(&digest(&json));
        Aggregated { json, etag }
    })
}

fn aggregate<'a>(groups: impl Iterator<Item = &'a Group>) -> Bytes {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct GroupDiscoveryList<'a> {
        kind: &'a str,
        api_version: &'a str,
        metadata: Empty,
        items: Vec<GroupDiscovery<'a>>,
    }
    #[derive(Serialize)]
    struct Empty {}
    #[derive(Serialize)]
    struct GroupDiscovery<'a> {
        metadata: Name<'a>,
        versions: Vec<VersionDiscovery<'a>>,
    }
    #[derive(Serialize)]
    struct Name<'a> {
        #[serde(skip_serializing_if = "str::is_empty")]
        name: &'a str,
    }
    #[derive(Serialize)]
    struct VersionDiscovery<'a> {
        version: &'a str,
        resources: Vec<ResourceDiscovery<'a>>,
        freshness: &'a str,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct ResourceDiscovery<'a> {
        resource: &'a str,
        response_kind: ResponseKind<'a>,
        scope: &'a str,
        singular_resource: &'a str,
        verbs: &'a [String],
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        short_names: &'a [String],
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        categories: &'a [String],
        #[serde(skip_serializing_if = "Vec::is_empty")]
        subresources: Vec<SubresourceDiscovery<'a>>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct SubresourceDiscovery<'a> {
        subresource: &'a str,
        response_kind: ResponseKind<'a>,
        verbs: &'a [String],
    }
    #[derive(Serialize)]
    struct ResponseKind<'a> {
        group: &'a str,
        version: &'a str,
        kind: &'a str,
    }

    /// Built-in resources omit a group and version equal to those of the document; custom ones include them.
    fn response_kind<'a>(resource: &Resource, group: &'a str, version: &'a str, kind: &'a str) -> ResponseKind<'a> {
        let implied = resource.custom.is_none() && (group, version) == (&*resource.group, &*resource.version);
        ResponseKind { group: if implied { "" } else { group }, version: if implied { "" } else { version }, kind }
    }
    let resource = |resource: &'a std::sync::Arc<Resource>| ResourceDiscovery {
        resource: &resource.plural,
        response_kind: response_kind(resource, &resource.group, &resource.version, &resource.kind),
        scope: if resource.namespaced { "Namespaced" } else { "Cluster" },
        singular_resource: &resource.singular,
        verbs: &resource.verbs,
        short_names: &resource.short_names,
        categories: &resource.categories,
        subresources: resource
            .subresources
            .iter()
            .map(|subresource| SubresourceDiscovery {
                subresource: &subresource.name,
                response_kind: response_kind(
                    resource,
                    &subresource.response_group,
                    &subresource.response_version,
                    &subresource.response_kind,
                ),
                verbs: &subresource.verbs,
            })
            .collect(),
    };
    to_bytes(&GroupDiscoveryList {
        kind: "APIGroupDiscoveryList",
        api_version: "apidiscovery.k8s.io/v2",
        metadata: Empty {},
        items: groups
            .map(|group| GroupDiscovery {
                metadata: Name { name: &group.name },
                versions: group
                    .versions
                    .iter()
                    .map(|version| VersionDiscovery {
                        version: &version.name,
                        resources: version.resources.iter().map(resource).collect(),
                        freshness: "Current",
                    })
                    .collect(),
            })
            .collect(),
    })
}

#[cfg(test)]
pub(crate) mod tests;
