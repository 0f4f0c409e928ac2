//! Webhook configurations, made from the hooks of a server. Sans-IO, but for `apply`.
//!
//! Rules, paths and names cannot differ from what is served: there is no second place where they are written.

mod apply;
mod error;
mod readiness;
mod settings;
mod target;

#[cfg(test)]
mod tests;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhook,
    ValidatingWebhookConfiguration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta};

#[cfg(feature = "certificates")]
pub(crate) use apply::apply_conversion;
pub use error::ConfigurationError;
pub(crate) use settings::EntrySettings;
pub use settings::FailurePolicy;
pub use target::WebhookTarget;

use crate::admission::{ErasedHook, HookHandler, HookKind};
use crate::path::is_dns_subdomain;

/// The label that API servers set on every namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// The configurations that make API servers call the hooks of a server. See
/// [`WebhookServer::configurations`](crate::WebhookServer::configurations).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Configurations {
    /// The configuration of the mutating hooks, `<program>-mutating`; without webhooks if there are none.
    pub mutating: MutatingWebhookConfiguration,
    /// The configuration of the validating hooks, `<program>-validating`; without webhooks if there are none.
    pub validating: ValidatingWebhookConfiguration,
    /// The name of the program, of which the field manager is made.
    program: String,
}

/// Makes the configurations of these hooks, in the order of their paths.
pub(crate) fn make<'a>(
    hooks: impl Iterator<Item = &'a ErasedHook>,
    target: &WebhookTarget,
) -> Result<Configurations, ConfigurationError> {
    target.check()?;
    let metadata = |name: String| {
        if !is_dns_subdomain(&name) {
            return Err(ConfigurationError::Program { program: target.program.clone() });
        }
        Ok(ObjectMeta { name: Some(name), ..ObjectMeta::default() })
    };
    let [mutating_name, validating_name] = target.configuration_names();
    let (mut mutating, mut validating) = (Vec::new(), Vec::new());
    for hook in hooks {
        match hook.handler.kind() {
            HookKind::Mutating => mutating.push(mutating_entry(hook, target)?),
            HookKind::Validating => validating.push(validating_entry(hook, target)?),
        }
    }
    let names = mutating.iter().map(|entry: &MutatingWebhook| &entry.name);
    check_unique(names)?;
    check_unique(validating.iter().map(|entry: &ValidatingWebhook| &entry.name))?;
    Ok(Configurations {
        mutating: MutatingWebhookConfiguration { metadata: metadata(mutating_name)?, webhooks: Some(mutating) },
        validating: ValidatingWebhookConfiguration { metadata: metadata(validating_name)?, webhooks: Some(validating) },
        program: target.program.clone(),
    })
}

fn mutating_entry(hook: &ErasedHook, target: &WebhookTarget) -> Result<MutatingWebhook, ConfigurationError> {
    let entry = &hook.settings.entry;
    Ok(MutatingWebhook {
        admission_review_versions: review_versions(),
        client_config: target.client_config(&hook.settings.path),
        failure_policy: Some(failure_policy(entry)),
        name: name(hook, target)?,
        namespace_selector: namespace_selector(hook, target),
        object_selector: entry.object_selector.clone(),
        reinvocation_policy: entry.is_reinvoked.then(|| "IfNeeded".to_owned()),
        rules: Some(vec![rule(hook)]),
        side_effects: side_effects(entry),
        timeout_seconds: timeout(hook)?,
        ..MutatingWebhook::default()
    })
}

fn validating_entry(hook: &ErasedHook, target: &WebhookTarget) -> Result<ValidatingWebhook, ConfigurationError> {
    let entry = &hook.settings.entry;
    Ok(ValidatingWebhook {
        admission_review_versions: review_versions(),
        client_config: target.client_config(&hook.settings.path),
        failure_policy: Some(failure_policy(entry)),
        name: name(hook, target)?,
        namespace_selector: namespace_selector(hook, target),
        object_selector: entry.object_selector.clone(),
        rules: Some(vec![rule(hook)]),
        side_effects: side_effects(entry),
        timeout_seconds: timeout(hook)?,
        ..ValidatingWebhook::default()
    })
}

fn review_versions() -> Vec<String> {
    vec!["v1".to_owned()]
}

fn failure_policy(entry: &EntrySettings) -> String {
    match entry.failure_policy {
        FailurePolicy::Fail => "Fail".to_owned(),
        FailurePolicy::Ignore => "Ignore".to_owned(),
    }
}

fn side_effects(entry: &EntrySettings) -> String {
    if entry.has_side_effects { "NoneOnDryRun" } else { "None" }.to_owned()
}

fn timeout(hook: &ErasedHook) -> Result<Option<i32>, ConfigurationError> {
    match hook.settings.entry.timeout_seconds {
        Some(seconds) if !(1..=30).contains(&seconds) => {
            Err(ConfigurationError::Timeout { hook: hook.describe(), seconds })
        }
        seconds => Ok(seconds),
    }
}

/// Returns the name of the webhook: a domain name of at least three segments.
fn name(hook: &ErasedHook, target: &WebhookTarget) -> Result<String, ConfigurationError> {
    let name = hook.settings.entry.name.clone().unwrap_or_else(|| {
        let path = hook.settings.path.trim_start_matches('/').replace('/', ".");
        let path = if path.is_empty() { "root" } else { &path };
        format!("{path}.{}", target.domain())
    });
    if is_dns_subdomain(&name) && name.split('.').count() >= 3 {
        Ok(name)
    } else {
        Err(ConfigurationError::Name { hook: hook.describe(), name })
    }
}

fn check_unique<'a>(names: impl Iterator<Item = &'a String>) -> Result<(), ConfigurationError> {
    let mut seen = std::collections::HashSet::new();
    match names.into_iter().find(|name| !seen.insert(name.as_str())) {
        None => Ok(()),
        Some(name) => Err(ConfigurationError::DuplicateName { name: name.clone() }),
    }
}

fn rule(hook: &ErasedHook) -> RuleWithOperations {
    let resource = &hook.settings.resource;
    let main = hook.settings.takes_main.then(|| resource.plural().to_owned());
    let subresources = hook.settings.subresources.iter().map(|name| format!("{}/{name}", resource.plural()));
    RuleWithOperations {
        api_groups: Some(vec![resource.group().to_owned()]),
        api_versions: Some(vec![resource.version().to_owned()]),
        operations: Some(hook.handler.operations().into_iter().map(str::to_owned).collect()),
        resources: Some(main.into_iter().chain(subresources).collect()),
        scope: None,
    }
}

/// Returns the selector of the hook; without the program's own namespace if its pods could not start otherwise.
fn namespace_selector(hook: &ErasedHook, target: &WebhookTarget) -> Option<LabelSelector> {
    let entry = &hook.settings.entry;
    let group = hook.settings.resource.group();
    let is_built_in = !group.contains('.') || group.ends_with(".k8s.io");
    let excluded = target
        .own_namespace
        .as_ref()
        .filter(|_| is_built_in && entry.failure_policy == FailurePolicy::Fail && !entry.includes_own_namespace);
    let Some(namespace) = excluded else { return entry.namespace_selector.clone() };
    let mut selector = entry.namespace_selector.clone().unwrap_or_default();
    selector.match_expressions.get_or_insert_default().push(LabelSelectorRequirement {
        key: NAMESPACE_NAME.to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(vec![namespace.clone()]),
    });
    Some(selector)
}
