//! Objects that the server stores and does not act upon: every write carries a warning.

use serde_json::{Value, json};

use crate::api::{Api, MERGE};
use crate::{CONFIG_MAPS, config_map};

const FLOW_CONTROL: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

fn object(api_version: &str, kind: &str, rest: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    object
}

#[tokio::test(start_paused = true)]
async fn writes_of_unenforced_kinds_carry_a_warning() {
    let api = Api::start().await;
    let flow_control = "flowcontrol.apiserver.k8s.io/v1";
    let cases = [
        (
            "/apis/networking.k8s.io/v1/servicecidrs".to_owned(),
            object("networking.k8s.io/v1", "ServiceCIDR", json!({"spec": {"cidrs": ["10.9.0.0/16"]}})),
        ),
        (
            format!("{FLOW_CONTROL}/prioritylevelconfigurations"),
            object(
                flow_control,
                "PriorityLevelConfiguration",
                json!({"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}}),
            ),
        ),
    ];
    for (path, object) in cases {
        let kind = object["kind"].as_str().unwrap();
        let warning = format!("299 - \"evenkeel: {kind} is stored but not enforced\"");
        let one = format!("{path}/a");
        let dry_run = api.post(&format!("{path}?dryRun=All"), &object).await;
        assert_eq!((dry_run.status, dry_run.warnings()), (201, vec![warning.as_str()]), "{}", dry_run.text);
        api.get(&one).await.expect(404);
        let created = api.post(&path, &object).await;
        assert_eq!((created.status, created.warnings()), (201, vec![warning.as_str()]), "{}", created.text);
        let patch = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
        let patched = api.send("PATCH", &one, &[("content-type", MERGE)], patch).await;
        assert_eq!((patched.status, patched.warnings()), (200, vec![warning.as_str()]), "{}", patched.text);
        let updated = api.put(&one, &patched.body).await;
        assert_eq!((updated.status, updated.warnings()), (200, vec![warning.as_str()]), "{}", updated.text);
        let applied = api.apply(&format!("{one}?fieldManager=tester&force=true"), &object).await;
        assert_eq!((applied.status, applied.warnings()), (200, vec![warning.as_str()]), "{}", applied.text);
        assert!(api.get(&one).await.warnings().is_empty(), "a read of {kind} carries no warning");
        assert!(api.delete(&one).await.warnings().is_empty(), "a delete of {kind} carries no warning");
    }
}

#[tokio::test(start_paused = true)]
async fn kinds_of_external_controllers_carry_no_warning() {
    let api = Api::start().await;
    let policy = object("networking.k8s.io/v1", "NetworkPolicy", json!({"spec": {"podSelector": {}}}));
    let path = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    for (path, object) in [(path, policy), (CONFIG_MAPS, config_map("a"))] {
        let created = api.post(path, &object).await;
        assert_eq!((created.status, created.warnings()), (201, Vec::new()), "{}", created.text);
    }
}

#[tokio::test(start_paused = true)]
async fn msc_20_responses_about_deprecated_kinds_carry_a_warning() {
    let path = "/api/v1/namespaces/default/endpoints";
    let warning = "299 - \"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\"";
    let api = Api::start().await;
    let created = api.post(path, &object("v1", "Endpoints", json!({}))).await;
    assert_eq!((created.status, created.warnings()), (201, vec![warning]), "{}", created.text);
    for response in [api.get(path).await, api.get(&format!("{path}/a")).await, api.delete(&format!("{path}/a")).await] {
        assert_eq!((response.status, response.warnings()), (200, vec![warning]), "{}", response.text);
    }
    let metrics = api.get("/metrics").await.text;
    assert!(metrics.contains("apiserver_requested_deprecated_apis"), "{metrics}");

    let builder = evenkeel_apiserver::ApiServer::builder().version(evenkeel_apiserver::ServerVersion::V1_32);
    let older = Api::with(builder).await.get(path).await;
    assert_eq!((older.status, older.warnings()), (200, Vec::new()));
}
