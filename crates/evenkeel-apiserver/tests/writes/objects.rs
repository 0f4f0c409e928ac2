//! Create and object metadata.

use std::collections::BTreeSet;

use evenkeel_apiserver::{ApiServer, ControllerTiming};
use serde_json::{Value, json};

use crate::api::{Api, TestEnv, version};
use crate::*;

#[tokio::test(start_paused = true)]
async fn obj_1_obj_2_the_server_gives_identity_and_time() {
    let api = Api::start().await;
    let mut sent = config_map("a");
    sent["metadata"]["uid"] = "mine".into();
    sent["metadata"]["creationTimestamp"] = "1999-01-01T00:00:00Z".into();
    sent["metadata"]["deletionTimestamp"] = "1999-01-01T00:00:00Z".into();
    sent["metadata"]["deletionGracePeriodSeconds"] = 5.into();
    sent["metadata"]["selfLink"] = "/somewhere".into();
    let created = api.post(CONFIG_MAPS, &sent).await.expect(201);
    let metadata = created["metadata"].as_object().unwrap();
    assert_eq!(metadata["creationTimestamp"], "2030-01-01T00:00:00Z");
    let uid = metadata["uid"].as_str().unwrap();
    let parts: Vec<&str> = uid.split('-').collect();
    assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{uid}");
    assert!(parts[2].starts_with('4') && parts[3].starts_with(['8', '9', 'a', 'b']), "a random UUID: {uid}");
    for discarded in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        assert!(!metadata.contains_key(discarded), "{discarded}");
    }
    assert_eq!(api.get(&format!("{CONFIG_MAPS}/a")).await.expect(200), created, "the response is the stored object");
    let other = api.post(CONFIG_MAPS, &config_map("b")).await.expect(201);
    assert_ne!(other["metadata"]["uid"], created["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn obj_3_the_namespace_is_that_of_the_url() {
    let api = Api::start().await;
    let created = api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    assert_eq!(created["metadata"]["namespace"], "default");
    let mut elsewhere = config_map("b");
    elsewhere["metadata"]["namespace"] = "kube-system".into();
    let refused = api.post(CONFIG_MAPS, &elsewhere).await;
    let message = refused.refusal(400, "BadRequest");
    assert_eq!(message, "the namespace of the provided object does not match the namespace sent on the request");
    let mut clustered = namespace("n");
    clustered["metadata"]["namespace"] = "default".into();
    let created = api.post(NAMESPACES, &clustered).await.expect(201);
    assert_eq!(created["metadata"].get("namespace"), None);
}

#[tokio::test(start_paused = true)]
async fn obj_4_kind_and_version_may_be_left_out_but_not_be_wrong() {
    let api = Api::start().await;
    let mut bare = deployment("a");
    bare.as_object_mut().unwrap().retain(|key, _| key != "kind" && key != "apiVersion");
    let created = api.post(DEPLOYMENTS, &bare).await.expect(201);
    assert_eq!((&created["kind"], &created["apiVersion"]), (&json!("Deployment"), &json!("apps/v1")));
    api.post(DEFINITIONS, &widgets()).await.expect(201);
    let mut old = widget("w");
    old["apiVersion"] = "example.com/v0".into();
    let refused = api.post(WIDGETS, &old).await;
    assert_eq!(
        refused.refusal(400, "BadRequest"),
        "the API version in the data (example.com/v0) does not match the expected API version (example.com/v1)"
    );
}

#[tokio::test(start_paused = true)]
async fn obj_5_a_generated_name_that_is_taken_is_replaced() {
    let env = TestEnv::with_zeros();
    let api = Api::with(ApiServer::builder().env(env.clone())).await;
    let generated = json!({"metadata": {"generateName": "web-"}});
    let first = api.post(CONFIG_MAPS, &generated).await.expect(201);
    assert_eq!(first["metadata"]["name"], "web-bbbbb");
    // Two random numbers make the uid, and one each name.
    env.set_random([0, 0, 0, 1]);
    let second = api.post(CONFIG_MAPS, &generated).await.expect(201);
    assert_eq!(second["metadata"]["name"], "web-cbbbb");
    let both = json!({"metadata": {"generateName": "web-", "name": "mine"}});
    assert_eq!(api.post(CONFIG_MAPS, &both).await.expect(201)["metadata"]["name"], "mine");
    let long = json!({"metadata": {"generateName": "x".repeat(100)}});
    let long = api.post(CONFIG_MAPS, &long).await.expect(201);
    assert_eq!(long["metadata"]["name"], format!("{}bbbbb", "x".repeat(58)));
}

#[tokio::test(start_paused = true)]
async fn obj_5_labels_derived_from_the_name_use_the_generated_name() {
    let api = Api::start().await;
    let created = api.post(NAMESPACES, &json!({"metadata": {"generateName": "team-"}})).await.expect(201);
    assert_eq!(created["metadata"]["labels"]["kubernetes.io/metadata.name"], created["metadata"]["name"]);
    let job = json!({"metadata": {"generateName": "work-"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "main", "image": "app"}]}}}});
    let job = api.post("/apis/batch/v1/namespaces/default/jobs", &job).await.expect(201);
    assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], job["metadata"]["name"]);
}

