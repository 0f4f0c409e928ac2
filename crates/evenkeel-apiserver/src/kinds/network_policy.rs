//! Validation of NetworkPolicies.

use std::collections::HashSet;

use serde_json::Value;

use super::check::label_selector;
use super::cidr;
use super::fill::{at, list_at, text_at};
use super::podcheck::{in_port_range, port_name};
use crate::field::{FieldError, is_full};
use crate::meta::refuse;

const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
const TYPES: [&str; 2] = ["Ingress", "Egress"];
/// The lists of rules, and the list of peers in each rule.
const RULES: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

/// Validates a policy. Ranges that the old one has may stay as they are.
pub(super) fn validate(policy: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(spec) = at(policy, &["spec"]) else { return errors };
    if let Some(selector) = at(spec, &["podSelector"]) {
        label_selector(&mut errors, selector, "spec.podSelector");
    }
    let known = old.map(ranges).unwrap_or_default();
    for (rules, peers) in RULES {
        for (index, rule) in list_at(spec, &[rules]).iter().enumerate() {
            let path = format!("spec.{rules}[{index}]");
            for (number, port) in list_at(rule, &["ports"]).iter().enumerate() {
                if is_full(&errors) {
                    return errors;
                }
                validate_port(&mut errors, port, &format!("{path}.ports[{number}]"));
            }
            for (number, peer) in list_at(rule, &[peers]).iter().enumerate() {
                if is_full(&errors) {
                    return errors;
                }
                validate_peer(&mut errors, peer, &format!("{path}.{peers}[{number}]"), &known);
            }
        }
    }
    let types = list_at(spec, &["policyTypes"]);
    if types.len() > TYPES.len() {
        let value = Value::from(types);
        errors.push(FieldError::invalid("spec.policyTypes", &value, "may not specify more than two policyTypes"));
        return errors;
    }
    for (index, each) in types.iter().enumerate() {
        if !each.as_str().is_some_and(|each| TYPES.contains(&each)) {
            errors.push(FieldError::not_supported(format!("spec.policyTypes[{index}]"), each, &TYPES));
        }
    }
    errors
}

/// Returns the ranges of a policy.
fn ranges(policy: &Value) -> HashSet<&str> {
    let mut ranges = HashSet::new();
    for (rules, peers) in RULES {
        for peer in list_at(policy, &["spec", rules]).iter().flat_map(|rule| list_at(rule, &[peers])) {
            ranges.insert(text_at(peer, &["ipBlock", "cidr"]));
            ranges.extend(list_at(peer, &["ipBlock", "except"]).iter().filter_map(Value::as_str));
        }
    }
    ranges
}

fn validate_port(errors: &mut Vec<FieldError>, port: &Value, path: &str) {
    if let Some(protocol) = at(port, &["protocol"])
        && !protocol.as_str().is_some_and(|protocol| PROTOCOLS.contains(&protocol))
    {
        errors.push(FieldError::not_supported(format!("{path}.protocol"), protocol, &PROTOCOLS));
    }
    let end_path = format!("{path}.endPort");
    let end = at(port, &["endPort"]);
    let refuse_end = |errors: &mut Vec<FieldError>, detail: &str| {
        if let Some(end) = end {
            errors.push(FieldError::invalid(&end_path, end, detail));
        }
    };
    match at(port, &["port"]) {
        None => refuse_end(errors, "may not be specified when `port` is not specified"),
        Some(Value::String(name)) => {
            refuse_end(errors, "may not be specified when `port` is non-numeric");
            refuse(errors, format_args!("{path}.port"), name, port_name(name));
        }
        Some(number) => {
            let number = number.as_i64().unwrap_or_default();
            in_port_range(errors, number, format_args!("{path}.port"));
            if let Some(end) = end.and_then(Value::as_i64) {
                if end < number {
                    refuse_end(errors, "must be greater than or equal to `port`");
                }
                in_port_range(errors, end, &end_path);
            }
        }
    }
}

fn validate_peer(errors: &mut Vec<FieldError>, peer: &Value, path: &str, known: &HashSet<&str>) {
    let mut peers = 0;
    for key in ["podSelector", "namespaceSelector"] {
        if let Some(selector) = at(peer, &[key]) {
            peers += 1;
            label_selector(errors, selector, &format!("{path}.{key}"));
        }
    }
    let block = at(peer, &["ipBlock"]);
    if let Some(block) = block {
        peers += 1;
        validate_block(errors, block, &format!("{path}.ipBlock"), known);
    }
    if peers == 0 {
        errors.push(FieldError::required(path, "must specify a peer"));
    } else if peers > 1 && block.is_some() {
        errors.push(FieldError::forbidden(path, "may not specify both ipBlock and another peer"));
    }
}

fn validate_block(errors: &mut Vec<FieldError>, block: &Value, path: &str, known: &HashSet<&str>) {
    let text = text_at(block, &["cidr"]);
    if text.is_empty() {
        return errors.push(FieldError::required(format!("{path}.cidr"), ""));
    }
    let mut parse = |text: &str, path: &str| {
        let (range, fault) = cidr::parse(text);
        if let Some(fault) = fault.filter(|_| !known.contains(text)) {
            errors.push(FieldError::invalid(path, &text.into(), fault));
        }
        range
    };
    let Some(range) = parse(text, &format!("{path}.cidr")) else { return };
    let mut outside = Vec::new();
    for (index, except) in list_at(block, &["except"]).iter().enumerate() {
        let path = format!("{path}.except[{index}]");
        let Some(hole) = parse(except.as_str().unwrap_or_default(), &path) else { continue };
        if !range.strictly_contains(hole) {
            outside.push(FieldError::invalid(path, except, "must be a strict subset of `cidr`"));
        }
    }
    errors.extend(outside);
}
