//! PodSecurity.

use evenkeel_apiserver::AuditPolicy;
use serde_json::{Value, json};

use super::{builder, namespace, pod};
use crate::api::Api;

const LABEL: &str = "pod-security.kubernetes.io";
const RESTRICTED: &str = "allowPrivilegeEscalation != false (container \"a\" must set \
    securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"a\" must set \
    securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"a\" must set \
    securityContext.runAsNonRoot=true), seccompProfile (pod or container \"a\" must set \
    securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";

/// A pod that the restricted level admits.
fn hardened(name: &str) -> Value {
    let security = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    pod(
        name,
        json!({"containers": [{"name": "a", "image": "busybox", "securityContext": security}],
                     "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}}),
    )
}

fn labels(pairs: &[(&str, &str)]) -> Value {
    pairs.iter().map(|(mode, value)| (format!("{LABEL}/{mode}"), json!(value))).collect()
}

async fn start(pairs: &[(&str, &str)]) -> Api {
    let api = Api::start().await;
    namespace(&api, "safe", labels(pairs)).await;
    api
}

const PODS: &str = "/api/v1/namespaces/safe/pods";

#[tokio::test]
async fn adm_018_pods_that_violate_the_enforced_level_are_refused() {
    let api = start(&[("enforce", "baseline")]).await;
    let refused = api.post(PODS, &pod("p", json!({"hostNetwork": true}))).await;
    let text = "pods \"p\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)";
    assert_eq!(refused.refusal(403, "Forbidden"), text);
    assert!(refused.warnings().is_empty(), "{:?}", refused.warnings());
    let mut generated = pod("", json!({"hostNetwork": true}));
    generated["metadata"] = json!({"generateName": "web-"});
    let refused = api.post(PODS, &generated).await;
    let message = refused.refusal(403, "Forbidden");
    assert!(message.starts_with("pods \"web-") && !message.starts_with("pods \"web-\""), "{message}");
    api.post(PODS, &pod("p", json!({}))).await.expect(201);
    // Other namespaces are not affected.
    api.post(crate::PODS, &pod("p", json!({"hostNetwork": true}))).await.expect(201);
}

#[tokio::test]
async fn adm_018_a_version_chooses_the_checks_of_that_release() {
    let sysctl = |name: &str| pod("p", json!({"securityContext": {"sysctls": [{"name": name, "value": "1"}]}}));
    let api = start(&[("enforce", "baseline"), ("enforce-version", "v1.28")]).await;
    let refused = api.post(PODS, &sysctl("net.ipv4.tcp_keepalive_time")).await;
    let why = "violates PodSecurity \"baseline:v1.28\": forbidden sysctls (net.ipv4.tcp_keepalive_time)";
    assert_eq!(refused.refusal(403, "Forbidden"), format!("pods \"p\" is forbidden: {why}"));
    let newer = labels(&[("enforce-version", "v1.29")]);
    api.patch("/api/v1/namespaces/safe", &json!({"metadata": {"labels": newer}})).await.expect(200);
    api.post(PODS, &sysctl("net.ipv4.tcp_keepalive_time")).await.expect(201);
}

#[tokio::test]
async fn adm_018_an_update_is_checked_if_it_changes_images() {
    let api = Api::start().await;
    namespace(&api, "safe", json!({})).await;
    api.post(PODS, &pod("p", json!({"hostPID": true}))).await.expect(201);
    let enforced = json!({"metadata": {"labels": labels(&[("enforce", "baseline")])}});
    api.patch("/api/v1/namespaces/safe", &enforced).await.expect(200);
    let path = format!("{PODS}/p");
    api.patch(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
    let image = json!({"spec": {"containers": [{"name": "a", "image": "other"}]}});
    let refused = api.strategic(&path, &image).await;
    assert!(refused.refusal(403, "Forbidden").ends_with("host namespaces (hostPID=true)"), "{}", refused.text);
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "busybox"}]}});
    let refused = api.strategic(&format!("{path}/ephemeralcontainers"), &debug).await;
    assert!(refused.refusal(403, "Forbidden").ends_with("host namespaces (hostPID=true)"), "{}", refused.text);
}

#[tokio::test]
async fn adm_019_the_restricted_level_asks_for_four_settings() {
    let api = start(&[("enforce", "restricted")]).await;
    let refused = api.post(PODS, &pod("p", json!({}))).await;
    let text = format!("pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\": {RESTRICTED}");
    assert_eq!(refused.refusal(403, "Forbidden"), text);
    api.post(PODS, &hardened("p")).await.expect(201);
}

