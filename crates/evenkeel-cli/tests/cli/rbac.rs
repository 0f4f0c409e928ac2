//! `evenkeel rbac` from the outside: audit logs in, roles out.

use std::io::Write;
use std::process::Stdio;

use evenkeel_apiserver::{ApiServer, AuditPolicy};
use evenkeel_client::access::AccessRecorder;
use evenkeel_client::{ListParams, Patch};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::process::{Folder, evenkeel};

fn rbac(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = evenkeel(&["rbac"]).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Returns what a program leaves in the audit log of a server.
async fn recorded() -> String {
    let server = ApiServer::builder().audit_policy(AuditPolicy::metadata()).in_process_only().start().await.unwrap();
    let maps = server.client().api::<ConfigMap>().namespace("web");
    maps.patch("a", &Patch::merge(&json!({}))).await.unwrap_err();
    server.client().api::<ConfigMap>().list(&ListParams::default()).await.unwrap();
    server.audit_events().iter().map(|event| format!("{event}\n")).collect()
}

const ROLES: &str = "\
# What system:admin used.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: shop
rules:
- apiGroups:
  - ''
  resources:
  - configmaps
  verbs:
  - list
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: shop
  namespace: web
rules:
- apiGroups:
  - ''
  resources:
  - configmaps
  verbs:
  - patch
";

#[tokio::test]
async fn scf_007_roles_come_from_the_audit_log_of_a_server() {
    let folder = Folder::new("rbac-roles");
    let log = folder.file("audit.log", &recorded().await);
    let (code, output, errors) = rbac(&[&log, "--name", "shop"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(output.replace("\"\"", "''"), ROLES);

    let (_, wide, _) = rbac(&[&log, "--all-namespaces"]);
    assert!(wide.contains("name: system-admin") && !wide.contains("kind: Role\n"), "{wide}");
    let (_, named, _) = rbac(&[&log, "--by-name", "configmaps"]);
    assert!(named.contains("resourceNames:\n  - a\n"), "{named}");

    // The roles that were computed are sufficient, and nothing is left over.
    let roles = folder.file("role.yaml", &output);
    let (code, checked, errors) = rbac(&[&log, "--check", &roles]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(checked, "everything that system:admin used is granted\n");
}

#[tokio::test]
async fn scf_007_a_check_fails_with_what_is_not_granted() {
    let folder = Folder::new("rbac-check");
    let log = folder.file("audit.log", &recorded().await);
    let rules = "[{apiGroups: [''], resources: [configmaps], verbs: [list, delete]}]";
    let role =
        format!("kind: ClusterRole\napiVersion: rbac.authorization.k8s.io/v1\nmetadata: {{name: r}}\nrules: {rules}\n");
    let (code, output, errors) = rbac(&[&log, "--check", &folder.file("role.yaml", &role)]);
    assert_eq!((code, output.as_str()), (Some(1), "granted and not used: delete configmaps\n"));
    let expected =
        "evenkeel: used and not granted: patch configmaps in web named a; add it to the role, or stop using it\n";
    assert_eq!(errors, expected);
    let empty = folder.file("empty.yaml", "kind: Pod\napiVersion: v1\n");
    let (code, _, errors) = rbac(&[&log, "--check", &empty]);
    assert!(code == Some(1) && errors.contains("there are no rules in it"), "{errors}");
}

#[test]
fn scf_007_users_are_kept_apart() {
    let folder = Folder::new("rbac-users");
    let event = |user: &str, verb: &str| {
        let object = json!({"resource": "pods", "namespace": "web"});
        json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "verb": verb, "user": {"username": user}, "objectRef": object})
    };
    let lines = [event("ann", "list"), event("system:serviceaccount:web:shop", "watch")];
    let log = folder.file("audit.log", &lines.map(|line| line.to_string()).join("\n"));
    let (_, output, _) = rbac(&[&log, "--name", "r"]);
    assert!(
        output.contains("name: r-ann\n") && output.contains("name: r-system-serviceaccount-web-shop\n"),
        "{output}"
    );
    let (_, output, _) = rbac(&[&log, "--user", "ann"]);
    assert!(output.contains("name: ann\n") && !output.contains("watch"), "{output}");
    let (code, _, errors) = rbac(&[&log, "--user", "bob"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("no requests of the user \"bob\"; it has ann, system:serviceaccount:web:shop"), "{errors}");
    let (code, _, errors) = rbac(&[&log, "--check", &log]);
    assert!(code == Some(1) && errors.contains("--user USER"), "{errors}");
    let broken = folder.file("broken.log", "{}\n");
    let (code, _, errors) = rbac(&[&broken]);
    assert!(code == Some(1) && errors.contains("line 1 is no event of audit.k8s.io"), "{errors}");
}

#[tokio::test]
async fn scf_007_a_recorder_of_a_test_writes_what_the_command_reads() {
    let server = ApiServer::builder().in_process_only().start().await.unwrap();
    let recorder = AccessRecorder::new();
    let client = server.client().with_access_recorder(&recorder);
    client.api::<ConfigMap>().list(&ListParams::default()).await.unwrap();
    let mut lines = Vec::new();
    recorder.log().write_audit_log("shop", &mut lines).unwrap();
    let mut command = evenkeel(&["rbac", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    command.stdin.take().unwrap().write_all(&lines).unwrap();
    let output = String::from_utf8(command.wait_with_output().unwrap().stdout).unwrap();
    assert!(output.starts_with("# What shop used.\n") && output.contains("kind: ClusterRole"), "{output}");
}
