//! No user grants more than it has.

use serde_json::json;

use super::{BINDINGS, CLUSTER_BINDINGS, CLUSTER_ROLES, ROLES, binding, grant, grant_here, role, rule, start, user};

const RBAC: &str = "rbac.authorization.k8s.io";
const ALL: &[&str] = &["roles", "rolebindings", "clusterroles", "clusterrolebindings"];

#[tokio::test]
async fn rba_018_a_role_beyond_ones_own_rules_is_refused() {
    let api = start().await;
    grant(&api, "joe", &[rule(&["*"], RBAC, ALL).clone(), rule(&["get"], "", &["pods"])]).await;
    let joe = api.acting_as("joe", &["devs"]);
    // `*` on clusterroles includes `escalate`.
    joe.post(CLUSTER_ROLES, &role("anything", &[rule(&["*"], "*", &["*"])])).await.expect(201);

    grant(&api, "ann", &[rule(&["create", "update", "patch"], RBAC, ALL), rule(&["get"], "", &["pods"])]).await;
    let ann = api.acting_as("ann", &["devs"]);
    ann.post(ROLES, &role("mine", &[rule(&["get"], "", &["pods"])])).await.expect(201);
    let wanted = [
        rule(&["get", "list"], "", &["pods", "secrets"]),
        json!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["a", "b"]}),
    ];
    let refused = ann.post(ROLES, &role("more", &wanted)).await;
    let expected = r#"roles.rbac.authorization.k8s.io "more" is forbidden: user "ann" (groups=["devs" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:
{APIGroups:[""], Resources:["pods"], Verbs:["list"]}
{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}
{APIGroups:["apps"], Resources:["deployments"], ResourceNames:["a"], Verbs:["get"]}
{APIGroups:["apps"], Resources:["deployments"], ResourceNames:["b"], Verbs:["get"]}"#;
    assert_eq!(refused.refusal(403, "Forbidden"), expected);
    let grown = json!({"rules": [rule(&["get"], "", &["secrets"])]});
    ann.patch(&format!("{ROLES}/mine"), &grown).await.refusal(403, "Forbidden");
    let refused = ann.put(&format!("{ROLES}/new"), &role("new", &[rule(&["get"], "", &["secrets"])])).await;
    refused.refusal(403, "Forbidden");

    let path = json!({"verbs": ["get"], "nonResourceURLs": ["/metrics"]});
    let refused = ann.post(CLUSTER_ROLES, &role("paths", &[path])).await;
    let line = r#"{NonResourceURLs:["/metrics"], Verbs:["get"]}"#;
    assert!(refused.refusal(403, "Forbidden").ends_with(line), "{}", refused.text);
}

#[tokio::test]
async fn rba_018_missing_roles_are_part_of_the_refusal() {
    let api = start().await;
    grant(&api, "ann", &[rule(&["create"], RBAC, ALL)]).await;
    api.post(CLUSTER_BINDINGS, &binding("x", ("ClusterRole", "gone"), &[user("ann")])).await.expect(201);
    let refused = api.acting_as("ann", &[]).post(ROLES, &role("more", &[rule(&["get"], "", &["pods"])])).await;
    let end = r#"; resolution errors: [clusterrole.rbac.authorization.k8s.io "gone" not found]"#;
    assert!(refused.refusal(403, "Forbidden").ends_with(end), "{}", refused.text);
}

#[tokio::test]
async fn rba_018_a_subset_of_a_wildcard_is_held() {
    let api = start().await;
    grant(&api, "ann", &[rule(&["create"], RBAC, ALL), rule(&["*"], "apps", &["*/scale", "deployments"])]).await;
    let ann = api.acting_as("ann", &[]);
    ann.post(ROLES, &role("ok", &[rule(&["get"], "apps", &["replicasets/scale", "deployments"])])).await.expect(201);
    let refused = ann.post(ROLES, &role("no", &[rule(&["get"], "apps", &["replicasets/status"])])).await;
    refused.refusal(403, "Forbidden");
}

