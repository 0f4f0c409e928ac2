//! Reviews of access.

use serde_json::{Value, json};

use super::{BINDINGS, CLUSTER_BINDINGS, binding, grant, grant_here, rule, start, user};
use crate::api::Api;

const GROUP: &str = "/apis/authorization.k8s.io/v1";

async fn review(api: &Api, spec: &Value) -> Value {
    let sent = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
    api.post(&format!("{GROUP}/subjectaccessreviews"), &sent).await.expect(201)["status"].clone()
}

#[tokio::test]
async fn rba_017_a_review_says_which_binding_allows() {
    let api = start().await;
    grant_here(&api, "joe", &[rule(&["list"], "", &["pods"])]).await;
    let spec =
        json!({"user": "joe", "resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "default"}});
    let reason = r#"RBAC: allowed by RoleBinding "joe/default" of Role "joe" to User "joe""#;
    assert_eq!(review(&api, &spec).await, json!({"allowed": true, "reason": reason}));
    let everywhere = json!({"user": "joe", "resourceAttributes": {"verb": "list", "resource": "pods"}});
    assert_eq!(review(&api, &everywhere).await, json!({"allowed": false}));
    let by_group =
        json!({"groups": ["system:authenticated"], "nonResourceAttributes": {"verb": "get", "path": "/apis"}});
    let reason = r#"RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" to Group "system:authenticated""#;
    assert_eq!(review(&api, &by_group).await, json!({"allowed": true, "reason": reason}));
    let master = json!({"groups": ["system:masters"], "resourceAttributes": {"verb": "list", "resource": "pods"}});
    assert_eq!(review(&api, &master).await, json!({"allowed": true}));
    api.post(CLUSTER_BINDINGS, &binding("x", ("ClusterRole", "gone"), &[user("ann")])).await.expect(201);
    let ann = json!({"user": "ann", "resourceAttributes": {"verb": "list", "resource": "pods"}});
    let reason = r#"RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found"#;
    assert_eq!(review(&api, &ann).await, json!({"allowed": false, "reason": reason}));
}

#[tokio::test]
async fn rba_017_self_and_local_reviews() {
    let api = start().await;
    grant_here(&api, "joe", &[rule(&["list"], "", &["pods"])]).await;
    let joe = api.acting_as("joe", &[]);
    let attributes = json!({"verb": "list", "resource": "pods", "namespace": "default"});
    let own = json!({"spec": {"resourceAttributes": attributes}});
    let answered = joe.post(&format!("{GROUP}/selfsubjectaccessreviews"), &own).await.expect(201);
    assert_eq!((&answered["status"]["allowed"], &answered["spec"]), (&json!(true), &own["spec"]));
    let local = format!("{GROUP}/namespaces/default/localsubjectaccessreviews");
    let about_joe = json!({"spec": {"user": "joe", "resourceAttributes": attributes}});
    joe.post(&local, &about_joe).await.refusal(403, "Forbidden");
    let answered = api.post(&local, &about_joe).await.expect(201);
    assert_eq!(answered["status"]["allowed"], true);
    assert_eq!(answered["metadata"]["namespace"], "default");
    let elsewhere = format!("{GROUP}/namespaces/kube-system/localsubjectaccessreviews");
    let refused = api.post(&elsewhere, &about_joe).await;
    let fault = r#"spec.resourceAttributes.namespace: Invalid value: "default": must match metadata.namespace"#;
    assert!(refused.refusal(422, "Invalid").contains(fault), "{}", refused.text);
}

#[tokio::test]
async fn aut_10_a_review_asks_about_exactly_one_thing() {
    for api in [start().await, Api::start().await] {
        let both =
            json!({"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"verb": "get", "path": "/x"}});
        let fault = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        let refused = api.post(&format!("{GROUP}/selfsubjectaccessreviews"), &json!({"spec": {}})).await;
        let message = refused.refusal(422, "Invalid");
        let expected = format!(
            r#"SelfSubjectAccessReview.authorization.k8s.io "" is invalid: spec: Invalid value: null: {fault}"#
        );
        assert_eq!(message, expected);
        let refused = api.post(&format!("{GROUP}/selfsubjectaccessreviews"), &json!({"spec": both})).await;
        assert!(refused.refusal(422, "Invalid").ends_with(fault), "{}", refused.text);
        let without_subject = json!({"spec": {"resourceAttributes": {"verb": "get"}}});
        let refused = api.post(&format!("{GROUP}/subjectaccessreviews"), &without_subject).await;
        let fault = r#"spec.user: Invalid value: "": at least one of user or group must be specified"#;
        assert!(refused.refusal(422, "Invalid").ends_with(fault), "{}", refused.text);
        let named = json!({"metadata": {"name": "x"}, "spec": {"user": "joe", "resourceAttributes": {"verb": "get"}}});
        let refused = api.post(&format!("{GROUP}/subjectaccessreviews"), &named).await;
        assert!(refused.refusal(422, "Invalid").ends_with(": must be empty"), "{}", refused.text);
    }
}

#[tokio::test]
async fn rba_016_a_rules_review_lists_the_rules_as_they_are() {
    let api = start().await;
    let (pods, nodes) = (rule(&["list"], "", &["pods"]), rule(&["get"], "", &["nodes"]));
    grant_here(&api, "joe", std::slice::from_ref(&pods)).await;
    grant(&api, "joe", std::slice::from_ref(&nodes)).await;
    api.post(BINDINGS, &binding("x", ("Role", "gone"), &[user("joe")])).await.expect(201);
    let joe = api.acting_as("joe", &[]);
    let path = format!("{GROUP}/selfsubjectrulesreviews");
    let answered = joe.post(&path, &json!({"spec": {"namespace": "default"}})).await.expect(201);
    let status = &answered["status"];
    let rules = status["resourceRules"].as_array().unwrap();
    assert_eq!((&rules[0], rules.last().unwrap()), (&nodes, &pods), "those of the cluster first");
    assert!(
        rules.iter().any(|rule| rule["resources"] == json!(["selfsubjectaccessreviews", "selfsubjectrulesreviews"]))
    );
    let paths = status["nonResourceRules"].as_array().unwrap();
    assert!(
        paths
            .iter()
            .any(|rule| rule["nonResourceURLs"] == json!(["/healthz", "/livez", "/readyz", "/version", "/version/"]))
    );
    assert_eq!(status["incomplete"], false);
    assert_eq!(status["evaluationError"], r#"role.rbac.authorization.k8s.io "gone" not found"#);
    let refused = joe.post(&path, &json!({"spec": {}})).await;
    assert_eq!(refused.refusal(400, "BadRequest"), "no namespace on request");
}
