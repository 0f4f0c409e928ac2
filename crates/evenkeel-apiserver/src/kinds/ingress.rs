//! Validation of Ingresses.

use serde_json::Value;

use super::cidr;
use super::fill::{at, list_at, text_at};
use super::podcheck::{in_port_range, port_name};
use crate::field::{FieldError, is_full};
use crate::meta::{dns_label, dns_subdomain, path_segment, refuse, wildcard_subdomain};

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const PATH_TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
const BAD_SEQUENCES: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const BAD_ENDS: [&str; 2] = ["/..", "/."];

pub(super) fn validate_create(ingress: &Value) -> Vec<FieldError> {
    let mut errors = validate(ingress, None);
    let annotation = at(ingress, &["metadata", "annotations", CLASS_ANNOTATION]);
    let class = at(ingress, &["spec", "ingressClassName"]);
    if let (Some(annotation), Some(class)) = (annotation, class)
        && annotation != class
    {
        errors.push(FieldError::invalid(
            format!("annotations.{CLASS_ANNOTATION}"),
            annotation,
            "must match `ingressClassName` when both are specified",
        ));
    }
    errors
}

/// Validates an Ingress. What the old one has that is invalid may stay.
pub(super) fn validate(ingress: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(spec) = at(ingress, &["spec"]) else { return errors };
    let rules = list_at(spec, &["rules"]);
    let backend = at(spec, &["defaultBackend"]);
    if rules.is_empty() && backend.is_none() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid("spec", at(spec, &["rules"]).unwrap_or(&Value::Null), detail));
    }
    if let Some(backend) = backend {
        validate_backend(&mut errors, backend, "spec.defaultBackend");
    }
    for (index, rule) in rules.iter().enumerate() {
        if is_full(&errors) {
            return errors;
        }
        let allows_wildcards = old.is_some_and(has_invalid_wildcard_rule);
        validate_rule(&mut errors, rule, &format!("spec.rules[{index}]"), allows_wildcards);
    }
    let allows_secrets = old.is_some_and(has_invalid_secret_name);
    for (index, tls) in list_at(spec, &["tls"]).iter().enumerate() {
        for (number, host) in list_at(tls, &["hosts"]).iter().enumerate() {
            let host = host.as_str().unwrap_or_default();
            refuse(&mut errors, format_args!("spec.tls[{index}].hosts[{number}]"), host, host_faults(host));
        }
        let secret = text_at(tls, &["secretName"]);
        if !secret.is_empty() && !allows_secrets {
            refuse(&mut errors, format_args!("spec.tls[{index}].secretName"), secret, dns_subdomain(secret));
        }
    }
    if let Some(class) = at(spec, &["ingressClassName"]).and_then(Value::as_str) {
        refuse(&mut errors, "spec.ingressClassName", class, dns_subdomain(class));
    }
    errors
}

fn has_invalid_secret_name(old: &Value) -> bool {
    let secrets = list_at(old, &["spec", "tls"]).iter().map(|tls| text_at(tls, &["secretName"]));
    secrets.filter(|secret| !secret.is_empty()).any(|secret| !dns_subdomain(secret).is_empty())
}

fn has_invalid_wildcard_rule(old: &Value) -> bool {
    list_at(old, &["spec", "rules"]).iter().any(|rule| {
        let mut errors = Vec::new();
        if text_at(rule, &["host"]).contains('*') {
            validate_rule_value(&mut errors, rule, "");
        }
        !errors.is_empty()
    })
}

fn host_faults(host: &str) -> Vec<String> {
    if host.contains('*') { wildcard_subdomain(host) } else { dns_subdomain(host) }
}

fn validate_rule(errors: &mut Vec<FieldError>, rule: &Value, path: &str, allows_wildcards: bool) {
    let host = text_at(rule, &["host"]);
    if !host.is_empty() {
        let path = format!("{path}.host");
        if cidr::is_address(host) {
            errors.push(FieldError::invalid(&path, &host.into(), "must be a DNS name, not an IP address"));
        }
        refuse(errors, &path, host, host_faults(host));
    }
    if !(host.contains('*') && allows_wildcards) {
        validate_rule_value(errors, rule, path);
    }
}

