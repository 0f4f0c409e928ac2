//! PodSecurity: the Pod Security Standards that the labels of a namespace ask for (ADM-018 to ADM-021).
//!
//! `policy` reads the labels, `baseline` and `restricted` have the checks. Pods are refused if they violate the enforced
//! level. Templates of pods only lead to warnings and audit annotations: their pods are checked when they are created.

mod baseline;
mod policy;
mod restricted;
#[cfg(test)]
mod tests;
mod violation;

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use self::policy::{Level, LevelVersion, Policy};
use self::violation::{CheckedPod, Violations};
use super::{AdmissionPlugin, AdmissionWrite, list_at, text_at};
use crate::engine::request_error::RequestError;
use crate::engine::target::WriteScope;
use crate::engine::{ApiEngine, object};
use crate::store::{At, Span};

const NAMESPACES: &str = "namespaces";
/// Where the kinds with a template of pods have it.
const TEMPLATES: [(&str, &str); 8] = [
    ("replicationcontrollers", "/spec/template"),
    ("podtemplates", "/template"),
    ("replicasets.apps", "/spec/template"),
    ("deployments.apps", "/spec/template"),
    ("statefulsets.apps", "/spec/template"),
    ("daemonsets.apps", "/spec/template"),
    ("jobs.batch", "/spec/template"),
    ("cronjobs.batch", "/spec/jobTemplate/spec/template"),
];
/// How many existing pods a change of a namespace's level checks.
const MAX_CHECKED_PODS: usize = 3000;

pub(super) struct PodSecurity;

impl AdmissionPlugin for PodSecurity {
    fn name(&self) -> &'static str {
        "PodSecurity"
    }

    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        let is_main = write.target.scope == WriteScope::Main;
        write.has_object()
            && match write.is_of("pods") {
                true => is_main || matches!(write.subresource(), "ephemeralcontainers" | "resize"),
                false => is_main && (write.is_of(NAMESPACES) || template_of(write).is_some()),
            }
    }

    fn validate(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        object: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        let Some(object) = object else { return Ok(()) };
        if write.is_of(NAMESPACES) {
            return check_namespace(engine, write, object, warnings);
        }
        let Some(namespace) = engine.store.get(NAMESPACES, write.namespace()) else { return Ok(()) };
        // Most namespaces have no label of this plugin, and then nothing is checked.
        let policy = Policy::of(|key| namespace.facts.label(key));
        if policy.checks_nothing() {
            return Ok(());
        }
        let checked = match template_of(write) {
            Some(pointer) => object.pointer(pointer).filter(|template| !template.is_null()),
            None if write.old.is_some_and(|old| !changes_images(object, old)) => None,
            None => Some(object),
        };
        match checked {
            Some(pod) => check_pod(engine, write, &policy, object, pod, warnings),
            None => Ok(()),
        }
    }
}

/// Returns where the written kind has its template of pods.
fn template_of(write: &AdmissionWrite<'_>) -> Option<&'static str> {
    TEMPLATES.iter().find(|(store, _)| write.is_of(store)).map(|(_, pointer)| *pointer)
}

/// Checks a pod, or the template of one: violations of `enforce` refuse a pod, those of `audit` and `warn` are reported.
fn check_pod(
    engine: &ApiEngine,
    write: &AdmissionWrite<'_>,
    policy: &Policy,
    object: &Value,
    pod: &Value,
    warnings: &mut Vec<String>,
) -> Result<(), RequestError> {
    let checked = CheckedPod::of(pod);
    let latest = u32::from(engine.settings.version.minor());
    let state = &write.request.state;
    if let Some(faults) = policy.faults_text() {
        state.annotate("pod-security.kubernetes.io/error".to_owned(), format!("Failed to parse policy: {faults}"));
    }
    let would_violate = |level: LevelVersion| {
        let violations = evaluate(level, latest, &checked);
        (!violations.is_empty()).then(|| format!("would violate PodSecurity \"{level}\": {}", violations.details()))
    };
    let mut refusal = None;
    if write.is_of("pods") {
        state.annotate("pod-security.kubernetes.io/enforce-policy".to_owned(), policy.enforce.to_string());
        let violations = evaluate(policy.enforce, latest, &checked);
        if !violations.is_empty() {
            let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, violations.details());
            refusal = Some(write.forbidden(object, why));
        }
    }
    if let Some(text) = would_violate(policy.audit) {
        state.annotate("pod-security.kubernetes.io/audit-violations".to_owned(), text);
    }
    match refusal {
        Some(refusal) => Err(refusal),
        None => {
            warnings.extend(would_violate(policy.warn));
            Ok(())
        }
    }
}

