//! Which writes a webhook or a policy of admission is for: [`AdmissionRules`], compiled once per version of a configuration.

use std::sync::Arc;

use evenkeel_core::{LabelSelector, Status};
use serde_json::Value;

use super::{AdmissionWrite, Operation};
use crate::engine::{ApiEngine, object};
use crate::registry::{Registry, Resource};

/// The rules and selectors of a webhook or a policy.
#[derive(Clone, Debug)]
pub(crate) struct AdmissionRules {
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    /// No rule means all writes, as for policies.
    all_without_rules: bool,
    /// A rule for one version matches requests through the others.
    equivalent: bool,
    namespaces: LabelSelector,
    objects: LabelSelector,
}

/// One element of `rules`, `resourceRules` or `excludeResourceRules`.
#[derive(Clone, Debug)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// Resource and subresource; the latter is empty for the resource itself.
    resources: Vec<(String, String)>,
    /// Empty for all names.
    names: Vec<String>,
    scope: RuleScope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RuleScope {
    All,
    Namespaced,
    Cluster,
    /// An unknown word, which matches nothing.
    None,
}

impl AdmissionRules {
    /// Compiles the rules of a webhook: an element of `webhooks`.
    ///
    /// # Errors
    /// A selector is invalid.
    pub(crate) fn of_webhook(webhook: &Value) -> Result<Self, String> {
        AdmissionRules::compile(webhook, "rules", false)
    }

    /// Compiles `matchConstraints` of a policy or `matchResources` of a binding; null matches everything.
    ///
    /// # Errors
    /// A selector is invalid.
    pub(crate) fn of_policy(constraints: &Value) -> Result<Self, String> {
        AdmissionRules::compile(constraints, "resourceRules", true)
    }

    fn compile(value: &Value, rules: &str, all_without_rules: bool) -> Result<Self, String> {
        let list = |key: &str| value.get(key).and_then(Value::as_array).into_iter().flatten().map(Rule::of).collect();
        let selector = |key: &str| match value.get(key) {
            None | Some(Value::Null) => Ok(LabelSelector::everything()),
            Some(selector) => LabelSelector::from_json(selector).map_err(|error| error.to_string()),
        };
        Ok(AdmissionRules {
            rules: list(rules),
            excluded: list("excludeResourceRules"),
            all_without_rules,
            equivalent: value.get("matchPolicy").and_then(Value::as_str) == Some("Equivalent"),
            namespaces: selector("namespaceSelector")?,
            objects: selector("objectSelector")?,
        })
    }

    /// Returns the resource in whose version a write is to be reviewed, if the rules and selectors select the write. That is
    /// the resource of the request, or an equivalent one that a rule names (AWH-013).
    ///
    /// # Errors
    /// The namespace of the request, whose labels decide, does not exist.
    pub(crate) fn select(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        new: Option<&Value>,
    ) -> Result<Option<Arc<Resource>>, Status> {
        // Selectors are read after rules: most writes match none, and an error of a selector counts only if a rule matches.
        let registry = || engine.registry();
        if self.matching(&self.excluded, write, registry).is_some() {
            return Ok(None);
        }
        let selected = match self.rules.is_empty() && self.all_without_rules {
            true => Some(Arc::clone(write.target.resource)),
            false => self.matching(&self.rules, write, registry),
        };
        let Some(resource) = selected else { return Ok(None) };
        let selects = self.selects_object(write, new) && self.selects_namespace(engine, write, new)?;
        Ok(selects.then_some(resource))
    }

    /// Returns the resource that the first matching rule names.
    fn matching(
        &self,
        rules: &[Rule],
        write: &AdmissionWrite<'_>,
        registry: impl FnOnce() -> Registry,
    ) -> Option<Arc<Resource>> {
        let resource = write.target.resource;
        let mut candidates = rules.iter().filter(|rule| rule.matches_apart_from_version(write)).peekable();
        candidates.peek()?;
        let candidates: Vec<&Rule> = candidates.collect();
        if candidates.iter().any(|rule| rule.matches_version(resource)) {
            return Some(Arc::clone(resource));
        }
        if !self.equivalent {
            return None;
        }
        let registry = registry();
        let subresource = write.target.scope.subresource();
        let equivalents: Vec<&Arc<Resource>> = registry
            .resources()
            .filter(|other| other.storage == resource.storage && !Arc::ptr_eq(other, resource))
            .filter(|other| subresource.is_none_or(|name| other.subresource(name).is_some()))
            .collect();
        // Earlier rules win over better versions.
        let found = candidates.iter().find_map(|rule| equivalents.iter().find(|other| rule.matches_version(other)));
        found.map(|resource| Arc::clone(resource))
    }

