//! Autoscalers, limits, priorities, webhooks, flow control and nodes.

use serde_json::{Value, json};

use super::fill::{
    Constant::{Empty, Int, Text},
    DefaultRule, Object, absent, child, ensure, fill, is_absent, is_empty, items, text, zero,
};

const WEBHOOK: &[DefaultRule] = &[
    absent("failurePolicy", Text("Fail")),
    absent("matchPolicy", Text("Equivalent")),
    absent("namespaceSelector", Empty),
    absent("objectSelector", Empty),
    absent("timeoutSeconds", Int(10)),
];
const MATCH_RESOURCES: &[DefaultRule] =
    &[absent("matchPolicy", Text("Equivalent")), absent("namespaceSelector", Empty), absent("objectSelector", Empty)];
const QUEUING: &[DefaultRule] = &[zero("handSize", Int(8)), zero("queues", Int(64)), zero("queueLengthLimit", Int(50))];
/// The target CPU utilization, in percent, of an autoscaler without metrics.
const DEFAULT_CPU_UTILIZATION: i64 = 80;

pub(super) fn default_autoscaler(object: &mut Object, version: &str) {
    let Some(spec) = ensure(object, "spec") else {
        return;
    };
    fill(spec, &[absent("minReplicas", Int(1))]);
    if version == "v1" {
        return;
    }
    if is_empty(spec.get("metrics")) {
        let target = json!({"averageUtilization": DEFAULT_CPU_UTILIZATION, "type": "Utilization"});
        let metrics = json!([{"resource": {"name": "cpu", "target": target}, "type": "Resource"}]);
        spec.insert("metrics".into(), metrics);
    }
    let percent = json!({"periodSeconds": 15, "type": "Percent", "value": 100});
    let pods = json!({"periodSeconds": 15, "type": "Pods", "value": 4});
    let Some(behavior) = child(spec, "behavior") else {
        return;
    };
    if let Some(up) = ensure(behavior, "scaleUp") {
        fill(up, &[absent("stabilizationWindowSeconds", Int(0)), absent("selectPolicy", Text("Max"))]);
        if is_absent(up, "policies") {
            up.insert("policies".into(), json!([pods, percent]));
        }
    }
    if let Some(down) = ensure(behavior, "scaleDown") {
        fill(down, &[absent("selectPolicy", Text("Max"))]);
        if is_absent(down, "policies") {
            down.insert("policies".into(), json!([percent]));
        }
    }
}

/// Derives a container's default limits from its maximum, and its default requests from its limits and its minimum.
pub(super) fn default_limit_range(object: &mut Object) {
    let Some(spec) = ensure(object, "spec") else {
        return;
    };
    spec.entry("limits").or_insert(Value::Null);
    for limit in items(spec, "limits") {
        if text(limit, "type") != "Container" {
            continue;
        }
        for (target, source) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
            let Some(Value::Object(values)) = limit.get(source).cloned() else {
                continue;
            };
            if let Some(defaults) = ensure(limit, target) {
                for (resource, quantity) in values {
                    defaults.entry(resource).or_insert(quantity);
                }
            }
        }
    }
}

pub(super) fn default_priority_class(object: &mut Object) {
    fill(object, &[absent("preemptionPolicy", Text("PreemptLowerPriority")), absent("value", Int(0))]);
}

pub(super) fn default_webhooks(object: &mut Object, mutating: bool) {
    for webhook in items(object, "webhooks") {
        fill(webhook, WEBHOOK);
        if mutating {
            fill(webhook, &[absent("reinvocationPolicy", Text("Never"))]);
        }
        for rule in items(webhook, "rules") {
            fill(rule, &[absent("scope", Text("*"))]);
        }
        if let Some(service) = ensure(webhook, "clientConfig").and_then(|config| child(config, "service")) {
            fill(service, &[absent("port", Int(443))]);
        }
    }
}

pub(super) fn default_admission_policy(object: &mut Object) {
    let Some(spec) = ensure(object, "spec") else {
        return;
    };
    fill(spec, &[absent("failurePolicy", Text("Fail"))]);
    if let Some(constraints) = child(spec, "matchConstraints") {
        default_match_resources(constraints);
    }
}

pub(super) fn default_admission_binding(object: &mut Object) {
    if let Some(resources) = ensure(object, "spec").and_then(|spec| child(spec, "matchResources")) {
        default_match_resources(resources);
    }
}

fn default_match_resources(resources: &mut Object) {
    fill(resources, MATCH_RESOURCES);
    for rules in ["resourceRules", "excludeResourceRules"] {
        for rule in items(resources, rules) {
            fill(rule, &[absent("scope", Text("*"))]);
        }
    }
}

pub(super) fn default_flow_schema(object: &mut Object) {
    if let Some(spec) = ensure(object, "spec") {
        fill(spec, &[zero("matchingPrecedence", Int(1000))]);
    }
}

pub(super) fn default_priority_level(object: &mut Object) {
    let Some(spec) = ensure(object, "spec") else {
        return;
    };
    for (key, shares) in [("limited", 30), ("exempt", 0)] {
        let Some(level) = child(spec, key) else { continue };
        fill(level, &[absent("nominalConcurrencyShares", Int(shares)), absent("lendablePercent", Int(0))]);
        if let Some(queuing) = child(level, "limitResponse").and_then(|response| child(response, "queuing")) {
            fill(queuing, QUEUING);
        }
    }
}

/// Sets a node's allocatable resources to its capacity, unless they are given.
pub(super) fn default_api_service(object: &mut Object) {
    if let Some(service) = ensure(object, "spec").and_then(|spec| child(spec, "service")) {
        fill(service, &[absent("port", Int(443))]);
    }
}

pub(super) fn default_node(object: &mut Object) {
    ensure(object, "spec");
    let Some(status) = ensure(object, "status") else {
        return;
    };
    if is_absent(status, "allocatable")
        && let Some(capacity) = status.get("capacity").filter(|capacity| capacity.is_object()).cloned()
    {
        status.insert("allocatable".into(), capacity);
    }
    if let Some(endpoint) = ensure(status, "daemonEndpoints").and_then(|all| ensure(all, "kubeletEndpoint")) {
        fill(endpoint, &[absent("Port", Int(0))]);
    }
    if let Some(info) = ensure(status, "nodeInfo") {
        for key in [
            "machineID",
            "systemUUID",
            "bootID",
            "kernelVersion",
            "osImage",
            "containerRuntimeVersion",
            "kubeletVersion",
            "kubeProxyVersion",
            "operatingSystem",
            "architecture",
        ] {
            fill(info, &[absent(key, Text(""))]);
        }
    }
}
