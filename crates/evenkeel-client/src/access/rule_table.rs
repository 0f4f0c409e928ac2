//! [`RuleTable`]: rules taken apart into single grants, and put together again.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::PolicyRule;

type Verbs = BTreeSet<String>;

/// A resource in its group, as rules name it (`pods/status`), and the name of an object; `None` for all names.
type Cell = (String, String, Option<String>);

/// The verbs of each resource and path.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleTable {
    resources: BTreeMap<Cell, Verbs>,
    paths: BTreeMap<String, Verbs>,
}

/// A single grant.
#[derive(Clone, Copy, Debug)]
pub(super) enum SingleGrant<'a> {
    Resource { verb: &'a str, group: &'a str, resource: &'a str, name: Option<&'a str> },
    Path { verb: &'a str, path: &'a str },
}

impl RuleTable {
    pub(super) fn of<'r>(rules: impl IntoIterator<Item = &'r PolicyRule>) -> Self {
        let mut table = RuleTable::default();
        for rule in rules {
            for path in rule.non_resource_urls.iter().flatten() {
                table.paths.entry(path.clone()).or_default().extend(rule.verbs.iter().cloned());
            }
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    let names = rule.resource_names.as_deref().unwrap_or_default();
                    if names.is_empty() {
                        table.add_resource(group, resource, None, &rule.verbs);
                    }
                    for name in names {
                        table.add_resource(group, resource, Some(name), &rule.verbs);
                    }
                }
            }
        }
        table
    }

    pub(super) fn add_resource(&mut self, group: &str, resource: &str, name: Option<&str>, verbs: &[String]) {
        let cell = (group.to_owned(), resource.to_owned(), name.map(str::to_owned));
        self.resources.entry(cell).or_default().extend(verbs.iter().cloned());
    }

    pub(super) fn add_path(&mut self, path: &str, verb: &str) {
        self.paths.entry(path.to_owned()).or_default().insert(verb.to_owned());
    }

    /// Removes what another table grants as well, for the same or for all names.
    pub(super) fn remove_granted_by(&mut self, other: &RuleTable) {
        for ((group, resource, name), verbs) in &mut self.resources {
            for other_name in [None, name.clone()] {
                if let Some(granted) = other.resources.get(&(group.clone(), resource.clone(), other_name)) {
                    verbs.retain(|verb| !granted.contains(verb));
                }
            }
        }
        self.resources.retain(|_, verbs| !verbs.is_empty());
    }

    /// Returns every grant by itself.
    pub(super) fn grants(&self) -> impl Iterator<Item = SingleGrant<'_>> {
        let resources = self.resources.iter().flat_map(|((group, resource, name), verbs)| {
            let grant = move |verb| SingleGrant::Resource { verb, group, resource, name: name.as_deref() };
            verbs.iter().map(move |verb| grant(verb))
        });
        let paths =
            self.paths.iter().flat_map(|(path, verbs)| verbs.iter().map(move |verb| SingleGrant::Path { verb, path }));
        resources.chain(paths)
    }

    /// Returns the fewest rules that grant the same: what differs in names, resources or groups alone is one rule. Sorted, so
    /// that equal tables give equal rules.
    pub(super) fn into_rules(mut self) -> Vec<PolicyRule> {
        let for_all_names = RuleTable {
            resources: self.resources.iter().filter(|((.., name), _)| name.is_none()).map(owned).collect(),
            paths: BTreeMap::new(),
        };
        let named = |((_, _, name), _): &(Cell, Verbs)| name.is_some();
        let (named, unnamed): (Vec<_>, Vec<_>) = self.resources.into_iter().partition(named);
        self.resources = named.into_iter().collect();
        self.remove_granted_by(&for_all_names);

        let mut names_of: BTreeMap<(String, String, Verbs, bool), BTreeSet<String>> = BTreeMap::new();
        for ((group, resource, name), verbs) in self.resources.into_iter().chain(unnamed) {
            names_of.entry((group, resource, verbs, name.is_some())).or_default().extend(name);
        }
        let mut resources_of: BTreeMap<(String, BTreeSet<String>, Verbs), BTreeSet<String>> = BTreeMap::new();
        for ((group, resource, verbs, _), names) in names_of {
            resources_of.entry((group, names, verbs)).or_default().insert(resource);
        }
        let mut groups_of: BTreeMap<(BTreeSet<String>, BTreeSet<String>, Verbs), BTreeSet<String>> = BTreeMap::new();
        for ((group, names, verbs), resources) in resources_of {
            groups_of.entry((resources, names, verbs)).or_default().insert(group);
        }
        let mut rules: Vec<PolicyRule> = groups_of
            .into_iter()
            .map(|((resources, names, verbs), groups)| PolicyRule {
                api_groups: Some(groups.into_iter().collect()),
                resources: Some(resources.into_iter().collect()),
                resource_names: Some(names.into_iter().collect()).filter(|names: &Vec<String>| !names.is_empty()),
                non_resource_urls: None,
                verbs: verbs.into_iter().collect(),
            })
            .collect();
        rules.sort_by(|one, other| sort_key(one).cmp(&sort_key(other)));

        let mut paths_of: BTreeMap<Verbs, Vec<String>> = BTreeMap::new();
        for (path, verbs) in self.paths {
            paths_of.entry(verbs).or_default().push(path);
        }
        rules.extend(paths_of.into_iter().map(|(verbs, paths)| PolicyRule {
            non_resource_urls: Some(paths),
            verbs: verbs.into_iter().collect(),
            ..PolicyRule::default()
        }));
        rules
    }
}

fn owned((cell, verbs): (&Cell, &Verbs)) -> (Cell, Verbs) {
    (cell.clone(), verbs.clone())
}

type SortKey<'r> = [&'r Option<Vec<String>>; 3];

fn sort_key(rule: &PolicyRule) -> (SortKey<'_>, &[String]) {
    ([&rule.api_groups, &rule.resources, &rule.resource_names], &rule.verbs)
}