#[tokio::test]
async fn rba_019_a_binding_of_a_larger_role_needs_bind() {
    let api = start().await;
    grant_here(&api, "ann", &[rule(&["create", "update", "patch", "get"], RBAC, ALL)]).await;
    let ann = api.acting_as("ann", &[]);
    let refused = ann.post(BINDINGS, &binding("b", ("ClusterRole", "view"), &[user("joe")])).await;
    let message = refused.refusal(403, "Forbidden");
    let start = r#"rolebindings.rbac.authorization.k8s.io "b" is forbidden: user "ann" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:"#;
    assert!(message.starts_with(start), "{message}");
    let refused = ann.post(BINDINGS, &binding("b", ("ClusterRole", "gone"), &[user("joe")])).await;
    let message = refused.refusal(404, "NotFound");
    assert_eq!(message, r#"clusterroles.rbac.authorization.k8s.io "gone" not found"#);

    let mut bind = rule(&["bind"], RBAC, &["clusterroles"]);
    bind["resourceNames"] = json!(["view"]);
    api.post(ROLES, &role("binder", &[bind])).await.expect(201);
    api.post(BINDINGS, &binding("binder", ("Role", "binder"), &[user("ann")])).await.expect(201);
    ann.post(BINDINGS, &binding("b", ("ClusterRole", "view"), &[user("joe")])).await.expect(201);
    ann.post(BINDINGS, &binding("c", ("ClusterRole", "edit"), &[user("joe")])).await.refusal(403, "Forbidden");
    // The permission to bind in a namespace is none to bind everywhere.
    let everywhere = binding("b", ("ClusterRole", "view"), &[user("joe")]);
    ann.post(CLUSTER_BINDINGS, &everywhere).await.refusal(403, "Forbidden");
}

#[tokio::test]
async fn rba_019_an_aggregation_rule_needs_all_rights() {
    let api = start().await;
    grant(&api, "ann", &[rule(&["create", "update", "patch"], RBAC, ALL)]).await;
    let ann = api.acting_as("ann", &[]);
    let mut gathering = role("all", &[]);
    gathering["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    let refused = ann.post(CLUSTER_ROLES, &gathering).await;
    let message = refused.refusal(403, "Forbidden");
    let end = r#"clusterroles.rbac.authorization.k8s.io "all" is forbidden: must have cluster-admin privileges to use the aggregationRule"#;
    assert_eq!(message, end);
    api.post(CLUSTER_ROLES, &gathering).await.expect(201);
    let refused = ann.patch(&format!("{CLUSTER_ROLES}/all"), &json!({"aggregationRule": null})).await;
    assert_eq!(refused.refusal(403, "Forbidden"), end);
}

#[tokio::test]
async fn rba_019_a_write_of_finalizers_and_owners_alone_is_not_checked() {
    let api = start().await;
    api.post(CLUSTER_ROLES, &role("big", &[rule(&["*"], "*", &["*"])])).await.expect(201);
    grant(&api, "collector", &[rule(&["patch"], RBAC, ALL)]).await;
    let collector = api.acting_as("collector", &[]);
    let path = format!("{CLUSTER_ROLES}/big");
    let finalizers = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    collector.patch(&path, &finalizers).await.expect(200);
    collector.patch(&path, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    collector.patch(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await.refusal(403, "Forbidden");
}

#[tokio::test]
async fn rba_018_without_rbac_nothing_is_checked() {
    let api = crate::api::Api::start().await;
    let joe = api.acting_as("joe", &[]);
    joe.post(CLUSTER_ROLES, &role("all", &[rule(&["*"], "*", &["*"])])).await.expect(201);
    joe.post(CLUSTER_BINDINGS, &binding("all", ("ClusterRole", "gone"), &[user("joe")])).await.expect(201);
}
