//! The checks that the restricted level adds, in the order in which their violations are shown.

use std::collections::BTreeSet;

use serde_json::Value;

use super::baseline::{forbidden_seccomp, proc_mount};
use super::violation::{CheckedPod, PodCheck, Violation, containers, name, plural, quoted, setters};
use crate::engine::admission::list_at;

pub(super) const CHECKS: &[PodCheck] = &[
    PodCheck { since: 8, overridden_since: None, run: privilege_escalation },
    PodCheck { since: 22, overridden_since: None, run: capabilities },
    PodCheck { since: 35, overridden_since: None, run: proc_mount },
    PodCheck { since: 0, overridden_since: None, run: volume_types },
    PodCheck { since: 0, overridden_since: None, run: run_as_non_root },
    PodCheck { since: 23, overridden_since: None, run: run_as_user },
    PodCheck { since: 19, overridden_since: None, run: seccomp },
];

/// Since this minor version, pods for Windows need not set what Windows does not have.
const EXEMPTS_WINDOWS: u32 = 25;
/// Since this minor version, pods with users of their own may run as root.
const EXEMPTS_OWN_USERS: u32 = 35;

const ALLOWED_VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];
/// The other types, in the order in which they are looked for.
const OTHER_VOLUMES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

fn privilege_escalation(pod: &CheckedPod<'_>, minor: u32) -> Option<Violation> {
    if minor >= EXEMPTS_WINDOWS && pod.is_windows() {
        return None;
    }
    let names = pod.where_security(|it| it.get("/allowPrivilegeEscalation") != Some(&Value::Bool(false)));
    if names.is_empty() {
        return None;
    }
    let detail = format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&names));
    Violation::new("allowPrivilegeEscalation != false", detail)
}

fn capabilities(pod: &CheckedPod<'_>, minor: u32) -> Option<Violation> {
    if minor >= EXEMPTS_WINDOWS && pod.is_windows() {
        return None;
    }
    let (mut keeping, mut adding, mut added) = (Vec::new(), Vec::new(), BTreeSet::new());
    for container in &pod.containers {
        let list = |key| list_at(container, &["securityContext", "capabilities", key]).iter().filter_map(Value::as_str);
        if !list("drop").any(|capability| capability == "ALL") {
            keeping.push(name(container));
        }
        let forbidden: Vec<&str> = list("add").filter(|capability| *capability != "NET_BIND_SERVICE").collect();
        if !forbidden.is_empty() {
            adding.push(name(container));
            added.extend(forbidden);
        }
    }
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keeping)));
    }
    if !adding.is_empty() {
        let who = containers(&adding);
        details.push(format!("{who} must not include {} in securityContext.capabilities.add", quoted(added)));
    }
    if details.is_empty() { None } else { Violation::new("unrestricted capabilities", details.join("; ")) }
}

fn volume_types(pod: &CheckedPod<'_>, _: u32) -> Option<Violation> {
    let is_set = |volume: &Value, kind: &str| volume.get(kind).is_some_and(|source| !source.is_null());
    let (mut names, mut types) = (Vec::new(), BTreeSet::new());
    for volume in list_at(pod.spec, &["volumes"]) {
        if !ALLOWED_VOLUMES.iter().any(|kind| is_set(volume, kind)) {
            names.push(name(volume));
            types.insert(OTHER_VOLUMES.into_iter().find(|kind| is_set(volume, kind)).unwrap_or("unknown"));
        }
    }
    if names.is_empty() {
        return None;
    }
    let detail = format!(
        "{} {} {} {} {}",
        plural("volume", "volumes", names.len()),
        quoted(&names),
        plural("uses", "use", names.len()),
        plural("restricted volume type", "restricted volume types", types.len()),
        quoted(types)
    );
    Violation::new("restricted volume types", detail)
}

fn run_as_non_root(pod: &CheckedPod<'_>, minor: u32) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    const POINTER: &str = "/runAsNonRoot";
    if minor >= EXEMPTS_OWN_USERS && pod.has_own_users() {
        return None;
    }
    let own = pod.security(POINTER).and_then(Value::as_bool);
    let set = |wanted: bool| pod.where_security(move |it| it.get(POINTER) == Some(&Value::Bool(wanted)));
    if let Some(who) = setters(own == Some(false), &set(false)) {
        return Violation::new(REASON, format!("{who} must not set securityContext.runAsNonRoot=false"));
    }
    let names = pod.where_security(|it| own != Some(true) && it.get(POINTER).is_none());
    if names.is_empty() {
        return None;
    }
    Violation::new(REASON, format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&names)))
}

fn run_as_user(pod: &CheckedPod<'_>, minor: u32) -> Option<Violation> {
    if minor >= EXEMPTS_OWN_USERS && pod.has_own_users() {
        return None;
    }
    let is_root = |user: Option<&Value>| user.and_then(Value::as_i64) == Some(0);
    let names = pod.where_security(|it| is_root(it.get("/runAsUser")));
    let who = setters(is_root(pod.security("/runAsUser")), &names)?;
    Violation::new("runAsUser=0", format!("{who} must not set runAsUser=0"))
}

fn seccomp(pod: &CheckedPod<'_>, minor: u32) -> Option<Violation> {
    if minor >= EXEMPTS_WINDOWS && pod.is_windows() {
        return None;
    }
    if let Some(violation) = forbidden_seccomp(pod) {
        return Some(violation);
    }
    let is_set = pod.security("/seccompProfile").is_some();
    let names = pod.where_security(|it| !is_set && it.get("/seccompProfile").is_none());
    if names.is_empty() {
        return None;
    }
    let detail = format!(
        "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
        containers(&names)
    );
    Violation::new("seccompProfile", detail)
}