fn validate_rule_value(errors: &mut Vec<FieldError>, rule: &Value, path: &str) {
    let Some(http) = at(rule, &["http"]) else { return };
    let paths = list_at(http, &["paths"]);
    if paths.is_empty() {
        errors.push(FieldError::required(format!("{path}.http.paths"), ""));
    }
    for (index, each) in paths.iter().enumerate() {
        if is_full(errors) {
            return;
        }
        validate_path(errors, each, &format!("{path}.http.paths[{index}]"));
    }
}

fn validate_path(errors: &mut Vec<FieldError>, path: &Value, at_path: &str) {
    let Some(kind) = at(path, &["pathType"]) else {
        return errors.push(FieldError::required(format!("{at_path}.pathType"), "pathType must be specified"));
    };
    let text = text_at(path, &["path"]);
    let mut refuse_path = |detail: String| {
        errors.push(FieldError::invalid(format!("{at_path}.path"), &text.into(), detail));
    };
    let absolute = "must be an absolute path".to_owned();
    match kind.as_str().unwrap_or_default() {
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                refuse_path(absolute);
            }
            for part in BAD_SEQUENCES.iter().filter(|part| text.contains(**part)) {
                refuse_path(format!("must not contain '{part}'"));
            }
            for end in BAD_ENDS.iter().filter(|end| text.ends_with(**end)) {
                refuse_path(format!("cannot end with '{end}'"));
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !text.starts_with('/') {
                refuse_path(absolute);
            }
        }
        _ => errors.push(FieldError::not_supported(format!("{at_path}.pathType"), kind, &PATH_TYPES)),
    }
    validate_backend(errors, path.get("backend").unwrap_or(&Value::Null), &format!("{at_path}.backend"));
}

fn validate_backend(errors: &mut Vec<FieldError>, backend: &Value, path: &str) {
    let mut refuse_backend = |detail: &str| errors.push(FieldError::invalid(path, &"".into(), detail));
    match (at(backend, &["resource"]), at(backend, &["service"])) {
        (Some(_), Some(_)) => refuse_backend("cannot set both resource and service backends"),
        (None, None) => refuse_backend("resource or service backend is required"),
        (Some(resource), None) => validate_reference(errors, resource, &format!("{path}.resource")),
        (None, Some(service)) => {
            let name = text_at(service, &["name"]);
            if name.is_empty() {
                errors.push(FieldError::required(format!("{path}.service.name"), ""));
            } else {
                refuse(errors, format_args!("{path}.service.name"), name, dns_label(name));
            }
            let port = text_at(service, &["port", "name"]);
            let number = at(service, &["port", "number"]).and_then(Value::as_i64).unwrap_or_default();
            match (port, number) {
                ("", 0) => errors.push(FieldError::required(path, "port name or number is required")),
                ("", number) => in_port_range(errors, number, format_args!("{path}.service.port.number")),
                (port, 0) => refuse(errors, format_args!("{path}.service.port.name"), port, port_name(port)),
                _ => errors.push(FieldError::invalid(path, &"".into(), "cannot set both port name & port number")),
            }
        }
    }
}

fn validate_reference(errors: &mut Vec<FieldError>, reference: &Value, path: &str) {
    if let Some(group) = at(reference, &["apiGroup"]).and_then(Value::as_str) {
        refuse(errors, format_args!("{path}.apiGroup"), group, dns_subdomain(group));
    }
    for key in ["kind", "name"] {
        let text = text_at(reference, &[key]);
        if text.is_empty() {
            errors.push(FieldError::required(format!("{path}.{key}"), ""));
        } else {
            refuse(errors, format_args!("{path}.{key}"), text, path_segment(text));
        }
    }
}
