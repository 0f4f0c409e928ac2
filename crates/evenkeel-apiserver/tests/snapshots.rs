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
async fn dur_012_a_restored_backup_raises_resource_versions() {
    let server = ApiServer::start().await.unwrap();
    let client = Client::new(server.url());
    create(&client, "before").await;
    let backup = server.snapshot();
    create(&client, "after").await;
    let revision = server.stats().revision;
    server.restore(&backup);
    assert_eq!(names(&client).await, ["before"]);
    assert!(server.stats().revision > revision);
    let old = format!("{CONFIG_MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact");
    assert_eq!(client.json("GET", &old, None).await.0, 410, "clients list again");
}

#[tokio::test]
async fn sto_1_a_fresh_server_is_always_at_the_same_revision() {
    let start = || ApiServer::builder().in_process_only().first_revision(0).start();
    let (one, two) = (start().await.unwrap(), start().await.unwrap());
    assert_eq!(one.stats(), two.stats());
    assert_eq!(one.stats().revision, 4);
    assert_eq!(one.stats().objects, 4, "the initial namespaces");
}

#[tokio::test]
async fn dur_005_a_later_server_starts_above_an_earlier_one() {
    let first = ApiServer::start().await.unwrap();
    let client = Client::new(first.url());
    create(&client, "before").await;
    let snapshot = first.snapshot();
    create(&client, "after").await;
    let (known, address) = (first.stats().revision, first.url().trim_start_matches("http://").parse().unwrap());
    first.shutdown().await;

    let second = ApiServer::builder().listen(address).snapshot(snapshot).start().await.unwrap();
    assert!(second.stats().revision > known);
    let from = |version: u64| format!("{CONFIG_MAPS}?watch=true&resourceVersion={version}&timeoutSeconds=1");
    let (_, lost) = client.json("GET", &from(known), None).await;
    assert_eq!(lost["object"]["code"], 410, "the write at this revision is not in the snapshot");
    second.shutdown().await;

    let third = ApiServer::builder().listen(address).start().await.unwrap();
    assert!(third.stats().revision > known, "an empty server, too");
    let (_, lost) = client.json("GET", &from(known), None).await;
    assert_eq!(lost["object"]["code"], 410);
}
