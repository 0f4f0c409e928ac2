//! Impersonation under RBAC.

use evenkeel_apiserver::{ApiServer, ServerVersion};
use serde_json::json;

use super::{grant, rule, start};
use crate::PODS;
use crate::api::{Api, Handle, TestEnv};

const AUTHENTICATION: &str = "authentication.k8s.io";

/// Returns the code and message of a get of a pod as another user.
async fn get_as(handle: &Handle, headers: &[(&str, &str)]) -> (u16, String) {
    let response = handle.send("GET", &format!("{PODS}/x"), headers, "").await;
    (response.status, response.body["message"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn rba_014_the_first_failure_is_that_of_the_mode_for_users() {
    let api = start().await;
    let joe = api.acting_as("joe", &[]);
    let (code, message) = get_as(&joe, &[("impersonate-user", "ann")]).await;
    let expected = r#"pods "x" is forbidden: User "joe" cannot impersonate-on:user-info:get resource "pods" in API group "" in the namespace "default""#;
    assert_eq!((code, message.as_str()), (403, expected));
    for (user, mode) in [("system:node:n1", "arbitrary-node"), ("system:serviceaccount:ns:a", "serviceaccount")] {
        let (_, message) = get_as(&joe, &[("impersonate-user", user)]).await;
        assert!(message.contains(&format!("cannot impersonate-on:{mode}:get")), "{message}");
    }
}

#[tokio::test]
async fn rba_014_a_user_may_impersonate_for_one_verb_alone() {
    let api = start().await;
    let mut users = rule(&["impersonate:user-info"], AUTHENTICATION, &["users"]);
    users["resourceNames"] = json!(["ann"]);
    grant(&api, "joe", &[users, rule(&["impersonate-on:user-info:get"], "", &["pods"])]).await;
    grant(&api, "ann", &[rule(&["get", "list"], "", &["pods"])]).await;
    let joe = api.acting_as("joe", &[]);
    assert_eq!(get_as(&joe, &[("impersonate-user", "ann")]).await.0, 404, "allowed; the pod does not exist");
    let listed = joe.send("GET", PODS, &[("impersonate-user", "ann")], "").await;
    assert!(listed.refusal(403, "Forbidden").contains("impersonate-on:user-info:list"), "{}", listed.text);
    let (_, message) = get_as(&joe, &[("impersonate-user", "eve")]).await;
    let expected = r#"users.authentication.k8s.io "eve" is forbidden: User "joe" cannot impersonate:user-info resource "users" in API group "authentication.k8s.io" at the cluster scope"#;
    assert_eq!(message, expected);
    let masters = [("impersonate-user", "ann"), ("impersonate-group", "system:masters")];
    let (_, message) = get_as(&joe, &masters).await;
    assert!(message.ends_with(": impersonating the system:masters group is not allowed"), "{message}");
}

#[tokio::test]
async fn rba_014_nodes_have_their_group() {
    let api = start().await;
    let nodes = rule(&["impersonate:arbitrary-node"], AUTHENTICATION, &["nodes"]);
    grant(
        &api,
        "joe",
        &[nodes, rule(&["impersonate-on:arbitrary-node:create"], AUTHENTICATION, &["selfsubjectreviews"])],
    )
    .await;
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).to_string();
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answered =
        api.acting_as("joe", &[]).send("POST", path, &[("impersonate-user", "system:node:n1")], review).await;
    assert_eq!(answered.expect(201)["status"]["userInfo"]["groups"], json!(["system:nodes", "system:authenticated"]));
}

#[tokio::test]
async fn rba_015_the_classic_permission_is_checked_for_each_header() {
    let api = start().await;
    let robots = rule(&["impersonate"], "", &["serviceaccounts"]);
    let mut groups = rule(&["impersonate"], "", &["groups"]);
    groups["resourceNames"] = json!(["devs"]);
    let extra = rule(&["impersonate"], AUTHENTICATION, &["userextras/scopes", "uids"]);
    grant(&api, "joe", &[rule(&["impersonate"], "", &["users"]), robots, groups, extra]).await;
    let joe = api.acting_as("joe", &[]);
    grant(&api, "ann", &[rule(&["get"], "", &["pods"])]).await;
    let all = [
        ("impersonate-user", "ann"),
        ("impersonate-group", "devs"),
        ("impersonate-extra-scopes", "view"),
        ("impersonate-uid", "7"),
    ];
    assert_eq!(get_as(&joe, &all).await.0, 404);
    let (code, message) = get_as(&joe, &[("impersonate-user", "system:serviceaccount:default:a")]).await;
    assert_eq!(
        (code, message.contains(r#"User "system:serviceaccount:default:a" cannot get"#)),
        (403, true),
        "{message}"
    );
    assert_eq!(get_as(&joe, &[("impersonate-user", "ann"), ("impersonate-group", "ops")]).await.0, 403);
    assert_eq!(get_as(&joe, &[("impersonate-user", "ann"), ("impersonate-extra-other", "x")]).await.0, 403);
}

#[tokio::test]
async fn rba_015_releases_before_1_36_have_the_classic_mode_only() {
    let builder = ApiServer::builder().env(TestEnv::new()).rbac(true).version(ServerVersion::V1_35);
    let api = Api::with(builder).await;
    let joe = api.acting_as("joe", &[]);
    let (code, message) = get_as(&joe, &[("impersonate-user", "ann")]).await;
    let expected = r#"users "ann" is forbidden: User "joe" cannot impersonate resource "users" in API group "" at the cluster scope"#;
    assert_eq!((code, message.as_str()), (403, expected));
    let (code, message) = get_as(&joe, &[("impersonate-user", "system:serviceaccount:ns:a")]).await;
    let expected = r#"serviceaccounts "a" is forbidden: User "joe" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "ns""#;
    assert_eq!((code, message.as_str()), (403, expected));
    let (code, message) = get_as(&joe, &[("impersonate-group", "devs")]).await;
    assert_eq!((code, message.ends_with(" without impersonating a user")), (400, true), "{message}");
}
