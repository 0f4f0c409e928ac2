//! MutatingWebhookConfiguration and ValidatingWebhookConfiguration: validation (AWH-003).

use std::collections::HashSet;

use evenkeel_core::LabelSelector;
use http::Uri;
use serde_json::Value;

use crate::field::FieldError;
use crate::meta::{dns_1035_label, dns_subdomain};

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const URL_FORM: &str = "; desired format: https://host[/path]";

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(super) fn validate(object: &Value, mutating: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut names = HashSet::new();
    for (index, webhook) in list(object, "webhooks").iter().enumerate() {
        let path = format!("webhooks[{index}]");
        webhook_fields(webhook, mutating, &path, &mut errors);
        review_versions(
            list(webhook, "admissionReviewVersions"),
            &format!("{path}.admissionReviewVersions"),
            &mut errors,
        );
        let name = text(webhook, "name").unwrap_or_default();
        if !name.is_empty() && !names.insert(name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), &name.into()));
        }
    }
    errors
}

fn webhook_fields(webhook: &Value, mutating: bool, path: &str, errors: &mut Vec<FieldError>) {
    full_name(text(webhook, "name").unwrap_or_default(), &format!("{path}.name"), errors);
    for (index, rule) in list(webhook, "rules").iter().enumerate() {
        self::rule(rule, &format!("{path}.rules[{index}]"), errors);
    }
    let mut one_of = |key: &str, known: &[&str]| {
        if let Some(value) = text(webhook, key).filter(|value| !known.contains(value)) {
            errors.push(FieldError::not_supported(format!("{path}.{key}"), &value.into(), known));
        }
    };
    one_of("failurePolicy", &["Fail", "Ignore"]);
    one_of("matchPolicy", &["Equivalent", "Exact"]);
    one_of("sideEffects", &SIDE_EFFECTS);
    if text(webhook, "sideEffects").is_none() {
        let detail = format!("must specify one of {}", SIDE_EFFECTS.join(", "));
        errors.push(FieldError::required(format!("{path}.sideEffects"), detail));
    }
    if let Some(seconds) = webhook.get("timeoutSeconds").filter(|seconds| !seconds.is_null())
        && !seconds.as_i64().is_some_and(|seconds| (1..=30).contains(&seconds))
    {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(format!("{path}.timeoutSeconds"), seconds, detail));
    }
    if let Some(value) =
        text(webhook, "reinvocationPolicy").filter(|value| mutating && !["IfNeeded", "Never"].contains(value))
    {
        let field = format!("{path}.reinvocationPolicy");
        errors.push(FieldError::not_supported(field, &value.into(), &["IfNeeded", "Never"]));
    }
    for key in ["namespaceSelector", "objectSelector"] {
        if let Some(selector) = webhook.get(key).filter(|selector| !selector.is_null())
            && let Err(error) = LabelSelector::from_json(selector)
        {
            errors.push(FieldError::invalid(format!("{path}.{key}"), selector, error.to_string()));
        }
    }
    let nothing = Value::Null;
    client_config(webhook.get("clientConfig").unwrap_or(&nothing), &format!("{path}.clientConfig"), errors);
}

/// A name needs at least three segments.
fn full_name(name: &str, path: &str, errors: &mut Vec<FieldError>) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    for fault in dns_subdomain(name) {
        errors.push(FieldError::invalid(path, &name.into(), fault));
    }
    if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(path, &name.into(), detail));
    }
}

fn review_versions(versions: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    let known = REVIEW_VERSIONS.join(", ");
    if versions.is_empty() {
        errors.push(FieldError::required(path, format!("must specify one of {known}")));
        return;
    }
    let mut seen = HashSet::new();
    for (index, version) in versions.iter().enumerate() {
        let version = version.as_str().unwrap_or_default();
        let field = format!("{path}[{index}]");
        if !seen.insert(version) {
            errors.push(FieldError::invalid(field, &version.into(), "duplicate version"));
            continue;
        }
        for fault in dns_1035_label(version) {
            errors.push(FieldError::invalid(field.as_str(), &version.into(), fault));
        }
    }
    if !seen.iter().any(|version| REVIEW_VERSIONS.contains(version)) {
        let detail = format!("must include at least one of {known}");
        errors.push(FieldError::invalid(path, &Value::from(versions.to_vec()), detail));
    }
}

/// Validates a rule of a webhook or a policy.
pub(crate) fn rule(rule: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let with_wildcard = |errors: &mut Vec<FieldError>, key: &str, what: &str| {
        let values = list(rule, key);
        let field = format!("{path}.{key}");
        if values.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if values.len() > 1 && values.iter().any(|value| value == "*") {
            let detail = format!("if '*' is present, must not specify other {what}");
            errors.push(FieldError::invalid(field, &Value::from(values.to_vec()), detail));
        }
    };
    with_wildcard(errors, "operations", "operations");
    for (index, operation) in list(rule, "operations").iter().enumerate() {
        if !OPERATIONS.contains(&operation.as_str().unwrap_or_default()) {
            errors.push(FieldError::not_supported(format!("{path}.operations[{index}]"), operation, &OPERATIONS));
        }
    }
    with_wildcard(errors, "apiGroups", "API groups");
    with_wildcard(errors, "apiVersions", "API versions");
    for (index, version) in list(rule, "apiVersions").iter().enumerate() {
        if version == "" {
            errors.push(FieldError::required(format!("{path}.apiVersions[{index}]"), ""));
        }
    }
    resources(list(rule, "resources"), &format!("{path}.resources"), errors);
    if let Some(scope) = text(rule, "scope").filter(|scope| !["*", "Cluster", "Namespaced"].contains(scope)) {
        errors.push(FieldError::not_supported(format!("{path}.scope"), &scope.into(), &["*", "Cluster", "Namespaced"]));
    }
}