#[tokio::test(start_paused = true)]
async fn obj_6_a_name_is_needed() {
    let api = Api::start().await;
    let refused = api.post(CONFIG_MAPS, &json!({"data": {}})).await;
    assert_eq!(
        refused.refusal(422, "Invalid"),
        "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required"
    );
    assert_eq!(refused.body["details"]["causes"][0]["reason"], "FieldValueRequired");
}

#[tokio::test(start_paused = true)]
async fn obj_7_no_resource_version_on_create() {
    let api = Api::start().await;
    let mut sent = config_map("a");
    sent["metadata"]["resourceVersion"] = "3".into();
    let refused = api.post(CONFIG_MAPS, &sent).await;
    assert_eq!(refused.refusal(500, ""), "resourceVersion should not be set on objects to be created");
    api.post(&format!("{CONFIG_MAPS}?dryRun=All"), &sent).await.expect(201);
    let mut invalid = sent.clone();
    invalid["metadata"]["labels"] = json!({"a": "-"});
    api.post(CONFIG_MAPS, &invalid).await.refusal(422, "Invalid");
    sent["metadata"]["resourceVersion"] = "0".into();
    assert_ne!(version(&api.post(CONFIG_MAPS, &sent).await.expect(201)), 0, "zero is none");
}

#[tokio::test(start_paused = true)]
async fn obj_8_revisions_are_of_the_whole_server_and_only_grow() {
    let builder = ApiServer::builder().env(TestEnv::new()).service_account_controller(ControllerTiming::Off);
    let api = Api::with(builder).await;
    assert!(api.revision("/apis/apps/v1/deployments").await >= 1, "an empty list has a version too");
    let mut versions = vec![api.revision(CONFIG_MAPS).await];
    versions.push(version(&api.post(CONFIG_MAPS, &config_map("a")).await.expect(201)));
    versions.push(version(&api.post(DEPLOYMENTS, &deployment("a")).await.expect(201)));
    versions.push(version(&api.post(NAMESPACES, &namespace("a")).await.expect(201)));
    versions.push(version(&api.patch(&format!("{CONFIG_MAPS}/a"), &json!({"data": {"k": "w"}})).await.expect(200)));
    versions.push(version(&api.post(PODS, &pod("a")).await.expect(201)));
    api.delete(&format!("{CONFIG_MAPS}/a")).await.expect(200);
    versions.push(api.revision(CONFIG_MAPS).await);
    let steps: Vec<u64> = versions.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(steps, [1; 6], "each write of any kind is one revision: {versions:?}");
}

