//! [`KindTable`]: which name means which resource, given what a server serves.

use std::collections::HashMap;
use std::sync::Arc;

use evenkeel_core::ResourceInfo;
use kube_core::GroupVersion;

use super::guess::guess_names;
use super::query::{Argument, ResourceQuery};
use crate::discovery::error::DiscoveryError;
use crate::discovery::served::{Discovered, ServedResource};

/// Which name means which resource, given what a server serves. No I/O: [`RestMapper`](super::RestMapper) is this with a
/// server behind it.
///
/// Where a name means several resources, the core group's `v1` comes first, then the groups in the server's order, in
/// each the preferred version before the others. Only what stands in the same version of the same group is ambiguous.
/// Versions that could not be looked at are as if they were not served.
#[derive(Debug, Default)]
pub struct KindTable {
    /// In the server's order.
    entries: Vec<Entry>,
    /// Places in `entries` by plural and by singular.
    by_name: HashMap<String, Vec<usize>>,
    /// Places in `entries` by kind, and by kind in lower case.
    by_kind: HashMap<String, Vec<usize>>,
    /// Which group version comes first, if there is a choice.
    ranks: HashMap<GroupVersion, usize>,
    /// What short names stand for, in the server's order.
    short_names: Vec<ShortName>,
}

#[derive(Debug)]
struct Entry {
    info: Arc<ResourceInfo>,
    singular: String,
    categories: Vec<String>,
    /// Whether the server listed it, as opposed to one that every kind has, such as its list.
    listed: bool,
    rank: usize,
}

#[derive(Debug, PartialEq, Eq)]
struct ShortName {
    short: String,
    group: String,
    plural: String,
}

/// What a short name stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expansion {
    pub(super) query: ResourceQuery,
    /// Resources that have the same short name and come later, as `plural.group`.
    pub(super) others: Vec<String>,
}