/// Returns what a pod violates: the checks of the baseline level, then those of the restricted one.
fn evaluate(level: LevelVersion, latest: u32, pod: &CheckedPod<'_>) -> Violations {
    let minor = level.minor(latest);
    let mut violations = Violations::default();
    if level.level == Level::Privileged {
        return violations;
    }
    for check in baseline::CHECKS {
        let is_overridden =
            level.level == Level::Restricted && check.overridden_since.is_some_and(|since| minor >= since);
        if minor >= check.since && !is_overridden {
            violations.add((check.run)(pod, minor));
        }
    }
    for check in restricted::CHECKS.iter().filter(|check| level.level == Level::Restricted && minor >= check.since) {
        violations.add((check.run)(pod, minor));
    }
    violations
}

/// Returns whether an update adds containers or changes images: nothing else that the checks read can change.
fn changes_images(new: &Value, old: &Value) -> bool {
    let images = |pod: &Value, list: &str| -> Vec<String> {
        list_at(pod, &["spec", list]).iter().map(|container| text_at(container, &["image"]).to_owned()).collect()
    };
    let ephemeral = |pod: &Value| -> BTreeMap<String, String> {
        let containers = list_at(pod, &["spec", "ephemeralContainers"]).iter();
        containers.map(|it| (text_at(it, &["name"]).to_owned(), text_at(it, &["image"]).to_owned())).collect()
    };
    let old_ephemeral = ephemeral(old);
    images(new, "containers") != images(old, "containers")
        || images(new, "initContainers") != images(old, "initContainers")
        || ephemeral(new).iter().any(|(name, image)| old_ephemeral.get(name) != Some(image))
}

/// Requires valid labels, and warns about existing pods that violate a tightened level.
fn check_namespace(
    engine: &ApiEngine,
    write: &AdmissionWrite<'_>,
    namespace: &Value,
    warnings: &mut Vec<String>,
) -> Result<(), RequestError> {
    let policy_of = |namespace: &Value| {
        let labels = object::metadata(namespace).get("labels").cloned().unwrap_or_default();
        Policy::of(|key| labels.get(key).and_then(Value::as_str))
    };
    let new = policy_of(namespace);
    let old = write.old.map(policy_of);
    if !new.faults.is_empty() && old.as_ref().is_none_or(|old| old.faults != new.faults) {
        return Err(write.target.invalid(&new.faults).into());
    }
    let Some(old) = old else { return Ok(()) };
    let is_relaxed = new.enforce.version == old.enforce.version && new.enforce.level <= old.enforce.level;
    if new.enforce == old.enforce || new.enforce.level == Level::Privileged || is_relaxed {
        return Ok(());
    }
    warnings.extend(existing_violations(engine, object::text(namespace, "name"), new.enforce));
    Ok(())
}

/// Returns the warnings about the pods of a namespace that violate a level. Pods that violate it in the same way share one.
fn existing_violations(engine: &ApiEngine, namespace: &str, level: LevelVersion) -> Vec<String> {
    let prefix = format!("{namespace}/");
    let span = Span { prefix: &prefix, ..Span::default() };
    let page = engine.store.list("pods", span, At::Latest, |_, _| true);
    let pods = page.map(|page| page.records).unwrap_or_default();
    let total = pods.len();
    // One pod of each controller comes first: its others are alike.
    let mut controllers = HashSet::new();
    let (mut first, mut alike) = (Vec::new(), Vec::new());
    for pod in pods.iter().map(|record| record.value()) {
        let owners = list_at(&pod, &["metadata", "ownerReferences"]).iter();
        let controller = owners.into_iter().find(|owner| owner["controller"] == true);
        let is_new = controller.is_none_or(|owner| controllers.insert(text_at(owner, &["uid"]).to_owned()));
        if is_new { first.push(pod) } else { alike.push(pod) }
    }
    let mut counts: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for pod in first.iter().chain(&alike).take(MAX_CHECKED_PODS) {
        let violations = evaluate(level, u32::from(engine.settings.version.minor()), &CheckedPod::of(pod));
        if !violations.is_empty() {
            let name = object::text(pod, "name");
            let (least, count) = counts.entry(violations.reasons()).or_insert_with(|| (name.to_owned(), 0));
            *count += 1;
            if name < least.as_str() {
                *least = name.to_owned();
            }
        }
    }
    let mut warnings = Vec::new();
    if total > MAX_CHECKED_PODS {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {MAX_CHECKED_PODS} of {total} existing pods"
        ));
    }
    if !counts.is_empty() {
        warnings.push(format!(
            "existing pods in namespace \"{namespace}\" violate the new PodSecurity enforce level \"{level}\""
        ));
    }
    let mut lines: Vec<String> = counts
        .into_iter()
        .map(|(reasons, (name, count))| match count {
            1 => format!("{name}: {reasons}"),
            2 => format!("{name} (and 1 other pod): {reasons}"),
            count => format!("{name} (and {} other pods): {reasons}", count - 1),
        })
        .collect();
    lines.sort_unstable();
    warnings.extend(lines);
    warnings
}
