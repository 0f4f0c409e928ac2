//! The checks of the baseline level, in the order in which their violations are shown.

use std::collections::BTreeSet;

use serde_json::Value;

use super::violation::{CheckedPod, PodCheck, Security, Violation, containers, name, plural, quoted, setters};
use crate::engine::admission::list_at;

pub(super) const CHECKS: &[PodCheck] = &[
    PodCheck { since: 0, overridden_since: None, run: app_armor },
    PodCheck { since: 0, overridden_since: Some(22), run: capabilities },
    PodCheck { since: 0, overridden_since: None, run: host_namespaces },
    PodCheck { since: 0, overridden_since: Some(0), run: host_path_volumes },
    PodCheck { since: 0, overridden_since: None, run: host_ports },
    PodCheck { since: 34, overridden_since: None, run: probe_hosts },
    PodCheck { since: 0, overridden_since: None, run: privileged },
    PodCheck { since: 0, overridden_since: Some(35), run: proc_mount_outside_user_namespaces },
    PodCheck { since: 0, overridden_since: None, run: selinux },
    PodCheck { since: 0, overridden_since: Some(19), run: seccomp },
    PodCheck { since: 0, overridden_since: None, run: sysctls },
    PodCheck { since: 0, overridden_since: None, run: windows_host_process },
];

/// The capabilities that containers have by default, except `NET_RAW`.
const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// The sysctls that affect one pod only, and the minor version since which each is allowed.
const SYSCTLS: [(&str, u32); 14] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
    ("net.ipv4.tcp_slow_start_after_idle", 37),
    ("net.ipv4.tcp_notsent_lowat", 37),
];

const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns which of the pod and its containers set a profile other than those of the runtime and the node, and the types
/// of these profiles.
fn forbidden_profiles<'a>(pod: &CheckedPod<'a>, pointer: &str) -> (Option<String>, BTreeSet<&'a str>) {
    let forbidden = |profile: Option<&'a Value>| {
        let kind = profile.map(|profile| profile.get("type").map(text).unwrap_or_default());
        kind.filter(|kind| !matches!(*kind, "RuntimeDefault" | "Localhost"))
    };
    let own = forbidden(pod.security(pointer));
    let names = pod.where_security(|security| forbidden(security.get(pointer)).is_some());
    let of_containers = pod.containers.iter().filter_map(|container| forbidden(Security(container).get(pointer)));
    (setters(own.is_some(), &names), own.into_iter().chain(of_containers).collect())
}

fn app_armor(pod: &CheckedPod<'_>, _: u32) -> Option<Violation> {
    let (who, types) = forbidden_profiles(pod, "/appArmorProfile");
    let is_forbidden = |(key, value): &(&str, &str)| {
        let is_allowed = matches!(*value, "" | "runtime/default") || value.starts_with("localhost/");
        key.starts_with(APP_ARMOR) && !is_allowed
    };
    let annotations = pod.annotations().filter(is_forbidden).map(|(key, value)| format!("{key}={value:?}"));
    let annotations: Vec<String> = annotations.collect();
    let annotated = plural("annotation", "annotations", annotations.len());
    let who = match (who, annotations.is_empty()) {
        (None, true) => return None,
        (Some(who), true) => who,
        (Some(who), false) => format!("{who} and {annotated}"),
        (None, false) => annotated.to_owned(),
    };
    let values: Vec<String> = types.into_iter().map(str::to_owned).chain(annotations).collect();
    Violation::new(
        plural("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len()),
        format!("{who} must not set AppArmor profile type to {}", quoted(values)),
    )
}

fn capabilities(pod: &CheckedPod<'_>, _: u32) -> Option<Violation> {
    let mut added = BTreeSet::new();
    let mut names = Vec::new();
    for container in &pod.containers {
        let forbidden = list_at(container, &["securityContext", "capabilities", "add"]).iter().map(text);
        let forbidden: Vec<&str> = forbidden.filter(|capability| !CAPABILITIES.contains(capability)).collect();
        if !forbidden.is_empty() {
            names.push(name(container));
            added.extend(forbidden);
        }
    }
    if names.is_empty() {
        return None;
    }
    let detail =
        format!("{} must not include {} in securityContext.capabilities.add", containers(&names), quoted(added));
    Violation::new("non-default capabilities", detail)
}

fn host_namespaces(pod: &CheckedPod<'_>, _: u32) -> Option<Violation> {
    let used = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|key| pod.spec[*key] == true);
    let used: Vec<String> = used.map(|key| format!("{key}=true")).collect();
    if used.is_empty() { None } else { Violation::new("host namespaces", used.join(", ")) }
}

