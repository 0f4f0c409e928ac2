//! [`AuditPolicy`]: which requests are recorded, and how much of them (AUD-002).

use serde::Deserialize;
use serde_json::Value;

use super::event::{AuditLevel, AuditStage};
use crate::http_types::User;
use crate::listener::request_info::RequestInfo;
use crate::query::percent_decode;

/// Which requests the audit log records, and at which level: `audit.k8s.io/v1` `Policy`.
///
/// The first rule that matches a request decides; a request without one is not recorded. At every level, the bodies of
/// token requests and token reviews are left out, which kube-apiserver leaves to the policy.
///
/// ```
/// use evenkeel_apiserver::AuditPolicy;
///
/// let policy = AuditPolicy::parse(
///     "
///     apiVersion: audit.k8s.io/v1
///     kind: Policy
///     omitStages: [RequestReceived]
///     rules:
///     - level: RequestResponse
///       verbs: [create, update, patch, delete]
///       resources: [{group: apps, resources: [deployments]}]
///     - level: Metadata
///     ",
/// )?;
/// # Ok::<(), evenkeel_apiserver::AuditPolicyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct AuditPolicy {
    rules: Vec<PolicyRule>,
    omit_stages: Vec<AuditStage>,
    omit_managed_fields: bool,
}

/// An error of [`AuditPolicy::parse`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuditPolicyError {
    /// The text is neither YAML nor JSON, or it has unknown fields.
    #[error("the audit policy cannot be read: {reason}")]
    Syntax {
        /// What is wrong, and where.
        reason: String,
    },
    /// The document is of another kind.
    #[error("the document is {kind:?} of {api_version:?}; an audit policy is \"Policy\" of \"audit.k8s.io/v1\"")]
    NotAPolicy {
        /// The kind of the document.
        kind: String,
        /// The version of the document.
        api_version: String,
    },
    /// A rule contradicts itself.
    #[error("rules[{index}] of the audit policy: {reason}")]
    Rule {
        /// The index of the rule.
        index: usize,
        /// What is wrong.
        reason: &'static str,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PolicyDocument {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default, rename = "metadata")]
    _metadata: Value,
    #[serde(default)]
    rules: Vec<PolicyRule>,
    #[serde(default)]
    omit_stages: Vec<AuditStage>,
    #[serde(default)]
    omit_managed_fields: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PolicyRule {
    level: AuditLevel,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    user_groups: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    resources: Vec<GroupResources>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    #[serde(default)]
    omit_stages: Vec<AuditStage>,
    omit_managed_fields: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GroupResources {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

/// What the policy decides about one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuditDecision {
    pub(crate) level: AuditLevel,
    pub(crate) omit_stages: Vec<AuditStage>,
    pub(crate) omit_managed_fields: bool,
}

impl AuditPolicy {
    /// Returns the policy that records every request without its bodies.
    pub fn metadata() -> Self {
        Self::of_rules([AuditLevel::Metadata.into()])
    }

    /// Returns the policy that records every request with its bodies, except for those of Secrets and ConfigMaps.
    pub fn request_response() -> Self {
        let confidential = GroupResources {
            group: String::new(),
            resources: ["secrets", "configmaps"].map(str::to_owned).into(),
            resource_names: Vec::new(),
        };
        let metadata = PolicyRule { resources: vec![confidential], ..AuditLevel::Metadata.into() };
        Self::of_rules([metadata, AuditLevel::RequestResponse.into()])
    }

    /// Reads a policy in YAML or JSON.
    ///
    /// # Errors
    /// Returns an error if the text is no `Policy` of `audit.k8s.io/v1`, has unknown fields, or has a rule that
    /// contradicts itself.
    pub fn parse(text: &str) -> Result<Self, AuditPolicyError> {
        let document: PolicyDocument = serde_saphyr::from_str(text).map_err(|error| AuditPolicyError::Syntax {
            // The first line names the fault and its position; the others repeat the text.
            reason: error.to_string().lines().next().unwrap_or_default().to_owned(),
        })?;
        if (document.kind.as_str(), document.api_version.as_str()) != ("Policy", "audit.k8s.io/v1") {
            return Err(AuditPolicyError::NotAPolicy { kind: document.kind, api_version: document.api_version });
        }
        for (index, rule) in document.rules.iter().enumerate() {
            rule.check().map_err(|reason| AuditPolicyError::Rule { index, reason })?;
        }
        let PolicyDocument { rules, omit_stages, omit_managed_fields, .. } = document;
        Ok(AuditPolicy { rules, omit_stages, omit_managed_fields })
    }

    fn of_rules(rules: impl Into<Vec<PolicyRule>>) -> Self {
        AuditPolicy { rules: rules.into(), omit_stages: Vec::new(), omit_managed_fields: false }
    }

    /// Returns what to record of a request; `None` if nothing.
    pub(crate) fn decide(&self, info: &RequestInfo<'_>, user: &User) -> Option<AuditDecision> {
        let rule = self.rules.iter().find(|rule| rule.matches(info, user))?;
        let level = if carries_tokens(info) { rule.level.min(AuditLevel::Metadata) } else { rule.level };
        (level > AuditLevel::None).then(|| AuditDecision {
            level,
            omit_stages: [&self.omit_stages[..], &rule.omit_stages].concat(),
            omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
        })
    }
}

impl From<AuditLevel> for PolicyRule {
    /// Returns the rule that matches every request.
    fn from(level: AuditLevel) -> Self {
        PolicyRule {
            level,
            users: Vec::new(),
            user_groups: Vec::new(),
            verbs: Vec::new(),
            resources: Vec::new(),
            namespaces: Vec::new(),
            non_resource_urls: Vec::new(),
            omit_stages: Vec::new(),
            omit_managed_fields: None,
        }
    }
}

/// Returns whether the bodies of a request contain tokens.
fn carries_tokens(info: &RequestInfo<'_>) -> bool {
    match info.resource {
        "tokenreviews" | "tokenrequests" => true,
        "serviceaccounts" => info.subresource == "token",
        _ => false,
    }
}

impl PolicyRule {
    fn check(&self) -> Result<(), &'static str> {
        let has_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
        if has_resources && !self.non_resource_urls.is_empty() {
            return Err("a rule is for resources or for nonResourceURLs, not for both; make two rules");
        }
        let is_pattern = |url: &String| match url.strip_suffix('*').unwrap_or(url) {
            "" => url == "*",
            prefix => prefix.starts_with('/') && !prefix.contains('*'),
        };
        if !self.non_resource_urls.iter().all(is_pattern) {
            return Err("a nonResourceURL is \"*\", or starts with \"/\" and has \"*\" at the end only");
        }
        let names_without_resource =
            |resources: &GroupResources| resources.resources.is_empty() && !resources.resource_names.is_empty();
        if self.resources.iter().any(names_without_resource) {
            return Err("resourceNames need resources");
        }
        if self.resources.iter().any(|resources| resources.group.contains('/')) {
            return Err("a group has no version");
        }
        Ok(())
    }

    fn matches(&self, info: &RequestInfo<'_>, user: &User) -> bool {
        if !self.users.is_empty() && !self.users.contains(&user.name) {
            return false;
        }
        if !self.user_groups.is_empty() && !user.groups.iter().any(|group| self.user_groups.contains(group)) {
            return false;
        }
        if !self.verbs.is_empty() && !self.verbs.iter().any(|verb| verb == info.verb) {
            return false;
        }
        if !self.resources.is_empty() || !self.namespaces.is_empty() {
            return info.is_resource && self.matches_resource(info);
        }
        if !self.non_resource_urls.is_empty() {
            return !info.is_resource && self.non_resource_urls.iter().any(|url| matches_url(url, info.path));
        }
        true
    }

    fn matches_resource(&self, info: &RequestInfo<'_>) -> bool {
        let namespace = percent_decode(info.namespace, false).unwrap_or_default();
        if !self.namespaces.is_empty() && !self.namespaces.contains(&namespace) {
            return false;
        }
        self.resources.is_empty() || self.resources.iter().any(|resources| resources.matches(info))
    }
}

impl GroupResources {
    fn matches(&self, info: &RequestInfo<'_>) -> bool {
        if self.group != info.group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        let name = percent_decode(info.name, false).unwrap_or_default();
        if !self.resource_names.is_empty() && !self.resource_names.contains(&name) {
            return false;
        }
        self.resources.iter().any(|pattern| match pattern.split_once('/') {
            None => pattern == "*" || (pattern == info.resource && info.subresource.is_empty()),
            Some(("*", subresource)) => !subresource.is_empty() && subresource == info.subresource,
            Some((resource, "*")) => resource == info.resource,
            Some((resource, subresource)) => resource == info.resource && subresource == info.subresource,
        })
    }
}

fn matches_url(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => pattern == path,
    }
}

#[cfg(test)]
mod tests;
