//! [`KindTable`]: maps names to resources, given a discovery result.

use std::collections::HashMap;
use std::sync::Arc;

use evenkeel_core::ResourceInfo;
use kube_core::GroupVersion;

use super::guess::guess_names;
use super::query::{Argument, ResourceQuery};
use crate::discovery::error::DiscoveryError;
use crate::discovery::served::{Discovered, ServedResource};

/// Maps names to resources, given a discovery result. No I/O: [`RestMapper`](super::RestMapper) combines it with
/// discovery.
///
/// If a name matches several resources, the core group's `v1` has priority, then the groups in the server's order, each
/// with its preferred version first. Only matches in the same group version are ambiguous. Group versions that failed
/// count as not served.
#[derive(Debug, Default)]
pub struct KindTable {
    /// In the server's order.
    entries: Vec<KindEntry>,
    /// Indexes into `entries` by plural and by singular.
    by_name: HashMap<String, Vec<usize>>,
    /// Indexes into `entries` by kind, and by kind in lower case.
    by_kind: HashMap<String, Vec<usize>>,
    /// The priority of group versions.
    ranks: HashMap<GroupVersion, usize>,
    /// The short names, in the server's order.
    short_names: Vec<ShortName>,
}

#[derive(Debug)]
struct KindEntry {
    info: Arc<ResourceInfo>,
    singular: String,
    categories: Vec<String>,
    /// Whether the server listed it, as opposed to an implied kind such as a list.
    listed: bool,
    rank: usize,
}

#[derive(Debug, PartialEq, Eq)]
struct ShortName {
    short: String,
    group: String,
    plural: String,
}

/// The expansion of a short name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expansion {
    pub(super) query: ResourceQuery,
    /// Other resources with the same short name, as `plural.group`.
    pub(super) others: Vec<String>,
}

impl KindTable {
    /// Builds the table of a discovery result.
    pub fn new(discovered: &Discovered) -> Self {
        let mut table = KindTable { ranks: ranks(discovered), ..KindTable::default() };
        for list in &discovered.resources {
            let rank = table.ranks.get(&list.group_version).copied().unwrap_or(usize::MAX);
            for resource in &list.resources {
                table.add_listed(resource, rank);
            }
            let GroupVersion { group, version } = &list.group_version;
            table.add_guessed(group, version, "List", false, rank);
        }
        table
    }

    fn add_listed(&mut self, resource: &ServedResource, rank: usize) {
        let info = &resource.info;
        let singular = match resource.singular.as_str() {
            "" => guess_names(info.kind()).1,
            singular => singular.to_owned(),
        };
        for short in &resource.short_names {
            self.short_names.push(ShortName {
                short: short.clone(),
                group: info.group().to_owned(),
                plural: info.plural().to_owned(),
            });
        }
        self.add(KindEntry {
            info: Arc::clone(info),
            singular,
            categories: resource.categories.clone(),
            listed: true,
            rank,
        });
        let list = format!("{}List", info.kind());
        self.add_guessed(info.group(), info.version(), &list, info.namespaced(), rank);
    }

    fn add_guessed(&mut self, group: &str, version: &str, kind: &str, namespaced: bool, rank: usize) {
        let (plural, singular) = guess_names(kind);
        let info = Arc::new(ResourceInfo::new(group, version, kind, &plural, namespaced));
        self.add(KindEntry { info, singular, categories: Vec::new(), listed: false, rank });
    }

    fn add(&mut self, entry: KindEntry) {
        let index = self.entries.len();
        let lower = entry.info.kind().to_lowercase();
        let kinds = [Some(entry.info.kind().to_owned()), (lower != entry.info.kind()).then_some(lower)];
        for kind in kinds.into_iter().flatten() {
            self.by_kind.entry(kind).or_default().push(index);
        }
        let plural = entry.info.plural().to_lowercase();
        if entry.singular != plural {
            self.by_name.entry(entry.singular.clone()).or_default().push(index);
        }
        self.by_name.entry(plural).or_default().push(index);
        self.entries.push(entry);
    }

    fn entries_at<'a>(&'a self, indexes: Option<&'a Vec<usize>>) -> impl Iterator<Item = &'a KindEntry> {
        indexes.into_iter().flatten().filter_map(|index| self.entries.get(*index))
    }

    /// Returns the resource of a kind: in the first of these versions that has it, or without versions in the one with
    /// the highest priority.
    pub fn mapping(&self, group: &str, kind: &str, versions: &[&str]) -> Result<Arc<ResourceInfo>, DiscoveryError> {
        let found = self.entries_of(group, kind, versions)?;
        let first = found.first().map(|entry| entry.info.version().to_owned());
        let best = found.into_iter().filter(|entry| Some(entry.info.version()) == first.as_deref());
        only(best).map_err(|matches| DiscoveryError::AmbiguousKind {
            group: group.to_owned(),
            kind: kind.to_owned(),
            matches,
        })
    }