#[tokio::test(start_paused = true)]
async fn obj_10_metadata_is_checked() {
    let api = Api::start().await;
    let with = |metadata: Value| json!({"metadata": metadata});
    let bad = [
        (with(json!({"name": "a b"})), "metadata.name"),
        (with(json!({"name": "50%"})), "metadata.name"),
        (with(json!({"name": "naïve"})), "metadata.name"),
        (with(json!({"name": "a/b"})), "metadata.name"),
        (with(json!({"name": ".."})), "metadata.name"),
        (with(json!({"name": "x".repeat(254)})), "metadata.name"),
        (with(json!({"name": "a", "labels": {"k": "not ok"}})), "metadata.labels"),
        (with(json!({"name": "a", "labels": {"-": "v"}})), "metadata.labels"),
        (with(json!({"name": "a", "annotations": {"a b": ""}})), "metadata.annotations"),
        (with(json!({"name": "a", "annotations": {"a": "x".repeat(256 * 1024)}})), "metadata.annotations"),
        (with(json!({"name": "a", "finalizers": ["not ok"]})), "metadata.finalizers"),
        (with(json!({"name": "a", "ownerReferences": [{"kind": "Pod"}]})), "metadata.ownerReferences[0].apiVersion"),
        (with(json!({"name": "a", "generation": -1})), "metadata.generation"),
    ];
    let before = api.revision(CONFIG_MAPS).await;
    for (object, field) in bad {
        let refused = api.post(CONFIG_MAPS, &object).await;
        refused.refusal(422, "Invalid");
        assert_eq!(refused.body["details"]["causes"][0]["field"], field, "{}", refused.text);
    }
    for object in [json!({"metadata": {"name": 7}}), json!({"metadata": {"labels": []}}), json!({"metadata": "x"})] {
        api.post(CONFIG_MAPS, &object).await.refusal(400, "BadRequest");
    }
    assert_eq!(api.revision(CONFIG_MAPS).await, before);
}

#[tokio::test(start_paused = true)]
async fn obj_11_owners_are_named_once() {
    let api = Api::start().await;
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-1"});
    let mut owned = config_map("a");
    owned["metadata"]["ownerReferences"] = json!([owner, owner]);
    let response = api.post(CONFIG_MAPS, &owned).await;
    assert!(response.warnings()[0].contains("duplicate UID(s) observed: u-1"), "{:?}", response.warnings());
    assert_eq!(response.expect(201)["metadata"]["ownerReferences"], json!([owner]));
}

#[tokio::test(start_paused = true)]
async fn obj_12_generation_is_counted_or_unchanged() {
    let api = Api::start().await;
    let mut counted = deployment("a");
    counted["metadata"]["generation"] = 9.into();
    assert_eq!(api.post(DEPLOYMENTS, &counted).await.expect(201)["metadata"]["generation"], 1);
    let mut uncounted = config_map("a");
    assert_eq!(api.post(CONFIG_MAPS, &uncounted).await.expect(201)["metadata"].get("generation"), None);
    uncounted["metadata"] = json!({"name": "b", "generation": 9});
    assert_eq!(api.post(CONFIG_MAPS, &uncounted).await.expect(201)["metadata"]["generation"], 9);
    uncounted["data"]["k"] = "w".into();
    uncounted["metadata"]["generation"] = 12.into();
    let updated = api.put(&format!("{CONFIG_MAPS}/b"), &uncounted).await.expect(200);
    assert_eq!(updated["metadata"]["generation"], 9, "an update does not change it either");
}

#[tokio::test(start_paused = true)]
async fn obj_12_the_highest_generation_is_the_last() {
    let api = Api::start().await;
    let mut held = held_config_map("a");
    held["metadata"]["generation"] = i64::MAX.into();
    api.post(CONFIG_MAPS, &held).await.expect(201);
    let deleted = api.delete(&format!("{CONFIG_MAPS}/a")).await.expect(200);
    assert_eq!(deleted["metadata"]["generation"], i64::MAX);
}

