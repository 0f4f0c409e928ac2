//! Deletion of a definition and of its objects.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::{Api, DEFINITIONS, FOOS, foo, foo_definition};

fn one() -> String {
    format!("{DEFINITIONS}/foos.example.com")
}

fn held(name: &str) -> Value {
    let mut held = foo(name, json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    held
}

#[tokio::test(start_paused = true)]
async fn crd_15_a_definition_without_objects_is_removed_at_once() {
    let api = Api::with_foos().await;
    let deleted = api.delete(&one()).await.expect(200);
    assert_eq!(deleted["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    api.get(&one()).await.expect(404);
    api.get(FOOS).await.expect(404);
    api.post(DEFINITIONS, &foo_definition()).await.expect(201);
    api.get(FOOS).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn crd_15_wat_25_objects_are_deleted_first_and_their_finalizers_hold() {
    let api = Api::with_foos().await;
    api.post(FOOS, &foo("free", json!({}))).await.expect(201);
    api.post(FOOS, &held("held")).await.expect(201);
    let mut watch = api.watch(&format!("{FOOS}?watch=true")).await;
    let mut definitions = api.watch(&format!("{DEFINITIONS}?watch=true")).await;
    assert_eq!(definitions.next().await.unwrap()["type"], "ADDED");
    api.delete(&one()).await.expect(200);

    // The object without finalizers is removed, the other waits; creates are refused.
    api.get(&format!("{FOOS}/free")).await.expect(404);
    let waiting = api.get(&format!("{FOOS}/held")).await.expect(200);
    assert!(waiting["metadata"]["deletionTimestamp"].is_string());
    let refused = api.post(FOOS, &foo("late", json!({}))).await;
    assert_eq!(refused.code, 403, "{}", refused.body);
    assert_eq!(
        refused.message(),
        r#"foos.example.com "late" is forbidden: create not allowed while custom resource definition is terminating"#
    );
    let verbs = &api.get("/apis/example.com/v1").await.expect(200)["resources"][0]["verbs"];
    assert_eq!(*verbs, json!(["delete", "deletecollection", "get", "list", "watch"]));
    let terminating = api.condition("foos.example.com", "Terminating").await.unwrap();
    assert_eq!(
        (&terminating["status"], &terminating["reason"]),
        (&json!("True"), &json!("InstanceDeletionInProgress"))
    );
    let reasons = async |watch: &mut crate::api::Watch| {
        let event = watch.next().await.unwrap();
        let conditions = event["object"]["status"]["conditions"].as_array().unwrap().clone();
        let terminating = conditions.iter().find(|condition| condition["type"] == "Terminating").cloned();
        (event["type"].as_str().unwrap().to_owned(), terminating.unwrap()["reason"].as_str().unwrap().to_owned())
    };
    assert_eq!(reasons(&mut definitions).await, ("MODIFIED".into(), "InstanceDeletionPending".into()));
    assert_eq!(reasons(&mut definitions).await, ("MODIFIED".into(), "InstanceDeletionInProgress".into()));

    // The last object takes the definition with it, within the same request.
    api.merge(&format!("{FOOS}/held"), &json!({"metadata": {"finalizers": null}})).await.expect(200);
    api.get(&one()).await.expect(404);
    api.get(FOOS).await.expect(404);
    // A deletion shows the state that was stored last.
    assert_eq!(reasons(&mut definitions).await, ("DELETED".into(), "InstanceDeletionInProgress".into()));

    // A watch receives the deletes, and then ends.
    let mut seen = Vec::new();
    while let Some(event) = watch.next().await {
        let text = |pointer: &str| event.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        seen.push(format!("{} {}", text("/type"), text("/object/metadata/name")));
    }
    let went: Vec<&str> = seen.iter().map(String::as_str).filter(|event| event.starts_with("DELETED")).collect();
    assert_eq!(went, ["DELETED free", "DELETED held"], "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn crd_15_a_definition_with_other_finalizers_waits_for_them() {
    let api = Api::start().await;
    let mut definition = foo_definition();
    definition["metadata"]["finalizers"] = json!(["example.com/hold"]);
    api.post(DEFINITIONS, &definition).await.expect(201);
    api.post(FOOS, &foo("a", json!({}))).await.expect(201);
    api.delete(&one()).await.expect(200);
    let waiting = api.get(&one()).await.expect(200);
    assert_eq!(waiting["metadata"]["finalizers"], json!(["example.com/hold"]));
    assert_eq!(api.get(FOOS).await.expect(200)["items"], json!([]));
    assert_eq!(api.post(FOOS, &foo("b", json!({}))).await.code, 403);
    api.merge(&one(), &json!({"metadata": {"finalizers": null}})).await.expect(200);
    api.get(&one()).await.expect(404);
    api.get(FOOS).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn crd_15_objects_of_unserved_versions_are_deleted_too() {
    let api = Api::with_foos().await;
    api.post(FOOS, &foo("a", json!({}))).await.expect(201);
    let objects = api.server.stats().objects;
    let change = json!([{"op": "replace", "path": "/spec/versions/0/served", "value": false}]);
    api.patch(&one(), "application/json-patch+json", &change.to_string()).await.expect(200);
    api.get(FOOS).await.expect(404);
    api.delete(&one()).await.expect(200);
    assert_eq!(api.server.stats().objects, objects - 3, "the object, its definition and the APIService");
    api.post(DEFINITIONS, &foo_definition()).await.expect(201);
    assert_eq!(api.get(FOOS).await.expect(200)["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn crd_15_deleting_a_namespace_removes_the_last_object_and_the_definition() {
    let api = Api::with_foos().await;
    api.post("/api/v1/namespaces", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "two"}}))
        .await
        .expect(201);
    let there = "/apis/example.com/v1/namespaces/two/foos";
    api.post(there, &held("held")).await.expect(201);
    api.delete(&one()).await.expect(200);
    api.delete("/api/v1/namespaces/two").await.expect(200);
    api.get(&one()).await.expect(200);
    api.merge(&format!("{there}/held"), &json!({"metadata": {"finalizers": null}})).await.expect(200);
    api.get(&one()).await.expect(404);
    api.get("/api/v1/namespaces/two").await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn wat_25_a_change_of_the_definition_ends_watches_and_an_idle_write_does_not() {
    let api = Api::with_foos().await;
    let mut watch = api.watch(&format!("{FOOS}?watch=true")).await;
    api.merge(&one(), &json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
    api.post(FOOS, &foo("a", json!({}))).await.expect(201);
    assert_eq!(watch.next().await.unwrap()["type"], "ADDED", "a label does not close watches");
    api.merge(&one(), &json!({"spec": {"names": {"shortNames": ["f"]}}})).await.expect(200);
    assert!(watch.next().await.is_none());
}

/// Deletes a definition while tasks create objects and remove finalizers: the definition and its objects are removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn crd_15_no_object_outlives_or_holds_a_deleted_definition() {
    let api = Arc::new(Api::start().await);
    for _ in 0..30 {
        api.post(DEFINITIONS, &foo_definition()).await.expect(201);
        for task in 0..4 {
            api.post(FOOS, &held(&format!("held-{task}"))).await.expect(201);
            api.delete(&format!("{FOOS}/held-{task}")).await.expect(200);
        }
        let clients = (0..4).map(|task| {
            let api = Arc::clone(&api);
            tokio::spawn(async move {
                for number in 0..1000 {
                    if number == 5 {
                        let free = json!({"metadata": {"finalizers": null}});
                        let freed = api.merge(&format!("{FOOS}/held-{task}"), &free).await;
                        assert_eq!(freed.code, 200, "{}", freed.body);
                    }
                    let response = api.post(FOOS, &foo(&format!("foo-{task}-{number}"), json!({}))).await;
                    if number >= 5 && response.code != 201 {
                        assert!(matches!(response.code, 403 | 404), "{}", response.body);
                        break;
                    }
                }
            })
        });
        let clients: Vec<_> = clients.collect();
        while api.get(FOOS).await.expect(200)["items"].as_array().unwrap().len() < 10 {
            tokio::task::yield_now().await;
        }
        api.delete(&one()).await.expect(200);
        for client in clients {
            client.await.unwrap();
        }
        api.get(&one()).await.expect(404);
        api.post(DEFINITIONS, &foo_definition()).await.expect(201);
        assert_eq!(api.get(FOOS).await.expect(200)["items"], json!([]), "the next definition finds nothing");
        api.delete(&one()).await.expect(200);
    }
}
