//! Warnings about pods and templates of pods: deprecated fields, annotations and node labels, and values that Kubernetes
//! does not treat as their author may expect.

use std::collections::HashSet;
use std::fmt;

use serde_json::Value;

use super::fill::{at, list_at, quantity, text_at};
use super::storage_warnings;
use crate::meta::label_value;

const ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];
/// The volume plugins that are deprecated or removed, in the order of their warnings. A claim template is checked between.
const VOLUMES: [(&str, &str); 7] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
];
const LATE_VOLUMES: [&str; 2] = ["cephfs", "rbd"];
const NODE_LABELS: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    ("failure-domain.beta.kubernetes.io/zone", "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"),
    ("beta.kubernetes.io/instance-type", "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    ("scheduler.alpha.kubernetes.io/preferAvoidPods", "deprecated since v1.22; use Taints and Tolerations instead"),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];
/// The resources that are counted in bytes.
const BYTES: [&str; 2] = ["memory", "ephemeral-storage"];
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const SECCOMP: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
const APPARMOR_CONTAINER: &str = "container.apparmor.security.beta.kubernetes.io/";
const NULL_SELECTOR: &str = "a null labelSelector results in matching no pod";

/// Returns the message about a deprecated label of nodes.
pub(super) fn node_label_message(key: &str) -> Option<&'static str> {
    NODE_LABELS.iter().find(|(label, _)| *label == key).map(|(_, message)| *message)
}

/// Warns about a pod (with an empty path) or a template of pods at `path`, such as `spec.template`.
pub(super) fn warnings(pod: &Value, path: &str) -> Vec<String> {
    let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
    let (Some(spec), is_template) = (at(pod, &["spec"]), !path.is_empty()) else { return Vec::new() };
    let mut warnings = Vec::new();
    let affinity = at(spec, &["affinity"]);
    scheduling(&mut warnings, spec, affinity, &prefix);
    let annotations = at(pod, &["metadata", "annotations"]).and_then(Value::as_object);
    let has_annotation = |key: &str| annotations.is_some_and(|annotations| annotations.contains_key(key));
    for (key, message) in ANNOTATIONS {
        if has_annotation(key) {
            warnings.push(format!("{prefix}metadata.annotations[{key}]: {message}"));
        }
    }
    volumes(&mut warnings, spec, &prefix);
    duplicates(&mut warnings, list_at(spec, &["hostAliases"]), format_args!("{prefix}spec.hostAliases"), "ip");
    let pull_secrets = list_at(spec, &["imagePullSecrets"]);
    duplicates(&mut warnings, pull_secrets, format_args!("{prefix}spec.imagePullSecrets"), "name");
    for (index, secret) in pull_secrets.iter().enumerate() {
        if text_at(secret, &["name"]).is_empty() {
            warnings.push(format!("{prefix}spec.imagePullSecrets[{index}].name: invalid empty name \"\""));
        }
    }
    if let Some(overhead) = at(spec, &["overhead"]) {
        for resource in BYTES {
            let path = format_args!("{prefix}spec.overhead[{resource}]");
            fractional(&mut warnings, overhead.get(resource), path);
        }
    }
    if has_annotation(SECCOMP_POD) && at(spec, &["securityContext", "seccompProfile"]).is_none() {
        warnings.push(format!("{prefix}metadata.annotations[{SECCOMP_POD}]: {SECCOMP}"));
    }
    let is_of_container = |key: &String| key.starts_with(SECCOMP_CONTAINER) || key.starts_with(APPARMOR_CONTAINER);
    let has_container_annotations = annotations.is_some_and(|annotations| annotations.keys().any(is_of_container));
    let mut all_ports = Vec::new();
    for Container { object: container, path } in containers(spec, &prefix) {
        if has_container_annotations {
            let key = format!("{SECCOMP_CONTAINER}{}", text_at(container, &["name"]));
            if has_annotation(&key) && at(container, &["securityContext", "seccompProfile"]).is_none() {
                warnings.push(format!("{prefix}metadata.annotations[{key}]: {SECCOMP}"));
            }
        }
        if is_template && has_container_annotations {
            let key = format!("{APPARMOR_CONTAINER}{}", text_at(container, &["name"]));
            let has_profile = at(container, &["securityContext", "appArmorProfile"]).is_some()
                || at(spec, &["securityContext", "appArmorProfile"]).is_some();
            if !has_profile && has_annotation(&key) {
                let message = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
                warnings.push(format!("{prefix}metadata.annotations[{key}]: {message}"));
            }
        }
        if let Some(resources) = at(container, &["resources"]) {
            let kinds = ["limits", "requests"].map(|kind| (kind, at(resources, &[kind]).unwrap_or(&Value::Null)));
            for resource in BYTES {
                for (kind, amounts) in kinds {
                    let path = format_args!("{path}.resources.{kind}[{resource}]");
                    fractional(&mut warnings, amounts.get(resource), path);
                }
            }
        }
        environment(&mut warnings, container, path);
        all_ports.extend(ports(container, path));
    }
    port_conflicts(&mut warnings, &all_ports);
    if at(spec, &["terminationGracePeriodSeconds"]).and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        let message = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.push(format!("{prefix}spec.terminationGracePeriodSeconds: {message}"));
    }
    if let Some(affinity) = affinity {
        pod_affinity(&mut warnings, affinity, &prefix);
    }
    warnings
}

