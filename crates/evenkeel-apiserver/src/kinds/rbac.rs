//! Roles and their bindings.

use serde_json::Value;

use crate::field::FieldError;
use crate::meta::{dns_subdomain, path_segment, refuse};

use super::check::{immutable, label_selector};
use super::fill::{Constant::Text, Object, ensure, fill, items, list_at, text, text_at, zero};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn default_role(object: &mut Object) {
    object.entry("rules").or_insert(Value::Null);
}

pub(super) fn default_binding(object: &mut Object) {
    if let Some(reference) = ensure(object, "roleRef") {
        fill(reference, &[zero("apiGroup", Text(GROUP))]);
    }
    for subject in items(object, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            fill(subject, &[zero("apiGroup", Text(GROUP))]);
        }
    }
}

pub(super) fn validate_role(object: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, rule) in list_at(object, &["rules"]).iter().enumerate() {
        let path = format!("rules[{index}]");
        let has = |key| !list_at(rule, &[key]).is_empty();
        if !has("verbs") {
            errors.push(FieldError::required(format!("{path}.verbs"), "verbs must contain at least one value"));
        }
        if has("nonResourceURLs") {
            let mut refuse = |detail: &str| {
                errors.push(FieldError::invalid(format!("{path}.nonResourceURLs"), &rule["nonResourceURLs"], detail));
            };
            if namespaced {
                refuse("namespaced rules cannot apply to non-resource URLs");
            }
            if has("apiGroups") || has("resources") || has("resourceNames") {
                refuse("rules cannot apply to both regular resources and non-resource URLs");
            }
            continue;
        }
        if !has("apiGroups") {
            let detail = "resource rules must supply at least one api group";
            errors.push(FieldError::required(format!("{path}.apiGroups"), detail));
        }
        if !has("resources") {
            let detail = "resource rules must supply at least one resource";
            errors.push(FieldError::required(format!("{path}.resources"), detail));
        }
    }
    if let Some(aggregation) = object.get("aggregationRule").filter(|aggregation| aggregation.is_object()) {
        validate_aggregation(&mut errors, aggregation);
    }
    errors
}

fn validate_aggregation(errors: &mut Vec<FieldError>, aggregation: &Value) {
    const SELECTORS: &str = "aggregationRule.clusterRoleSelectors";
    let selectors = list_at(aggregation, &["clusterRoleSelectors"]);
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required(SELECTORS, detail));
    }
    for (index, selector) in selectors.iter().enumerate() {
        label_selector(errors, selector, &format!("{SELECTORS}[{index}]"));
    }
}

pub(super) fn validate_binding(object: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let role = |key| text_at(object, &["roleRef", key]);
    if role("apiGroup") != GROUP {
        let value = Value::from(role("apiGroup"));
        errors.push(FieldError::not_supported("roleRef.apiGroup", &value, &[GROUP]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&role("kind")) {
        errors.push(FieldError::not_supported("roleRef.kind", &Value::from(role("kind")), kinds));
    }
    match role("name") {
        "" => errors.push(FieldError::required("roleRef.name", "")),
        name => refuse(&mut errors, "roleRef.name", name, path_segment(name)),
    }
    for (index, subject) in list_at(object, &["subjects"]).iter().enumerate() {
        validate_subject(&mut errors, subject, namespaced, &format!("subjects[{index}]"));
    }
    errors
}

fn validate_subject(errors: &mut Vec<FieldError>, subject: &Value, namespaced: bool, path: &str) {
    let name = text_at(subject, &["name"]);
    if name.is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    let group = text_at(subject, &["apiGroup"]);
    let mut expect_group = |expected: &str| {
        if group != expected {
            let path = format!("{path}.apiGroup");
            errors.push(FieldError::not_supported(path, &Value::from(group), &[expected]));
        }
    };
    match text_at(subject, &["kind"]) {
        "User" | "Group" => expect_group(GROUP),
        "ServiceAccount" => {
            expect_group("");
            if !name.is_empty() {
                refuse(errors, format_args!("{path}.name"), name, dns_subdomain(name));
            }
            if !namespaced && text_at(subject, &["namespace"]).is_empty() {
                errors.push(FieldError::required(format!("{path}.namespace"), ""));
            }
        }
        kind => errors.push(FieldError::not_supported(
            format!("{path}.kind"),
            &Value::from(kind),
            &["ServiceAccount", "User", "Group"],
        )),
    }
}

/// Requires that the role of a binding is unchanged.
pub(super) fn validate_binding_update(new: &Value, old: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut errors = validate_binding(new, namespaced);
    immutable(&mut errors, new, old, &["roleRef"]);
    errors
}
