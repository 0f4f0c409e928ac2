//! [`RbacRules`]: the rules of roles, from what was used or from manifests.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::log::AccessLog;
use super::request::AccessTarget;
use super::rule_table::RuleTable;
use crate::manifest::{self, ManifestError};

/// The namespace of a Role without one, as kubectl has it by default.
const DEFAULT_NAMESPACE: &str = "default";

/// The rules of one subject: those of its ClusterRoles and of its Roles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RbacRules {
    /// Rules for all namespaces, for resources without namespaces, and for paths.
    pub cluster: Vec<PolicyRule>,
    /// Rules within a namespace.
    pub namespaces: BTreeMap<String, Vec<PolicyRule>>,
}

impl RbacRules {
    /// Reads the rules of a manifest in YAML or JSON. Other kinds than roles and their bindings are skipped.
    ///
    /// If there are bindings, only bound roles count, and a ClusterRole of a RoleBinding counts in the namespace of that
    /// binding. Without bindings all roles count. A Role without a namespace is in `default`.
    ///
    /// # Errors
    /// The manifest cannot be parsed.
    pub fn parse(manifest: &str) -> Result<Self, ManifestError> {
        let objects = manifest::parse(manifest)?;
        let mut bound: BTreeSet<(Option<String>, bool, String)> = BTreeSet::new();
        let mut has_bindings = false;
        for object in &objects {
            if let Some(binding) = object.decode::<ClusterRoleBinding>()? {
                bound.insert((None, true, binding.role_ref.name));
                has_bindings = true;
            }
            if let Some(binding) = object.decode::<RoleBinding>()? {
                let is_cluster_role = binding.role_ref.kind == "ClusterRole";
                bound.insert((Some(namespace_of(&binding.metadata)), is_cluster_role, binding.role_ref.name));
                has_bindings = true;
            }
        }
        let mut rules = RbacRules::default();
        for object in &objects {
            if let Some(role) = object.decode::<ClusterRole>()? {
                let granted = role.rules.unwrap_or_default();
                let name = role.metadata.name.unwrap_or_default();
                if !has_bindings || bound.contains(&(None, true, name.clone())) {
                    rules.cluster.extend(granted);
                    continue;
                }
                for (namespace, ..) in bound.iter().filter(|(_, is_cluster, role)| *is_cluster && *role == name) {
                    let namespace = namespace.clone().unwrap_or_default();
                    rules.namespaces.entry(namespace).or_default().extend(granted.iter().cloned());
                }
            }
            if let Some(role) = object.decode::<Role>()? {
                let namespace = namespace_of(&role.metadata);
                let name = role.metadata.name.unwrap_or_default();
                if !has_bindings || bound.contains(&(Some(namespace.clone()), false, name)) {
                    rules.namespaces.entry(namespace).or_default().extend(role.rules.unwrap_or_default());
                }
            }
        }
        Ok(rules.merged())
    }

    /// Returns the minimal rules for a log, by name for these resources.
    pub(super) fn allowing(log: &AccessLog, by_name: &[&str]) -> Self {
        let mut cluster = RuleTable::default();
        let mut namespaces: BTreeMap<&str, RuleTable> = BTreeMap::new();
        for access in log.iter().filter(|access| !access.is_public()) {
            let verb = access.verb.clone();
            match &access.target {
                AccessTarget::Path(path) => cluster.add_path(path, &verb),
                AccessTarget::Resource { group, resource, subresource, namespace, name } => {
                    let qualified = match group.as_str() {
                        "" => resource.clone(),
                        group => format!("{resource}.{group}"),
                    };
                    let name = Some(name.as_str()).filter(|name| !name.is_empty() && by_name.contains(&&*qualified));
                    let resource = match subresource.as_str() {
                        "" => resource.clone(),
                        subresource => format!("{resource}/{subresource}"),
                    };
                    let table = match namespace.as_str() {
                        "" => &mut cluster,
                        namespace => namespaces.entry(namespace).or_default(),
                    };
                    table.add_resource(group, &resource, name, &[verb]);
                }
            }
        }
        put_together(&cluster, namespaces)
    }

    /// Adds rules. They are merged with those that exist.
    #[must_use]
    pub fn and(mut self, other: RbacRules) -> Self {
        self.cluster.extend(other.cluster);
        for (namespace, rules) in other.namespaces {
            self.namespaces.entry(namespace).or_default().extend(rules);
        }
        self.merged()
    }

    /// Returns the same grants as the fewest rules, sorted: equal grants give equal rules. What the rules of the cluster grant
    /// is left out of namespaces.
    #[must_use]
    pub fn merged(&self) -> Self {
        let namespaces = self.namespaces.iter().map(|(namespace, rules)| (namespace.as_str(), RuleTable::of(rules)));
        put_together(&RuleTable::of(&self.cluster), namespaces.collect())
    }

    /// Returns the roles of this name: a ClusterRole if there are rules for it, and a Role in each namespace.
    ///
    /// # Errors
    /// A rule has no form in JSON, which does not happen with rules of this crate.
    pub fn roles(&self, name: &str) -> Result<Vec<Value>, serde_json::Error> {
        let metadata = |namespace: Option<&String>| ObjectMeta {
            name: Some(name.to_owned()),
            namespace: namespace.cloned(),
            ..ObjectMeta::default()
        };
        let mut roles = Vec::new();
        if !self.cluster.is_empty() {
            let role =
                ClusterRole { metadata: metadata(None), rules: Some(self.cluster.clone()), ..ClusterRole::default() };
            roles.push(serde_json::to_value(role)?);
        }
        for (namespace, rules) in &self.namespaces {
            let role = Role { metadata: metadata(Some(namespace)), rules: Some(rules.clone()) };
            roles.push(serde_json::to_value(role)?);
        }
        Ok(roles)
    }
}

fn put_together(cluster: &RuleTable, namespaces: BTreeMap<&str, RuleTable>) -> RbacRules {
    let mut rules = RbacRules { cluster: cluster.clone().into_rules(), namespaces: BTreeMap::new() };
    for (namespace, mut table) in namespaces {
        table.remove_granted_by(cluster);
        let granted = table.into_rules();
        if !granted.is_empty() {
            rules.namespaces.insert(namespace.to_owned(), granted);
        }
    }
    rules
}

fn namespace_of(metadata: &ObjectMeta) -> String {
    metadata.namespace.clone().filter(|namespace| !namespace.is_empty()).unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
}
