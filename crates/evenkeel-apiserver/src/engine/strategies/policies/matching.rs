//! Checks what both kinds of policies, and both kinds of bindings, have: rules, selectors and parameters.

use std::collections::HashSet;

use evenkeel_core::LabelSelector;
use serde_json::Value;

use super::expressions::ExpressionCheck;
use super::{list, set, text};
use crate::engine::admission::policies::environment::{ExpressionScope, environment};
use crate::field::FieldError;
use crate::kinds::webhook_configurations::rule;
use crate::meta::{dns_1035_label, dns_subdomain, path_segment, refuse};

/// The operations of mutating policies (MUP-006). A delete has no object to change.
const MUTATING_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

/// Checks the fields of a policy that both kinds have, and its match conditions. Returns the check for its other
/// expressions.
pub(super) fn check_policy<'a>(
    spec: &'a Value,
    old: &'a Value,
    errors: &'a mut Vec<FieldError>,
) -> ExpressionCheck<'a> {
    one_of(spec, "failurePolicy", "spec", &["Fail", "Ignore"], errors);
    if let Some(kind) = set(spec, "paramKind") {
        check_param_kind(kind, errors);
    }
    match set(spec, "matchConstraints") {
        None => errors.push(FieldError::required("spec.matchConstraints", "")),
        Some(constraints) => {
            check_match_resources(constraints, "spec.matchConstraints", errors);
            if list(constraints, "resourceRules").is_empty() {
                errors.push(FieldError::required("spec.matchConstraints.resourceRules", ""));
            }
        }
    }
    let has_params = set(spec, "paramKind").is_some();
    let environment = environment(ExpressionScope { has_params, has_authorizer: true });
    let mut check = ExpressionCheck::new(environment, old, errors);
    let unchanged = ["paramKind", "matchConditions"].iter().all(|key| set(spec, key) == set(old, key));
    if old.is_null() || !unchanged {
        check.conditions(spec, "spec");
    }
    check
}

/// Checks the fields of a binding that both kinds have.
pub(super) fn check_binding(spec: &Value, errors: &mut Vec<FieldError>) {
    let policy = text(spec, "policyName");
    if policy.is_empty() {
        errors.push(FieldError::required("spec.policyName", ""));
    } else {
        refuse(errors, "spec.policyName", policy, dns_subdomain(policy));
    }
    if let Some(reference) = set(spec, "paramRef") {
        check_param_ref(reference, errors);
    }
    if let Some(resources) = set(spec, "matchResources") {
        check_match_resources(resources, "spec.matchResources", errors);
    }
}

/// Refuses operations that a mutating policy cannot match.
pub(super) fn check_operations(spec: &Value, key: &str, errors: &mut Vec<FieldError>) {
    let rules = set(spec, key).map_or(&[][..], |resources| list(resources, "resourceRules"));
    for operation in rules.iter().flat_map(|rule| list(rule, "operations")) {
        if !MUTATING_OPERATIONS.iter().any(|known| operation == known) {
            let field = format!("spec.{key}.resourceRules.operations");
            errors.push(FieldError::not_supported(field, operation, &MUTATING_OPERATIONS));
        }
    }
}

pub(super) fn one_of(holder: &Value, key: &str, path: &str, known: &[&str], errors: &mut Vec<FieldError>) {
    let field = format!("{path}.{key}");
    match set(holder, key) {
        None => errors.push(FieldError::required(field, "")),
        Some(value) if value == "" => errors.push(FieldError::required(field, "")),
        Some(value) if !known.iter().any(|known| value == known) => {
            errors.push(FieldError::not_supported(field, value, known));
        }
        Some(_) => {}
    }
}

fn check_match_resources(resources: &Value, path: &str, errors: &mut Vec<FieldError>) {
    one_of(resources, "matchPolicy", path, &["Equivalent", "Exact"], errors);
    for key in ["namespaceSelector", "objectSelector"] {
        if let Some(selector) = set(resources, key)
            && let Err(error) = LabelSelector::from_json(selector)
        {
            errors.push(FieldError::invalid(format!("{path}.{key}"), selector, error.to_string()));
        }
    }
    for key in ["resourceRules", "excludeResourceRules"] {
        for (index, named) in list(resources, key).iter().enumerate() {
            let path = format!("{path}.{key}[{index}]");
            let mut names = HashSet::new();
            for (index, name) in list(named, "resourceNames").iter().enumerate() {
                let (name, path) = (name.as_str().unwrap_or_default(), format!("{path}.resourceNames[{index}]"));
                refuse(errors, &path, name, path_segment(name));
                if !names.insert(name) {
                    errors.push(FieldError::duplicate(path, &Value::from(name)));
                }
            }
            rule(named, &path, errors);
        }
    }
}

fn check_param_kind(kind: &Value, errors: &mut Vec<FieldError>) {
    let (api_version, name) = (text(kind, "apiVersion"), text(kind, "kind"));
    let field = "spec.paramKind.apiVersion";
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let mut invalid =
        |value: &str, detail: String| errors.push(FieldError::invalid(field, &Value::from(value), detail));
    if version.contains('/') {
        invalid(api_version, format!("unexpected GroupVersion string: {api_version}"));
    } else if !api_version.is_empty() {
        let faults = dns_subdomain(group);
        if !group.is_empty() && !faults.is_empty() {
            invalid(group, faults.join(","));
        }
        let faults = dns_1035_label(version);
        if version.is_empty() {
            invalid(api_version, "version must be specified".to_owned());
        } else if !faults.is_empty() {
            invalid(version, faults.join(","));
        }
    }
    if api_version.is_empty() {
        errors.push(FieldError::required(field, ""));
    }
    let field = "spec.paramKind.kind";
    let faults = dns_1035_label(&name.to_lowercase());
    if name.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if !faults.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", faults.join(","));
        errors.push(FieldError::invalid(field, &Value::from(name), detail));
    }
}

fn check_param_ref(reference: &Value, errors: &mut Vec<FieldError>) {
    let (name, selector) = (text(reference, "name"), set(reference, "selector"));
    let exclusive = "name and selector are mutually exclusive";
    if !name.is_empty() {
        refuse(errors, "spec.paramRef.name", name, path_segment(name));
        if selector.is_some() {
            errors.push(FieldError::forbidden("spec.paramRef.name", exclusive));
        }
    }
    if let Some(selector) = selector {
        if let Err(error) = LabelSelector::from_json(selector) {
            errors.push(FieldError::invalid("spec.paramRef.selector", selector, error.to_string()));
        }
        if !name.is_empty() {
            errors.push(FieldError::forbidden("spec.paramRef.selector", exclusive));
        }
    }
    if name.is_empty() && selector.is_none() {
        errors.push(FieldError::required("spec.paramRef", "one of name or selector must be specified"));
    }
    // The order of upstream's message.
    one_of(reference, "parameterNotFoundAction", "spec.paramRef", &["Deny", "Allow"], errors);
}
