//! The addresses and ports of Services.

use evenkeel_apiserver::{ApiServer, Fsync};
use serde_json::{Value, json};

use crate::api::Api;
use crate::{NAMESPACES, namespace};

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(name: &str, kind: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
           "spec": {"type": kind, "ports": [{"port": 80}]}})
}

/// Creates a Service and returns its address and its first node port.
async fn create(api: &Api, path: &str, body: &Value) -> (String, i64) {
    let created = api.post(path, body).await.expect(201);
    let port = created["spec"]["ports"][0]["nodePort"].as_i64().unwrap_or_default();
    (created["spec"]["clusterIP"].as_str().unwrap_or_default().to_owned(), port)
}

/// Returns what the next Service would get, without creating it.
async fn next(api: &Api) -> (String, i64) {
    create(api, &format!("{SERVICES}?dryRun=All"), &service("next", "NodePort")).await
}

/// Returns the n-th address after that of the Service `kubernetes`, and a port.
fn at(nth: u8, port: i64) -> (String, i64) {
    (format!("10.0.0.{}", nth + 1), port)
}

#[tokio::test]
async fn obj_15_addresses_and_ports_are_free_again_when_a_service_gives_them_up() {
    let api = Api::start().await;
    assert_eq!(next(&api).await, at(1, 30_000));
    assert_eq!(next(&api).await, at(1, 30_000), "a dry run takes nothing");
    assert_eq!(create(&api, SERVICES, &service("a", "NodePort")).await, at(1, 30_000));
    assert_eq!(create(&api, SERVICES, &service("b", "NodePort")).await, at(2, 30_001));
    assert_eq!(next(&api).await, at(3, 30_002));

    api.delete(&format!("{SERVICES}/a")).await.expect(200);
    assert_eq!(next(&api).await, at(1, 30_000), "deleted");
    let external = json!({"spec": {"type": "ExternalName", "externalName": "example.com"}});
    api.patch(&format!("{SERVICES}/b"), &external).await.expect(200);
    assert_eq!(create(&api, SERVICES, &service("a", "NodePort")).await, at(1, 30_000));
    assert_eq!(next(&api).await, at(2, 30_001), "an external name has no address");

    api.patch(&format!("{SERVICES}/a"), &json!({"spec": {"type": "ClusterIP"}})).await.expect(200);
    assert_eq!(next(&api).await, at(2, 30_000), "an address and no node port");
    api.patch(&format!("{SERVICES}/a"), &json!({"metadata": {"labels": {"x": "y"}}})).await.expect(200);

    api.post(NAMESPACES, &namespace("other")).await.expect(201);
    let others = "/api/v1/namespaces/other/services";
    assert_eq!(create(&api, others, &service("a", "NodePort")).await, at(2, 30_000));
    assert_eq!(next(&api).await, at(3, 30_001));
    api.delete(&format!("{NAMESPACES}/other")).await;
    assert_eq!(next(&api).await, at(2, 30_000), "the namespace is emptied");
}

#[tokio::test]
async fn obj_15_an_address_of_another_service_is_refused() {
    let api = Api::start().await;
    let with = |name: &str, address: &str, port: i64| {
        let mut service = service(name, "NodePort");
        service["spec"]["clusterIP"] = address.into();
        service["spec"]["ports"][0]["nodePort"] = port.into();
        service
    };
    create(&api, SERVICES, &with("a", "10.0.0.2", 30_000)).await;
    let taken = api.post(SERVICES, &with("b", "10.0.0.2", 30_001)).await;
    assert!(taken.refusal(422, "Invalid").contains("provided IP is already allocated"), "{}", taken.text);
    let taken = api.post(SERVICES, &with("b", "10.0.0.3", 30_000)).await;
    assert!(taken.refusal(422, "Invalid").contains("provided port is already allocated"), "{}", taken.text);
    api.put(&format!("{SERVICES}/a"), &with("a", "10.0.0.2", 30_000)).await.expect(200);
    api.put(&format!("{SERVICES}/a"), &with("a", "10.0.0.2", 30_005)).await.expect(200);
    create(&api, SERVICES, &with("b", "10.0.0.3", 30_000)).await;
}

#[tokio::test]
async fn obj_15_addresses_survive_snapshots_compactions_and_forks() {
    let api = Api::start().await;
    create(&api, SERVICES, &service("a", "NodePort")).await;
    let fixture = api.server.snapshot();
    create(&api, SERVICES, &service("b", "NodePort")).await;
    let fork = Api::with(api.server.fork().in_process_only()).await;
    assert_eq!(create(&fork, SERVICES, &service("c", "NodePort")).await, at(3, 30_002), "a fork has both");
    assert_eq!(next(&api).await, at(3, 30_002), "and shares nothing with its origin");

    api.server.restore(&fixture);
    assert_eq!(next(&api).await, at(2, 30_001), "the restored content counts");
    api.server.faults().compact_now();
    assert_eq!(create(&api, SERVICES, &service("b", "NodePort")).await, at(2, 30_001));
    api.delete(&format!("{SERVICES}/a")).await.expect(200);
    api.server.faults().compact_now();
    assert_eq!(next(&api).await, at(1, 30_000), "a change that is not in the history counts, too");
}

#[tokio::test]
async fn obj_15_addresses_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let start = || Api::with(ApiServer::builder().in_process_only().data_dir(folder.path()).fsync(Fsync::Never));
    let api = start().await;
    create(&api, SERVICES, &service("a", "NodePort")).await;
    create(&api, SERVICES, &service("b", "NodePort")).await;
    api.delete(&format!("{SERVICES}/a")).await.expect(200);
    drop(api);
    let api = start().await;
    assert_eq!(create(&api, SERVICES, &service("c", "NodePort")).await, at(1, 30_000));
    assert_eq!(create(&api, SERVICES, &service("d", "NodePort")).await, at(3, 30_002));
}
