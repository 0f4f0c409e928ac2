//! What rules allow, and the texts of what they do not.

use evenkeel_apiserver::ApiServer;
use serde_json::{Value, json};

use super::{BINDINGS, CLUSTER_BINDINGS, CLUSTER_ROLES, ROLES, binding, grant, grant_here, role, rule, start, user};
use crate::PODS;
use crate::api::{Api, TestEnv};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn rba_001_a_refusal_says_who_cannot_do_what() {
    let api = start().await;
    let joe = api.acting_as("joe", &[]);
    let refused = joe.get(PODS).await;
    let message = refused.refusal(403, "Forbidden");
    assert_eq!(
        message,
        r#"pods is forbidden: User "joe" cannot list resource "pods" in API group "" in the namespace "default""#
    );
    assert_eq!(refused.body["details"], json!({"kind": "pods"}));
    assert_eq!(refused.header("x-content-type-options"), "nosniff");

    let refused = joe.get(&format!("{PODS}/web/log")).await;
    let message = refused.refusal(403, "Forbidden");
    let expected = r#"pods "web" is forbidden: User "joe" cannot get resource "pods/log" in API group "" in the namespace "default""#;
    assert_eq!(message, expected);
    assert_eq!(refused.body["details"], json!({"name": "web", "kind": "pods"}));

    for (method, path, verb, resource, group) in [
        ("GET", "/apis/apps/v1/deployments?watch=true", "watch", "deployments", "apps"),
        ("DELETE", "/apis/apps/v1/namespaces/default/deployments", "deletecollection", "deployments", "apps"),
        ("GET", "/apis/nowhere.example.com/v1/things", "list", "things", "nowhere.example.com"),
        ("HEAD", "/api/v1/nodes", "list", "nodes", ""),
    ] {
        let refused = joe.send(method, path, &[], "").await;
        assert_eq!(refused.status, 403, "{method} {path}");
        let message = refused.body["message"].as_str().unwrap();
        let start = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let expected =
            format!(r#"{start} is forbidden: User "joe" cannot {verb} resource "{resource}" in API group "{group}" "#);
        assert!(message.starts_with(&expected), "{message}");
    }
    let refused = joe.get("/metrics").await;
    assert_eq!(refused.refusal(403, "Forbidden"), r#"forbidden: User "joe" cannot get path "/metrics""#);
    assert_eq!(refused.body["details"], json!({}));
}

#[tokio::test]
async fn rba_001_err_20_markup_in_a_name_is_escaped() {
    let api = start().await;
    let refused = api.acting_as("<b>&", &[]).get(PODS).await;
    assert!(refused.refusal(403, "Forbidden").contains(r#"User "&lt;b&gt;&amp;" cannot list"#));
}

#[tokio::test]
async fn rba_002_a_missing_role_is_named_and_does_not_hide_others() {
    let api = start().await;
    for (name, role) in [("a", "gone"), ("b", "lost")] {
        api.post(CLUSTER_BINDINGS, &binding(name, ("ClusterRole", role), &[user("joe")])).await.expect(201);
    }
    let joe = api.acting_as("joe", &[]);
    let refused = joe.get(PODS).await;
    let reason = r#": RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, clusterrole.rbac.authorization.k8s.io "lost" not found]"#;
    assert!(refused.refusal(403, "Forbidden").ends_with(reason), "{}", refused.text);

    api.delete(&format!("{CLUSTER_BINDINGS}/b")).await.expect(200);
    let refused = joe.get(PODS).await;
    let reason = r#": RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found"#;
    assert!(refused.refusal(403, "Forbidden").ends_with(reason), "{}", refused.text);

    api.post(BINDINGS, &binding("c", ("Role", "none"), &[user("ann")])).await.expect(201);
    let refused = api.acting_as("ann", &[]).get(PODS).await;
    let reason = r#": RBAC: role.rbac.authorization.k8s.io "none" not found"#;
    assert!(refused.refusal(403, "Forbidden").ends_with(reason), "{}", refused.text);

    grant_here(&api, "joe", &[rule(&["list"], "", &["pods"])]).await;
    joe.get(PODS).await.expect(200);
}

/// Returns the annotations of the last audited request.
fn annotations(api: &Api) -> (String, String) {
    let event = api.server.audit_events().pop().unwrap();
    let text = |key: &str| event["annotations"][key].as_str().unwrap_or("absent").to_owned();
    (text("authorization.k8s.io/decision"), text("authorization.k8s.io/reason"))
}

#[tokio::test]
async fn rba_003_the_audit_log_says_which_binding_allowed_a_request() {
    let policy = evenkeel_apiserver::AuditPolicy::metadata();
    let api = Api::with(ApiServer::builder().env(TestEnv::new()).rbac(true).audit_policy(policy)).await;
    grant(&api, "joe", &[rule(&["list"], "", &["pods"])]).await;
    api.acting_as("joe", &[]).get(PODS).await.expect(200);
    let reason = r#"RBAC: allowed by ClusterRoleBinding "of-joe" of ClusterRole "of-joe" to User "joe""#;
    assert_eq!(annotations(&api), ("allow".to_owned(), reason.to_owned()));

    let account = json!({"kind": "ServiceAccount", "name": "robot"});
    api.post(ROLES, &role("reader", &[rule(&["get", "list"], "", &["pods"])])).await.expect(201);
    api.post(BINDINGS, &binding("robots", ("Role", "reader"), &[user("ann"), account])).await.expect(201);
    api.acting_as("system:serviceaccount:default:robot", &[]).get(PODS).await.expect(200);
    let reason = r#"RBAC: allowed by RoleBinding "robots/default" of Role "reader" to ServiceAccount "robot/default""#;
    assert_eq!(annotations(&api), ("allow".to_owned(), reason.to_owned()));

    api.acting_as("joe", &[]).get(SECRETS).await.refusal(403, "Forbidden");
    assert_eq!(annotations(&api), ("forbid".to_owned(), String::new()));
    api.get(SECRETS).await.expect(200);
    assert_eq!(annotations(&api), ("allow".to_owned(), String::new()), "system:masters needs no binding");
}

#[tokio::test]
async fn rba_004_names_of_resources_match_single_objects() {
    let api = start().await;
    let mut named = rule(&["get", "list", "watch", "create", "update", "deletecollection"], "", &["configmaps"]);
    named["resourceNames"] = json!(["one"]);
    grant_here(&api, "joe", &[named]).await;
    let joe = api.acting_as("joe", &[]);
    api.post(MAPS, &json!({"metadata": {"name": "one"}})).await.expect(201);
    joe.get(&format!("{MAPS}/one")).await.expect(200);
    joe.get(&format!("{MAPS}/%6Fne")).await.expect(200);
    joe.get(&format!("{MAPS}/two")).await.refusal(403, "Forbidden");
    joe.get(MAPS).await.refusal(403, "Forbidden");
    joe.get(&format!("{MAPS}?fieldSelector=metadata.name%3Done")).await.expect(200);
    joe.get(&format!("{MAPS}?fieldSelector=metadata.name=two")).await.refusal(403, "Forbidden");
    joe.get(&format!("{MAPS}?fieldSelector=metadata.name!=one")).await.refusal(403, "Forbidden");
    joe.post(MAPS, &json!({"metadata": {"name": "one"}})).await.refusal(403, "Forbidden");
    let all = format!("{MAPS}?fieldSelector=metadata.name=one");
    joe.delete(&all).await.refusal(403, "Forbidden");
}

#[tokio::test]
async fn rba_005_subresources_wildcards_and_verbs_are_granted_one_by_one() {
    let api = start().await;
    grant(&api, "reader", &[rule(&["get", "update"], "", &["pods"])]).await;
    let reader = api.acting_as("reader", &[]);
    reader.get(&format!("{PODS}/web/log")).await.refusal(403, "Forbidden");
    reader.patch(&format!("{PODS}/web"), &json!({})).await.refusal(403, "Forbidden");
    reader.get(&format!("{PODS}/web")).await.refusal(404, "NotFound");

    grant(&api, "scaler", &[rule(&["get"], "apps", &["*/scale"])]).await;
    let scaler = api.acting_as("scaler", &[]);
    let deployments = "/apis/apps/v1/namespaces/default/deployments/web";
    scaler.get(&format!("{deployments}/scale")).await.refusal(404, "NotFound");
    scaler.get("/apis/apps/v1/namespaces/default/replicasets/web/scale").await.refusal(404, "NotFound");
    scaler.get(deployments).await.refusal(403, "Forbidden");
    scaler.get(&format!("{deployments}/status")).await.refusal(403, "Forbidden");
    let controllers = "/api/v1/namespaces/default/replicationcontrollers/web/scale";
    scaler.get(controllers).await.refusal(403, "Forbidden");

    grant(&api, "all", &[rule(&["*"], "apps", &["*"])]).await;
    let all = api.acting_as("all", &[]);
    all.get(&format!("{deployments}/status")).await.refusal(404, "NotFound");
    all.get("/apis/apps/v1/deployments").await.expect(200);
    all.get(PODS).await.refusal(403, "Forbidden");

    grant(&api, "lister", &[rule(&["list"], "", &["pods"])]).await;
    let lister = api.acting_as("lister", &[]);
    lister.get(PODS).await.expect(200);
    lister.get(&format!("{PODS}?watch=true")).await.refusal(403, "Forbidden");
}

#[tokio::test]
async fn rba_005_paths_match_exactly_or_by_prefix() {
    let api = start().await;
    let paths = json!({"verbs": ["get"], "nonResourceURLs": ["/metrics", "/logs/*"]});
    grant(&api, "scraper", &[paths]).await;
    let scraper = api.acting_as("scraper", &[]);
    assert_eq!(scraper.get("/metrics").await.status, 200);
    assert_eq!(scraper.get("/logs/a/b").await.status, 404);
    assert_eq!(scraper.get("/metrics/x").await.status, 403);
    assert_eq!(scraper.send("POST", "/metrics", &[], "").await.status, 403);
}

#[tokio::test]
async fn rba_006_a_service_account_without_a_namespace_is_in_that_of_its_role_binding() {
    let api = start().await;
    let account = json!({"kind": "ServiceAccount", "name": "robot"});
    api.post(ROLES, &role("reader", &[rule(&["list"], "", &["pods"])])).await.expect(201);
    api.post(BINDINGS, &binding("robots", ("Role", "reader"), std::slice::from_ref(&account))).await.expect(201);
    api.acting_as("system:serviceaccount:default:robot", &[]).get(PODS).await.expect(200);
    api.acting_as("system:serviceaccount:other:robot", &[]).get(PODS).await.refusal(403, "Forbidden");
    api.acting_as("robot", &[]).get(PODS).await.refusal(403, "Forbidden");
    let refused = api.post(CLUSTER_BINDINGS, &binding("robots", ("ClusterRole", "view"), &[account])).await;
    assert!(refused.refusal(422, "Invalid").contains("subjects[0].namespace: Required value"), "{}", refused.text);
}

#[tokio::test]
async fn rba_007_a_write_governs_the_next_request() {
    let api = start().await;
    let joe = api.acting_as("joe", &[]);
    joe.get(PODS).await.refusal(403, "Forbidden");
    grant_here(&api, "joe", &[rule(&["list"], "", &["pods"])]).await;
    joe.get(PODS).await.expect(200);
    joe.get("/api/v1/namespaces/kube-system/pods").await.refusal(403, "Forbidden");
    let with_rules = api.server.snapshot();
    api.patch(&format!("{ROLES}/joe"), &json!({"rules": [rule(&["get"], "", &["pods"])]})).await.expect(200);
    joe.get(PODS).await.refusal(403, "Forbidden");
    api.server.restore(&with_rules);
    joe.get(PODS).await.expect(200);
    api.delete(&format!("{BINDINGS}/joe")).await.expect(200);
    joe.get(PODS).await.refusal(403, "Forbidden");

    let group = json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "devs"});
    api.post(BINDINGS, &binding("devs", ("ClusterRole", "view"), &[group])).await.expect(201);
    api.acting_as("joe", &["devs"]).get(PODS).await.expect(200);
    joe.get(PODS).await.refusal(403, "Forbidden");
}

#[tokio::test]
async fn rba_008_the_role_of_a_binding_cannot_change() {
    let api = start().await;
    let mut bound = binding("b", ("ClusterRole", "view"), &[user("joe")]);
    api.post(CLUSTER_BINDINGS, &bound).await.expect(201);
    bound["roleRef"]["name"] = "edit".into();
    let refused = api.put(&format!("{CLUSTER_BINDINGS}/b"), &bound).await;
    let message = refused.refusal(422, "Invalid");
    assert!(message.contains("roleRef: Invalid value: ") && message.ends_with(": field is immutable"), "{message}");
}

#[tokio::test]
async fn aut_11_an_apply_or_update_that_creates_needs_create() {
    let api = start().await;
    grant_here(
        &api,
        "joe",
        &[
            rule(&["patch", "update"], "", &["configmaps"]),
            rule(&["patch", "update"], "coordination.k8s.io", &["leases"]),
        ],
    )
    .await;
    let joe = api.acting_as("joe", &[]);
    let path = format!("{MAPS}/new?fieldManager=joe");
    let intent = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}});
    let refused = joe.apply(&path, &intent).await;
    let expected = r#"configmaps "new" is forbidden: User "joe" cannot create resource "configmaps" in API group "" in the namespace "default""#;
    assert_eq!(refused.refusal(403, "Forbidden"), expected);
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    joe.put(lease, &json!({"metadata": {"name": "l"}})).await.refusal(403, "Forbidden");
    api.apply(&path, &intent).await.expect(201);
    joe.apply(&format!("{path}&force=true"), &intent).await.expect(200);

    grant(&api, "joe", &[rule(&["create"], "coordination.k8s.io", &["leases"])]).await;
    joe.put(lease, &json!({"metadata": {"name": "l"}})).await.expect(201);
}