fn host_path_volumes(pod: &CheckedPod<'_>, _: u32) -> Option<Violation> {
    let volumes = list_at(pod.spec, &["volumes"]).iter().filter(|volume| !volume["hostPath"].is_null());
    let names: Vec<&str> = volumes.map(name).collect();
    if names.is_empty() {
        return None;
    }
    Violation::new("hostPath volumes", format!("{} {}", plural("volume", "volumes", names.len()), quoted(names)))
}

fn host_ports(pod: &CheckedPod<'_>, _: u32) -> Option<Violation> {
    let mut ports = BTreeSet::new();
    let mut names = Vec::new();
    for container in &pod.containers {
        let used = list_at(container, &["ports"]).iter().filter_map(|port| port.get("hostPort")?.as_i64());
        let used: Vec<String> = used.filter(|port| *port != 0).map(|port| port.to_string()).collect();
        if !used.is_empty() {
            names.push(name(container));
            ports.extend(used);
        }
    }
    if names.is_empty() {
        return None;
    }
    let detail = format!(
        "{} {} {} {}",
        containers(&names),
        plural("uses", "use", names.len()),
        plural("hostPort", "hostPorts", ports.len()),
        ports.into_iter().collect::<Vec<_>>().join(", ")
    );
    Violation::new("hostPort", detail)
}

fn probe_hosts(pod: &CheckedPod<'_>, _: u32) -> Option<Violation> {
    const HANDLERS: [&str; 5] =
        ["/livenessProbe", "/readinessProbe", "/startupProbe", "/lifecycle/postStart", "/lifecycle/preStop"];
    let (mut hosts, mut names) = (BTreeSet::new(), BTreeSet::new());
    for container in &pod.containers {
        for handler in HANDLERS.iter().filter_map(|pointer| container.pointer(pointer)) {
            for host in ["/httpGet/host", "/tcpSocket/host"].iter().filter_map(|it| handler.pointer(it)?.as_str()) {
                if !host.is_empty() {
                    hosts.insert(host);
                    names.insert(name(container));
                }
            }
        }
    }
    if names.is_empty() {
        return None;
    }
    let names: Vec<&str> = names.into_iter().collect();
    let detail = format!(
        "{} {} {} {}",
        containers(&names),
        plural("uses", "use", names.len()),
        plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len()),
        quoted(hosts)
    );
    Violation::new("probe or lifecycle host", detail)
}

fn privileged(pod: &CheckedPod<'_>, _: u32) -> Option<Violation> {
    let names = pod.where_security(|security| security.get("/privileged") == Some(&Value::Bool(true)));
    if names.is_empty() {
        return None;
    }
    Violation::new("privileged", format!("{} must not set securityContext.privileged=true", containers(&names)))
}

/// Since 1.35, pods with users of their own may see all of `/proc`.
fn proc_mount_outside_user_namespaces(pod: &CheckedPod<'_>, minor: u32) -> Option<Violation> {
    if minor >= 35 && pod.has_own_users() { None } else { proc_mount(pod, minor) }
}

/// Also a check of the restricted level, where it holds for all pods.
pub(super) fn proc_mount(pod: &CheckedPod<'_>, _: u32) -> Option<Violation> {
    let is_bad = |mount: &&Value| text(mount) != "Default";
    let names = pod.where_security(|security| security.get("/procMount").filter(is_bad).is_some());
    if names.is_empty() {
        return None;
    }
    let mounts = pod.containers.iter().filter_map(|container| container.pointer("/securityContext/procMount"));
    let mounts: BTreeSet<&str> = mounts.filter(|mount| !mount.is_null()).filter(is_bad).map(text).collect();
    let detail = format!("{} must not set securityContext.procMount to {}", containers(&names), quoted(mounts));
    Violation::new("procMount", detail)
}

