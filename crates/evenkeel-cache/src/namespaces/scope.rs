//! [`Scope`]: what one reflector of an informer of several namespaces lists. Sans-IO.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The names of a set of namespaces. The empty name stands for all namespaces that have no name of their own in the set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamespaceNames(BTreeSet<Arc<str>>);

/// The objects that one reflector lists: those of one namespace, or those of all namespaces that have no scope of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    /// Empty for the rest.
    namespace: Arc<str>,
    /// The namespaces with a scope of their own, sorted; empty unless this is the rest.
    excluded: Arc<[Arc<str>]>,
}

/// The reflectors to stop and to start when a set changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ScopeChanges {
    /// The names of the scopes whose reflectors stop.
    pub(crate) stop: Vec<Arc<str>>,
    /// The scopes whose reflectors start. The rest is in both if its field selector changes.
    pub(crate) start: Vec<Scope>,
}

impl NamespaceNames {
    /// Adds a name. Returns whether it is new.
    pub(crate) fn insert(&mut self, name: &str) -> bool {
        !self.0.contains(name) && self.0.insert(name.into())
    }

    /// Removes a name. Returns whether it was there.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        self.0.remove(name)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the names, sorted.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter()
    }

    /// Returns whether the set contains this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Returns whether the objects of a namespace are in the set: by its name, or as part of the rest.
    pub(crate) fn covers(&self, namespace: &str) -> bool {
        self.0.contains(namespace) || self.0.contains("")
    }

    /// Returns one scope for each name, sorted by name.
    pub(crate) fn scopes(&self) -> Vec<Scope> {
        let named = || self.0.iter().filter(|name| !name.is_empty());
        let scope = |name: &Arc<str>| Scope {
            namespace: Arc::clone(name),
            excluded: if name.is_empty() { named().cloned().collect() } else { Arc::default() },
        };
        self.0.iter().map(scope).collect()
    }
}

impl<S: AsRef<str>> FromIterator<S> for NamespaceNames {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        NamespaceNames(names.into_iter().map(|name| Arc::from(name.as_ref())).collect())
    }
}

impl Scope {
    /// Returns the namespace; empty for the rest.
    pub(crate) fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    /// Returns whether this is the rest: all namespaces without a scope of their own.
    pub(crate) fn is_rest(&self) -> bool {
        self.namespace.is_empty()
    }

    /// Returns whether the objects of a namespace are in the scope.
    pub(crate) fn contains(&self, namespace: &str) -> bool {
        match self.is_rest() {
            true => self.excluded.binary_search_by(|name| (**name).cmp(namespace)).is_err(),
            false => &*self.namespace == namespace,
        }
    }

    /// Returns the field selector that excludes the namespaces with a scope of their own; empty if there are none.
    pub(crate) fn field_selector(&self) -> String {
        let terms: Vec<String> = self.excluded.iter().map(|name| format!("metadata.namespace!={name}")).collect();
        terms.join(",")
    }

    /// Returns the scope in words, for the name of its reflector.
    pub(crate) fn describe(&self) -> &str {
        match &*self.namespace {
            "" if self.excluded.is_empty() => "all namespaces",
            "" => "all other namespaces",
            name => name,
        }
    }
}

/// Returns which reflectors stop and start, so that one runs for each of the wanted scopes. Unchanged ones continue.
pub(crate) fn plan(running: &BTreeMap<Arc<str>, Scope>, wanted: Vec<Scope>) -> ScopeChanges {
    let is_wanted = |scope: &Scope| wanted.contains(scope);
    let stop = running.values().filter(|scope| !is_wanted(scope)).map(|scope| Arc::clone(&scope.namespace)).collect();
    let start = wanted.iter().filter(|scope| running.get(&scope.namespace) != Some(scope)).cloned().collect();
    ScopeChanges { stop, start }
}

#[cfg(test)]
mod tests;