#[tokio::test]
async fn adm_020_templates_lead_to_warnings_and_are_not_refused() {
    let api = start(&[("enforce", "restricted")]).await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod("", json!({}))["spec"]});
    let selector = json!({"matchLabels": {"a": "b"}});
    let mut job = template.clone();
    job["spec"]["restartPolicy"] = json!("Never");
    let apps = "/apis/apps/v1/namespaces/safe";
    let batch = "/apis/batch/v1/namespaces/safe";
    let core = "/api/v1/namespaces/safe";
    let set = json!({"selector": selector, "template": template});
    let cases = [
        (format!("{apps}/deployments"), "apps/v1", "Deployment", json!({"spec": set})),
        (format!("{apps}/replicasets"), "apps/v1", "ReplicaSet", json!({"spec": set})),
        (format!("{apps}/statefulsets"), "apps/v1", "StatefulSet", json!({"spec": set})),
        (format!("{apps}/daemonsets"), "apps/v1", "DaemonSet", json!({"spec": set})),
        (format!("{batch}/jobs"), "batch/v1", "Job", json!({"spec": {"template": job}})),
        (
            format!("{batch}/cronjobs"),
            "batch/v1",
            "CronJob",
            json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": job}}}}),
        ),
        (
            format!("{core}/replicationcontrollers"),
            "v1",
            "ReplicationController",
            json!({"spec": {"selector": {"a": "b"}, "template": template}}),
        ),
        (format!("{core}/podtemplates"), "v1", "PodTemplate", json!({"template": template})),
    ];
    let text = format!("would violate PodSecurity \"restricted:latest\": {RESTRICTED}").replace('"', "\\\"");
    let warning = format!("299 - \"{text}\"");
    for (path, version, kind, mut object) in cases {
        object["apiVersion"] = json!(version);
        object["kind"] = json!(kind);
        object["metadata"] = json!({"name": "o"});
        let created = api.post(&path, &object).await;
        assert_eq!((created.status, created.warnings()), (201, vec![warning.as_str()]), "{kind}: {}", created.text);
    }
}

#[tokio::test]
async fn adm_020_the_level_of_warnings_can_differ_and_pods_are_warned_about_as_well() {
    let api = start(&[("enforce", "baseline"), ("warn", "restricted"), ("warn-version", "v1.36")]).await;
    let created = api.post(PODS, &pod("p", json!({}))).await;
    let text = format!("would violate PodSecurity \"restricted:v1.36\": {RESTRICTED}").replace('"', "\\\"");
    assert_eq!((created.status, created.warnings()), (201, vec![format!("299 - \"{text}\"").as_str()]));
    assert!(api.post(PODS, &hardened("q")).await.warnings().is_empty());
}

#[tokio::test]
async fn adm_020_audit_violations_are_annotations_of_the_audit_event() {
    let folder = std::env::temp_dir().join(format!("evenkeel-adm-020-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("audit.log");
    let policy = AuditPolicy::parse("{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}").unwrap();
    let api = Api::with(builder().audit_log(&path).audit_policy(policy)).await;
    namespace(&api, "safe", labels(&[("audit", "restricted")])).await;
    let created = api.post(PODS, &pod("p", json!({}))).await;
    assert_eq!((created.status, created.warnings()), (201, Vec::new()));
    api.server.shutdown().await;
    let log = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_pod = |event: &Value| event["objectRef"]["resource"] == "pods" && event["stage"] == "ResponseComplete";
    let event = events.into_iter().find(of_pod).unwrap();
    let annotations = &event["annotations"];
    assert_eq!(annotations[format!("{LABEL}/enforce-policy")], "privileged:latest");
    let text = format!("would violate PodSecurity \"restricted:latest\": {RESTRICTED}");
    assert_eq!(annotations[format!("{LABEL}/audit-violations")], text);
}

#[tokio::test]
async fn adm_021_a_tightened_level_warns_about_existing_pods() {
    let api = Api::start().await;
    namespace(&api, "safe", json!({})).await;
    for name in ["c", "b", "a"] {
        api.post(PODS, &pod(name, json!({"hostIPC": true}))).await.expect(201);
    }
    api.post(PODS, &pod("z", json!({"hostPID": true, "volumes": [{"name": "v", "hostPath": {"path": "/"}}]})))
        .await
        .expect(201);
    api.post(PODS, &pod("fine", json!({}))).await.expect(201);
    let enforce = |level: &str| json!({"metadata": {"labels": labels(&[("enforce", level)])}});
    let tightened = api.patch("/api/v1/namespaces/safe", &enforce("baseline")).await;
    let expected = [
        "existing pods in namespace \\\"safe\\\" violate the new PodSecurity enforce level \\\"baseline:latest\\\"",
        "a (and 2 other pods): host namespaces",
        "z: host namespaces, hostPath volumes",
    ];
    let expected: Vec<String> = expected.iter().map(|text| format!("299 - \"{text}\"")).collect();
    assert_eq!((tightened.status, tightened.warnings()), (200, expected.iter().map(String::as_str).collect()));
    let relaxed = api.patch("/api/v1/namespaces/safe", &enforce("privileged")).await;
    assert_eq!((relaxed.status, relaxed.warnings()), (200, Vec::new()));
}

#[tokio::test]
async fn adm_021_unknown_levels_and_versions_are_invalid() {
    let api = Api::start().await;
    let with = |pairs: &[(&str, &str)]| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "safe", "labels": labels(pairs)}});
    let refused = api.post("/api/v1/namespaces", &with(&[("enforce", "strict"), ("warn-version", "1.2")])).await;
    let text = "Namespace \"safe\" is invalid: \
        [metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of privileged, \
        baseline, restricted, metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: \"1.2\": must be \
        \"latest\" or \"v1.x\"]";
    assert_eq!(refused.refusal(422, "Invalid"), text);
    api.post("/api/v1/namespaces", &with(&[("enforce", "baseline")])).await.expect(201);
    let refused = api.patch("/api/v1/namespaces/safe", &with(&[("enforce", "strict")])).await;
    refused.refusal(422, "Invalid");
}