/// Refuses patterns of resources that others already contain.
fn resources(patterns: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    if patterns.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let (mut whole, mut parts) = (HashSet::new(), HashSet::new());
    let mut has_plain = false;
    for (index, pattern) in patterns.iter().enumerate() {
        let pattern = pattern.as_str().unwrap_or_default();
        let field = format!("{path}[{index}]");
        if pattern.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let Some((resource, part)) = pattern.split_once('/') else {
            has_plain = pattern != "*";
            continue;
        };
        if whole.contains(resource) {
            let detail = format!("if '{resource}/*' is present, must not specify {pattern}");
            errors.push(FieldError::invalid(field.as_str(), &pattern.into(), detail));
        }
        if parts.contains(part) {
            let detail = format!("if '*/{part}' is present, must not specify {pattern}");
            errors.push(FieldError::invalid(field.as_str(), &pattern.into(), detail));
        }
        if part == "*" {
            whole.insert(resource);
        }
        if resource == "*" {
            parts.insert(part);
        }
    }
    let all = Value::from(patterns.to_vec());
    if patterns.len() > 1 && patterns.iter().any(|pattern| pattern == "*/*") {
        errors.push(FieldError::invalid(path, &all, "if '*/*' is present, must not specify other resources"));
    }
    if has_plain && patterns.iter().any(|pattern| pattern == "*") {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path, &all, detail));
    }
}

/// Validates the receiver of a webhook, of admission or of conversion.
pub(crate) fn client_config(config: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let service = config.get("service").filter(|service| !service.is_null());
    match (text(config, "url"), service) {
        (None, None) | (Some(_), Some(_)) => {
            errors.push(FieldError::required(path, "exactly one of url or service is required"));
        }
        (Some(url), None) => self::url(url, &format!("{path}.url"), errors),
        (None, Some(service)) => self::service(service, &format!("{path}.service"), errors),
    }
}

fn url(url: &str, path: &str, errors: &mut Vec<FieldError>) {
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let Ok(parsed) = rest.parse::<Uri>() else {
        let detail = format!("url must be a valid URL: parse {url:?}: invalid URL{URL_FORM}");
        errors.push(FieldError::required(path, detail));
        return;
    };
    let scheme = parsed.scheme_str().unwrap_or_default();
    let mut refuse = |value: &str, detail: String| errors.push(FieldError::invalid(path, &value.into(), detail));
    if scheme != "https" {
        refuse(scheme, format!("'https' is the only allowed URL scheme{URL_FORM}"));
    }
    if parsed.host().unwrap_or_default().is_empty() {
        refuse("", format!("host must be specified{URL_FORM}"));
    }
    if let Some((user, _)) = parsed.authority().and_then(|authority| authority.as_str().rsplit_once('@')) {
        refuse(user, "user information is not permitted in the URL".to_owned());
    }
    if !fragment.is_empty() {
        refuse(fragment, "fragments are not permitted in the URL".to_owned());
    }
    if let Some(query) = parsed.query().filter(|query| !query.is_empty()) {
        refuse(query, "query parameters are not permitted in the URL".to_owned());
    }
}

fn service(service: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for key in ["name", "namespace"] {
        if text(service, key).unwrap_or_default().is_empty() {
            errors.push(FieldError::required(format!("{path}.{key}"), ""));
        }
    }
    let port = service.get("port").filter(|port| !port.is_null());
    if let Some(port) = port.filter(|port| !port.as_i64().is_some_and(|port| (1..=65535).contains(&port))) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(format!("{path}.port"), port, detail));
    }
    let field = format!("{path}.path");
    let url_path = text(service, "path").unwrap_or_default();
    let mut refuse = |detail: String| errors.push(FieldError::invalid(field.as_str(), &url_path.into(), detail));
    match url_path {
        "" | "/" => return,
        "//" => return refuse("segment[0] may not be empty".to_owned()),
        _ => {}
    }
    if !url_path.starts_with('/') {
        refuse("must start with a '/'".to_owned());
    }
    let segments = url_path.get(1..).unwrap_or_default();
    for (index, segment) in segments.strip_suffix('/').unwrap_or(segments).split('/').enumerate() {
        if segment.is_empty() {
            refuse(format!("segment[{index}] may not be empty"));
            continue;
        }
        for fault in dns_subdomain(segment) {
            refuse(format!("segment[{index}]: {fault}"));
        }
    }
}