/// A container of a pod, and where it is.
struct Container<'a> {
    object: &'a Value,
    path: ContainerPath<'a>,
}

/// The path of a container, which is written only if there is something to say about it.
#[derive(Clone, Copy)]
struct ContainerPath<'a> {
    prefix: &'a str,
    list: &'static str,
    index: usize,
}

impl fmt::Display for ContainerPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}spec.{}[{}]", self.prefix, self.list, self.index)
    }
}

/// Returns the containers of a pod, in the order in which kube-apiserver visits them.
fn containers<'a>(spec: &'a Value, prefix: &'a str) -> impl Iterator<Item = Container<'a>> {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(move |list| {
        let objects = list_at(spec, &[list]).iter().enumerate();
        objects.map(move |(index, object)| Container { object, path: ContainerPath { prefix, list, index } })
    })
}

fn scheduling(warnings: &mut Vec<String>, spec: &Value, affinity: Option<&Value>, prefix: &str) {
    for (key, _) in at(spec, &["nodeSelector"]).and_then(Value::as_object).into_iter().flatten() {
        if let Some(message) = node_label_message(key) {
            warnings.push(format!("{prefix}spec.nodeSelector[{key}]: {message}"));
        }
    }
    if let Some(affinity) = affinity.and_then(|affinity| at(affinity, &["nodeAffinity"])) {
        node_affinity(warnings, affinity, &format!("{prefix}spec.affinity.nodeAffinity"));
    }
    for (index, constraint) in list_at(spec, &["topologySpreadConstraints"]).iter().enumerate() {
        let path = format!("{prefix}spec.topologySpreadConstraints[{index}]");
        let key = text_at(constraint, &["topologyKey"]);
        if let Some(message) = node_label_message(key) {
            warnings.push(format!("{path}.topologyKey: {key} is {message}"));
        }
        if at(constraint, &["labelSelector"]).is_none() {
            warnings.push(format!("{path}.labelSelector: {NULL_SELECTOR}"));
        }
    }
}

fn node_affinity(warnings: &mut Vec<String>, affinity: &Value, path: &str) {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    for (index, term) in list_at(affinity, &[required, "nodeSelectorTerms"]).iter().enumerate() {
        node_selector_term(warnings, term, false, &format!("{path}.{required}.nodeSelectorTerms[{index}]"));
    }
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    for (index, term) in list_at(affinity, &[preferred]).iter().enumerate() {
        let preference = term.get("preference").unwrap_or(&Value::Null);
        node_selector_term(warnings, preference, true, &format!("{path}.{preferred}[{index}].preference"));
    }
}

/// Warns about the expressions of a term of a node selector.
pub(super) fn node_selector_term(warnings: &mut Vec<String>, term: &Value, checks_values: bool, path: &str) {
    for (index, expression) in list_at(term, &["matchExpressions"]).iter().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        let key = text_at(expression, &["key"]);
        if let Some(message) = node_label_message(key) {
            warnings.push(format!("{path}.key: {key} is {message}"));
        }
        for (index, value) in list_at(expression, &["values"]).iter().enumerate().filter(|_| checks_values) {
            let value = value.as_str().unwrap_or_default();
            for fault in label_value(value) {
                warnings.push(format!("{path}.values[{index}]: {value} is invalid, {fault}"));
            }
        }
    }
}

fn volumes(warnings: &mut Vec<String>, spec: &Value, prefix: &str) {
    for (index, volume) in list_at(spec, &["volumes"]).iter().enumerate() {
        let path = format_args!("{prefix}spec.volumes[{index}]");
        for (plugin, message) in VOLUMES.iter().filter(|(plugin, _)| at(volume, &[plugin]).is_some()) {
            // The path is upstream's, which differs from the field for this one.
            let shown = if *plugin == "storageos" { "storageOS" } else { plugin };
            warnings.push(format!("{path}.{shown}: {message}"));
        }
        if let Some(claim) = at(volume, &["ephemeral", "volumeClaimTemplate", "spec"]) {
            storage_warnings::claim_spec(warnings, claim, &format!("{path}.ephemeral.volumeClaimTemplate.spec"));
        }
        for plugin in LATE_VOLUMES.iter().filter(|plugin| at(volume, &[plugin]).is_some()) {
            warnings.push(format!("{path}.{plugin}: deprecated in v1.28, non-functional in v1.31+"));
        }
    }
}

