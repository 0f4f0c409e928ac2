//! [`BindingSet`]: the bindings of the cluster or of one namespace, found by their subjects.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use serde::Deserialize;

use crate::authorization::GoQuoted;
use crate::http_types::User;

/// The prefix of the names of service accounts as users.
const SERVICE_ACCOUNT: &str = "system:serviceaccount";

/// The part of a RoleBinding or ClusterRoleBinding that authorization reads.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Binding {
    pub(super) role_ref: RoleRef,
    subjects: Option<Vec<Subject>>,
}

/// The role of a binding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct RoleRef {
    pub(crate) kind: Box<str>,
    pub(crate) name: Box<str>,
}

/// A subject of a binding.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Subject {
    kind: Box<str>,
    name: Box<str>,
    namespace: Box<str>,
}

/// The user or group that a subject is.
#[derive(Debug, PartialEq, Eq)]
enum Identity<'a> {
    User(&'a str),
    Group(&'a str),
    /// The user of a service account.
    Account(String),
}

impl Subject {
    /// Returns the identity of a subject, if it has one: the namespace of an account defaults to that of the binding (RBA-006).
    fn identity(&self, binding_namespace: &str) -> Option<Identity<'_>> {
        let namespace = if self.namespace.is_empty() { binding_namespace } else { &*self.namespace };
        match &*self.kind {
            "User" => Some(Identity::User(&self.name)),
            "Group" => Some(Identity::Group(&self.name)),
            "ServiceAccount" if !namespace.is_empty() => {
                Some(Identity::Account(format!("{SERVICE_ACCOUNT}:{namespace}:{}", self.name)))
            }
            _ => None,
        }
    }

    fn is(&self, user: &User, binding_namespace: &str) -> bool {
        match self.identity(binding_namespace) {
            Some(Identity::User(name)) => *user.name == *name,
            Some(Identity::Account(name)) => user.name == name,
            Some(Identity::Group(name)) => user.groups.iter().any(|group| **group == *name),
            None => false,
        }
    }
}

/// The bindings of the cluster or of one namespace.
#[derive(Debug, Default)]
pub(super) struct BindingSet {
    /// Empty for the bindings of the cluster.
    namespace: Box<str>,
    /// By name.
    bindings: BTreeMap<Box<str>, Binding>,
    /// The names of the bindings of each user and service account.
    of_users: HashMap<Box<str>, BTreeSet<Box<str>>>,
    /// The names of the bindings of each group.
    of_groups: HashMap<Box<str>, BTreeSet<Box<str>>>,
}

/// A binding that applies to a user, and the first of its subjects that is the user.
#[derive(Clone, Copy, Debug)]
pub(super) struct AppliedBinding<'a> {
    pub(super) namespace: &'a str,
    name: &'a str,
    pub(super) role: &'a RoleRef,
    subject: &'a Subject,
}

impl BindingSet {
    pub(super) fn new(namespace: &str) -> Self {
        BindingSet { namespace: namespace.into(), ..BindingSet::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bindings.is_empty()
    }

    /// Replaces a binding; `None` removes it.
    pub(super) fn set(&mut self, name: &str, binding: Option<Binding>) {
        if let Some(old) = self.bindings.remove(name) {
            for subject in old.subjects.iter().flatten() {
                let (map, key) = match subject.identity(&self.namespace) {
                    Some(Identity::Group(group)) => (&mut self.of_groups, group.to_owned()),
                    Some(Identity::User(user)) => (&mut self.of_users, user.to_owned()),
                    Some(Identity::Account(user)) => (&mut self.of_users, user),
                    None => continue,
                };
                if let Some(names) = map.get_mut(&*key) {
                    names.remove(name);
                    if names.is_empty() {
                        map.remove(&*key);
                    }
                }
            }
        }
        let Some(binding) = binding else { return };
        for subject in binding.subjects.iter().flatten() {
            let (map, key) = match subject.identity(&self.namespace) {
                Some(Identity::Group(group)) => (&mut self.of_groups, group.into()),
                Some(Identity::User(user)) => (&mut self.of_users, user.into()),
                Some(Identity::Account(user)) => (&mut self.of_users, user.into()),
                None => continue,
            };
            map.entry(key).or_default().insert(name.into());
        }
        self.bindings.insert(name.into(), binding);
    }

    /// Returns the bindings of a user, by name.
    pub(super) fn of<'a>(&'a self, user: &'a User) -> impl Iterator<Item = AppliedBinding<'a>> {
        let groups = user.groups.iter().filter_map(|group| self.of_groups.get(group.as_str()));
        let sets = self.of_users.get(user.name.as_str()).into_iter().chain(groups);
        let names: BTreeSet<&str> = sets.flatten().map(|name| &**name).collect();
        names.into_iter().filter_map(move |name| {
            let (name, binding) = self.bindings.get_key_value(name)?;
            let subject = binding.subjects.iter().flatten().find(|subject| subject.is(user, &self.namespace))?;
            Some(AppliedBinding { namespace: &self.namespace, name, role: &binding.role_ref, subject })
        })
    }
}

/// The notation of reasons (RBA-003): `ClusterRoleBinding "b" of ClusterRole "r" to User "u"`.
impl fmt::Display for AppliedBinding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace {
            "" => write!(f, "ClusterRoleBinding {}", GoQuoted(self.name))?,
            namespace => write!(f, "RoleBinding {}", GoQuoted(&format!("{}/{namespace}", self.name)))?,
        }
        let Subject { kind, name, namespace } = self.subject;
        let subject = match &**kind {
            "ServiceAccount" if namespace.is_empty() => format!("{name}/{}", self.namespace),
            "ServiceAccount" => format!("{name}/{namespace}"),
            _ => name.to_string(),
        };
        let (role_kind, role) = (&self.role.kind, GoQuoted(&self.role.name));
        write!(f, " of {role_kind} {role} to {kind} {}", GoQuoted(&subject))
    }
}
