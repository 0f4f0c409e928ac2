//! The built-in resources, read from the discovery document of a default kube-apiserver.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use super::{BuiltinSchema, Resource, SchemaHandle, Subresource, storage_key, strategy};

static FACTS: &str = include_str!("../../data/discovery-aggregated-1.37.json");

/// Every built-in resource in discovery order: the core group first.
pub(super) static RESOURCES: LazyLock<Vec<Arc<Resource>>> = LazyLock::new(|| read(FACTS));

#[derive(Deserialize)]
struct Facts<'a> {
    #[serde(borrow)]
    api: Groups<'a>,
    apis: Groups<'a>,
}

#[derive(Deserialize)]
struct Groups<'a> {
    #[serde(borrow)]
    items: Vec<GroupFacts<'a>>,
}

#[derive(Deserialize)]
struct GroupFacts<'a> {
    #[serde(borrow)]
    metadata: GroupName<'a>,
    versions: Vec<VersionFacts<'a>>,
}

#[derive(Deserialize)]
struct GroupName<'a> {
    #[serde(default)]
    name: &'a str,
}

#[derive(Deserialize)]
struct VersionFacts<'a> {
    version: &'a str,
    #[serde(borrow)]
    resources: Vec<ResourceFacts<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceFacts<'a> {
    resource: &'a str,
    #[serde(borrow)]
    response_kind: KindFacts<'a>,
    scope: &'a str,
    singular_resource: &'a str,
    #[serde(default)]
    short_names: Vec<&'a str>,
    #[serde(default)]
    categories: Vec<&'a str>,
    verbs: Vec<&'a str>,
    #[serde(default)]
    subresources: Vec<SubresourceFacts<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubresourceFacts<'a> {
    subresource: &'a str,
    #[serde(borrow)]
    response_kind: KindFacts<'a>,
    verbs: Vec<&'a str>,
}

/// Group and version are both empty if they are those of the document.
#[derive(Deserialize)]
struct KindFacts<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

fn read(facts: &str) -> Vec<Arc<Resource>> {
    #[expect(clippy::expect_used, reason = "the facts are part of the program, and a test reads them")]
    let facts: Facts<'_> = serde_json::from_str(facts).expect("the embedded discovery facts are sound");
    let mut resources = Vec::with_capacity(96);
    for group in facts.api.items.iter().chain(&facts.apis.items) {
        for version in &group.versions {
            resources.extend(
                version.resources.iter().map(|resource| Arc::new(resource.build(group.metadata.name, version.version))),
            );
        }
    }
    resources
}

impl ResourceFacts<'_> {
    fn build(&self, group: &str, version: &str) -> Resource {
        let kind = self.response_kind.kind;
        let storage = storage_key(group, self.resource);
        let has_status = self.subresources.iter().any(|sub| sub.subresource == "status");
        Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            plural: self.resource.to_owned(),
            singular: self.singular_resource.to_owned(),
            short_names: owned(&self.short_names),
            categories: owned(&self.categories),
            namespaced: self.scope == "Namespaced",
            verbs: owned(&self.verbs),
            subresources: self.subresources.iter().map(|sub| sub.build(group, version)).collect(),
            strategy: strategy::of(group, &storage, has_status),
            storage: storage.into(),
            schema: Some(SchemaHandle::Builtin(BuiltinSchema::new(schema_id(group, version, kind)))),
            custom: None,
        }
    }
}

impl SubresourceFacts<'_> {
    fn build(&self, group: &str, version: &str) -> Subresource {
        let kind = &self.response_kind;
        let (group, version) = if kind.version.is_empty() { (group, version) } else { (kind.group, kind.version) };
        Subresource {
            name: self.subresource.to_owned(),
            verbs: owned(&self.verbs),
            response_group: group.to_owned(),
            response_version: version.to_owned(),
            response_kind: kind.kind.to_owned(),
        }
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Returns the OpenAPI name of a built-in kind: `io.k8s.api.` and the first label of the group, with two exceptions.
pub(crate) fn schema_id(group: &str, version: &str, kind: &str) -> String {
    let package = match group {
        "" => "api.core",
        "apiextensions.k8s.io" => "apiextensions-apiserver.pkg.apis.apiextensions",
        "apiregistration.k8s.io" => "kube-aggregator.pkg.apis.apiregistration",
        group => {
            let short = group.split('.').next().unwrap_or(group);
            return format!("io.k8s.api.{short}.{version}.{kind}");
        }
    };
    format!("io.k8s.{package}.{version}.{kind}")
}
