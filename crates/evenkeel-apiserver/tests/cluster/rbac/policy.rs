//! The roles and bindings that exist from the start.

use evenkeel_apiserver::ApiServer;
use serde_json::{Value, json};

use super::{BINDINGS, CLUSTER_BINDINGS, CLUSTER_ROLES, binding, start, user};
use crate::api::{Api, Handle, TestEnv};

const NAMESPACE: &str = "/namespaces/default";

#[tokio::test]
async fn rba_010_seeded_objects_are_marked() {
    let api = Api::start().await;
    for path in [CLUSTER_ROLES, CLUSTER_BINDINGS] {
        let list = api.get(path).await.expect(200);
        let items = list["items"].as_array().unwrap();
        assert!(items.len() >= 50, "{path}: {}", items.len());
        for item in items {
            let metadata = &item["metadata"];
            assert_eq!(metadata["labels"]["kubernetes.io/bootstrapping"], "rbac-defaults", "{metadata}");
            assert_eq!(metadata["annotations"]["rbac.authorization.kubernetes.io/autoupdate"], "true", "{metadata}");
            assert!(metadata["uid"].is_string() && metadata["creationTimestamp"].is_string(), "{metadata}");
        }
    }
    let roles = api.get("/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles").await.expect(200);
    let names: Vec<&str> =
        roles["items"].as_array().unwrap().iter().map(|role| role["metadata"]["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"extension-apiserver-authentication-reader"), "{names:?}");
    assert!(names.contains(&"system::leader-locking-kube-controller-manager"), "{names:?}");
}

#[tokio::test]
async fn rba_010_seeded_objects_can_be_written_like_others() {
    let api = Api::start().await;
    for path in [CLUSTER_ROLES, CLUSTER_BINDINGS] {
        for mut item in api.get(path).await.expect(200)["items"].as_array().unwrap().clone() {
            let path = format!("{path}/{}", item["metadata"]["name"].as_str().unwrap());
            let before = item["metadata"]["resourceVersion"].clone();
            item["metadata"].as_object_mut().unwrap().remove("resourceVersion");
            let written = api.put(&path, &item).await.expect(200);
            assert_eq!(written["metadata"]["resourceVersion"], before, "{path} is stored as a create stores it");
        }
    }
}

#[tokio::test]
async fn rba_010_a_restart_adds_what_is_missing_and_keeps_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let open = || ApiServer::builder().env(TestEnv::new()).data_dir(folder.path());
    let api = Api::with(open()).await;
    let extra = json!({"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["foos"]});
    api.patch(&format!("{CLUSTER_ROLES}/system:basic-user"), &json!({"rules": [extra]})).await.expect(200);
    api.patch(&format!("{CLUSTER_BINDINGS}/system:discovery"), &json!({"subjects": [user("joe")]})).await.expect(200);
    let keep =
        json!({"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}, "rules": []});
    api.patch(&format!("{CLUSTER_ROLES}/system:monitoring"), &keep).await.expect(200);
    api.delete(&format!("{CLUSTER_ROLES}/system:kube-dns")).await.expect(200);
    api.delete(&format!("{CLUSTER_BINDINGS}/system:basic-user")).await.expect(200);
    let other = binding("system:basic-user", ("ClusterRole", "view"), &[user("joe")]);
    api.post(CLUSTER_BINDINGS, &other).await.expect(201);
    let untouched = api.get(&format!("{CLUSTER_ROLES}/view")).await.expect(200);
    api.server.shutdown().await;

    let api = Api::with(open()).await;
    let get = async |path: String| api.get(&path).await.expect(200);
    let rules = get(format!("{CLUSTER_ROLES}/system:basic-user")).await["rules"].as_array().unwrap().clone();
    assert_eq!(rules[0], extra);
    assert!(rules.iter().any(|rule| rule["resources"] == json!(["selfsubjectreviews"])), "{rules:?}");
    let subjects = get(format!("{CLUSTER_BINDINGS}/system:discovery")).await["subjects"].as_array().unwrap().clone();
    let names: Vec<&Value> = subjects.iter().map(|subject| &subject["name"]).collect();
    assert_eq!(names, ["joe", "system:authenticated"]);
    assert_eq!(get(format!("{CLUSTER_ROLES}/system:monitoring")).await["rules"], json!([]));
    assert!(get(format!("{CLUSTER_ROLES}/system:kube-dns")).await["rules"].is_array());
    let recreated = get(format!("{CLUSTER_BINDINGS}/system:basic-user")).await;
    assert_eq!(recreated["roleRef"]["name"], "system:basic-user");
    assert_eq!(get(format!("{CLUSTER_ROLES}/view")).await, untouched, "what lacks nothing is not written");
}

/// Returns whether a user may do something in the namespace `default`.
async fn may(user: &Handle, verb: &str, group: &str, resource: &str) -> bool {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let attributes =
        json!({"verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": "default"});
    let review = json!({"spec": {"resourceAttributes": attributes}});
    let answered = user.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await.expect(201);
    answered["status"]["allowed"].as_bool().unwrap()
}

#[tokio::test]
async fn rba_012_what_view_edit_and_admin_may_do() {
    let api = start().await;
    for name in ["view", "edit", "admin"] {
        api.post(BINDINGS, &binding(name, ("ClusterRole", name), &[user(name)])).await.expect(201);
    }
    let (view, edit, admin) = (api.acting_as("view", &[]), api.acting_as("edit", &[]), api.acting_as("admin", &[]));
    let rbac = "rbac.authorization.k8s.io";
    for (verb, group, resource, allowed) in [
        ("list", "", "pods", [true, true, true]),
        ("get", "", "pods/log", [true, true, true]),
        ("watch", "apps", "deployments", [true, true, true]),
        ("list", "batch", "jobs", [true, true, true]),
        ("list", "autoscaling", "horizontalpodautoscalers", [true, true, true]),
        ("list", "networking.k8s.io", "ingresses", [true, true, true]),
        ("list", "policy", "poddisruptionbudgets", [true, true, true]),
        ("list", "", "events", [true, true, true]),
        ("list", "discovery.k8s.io", "endpointslices", [true, true, true]),
        ("list", "", "resourcequotas", [true, true, true]),
        ("get", "", "secrets", [false, true, true]),
        ("create", "", "pods/exec", [false, true, true]),
        ("create", "", "pods/attach", [false, true, true]),
        ("create", "", "pods/portforward", [false, true, true]),
        ("create", "", "serviceaccounts/token", [false, true, true]),
        ("update", "coordination.k8s.io", "leases", [false, true, true]),
        ("create", "", "pods", [false, true, true]),
        ("delete", "apps", "deployments", [false, true, true]),
        ("list", rbac, "roles", [false, false, true]),
        ("create", rbac, "rolebindings", [false, false, true]),
        ("create", "authorization.k8s.io", "localsubjectaccessreviews", [false, false, true]),
        ("create", "", "resourcequotas", [false, false, false]),
        ("update", "", "limitranges", [false, false, false]),
        ("update", "", "namespaces", [false, false, false]),
    ] {
        let found = [
            may(&view, verb, group, resource).await,
            may(&edit, verb, group, resource).await,
            may(&admin, verb, group, resource).await,
        ];
        assert_eq!(found, allowed, "{verb} {resource}.{group} {NAMESPACE}");
    }
}

#[tokio::test]
async fn rba_013_seeded_bindings() {
    let api = start().await;
    let list = api.get(CLUSTER_BINDINGS).await.expect(200);
    let subjects = |name: &str| -> Vec<String> {
        let found = list["items"].as_array().unwrap().iter().find(|item| item["metadata"]["name"] == name);
        let found = found.unwrap_or_else(|| panic!("no binding {name}"));
        assert_eq!(found["roleRef"]["name"], name);
        let subjects = found["subjects"].as_array().unwrap().iter();
        subjects
            .map(|subject| format!("{} {}", subject["kind"].as_str().unwrap(), subject["name"].as_str().unwrap()))
            .collect()
    };
    for (name, expected) in [
        ("cluster-admin", &["Group system:masters"][..]),
        ("system:discovery", &["Group system:authenticated"]),
        ("system:basic-user", &["Group system:authenticated"]),
        ("system:public-info-viewer", &["Group system:authenticated", "Group system:unauthenticated"]),
        ("system:monitoring", &["Group system:monitoring"]),
        ("system:kube-controller-manager", &["User system:kube-controller-manager"]),
        ("system:kube-scheduler", &["User system:kube-scheduler"]),
        ("system:volume-scheduler", &["User system:kube-scheduler"]),
        ("system:node-proxier", &["User system:kube-proxy"]),
        ("system:controller:generic-garbage-collector", &["ServiceAccount generic-garbage-collector"]),
        ("system:controller:job-controller", &["ServiceAccount job-controller"]),
    ] {
        assert_eq!(subjects(name), expected, "{name}");
    }
    let scheduler = api.acting_as("system:kube-scheduler", &[]);
    scheduler.get("/api/v1/nodes").await.expect(200);
    scheduler.get("/api/v1/secrets").await.refusal(403, "Forbidden");
    let collector = api.acting_as("system:serviceaccount:kube-system:generic-garbage-collector", &[]);
    collector.get("/api/v1/secrets").await.expect(200);
    assert_eq!(api.acting_as("prometheus", &["system:monitoring"]).get("/metrics").await.status, 200);
}

#[tokio::test]
async fn aut_8_the_roles_of_every_user_exist() {
    let api = start().await;
    for name in
        ["cluster-admin", "admin", "edit", "view", "system:discovery", "system:basic-user", "system:public-info-viewer"]
    {
        let role = api.get(&format!("{CLUSTER_ROLES}/{name}")).await.expect(200);
        assert!(!role["rules"].as_array().unwrap().is_empty(), "{name}");
    }
}