#[tokio::test(start_paused = true)]
async fn obj_13_a_write_that_changes_nothing_writes_nothing() {
    let api = Api::start().await;
    let created = api.post(DEPLOYMENTS, &deployment("a")).await.expect(201);
    let mut watch = api.watch(DEPLOYMENTS).await;
    tokio::time::advance(std::time::Duration::from_secs(5)).await;
    let path = format!("{DEPLOYMENTS}/a");
    assert_eq!(api.put(&path, &created).await.expect(200), created);
    assert_eq!(api.put(&path, &deployment("a")).await.expect(200), created, "defaults are filled in first");
    assert_eq!(api.patch(&path, &json!({"spec": {"replicas": 1}})).await.expect(200), created);
    assert_eq!(api.patch(&path, &json!({})).await.expect(200), created);
    assert_eq!(watch.types(), "");
    api.patch(&path, &json!({"spec": {"replicas": 2}})).await.expect(200);
    assert_eq!(watch.types(), "MODIFIED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn obj_15_no_address_and_no_port_is_assigned_twice() {
    let api = Api::start().await;
    let tasks = (0..4).map(|task| {
        let handle = api.handle();
        tokio::spawn(async move {
            let mut given = Vec::new();
            for number in 0..15 {
                let service = json!({"metadata": {"name": format!("s{task}-{number}")},
                                     "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
                let path = "/api/v1/namespaces/default/services";
                let created = handle.send("POST", path, &[], service.to_string()).await.expect(201);
                given.push((
                    created["spec"]["clusterIP"].to_string(),
                    created["spec"]["ports"][0]["nodePort"].to_string(),
                ));
            }
            given
        })
    });
    let (mut addresses, mut ports) = (BTreeSet::new(), BTreeSet::new());
    for task in tasks.collect::<Vec<_>>() {
        for (address, port) in task.await.unwrap() {
            assert!(addresses.insert(address) && ports.insert(port));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn obj_15_immutable_fields_are_kept() {
    let api = Api::start().await;
    api.post(DEPLOYMENTS, &deployment("a")).await.expect(201);
    let mut moved = deployment("a");
    moved["spec"]["selector"]["matchLabels"]["app"] = "b".into();
    moved["spec"]["template"]["metadata"]["labels"]["app"] = "b".into();
    let refused = api.put(&format!("{DEPLOYMENTS}/a"), &moved).await;
    assert!(refused.refusal(422, "Invalid").contains("spec.selector: Invalid value"), "{}", refused.text);
    let mut frozen = config_map("f");
    frozen["immutable"] = true.into();
    api.post(CONFIG_MAPS, &frozen).await.expect(201);
    let refused = api.patch(&format!("{CONFIG_MAPS}/f"), &json!({"data": {"k": "w"}})).await;
    assert!(refused.refusal(422, "Invalid").contains("field is immutable when `immutable` is set"), "{}", refused.text);
    api.post(PODS, &pod("p")).await.expect(201);
    let refused = api.patch(&format!("{PODS}/p"), &json!({"spec": {"hostNetwork": true}})).await;
    assert!(
        refused.refusal(422, "Invalid").contains("pod updates may not change fields other than"),
        "{}",
        refused.text
    );
}

#[tokio::test(start_paused = true)]
async fn msc_1_events_are_read_in_both_forms_and_expire_after_an_hour() {
    let api = Api::with(ApiServer::builder().env(TestEnv::new()).namespace_controller(ControllerTiming::Off)).await;
    let (old, new) = ("/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events");
    let event = json!({"metadata": {"name": "e"}, "reason": "Started", "message": "it runs", "type": "Normal",
                       "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}});
    api.post(old, &event).await.expect(201);
    let shown = api.get(&format!("{new}/e")).await;
    assert!(shown.text.starts_with(r#"{"kind":"Event","apiVersion":"events.k8s.io/v1","#), "{}", shown.text);
    assert_eq!((&shown.body["note"], &shown.body["regarding"]["name"]), (&json!("it runs"), &json!("p")));
    let count = |list: Value| list["items"].as_array().unwrap().len();
    assert_eq!(
        count(api.get(&format!("{old}?fieldSelector=involvedObject.name=p,reason=Started")).await.expect(200)),
        1
    );
    assert_eq!(count(api.get(&format!("{new}?fieldSelector=regarding.name=q")).await.expect(200)), 0);
    api.patch(&format!("{old}/e"), &json!({"count": 2})).await.expect(200);
    tokio::time::sleep(std::time::Duration::from_secs(3590)).await;
    api.get(&format!("{old}/e")).await.expect(200);
    let mut watch = api.watch(new).await;
    tokio::time::sleep(std::time::Duration::from_secs(20)).await;
    let gone = watch.events();
    assert_eq!((gone.len(), &gone[0]["type"]), (1, &json!("DELETED")));
    assert_eq!(gone[0]["object"]["deprecatedCount"], 2);
    api.get(&format!("{old}/e")).await.refusal(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn msc_1_events_can_be_kept_forever() {
    let api = Api::with(ApiServer::builder().env(TestEnv::new()).event_ttl(None)).await;
    let events = "/api/v1/namespaces/default/events";
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}});
    api.post(events, &event).await.expect(201);
    tokio::time::sleep(std::time::Duration::from_secs(9000)).await;
    api.get(&format!("{events}/e")).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn msc_2_leases_support_elections() {
    let api = Api::start().await;
    let path = format!("{LEASES}/leader");
    let mut first = lease("leader", "a");
    let created = api.put(&path, &first).await.expect(201);
    assert_eq!(created["spec"]["renewTime"], "2030-01-01T00:00:00.000001Z", "every digit counts");
    let refused = api.put(&path, &lease("leader", "b")).await;
    assert!(
        refused
            .refusal(422, "Invalid")
            .ends_with("metadata.resourceVersion: Invalid value: 0: must be specified for an update")
    );
    let mut second = created.clone();
    second["spec"]["holderIdentity"] = "b".into();
    api.put(&path, &second).await.expect(200);
    first["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
    api.put(&path, &first).await.refusal(409, "Conflict");
    assert_eq!(api.get(&path).await.expect(200)["spec"]["holderIdentity"], "b");
}

#[tokio::test(start_paused = true)]
async fn neg_10_kind_and_version_are_first_except_in_typed_lists() {
    let api = Api::start().await;
    let head = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"#;
    assert!(api.post(CONFIG_MAPS, &config_map("a")).await.text.starts_with(head));
    assert!(api.get(&format!("{CONFIG_MAPS}/a")).await.text.starts_with(head));
    let tried = api.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("b")).await.text;
    assert!(tried.starts_with(r#"{"kind":"ConfigMap","apiVersion":"v1","#), "{tried}");
    let list = api.get(CONFIG_MAPS).await;
    assert!(list.text.starts_with(r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"#), "{}", list.text);
    assert_eq!((list.body["items"][0].get("kind"), list.body["items"][0].get("apiVersion")), (None, None));
    api.post(DEFINITIONS, &widgets()).await.expect(201);
    api.post(WIDGETS, &widget("w")).await.expect(201);
    let list = api.get(WIDGETS).await;
    assert!(
        list.text.contains(r#""items":[{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"#),
        "{}",
        list.text
    );
    let mut watch = api.watch(CONFIG_MAPS).await;
    api.delete(&format!("{CONFIG_MAPS}/a")).await.expect(200);
    assert_eq!(watch.events()[0]["object"]["kind"], "ConfigMap");
    let autoscaler = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 2,
        "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}});
    let path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let shown = api.post(path, &autoscaler).await;
    let head = r#"{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v1","#;
    assert!(shown.text.starts_with(head), "{}", shown.text);
}

#[tokio::test(start_paused = true)]
async fn neg_11_an_empty_list_is_a_list() {
    let api = Api::start().await;
    api.post(DEFINITIONS, &widgets()).await.expect(201);
    for path in [CONFIG_MAPS, PODS, DEPLOYMENTS, WIDGETS, "/api/v1/nodes", "/api/v1/namespaces/none/secrets"] {
        let list = api.get(path).await;
        assert!(list.text.contains(r#""items":[]"#), "{}", list.text);
        assert_eq!(list.status, 200);
    }
}