fn duplicates(warnings: &mut Vec<String>, items: &[Value], path: fmt::Arguments<'_>, key: &str) {
    let mut seen = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        let value = text_at(item, &[key]);
        if !seen.insert(value) {
            warnings.push(format!("{path}[{index}].{key}: duplicate {key} {value:?}"));
        }
    }
}

/// Warns about a quantity of bytes that is not whole.
pub(super) fn fractional(warnings: &mut Vec<String>, value: Option<&Value>, path: impl fmt::Display) {
    let quantity = value.and_then(quantity);
    if let Some(quantity) = quantity.filter(|value| value.milli_value().is_some_and(|milli| milli % 1000 != 0)) {
        let text = quantity.to_string();
        warnings.push(format!("{path}: fractional byte value {text:?} is invalid, must be an integer"));
    }
}

fn environment(warnings: &mut Vec<String>, container: &Value, path: ContainerPath<'_>) {
    let mut seen = HashSet::new();
    for (index, variable) in list_at(container, &["env"]).iter().enumerate() {
        let name = text_at(variable, &["name"]);
        if seen.insert(name) {
            continue;
        }
        // A value that refers to the previous one extends it.
        let (value, reference) = (text_at(variable, &["value"]), format!("$({name})"));
        let hides = at(variable, &["valueFrom"]).is_some() || value == reference || !value.contains(&reference);
        if hides {
            let message = format!("hides previous definition of {name:?}, which may be dropped when using apply");
            warnings.push(format!("{path}.env[{index}]: {message}"));
        }
    }
}

/// A port of a container.
struct Port<'a> {
    container: ContainerPath<'a>,
    index: usize,
    host_ip: &'a str,
    host_port: i64,
    number: i64,
    protocol: &'a str,
    name: &'a str,
}

impl fmt::Display for Port<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.ports[{}]", self.container, self.index)
    }
}

fn ports<'a>(container: &'a Value, path: ContainerPath<'a>) -> impl Iterator<Item = Port<'a>> {
    list_at(container, &["ports"]).iter().enumerate().map(move |(index, port)| {
        let number = |key: &str| at(port, &[key]).and_then(Value::as_i64).unwrap_or_default();
        Port {
            container: path,
            index,
            host_ip: text_at(port, &["hostIP"]),
            host_port: number("hostPort"),
            number: number("containerPort"),
            protocol: text_at(port, &["protocol"]),
            name: text_at(port, &["name"]),
        }
    })
}

/// Warns about ports that are in each other's way. They are given in the order of the containers.
fn port_conflicts(warnings: &mut Vec<String>, all: &[Port<'_>]) {
    for (index, port) in all.iter().enumerate() {
        let Port { host_ip, host_port, number, protocol, name, .. } = port;
        if !host_ip.is_empty() && *host_port == 0 {
            warnings.push(format!(
                "{port}: hostIP set without hostPort: {{Name:{name} HostPort:0 ContainerPort:{number} \
                 Protocol:{protocol} HostIP:{host_ip}}}"
            ));
        }
        let others = all.iter().take(index).filter(|other| other.number == *number && other.protocol == *protocol);
        for other in others {
            let relation = if other.host_ip == *host_ip && other.host_port == *host_port {
                "duplicate"
            } else if other.host_port == 0 || *host_port == 0 {
                "overlapping"
            } else if other.host_port == *host_port && host_ip.is_empty() != other.host_ip.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            warnings.push(format!("{port}: {relation} port definition with {other}"));
        }
    }
    for (index, port) in all.iter().enumerate().filter(|(_, port)| !port.name.is_empty()) {
        let name = port.name;
        if let Some(first) = all.iter().take(index).find(|other| other.name == name) {
            warnings.push(format!(
                "{port}: duplicate port name {name:?} with {first}, services and probes that select ports by name will \
                 use {first}"
            ));
        }
    }
}

fn pod_affinity(warnings: &mut Vec<String>, affinity: &Value, prefix: &str) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        for (list, inner) in [(required, ""), (preferred, "podAffinityTerm.")] {
            for (index, term) in list_at(affinity, &[kind, list]).iter().enumerate() {
                let term = if inner.is_empty() { term } else { term.get("podAffinityTerm").unwrap_or(&Value::Null) };
                if at(term, &["labelSelector"]).is_none() {
                    let path = format!("{prefix}spec.affinity.{kind}.{list}[{index}].{inner}labelSelector");
                    warnings.push(format!("{path}: {NULL_SELECTOR}"));
                }
            }
        }
    }
}
