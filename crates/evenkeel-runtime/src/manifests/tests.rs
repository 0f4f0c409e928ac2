use std::collections::BTreeMap;
use std::fs;

use evenkeel_apiserver::ApiServer;
use evenkeel_client::access::AccessRecorder;
use evenkeel_client::manifest;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use serde_json::{Value, json};

use super::line_diff::line_diff;
use super::*;

fn controller(client: &Client) -> Controller<ConfigMap> {
    Controller::new(client).owns::<Secret>().reads::<Node>()
}

fn definition() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "description": "Many words: \"quoted\", and # more.\nA line."}},
            }],
        },
        "status": {"storedVersions": ["v1"]},
    }))
    .unwrap()
}

fn manifests() -> Manifests {
    Manifests::new("mirror")
        .crd(definition())
        .controller(controller)
        .writes::<Secret>(["create", "patch"])
        .writes_subresource::<ConfigMap>("status", ["patch"])
        .election()
        .events()
        .secured_metrics()
}

fn objects(manifests: &Manifests) -> BTreeMap<String, Value> {
    let files = manifests.files().unwrap();
    let objects = files.iter().flat_map(|file| manifest::parse(&file.text).unwrap());
    objects.map(|item| (format!("{}/{}", item.object.kind().unwrap(), item.name()), item.object.0)).collect()
}

#[test]
fn scf_006_rules_come_from_what_is_watched_and_declared() {
    let rules = manifests().rules();
    let expected = json!([
        {"apiGroups": [""], "resources": ["configmaps", "nodes"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["configmaps/finalizers"], "verbs": ["update"]},
        {"apiGroups": [""], "resources": ["configmaps/status"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "get", "list", "patch", "watch"]},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    ]);
    assert_eq!(json!(rules.cluster), expected);
    let leases = json!({"mirror-system": [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["mirror"], "verbs": ["get", "update"]},
    ]});
    assert_eq!(json!(rules.namespaces), leases);
}

#[test]
fn scf_006_a_controller_of_one_namespace_needs_a_role_there() {
    let in_web = Manifests::new("mirror").controller(|client| controller(client).namespace("web"));
    let rules = in_web.rules();
    assert_eq!(
        json!(rules.cluster),
        json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}])
    );
    let maps_and_secrets =
        json!({"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["get", "list", "watch"]});
    assert_eq!(json!(rules.namespaces["web"][0]), maps_and_secrets);
    let objects = objects(&in_web);
    assert_eq!(objects["RoleBinding/mirror"]["metadata"]["namespace"], "web");
    assert_eq!(objects["RoleBinding/mirror"]["subjects"][0]["namespace"], "mirror-system");
}

#[test]
fn scf_008_the_deployment_meets_the_restricted_pod_standard() {
    let objects = objects(&manifests().replicas(2).env("LEVEL", "debug").label("team", "web"));
    let pod = &objects["Deployment/mirror"]["spec"]["template"];
    let context = &pod["spec"]["securityContext"];
    assert_eq!((&context["runAsNonRoot"], &context["runAsUser"]), (&json!(true), &json!(65532)));
    assert_eq!(context["seccompProfile"]["type"], "RuntimeDefault");
    let container = &pod["spec"]["containers"][0];
    let restricted = json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
    });
    assert_eq!(container["securityContext"], restricted);
    assert_eq!(container["readinessProbe"]["httpGet"], json!({"path": "/readyz", "port": "probes"}));
    assert_eq!(container["livenessProbe"]["httpGet"], json!({"path": "/healthz", "port": "probes"}));
    assert_eq!(container["ports"][0], json!({"name": "probes", "containerPort": 8081}));
    assert_eq!(container["env"], json!([{"name": "LEVEL", "value": "debug"}]));
    let labels = json!({"app.kubernetes.io/name": "mirror", "team": "web"});
    assert_eq!(pod["metadata"]["labels"], labels);
    assert_eq!(
        objects["Namespace/mirror-system"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"],
        "restricted"
    );
    let selector = &objects["Deployment/mirror"]["spec"]["selector"]["matchLabels"];
    assert_eq!(*selector, json!({"app.kubernetes.io/name": "mirror"}), "it cannot be changed later");
}

#[test]
fn sme_011_secured_metrics_have_a_role_for_scrapers() {
    let objects = objects(&manifests());
    let rules = &objects["ClusterRole/mirror-metrics-reader"]["rules"];
    assert_eq!(*rules, json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]));
    assert_eq!(objects["Service/mirror-metrics"]["spec"]["ports"][0]["port"], 8443);
    assert!(!self::objects(&Manifests::new("plain")).contains_key("Service/plain-metrics"));
}

