//! Deletes of one object and of a collection: options, preconditions, grace, finalizers and propagation.

use std::time::Duration;

use evenkeel_apiserver::{ApiServer, ControllerTiming};
use serde_json::{Value, json};

use crate::api::{Api, TestEnv, version};
use crate::*;

const A: &str = "/api/v1/namespaces/default/configmaps/a";
const P: &str = "/api/v1/namespaces/default/pods/p";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().map(|each| each.as_str().unwrap()).collect()
}

fn job(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "main", "image": "app"}]}}}})
}

#[tokio::test(start_paused = true)]
async fn del_1_options_are_read_from_the_body_or_else_from_the_query() {
    let api = Api::start().await;
    for (options, query) in [
        (json!({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}), ""),
        (json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"]}), ""),
        (json!({"dryRun": ["All"], "apiVersion": null}), ""),
        (Value::Null, "?dryRun=All"),
    ] {
        api.post(CONFIG_MAPS, &config_map("a")).await;
        let body = if options.is_null() { String::new() } else { options.to_string() };
        api.send("DELETE", &format!("{A}{query}"), &[], body).await.expect(200);
        api.get(A).await.expect(200);
    }
    api.delete_with(&format!("{A}?dryRun=All"), &json!({})).await.expect(200);
    api.get(A).await.refusal(404, "NotFound");
    api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    for nonsense in [
        json!({"dryRun": "All"}),
        json!({"dryRun": [7]}),
        json!({"preconditions": "uid"}),
        json!({"preconditions": {"uid": 7}}),
        json!({"gracePeriodSeconds": "now"}),
        json!({"gracePeriodSeconds": 1.5}),
        json!({"orphanDependents": "yes"}),
        json!({"propagationPolicy": 1}),
        json!({"kind": "Pod"}),
        json!({"kind": 7}),
        json!({"kind": "DeleteOptions", "apiVersion": "apps/v1"}),
        json!([]),
        json!("x"),
    ] {
        api.delete_with(A, &nonsense).await.refusal(400, "BadRequest");
    }
    api.send("DELETE", A, &[], "{").await.refusal(400, "BadRequest");
    api.delete(&format!("{A}?gracePeriodSeconds=soon")).await.refusal(400, "BadRequest");
    api.delete(&format!("{A}?orphanDependents=maybe")).await.refusal(400, "BadRequest");
    api.get(A).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn del_2_a_delete_may_be_for_one_object_only() {
    let api = Api::start().await;
    let created = api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let (uid, rv) = (created["metadata"]["uid"].as_str().unwrap(), &created["metadata"]["resourceVersion"]);
    let refused = api.delete_with(A, &json!({"preconditions": {"uid": "other"}})).await;
    assert_eq!(
        refused.refusal(409, "Conflict"),
        format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (other) does not match the \
             UID in record ({uid}). The object might have been deleted and then recreated"
        )
    );
    let refused = api.delete_with(A, &json!({"preconditions": {"resourceVersion": "1"}})).await;
    assert!(refused.refusal(409, "Conflict").contains("the ResourceVersion in the precondition (1) does not match"));
    api.delete_with(A, &json!({"preconditions": {"uid": uid, "resourceVersion": rv}})).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn del_3_a_policy_is_a_known_value_and_given_once() {
    let api = Api::start().await;
    api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let refused = api.delete(&format!("{A}?propagationPolicy=Later")).await;
    let message = refused.refusal(422, "Invalid");
    assert!(
        message
            .starts_with("DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Later\"")
    );
    let both = json!({"propagationPolicy": "Orphan", "orphanDependents": true});
    let refused = api.delete_with(A, &both).await;
    assert!(refused.refusal(422, "Invalid").contains("orphanDependents and deletionPropagation cannot be both set"));
    api.get(A).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn del_4_del_5_an_object_without_finalizers_is_removed_at_once() {
    let api = Api::start().await;
    let created = api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let mut watch = api.watch(CONFIG_MAPS).await;
    let response = api.delete(A).await.expect(200);
    let uid = &created["metadata"]["uid"];
    assert_eq!(
        response,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
               "details": {"name": "a", "kind": "configmaps", "uid": uid}})
    );
    let events = watch.events();
    assert_eq!((events.len(), &events[0]["type"]), (1, &json!("DELETED")));
    assert_eq!(version(&events[0]["object"]), version(&created) + 1, "one revision");
    let mut last = events[0]["object"].clone();
    last["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
    assert_eq!(last, created, "but for the version, the last state");
    api.delete(A).await.refusal(404, "NotFound");
    let account = json!({"metadata": {"name": "s"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let created = api.post(accounts, &account).await.expect(201);
    let response = api.delete(&format!("{accounts}/s")).await.expect(200);
    assert_eq!((&response["kind"], version(&response)), (&json!("ServiceAccount"), version(&created) + 1));
}

#[tokio::test(start_paused = true)]
async fn del_6_orphan_dependents_false_returns_accepted() {
    let api = Api::start().await;
    for name in ["a", "b", "c"] {
        api.post(CONFIG_MAPS, &held_config_map(name)).await.expect(201);
    }
    api.delete(&format!("{CONFIG_MAPS}/a?orphanDependents=false")).await.expect(202);
    api.delete_with(&format!("{CONFIG_MAPS}/b"), &json!({"orphanDependents": false})).await.expect(202);
    api.delete(&format!("{CONFIG_MAPS}/c?propagationPolicy=Background")).await.expect(200);
    api.post(CONFIG_MAPS, &config_map("d")).await.expect(201);
    api.delete(&format!("{CONFIG_MAPS}/d?orphanDependents=false")).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn del_7_finalizers_hold_an_object() {
    let api = Api::start().await;
    let mut held = deployment("a");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let created = api.post(DEPLOYMENTS, &held).await.expect(201);
    let path = format!("{DEPLOYMENTS}/a");
    let mut watch = api.watch(DEPLOYMENTS).await;
    tokio::time::advance(Duration::from_secs(7)).await;
    let marked = api.delete(&path).await.expect(200);
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2030-01-01T00:00:07Z");
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(marked["metadata"]["generation"], 2);
    assert_eq!(version(&marked), version(&created) + 1);
    tokio::time::advance(Duration::from_secs(7)).await;
    assert_eq!(api.delete(&path).await.expect(200), marked, "a second delete changes nothing");
    assert_eq!(watch.types(), "MODIFIED");
    let refused = api.post(DEPLOYMENTS, &held).await;
    assert_eq!(refused.refusal(409, "AlreadyExists"), "object is being deleted: deployments.apps \"a\" already exists");
}

#[tokio::test(start_paused = true)]
async fn del_8_the_period_of_a_pod() {
    let api = Api::start().await;
    let mut quick = running_pod("quick");
    quick["spec"]["terminationGracePeriodSeconds"] = 5.into();
    for (pod, query, period) in [
        (running_pod("a"), "", 30),
        (running_pod("b"), "?gracePeriodSeconds=7", 7),
        (quick, "", 5),
        (running_pod("c"), "?gracePeriodSeconds=-3", 1),
    ] {
        api.post(PODS, &pod).await.expect(201);
        let path = format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap());
        let marked = api.delete(&format!("{path}{query}")).await.expect(200);
        assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], period);
        let end = format!("2030-01-01T00:00:{period:02}Z");
        assert_eq!(marked["metadata"]["deletionTimestamp"], end);
        api.get(&path).await.expect(200);
    }
    api.post(PODS, &running_pod("done")).await.expect(201);
    let done = format!("{PODS}/done");
    api.patch(&format!("{done}/status"), &json!({"status": {"phase": "Succeeded"}})).await.expect(200);
    api.delete(&format!("{done}?gracePeriodSeconds=30")).await.expect(200);
    api.get(&done).await.refusal(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn del_9_pods_are_deleted_in_two_revisions() {
    let api = Api::start().await;
    let created = api.post(PODS, &pod("p")).await.expect(201);
    let mut watch = api.watch(PODS).await;
    let response = api.delete(P).await.expect(200);
    let events = watch.events();
    let types: Vec<&Value> = events.iter().map(|event| &event["type"]).collect();
    assert_eq!(types, ["MODIFIED", "DELETED"]);
    let [marked, gone] = [&events[0]["object"], &events[1]["object"]];
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2030-01-01T00:00:00Z");
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!((version(marked), version(gone)), (version(&created) + 1, version(&created) + 2));
    assert_eq!(gone["metadata"]["deletionTimestamp"], "2030-01-01T00:00:00Z");
    assert_eq!(&response, gone, "the response is the last state of the pod");
    api.post(PODS, &running_pod("p")).await.expect(201);
    assert_eq!(watch.types(), "ADDED");
    api.delete(P).await.expect(200);
    assert_eq!(watch.types(), "MODIFIED", "a kubelet would take it from here");
    api.delete(&format!("{P}?gracePeriodSeconds=0")).await.expect(200);
    assert_eq!(watch.types(), "MODIFIED DELETED");
}

#[tokio::test(start_paused = true)]
async fn del_10_a_second_delete_may_only_shorten() {
    let api = Api::start().await;
    api.post(PODS, &running_pod("p")).await.expect(201);
    let first = api.delete(P).await.expect(200);
    let mut watch = api.watch(PODS).await;
    tokio::time::advance(Duration::from_secs(2)).await;
    for query in ["", "?gracePeriodSeconds=30", "?gracePeriodSeconds=60"] {
        assert_eq!(api.delete(&format!("{P}{query}")).await.expect(200), first);
    }
    assert_eq!(watch.types(), "");
    let shorter = api.delete(&format!("{P}?gracePeriodSeconds=10")).await.expect(200);
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 10);
    assert_eq!(shorter["metadata"]["deletionTimestamp"], "2030-01-01T00:00:10Z", "counted from the first delete");
    assert_eq!(shorter["metadata"]["generation"], first["metadata"]["generation"]);
    tokio::time::advance(Duration::from_secs(6)).await;
    let late = api.delete(&format!("{P}?gracePeriodSeconds=3")).await.expect(200);
    assert_eq!(late["metadata"]["deletionTimestamp"], "2030-01-01T00:00:08Z", "never before now");
    assert_eq!(late["metadata"]["deletionGracePeriodSeconds"], 1);
    assert_eq!(watch.types(), "MODIFIED MODIFIED");
    api.delete(&format!("{P}?gracePeriodSeconds=0")).await.expect(200);
    let events = watch.events();
    assert_eq!((events.len(), &events[1]["type"]), (2, &json!("DELETED")));
    assert_eq!(events[0]["object"]["metadata"]["deletionGracePeriodSeconds"], 0);
}

#[tokio::test(start_paused = true)]
async fn del_10_a_negative_grace_period_is_the_shortest() {
    let api = Api::start().await;
    api.post(PODS, &running_pod("p")).await.expect(201);
    api.delete(P).await.expect(200);
    let shortened = api.delete(&format!("{P}?gracePeriodSeconds=-1")).await.expect(200);
    assert_eq!(shortened["metadata"]["deletionGracePeriodSeconds"], 1);
    api.get(P).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn del_11_policies_become_finalizers() {
    let builder = ApiServer::builder().env(TestEnv::new()).garbage_collector(ControllerTiming::Off);
    let api = Api::with(builder).await;
    for (name, policy, expected) in [("a", "Foreground", "foregroundDeletion"), ("b", "Orphan", "orphan")] {
        api.post(CONFIG_MAPS, &config_map(name)).await.expect(201);
        let path = format!("{CONFIG_MAPS}/{name}");
        let marked = api.delete(&format!("{path}?propagationPolicy={policy}")).await.expect(200);
        assert_eq!(finalizers(&marked), [expected]);
        for other in ["Foreground", "Orphan", "Background"] {
            let again = api.delete(&format!("{path}?propagationPolicy={other}")).await.expect(200);
            assert_eq!(finalizers(&again), [expected], "a second delete does not change the policy");
        }
    }
    let mut other = config_map("c");
    other["metadata"]["finalizers"] = json!(["orphan", "example.com/hold"]);
    api.post(CONFIG_MAPS, &other).await.expect(201);
    let marked = api.delete(&format!("{CONFIG_MAPS}/c?propagationPolicy=Foreground")).await.expect(200);
    assert_eq!(finalizers(&marked), ["example.com/hold", "foregroundDeletion"]);
    other["metadata"] = json!({"name": "d", "finalizers": ["orphan"]});
    api.post(CONFIG_MAPS, &other).await.expect(201);
    let mut watch = api.watch(CONFIG_MAPS).await;
    api.delete(&format!("{CONFIG_MAPS}/d?propagationPolicy=Background")).await.expect(200);
    let events = watch.events();
    assert_eq!((events.len(), &events[1]["type"]), (2, &json!("DELETED")));
    assert_eq!(finalizers(&events[0]["object"]), Vec::<&str>::new());
    let events = "/api/v1/namespaces/default/events";
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}});
    api.post(events, &event).await.expect(201);
    api.delete(&format!("{events}/e?propagationPolicy=Foreground")).await.expect(200);
    api.get(&format!("{events}/e")).await.refusal(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn del_12_the_default_propagation_policy() {
    let api = Api::start().await;
    for (name, finalizer) in [("a", "orphan"), ("b", "foregroundDeletion")] {
        let mut object = config_map(name);
        object["metadata"]["finalizers"] = json!([finalizer]);
        api.post(CONFIG_MAPS, &object).await.expect(201);
        let marked = api.delete(&format!("{CONFIG_MAPS}/{name}")).await.expect(200);
        assert_eq!(finalizers(&marked), [finalizer]);
    }
    api.post(JOBS, &job("j")).await.expect(201);
    let response = api.delete(&format!("{JOBS}/j")).await;
    assert_eq!(
        response.warnings(),
        ["299 - \"child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
          remove them or set propagationPolicy=Orphan to suppress this warning\""]
    );
    assert_eq!(finalizers(&response.expect(200)), ["orphan"]);
    for policy in ["Background", "Orphan"] {
        api.post(JOBS, &job("k")).await;
        let response = api.delete(&format!("{JOBS}/k?propagationPolicy={policy}")).await;
        assert_eq!((response.status, response.warnings()), (200, vec![]));
    }
    let controller = json!({"metadata": {"name": "r"}, "spec": {"selector": {"a": "b"}, "template": {
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "app"}]}}}});
    let controllers = "/api/v1/namespaces/default/replicationcontrollers";
    api.post(controllers, &controller).await.expect(201);
    let response = api.delete(&format!("{controllers}/r")).await;
    assert_eq!((response.warnings(), finalizers(&response.body)), (vec![], vec!["orphan"]));
}

#[tokio::test(start_paused = true)]
async fn del_13_del_14_collection_deletes() {
    let api = Api::start().await;
    for number in 0..6 {
        let mut object = config_map(&format!("c{number}"));
        object["metadata"]["labels"] = json!({"half": if number < 3 { "low" } else { "high" }});
        api.post(CONFIG_MAPS, &object).await.expect(201);
    }
    api.post(CONFIG_MAPS, &held_config_map("held")).await.expect(201);
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let mut watch = api.watch(CONFIG_MAPS).await;
    let tried = api.delete(&format!("{CONFIG_MAPS}?labelSelector=half=low&dryRun=All")).await.expect(200);
    assert_eq!(names(&tried), ["c0", "c1", "c2"]);
    assert_eq!(watch.types(), "");
    let deleted = api.delete(&format!("{CONFIG_MAPS}?labelSelector=half=low")).await.expect(200);
    assert_eq!((&deleted["kind"], names(&deleted)), (&json!("ConfigMapList"), names(&tried)));
    assert_eq!(watch.types(), "DELETED DELETED DELETED");
    let deleted = api.delete(&format!("{CONFIG_MAPS}?limit=2")).await.expect(200);
    assert_eq!(names(&deleted), ["c3", "c4"], "one page only");
    assert_eq!(names(&api.get(CONFIG_MAPS).await.expect(200)), ["c5", "held"]);
    api.delete_with(&format!("{CONFIG_MAPS}?fieldSelector=metadata.name=c5"), &json!({})).await.expect(200);
    let deleted = api.delete(CONFIG_MAPS).await.expect(200);
    assert_eq!(names(&deleted), ["held"]);
    let left = api.get(CONFIG_MAPS).await.expect(200);
    assert_eq!(names(&left), ["held"]);
    assert_eq!(left["items"][0]["metadata"]["deletionTimestamp"], "2030-01-01T00:00:00Z");
    assert_eq!(names(&api.delete(PODS).await.expect(200)), Vec::<String>::new());
    api.delete("/api/v1/configmaps").await.expect(405);
    let before = api.revision(CONFIG_MAPS).await;
    api.post(CONFIG_MAPS, &config_map("late")).await.expect(201);
    let deleted =
        api.delete(&format!("{CONFIG_MAPS}?resourceVersion={before}&resourceVersionMatch=Exact")).await.expect(200);
    assert_eq!(names(&deleted), ["held"], "the objects at that revision");
    api.delete(&format!("{CONFIG_MAPS}?resourceVersion=soon")).await.refusal(400, "BadRequest");
    let future = api.revision(CONFIG_MAPS).await + 1000;
    api.delete(&format!("{CONFIG_MAPS}?resourceVersion={future}")).await.refusal(504, "Timeout");
    api.delete(&format!("{CONFIG_MAPS}?continue=x")).await.refusal(400, "BadRequest");
    api.get(&format!("{CONFIG_MAPS}/late")).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn del_13_deleting_all_definitions_deletes_their_objects() {
    let api = Api::start().await;
    api.post(DEFINITIONS, &widgets()).await.expect(201);
    api.post(WIDGETS, &widget("w")).await.expect(201);
    api.delete(DEFINITIONS).await.expect(200);
    api.get(&format!("{DEFINITIONS}/widgets.example.com")).await.refusal(404, "NotFound");
    api.get(WIDGETS).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn del_7_a_definition_is_served_until_its_last_finalizer_is_removed() {
    let api = Api::start().await;
    let mut held = widgets();
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    api.post(DEFINITIONS, &held).await.expect(201);
    api.post(WIDGETS, &widget("w")).await.expect(201);
    let path = format!("{DEFINITIONS}/widgets.example.com");
    api.delete(&path).await.expect(200);
    assert_eq!(api.get(WIDGETS).await.expect(200)["items"], json!([]));
    api.post(WIDGETS, &widget("x")).await.refusal(403, "Forbidden");
    api.patch(&path, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    api.get(&path).await.refusal(404, "NotFound");
    api.get(WIDGETS).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn acc_8_an_eviction_is_atomic() {
    let api = Api::start().await;
    let created = api.post(PODS, &running_pod("p")).await.expect(201);
    let eviction = |options: Value| json!({"metadata": {"name": "p"}, "deleteOptions": options});
    let path = format!("{P}/eviction");
    api.post(&path, &eviction(json!({"preconditions": {"uid": "other"}}))).await.refusal(409, "Conflict");
    api.post(&path, &eviction(json!({"dryRun": ["All"]}))).await.expect(201);
    api.post(&format!("{path}?dryRun=All"), &eviction(json!({}))).await.expect(201);
    assert_eq!(api.get(P).await.expect(200), created);
    let version = &created["metadata"]["resourceVersion"];
    api.post(&path, &eviction(json!({"preconditions": {"resourceVersion": version}}))).await.expect(201);
    let evicted = api.get(P).await.expect(200);
    assert!(evicted["metadata"]["deletionTimestamp"].is_string());
    let conditions = evicted["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|condition| condition["reason"] == "EvictionByEvictionAPI"), "{conditions:?}");
}
