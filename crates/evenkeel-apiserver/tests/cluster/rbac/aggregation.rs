//! ClusterRoles that gather the rules of others.

use std::time::Duration;

use evenkeel_apiserver::{ApiServer, ControllerTiming};
use serde_json::{Value, json};

use super::{CLUSTER_ROLES, binding, role, rule, start, user};
use crate::PODS;
use crate::api::{Api, TestEnv};

fn gathering(name: &str, selectors: &[Value]) -> Value {
    let mut gathering = role(name, &[]);
    gathering["aggregationRule"] = json!({"clusterRoleSelectors": selectors});
    gathering
}

fn labelled(name: &str, label: &str, rules: &[Value]) -> Value {
    let mut role = role(name, rules);
    role["metadata"]["labels"] = json!({label: "true"});
    role
}

async fn rules(api: &Api, name: &str) -> Value {
    api.get(&format!("{CLUSTER_ROLES}/{name}")).await.expect(200)["rules"].clone()
}

#[tokio::test]
async fn rba_009_an_aggregated_role_has_the_rules_of_those_that_it_selects() {
    let api = start().await;
    let (pods, maps) = (rule(&["get"], "", &["pods"]), rule(&["get"], "", &["configmaps"]));
    let nodes = rule(&["get"], "", &["nodes"]);
    let selectors = [
        json!({"matchLabels": {"second": "true"}}),
        json!({"matchExpressions": [{"key": "first", "operator": "Exists"}]}),
    ];
    // It matches its own selector, and is left out.
    let mut all = gathering("all", &selectors);
    all["metadata"]["labels"] = json!({"first": "true"});
    all["rules"] = json!([nodes]);
    api.post(CLUSTER_ROLES, &all).await.expect(201);
    assert_eq!(rules(&api, "all").await, Value::Null, "manual rules are undone");

    api.post(CLUSTER_ROLES, &labelled("b", "first", &[pods.clone(), maps.clone()])).await.expect(201);
    api.post(CLUSTER_ROLES, &labelled("a", "first", std::slice::from_ref(&maps))).await.expect(201);
    assert_eq!(rules(&api, "all").await, json!([maps, pods]), "by name, equal rules once");
    api.post(CLUSTER_ROLES, &labelled("z", "second", std::slice::from_ref(&nodes))).await.expect(201);
    assert_eq!(rules(&api, "all").await, json!([nodes, maps, pods]), "selector by selector");

    let patch = json!({"rules": [rule(&["*"], "*", &["*"])]});
    api.patch(&format!("{CLUSTER_ROLES}/all"), &patch).await.expect(200);
    assert_eq!(rules(&api, "all").await, json!([nodes, maps, pods]), "manual rules are undone");
    let stored = api.get(&format!("{CLUSTER_ROLES}/all")).await.expect(200);
    let managers = stored["metadata"]["managedFields"].as_array().unwrap();
    let owner = managers.iter().find(|entry| entry["fieldsV1"].get("f:rules").is_some()).unwrap();
    assert_eq!(
        (&owner["manager"], &owner["operation"]),
        (&json!("clusterrole-aggregation-controller"), &json!("Apply"))
    );

    api.delete(&format!("{CLUSTER_ROLES}/z")).await.expect(200);
    assert_eq!(rules(&api, "all").await, json!([maps, pods]));
    api.patch(&format!("{CLUSTER_ROLES}/b"), &json!({"metadata": {"labels": null}})).await.expect(200);
    assert_eq!(rules(&api, "all").await, json!([maps]));
    api.delete(&format!("{CLUSTER_ROLES}/a")).await.expect(200);
    assert_eq!(rules(&api, "all").await, Value::Null);
}

#[tokio::test]
async fn rba_009_roles_that_gather_each_other_settle() {
    let api = start().await;
    let (pods, maps) = (rule(&["get"], "", &["pods"]), rule(&["get"], "", &["configmaps"]));
    for (name, of) in [("x", "y"), ("y", "x")] {
        let mut role = gathering(name, &[json!({"matchLabels": {"part-of": of}})]);
        role["metadata"]["labels"] = json!({"part-of": name});
        api.post(CLUSTER_ROLES, &role).await.expect(201);
    }
    for (name, of, granted) in [("p", "x", &pods), ("m", "y", &maps)] {
        let mut part = role(name, std::slice::from_ref(granted));
        part["metadata"]["labels"] = json!({"part-of": of});
        api.post(CLUSTER_ROLES, &part).await.expect(201);
    }
    for name in ["x", "y"] {
        assert_eq!(rules(&api, name).await.as_array().unwrap().len(), 2, "{name}");
    }
}

#[tokio::test]
async fn rba_011_a_labelled_role_extends_view_edit_and_admin_at_once() {
    let api = start().await;
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    for name in ["view", "edit", "admin"] {
        api.post(bindings, &binding(name, ("ClusterRole", name), &[user(name)])).await.expect(201);
    }
    let foos = "/apis/example.com/v1/namespaces/default/foos";
    for name in ["view", "edit", "admin"] {
        api.acting_as(name, &[]).get(PODS).await.expect(200);
        assert_eq!(api.acting_as(name, &[]).get(foos).await.status, 403, "{name}");
    }
    let label = "rbac.authorization.k8s.io/aggregate-to-view";
    api.post(CLUSTER_ROLES, &labelled("foos", label, &[rule(&["list"], "example.com", &["foos"])])).await.expect(201);
    for name in ["view", "edit", "admin"] {
        // Allowed; the resource does not exist.
        assert_eq!(api.acting_as(name, &[]).get(foos).await.status, 404, "{name}");
    }
    let label = "rbac.authorization.k8s.io/aggregate-to-admin";
    api.post(CLUSTER_ROLES, &labelled("more", label, &[rule(&["create"], "example.com", &["foos"])])).await.expect(201);
    assert_eq!(api.acting_as("edit", &[]).post(foos, &json!({})).await.status, 403);
    assert_eq!(api.acting_as("admin", &[]).post(foos, &json!({})).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn rba_009_aggregation_can_wait_or_be_left_to_a_controller_manager() {
    let builder = || ApiServer::builder().env(TestEnv::new());
    let selector = json!({"matchLabels": {"first": "true"}});
    let pods = rule(&["get"], "", &["pods"]);
    let later = Api::with(builder().role_aggregation(ControllerTiming::Delayed(Duration::from_secs(5)))).await;
    let never = Api::with(builder().role_aggregation(ControllerTiming::Off)).await;
    assert_eq!(rules(&never, "view").await, Value::Null, "as on a fresh kube-apiserver");
    for api in [&later, &never] {
        api.post(CLUSTER_ROLES, &gathering("all", std::slice::from_ref(&selector))).await.expect(201);
        api.post(CLUSTER_ROLES, &labelled("a", "first", std::slice::from_ref(&pods))).await.expect(201);
        assert_eq!(rules(api, "all").await, json!([]));
    }
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(rules(&later, "all").await, json!([pods]));
    assert_eq!(rules(&never, "all").await, json!([]));
}

#[tokio::test]
async fn rba_009_an_aggregation_rule_has_valid_selectors() {
    let api = start().await;
    let refused = api.post(CLUSTER_ROLES, &gathering("none", &[])).await;
    let fault = "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil";
    assert!(refused.refusal(422, "Invalid").ends_with(fault), "{}", refused.text);
    let selector = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
    let refused = api.post(CLUSTER_ROLES, &gathering("odd", &[selector])).await;
    let fault = r#"aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: Invalid value: "Near""#;
    assert!(refused.refusal(422, "Invalid").contains(fault), "{}", refused.text);
}
