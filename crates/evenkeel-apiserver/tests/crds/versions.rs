//! One resource in several versions.

use serde_json::{Value, json};

use crate::api::{Api, DEFINITIONS, definition, foo, version};

fn at(version: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/default/foos")
}

#[tokio::test(start_paused = true)]
async fn crd_13_every_served_version_shows_the_same_objects() {
    let api = Api::start().await;
    let mut old = version("v1alpha1", false);
    old["deprecated"] = true.into();
    let mut gone = version("v0", false);
    gone["served"] = false.into();
    api.post(DEFINITIONS, &definition("foos", "Foo", json!([version("v1", true), old, gone]))).await.expect(201);

    let mut sent = foo("a", json!({"replicas": 1}));
    sent["apiVersion"] = "example.com/v1alpha1".into();
    let created = api.post(&at("v1alpha1"), &sent).await;
    assert_eq!(created.warnings(), [r#"299 - "example.com/v1alpha1 Foo is deprecated; use example.com/v1 Foo""#]);
    assert_eq!(created.expect(201)["apiVersion"], "example.com/v1alpha1");
    let read = api.get(&format!("{}/a", at("v1"))).await;
    assert!(read.warnings().is_empty());
    let read = read.expect(200);
    assert_eq!((&read["apiVersion"], &read["spec"]["replicas"]), (&json!("example.com/v1"), &json!(1)));
    let list = api.get(&at("v1alpha1")).await.expect(200);
    assert_eq!(list["items"][0]["apiVersion"], "example.com/v1alpha1");
    api.get(&at("v0")).await.expect(404);

    // A watch in one version sees a write in the other.
    let from = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = api.watch(&format!("{}?watch=true&resourceVersion={from}", at("v1alpha1"))).await;
    api.merge(&format!("{}/a", at("v1")), &json!({"spec": {"replicas": 2}})).await.expect(200);
    let event = watch.next().await.unwrap();
    assert_eq!(
        (&event["object"]["apiVersion"], &event["object"]["spec"]["replicas"]),
        (&json!("example.com/v1alpha1"), &json!(2))
    );
    // A body of another version is refused.
    assert_eq!(api.post(&at("v1"), &sent).await.code, 400);
}

#[tokio::test(start_paused = true)]
async fn crd_13_the_preferred_version_is_the_most_stable() {
    let api = Api::start().await;
    let versions = json!([version("v1beta1", true), version("v1", false), version("v2alpha1", false)]);
    api.post(DEFINITIONS, &definition("foos", "Foo", versions)).await.expect(201);
    let group = api.get("/apis/example.com").await.expect(200);
    let names: Vec<&str> =
        group["versions"].as_array().unwrap().iter().map(|v| v["version"].as_str().unwrap()).collect();
    assert_eq!(names, ["v1", "v1beta1", "v2alpha1"]);
    assert_eq!(group["preferredVersion"]["version"], "v1");
}

#[tokio::test(start_paused = true)]
async fn crd_14_a_stored_version_cannot_be_removed() {
    let api = Api::start().await;
    let path = format!("{DEFINITIONS}/foos.example.com");
    api.post(DEFINITIONS, &definition("foos", "Foo", json!([version("v1", true)]))).await.expect(201);
    api.post(&at("v1"), &foo("a", json!({"replicas": 1}))).await.expect(201);

    let both = json!({"spec": {"versions": [version("v1", false), version("v2", true)]}});
    let switched = api.merge(&path, &both).await.expect(200);
    assert_eq!(switched["status"]["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(api.get(&format!("{}/a", at("v2"))).await.expect(200)["apiVersion"], "example.com/v2");

    let new_only = json!({"spec": {"versions": [version("v2", true)]}});
    let refused = api.merge(&path, &new_only).await;
    assert_eq!((refused.code, refused.fields()), (422, vec!["status.storedVersions[0]"]), "{}", refused.message());

    // The old version can be removed once the objects are rewritten and the status lists only the new one.
    let migrated = json!({"status": {"storedVersions": ["v2"]}});
    api.merge(&format!("{path}/status"), &migrated).await.expect(200);
    api.merge(&path, &new_only).await.expect(200);
    api.get(&at("v1")).await.expect(404);
    assert_eq!(api.get(&format!("{}/a", at("v2"))).await.expect(200)["spec"]["replicas"], 1);
    let established: Value = api.condition("foos.example.com", "Established").await.unwrap();
    assert_eq!(established["status"], "True");
}
