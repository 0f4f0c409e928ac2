//! Updates and patches: conflicts, preconditions, immutable fields, and concurrent writers.

use serde_json::{Value, json};

use crate::api::{Api, JSON_PATCH, MERGE, version};
use crate::*;

const A: &str = "/api/v1/namespaces/default/configmaps/a";

#[tokio::test(start_paused = true)]
async fn upd_1_upd_6_a_put_changes_or_for_some_kinds_creates() {
    let api = Api::start().await;
    let created = api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let mut changed = created.clone();
    changed["data"]["k"] = "w".into();
    let updated = api.put(A, &changed).await.expect(200);
    assert_eq!(updated["data"]["k"], "w");
    assert_eq!(version(&updated), version(&created) + 1);
    assert_eq!(updated["metadata"]["uid"], created["metadata"]["uid"]);
    let refused = api.put(&format!("{CONFIG_MAPS}/none"), &config_map("none")).await;
    assert_eq!(refused.refusal(404, "NotFound"), "configmaps \"none\" not found");
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let path = "/api/v1/namespaces/default/services/s";
    let created = api.put(path, &service).await.expect(201);
    assert!(created["metadata"]["uid"].is_string());
    assert_eq!(api.put(path, &service).await.expect(200), created);
    let mut expected = service;
    expected["metadata"]["resourceVersion"] = "1".into();
    api.delete(path).await.expect(200);
    api.put(path, &expected).await.refusal(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn upd_2_the_name_is_that_of_the_url() {
    let api = Api::start().await;
    api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let refused = api.put(A, &config_map("b")).await;
    let message = refused.refusal(400, "BadRequest");
    assert_eq!(message, "the name of the object (b) does not match the name on the URL (a)");
    let refused = api.put(A, &json!({"data": {}})).await;
    let message = refused.refusal(400, "BadRequest");
    assert_eq!(message, "the name of the object (a based on URL) was undeterminable: name must be provided");
}

#[tokio::test(start_paused = true)]
async fn upd_3_err_4_an_old_version_is_refused() {
    let api = Api::start().await;
    let created = api.post(DEPLOYMENTS, &deployment("a")).await.expect(201);
    let path = format!("{DEPLOYMENTS}/a");
    api.patch(&path, &json!({"spec": {"replicas": 2}})).await.expect(200);
    let refused = api.put(&path, &created).await;
    assert_eq!(
        refused.refusal(409, "Conflict"),
        "Operation cannot be fulfilled on deployments.apps \"a\": the object has been modified; please apply your \
         changes to the latest version and try again"
    );
    assert_eq!(refused.body["details"], json!({"name": "a", "group": "apps", "kind": "deployments"}));
    let mut future = created;
    future["metadata"]["resourceVersion"] = "999999".into();
    api.put(&path, &future).await.refusal(409, "Conflict");
}

#[tokio::test(start_paused = true)]
async fn upd_4_without_a_version_the_last_writer_wins_where_that_is_allowed() {
    let api = Api::start().await;
    api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    for version in ["", "0"] {
        let mut blind = config_map("a");
        blind["data"]["k"] = format!("w{version}").into();
        blind["metadata"]["resourceVersion"] = version.into();
        api.put(A, &blind).await.expect(200);
    }
    api.post(DEFINITIONS, &widgets()).await.expect(201);
    api.post(WIDGETS, &widget("w")).await.expect(201);
    let refused = api.put(&format!("{WIDGETS}/w"), &widget("w")).await;
    assert_eq!(
        refused.refusal(422, "Invalid"),
        "Widget.example.com \"w\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
}

#[tokio::test(start_paused = true)]
async fn upd_5_another_uid_is_another_object() {
    let api = Api::start().await;
    let created = api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let mut other = config_map("a");
    other["metadata"]["uid"] = "other".into();
    let refused = api.put(A, &other).await;
    let stored = created["metadata"]["uid"].as_str().unwrap();
    let expected = format!("Precondition failed: UID in precondition: other, UID in object meta: {stored}");
    assert!(refused.refusal(409, "Conflict").contains(&expected), "{}", refused.text);
    let refused = api.patch(A, &json!({"metadata": {"uid": "other"}})).await;
    let message = refused.refusal(422, "Invalid");
    assert!(message.ends_with("metadata.uid: Invalid value: \"other\": field is immutable"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn upd_7_immutable_metadata() {
    let api = Api::start().await;
    let created = api.post(CONFIG_MAPS, &held_config_map("a")).await.expect(201);
    let mut bold = created.clone();
    bold["metadata"]["creationTimestamp"] = "1999-01-01T00:00:00Z".into();
    bold["metadata"]["generation"] = 77.into();
    bold["data"] = json!({"k": "w"});
    let updated = api.put(A, &bold).await.expect(200);
    assert_eq!(updated["metadata"]["creationTimestamp"], created["metadata"]["creationTimestamp"]);
    assert_eq!(updated["metadata"].get("generation"), None);
    let refused = api.patch(A, &json!({"metadata": {"deletionTimestamp": "1999-01-01T00:00:00Z"}})).await;
    assert!(refused.refusal(422, "Invalid").contains("metadata.deletionTimestamp: Invalid value"), "{}", refused.text);
    let marked = api.delete(A).await.expect(200);
    let updated = api.patch(A, &json!({"metadata": {"deletionTimestamp": null}, "data": {"k": "x"}})).await.expect(200);
    assert_eq!(updated["metadata"]["deletionTimestamp"], marked["metadata"]["deletionTimestamp"]);
    assert_eq!(updated["metadata"]["deletionGracePeriodSeconds"], 0);
}

#[tokio::test(start_paused = true)]
async fn upd_8_upd_9_a_deleting_object_gains_no_finalizers_and_is_removed_with_the_last() {
    let api = Api::start().await;
    let created = api.post(CONFIG_MAPS, &held_config_map("a")).await.expect(201);
    api.delete(A).await.expect(200);
    let refused = api.patch(A, &json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}})).await;
    assert!(refused.refusal(422, "Invalid").ends_with(
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new \
         finalizers []string{\"example.com/more\"}"
    ));
    assert_eq!(refused.body["details"]["causes"][0]["reason"], "FieldValueForbidden");
    let mut watch = api.watch(CONFIG_MAPS).await;
    let before = api.revision(CONFIG_MAPS).await;
    let last = api.patch(A, &json!({"metadata": {"finalizers": null}, "data": {"k": "last"}})).await.expect(200);
    assert_eq!(last["data"]["k"], "last", "the response is the object of the request");
    let events = watch.events();
    assert_eq!(events.len(), 1, "no MODIFIED: {events:?}");
    assert_eq!(events[0]["type"], "DELETED");
    assert_eq!(version(&events[0]["object"]), before + 1);
    assert_eq!(events[0]["object"]["metadata"]["uid"], created["metadata"]["uid"]);
    api.get(A).await.refusal(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn upd_9_by_put_and_for_a_custom_resource() {
    let api = Api::start().await;
    api.post(DEFINITIONS, &widgets()).await.expect(201);
    let mut held = widget("w");
    held["metadata"]["finalizers"] = json!(["example.com/one", "example.com/two"]);
    api.post(WIDGETS, &held).await.expect(201);
    let path = format!("{WIDGETS}/w");
    let mut marked = api.delete(&path).await.expect(200);
    let mut watch = api.watch(WIDGETS).await;
    marked["metadata"]["finalizers"] = json!(["example.com/two"]);
    let mut marked = api.put(&path, &marked).await.expect(200);
    api.put(&format!("{path}/status"), &marked).await.expect(200);
    marked["metadata"]["finalizers"] = json!([]);
    api.put(&path, &marked).await.expect(200);
    assert_eq!(watch.types(), "MODIFIED DELETED");
    api.get(&path).await.refusal(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn pat_2_a_patch_needs_an_object() {
    let api = Api::start().await;
    let refused = api.patch(A, &json!({"data": {}})).await;
    assert_eq!(refused.refusal(404, "NotFound"), "configmaps \"a\" not found");
    api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let patched = api.patch(A, &json!({"data": {"k": null, "l": "v"}})).await.expect(200);
    assert_eq!(patched["data"], json!({"l": "v"}));
    let list = json!([{"op": "add", "path": "/data/m", "value": "x"}]).to_string();
    let patched = api.send("PATCH", A, &[("content-type", JSON_PATCH)], list).await.expect(200);
    assert_eq!(patched["data"], json!({"l": "v", "m": "x"}));
}

#[tokio::test(start_paused = true)]
async fn pat_3_a_patch_may_name_the_version_it_is_for() {
    let api = Api::start().await;
    let created = api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let conditional = |value: &str| {
        json!({"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]},
                                           "data": {"k": value}})
    };
    api.patch(A, &conditional("w")).await.expect(200);
    let refused = api.patch(A, &conditional("x")).await;
    assert!(refused.refusal(409, "Conflict").contains("the object has been modified"), "{}", refused.text);
    assert_eq!(api.get(A).await.expect(200)["data"]["k"], "w");
}

#[tokio::test(start_paused = true)]
async fn pat_4_a_patch_is_an_update() {
    let api = Api::start().await;
    api.post(DEPLOYMENTS, &deployment("a")).await.expect(201);
    let path = format!("{DEPLOYMENTS}/a");
    let refused = api.patch(&path, &json!({"metadata": {"name": "b"}})).await;
    assert!(refused.refusal(400, "BadRequest").starts_with("the name of the object (b)"), "{}", refused.text);
    let refused = api.patch(&path, &json!({"metadata": {"namespace": "kube-system"}})).await;
    assert!(refused.refusal(400, "BadRequest").contains("does not match the namespace"), "{}", refused.text);
    let patched = api.patch(&path, &json!({"spec": {"replicas": 3}, "status": {"replicas": 3}})).await.expect(200);
    assert_eq!(patched["metadata"]["generation"], 2);
    assert_eq!(patched["status"].get("replicas"), None, "the status has its own endpoint");
    let refused = api.patch(&path, &json!({"spec": {"replicas": -1}})).await;
    assert!(refused.refusal(422, "Invalid").contains("spec.replicas: Invalid value: -1"), "{}", refused.text);
    let patch = json!({"spec": {"replicas": 9}, "status": {"replicas": 3}});
    let patched = api.patch(&format!("{path}/status"), &patch).await.expect(200);
    assert_eq!((&patched["spec"]["replicas"], &patched["status"]["replicas"]), (&json!(3), &json!(3)));
    assert_eq!(patched["metadata"]["generation"], 2);
}

#[tokio::test(start_paused = true)]
async fn pat_8_a_patch_must_leave_an_object_of_its_kind() {
    let api = Api::start().await;
    api.post(DEPLOYMENTS, &deployment("a")).await.expect(201);
    let path = format!("{DEPLOYMENTS}/a");
    let refused = api.patch(&path, &json!({"spec": {"replicas": "many"}})).await;
    refused.refusal(422, "Invalid");
    assert_eq!(refused.body["details"]["causes"][0]["field"], "patch", "{}", refused.text);
    let strict = format!("{path}?fieldValidation=Strict");
    let refused = api.patch(&strict, &json!({"spec": {"replicaz": 1}})).await;
    assert!(refused.refusal(422, "Invalid").contains("unknown field \"spec.replicaz\""), "{}", refused.text);
    for header in [json!({"kind": "Pod"}), json!({"apiVersion": "apps/v2"}), json!({"kind": 7})] {
        let refused = api.patch(&path, &header).await;
        refused.refusal(422, "Invalid");
        assert_eq!(refused.body["details"]["causes"][0]["field"], "patch", "{}", refused.text);
    }
    let patched = api.patch(&path, &json!({"kind": null, "apiVersion": null})).await.expect(200);
    assert_eq!((&patched["kind"], &patched["apiVersion"]), (&json!("Deployment"), &json!("apps/v1")));
    let list = json!([{"op": "replace", "path": "/spec", "value": 7}]).to_string();
    api.send("PATCH", &path, &[("content-type", JSON_PATCH)], list).await.refusal(422, "Invalid");
    let list = json!([{"op": "replace", "path": "", "value": 7}]).to_string();
    let refused = api.send("PATCH", &path, &[("content-type", JSON_PATCH)], list).await;
    assert!((400..500).contains(&refused.status), "{}", refused.text);
}

/// Concurrent patches, each of a key of its own: no conflict, and no update is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn upd_10_patches_do_not_conflict() {
    let api = Api::start().await;
    api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let tasks = (0..8).map(|task| {
        let handle = api.handle();
        tokio::spawn(async move {
            for number in 0..20 {
                let patch = json!({"data": {format!("t{task}-{number}"): "x"}}).to_string();
                handle.send("PATCH", A, &[("content-type", MERGE)], patch).await.expect(200);
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(api.get(A).await.expect(200)["data"].as_object().unwrap().len(), 1 + 8 * 20);
}

/// Every client reads, increments and writes, until it has succeeded as often as required.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn upd_11_concurrent_counters_lose_no_update() {
    for (clients, increments) in [(1, 40), (2, 40), (8, 25), (24, 5)] {
        let api = Api::start().await;
        let mut start = config_map("a");
        start["data"] = json!({"count": "0"});
        let created = api.post(CONFIG_MAPS, &start).await.expect(201);
        let mut watch = api.watch(CONFIG_MAPS).await;
        let tasks = (0..clients).map(|_| {
            let handle = api.handle();
            tokio::spawn(async move {
                let mut won = Vec::new();
                while won.len() < increments {
                    let mut object = handle.get(A).await.expect(200);
                    let count: usize = object["data"]["count"].as_str().unwrap().parse().unwrap();
                    object["data"]["count"] = (count + 1).to_string().into();
                    let response = handle.put(A, &object).await;
                    match response.status {
                        200 => won.push(version(&response.body)),
                        _ => assert!(response.refusal(409, "Conflict").contains("has been modified")),
                    }
                }
                won
            })
        });
        let mut won = Vec::new();
        for task in tasks.collect::<Vec<_>>() {
            won.extend(task.await.unwrap());
        }
        won.sort_unstable();
        let total = (clients * increments) as u64;
        let last = api.get(A).await.expect(200);
        assert_eq!(last["data"]["count"], total.to_string());
        assert_eq!(won, (1..=total).map(|step| version(&created) + step).collect::<Vec<_>>(), "one revision each");
        let seen: Vec<Value> = watch.events().iter().map(|event| event["object"]["data"]["count"].clone()).collect();
        assert_eq!(seen, (1..=total).map(|count| json!(count.to_string())).collect::<Vec<_>>(), "and one event each");
    }
}

/// Two concurrent creating PUTs: both succeed, and one of them creates the object.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn upd_6_concurrent_creates_create_once() {
    let api = Api::start().await;
    let body = json!({"metadata": {"name": "r"}, "rules": []});
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/r";
    for _ in 0..50 {
        let tasks = (0..4).map(|_| {
            let (handle, body) = (api.handle(), body.clone());
            tokio::spawn(async move { handle.put(path, &body).await.status })
        });
        let mut responses = Vec::new();
        for task in tasks.collect::<Vec<_>>() {
            responses.push(task.await.unwrap());
        }
        responses.sort_unstable();
        assert_eq!(responses, [200, 200, 200, 201]);
        api.delete(path).await.expect(200);
    }
}