    /// Returns whether the object or the stored object has the labels.
    fn selects_object(&self, write: &AdmissionWrite<'_>, new: Option<&Value>) -> bool {
        self.objects.requirements().is_empty()
            || [new, write.old].into_iter().flatten().any(|object| selects(&self.objects, object))
    }

    /// Returns whether the namespace of a request has the labels (AWH-014). Cluster-scoped objects other than namespaces have
    /// none, and are never left out.
    fn selects_namespace(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        new: Option<&Value>,
    ) -> Result<bool, Status> {
        if self.namespaces.requirements().is_empty() {
            return Ok(true);
        }
        let is_namespace = write.is_namespace();
        if is_namespace
            && write.target.scope.subresource().is_none()
            && matches!(write.operation, Operation::Create | Operation::Update)
        {
            return Ok(new.is_some_and(|namespace| selects(&self.namespaces, namespace)));
        }
        let name = if is_namespace { write.target.name } else { write.target.namespace.unwrap_or_default() };
        if name.is_empty() && !is_namespace {
            return Ok(true);
        }
        let Some(namespace) = engine.store.get("namespaces", name) else {
            return Err(Status::not_found("", "namespaces", name));
        };
        Ok(self.namespaces.matches(|key| namespace.facts.label(key)))
    }
}

/// Returns whether a selector selects an object by its labels.
fn selects(selector: &LabelSelector, object: &Value) -> bool {
    let labels = object::metadata(object).get("labels");
    selector.matches(|key| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str))
}

impl Rule {
    fn of(rule: &Value) -> Self {
        let texts = |key: &str| {
            let list = rule.get(key).and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        let resources = texts("resources").into_iter().map(|pattern| match pattern.split_once('/') {
            Some((resource, subresource)) => (resource.to_owned(), subresource.to_owned()),
            None => (pattern, String::new()),
        });
        Rule {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: resources.collect(),
            names: texts("resourceNames"),
            scope: match rule.get("scope").and_then(Value::as_str) {
                None | Some("*") => RuleScope::All,
                Some("Namespaced") => RuleScope::Namespaced,
                Some("Cluster") => RuleScope::Cluster,
                Some(_) => RuleScope::None,
            },
        }
    }

    /// Returns whether everything but group and version matches. All versions of a resource have the same plural.
    fn matches_apart_from_version(&self, write: &AdmissionWrite<'_>) -> bool {
        let target = write.target;
        let subresource = target.scope.subresource().unwrap_or_default();
        let names = |pattern: &str, name: &str| pattern == "*" || pattern == name;
        names_any(&self.operations, write.operation.as_str())
            && self
                .resources
                .iter()
                .any(|(resource, part)| names(resource, &target.resource.plural) && names(part, subresource))
            && (self.names.is_empty() || self.names.iter().any(|name| name == target.name))
            && match self.scope {
                RuleScope::All => true,
                RuleScope::Namespaced => target.namespace.is_some(),
                RuleScope::Cluster => target.namespace.is_none(),
                RuleScope::None => false,
            }
    }

    fn matches_version(&self, resource: &Resource) -> bool {
        names_any(&self.groups, &resource.group) && names_any(&self.versions, &resource.version)
    }
}

fn names_any(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern == "*" || pattern == name)
}

/// The kinds that configure admission. Neither webhooks nor policies see their writes: a mistake in one could not be mended
/// otherwise.
const CONFIGURATION: &[&str] = &[
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "mutatingadmissionpolicies.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
];

/// Reviews, which are answered and not stored.
const REVIEWS: &[&str] = &[
    "tokenreviews.authentication.k8s.io",
    "selfsubjectreviews.authentication.k8s.io",
    "localsubjectaccessreviews.authorization.k8s.io",
    "selfsubjectaccessreviews.authorization.k8s.io",
    "selfsubjectrulesreviews.authorization.k8s.io",
    "subjectaccessreviews.authorization.k8s.io",
];

impl AdmissionWrite<'_> {
    /// Returns whether the write is of a kind that configures admission.
    pub(crate) fn is_of_configuration(&self) -> bool {
        CONFIGURATION.contains(&&*self.target.resource.storage)
    }

    /// Returns whether the write is a review of a user or of permissions.
    pub(crate) fn is_of_review(&self) -> bool {
        REVIEWS.contains(&&*self.target.resource.storage)
    }

    /// Returns whether the write is of a Namespace or one of its subresources.
    pub(crate) fn is_namespace(&self) -> bool {
        *self.target.resource.storage == *"namespaces"
    }
}

#[cfg(test)]
mod tests;
