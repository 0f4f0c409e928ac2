//! Validation of FlowSchemas and PriorityLevelConfigurations.

use serde_json::{Value, json};

use super::fill::{at, list_at, text_at};
use crate::field::{FieldError, is_full};
use crate::meta::{dns_label, dns_subdomain, refuse};

const MAX_PRECEDENCE: i64 = 10_000;
const MAX_QUEUES: i64 = 10_000_000;
/// The bits of the hash by which requests are dealt to queues.
const MAX_HASH_BITS: u32 = 60;
const EXEMPT: &str = "exempt";
const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
const DISTINGUISHERS: [&str; 2] = ["ByNamespace", "ByUser"];
/// The kinds of subjects, each with its field and the text of its requirement.
const SUBJECTS: [(&str, &str); 3] = [("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];

pub(super) fn validate_flow_schema(schema: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(spec) = at(schema, &["spec"]) else { return errors };
    let precedence = at(spec, &["matchingPrecedence"]).and_then(Value::as_i64).unwrap_or_default();
    let mut refuse_precedence = |detail: String| {
        errors.push(FieldError::invalid("spec.matchingPrecedence", &precedence.into(), detail));
    };
    match precedence {
        ..=0 => refuse_precedence("must be a positive value".to_owned()),
        1 if text_at(schema, &["metadata", "name"]) != EXEMPT => {
            refuse_precedence("only the schema named 'exempt' may have matchingPrecedence 1".to_owned());
        }
        precedence if precedence > MAX_PRECEDENCE => {
            refuse_precedence(format!("must not be greater than {MAX_PRECEDENCE}"));
        }
        _ => {}
    }
    if let Some(method) = at(spec, &["distinguisherMethod"])
        && !DISTINGUISHERS.contains(&text_at(method, &["type"]))
    {
        errors.push(FieldError::not_supported("spec.distinguisherMethod.type", method, &DISTINGUISHERS));
    }
    let path = "spec.priorityLevelConfiguration.name";
    match text_at(spec, &["priorityLevelConfiguration", "name"]) {
        "" => errors.push(FieldError::required(path, "must reference a priority level")),
        name => refuse(&mut errors, path, name, dns_subdomain(name)),
    }
    for (index, rule) in list_at(spec, &["rules"]).iter().enumerate() {
        if is_full(&errors) {
            break;
        }
        validate_rule(&mut errors, rule, &format!("spec.rules[{index}]"));
    }
    errors
}

fn validate_rule(errors: &mut Vec<FieldError>, rule: &Value, path: &str) {
    let subjects = list_at(rule, &["subjects"]);
    if subjects.is_empty() {
        errors.push(FieldError::required(format!("{path}.subjects"), "subjects must contain at least one value"));
    }
    for (index, subject) in subjects.iter().enumerate() {
        validate_subject(errors, subject, &format!("{path}.subjects[{index}]"));
    }
    let (resources, urls) = (list_at(rule, &["resourceRules"]), list_at(rule, &["nonResourceRules"]));
    if resources.is_empty() && urls.is_empty() {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(FieldError::required(path, detail));
    }
    for (index, rule) in resources.iter().enumerate() {
        validate_resource_rule(errors, rule, &format!("{path}.resourceRules[{index}]"));
    }
    for (index, rule) in urls.iter().enumerate() {
        validate_url_rule(errors, rule, &format!("{path}.nonResourceRules[{index}]"));
    }
}

fn validate_subject(errors: &mut Vec<FieldError>, subject: &Value, path: &str) {
    let kind = text_at(subject, &["kind"]);
    let Some((_, own)) = SUBJECTS.iter().find(|(known, _)| *known == kind) else {
        let kinds = SUBJECTS.map(|(kind, _)| kind);
        return errors.push(FieldError::not_supported(format!("{path}.kind"), &kind.into(), &kinds));
    };
    match at(subject, &[own]) {
        None => {
            let detail = format!("{own} is required when subject kind is '{kind}'");
            errors.push(FieldError::required(format!("{path}.{own}"), detail));
        }
        Some(named) => {
            let name = text_at(named, &["name"]);
            if name.is_empty() {
                errors.push(FieldError::required(format!("{path}.{own}.name"), ""));
            } else if kind == "ServiceAccount" && name != "*" {
                refuse(errors, format_args!("{path}.{own}.name"), name, dns_subdomain(name));
            }
            if kind == "ServiceAccount" {
                let path = format!("{path}.{own}.namespace");
                match text_at(named, &["namespace"]) {
                    "" => errors.push(FieldError::required(path, "must specify namespace for service account")),
                    namespace => refuse(errors, &path, namespace, dns_label(namespace)),
                }
            }
        }
    }
    // kube-apiserver reports them in this order.
    for (other, field) in [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")] {
        if other != kind && at(subject, &[field]).is_some() {
            let detail = format!("{field} is forbidden when subject kind is not '{other}'");
            errors.push(FieldError::forbidden(format!("{path}.{field}"), detail));
        }
    }
}

fn texts<'a>(rule: &'a Value, key: &str) -> Vec<&'a str> {
    list_at(rule, &[key]).iter().filter_map(Value::as_str).collect()
}