    /// Returns the resources of a kind in all of these versions, in their order, or without versions in all versions, by
    /// priority (client-go's `RESTMappings`).
    pub fn mappings(
        &self,
        group: &str,
        kind: &str,
        versions: &[&str],
    ) -> Result<Vec<Arc<ResourceInfo>>, DiscoveryError> {
        let mut found: Vec<_> =
            self.entries_of(group, kind, versions)?.into_iter().map(|entry| Arc::clone(&entry.info)).collect();
        found.dedup();
        Ok(found)
    }

    /// Returns the singular of a resource name; a name that is not known is its own singular (client-go's
    /// `ResourceSingularizer`).
    pub fn singular(&self, resource: &str) -> String {
        let name = resource.to_lowercase();
        let entries = self.entries_at(self.by_name.get(&name)).filter(|entry| entry.listed);
        entries.min_by_key(|entry| entry.rank).map_or(name, |entry| entry.singular.clone())
    }

    /// Returns the entries of a kind, by priority.
    fn entries_of(&self, group: &str, kind: &str, versions: &[&str]) -> Result<Vec<&KindEntry>, DiscoveryError> {
        let entries = self.entries_at(self.by_kind.get(kind)).filter(|entry| entry.info.group() == group);
        let mut found: Vec<(usize, &KindEntry)> = if versions.is_empty() {
            entries.map(|entry| (entry.rank, entry)).collect()
        } else {
            let position = |entry: &KindEntry| versions.iter().position(|version| *version == entry.info.version());
            entries.filter_map(|entry| Some((position(entry)?, entry))).collect()
        };
        if found.iter().any(|(_, entry)| entry.listed) {
            found.retain(|(_, entry)| entry.listed);
        }
        if found.is_empty() {
            return Err(DiscoveryError::NoKind {
                group: group.to_owned(),
                kind: kind.to_owned(),
                versions: versions.iter().map(|&version| version.to_owned()).collect(),
            });
        }
        found.sort_by_key(|(rank, _)| *rank);
        Ok(found.into_iter().map(|(_, entry)| entry).collect())
    }

    /// Returns the resource with this name: a plural, a singular or a short name.
    pub fn resource_for(&self, query: &ResourceQuery) -> Result<Arc<ResourceInfo>, DiscoveryError> {
        let found = self.find(&self.expand_short_name(query).query)?;
        let first = found.first().map(|entry| entry.rank);
        only(found.into_iter().filter(|entry| Some(entry.rank) == first))
            .map_err(|matches| DiscoveryError::AmbiguousResource { query: query.clone(), matches })
    }

    /// Returns all resources with this name, by priority.
    pub fn resources_for(&self, query: &ResourceQuery) -> Result<Vec<Arc<ResourceInfo>>, DiscoveryError> {
        let found = self.find(&self.expand_short_name(query).query)?;
        Ok(found.into_iter().map(|entry| Arc::clone(&entry.info)).collect())
    }

    /// Returns the entries with this plural or singular, by priority.
    fn find(&self, query: &ResourceQuery) -> Result<Vec<&KindEntry>, DiscoveryError> {
        let name = query.resource.to_lowercase();
        let named = || {
            let any_version = query.version.is_empty();
            self.entries_at(self.by_name.get(&name))
                .filter(move |entry| any_version || entry.info.version() == query.version)
        };
        let mut found: Vec<&KindEntry> = if query.group.is_empty() {
            named().collect()
        } else {
            let exact: Vec<_> = named().filter(|entry| entry.info.group() == query.group).collect();
            // With a version the group must match exactly.
            if exact.is_empty() && query.version.is_empty() {
                named().filter(|entry| entry.info.group().starts_with(&query.group)).collect()
            } else {
                exact
            }
        };
        // A listed resource is never hidden by an implied one.
        if found.iter().any(|entry| entry.listed) {
            found.retain(|entry| entry.listed);
        }
        if found.is_empty() {
            return Err(DiscoveryError::NoResource { query: query.clone() });
        }
        found.sort_by_key(|entry| entry.rank);
        Ok(found)
    }

