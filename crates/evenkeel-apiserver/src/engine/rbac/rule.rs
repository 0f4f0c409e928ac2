//! [`PolicyRule`]: one rule of a role, and what it allows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::authorization::{AccessAttributes, AccessTarget, GoQuotedList};

/// A rule of a Role or ClusterRole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PolicyRule {
    #[serde(deserialize_with = "texts")]
    pub(crate) verbs: Vec<Box<str>>,
    #[serde(deserialize_with = "texts")]
    pub(crate) api_groups: Vec<Box<str>>,
    #[serde(deserialize_with = "texts")]
    pub(crate) resources: Vec<Box<str>>,
    #[serde(deserialize_with = "texts")]
    pub(crate) resource_names: Vec<Box<str>>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "texts")]
    pub(crate) urls: Vec<Box<str>>,
}

/// Reads a list that may be null.
pub(super) fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Box<str>>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

fn has(list: &[Box<str>], wanted: &str) -> bool {
    list.iter().any(|entry| **entry == *wanted)
}

/// Returns whether a list names something, or everything.
fn covers(list: &[Box<str>], wanted: &str) -> bool {
    list.iter().any(|entry| **entry == *"*" || **entry == *wanted)
}

/// Returns whether an entry of `nonResourceURLs` is this path, or a pattern that it matches.
fn url_covers(url: &str, path: &str) -> bool {
    url == path || (url.ends_with('*') && path.starts_with(url.trim_end_matches('*')))
}

impl PolicyRule {
    /// Returns the rules that allow everything.
    pub(super) fn full_authority() -> [PolicyRule; 2] {
        let all = || vec![Box::from("*")];
        let resources = PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() };
        [resources, PolicyRule { verbs: all(), urls: all(), ..PolicyRule::default() }]
    }

    /// Returns whether the rule allows a use (RBA-004, RBA-005).
    pub(crate) fn allows(&self, access: &AccessAttributes<'_>) -> bool {
        if !covers(&self.verbs, access.verb) {
            return false;
        }
        match access.target {
            AccessTarget::Path(path) => self.urls.iter().any(|url| url_covers(url, path)),
            AccessTarget::Resource(target) => {
                covers(&self.api_groups, target.group)
                    && self.allows_resource(target.resource, target.subresource)
                    && (self.resource_names.is_empty() || has(&self.resource_names, target.name))
            }
        }
    }

    fn allows_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|entry| match entry.split_once('/') {
            _ if **entry == *"*" => true,
            None => subresource.is_empty() && **entry == *resource,
            // The first part of an entry may be `*`, the second is literal.
            Some((of, sub)) => !subresource.is_empty() && sub == subresource && (of == "*" || of == resource),
        })
    }

    /// Returns the rule as one rule for each combination of its entries.
    fn single_grants(&self) -> impl Iterator<Item = PolicyRule> + '_ {
        let one = |text: &str| vec![Box::from(text)];
        let names: Vec<Option<&str>> = match self.resource_names.is_empty() {
            true => vec![None],
            false => self.resource_names.iter().map(|name| Some(&**name)).collect(),
        };
        let resources = self.api_groups.iter().flat_map(move |group| {
            let names = names.clone();
            self.resources.iter().flat_map(move |resource| {
                let names = names.clone();
                self.verbs.iter().flat_map(move |verb| {
                    names.clone().into_iter().map(move |name| PolicyRule {
                        verbs: one(verb),
                        api_groups: one(group),
                        resources: one(resource),
                        resource_names: name.map(one).unwrap_or_default(),
                        urls: Vec::new(),
                    })
                })
            })
        });
        let urls = self.urls.iter().flat_map(move |url| {
            self.verbs.iter().map(move |verb| PolicyRule { verbs: one(verb), urls: one(url), ..PolicyRule::default() })
        });
        resources.chain(urls)
    }

    /// Returns whether this rule allows all that a rule with single entries allows.
    fn covers_single(&self, single: &PolicyRule) -> bool {
        let names_fit = match single.resource_names.first() {
            None => self.resource_names.is_empty(),
            Some(name) => self.resource_names.is_empty() || has(&self.resource_names, name),
        };
        names_fit
            && single.verbs.iter().all(|verb| covers(&self.verbs, verb))
            && single.api_groups.iter().all(|group| covers(&self.api_groups, group))
            && single.resources.iter().all(|resource| self.covers_resource(resource))
            && single.urls.iter().all(|url| self.urls.iter().any(|own| url_covers(own, url)))
    }

    fn covers_resource(&self, resource: &str) -> bool {
        covers(&self.resources, resource)
            || resource.split_once('/').is_some_and(|(_, sub)| has(&self.resources, &format!("*/{sub}")))
    }

    /// Returns the rule as an object of the API has it.
    pub(crate) fn to_value(&self) -> Value {
        let lists = [
            ("verbs", &self.verbs),
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.urls),
        ];
        let present = lists.into_iter().filter(|(_, list)| !list.is_empty());
        let fields =
            present.map(|(key, list)| (key.to_owned(), list.iter().map(|text| Value::from(&**text)).collect()));
        Value::Object(fields.collect::<Map<_, _>>())
    }
}

/// The notation of errors: `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`.
impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        f.write_str("{")?;
        for (index, (key, list)) in lists.into_iter().filter(|(_, list)| !list.is_empty()).enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{key}:{}", GoQuotedList(list))?;
        }
        f.write_str("}")
    }
}

/// Returns what `wanted` allows and `held` does not, as rules with single entries.
pub(crate) fn missing_grants<'a>(
    held: &[&PolicyRule],
    wanted: impl IntoIterator<Item = &'a PolicyRule>,
) -> Vec<PolicyRule> {
    let singles = wanted.into_iter().flat_map(PolicyRule::single_grants);
    singles.filter(|single| !held.iter().any(|rule| rule.covers_single(single))).collect()
}

/// Merges rules with single entries that differ in their verbs alone.
pub(crate) fn merge_verbs(singles: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut merged: Vec<PolicyRule> = Vec::new();
    // By group, resource and name of an object.
    let mut places: BTreeMap<[Option<Box<str>>; 3], usize> = BTreeMap::new();
    for single in singles {
        let key = [&single.api_groups, &single.resources, &single.resource_names].map(|list| list.first().cloned());
        // Rules for paths are not merged.
        let place = match single.urls.is_empty() {
            true => *places.entry(key).or_insert(merged.len()),
            false => merged.len(),
        };
        match merged.get_mut(place) {
            Some(rule) => rule.verbs.extend(single.verbs),
            None => merged.push(single),
        }
    }
    merged
}

/// Returns rules as the lines of an error: merged, sorted, each once.
pub(super) fn describe(singles: Vec<PolicyRule>) -> String {
    let lines: BTreeSet<String> = merge_verbs(singles).iter().map(PolicyRule::to_string).collect();
    lines.into_iter().collect::<Vec<_>>().join("\n")
}
