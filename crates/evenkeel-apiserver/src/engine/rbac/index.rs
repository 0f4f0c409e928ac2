//! [`RbacIndex`]: all roles and bindings, ready to be evaluated.
//!
//! The index follows the history of the store, as that of the addresses of Services does: it reads the changes since its last
//! use. A committed role or binding governs the next request (RBA-007), restored snapshots and sweeps of namespaces need no
//! code of their own, and while RBAC is off nothing is read. (Commits that a failed disk takes back stay in the index until
//! the restart that the store then needs.)

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::bindings::{AppliedBinding, BindingSet, RoleRef};
use super::rule::PolicyRule;
use crate::authorization::{AccessAttributes, AccessDecision, AccessTarget, GoQuoted};
use crate::http_types::User;
use crate::store::{Record, Store, Unread};

const ROLES: &str = "roles.rbac.authorization.k8s.io";
const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
const BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";
const CLUSTER_BINDINGS: &str = "clusterrolebindings.rbac.authorization.k8s.io";

/// The roles and bindings of the store, as of one revision.
#[derive(Debug, Default)]
pub(crate) struct RbacIndex {
    /// All changes up to this revision are read; `None` before the first use.
    revision: Option<u64>,
    /// By `namespace/name`.
    roles: HashMap<Box<str>, RoleRules>,
    /// By name.
    cluster_roles: BTreeMap<Box<str>, ClusterRole>,
    cluster_bindings: BindingSet,
    /// By namespace.
    bindings: HashMap<Box<str>, BindingSet>,
}

/// The rules of a role. They are shared with readers that outlive the lock of the index.
pub(crate) type RoleRules = Arc<[PolicyRule]>;

/// The part of a ClusterRole that authorization and aggregation read.
#[derive(Debug)]
pub(super) struct ClusterRole {
    pub(super) rules: RoleRules,
    pub(super) labels: Box<[(Box<str>, Box<str>)]>,
    /// `aggregationRule.clusterRoleSelectors`; `None` without an aggregation rule.
    pub(super) selectors: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoredRole {
    rules: Option<Vec<PolicyRule>>,
    aggregation_rule: Option<StoredAggregation>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoredAggregation {
    cluster_role_selectors: Option<Vec<Value>>,
}

/// A role that a binding names and that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingRole(RoleRef);

impl std::fmt::Display for MissingRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match &*self.0.kind {
            "ClusterRole" => "clusterrole",
            "Role" => "role",
            other => return write!(f, "unsupported role reference kind: {}", GoQuoted(other)),
        };
        write!(f, "{kind}.rbac.authorization.k8s.io {} not found", GoQuoted(&self.0.name))
    }
}

/// Formats errors as Go's aggregate does: one as it is, several as `[a, b]`, each once.
pub(crate) fn aggregate(missing: &[MissingRole]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for text in missing.iter().map(MissingRole::to_string) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [only] => only.clone(),
        _ => format!("[{}]", texts.join(", ")),
    }
}

impl RbacIndex {
    /// Returns whether the index has read everything.
    pub(super) fn is_current(&self, store: &Store) -> bool {
        self.revision == Some(store.revision())
    }

    /// Reads the changes since the last use.
    pub(super) fn follow(&mut self, store: &Store) {
        let mut first = None;
        for (table, set) in [
            (ROLES, RbacIndex::set_role as fn(&mut Self, &str, Option<&Record>)),
            (CLUSTER_ROLES, RbacIndex::set_cluster_role),
            (BINDINGS, RbacIndex::set_binding),
            (CLUSTER_BINDINGS, RbacIndex::set_cluster_binding),
        ] {
            let (revision, unread) = store.unread(table, self.revision);
            // Commits between two tables are read again by the next use.
            first.get_or_insert(revision);
            match unread {
                Unread::Changes(events) => {
                    for event in events {
                        set(self, &event.key, event.current.as_deref());
                    }
                }
                Unread::Everything(objects) => {
                    self.clear(table);
                    for (key, record) in objects {
                        set(self, &key, Some(&record));
                    }
                }
            }
        }
        self.revision = first;
    }

    fn clear(&mut self, table: &str) {
        match table {
            ROLES => self.roles.clear(),
            CLUSTER_ROLES => self.cluster_roles.clear(),
            BINDINGS => self.bindings.clear(),
            _ => self.cluster_bindings = BindingSet::default(),
        }
    }

