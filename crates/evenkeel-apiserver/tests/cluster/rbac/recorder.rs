//! The roles that a run needed, from the requests that the server received.

use evenkeel_apiserver::ApiServer;
use serde_json::{Value, json};

use super::{CLUSTER_BINDINGS, CLUSTER_ROLES, ROLES, binding, start, user};
use crate::PODS;
use crate::api::{Api, Handle, TestEnv};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// What the program under test does. Returns the codes of its requests.
async fn run(program: &Handle) -> Vec<u16> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "state"}});
    vec![
        program.get("/apis").await.status,
        program.get(PODS).await.status,
        program.get("/api/v1/nodes/n").await.status,
        program.apply(&format!("{MAPS}/state?fieldManager=program"), &map).await.status,
        program.patch(&format!("{MAPS}/state"), &json!({"data": {"k": "v"}})).await.status,
        program.delete(&format!("{MAPS}/state")).await.status,
    ]
}

#[tokio::test]
async fn aut_12_the_recorded_roles_allow_the_same_run_and_no_more() {
    let recording = Api::with(ApiServer::builder().env(TestEnv::new()).record_access(true)).await;
    let codes = run(&recording.acting_as("program", &[])).await;
    assert_eq!(codes, [200, 200, 404, 201, 200, 200]);
    let log = recording.server.access_log("program");
    let roles = log.rules().roles("program").unwrap();
    let kinds: Vec<&Value> = roles.iter().map(|role| &role["kind"]).collect();
    assert_eq!(kinds, ["ClusterRole", "Role"]);
    assert_eq!(roles[0]["rules"], json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]));
    let of_maps = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "delete", "patch"]});
    assert!(roles[1]["rules"].as_array().unwrap().contains(&of_maps), "{}", roles[1]);

    let api = start().await;
    let program = api.acting_as("program", &[]);
    assert_eq!(run(&program).await, [200, 403, 403, 403, 403, 403]);
    api.post(CLUSTER_ROLES, &roles[0]).await.expect(201);
    api.post(ROLES, &roles[1]).await.expect(201);
    api.post(CLUSTER_BINDINGS, &binding("program", ("ClusterRole", "program"), &[user("program")])).await.expect(201);
    let local = binding("program", ("Role", "program"), &[user("program")]);
    api.post(super::BINDINGS, &local).await.expect(201);
    assert_eq!(run(&program).await, codes);
    program.get("/api/v1/nodes").await.refusal(403, "Forbidden");
}

#[tokio::test]
async fn aut_12_each_user_has_a_log_of_its_own() {
    let api = Api::with(ApiServer::builder().env(TestEnv::new()).rbac(true).record_access(true)).await;
    api.acting_as("joe", &[]).get(PODS).await.refusal(403, "Forbidden");
    api.send("GET", MAPS, &[("impersonate-user", "ann")], "").await.refusal(403, "Forbidden");
    let used = |user: &str| -> Vec<String> { api.server.access_log(user).iter().map(ToString::to_string).collect() };
    assert_eq!(used("joe"), ["list pods in default"], "also what is refused");
    assert_eq!(used("ann"), ["list configmaps in default"], "the user that a request acts as");
    assert_eq!(used("eve"), Vec::<String>::new());
    let silent = start().await;
    silent.acting_as("joe", &[]).get(PODS).await.refusal(403, "Forbidden");
    assert!(silent.server.access_log("joe").is_empty(), "recording is off by default");
}
