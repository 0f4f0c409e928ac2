//! Snapshots and forks through the public handle.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use evenkeel_apiserver::ApiServer;
use serde_json::json;
use support::Client;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn names(client: &Client) -> Vec<String> {
    let (_, list) = client.json("GET", CONFIG_MAPS, None).await;
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn create(client: &Client, name: &str) {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    assert_eq!(client.json("POST", CONFIG_MAPS, Some(&body)).await.0, 201);
}

#[tokio::test]
async fn sto_27_a_fork_starts_with_the_fixture_and_is_independent() {
    let server = ApiServer::start().await.unwrap();
    let client = Client::new(server.url());
    create(&client, "fixture").await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                          "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(client.json("POST", path, Some(&definition)).await.0, 201);

    let fork = server.fork().start().await.unwrap();
    let forked = Client::new(fork.url());
    create(&forked, "forked").await;
    create(&client, "original").await;
    assert_eq!(names(&forked).await, ["fixture", "forked"]);
    assert_eq!(names(&client).await, ["fixture", "original"]);
    assert_eq!(
        forked.json("GET", "/apis/example.com/v1/widgets", None).await.0,
        200,
        "the fork serves the definitions"
    );
    assert_eq!(fork.stats().revision, server.stats().revision);
}

#[tokio::test]
async fn flt_5_a_restored_backup_lowers_resource_versions() {
    let server = ApiServer::start().await.unwrap();
    let client = Client::new(server.url());
    create(&client, "before").await;
    let backup = server.snapshot();
    create(&client, "after").await;
    let revision = server.stats().revision;
    server.restore(&backup);
    assert_eq!(names(&client).await, ["before"]);
    assert_eq!(server.stats().revision, revision - 1);
}

#[tokio::test]
async fn sto_1_a_fresh_server_is_always_at_the_same_revision() {
    let (one, two) = (ApiServer::start().await.unwrap(), ApiServer::start().await.unwrap());
    assert_eq!(one.stats(), two.stats());
    assert_eq!(one.stats().objects, 4, "the initial namespaces");
}
