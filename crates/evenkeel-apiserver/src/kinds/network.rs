//! Endpoints, EndpointSlice, Ingress, IngressClass and NetworkPolicy.

use serde_json::{Value, json};

use super::fill::{Constant::Text, DefaultRule, Object, absent, child, ensure, fill, is_empty, items, zero};

const PROTOCOL: &[DefaultRule] = &[zero("protocol", Text("TCP"))];
const SLICE_PORT: &[DefaultRule] = &[absent("name", Text("")), absent("protocol", Text("TCP"))];
const POLICY_PORT: &[DefaultRule] = &[absent("protocol", Text("TCP"))];
const CLASS_PARAMETERS: &[DefaultRule] = &[absent("scope", Text("Cluster"))];

pub(super) fn default_endpoints(object: &mut Object) {
    for subset in items(object, "subsets") {
        for port in items(subset, "ports") {
            fill(port, PROTOCOL);
        }
    }
}

pub(super) fn default_endpoint_slice(object: &mut Object) {
    for key in ["endpoints", "ports"] {
        object.entry(key).or_insert(Value::Null);
    }
    for port in items(object, "ports") {
        fill(port, SLICE_PORT);
    }
    for endpoint in items(object, "endpoints") {
        ensure(endpoint, "conditions");
    }
}

pub(super) fn default_ingress(object: &mut Object) {
    ensure(object, "spec");
}

pub(super) fn default_ingress_class(object: &mut Object) {
    if let Some(parameters) = ensure(object, "spec").and_then(|spec| child(spec, "parameters")) {
        fill(parameters, CLASS_PARAMETERS);
    }
}

pub(super) fn default_network_policy(object: &mut Object) {
    let Some(spec) = ensure(object, "spec") else {
        return;
    };
    ensure(spec, "podSelector");
    for rules in ["ingress", "egress"] {
        for rule in items(spec, rules) {
            for port in items(rule, "ports") {
                fill(port, POLICY_PORT);
            }
        }
    }
    if is_empty(spec.get("policyTypes")) {
        let types = if is_empty(spec.get("egress")) { json!(["Ingress"]) } else { json!(["Ingress", "Egress"]) };
        spec.insert("policyTypes".into(), types);
    }
}