#[tokio::test]
async fn aut_7_health_needs_no_permission_and_discovery_has_its_roles() {
    let api = start().await;
    let anonymous = [("impersonate-user", "system:anonymous")];
    for (path, code) in [("/healthz", 200), ("/version", 200), ("/readyz/ping", 403), ("/apis", 403)] {
        assert_eq!(api.send("GET", path, &anonymous, "").await.status, code, "{path}");
    }
    let joe = api.acting_as("joe", &[]);
    for path in ["/api", "/apis", "/apis/apps/v1", "/openapi/v3", "/version"] {
        assert_eq!(joe.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn aut_7_a_session_on_a_get_needs_create() {
    let api = start().await;
    grant(&api, "joe", &[rule(&["get"], "", &["pods/exec"])]).await;
    let joe = api.acting_as("joe", &[]);
    let refused = joe.get(&format!("{PODS}/web/exec?stdout=true")).await;
    assert_eq!(refused.refusal(403, "Forbidden"), r#"pods "web" is forbidden: "#);
    let refused = joe.send("POST", &format!("{PODS}/web/exec"), &[], "").await;
    assert!(refused.refusal(403, "Forbidden").contains(r#"cannot create resource "pods/exec""#));
}

#[tokio::test]
async fn aut_1_roles_and_bindings_warn_while_rbac_is_off() {
    let off = Api::start().await;
    let created = off.post(CLUSTER_ROLES, &role("r", &[])).await;
    let warning = "299 - \"evenkeel: RBAC is off, so this ClusterRole limits no user; Builder::rbac(true) and --rbac switch it on\"";
    assert_eq!(created.warnings(), [warning]);
    off.acting_as("joe", &[]).get(SECRETS).await.expect(200);
    let on = start().await;
    let created = on.post(CLUSTER_ROLES, &role("r", &[])).await;
    assert_eq!(created.warnings(), Vec::<&str>::new());
    let created: Value = created.expect(201);
    assert_eq!(created["rules"], json!([]));
}
