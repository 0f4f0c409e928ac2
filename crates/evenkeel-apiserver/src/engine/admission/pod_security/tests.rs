use serde_json::{Value, json};

use super::evaluate;
use super::policy::{Level, LevelVersion, Policy};
use super::violation::CheckedPod;

fn details(level: Level, minor: u32, metadata: &Value, spec: &Value) -> String {
    let pod = json!({"metadata": metadata, "spec": spec});
    evaluate(LevelVersion { level, version: Some(minor) }, 37, &CheckedPod::of(&pod)).details()
}

fn baseline(spec: &Value) -> String {
    details(Level::Baseline, 37, &json!({}), spec)
}

/// A specification of containers with these security contexts.
fn contexts(contexts: &[Value]) -> Value {
    let names = ["a", "b", "c"];
    let containers =
        names.iter().zip(contexts).map(|(name, context)| json!({"name": name, "securityContext": context}));
    json!({"containers": containers.collect::<Vec<_>>()})
}

#[test]
fn adm_018_baseline_checks_of_containers() {
    let cases = [
        (
            json!({"privileged": true}),
            "privileged (containers \"a\", \"b\" must not set securityContext.privileged=true)",
        ),
        (
            json!({"capabilities": {"add": ["NET_RAW", "CHOWN", "BPF"]}}),
            "non-default capabilities (containers \"a\", \"b\" must not include \"BPF\", \"NET_RAW\" in \
             securityContext.capabilities.add)",
        ),
        (
            json!({"procMount": "Unmasked"}),
            "procMount (containers \"a\", \"b\" must not set securityContext.procMount to \"Unmasked\")",
        ),
        (
            json!({"seLinuxOptions": {"type": "x", "user": "u", "role": "r"}}),
            "seLinuxOptions (containers \"a\", \"b\" set forbidden securityContext.seLinuxOptions: type \"x\"; user may \
             not be set; role may not be set)",
        ),
        (
            json!({"seccompProfile": {"type": "Unconfined"}}),
            "seccompProfile (containers \"a\", \"b\" must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
        (
            json!({"appArmorProfile": {"type": "Unconfined"}}),
            "forbidden AppArmor profile (containers \"a\", \"b\" must not set AppArmor profile type to \"Unconfined\")",
        ),
        (
            json!({"windowsOptions": {"hostProcess": true}}),
            "hostProcess (containers \"a\", \"b\" must not set securityContext.windowsOptions.hostProcess=true)",
        ),
    ];
    for (context, expected) in cases {
        assert_eq!(baseline(&contexts(&[context.clone(), context, json!(null)])), expected);
    }
}

#[test]
fn adm_018_baseline_checks_of_pods() {
    let cases = [
        (
            json!({"hostNetwork": true, "hostPID": true, "hostIPC": true}),
            "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
        ),
        (
            json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "emptyDir": {}}]}),
            "hostPath volumes (volume \"v\")",
        ),
        (
            json!({"containers": [{"name": "a", "ports": [{"hostPort": 80}, {"hostPort": 443}]}, {"name": "b", "ports": [{"containerPort": 1}]}]}),
            "hostPort (container \"a\" uses hostPorts 443, 80)",
        ),
        (
            json!({"containers": [{"name": "a", "livenessProbe": {"httpGet": {"host": "h"}}, "lifecycle": {"preStop": {"tcpSocket": {"host": "g"}}}}]}),
            "probe or lifecycle host (container \"a\" uses probe or lifecycle hosts \"g\", \"h\")",
        ),
        (
            json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_rmem"}]}}),
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            json!({"securityContext": {"seLinuxOptions": {"type": "container_engine_t", "user": "u"}}}),
            "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: user may not be set)",
        ),
        (
            json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}, "windowsOptions": {"hostProcess": true}}}),
            "seccompProfile (pod must not set securityContext.seccompProfile.type to \"Unconfined\"), hostProcess (pod must \
             not set securityContext.windowsOptions.hostProcess=true)",
        ),
    ];
    for (spec, expected) in cases {
        assert_eq!(baseline(&spec), expected);
    }
    assert_eq!(baseline(&contexts(&[json!({}), json!(null)])), "");
}

#[test]
fn adm_018_annotations_of_profiles() {
    let metadata = json!({"annotations": {
        "container.apparmor.security.beta.kubernetes.io/a": "unconfined",
        "container.apparmor.security.beta.kubernetes.io/b": "localhost/own",
        "seccomp.security.alpha.kubernetes.io/pod": "unconfined"}});
    let spec = contexts(&[json!({"appArmorProfile": {"type": "Unconfined"}})]);
    let profiles = "forbidden AppArmor profiles (container \"a\" and annotation must not set AppArmor profile type to \
                    \"Unconfined\", \"container.apparmor.security.beta.kubernetes.io/a=\"unconfined\"\")";
    assert_eq!(details(Level::Baseline, 37, &metadata, &spec), profiles);
    let seccomp = "seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod=\"unconfined\")";
    assert_eq!(details(Level::Baseline, 18, &metadata, &spec), format!("{profiles}, {seccomp}"));
}