    /// Expands a short name. A plural, a singular and an unknown name are unchanged.
    pub(super) fn expand_short_name(&self, query: &ResourceQuery) -> Expansion {
        let unchanged = || Expansion { query: query.clone(), others: Vec::new() };
        let in_group = |group: &str| query.group.is_empty() || group == query.group;
        let name = query.resource.to_lowercase();
        let is_name =
            self.entries_at(self.by_name.get(&name)).any(|entry| entry.listed && in_group(entry.info.group()));
        if is_name {
            return unchanged();
        }
        let same = self.short_names.iter().filter(|known| known.short == name);
        let mut exact = same.clone().filter(|known| in_group(&known.group));
        if let Some(first) = exact.next() {
            let mut others = Vec::new();
            for other in exact.filter(|other| (&other.group, &other.plural) != (&first.group, &first.plural)) {
                let name = ResourceQuery::new(&other.plural).group(&other.group).to_string();
                if !others.contains(&name) {
                    others.push(name);
                }
            }
            return Expansion { query: first.in_place_of(query), others };
        }
        match same.clone().find(|known| known.group.starts_with(&query.group)) {
            Some(known) => Expansion { query: known.in_place_of(query), others: Vec::new() },
            None => unchanged(),
        }
    }

    /// Resolves a command line argument: `pods`, `po`, `deployments.apps`, `deployments.v1.apps`, `Deployment`,
    /// `Deployment.v1.apps`. Resource names are tried before kinds, and the interpretation with a version before the
    /// one without.
    pub fn resolve(&self, argument: &str) -> Result<Arc<ResourceInfo>, DiscoveryError> {
        let Argument { full, name, group } = Argument::parse(argument);
        let missing = |error: &DiscoveryError| error.is_no_match();
        if let Some((name, version, group)) = full {
            match self.resource_for(&ResourceQuery::new(name).version(version).group(group)) {
                Err(error) if missing(&error) => {}
                outcome => return outcome,
            }
        }
        let query = ResourceQuery::new(name).group(group);
        match self.resource_for(&query) {
            Err(error) if missing(&error) => {}
            outcome => return outcome,
        }
        if let Some((kind, version, group)) = full {
            match self.mapping(group, kind, &[version]) {
                Err(error) if missing(&error) => {}
                outcome => return outcome,
            }
        }
        match self.mapping_anywhere(group, name) {
            Err(error) if missing(&error) => Err(DiscoveryError::NoResource { query }),
            outcome => outcome,
        }
    }

    /// Returns the resource of a kind; without a group, of the first group that has it.
    fn mapping_anywhere(&self, group: &str, kind: &str) -> Result<Arc<ResourceInfo>, DiscoveryError> {
        let groups = self.entries_at(self.by_kind.get(kind)).filter(|entry| entry.listed);
        let best = groups.min_by_key(|entry| entry.rank).map(|entry| entry.info.group());
        self.mapping(best.filter(|_| group.is_empty()).unwrap_or(group), kind, &[])
    }

    /// Returns the resources of a category such as `all`, each in the version with the highest priority, in the
    /// server's order; `None` if there is no such category.
    pub fn expand(&self, category: &str) -> Option<Vec<Arc<ResourceInfo>>> {
        let mut best: Vec<&KindEntry> = Vec::new();
        let is_in = |entry: &&KindEntry| entry.categories.iter().any(|known| known == category);
        for entry in self.entries.iter().filter(is_in) {
            let same = |known: &&mut &KindEntry| {
                (known.info.group(), known.info.plural()) == (entry.info.group(), entry.info.plural())
            };
            match best.iter_mut().find(same) {
                Some(known) if entry.rank < known.rank => *known = entry,
                Some(_) => {}
                None => best.push(entry),
            }
        }
        (!best.is_empty()).then(|| best.into_iter().map(|entry| Arc::clone(&entry.info)).collect())
    }
}

impl ShortName {
    fn in_place_of(&self, query: &ResourceQuery) -> ResourceQuery {
        ResourceQuery { group: self.group.clone(), version: query.version.clone(), resource: self.plural.clone() }
    }
}

/// Computes the priority of group versions: core/v1, then the groups in order, each with its preferred version first.
fn ranks(discovered: &Discovered) -> HashMap<GroupVersion, usize> {
    let mut order = vec![GroupVersion::gv("", "v1")];
    for group in &discovered.groups {
        order.extend(group.preferred.iter().map(|version| GroupVersion::gv(&group.name, version)));
        order.extend(group.group_versions());
    }
    let mut ranks = HashMap::new();
    for (rank, group_version) in order.into_iter().enumerate() {
        ranks.entry(group_version).or_insert(rank);
    }
    ranks
}

/// Returns the only entry, or all of them as an error.
fn only<'a>(entries: impl Iterator<Item = &'a KindEntry>) -> Result<Arc<ResourceInfo>, Vec<Arc<ResourceInfo>>> {
    let mut found: Vec<_> = entries.map(|entry| Arc::clone(&entry.info)).collect();
    found.dedup();
    match found.len() {
        1 => found.pop().ok_or(found),
        _ => Err(found),
    }
}

#[cfg(test)]
mod tests;
