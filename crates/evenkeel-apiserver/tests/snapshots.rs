//! Snapshots, forks and data directories through the public handle.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, DataDirError, Fsync, StartError, backup_data_dir};
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use support::Client;
use tower_service::Service;

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
    assert_eq!(one.stats().revision, one.stats().objects as u64, "each object of the start takes one revision");
    let empty = ApiServer::builder().in_process_only().first_revision(0).bootstrap(false).start().await.unwrap();
    assert_eq!((empty.stats().revision, empty.stats().objects), (4, 4), "the initial namespaces");
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

#[cfg(unix)]
#[tokio::test]
async fn dur_008_a_data_directory_keeps_the_keys_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let start = || ApiServer::builder().tls().data_dir(&path).fsync(Fsync::Never).start();
    let server = start().await.unwrap();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "robot"}});
    send(&server, "POST", accounts, &account, None).await;
    let token = send(&server, "POST", &format!("{accounts}/robot/token"), &json!({"spec": {}}), None).await;
    let token = token["status"]["token"].as_str().unwrap().to_owned();
    let authority = server.ca_pem().unwrap().to_owned();
    server.shutdown().await;

    let again = start().await.unwrap();
    assert_eq!(again.ca_pem().unwrap(), authority, "clients trust the next server");
    let review = json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"});
    let path_of_reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let me = send(&again, "POST", path_of_reviews, &review, Some(&token)).await;
    assert_eq!(me["status"]["userInfo"]["username"], "system:serviceaccount:default:robot", "{me}");

    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for entry in std::fs::read_dir(&path).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[tokio::test]
async fn dur_010_one_server_uses_a_data_directory() {
    let folder = tempfile::tempdir().unwrap();
    let start = || ApiServer::builder().data_dir(folder.path()).fsync(Fsync::Always).start();
    let first = start().await.unwrap();
    let client = Client::new(first.url());
    create(&client, "kept").await;
    let revision = first.stats().revision;
    let error = start().await.unwrap_err();
    let message = error.to_string();
    assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
    drop(first);

    let second = start().await.unwrap();
    assert_eq!(second.stats().revision, revision + 2, "a clean stop; the endpoints have the new port");
    let client = Client::new(second.url());
    assert_eq!(names(&client).await, ["kept"]);
    let snapshot = second.snapshot();
    second.shutdown().await;
    let both = ApiServer::builder().data_dir(folder.path()).snapshot(snapshot).start().await.unwrap_err();
    assert!(matches!(both, StartError::DataDir(DataDirError::NotEmpty { .. })), "{both}");
}

#[tokio::test]
async fn dur_006_a_watch_resumes_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let start = || ApiServer::builder().data_dir(folder.path()).fsync(Fsync::Never).start();
    let first = start().await.unwrap();
    let client = Client::new(first.url());
    create(&client, "a").await;
    let known = first.stats().revision;
    create(&client, "b").await;
    drop(first);
    let second = start().await.unwrap();
    let client = Client::new(second.url());
    create(&client, "c").await;
    let watch = format!("{CONFIG_MAPS}?watch=true&resourceVersion={known}");
    let mut body = client.send("GET", &watch, "", String::new(), &[]).await.into_body();
    let mut events = String::new();
    while events.lines().count() < 2 || !events.ends_with('\n') {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        events.push_str(std::str::from_utf8(&frame).unwrap());
    }
    let seen: Vec<String> = events
        .lines()
        .map(|line| {
            let event: Value = serde_json::from_str(line).unwrap();
            format!("{} {}", event["type"].as_str().unwrap(), event["object"]["metadata"]["name"].as_str().unwrap())
        })
        .collect();
    assert_eq!(seen, ["ADDED b", "ADDED c"]);
}

