//! [`ScopeVersions`]: the versions of a store that several reflectors fill, one for each scope.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_core::ResourceVersion;

use super::edit::advance;
use super::table_places::PlaceVersions;
use crate::namespaces::Scope;

/// The version of each scope. Versions of different scopes advance independently: an event of one namespace says nothing about
/// another.
#[derive(Clone, Debug, Default)]
pub(super) struct ScopeVersions {
    by_name: BTreeMap<Arc<str>, ScopeVersion>,
}

#[derive(Clone, Debug)]
struct ScopeVersion {
    /// Empty before the first list.
    version: ResourceVersion,
    /// Whether the version of the whole store waits for this scope.
    is_awaited: bool,
}

/// The versions that waiters compare with.
#[derive(Debug)]
pub(super) enum StoreVersions {
    /// The version of a store with one reflector.
    One(ResourceVersion),
    /// Those of a store with several; `None` before the informer starts.
    PerScope(Option<Arc<ScopeVersions>>),
    /// Those of the places of namespaces.
    PerPlace(Arc<PlaceVersions>),
}

impl ScopeVersions {
    /// Has exactly these scopes from now on. Returns the names of those that are dropped.
    pub(super) fn set(&mut self, scopes: &[Scope]) -> Vec<Arc<str>> {
        for scope in scopes {
            let new = || ScopeVersion { version: ResourceVersion::new(""), is_awaited: true };
            self.by_name.entry(Arc::clone(scope.namespace())).or_insert_with(new);
        }
        let is_kept = |name: &Arc<str>| scopes.iter().any(|scope| scope.namespace() == name);
        let dropped: Vec<_> = self.by_name.keys().filter(|name| !is_kept(name)).cloned().collect();
        dropped.iter().for_each(|name| drop(self.by_name.remove(name)));
        dropped
    }

    /// Returns the scope of a namespace: its own, or the rest.
    fn of(&self, namespace: &str) -> Option<&ScopeVersion> {
        self.by_name.get(namespace).or_else(|| self.by_name.get(""))
    }

    /// Records the versions of objects. Returns those that cannot be compared.
    pub(super) fn saw<'a>(&mut self, versions: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<ResourceVersion> {
        let mut opaque = Vec::new();
        for (namespace, version) in versions {
            let name = if self.by_name.contains_key(namespace) { namespace } else { "" };
            if let Some(scope) = self.by_name.get_mut(name) {
                opaque.append(&mut advance(&mut scope.version, [version].into_iter()));
            }
        }
        opaque
    }

    /// Records a bookmark of a scope. Returns its version if it cannot be compared.
    pub(super) fn bookmark(&mut self, scope: &Scope, version: &ResourceVersion) -> Vec<ResourceVersion> {
        let known = self.by_name.get_mut(scope.namespace());
        known.map(|known| advance(&mut known.version, [version.as_str()].into_iter())).unwrap_or_default()
    }

    /// Records the version of a list of a scope.
    pub(super) fn listed(&mut self, scope: &Scope, version: ResourceVersion) {
        if let Some(known) = self.by_name.get_mut(scope.namespace()) {
            *known = ScopeVersion { version, is_awaited: true };
        }
    }

    /// Sets whether the version of the whole store waits for a scope. A list sets it.
    pub(super) fn set_awaited(&mut self, namespace: &str, is_awaited: bool) {
        if let Some(known) = self.by_name.get_mut(namespace) {
            known.is_awaited = is_awaited;
        }
    }

    /// Returns the version of the scope of a namespace.
    pub(super) fn version_of(&self, namespace: &str) -> Option<&ResourceVersion> {
        self.of(namespace).map(|scope| &scope.version)
    }

    /// Returns the version of the whole store: the lowest one. Empty while one is empty.
    pub(super) fn lowest(&self) -> ResourceVersion {
        let awaited = self.by_name.values().filter(|scope| scope.is_awaited).map(|scope| &scope.version);
        let lower = |one, other: &_| match ResourceVersion::compare(one, other) {
            Some(order) => order == Ordering::Less,
            None => one.as_str().is_empty(),
        };
        let lowest = awaited.reduce(|lowest, version| if lower(version, lowest) { version } else { lowest });
        lowest.cloned().unwrap_or_else(|| ResourceVersion::new(""))
    }
}

impl StoreVersions {
    /// Returns whether a store at these versions includes a write with version `wanted`: in this namespace, or in any.
    pub(super) fn covers(&self, namespace: Option<&str>, wanted: &ResourceVersion) -> bool {
        let is_covered = |present: &ResourceVersion| present == wanted || present.is_newer_than(wanted);
        match (self, namespace) {
            (StoreVersions::One(present), _) => is_covered(present),
            (StoreVersions::PerScope(None), _) => false,
            (StoreVersions::PerPlace(places), _) => places.of(namespace).all(is_covered),
            (StoreVersions::PerScope(Some(scopes)), Some(namespace)) => {
                scopes.version_of(namespace).is_some_and(is_covered)
            }
            (StoreVersions::PerScope(Some(scopes)), None) => {
                scopes.by_name.values().filter(|scope| scope.is_awaited).all(|scope| is_covered(&scope.version))
            }
        }
    }
}
