//! Validation of pod specifications, for pods and pod templates (OBJ-15).

use std::collections::HashSet;
use std::fmt;

use serde_json::Value;

use crate::field::{FieldError, FieldFault, is_full};
use crate::meta::{dns_label, refuse, validate_annotations, validate_labels};

use super::check::supported;
use super::fill::{at, is_empty, list_at, quantity, text_at};

const RESTART_POLICIES: &[&str] = &["Always", "OnFailure", "Never"];
const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
const MESSAGE_POLICIES: &[&str] = &["File", "FallbackToLogsOnError"];
/// The fields of a container that an ephemeral container must not have.
const NOT_EPHEMERAL: &[&str] = &[
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];
const NOT_EPHEMERAL_DETAIL: &str = "cannot be set for an Ephemeral Container";
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// Checks a pod template at `path`. `claims` are volumes that the owner provides in addition to the template's.
pub(super) fn template(errors: &mut Vec<FieldError>, template: Option<&Value>, path: &str, claims: &[&str]) {
    let Some(template) = template else {
        errors.push(FieldError::required(path, ""));
        return;
    };
    let metadata = template.get("metadata").unwrap_or(&Value::Null);
    validate_labels(metadata.get("labels"), &format!("{path}.labels"), errors);
    validate_annotations(metadata.get("annotations"), &format!("{path}.annotations"), errors);
    spec(errors, template.get("spec").unwrap_or(&Value::Null), &format!("{path}.spec"), claims);
    if !list_at(template, &["spec", "ephemeralContainers"]).is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(format!("{path}.spec.ephemeralContainers"), detail));
    }
}

/// Checks a pod's specification at `path`.
pub(super) fn spec(errors: &mut Vec<FieldError>, spec: &Value, path: &str, claims: &[&str]) {
    let mut volumes: HashSet<&str> = claims.iter().copied().collect();
    let mut declared: HashSet<&str> = HashSet::new();
    for (index, volume) in list_at(spec, &["volumes"]).iter().enumerate() {
        if is_full(errors) {
            return;
        }
        let path = format_args!("{path}.volumes[{index}].name");
        let name = text_at(volume, &["name"]);
        if name.is_empty() {
            errors.push(FieldError::required(path.to_string(), ""));
            continue;
        }
        refuse(errors, path, name, dns_label(name));
        if !declared.insert(name) {
            errors.push(FieldError::duplicate(path.to_string(), &Value::from(name)));
        }
        volumes.insert(name);
    }
    let regular = list_at(spec, &["containers"]);
    let regular_path = format_args!("{path}.containers");
    if regular.is_empty() {
        errors.push(FieldError::required(regular_path.to_string(), ""));
    }
    let mut names: HashSet<&str> = HashSet::new();
    containers(errors, regular, regular_path, &volumes, &mut names);
    let init = list_at(spec, &["initContainers"]);
    containers(errors, init, format_args!("{path}.initContainers"), &volumes, &mut names);
    supported(errors, spec, path, "restartPolicy", RESTART_POLICIES);
    supported(errors, spec, path, "dnsPolicy", DNS_POLICIES);
}

/// Checks the ephemeral containers of a pod's specification. They must not have what a workload relies on.
pub(super) fn ephemeral_containers(errors: &mut Vec<FieldError>, spec: &Value, path: &str) {
    let names = |list| list_at(spec, &[list]).iter().map(|each| text_at(each, &["name"]));
    let volumes: HashSet<&str> = names("volumes").collect();
    let targets: HashSet<&str> = names("containers").chain(names("initContainers")).collect();
    let list = list_at(spec, &["ephemeralContainers"]);
    containers(errors, list, format_args!("{path}"), &volumes, &mut targets.clone());
    for (index, each) in list.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let target = text_at(each, &["targetContainerName"]);
        if !target.is_empty() && !targets.contains(target) {
            errors.push(FieldError {
                fault: FieldFault::NotFound,
                field: format!("{path}.targetContainerName"),
                value: Some(Value::from(target).to_string()),
                detail: String::new(),
            });
        }
        for field in NOT_EPHEMERAL {
            if !is_empty(each.get(*field)) {
                errors.push(FieldError::forbidden(format!("{path}.{field}"), NOT_EPHEMERAL_DETAIL));
            }
        }
        for (index, mount) in list_at(each, &["volumeMounts"]).iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !text_at(mount, &[field]).is_empty() {
                    let path = format!("{path}.volumeMounts[{index}].{field}");
                    errors.push(FieldError::forbidden(path, NOT_EPHEMERAL_DETAIL));
                }
            }
        }
    }
}

fn containers<'a>(
    errors: &mut Vec<FieldError>,
    containers: &'a [Value],
    path: fmt::Arguments<'_>,
    volumes: &HashSet<&str>,
    names: &mut HashSet<&'a str>,
) {
    for (index, each) in containers.iter().enumerate() {
        if is_full(errors) {
            return;
        }
        let path = format_args!("{path}[{index}]");
        let name = text_at(each, &["name"]);
        container(errors, each, name, path, volumes);
        if !name.is_empty() && !names.insert(name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), &Value::from(name)));
        }
    }
}

