//! [`Registry`]: the served resources at one moment, as an immutable value.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, OnceLock};

use bytes::Bytes;

use super::{Resource, builtin};
use crate::discovery::Aggregated;
use crate::openapi::{self, Descriptions, Document};

/// The served resources at one moment. Cloning is cheap. A change makes a new registry that shares all unchanged parts,
/// including cached documents, so a request sees one consistent API from start to end.
#[derive(Clone, Debug)]
pub(crate) struct Registry(Arc<RegistryInner>);

#[derive(Debug)]
struct RegistryInner {
    /// In discovery order: core, the other built-in groups by priority, custom groups by installation (DIS-7).
    groups: Vec<Arc<Group>>,
    by_name: HashMap<String, usize>,
    /// The definitions in the order of installation.
    definitions: Vec<Definition>,
    /// The descriptions in the OpenAPI documents.
    descriptions: Option<Arc<Descriptions>>,
    documents: Documents,
}

#[derive(Clone, Debug)]
struct Definition {
    name: Arc<str>,
    resources: Arc<[Arc<Resource>]>,
}

/// The documents that span all groups, made by the first request.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    pub(crate) groups: OnceLock<Bytes>,
    pub(crate) aggregated_core: OnceLock<Aggregated>,
    pub(crate) aggregated_groups: OnceLock<Aggregated>,
    pub(crate) openapi_index: OnceLock<openapi::Index>,
    pub(crate) openapi_v2: OnceLock<openapi::v2::CompressedDocument>,
}

/// One API group.
#[derive(Debug)]
pub(crate) struct Group {
    /// Empty for the core group.
    pub(crate) name: String,
    /// The preferred version (most stable, then newest) first. Never empty.
    pub(crate) versions: Vec<Arc<Version>>,
}

/// One version of a group.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) group: String,
    pub(crate) name: String,
    /// Sorted by plural.
    pub(crate) resources: Vec<Arc<Resource>>,
    /// Whether the version is built in. Its unknown paths have another response.
    pub(crate) builtin: bool,
    pub(crate) discovery: OnceLock<Bytes>,
    pub(crate) openapi: OnceLock<Document>,
}

static BUILTIN: LazyLock<Registry> = LazyLock::new(|| {
    let mut names: Vec<&str> = Vec::new();
    for resource in builtin::RESOURCES.iter() {
        if names.last() != Some(&resource.group.as_str()) {
            names.push(&resource.group);
        }
    }
    let groups = names.into_iter().filter_map(|name| Group::build(name, builtin::RESOURCES.iter(), None));
    Registry::new(groups.map(Arc::new).collect(), Vec::new(), None)
});

impl Registry {
    /// Returns the built-in resources. All servers of a process share them and their documents.
    pub(crate) fn builtin() -> Registry {
        BUILTIN.clone()
    }

    fn new(groups: Vec<Arc<Group>>, definitions: Vec<Definition>, descriptions: Option<Arc<Descriptions>>) -> Registry {
        let by_name = groups.iter().enumerate().map(|(index, group)| (group.name.clone(), index)).collect();
        Registry(Arc::new(RegistryInner {
            groups,
            by_name,
            definitions,
            descriptions,
            documents: Documents::default(),
        }))
    }

    /// Returns a registry with these descriptions, and with documents of its own if they differ.
    pub(crate) fn with_descriptions(self, descriptions: Option<Arc<Descriptions>>) -> Registry {
        let known = self.0.descriptions.as_ref().map(Arc::as_ptr);
        if known == descriptions.as_ref().map(Arc::as_ptr) {
            return self;
        }
        let groups = self.groups().iter().filter_map(|group| {
            let resources = group.versions.iter().flat_map(|version| &version.resources);
            Group::build(&group.name, resources, None).map(Arc::new)
        });
        Registry::new(groups.collect(), self.0.definitions.clone(), descriptions)
    }

    /// Returns the descriptions in the OpenAPI documents.
    pub(crate) fn descriptions(&self) -> Option<&Descriptions> {
        self.0.descriptions.as_deref()
    }

    /// Returns the resource of a URL.
    pub(crate) fn lookup(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.group(group)?.version(version)?.resource(plural)
    }