/// Sends a request to the server in this process, as the administrator or with a token, and returns the body.
async fn send(server: &ApiServer, method: &str, path: &str, body: &Value, token: Option<&str>) -> Value {
    let mut request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    let response = server.service().call(request).await.unwrap();
    serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

#[tokio::test]
async fn dur_012_a_backup_is_restored_above_the_revisions_of_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let backup = folder.path().join("backup");
    let server = ApiServer::builder().data_dir(folder.path().join("one")).fsync(Fsync::Never).start().await.unwrap();
    let client = Client::new(server.url());
    create(&client, "before").await;
    assert_eq!(server.backup(&backup).await.unwrap(), server.stats().revision);
    create(&client, "after").await;
    let issued = server.stats().revision;

    let restore = || ApiServer::builder().data_dir(folder.path().join("two")).first_revision(0).restore_backup(&backup);
    let restored = restore().start().await.unwrap();
    let client = Client::new(restored.url());
    assert_eq!(names(&client).await, ["before"]);
    assert!(restored.stats().revision >= issued + 900_000_000);
    let (_, lost) = client.json("GET", &format!("{CONFIG_MAPS}?watch=true&resourceVersion={issued}"), None).await;
    assert_eq!(lost["object"]["code"], 410, "informers relist");
    create(&client, "later").await;
    restored.shutdown().await;

    let again = restore().start().await.unwrap_err();
    assert!(matches!(again, StartError::DataDir(DataDirError::NotEmpty { .. })), "{again}");
    let again = ApiServer::builder().data_dir(folder.path().join("two")).start().await.unwrap();
    assert_eq!(names(&Client::new(again.url())).await, ["before", "later"]);
    let bad = ApiServer::builder().restore_backup(folder.path().join("two/lock")).start().await.unwrap_err();
    assert!(matches!(bad, StartError::DataDir(DataDirError::Recovery { .. })), "{bad}");
}

#[tokio::test]
async fn dur_013_a_server_listens_when_everything_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let start = || ApiServer::builder().data_dir(folder.path()).fsync(Fsync::Never).start();
    let first = start().await.unwrap();
    let client = Client::new(first.url());
    for number in 0..200 {
        create(&client, &format!("c{number:03}")).await;
    }
    first.shutdown().await;
    let second = start().await.unwrap();
    let client = Client::new(second.url());
    let expected: Vec<String> = (0..200).map(|number| format!("c{number:03}")).collect();
    assert_eq!(names(&client).await, expected, "the first request finds everything");
}

#[tokio::test]
async fn dur_012_a_data_directory_is_copied_while_its_server_writes() {
    let folder = tempfile::tempdir().unwrap();
    let (data, backup) = (folder.path().join("data"), folder.path().join("backup"));
    let server = ApiServer::builder().data_dir(&data).fsync(Fsync::Never).start().await.unwrap();
    let client = Client::new(server.url());
    create(&client, "before").await;
    let acknowledged = server.stats().revision;
    let copying = tokio::task::spawn_blocking({
        let (data, backup) = (data.clone(), backup.clone());
        move || backup_data_dir(&data, &backup).unwrap()
    });
    create(&client, "during").await;
    let summary = copying.await.unwrap();
    assert!(summary.revision >= acknowledged && summary.objects >= 5, "{summary:?}");

    let restored = ApiServer::builder().restore_backup(&backup).first_revision(0).start().await.unwrap();
    let found = names(&Client::new(restored.url())).await;
    assert_eq!(found.first().map(String::as_str), Some("before"), "an acknowledged write");
    assert!(restored.stats().revision >= summary.revision + 1_000_000_000);
    create(&client, "after").await;
    assert_eq!(names(&client).await, ["after", "before", "during"], "the server goes on");

    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let error = backup_data_dir(&empty, &backup).unwrap_err();
    assert!(matches!(error, DataDirError::NoContent { .. }), "{error}");
    let error = backup_data_dir(folder.path().join("missing"), &backup).unwrap_err();
    assert!(matches!(error, DataDirError::Io { .. }), "{error}");
    let error = backup_data_dir(&data, data.join("snapshot-0000000009")).unwrap_err();
    assert!(matches!(error, DataDirError::InsideDataDir { .. }), "{error}");
    let error = backup_data_dir(&data, folder.path().join("no/folder/backup")).unwrap_err();
    assert!(matches!(error, DataDirError::Io { .. }), "{error}");
}