#[test]
fn adm_018_checks_change_with_the_version() {
    let user_namespace =
        json!({"hostUsers": false, "containers": [{"name": "a", "securityContext": {"procMount": "Unmasked"}}]});
    let refused = "procMount (container \"a\" must not set securityContext.procMount to \"Unmasked\")";
    assert_eq!(details(Level::Baseline, 34, &json!({}), &user_namespace), refused);
    assert_eq!(details(Level::Baseline, 35, &json!({}), &user_namespace), "");
    assert!(details(Level::Restricted, 35, &json!({}), &user_namespace).contains(refused));
    let engine = contexts(&[json!({"seLinuxOptions": {"type": "container_engine_t"}})]);
    assert!(details(Level::Baseline, 30, &json!({}), &engine).starts_with("seLinuxOptions"));
    assert_eq!(details(Level::Baseline, 31, &json!({}), &engine), "");
    let sysctl = json!({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_notsent_lowat"}]}});
    assert_eq!(details(Level::Baseline, 36, &json!({}), &sysctl), "forbidden sysctls (net.ipv4.tcp_notsent_lowat)");
    // A version that does not exist yet has the checks of the latest.
    assert_eq!(details(Level::Baseline, 99, &json!({}), &sysctl), "");
    let probe = json!({"containers": [{"name": "a", "startupProbe": {"tcpSocket": {"host": "h"}}}]});
    assert_eq!(details(Level::Baseline, 33, &json!({}), &probe), "");
}

#[test]
fn adm_019_restricted_checks() {
    let hardened = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
                          "runAsNonRoot": true, "seccompProfile": {"type": "Localhost"}});
    let with = |changes: Value| {
        let mut context = hardened.clone();
        for (key, value) in changes.as_object().into_iter().flatten() {
            context[key] = value.clone();
        }
        details(Level::Restricted, 37, &json!({}), &contexts(&[context]))
    };
    assert_eq!(with(json!({})), "");
    let capabilities = "unrestricted capabilities (container \"a\" must set securityContext.capabilities.drop=[\"ALL\"]; \
                        container \"a\" must not include \"CHOWN\" in securityContext.capabilities.add)";
    assert_eq!(with(json!({"capabilities": {"add": ["CHOWN"]}})), capabilities);
    let non_root = "runAsNonRoot != true (container \"a\" must not set securityContext.runAsNonRoot=false)";
    assert_eq!(with(json!({"runAsNonRoot": false})), non_root);
    assert_eq!(with(json!({"runAsUser": 0})), "runAsUser=0 (container \"a\" must not set runAsUser=0)");
    let seccomp = "seccompProfile (container \"a\" must not set securityContext.seccompProfile.type to \"Unconfined\")";
    assert_eq!(with(json!({"seccompProfile": {"type": "Unconfined"}})), seccomp);
    let mut spec = contexts(std::slice::from_ref(&hardened));
    spec["volumes"] = json!([{"name": "v", "hostPath": {}}, {"name": "w", "nfs": {}}, {"name": "x", "secret": {}}]);
    let volumes = "restricted volume types (volumes \"v\", \"w\" use restricted volume types \"hostPath\", \"nfs\")";
    assert_eq!(details(Level::Restricted, 37, &json!({}), &spec), volumes);
}

#[test]
fn adm_019_windows_and_user_namespaces_are_exempt_from_some_checks() {
    let windows =
        json!({"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": true}, "containers": [{"name": "a"}]});
    assert_eq!(details(Level::Restricted, 25, &json!({}), &windows), "");
    assert!(details(Level::Restricted, 24, &json!({}), &windows).starts_with("allowPrivilegeEscalation"));
    let root = json!({"hostUsers": false, "securityContext": {"runAsUser": 0}, "containers": []});
    assert_eq!(details(Level::Restricted, 35, &json!({}), &root), "");
    assert!(details(Level::Restricted, 34, &json!({}), &root).contains("pod must not set runAsUser=0"));
}

#[test]
fn adm_018_what_is_enforced_is_also_warned_about() {
    let policy = |pairs: &[(&str, &str)]| {
        let labels: Vec<(String, &str)> =
            pairs.iter().map(|(mode, value)| (format!("pod-security.kubernetes.io/{mode}"), *value)).collect();
        Policy::of(|key| labels.iter().find(|(label, _)| label == key).map(|(_, value)| *value))
    };
    let texts = |policy: &Policy| [policy.enforce, policy.audit, policy.warn].map(|level| level.to_string());
    assert!(policy(&[]).checks_nothing());
    let enforced = policy(&[("enforce", "baseline"), ("enforce-version", "v1.30")]);
    assert_eq!(texts(&enforced), ["baseline:v1.30", "privileged:latest", "baseline:v1.30"]);
    let warned = policy(&[("enforce", "restricted"), ("warn", "baseline"), ("audit-version", "v1.2")]);
    assert_eq!(texts(&warned), ["restricted:latest", "privileged:v1.2", "baseline:latest"]);
    // A label that cannot be read enforces the strictest level, and reports nothing.
    let faulty = policy(&[("enforce", "x"), ("warn", "y"), ("audit-version", "v1.02")]);
    assert_eq!(texts(&faulty), ["restricted:latest", "privileged:latest", "privileged:latest"]);
    assert_eq!(faulty.faults.len(), 3);
}