    /// Returns the resource of a kind.
    pub(crate) fn lookup_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let version = self.group(group)?.version(version)?;
        version.resources.iter().find(|resource| resource.kind == kind)
    }

    /// Returns the groups in discovery order; the core group is first.
    pub(crate) fn groups(&self) -> &[Arc<Group>] {
        &self.0.groups
    }

    /// Returns one group; the empty name is the core group.
    pub(crate) fn group(&self, name: &str) -> Option<&Arc<Group>> {
        self.0.groups.get(*self.0.by_name.get(name)?)
    }

    /// Returns every resource in every version, in discovery order.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.groups().iter().flat_map(|group| &group.versions).flat_map(|version| &version.resources)
    }

    /// Returns the resources to empty before a namespace is removed: one per store, in its preferred version.
    pub(crate) fn namespaced_stores(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let mut seen = HashSet::new();
        self.resources().filter(move |resource| {
            resource.namespaced
                && resource.has_verb("list")
                && resource.has_verb("delete")
                && seen.insert(&*resource.storage)
        })
    }

    /// Returns a registry with the resources of this definition replaced.
    pub(crate) fn with_definition(&self, name: &str, resources: Vec<Resource>) -> Registry {
        self.replace(name, resources.into_iter().map(Arc::new).collect())
    }

    /// Returns a registry without the resources of this definition.
    pub(crate) fn without_definition(&self, name: &str) -> Registry {
        self.replace(name, Vec::new())
    }

    fn replace(&self, name: &str, resources: Vec<Arc<Resource>>) -> Registry {
        let mut definitions = self.0.definitions.clone();
        let position = definitions.iter().position(|definition| &*definition.name == name);
        let mut touched: HashSet<String> = resources.iter().map(|new| new.group.clone()).collect();
        if let Some(old) = position.and_then(|index| definitions.get(index)) {
            touched.extend(old.resources.iter().map(|old| old.group.clone()));
        }
        match position {
            Some(index) if resources.is_empty() => {
                definitions.remove(index);
            }
            None if resources.is_empty() => return self.clone(),
            Some(index) => {
                if let Some(definition) = definitions.get_mut(index) {
                    definition.resources = resources.into();
                }
            }
            None => definitions.push(Definition { name: name.into(), resources: resources.into() }),
        }

        let mut names: Vec<&str> = BUILTIN.groups().iter().map(|group| group.name.as_str()).collect();
        let mut known: HashSet<&str> = names.iter().copied().collect();
        let custom = || definitions.iter().flat_map(|definition| definition.resources.iter());
        names.extend(custom().map(|resource| resource.group.as_str()).filter(|name| known.insert(name)));
        let groups = names.into_iter().filter_map(|name| match self.group(name) {
            Some(group) if !touched.contains(name) => Some(group.clone()),
            old => {
                let resources = builtin::RESOURCES.iter().chain(custom());
                Group::build(name, resources, old).map(Arc::new)
            }
        });
        Registry::new(groups.collect(), definitions.clone(), self.0.descriptions.clone())
    }

    pub(crate) fn documents(&self) -> &Documents {
        &self.0.documents
    }
}

impl Group {
    /// Groups the resources of one group by version. A version with the same resources as in `old` is reused with its
    /// documents.
    fn build<'a>(
        name: &str,
        resources: impl Iterator<Item = &'a Arc<Resource>>,
        old: Option<&Arc<Group>>,
    ) -> Option<Group> {
        let mut versions: Vec<(&str, Vec<Arc<Resource>>)> = Vec::new();
        for resource in resources.filter(|resource| resource.group == name) {
            match versions.iter_mut().find(|(version, _)| *version == resource.version) {
                Some((_, resources)) => resources.push(resource.clone()),
                None => versions.push((&resource.version, vec![resource.clone()])),
            }
        }
        versions.sort_by_cached_key(|(version, _)| version_priority(version));
        let versions: Vec<Arc<Version>> = versions
            .into_iter()
            .map(|(version, mut resources)| {
                resources.sort_by(|a, b| a.plural.cmp(&b.plural));
                match old.and_then(|old| old.version(version)) {
                    Some(old) if same(&old.resources, &resources) => old.clone(),
                    _ => Arc::new(Version {
                        group: name.to_owned(),
                        name: version.to_owned(),
                        builtin: resources.iter().any(|resource| resource.custom.is_none()),
                        resources,
                        discovery: OnceLock::new(),
                        openapi: OnceLock::new(),
                    }),
                }
            })
            .collect();
        (!versions.is_empty()).then(|| Group { name: name.to_owned(), versions })
    }

    /// Returns one version of the group.
    pub(crate) fn version(&self, name: &str) -> Option<&Arc<Version>> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// Returns the preferred version.
    pub(crate) fn preferred(&self) -> Option<&Arc<Version>> {
        self.versions.first()
    }
}

impl Version {
    /// Returns the resource with this plural.
    pub(crate) fn resource(&self, plural: &str) -> Option<&Arc<Resource>> {
        let index = self.resources.binary_search_by(|resource| resource.plural.as_str().cmp(plural)).ok()?;
        self.resources.get(index)
    }

    /// `v1`, or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        super::group_version(&self.group, &self.name)
    }
}

fn same(a: &[Arc<Resource>], b: &[Arc<Resource>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
}

/// Returns the sort key of a version: stable before beta before alpha, then the higher number first. Names of another
/// form follow in lexical order.
pub(crate) fn version_priority(version: &str) -> impl Ord + use<> {
    let parsed = (|| {
        let rest = version.strip_prefix('v')?;
        let (major, rest) = number(rest)?;
        if rest.is_empty() {
            return Some((Reverse(2), Reverse(major), Reverse(0)));
        }
        let (stability, rest) = match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
            (Some(rest), _) => (1, rest),
            (_, Some(rest)) => (0, rest),
            _ => return None,
        };
        let (minor, rest) = number(rest)?;
        rest.is_empty().then_some((Reverse(stability), Reverse(major), Reverse(minor)))
    })();
    (parsed.is_none(), parsed, version.to_owned())
}

/// Parses a number without leading zeros. Returns it with the rest.
fn number(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(digits);
    if digits.starts_with('0') {
        return None;
    }
    Some((digits.parse().ok()?, rest))
}
