//! What kube-apiserver warns about when built-in kinds are written.

use serde_json::Value;

use super::fill::{at, list_at, text_at};
use super::{DISCOVERY, NETWORKING, pod_warnings, storage_warnings};
use crate::meta::dns_label;

const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";
const MAX_TRACKED_COMPLETIONS: i64 = 100_000;
const MAX_TRACKED_PARALLELISM: i64 = 10_000;

/// Returns the warnings about a new object.
pub(crate) fn on_create(group: &str, kind: &str, object: &Value) -> Vec<String> {
    let mut warnings = match (group, kind) {
        ("", "Pod") => name_warning(object, "the Pod's hostname"),
        ("", "ReplicationController") | ("apps", "Deployment" | "ReplicaSet") | ("batch", "Job" | "CronJob") => {
            name_warning(object, "Pod names and hostnames")
        }
        _ => Vec::new(),
    };
    warnings.extend(match (group, kind) {
        ("", "Pod") => pod_warnings::warnings(object, ""),
        (NETWORKING, "Ingress") => ingress(object),
        _ => on_write(group, kind, object),
    });
    warnings
}

/// Returns the warnings about a change of the specification. Pods are updated often, and not by people.
pub(crate) fn on_update(group: &str, kind: &str, new: &Value, old: &Value) -> Vec<String> {
    let generation = |object| at(object, &["metadata", "generation"]);
    match (group, kind) {
        ("apps" | "batch", _) | ("", "ReplicationController") if generation(new) == generation(old) => Vec::new(),
        ("", "ServiceAccount") if has_annotation(old, MOUNTABLE_SECRETS) => Vec::new(),
        ("", "Pod") | (NETWORKING, "Ingress") => Vec::new(),
        _ => on_write(group, kind, new),
    }
}

fn on_write(group: &str, kind: &str, object: &Value) -> Vec<String> {
    match (group, kind) {
        ("", "ReplicationController") | ("apps", "Deployment" | "ReplicaSet" | "DaemonSet") => {
            template(object, &["spec", "template"])
        }
        ("apps", "StatefulSet") => stateful_set(object),
        ("", "PodTemplate") => template(object, &["template"]),
        ("batch", "Job") => job(at(object, &["spec"]), "spec"),
        ("batch", "CronJob") => job(at(object, &["spec", "jobTemplate", "spec"]), "spec.jobTemplate.spec"),
        ("", "Service") => service(object),
        ("", "PersistentVolume") => storage_warnings::volume(object),
        ("", "PersistentVolumeClaim") => storage_warnings::claim(object),
        ("", "Node") => node(object),
        ("", "ServiceAccount") if has_annotation(object, MOUNTABLE_SECRETS) => vec![format!(
            "metadata.annotations[{MOUNTABLE_SECRETS}]: deprecated in v1.32+; prefer separate namespaces to isolate access \
             to mounted secrets"
        )],
        ("node.k8s.io", "RuntimeClass") => {
            let labels = at(object, &["scheduling", "nodeSelector"]).and_then(Value::as_object).into_iter().flatten();
            let messages = labels.filter_map(|(key, _)| pod_warnings::node_label_message(key));
            messages.map(|message| format!("scheduling.nodeSelector: {message}")).collect()
        }
        (DISCOVERY, "EndpointSlice") if text_at(object, &["addressType"]) == "FQDN" => {
            vec!["spec.addressType: FQDN endpoints are deprecated".to_owned()]
        }
        _ => Vec::new(),
    }
}

fn has_annotation(object: &Value, key: &str) -> bool {
    at(object, &["metadata", "annotations"]).is_some_and(|annotations| annotations.get(key).is_some())
}

fn name_warning(object: &Value, used_in: &str) -> Vec<String> {
    let faults = dns_label(text_at(object, &["metadata", "name"]));
    if faults.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is recommended: \
         [{}]",
        faults.join(" ")
    )]
}

fn template(object: &Value, path: &[&str]) -> Vec<String> {
    at(object, path).map(|template| pod_warnings::warnings(template, &path.join("."))).unwrap_or_default()
}

fn stateful_set(object: &Value) -> Vec<String> {
    let mut warnings = template(object, &["spec", "template"]);
    for (index, claim) in list_at(object, &["spec", "volumeClaimTemplates"]).iter().enumerate() {
        if let Some(spec) = at(claim, &["spec"]) {
            storage_warnings::claim_spec(&mut warnings, spec, &format!("spec.volumeClaimTemplates[{index}]"));
        }
    }
    if at(object, &["spec", "revisionHistoryLimit"]).and_then(Value::as_i64).is_some_and(|limit| limit < 0) {
        let message = "a negative value retains all historical revisions; a value >= 0 is recommended";
        warnings.push(format!("spec.revisionHistoryLimit: {message}"));
    }
    warnings
}

fn job(spec: Option<&Value>, path: &str) -> Vec<String> {
    let Some(spec) = spec else { return Vec::new() };
    let number = |key: &str| at(spec, &[key]).and_then(Value::as_i64).unwrap_or_default();
    let mut warnings = Vec::new();
    if text_at(spec, &["completionMode"]) == "Indexed"
        && number("completions") > MAX_TRACKED_COMPLETIONS
        && number("parallelism") > MAX_TRACKED_PARALLELISM
    {
        warnings.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
             Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        ));
    }
    if let Some(template) = at(spec, &["template"]) {
        warnings.extend(pod_warnings::warnings(template, &format!("{path}.template")));
    }
    warnings
}

fn ingress(object: &Value) -> Vec<String> {
    let uses_annotation = has_annotation(object, INGRESS_CLASS) && at(object, &["spec", "ingressClassName"]).is_none();
    let warning = format!("annotation {INGRESS_CLASS:?} is deprecated, please use 'spec.ingressClassName' instead");
    if uses_annotation { vec![warning] } else { Vec::new() }
}

fn node(object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if at(object, &["spec", "configSource"]).is_some() {
        warnings.push("spec.configSource: the feature is removed".to_owned());
    }
    if !text_at(object, &["spec", "externalID"]).is_empty() {
        warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    warnings
}

fn service(object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(spec) = at(object, &["spec"]) else { return warnings };
    let kind = text_at(spec, &["type"]);
    let is_headless = kind == "ClusterIP" && text_at(spec, &["clusterIP"]) == "None";
    let has_external_ips = !list_at(spec, &["externalIPs"]).is_empty();
    let mut warn = |condition: bool, text: &str| {
        if condition {
            warnings.push(text.to_owned());
        }
    };
    let hints = format!("annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead");
    warn(has_annotation(object, TOPOLOGY_HINTS), &hints);
    if is_headless {
        let has_balancer = !text_at(spec, &["loadBalancerIP"]).is_empty();
        warn(has_balancer, "spec.loadBalancerIP is ignored for headless services");
        warn(has_external_ips, "spec.externalIPs is ignored for headless services");
        let has_affinity = text_at(spec, &["sessionAffinity"]) != "None";
        warn(has_affinity, "spec.SessionAffinity is ignored for headless services");
    }
    let deprecated = "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
    warn(has_external_ips && !is_headless && kind != "ExternalName", deprecated);
    let ignored = "spec.externalIPs is ignored when spec.type is \"ExternalName\"";
    warn(has_external_ips && kind == "ExternalName", ignored);
    let has_name = !text_at(spec, &["externalName"]).is_empty();
    let ignored = "spec.externalName is ignored when spec.type is not \"ExternalName\"";
    warn(has_name && kind != "ExternalName", ignored);
    let close = "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
    warn(text_at(spec, &["trafficDistribution"]) == "PreferClose", close);
    warnings
}
