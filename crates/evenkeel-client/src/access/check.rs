//! Compares what is used with what is granted.

use std::fmt;

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::log::AccessLog;
use super::request::{Access, AccessTarget};
use super::rule_table::{RuleTable, SingleGrant};
use super::rules::RbacRules;

/// Why a check of rules failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// Something was used and is not granted.
    #[error("used and not granted: {}; add it to the role, or stop using it", List(.missing))]
    Missing {
        /// What is not granted.
        missing: Vec<Access>,
        /// What is granted and was not used.
        unused: Vec<Access>,
    },
    /// The log is not complete.
    #[error("more than 65,536 different uses were made of the API, and only the first are known")]
    Incomplete,
}

struct List<'a>(&'a [Access]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, access) in self.0.iter().enumerate() {
            write!(f, "{}{access}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl RbacRules {
    /// Returns whether the rules grant this.
    pub fn grant(&self, access: &Access) -> bool {
        let within = match &access.target {
            AccessTarget::Resource { namespace, .. } => self.namespaces.get(namespace).map(Vec::as_slice),
            AccessTarget::Path(_) => None,
        };
        self.cluster.iter().chain(within.unwrap_or_default()).any(|rule| grants(rule, access))
    }

    /// Checks that the rules grant everything in the log. Returns what they grant beyond that, one verb on one resource at a
    /// time.
    ///
    /// # Errors
    /// Something is not granted, or the log is not complete.
    pub fn check(&self, used: &AccessLog) -> Result<Vec<Access>, AccessError> {
        if !used.is_complete() {
            return Err(AccessError::Incomplete);
        }
        let missing: Vec<Access> =
            used.iter().filter(|access| !access.is_public() && !self.grant(access)).cloned().collect();
        let unused = self.unused(used);
        if missing.is_empty() { Ok(unused) } else { Err(AccessError::Missing { missing, unused }) }
    }

    fn unused(&self, used: &AccessLog) -> Vec<Access> {
        let mut unused = Vec::new();
        let namespaces = self.namespaces.iter().map(|(namespace, rules)| (namespace.as_str(), rules));
        for (namespace, rules) in std::iter::once(("", &self.cluster)).chain(namespaces) {
            for grant in RuleTable::of(rules).grants() {
                let rule = rule_of(grant);
                let is_within = |access: &Access| match &access.target {
                    AccessTarget::Resource { namespace: of_access, .. } => {
                        namespace.is_empty() || of_access == namespace
                    }
                    AccessTarget::Path(_) => namespace.is_empty(),
                };
                if !used.iter().any(|access| is_within(access) && grants(&rule, access)) {
                    unused.push(access_of(grant, namespace));
                }
            }
        }
        unused
    }
}

/// Returns whether one rule grants this, as the RBAC authorizer decides it.
fn grants(rule: &PolicyRule, access: &Access) -> bool {
    let contains =
        |list: &Option<Vec<String>>, value: &str| list.iter().flatten().any(|entry| entry == "*" || entry == value);
    if !rule.verbs.iter().any(|verb| verb == "*" || *verb == access.verb) {
        return false;
    }
    match &access.target {
        AccessTarget::Path(path) => rule.non_resource_urls.iter().flatten().any(|url| match url.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => url == path,
        }),
        AccessTarget::Resource { group, resource, subresource, name, .. } => {
            let is_resource = if subresource.is_empty() {
                contains(&rule.resources, resource)
            } else {
                contains(&rule.resources, &format!("{resource}/{subresource}"))
                    || contains(&rule.resources, &format!("*/{subresource}"))
            };
            let names = rule.resource_names.as_deref().unwrap_or_default();
            contains(&rule.api_groups, group) && is_resource && (names.is_empty() || names.contains(name))
        }
    }
}

fn rule_of(grant: SingleGrant<'_>) -> PolicyRule {
    let one = |text: &str| Some(vec![text.to_owned()]);
    match grant {
        SingleGrant::Path { verb, path } => {
            PolicyRule { non_resource_urls: one(path), verbs: vec![verb.to_owned()], ..PolicyRule::default() }
        }
        SingleGrant::Resource { verb, group, resource, name } => PolicyRule {
            api_groups: one(group),
            resources: one(resource),
            resource_names: name.and_then(one),
            verbs: vec![verb.to_owned()],
            ..PolicyRule::default()
        },
    }
}

fn access_of(grant: SingleGrant<'_>, namespace: &str) -> Access {
    match grant {
        SingleGrant::Path { verb, path } => {
            Access { verb: verb.to_owned(), target: AccessTarget::Path(path.to_owned()) }
        }
        SingleGrant::Resource { verb, group, resource, name } => {
            let resource = resource.split_once('/').unwrap_or((resource, ""));
            Access::on(verb, group, resource, namespace, name.unwrap_or_default())
        }
    }
}