fn validate_verbs(errors: &mut Vec<FieldError>, rule: &Value, path: &str) {
    let path = format!("{path}.verbs");
    let verbs = texts(rule, "verbs");
    if verbs.is_empty() {
        errors.push(FieldError::required(path, "verbs must contain at least one value"));
    } else if verbs.contains(&"*") {
        if verbs.len() > 1 {
            errors.push(FieldError::invalid(path, &json!(verbs), "if '*' is present, must not specify other verbs"));
        }
    } else if !verbs.iter().all(|verb| VERBS.contains(verb)) {
        errors.push(FieldError::not_supported(path, &json!(verbs), &VERBS));
    }
}

fn validate_resource_rule(errors: &mut Vec<FieldError>, rule: &Value, path: &str) {
    validate_verbs(errors, rule, path);
    for (key, one, many) in [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")] {
        let values = texts(rule, key);
        if values.is_empty() {
            let detail = format!("resource rules must supply at least one {one}");
            errors.push(FieldError::required(format!("{path}.{key}"), detail));
        } else if values.len() > 1 && values.contains(&"*") {
            let detail = format!("if '*' is present, must not specify other {many}");
            errors.push(FieldError::invalid(format!("{path}.{key}"), &json!(values), detail));
        }
    }
    let namespaces = texts(rule, "namespaces");
    let path = format!("{path}.namespaces");
    if namespaces.is_empty() {
        if at(rule, &["clusterScope"]) != Some(&Value::Bool(true)) {
            let detail = "resource rules that are not cluster scoped must supply at least one namespace";
            errors.push(FieldError::required(path, detail));
        }
    } else if namespaces.contains(&"*") {
        if namespaces.len() > 1 {
            let detail = "if '*' is present, must not specify other namespaces";
            errors.push(FieldError::invalid(path, &json!(namespaces), detail));
        }
    } else {
        for (index, namespace) in namespaces.iter().enumerate() {
            let faults = dns_label(namespace).into_iter();
            let explain = |fault| format!("each member of this list must be '*' or a DNS-1123 label; {fault}");
            refuse(errors, format_args!("{path}[{index}]"), namespace, faults.map(explain).collect());
        }
    }
}

fn validate_url_rule(errors: &mut Vec<FieldError>, rule: &Value, path: &str) {
    validate_verbs(errors, rule, path);
    let urls = texts(rule, "nonResourceURLs");
    let path = format!("{path}.nonResourceURLs");
    if urls.is_empty() {
        errors.push(FieldError::required(path, "nonResourceURLs must contain at least one value"));
    } else if urls.contains(&"*") {
        if urls.len() > 1 {
            let detail = "if '*' is present, must not specify other non-resource URLs";
            errors.push(FieldError::invalid(path, &json!(urls), detail));
        }
    } else {
        for (index, url) in urls.iter().enumerate() {
            if let Some(detail) = url_fault(url) {
                errors.push(FieldError::invalid(format!("{path}[{index}]"), &Value::from(*url), detail));
            }
        }
    }
}

fn url_fault(url: &str) -> Option<&'static str> {
    let wildcards = url.matches('*').count();
    match () {
        () if url.is_empty() => Some("must not be empty"),
        () if url == "/" => None,
        () if !url.starts_with('/') => Some("must start with slash"),
        () if url.contains(' ') => Some("must not contain white-space"),
        () if url.contains("//") => Some("must not contain double slash"),
        () if wildcards > 1 || (wildcards == 1 && !url.ends_with("/*")) => Some("wildcard can only do suffix matching"),
        () => None,
    }
}