#[test]
fn scf_010_files_have_equal_bytes_and_kustomize_lists_them() {
    let files = manifests().files().unwrap();
    assert_eq!(files, manifests().files().unwrap());
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(
        paths,
        ["crds/example.com_foos.yaml", "deployment.yaml", "kustomization.yaml", "namespace.yaml", "rbac.yaml"]
    );
    assert!(files.iter().all(|file| file.text.starts_with("# Made from code")));
    let objects = objects(&manifests());
    let listed = json!(["crds/example.com_foos.yaml", "deployment.yaml", "namespace.yaml", "rbac.yaml"]);
    assert_eq!(objects["Kustomization/"]["resources"], listed);
    let crd = &objects["CustomResourceDefinition/foos.example.com"];
    assert!(crd.get("status").is_none());
    assert_eq!(crd["spec"], serde_json::to_value(definition().spec).unwrap(), "YAML keeps every text");
}

#[test]
fn scf_013_a_check_writes_nothing_and_shows_the_difference() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manifests");
    let missing = manifests().check(&path).unwrap_err().to_string();
    assert!(missing.starts_with("the manifests are outdated; run `manifests`"), "{missing}");
    assert!(!path.exists());

    assert_eq!(manifests().write(&path).unwrap().len(), 5);
    manifests().check(&path).unwrap();
    assert!(manifests().write(&path).unwrap().is_empty(), "nothing has changed");

    let Err(ManifestsError::Outdated { difference }) = manifests().replicas(3).check(&path) else { panic!() };
    let lines: Vec<&str> = difference.lines().collect();
    assert_eq!(lines.len(), 3, "{difference}");
    assert!(lines[0].ends_with("deployment.yaml"), "{difference}");
    assert!(lines[1].starts_with('-') && lines[1].ends_with("  replicas: 1"), "{difference}");
    assert!(lines[2].starts_with('+') && lines[2].ends_with("  replicas: 3"), "{difference}");

    // A kind that is no longer part of the program.
    let without = Manifests::new("mirror");
    assert!(without.check(&path).unwrap_err().to_string().contains("it is not made any more"));
    let changed = without.write(&path).unwrap();
    assert!(changed.contains(&path.join("crds/example.com_foos.yaml")));
    assert!(!path.join("crds/example.com_foos.yaml").exists());
}

#[test]
fn scf_010_files_of_others_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (own, other) = (folder.path().join("rbac.yaml"), folder.path().join("overlay.yaml"));
    fs::write(&own, "kind: Role\n").unwrap();
    fs::write(&other, "kind: Patch\n").unwrap();
    let error = manifests().write(folder.path()).unwrap_err().to_string();
    assert!(error.contains("rbac.yaml was not made by this command"), "{error}");
    assert!(!folder.path().join("deployment.yaml").exists(), "nothing is written");
    fs::remove_file(&own).unwrap();
    manifests().write(folder.path()).unwrap();
    assert_eq!(fs::read_to_string(&other).unwrap(), "kind: Patch\n");
    manifests().check(folder.path()).unwrap();
}

#[test]
fn a_difference_is_by_lines() {
    assert_eq!(line_diff("a\nb\nc\nd\n", "a\nx\nc\ny\nd\n"), "-    2 b\n+    2 x\n+    4 y\n");
    assert_eq!(line_diff("", "a\n"), "+    1 a\n");
    assert_eq!(line_diff("a\na\n", "a\n"), "-    2 a\n");
    let many = (0..3000).map(|line| format!("{line}\n")).collect::<String>();
    let others = many.replace('1', "x").replace("0\n", "y\n");
    assert!(line_diff(&many, &others).lines().count() > 3000);
}

#[tokio::test(start_paused = true)]
async fn scf_013_deploy_applies_everything_and_again_changes_nothing() {
    let server = ApiServer::builder().in_process_only().start().await.unwrap();
    let (client, recorder) = (server.client(), AccessRecorder::new());
    let applied = manifests().deploy(&client.with_access_recorder(&recorder)).await.unwrap();
    assert_eq!(applied[0], "CustomResourceDefinition \"foos.example.com\"");
    assert!(applied.contains(&"Deployment \"mirror\"".to_owned()), "{applied:?}");
    let deployments = client.api::<Deployment>().namespace("mirror-system");
    let first = deployments.get("mirror").await.unwrap();
    manifests().deploy(&client).await.unwrap();
    assert_eq!(deployments.get("mirror").await.unwrap().resource_version(), first.resource_version());
    let used = recorder.log();
    assert!(used.iter().any(|access| access.to_string() == "patch deployments.apps in mirror-system named mirror"));
}
