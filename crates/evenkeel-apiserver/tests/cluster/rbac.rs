//! RBAC: who may do what, and the kinds that say so.

mod access;
mod aggregation;
mod escalation;
mod impersonation;
mod policy;
mod recorder;
mod reviews;

use evenkeel_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::api::{Api, TestEnv};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const CLUSTER_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

/// Starts a server that evaluates RBAC. Requests of the `Api` itself are the administrator's.
async fn start() -> Api {
    Api::with(ApiServer::builder().env(TestEnv::new()).rbac(true)).await
}

fn rule(verbs: &[&str], group: &str, resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": [group], "resources": resources})
}

fn role(name: &str, rules: &[Value]) -> Value {
    json!({"metadata": {"name": name}, "rules": rules})
}

fn user(name: &str) -> Value {
    json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name})
}

fn binding(name: &str, (kind, role): (&str, &str), subjects: &[Value]) -> Value {
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role});
    json!({"metadata": {"name": name}, "roleRef": reference, "subjects": subjects})
}

/// Lets a user do this everywhere.
async fn grant(api: &Api, name: &str, rules: &[Value]) {
    let role_name = format!("of-{name}");
    api.post(CLUSTER_ROLES, &role(&role_name, rules)).await.expect(201);
    api.post(CLUSTER_BINDINGS, &binding(&role_name, ("ClusterRole", &role_name), &[user(name)])).await.expect(201);
}

/// Lets a user do this in the namespace `default`.
async fn grant_here(api: &Api, name: &str, rules: &[Value]) {
    api.post(ROLES, &role(name, rules)).await.expect(201);
    api.post(BINDINGS, &binding(name, ("Role", name), &[user(name)])).await.expect(201);
}