pub(super) fn validate_priority_level(level: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(spec) = at(level, &["spec"]) else { return errors };
    let kind = text_at(spec, &["type"]);
    if (text_at(level, &["metadata", "name"]) == EXEMPT) != (kind == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.push(FieldError::invalid("spec.type", &kind.into(), detail));
    }
    let (limited, exempt) = (at(spec, &["limited"]), at(spec, &["exempt"]));
    match kind {
        "Exempt" => {
            if limited.is_some() {
                errors.push(FieldError::forbidden("spec.limited", "must be nil if the type is not Limited"));
            }
            if let Some(exempt) = exempt {
                validate_shares(&mut errors, exempt, "spec.exempt");
                validate_lendable(&mut errors, exempt, "spec.exempt");
            }
        }
        "Limited" => {
            if exempt.is_some() {
                errors.push(FieldError::forbidden("spec.exempt", "must be nil if the type is Limited"));
            }
            match limited {
                None => errors.push(FieldError::required("spec.limited", "must not be empty when type is Limited")),
                Some(limited) => validate_limited(&mut errors, limited),
            }
        }
        "" => errors.push(FieldError::required("spec.type", "")),
        _ => errors.push(FieldError::not_supported("spec.type", &kind.into(), &["Exempt", "Limited"])),
    }
    errors
}

fn validate_shares(errors: &mut Vec<FieldError>, level: &Value, path: &str) {
    if let Some(shares) = at(level, &["nominalConcurrencyShares"])
        && shares.as_i64().is_some_and(|shares| shares < 0)
    {
        let path = format!("{path}.nominalConcurrencyShares");
        errors.push(FieldError::invalid(path, shares, "must be a non-negative integer"));
    }
}

fn validate_lendable(errors: &mut Vec<FieldError>, level: &Value, path: &str) {
    if let Some(percent) = at(level, &["lendablePercent"])
        && !percent.as_i64().is_some_and(|percent| (0..=100).contains(&percent))
    {
        let path = format!("{path}.lendablePercent");
        errors.push(FieldError::invalid(path, percent, "must be between 0 and 100, inclusive"));
    }
}

fn validate_limited(errors: &mut Vec<FieldError>, limited: &Value) {
    const PATH: &str = "spec.limited";
    validate_shares(errors, limited, PATH);
    let response = at(limited, &["limitResponse"]).unwrap_or(&Value::Null);
    let path = "spec.limited.limitResponse";
    match (text_at(response, &["type"]), at(response, &["queuing"])) {
        ("Reject", Some(_)) => {
            let detail = "must be nil if limited.limitResponse.type is not Limited";
            errors.push(FieldError::forbidden(format!("{path}.queuing"), detail));
        }
        ("Reject", None) => {}
        ("Queue", None) => {
            let detail = "must not be empty if limited.limitResponse.type is Limited";
            errors.push(FieldError::required(format!("{path}.queuing"), detail));
        }
        ("Queue", Some(queuing)) => validate_queuing(errors, queuing, &format!("{path}.queuing")),
        ("", _) => errors.push(FieldError::required(format!("{path}.type"), "")),
        (kind, _) => {
            errors.push(FieldError::not_supported(format!("{path}.type"), &kind.into(), &["Queue", "Reject"]));
        }
    }
    validate_lendable(errors, limited, PATH);
    if let Some(percent) = at(limited, &["borrowingLimitPercent"])
        && percent.as_i64().is_some_and(|percent| percent < 0)
    {
        let detail = "if specified, must be a non-negative integer";
        errors.push(FieldError::invalid("spec.limited.borrowingLimitPercent", percent, detail));
    }
}

fn validate_queuing(errors: &mut Vec<FieldError>, queuing: &Value, path: &str) {
    let number = |key: &str| at(queuing, &[key]).and_then(Value::as_i64).unwrap_or_default();
    let (length, queues, hand) = (number("queueLengthLimit"), number("queues"), number("handSize"));
    let mut refuse = |key: &str, value: i64, detail: String| {
        errors.push(FieldError::invalid(format!("{path}.{key}"), &value.into(), detail));
    };
    let positive = || "must be positive".to_owned();
    if length <= 0 {
        refuse("queueLengthLimit", length, positive());
    }
    if queues <= 0 {
        refuse("queues", queues, positive());
    } else if queues > MAX_QUEUES {
        refuse("queues", queues, format!("must not be greater than {MAX_QUEUES}"));
    }
    if hand <= 0 {
        refuse("handSize", hand, positive());
    } else if hand > queues {
        refuse("handSize", hand, format!("should not be greater than queues ({queues})"));
    } else if ((queues as f64).log2() * hand as f64).ceil() > f64::from(MAX_HASH_BITS) {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {MAX_HASH_BITS}"
        );
        refuse("handSize", hand, detail);
    }
}
