//! Defaults of pod specifications, containers and volumes, shared by pods and all kinds with a pod template.

use serde_json::{Map, Value};

use super::fill::{Constant, DefaultRule, Object, absent, child, ensure, fill, is_absent, is_empty, items, text, zero};
use Constant::{Empty, Int, Text};

const SPEC: &[DefaultRule] = &[
    zero("dnsPolicy", Text("ClusterFirst")),
    zero("restartPolicy", Text("Always")),
    absent("securityContext", Empty),
    absent("terminationGracePeriodSeconds", Int(30)),
    zero("schedulerName", Text("default-scheduler")),
];
const CONTAINER: &[DefaultRule] = &[
    zero("terminationMessagePath", Text("/dev/termination-log")),
    zero("terminationMessagePolicy", Text("File")),
    absent("resources", Empty),
];
const PROBE: &[DefaultRule] = &[
    zero("timeoutSeconds", Int(1)),
    zero("periodSeconds", Int(10)),
    zero("successThreshold", Int(1)),
    zero("failureThreshold", Int(3)),
];
const HTTP_GET: &[DefaultRule] = &[zero("path", Text("/")), zero("scheme", Text("HTTP"))];
const GRPC: &[DefaultRule] = &[absent("service", Text(""))];
const PORT: &[DefaultRule] = &[zero("protocol", Text("TCP"))];
const FIELD_REFERENCE: &[DefaultRule] = &[zero("apiVersion", Text("v1"))];
const RESOURCE_REFERENCE: &[DefaultRule] = &[absent("divisor", Text("0"))];
/// 0644
const FILE_MODE: &[DefaultRule] = &[absent("defaultMode", Int(420))];
const HOST_PATH: &[DefaultRule] = &[absent("type", Text(""))];
const ISCSI: &[DefaultRule] = &[zero("iscsiInterface", Text("default"))];
const RBD: &[DefaultRule] =
    &[zero("pool", Text("rbd")), zero("user", Text("admin")), zero("keyring", Text("/etc/ceph/keyring"))];
const AZURE_DISK: &[DefaultRule] = &[
    absent("cachingMode", Text("ReadWrite")),
    absent("kind", Text("Shared")),
    absent("fsType", Text("ext4")),
    absent("readOnly", Constant::Bool(false)),
];
const SCALE_IO: &[DefaultRule] = &[zero("storageMode", Text("ThinProvisioned")), zero("fsType", Text("xfs"))];
const TOKEN: &[DefaultRule] = &[absent("expirationSeconds", Int(3600))];
const CLAIM_SPEC: &[DefaultRule] = &[absent("volumeMode", Text("Filesystem"))];
const CONTAINER_LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Sets the defaults of a pod template (`metadata` and `spec`) under `key`.
pub(super) fn default_template(owner: &mut Object, key: &str) {
    let Some(template) = ensure(owner, key) else {
        return;
    };
    // Metadata and specification are written even when they are empty.
    ensure(template, "metadata");
    if let Some(spec) = ensure(template, "spec") {
        default_spec(spec);
    }
}

/// Sets the defaults of a pod's specification, in a pod or a template.
pub(super) fn default_spec(spec: &mut Object) {
    let account = match text(spec, "serviceAccountName") {
        "" => text(spec, "serviceAccount"),
        name => name,
    };
    if !account.is_empty() {
        let account = Value::from(account);
        spec.insert("serviceAccount".into(), account.clone());
        spec.insert("serviceAccountName".into(), account);
    }
    fill(spec, SPEC);
    // An absent list of containers is written as null: it is a required field.
    spec.entry("containers").or_insert(Value::Null);
    for list in CONTAINER_LISTS {
        for container in items(spec, list) {
            default_container(container);
        }
    }
    for volume in items(spec, "volumes") {
        default_volume(volume);
    }
}

/// Sets the defaults that only pods have, not templates.
pub(super) fn default_pod(spec: &mut Object) {
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|period| period < 0) {
        spec.insert("terminationGracePeriodSeconds".into(), 1.into());
    }
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        for container in items(spec, list) {
            default_requests_to_limits(container);
            if host_network {
                default_host_ports(container);
            }
        }
    }
    fill(spec, &[absent("enableServiceLinks", Constant::Bool(true))]);
}

/// Copies limits without a request to the requests.
fn default_requests_to_limits(container: &mut Object) {
    let Some(resources) = child(container, "resources") else {
        return;
    };
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else {
        return;
    };
    if let Some(requests) = ensure(resources, "requests") {
        for (resource, quantity) in limits {
            requests.entry(resource).or_insert(quantity);
        }
    }
}