fn container(
    errors: &mut Vec<FieldError>,
    container: &Value,
    name: &str,
    path: fmt::Arguments<'_>,
    volumes: &HashSet<&str>,
) {
    if name.is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    } else {
        refuse(errors, format_args!("{path}.name"), name, dns_label(name));
    }
    if text_at(container, &["image"]).is_empty() {
        errors.push(FieldError::required(format!("{path}.image"), ""));
    }
    supported(errors, container, path, "terminationMessagePolicy", MESSAGE_POLICIES);
    ports(errors, container, path);
    for (index, variable) in list_at(container, &["env"]).iter().enumerate() {
        if text_at(variable, &["name"]).is_empty() {
            errors.push(FieldError::required(format!("{path}.env[{index}].name"), ""));
        }
    }
    mounts(errors, container, path, volumes);
    supported(errors, container, path, "imagePullPolicy", PULL_POLICIES);
    resources(errors, container, path);
}

fn ports(errors: &mut Vec<FieldError>, container: &Value, path: fmt::Arguments<'_>) {
    let mut names: HashSet<&str> = HashSet::new();
    for (index, port) in list_at(container, &["ports"]).iter().enumerate() {
        if is_full(errors) {
            return;
        }
        let path = format_args!("{path}.ports[{index}]");
        let name = text_at(port, &["name"]);
        if !name.is_empty() {
            refuse(errors, format_args!("{path}.name"), name, port_name(name));
            if !names.insert(name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), &Value::from(name)));
            }
        }
        match port.get("containerPort").and_then(Value::as_i64).unwrap_or_default() {
            0 => errors.push(FieldError::required(format!("{path}.containerPort"), "")),
            number => in_port_range(errors, number, format_args!("{path}.containerPort")),
        }
        if let Some(number) = port.get("hostPort").and_then(Value::as_i64).filter(|number| *number != 0) {
            in_port_range(errors, number, format_args!("{path}.hostPort"));
        }
        supported(errors, port, path, "protocol", PROTOCOLS);
    }
}

/// Checks the range of a port number.
pub(super) fn in_port_range(errors: &mut Vec<FieldError>, number: i64, path: impl fmt::Display) {
    if !(1..=65535).contains(&number) {
        errors.push(FieldError::invalid(
            path.to_string(),
            &Value::from(number),
            "must be between 1 and 65535, inclusive",
        ));
    }
}

pub(super) fn port_name(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut fault = |broken: bool, text: &str| {
        if broken {
            faults.push(text.to_owned());
        }
    };
    fault(name.len() > 15, "must be no more than 15 characters");
    fault(
        !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    );
    fault(!name.bytes().any(|byte| byte.is_ascii_lowercase()), "must contain at least one letter (a-z)");
    fault(name.contains("--"), "must not contain consecutive hyphens");
    fault(name.starts_with('-') || name.ends_with('-'), "must not begin or end with a hyphen");
    faults
}

fn mounts(errors: &mut Vec<FieldError>, container: &Value, path: fmt::Arguments<'_>, volumes: &HashSet<&str>) {
    let mut targets: HashSet<&str> = HashSet::new();
    for (index, mount) in list_at(container, &["volumeMounts"]).iter().enumerate() {
        if is_full(errors) {
            return;
        }
        let path = format_args!("{path}.volumeMounts[{index}]");
        let name = text_at(mount, &["name"]);
        if name.is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        }
        if !volumes.contains(name) {
            errors.push(FieldError {
                fault: FieldFault::NotFound,
                field: format!("{path}.name"),
                value: Some(Value::from(name).to_string()),
                detail: String::new(),
            });
        }
        let target = text_at(mount, &["mountPath"]);
        if target.is_empty() {
            errors.push(FieldError::required(format!("{path}.mountPath"), ""));
        } else if !targets.insert(target) {
            errors.push(FieldError::invalid(format!("{path}.mountPath"), &Value::from(target), "must be unique"));
        }
    }
}

fn resources(errors: &mut Vec<FieldError>, container: &Value, path: fmt::Arguments<'_>) {
    let Some(requests) = at(container, &["resources", "requests"]).and_then(Value::as_object) else {
        return;
    };
    for (resource, request) in requests {
        let Some(limit) = at(container, &["resources", "limits", resource]) else {
            continue;
        };
        if let (Some(requested), Some(limited)) = (quantity(request), quantity(limit))
            && requested > limited
        {
            let limit = limit.as_str().map_or_else(|| limit.to_string(), str::to_owned);
            errors.push(FieldError::invalid(
                format!("{path}.resources.requests"),
                request,
                format!("must be less than or equal to {resource} limit of {limit}"),
            ));
        }
    }
}