impl KindTable {
    /// The table for what a server serves.
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
        self.add(Entry {
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
        self.add(Entry { info, singular, categories: Vec::new(), listed: false, rank });
    }

    fn add(&mut self, entry: Entry) {
        let place = self.entries.len();
        let lower = entry.info.kind().to_lowercase();
        let kinds = [Some(entry.info.kind().to_owned()), (lower != entry.info.kind()).then_some(lower)];
        for kind in kinds.into_iter().flatten() {
            self.by_kind.entry(kind).or_default().push(place);
        }
        let plural = entry.info.plural().to_lowercase();
        if entry.singular != plural {
            self.by_name.entry(entry.singular.clone()).or_default().push(place);
        }
        self.by_name.entry(plural).or_default().push(place);
        self.entries.push(entry);
    }

    fn entries_at<'a>(&'a self, places: Option<&'a Vec<usize>>) -> impl Iterator<Item = &'a Entry> {
        places.into_iter().flatten().filter_map(|place| self.entries.get(*place))
    }

    /// The resource of a kind: in the first of these versions that has it, or, if none is given, in the version that comes
    /// first.
    pub fn mapping(&self, group: &str, kind: &str, versions: &[&str]) -> Result<Arc<ResourceInfo>, DiscoveryError> {
        let found = self.mappings(group, kind, versions)?;
        let first = found.first().map(|entry| entry.info.version().to_owned());
        let best = found.into_iter().filter(|entry| Some(entry.info.version()) == first.as_deref());
        only(best).map_err(|matches| DiscoveryError::AmbiguousKind {
            group: group.to_owned(),
            kind: kind.to_owned(),
            matches,
        })
    }

    /// The entries of a kind, the best version first.
    fn mappings(&self, group: &str, kind: &str, versions: &[&str]) -> Result<Vec<&Entry>, DiscoveryError> {
        let entries = self.entries_at(self.by_kind.get(kind)).filter(|entry| entry.info.group() == group);
        let mut found: Vec<(usize, &Entry)> = if versions.is_empty() {
            entries.map(|entry| (entry.rank, entry)).collect()
        } else {
            let position = |entry: &Entry| versions.iter().position(|version| *version == entry.info.version());
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

    /// The resource that a name stands for: a plural, a singular or a short name.
    pub fn resource_for(&self, query: &ResourceQuery) -> Result<Arc<ResourceInfo>, DiscoveryError> {
        let found = self.find(&self.expand_short_name(query).query)?;
        let first = found.first().map(|entry| entry.rank);
        only(found.into_iter().filter(|entry| Some(entry.rank) == first))
            .map_err(|matches| DiscoveryError::AmbiguousResource { query: query.clone(), matches })
    }

    /// All resources that a name stands for, the best first.
    pub fn resources_for(&self, query: &ResourceQuery) -> Result<Vec<Arc<ResourceInfo>>, DiscoveryError> {
        let found = self.find(&self.expand_short_name(query).query)?;
        Ok(found.into_iter().map(|entry| Arc::clone(&entry.info)).collect())
    }

    /// The entries with this plural or singular, the best first.
    fn find(&self, query: &ResourceQuery) -> Result<Vec<&Entry>, DiscoveryError> {
        let name = query.resource.to_lowercase();
        let named = || {
            let any_version = query.version.is_empty();
            self.entries_at(self.by_name.get(&name))
                .filter(move |entry| any_version || entry.info.version() == query.version)
        };
        let mut found: Vec<&Entry> = if query.group.is_empty() {
            named().collect()
        } else {
            let exact: Vec<_> = named().filter(|entry| entry.info.group() == query.group).collect();
            // With a version the name is meant to be complete.
            if exact.is_empty() && query.version.is_empty() {
                named().filter(|entry| entry.info.group().starts_with(&query.group)).collect()
            } else {
                exact
            }
        };
        // A resource that the server lists is never hidden by one that is only guessed.
        if found.iter().any(|entry| entry.listed) {
            found.retain(|entry| entry.listed);
        }
        if found.is_empty() {
            return Err(DiscoveryError::NoResource { query: query.clone() });
        }
        found.sort_by_key(|entry| entry.rank);
        Ok(found)
    }

    /// Replaces a short name by what it stands for. A name that is a plural or a singular itself is left as it is, as is
    /// one that means nothing.
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

    /// The resource that an argument of a command line stands for: `pods`, `po`, `deployments.apps`,
    /// `deployments.v1.apps`, `Deployment`, `Deployment.v1.apps`. Names of resources come before kinds, and the reading
    /// with a version before the one without.
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

    /// The resource of a kind; without a group, of the first group that has it.
    fn mapping_anywhere(&self, group: &str, kind: &str) -> Result<Arc<ResourceInfo>, DiscoveryError> {
        let groups = self.entries_at(self.by_kind.get(kind)).filter(|entry| entry.listed);
        let best = groups.min_by_key(|entry| entry.rank).map(|entry| entry.info.group());
        self.mapping(best.filter(|_| group.is_empty()).unwrap_or(group), kind, &[])
    }

    /// The resources of a category such as `all`, each in the version that comes first, in the server's order. None if
    /// there is no such category.
    pub fn expand(&self, category: &str) -> Option<Vec<Arc<ResourceInfo>>> {
        let mut best: Vec<&Entry> = Vec::new();
        let is_in = |entry: &&Entry| entry.categories.iter().any(|known| known == category);
        for entry in self.entries.iter().filter(is_in) {
            let same = |known: &&mut &Entry| {
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

/// Which group version comes before which: core/v1, then the groups in order, in each the preferred version first.
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

/// The one resource that there is, or the several.
fn only<'a>(entries: impl Iterator<Item = &'a Entry>) -> Result<Arc<ResourceInfo>, Vec<Arc<ResourceInfo>>> {
    let mut found: Vec<_> = entries.map(|entry| Arc::clone(&entry.info)).collect();
    found.dedup();
    match found.len() {
        1 => found.pop().ok_or(found),
        _ => Err(found),
    }
}

#[cfg(test)]
mod tests;