fn selinux(pod: &CheckedPod<'_>, minor: u32) -> Option<Violation> {
    let is_allowed = |kind: &str| match kind {
        "" | "container_t" | "container_init_t" | "container_kvm_t" => true,
        "container_engine_t" => minor >= 31,
        _ => false,
    };
    let (mut types, mut has_user, mut has_role) = (BTreeSet::new(), false, false);
    let mut is_bad = |options: Option<&Value>| {
        let Some(options) = options.filter(|options| !options.is_null()) else { return false };
        let [kind, user, role] = ["type", "user", "role"].map(|key| options.get(key).map(text).unwrap_or_default());
        if !is_allowed(kind) {
            types.insert(kind.to_owned());
        }
        has_user |= !user.is_empty();
        has_role |= !role.is_empty();
        !is_allowed(kind) || !user.is_empty() || !role.is_empty()
    };
    let by_pod = is_bad(pod.security("/seLinuxOptions"));
    let mut names = Vec::new();
    for container in &pod.containers {
        if is_bad(container.pointer("/securityContext/seLinuxOptions")) {
            names.push(name(container));
        }
    }
    let who = setters(by_pod, &names)?;
    let mut what = Vec::new();
    if !types.is_empty() {
        what.push(format!("{} {}", plural("type", "types", types.len()), quoted(types)));
    }
    if has_user {
        what.push("user may not be set".to_owned());
    }
    if has_role {
        what.push("role may not be set".to_owned());
    }
    let detail = format!("{who} set forbidden securityContext.seLinuxOptions: {}", what.join("; "));
    Violation::new("seLinuxOptions", detail)
}

/// Before 1.19, annotations set the profile.
fn seccomp(pod: &CheckedPod<'_>, minor: u32) -> Option<Violation> {
    if minor >= 19 {
        return forbidden_seccomp(pod);
    }
    let is_allowed =
        |value: &str| matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
    let applies = |key: &str| {
        let container = key.strip_prefix(SECCOMP_CONTAINER);
        key == SECCOMP_POD || container.is_some_and(|it| pod.containers.iter().any(|container| name(container) == it))
    };
    let forbidden = pod.annotations().filter(|(key, value)| applies(key) && !is_allowed(value));
    let forbidden: Vec<String> = forbidden.map(|(key, value)| format!("{key}={value:?}")).collect();
    if forbidden.is_empty() {
        return None;
    }
    let word = plural("annotation", "annotations", forbidden.len());
    Violation::new("seccompProfile", format!("forbidden {word} {}", forbidden.join(", ")))
}

/// Finds profiles other than those of the runtime or the node. The restricted level has the same check and one more.
pub(super) fn forbidden_seccomp(pod: &CheckedPod<'_>) -> Option<Violation> {
    let (who, types) = forbidden_profiles(pod, "/seccompProfile");
    let who = who?;
    let detail = format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(types));
    Violation::new("seccompProfile", detail)
}

fn sysctls(pod: &CheckedPod<'_>, minor: u32) -> Option<Violation> {
    let is_allowed = |sysctl: &&str| SYSCTLS.iter().any(|(allowed, since)| allowed == sysctl && minor >= *since);
    let names = list_at(pod.spec, &["securityContext", "sysctls"]).iter().map(name);
    let forbidden: Vec<&str> = names.filter(|sysctl| !is_allowed(sysctl)).collect();
    if forbidden.is_empty() { None } else { Violation::new("forbidden sysctls", forbidden.join(", ")) }
}

fn windows_host_process(pod: &CheckedPod<'_>, _: u32) -> Option<Violation> {
    const POINTER: &str = "/windowsOptions/hostProcess";
    let is_true = |value: Option<&Value>| value == Some(&Value::Bool(true));
    let names = pod.where_security(|security| is_true(security.get(POINTER)));
    let who = setters(is_true(pod.security(POINTER)), &names)?;
    Violation::new("hostProcess", format!("{who} must not set securityContext.windowsOptions.hostProcess=true"))
}