/// Sets the host ports of a pod on the host's network to its container ports.
fn default_host_ports(container: &mut Object) {
    for port in items(container, "ports") {
        if port.get("hostPort").and_then(Value::as_i64).unwrap_or_default() == 0
            && let Some(number) = port.get("containerPort").cloned()
        {
            port.insert("hostPort".into(), number);
        }
    }
}

fn default_container(container: &mut Object) {
    if text(container, "imagePullPolicy").is_empty() {
        let policy = pull_policy(text(container, "image"));
        container.insert("imagePullPolicy".into(), policy.into());
    }
    fill(container, CONTAINER);
    for port in items(container, "ports") {
        fill(port, PORT);
    }
    for variable in items(container, "env") {
        if let Some(source) = child(variable, "valueFrom") {
            default_references(source);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = child(container, probe) {
            fill(probe, PROBE);
            default_handler(probe);
        }
    }
    if let Some(lifecycle) = child(container, "lifecycle") {
        for moment in ["postStart", "preStop"] {
            if let Some(handler) = child(lifecycle, moment) {
                default_handler(handler);
            }
        }
    }
}

fn default_handler(handler: &mut Object) {
    if let Some(action) = child(handler, "httpGet") {
        fill(action, HTTP_GET);
    }
    if let Some(action) = child(handler, "grpc") {
        fill(action, GRPC);
    }
}

fn default_references(source: &mut Object) {
    if let Some(reference) = child(source, "fieldRef") {
        fill(reference, FIELD_REFERENCE);
    }
    if let Some(reference) = child(source, "resourceFieldRef") {
        fill(reference, RESOURCE_REFERENCE);
    }
}

/// Returns the pull policy of an image: always without a tag or with the tag `latest`.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    // A colon before the last slash belongs to the registry's port.
    let last = name.rsplit('/').next().unwrap_or(name);
    match (last.split_once(':'), digest) {
        (Some((_, "latest")), _) => "Always",
        (None, None) if !image.is_empty() => "Always",
        _ => "IfNotPresent",
    }
}

fn default_volume(volume: &mut Object) {
    let has_source = volume.iter().any(|(key, value)| key != "name" && !value.is_null());
    if !has_source {
        volume.insert("emptyDir".into(), Value::Object(Map::new()));
    }
    default_volume_source(volume);
    for key in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = child(volume, key) {
            fill(source, FILE_MODE);
            for item in items(source, "items") {
                default_references(item);
            }
        }
    }
    if let Some(projected) = child(volume, "projected") {
        for source in items(projected, "sources") {
            if let Some(token) = child(source, "serviceAccountToken") {
                fill(token, TOKEN);
            }
            if let Some(downward) = child(source, "downwardAPI") {
                for item in items(downward, "items") {
                    default_references(item);
                }
            }
        }
    }
    if let Some(image) = child(volume, "image")
        && text(image, "pullPolicy").is_empty()
    {
        let policy = pull_policy(text(image, "reference"));
        image.insert("pullPolicy".into(), policy.into());
    }
    if let Some(template) = child(volume, "ephemeral").and_then(|source| child(source, "volumeClaimTemplate")) {
        ensure(template, "metadata");
        if let Some(spec) = ensure(template, "spec") {
            default_claim_spec(spec);
        }
    }
}

/// Sets the defaults of the sources that pods' volumes and PersistentVolumes share.
pub(super) fn default_volume_source(volume: &mut Object) {
    for (key, rules) in
        [("hostPath", HOST_PATH), ("iscsi", ISCSI), ("rbd", RBD), ("azureDisk", AZURE_DISK), ("scaleIO", SCALE_IO)]
    {
        if let Some(source) = child(volume, key) {
            fill(source, rules);
        }
    }
}

/// Sets the defaults of a claim's specification, in a PersistentVolumeClaim or in a template of one.
pub(super) fn default_claim_spec(spec: &mut Object) {
    fill(spec, CLAIM_SPEC);
    ensure(spec, "resources");
    // `dataSource` and `dataSourceRef` mirror each other.
    if is_absent(spec, "dataSourceRef") {
        if let Some(source) = spec.get("dataSource").filter(|source| !source.is_null()).cloned() {
            spec.insert("dataSourceRef".into(), source);
        }
    } else if is_absent(spec, "dataSource")
        && let Some(reference) = spec.get("dataSourceRef").cloned()
        && is_empty(reference.get("namespace"))
    {
        spec.insert("dataSource".into(), reference);
    }
}

#[cfg(test)]
mod tests;