    pub(super) fn set_role(&mut self, key: &str, record: Option<&Record>) {
        match record {
            Some(record) => self.roles.insert(key.into(), read::<StoredRole>(record).rules.unwrap_or_default().into()),
            None => self.roles.remove(key),
        };
    }

    pub(super) fn set_cluster_role(&mut self, key: &str, record: Option<&Record>) {
        match record {
            Some(record) => {
                let stored: StoredRole = read(record);
                let role = ClusterRole {
                    rules: stored.rules.unwrap_or_default().into(),
                    labels: record.facts.labels.clone(),
                    selectors: stored.aggregation_rule.map(|rule| rule.cluster_role_selectors.unwrap_or_default()),
                };
                self.cluster_roles.insert(key.into(), role)
            }
            None => self.cluster_roles.remove(key),
        };
    }

    pub(super) fn set_binding(&mut self, key: &str, record: Option<&Record>) {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let set = match self.bindings.get_mut(namespace) {
            Some(set) => set,
            None if record.is_none() => return,
            None => self.bindings.entry(namespace.into()).or_insert_with(|| BindingSet::new(namespace)),
        };
        set.set(name, record.map(read));
        if set.is_empty() {
            self.bindings.remove(namespace);
        }
    }

    pub(super) fn set_cluster_binding(&mut self, key: &str, record: Option<&Record>) {
        self.cluster_bindings.set(key, record.map(read));
    }

    pub(super) fn cluster_roles(&self) -> &BTreeMap<Box<str>, ClusterRole> {
        &self.cluster_roles
    }

    /// Returns the rules of the role that a binding in this namespace names.
    pub(crate) fn rules_of(&self, role: &RoleRef, namespace: &str) -> Result<&RoleRules, MissingRole> {
        let rules = match &*role.kind {
            "ClusterRole" => self.cluster_roles.get(&role.name).map(|role| &role.rules),
            "Role" => self.roles.get(&*format!("{namespace}/{}", role.name)),
            _ => None,
        };
        rules.ok_or_else(|| MissingRole(role.clone()))
    }

    /// Returns the bindings that apply to a user in a namespace, those of the cluster first, with the rules of their roles.
    fn grants<'a>(
        &'a self,
        user: &'a User,
        namespace: &str,
    ) -> impl Iterator<Item = (AppliedBinding<'a>, Result<&'a RoleRules, MissingRole>)> {
        let local = self.bindings.get(namespace).filter(|_| !namespace.is_empty());
        let local = local.into_iter().flat_map(|set| set.of(user));
        let applied = self.cluster_bindings.of(user).chain(local);
        applied.map(|binding| (binding, self.rules_of(binding.role, binding.namespace)))
    }

    /// Decides about a use.
    pub(crate) fn decide(&self, access: &AccessAttributes<'_>) -> AccessDecision {
        let namespace = match access.target {
            AccessTarget::Resource(target) => target.namespace,
            AccessTarget::Path(_) => "",
        };
        let mut missing = Vec::new();
        for (binding, rules) in self.grants(access.user, namespace) {
            match rules {
                Ok(rules) if rules.iter().any(|rule| rule.allows(access)) => {
                    return AccessDecision::Allowed { reason: format!("RBAC: allowed by {binding}") };
                }
                Ok(_) => {}
                Err(role) => missing.push(role),
            }
        }
        match missing.is_empty() {
            true => AccessDecision::UNKNOWN,
            false => AccessDecision::Denied { reason: format!("RBAC: {}", aggregate(&missing)) },
        }
    }

    /// Returns the rules of a user in a namespace, and the roles that its bindings name and that do not exist.
    pub(crate) fn rules_for(&self, user: &User, namespace: &str) -> (Vec<RoleRules>, Vec<MissingRole>) {
        let (mut rules, mut missing) = (Vec::new(), Vec::new());
        for (_, of_role) in self.grants(user, namespace) {
            match of_role {
                Ok(of_role) => rules.push(Arc::clone(of_role)),
                Err(role) => missing.push(role),
            }
        }
        (rules, missing)
    }
}

/// Reads the part of a stored object that the index keeps. Stored objects have passed their schema; those of a backup that
/// does not fit grant nothing.
fn read<T: for<'de> Deserialize<'de> + Default>(record: &Record) -> T {
    serde_json::from_slice(record.json()).unwrap_or_default()
}
