//! The life of namespaces.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use evenkeel_apiserver::{ApiServer, Builder, ControllerTiming};
use serde_json::{Value, json};

use crate::api::{Api, TestEnv, version};
use crate::*;

const N: &str = "/api/v1/namespaces/n";
const INSIDE: &str = "/api/v1/namespaces/n/configmaps";

fn paced(pace: ControllerTiming) -> Builder {
    let off = ControllerTiming::Off;
    ApiServer::builder().env(TestEnv::new()).namespace_controller(pace).service_account_controller(off)
}

fn condition<'a>(namespace: &'a Value, kind: &str) -> &'a Value {
    let conditions = namespace["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap()
}

#[tokio::test(start_paused = true)]
async fn ns_1_the_first_namespaces() {
    let api = Api::start().await;
    let list = api.get(NAMESPACES).await.expect(200);
    let names: Vec<&Value> = list["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
}

#[tokio::test(start_paused = true)]
async fn ns_2_a_new_namespace() {
    let api = Api::start().await;
    let mut sent = namespace("n");
    sent["status"] = json!({"phase": "Terminating"});
    let created = api.post(NAMESPACES, &sent).await.expect(201);
    assert_eq!(created["status"], json!({"phase": "Active"}));
    assert_eq!(created["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(created["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "n"}));
}

#[tokio::test(start_paused = true)]
async fn ns_3_only_creates_require_the_namespace() {
    let api = Api::start().await;
    let refused = api.post(INSIDE, &config_map("a")).await;
    assert_eq!(refused.refusal(404, "NotFound"), "namespaces \"n\" not found");
    assert_eq!(refused.body["details"], json!({"name": "n", "kind": "namespaces"}));
    let refused = api.put(&format!("{INSIDE}/a"), &config_map("a")).await;
    assert_eq!(refused.refusal(404, "NotFound"), "configmaps \"a\" not found");
    let refused = api.delete(&format!("{INSIDE}/a")).await;
    assert_eq!(refused.refusal(404, "NotFound"), "configmaps \"a\" not found");
    let mut elsewhere = lease("l", "me");
    elsewhere["metadata"]["namespace"] = "n".into();
    let refused = api.put("/apis/coordination.k8s.io/v1/namespaces/n/leases/l", &elsewhere).await;
    assert_eq!(refused.refusal(404, "NotFound"), "namespaces \"n\" not found");
}

#[tokio::test(start_paused = true)]
async fn ns_4_a_terminating_namespace_refuses_creates() {
    let api = Api::with(paced(ControllerTiming::Off)).await;
    api.post(NAMESPACES, &namespace("n")).await.expect(201);
    api.post(INSIDE, &config_map("old")).await.expect(201);
    api.delete(N).await.expect(200);
    let refused = api.post(INSIDE, &config_map("new")).await;
    assert_eq!(
        refused.refusal(403, "Forbidden"),
        "configmaps \"new\" is forbidden: unable to create new content in namespace n because it is being terminated"
    );
    assert_eq!(
        refused.body["details"]["causes"],
        json!([{"reason": "NamespaceTerminating", "message": "namespace n is being terminated",
                "field": "metadata.namespace"}])
    );
    let changed = api.patch(&format!("{INSIDE}/old"), &json!({"data": {"k": "w"}})).await.expect(200);
    assert_eq!(changed["data"]["k"], "w", "existing objects may change");
    api.delete(&format!("{INSIDE}/old")).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn ns_5_some_namespaces_cannot_be_deleted() {
    let api = Api::start().await;
    for name in ["default", "kube-system", "kube-public"] {
        let refused = api.delete(&format!("{NAMESPACES}/{name}")).await;
        let expected = format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
        assert_eq!(refused.refusal(403, "Forbidden"), expected);
        assert_eq!(api.get(&format!("{NAMESPACES}/{name}")).await.expect(200)["status"]["phase"], "Active");
    }
}

#[tokio::test(start_paused = true)]
async fn ns_6_ns_8_without_the_controller_a_client_finalizes() {
    let api = Api::with(paced(ControllerTiming::Off)).await;
    let created = api.post(NAMESPACES, &namespace("n")).await.expect(201);
    let mut watch = api.watch(NAMESPACES).await;
    let mut marked = api.delete(N).await.expect(200);
    assert_eq!(marked["status"]["phase"], "Terminating");
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2030-01-01T00:00:00Z");
    assert_eq!(version(&marked), version(&created) + 1);
    assert_eq!(watch.types(), "MODIFIED");
    assert_eq!(api.delete(N).await.expect(200), marked, "once is enough");
    let terminating = api.get(&format!("{NAMESPACES}?fieldSelector=status.phase=Terminating")).await.expect(200);
    assert_eq!(terminating["items"][0]["metadata"]["name"], "n");
    let active = api.get(&format!("{NAMESPACES}?fieldSelector=status.phase=Active")).await.expect(200);
    assert_eq!(active["items"].as_array().unwrap().len(), 4);
    tokio::time::sleep(Duration::from_secs(600)).await;
    marked["spec"]["finalizers"] = json!(["example.com/hold", "kubernetes"]);
    let mut marked = api.put(N, &marked).await.expect(200);
    assert_eq!(marked["spec"]["finalizers"], json!(["kubernetes"]), "only finalize changes them");
    assert_eq!(watch.types(), "MODIFIED", "the writer owns what it sent");
    let finalize = format!("{N}/finalize");
    marked["spec"]["finalizers"] = json!(["not a name"]);
    api.put(&finalize, &marked).await.refusal(422, "Invalid");
    marked["spec"]["finalizers"] = json!([]);
    api.put(&finalize, &marked).await.expect(200);
    assert_eq!(watch.types(), "DELETED");
    api.get(N).await.refusal(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn ns_6_both_kinds_of_finalizers_hold_a_namespace() {
    let api = Api::start().await;
    let mut held = namespace("n");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    api.post(NAMESPACES, &held).await.expect(201);
    api.delete(N).await.expect(200);
    let waiting = api.get(N).await.expect(200);
    assert_eq!(waiting["spec"]["finalizers"].as_array().map_or(0, Vec::len), 0, "its content is removed: {waiting}");
    api.patch(N, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    api.get(N).await.refusal(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn ns_7_a_namespace_is_removed_with_its_content() {
    let api = Api::start().await;
    api.post(NAMESPACES, &namespace("n")).await.expect(201);
    api.post(NAMESPACES, &namespace("n2")).await.expect(201);
    api.post(DEFINITIONS, &widgets()).await.expect(201);
    for (path, object) in [
        (CONFIG_MAPS, config_map("a")),
        (PODS, running_pod("p")),
        (DEPLOYMENTS, deployment("d")),
        (LEASES, lease("l", "me")),
        (WIDGETS, widget("w")),
    ] {
        for space in ["n", "n2"] {
            api.post(&path.replace("default", space), &object).await.expect(201);
        }
    }
    let mut pods = api.watch("/api/v1/namespaces/n/pods").await;
    let mut config_maps = api.watch(INSIDE).await;
    let mut namespaces = api.watch(NAMESPACES).await;
    let marked = api.delete(N).await.expect(200);
    assert_eq!(marked["status"]["phase"], "Terminating");
    assert_eq!(namespaces.types(), "MODIFIED DELETED");
    let (pods, config_maps) = (pods.events(), config_maps.events());
    assert_eq!(pods.last().unwrap()["type"], "DELETED");
    assert_eq!(config_maps.last().unwrap()["type"], "DELETED");
    let last = |events: &[Value]| version(&events.last().unwrap()["object"]);
    assert!(last(&pods) < last(&config_maps), "pods are deleted first");
    for path in [CONFIG_MAPS, PODS, DEPLOYMENTS, LEASES, WIDGETS] {
        let left = |space: &str| path.replace("default", space);
        assert_eq!(api.get(&left("n")).await.expect(200)["items"], json!([]));
        assert_eq!(api.get(&left("n2")).await.expect(200)["items"].as_array().unwrap().len(), 1, "others keep theirs");
    }
    api.get(N).await.refusal(404, "NotFound");
    api.post(NAMESPACES, &namespace("n")).await.expect(201);
    api.post(INSIDE, &config_map("a")).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn ns_7_conditions_report_what_holds_a_namespace() {
    let api = Api::start().await;
    api.post(NAMESPACES, &namespace("n")).await.expect(201);
    api.post(INSIDE, &held_config_map("a")).await.expect(201);
    api.post(INSIDE, &held_config_map("b")).await.expect(201);
    let mut held = pod("p");
    held["metadata"]["finalizers"] = json!(["example.com/pod"]);
    api.post("/api/v1/namespaces/n/pods", &held).await.expect(201);
    api.delete(N).await.expect(200);
    let waiting = api.get(N).await.expect(200);
    for fine in [
        "NamespaceDeletionDiscoveryFailure",
        "NamespaceDeletionGroupVersionParsingFailure",
        "NamespaceDeletionContentFailure",
    ] {
        assert_eq!(condition(&waiting, fine)["status"], "False");
    }
    let remaining = condition(&waiting, "NamespaceContentRemaining");
    assert_eq!((&remaining["status"], &remaining["reason"]), (&json!("True"), &json!("SomeResourcesRemain")));
    assert_eq!(remaining["message"], "Some resources are remaining: pods. has 1 resource instances");
    assert_eq!(
        condition(&waiting, "NamespaceFinalizersRemaining")["message"],
        "Some content in the namespace has finalizers remaining: example.com/pod in 1 resource instances"
    );
    let untouched = api.get(&format!("{INSIDE}/a")).await.expect(200);
    assert_eq!(untouched["metadata"].get("deletionTimestamp"), None, "the rest waits for the pods");
    let free = json!({"metadata": {"finalizers": null}});
    tokio::time::advance(Duration::from_secs(3)).await;
    api.patch("/api/v1/namespaces/n/pods/p", &free).await.expect(200);
    let waiting = api.get(N).await.expect(200);
    let remaining = condition(&waiting, "NamespaceContentRemaining");
    assert_eq!(remaining["message"], "Some resources are remaining: configmaps. has 2 resource instances");
    assert_eq!(remaining["lastTransitionTime"], "2030-01-01T00:00:00Z", "it has been true all along");
    api.patch(&format!("{INSIDE}/a"), &free).await.expect(200);
    assert_eq!(
        condition(&api.get(N).await.expect(200), "NamespaceFinalizersRemaining")["message"],
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    );
    api.patch(&format!("{INSIDE}/b"), &free).await.expect(200);
    api.get(N).await.refusal(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn ns_8_the_namespace_controller_may_be_delayed() {
    let api = Api::with(paced(ControllerTiming::Delayed(Duration::from_secs(10)))).await;
    api.post(NAMESPACES, &namespace("n")).await.expect(201);
    api.post(INSIDE, &config_map("a")).await.expect(201);
    api.post(INSIDE, &held_config_map("held")).await.expect(201);
    api.delete(N).await.expect(200);
    tokio::time::sleep(Duration::from_secs(9)).await;
    api.get(&format!("{INSIDE}/a")).await.expect(200);
    tokio::time::sleep(Duration::from_secs(3)).await;
    api.get(&format!("{INSIDE}/a")).await.refusal(404, "NotFound");
    assert_eq!(condition(&api.get(N).await.expect(200), "NamespaceContentRemaining")["status"], "True");
    api.patch(&format!("{INSIDE}/held"), &json!({"metadata": {"finalizers": null}})).await.expect(200);
    tokio::time::sleep(Duration::from_secs(9)).await;
    api.get(N).await.expect(200);
    tokio::time::sleep(Duration::from_secs(3)).await;
    api.get(N).await.refusal(404, "NotFound");
}

/// Deletes a namespace while tasks create objects in it: when it is removed, so are all its objects.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ns_7_no_object_outlives_its_namespace() {
    let api = Api::start().await;
    for _ in 0..30 {
        api.post(NAMESPACES, &namespace("n")).await.expect(201);
        let creators = (0..4).map(|task| {
            let handle = api.handle();
            tokio::spawn(async move {
                for number in 0..1000 {
                    let object = config_map(&format!("c{task}-{number}")).to_string();
                    let response = handle.send("POST", INSIDE, &[], object).await;
                    if response.status != 201 {
                        assert!(matches!(response.status, 403 | 404), "{}", response.text);
                        break;
                    }
                }
            })
        });
        let creators: Vec<_> = creators.collect();
        while api.get(INSIDE).await.expect(200)["items"].as_array().unwrap().len() < 5 {
            tokio::task::yield_now().await;
        }
        api.delete(N).await.expect(200);
        for creator in creators {
            creator.await.unwrap();
        }
        assert_eq!(api.get(INSIDE).await.expect(200)["items"], json!([]));
        api.get(N).await.refusal(404, "NotFound");
    }
}

/// Concurrent deletes in a terminating namespace each try to remove it; none waits for objects that another one removes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ns_7_concurrent_deletes_empty_a_namespace() {
    let api = Api::start().await;
    let pods = "/api/v1/namespaces/n/pods";
    for _ in 0..30 {
        api.post(NAMESPACES, &namespace("n")).await.expect(201);
        for number in 0..20 {
            api.post(pods, &running_pod(&format!("p{number}"))).await.expect(201);
        }
        let deleters = (0..4).map(|task| {
            let handle = api.handle();
            tokio::spawn(async move {
                for number in (task..20).step_by(4) {
                    let options = json!({"gracePeriodSeconds": 0}).to_string();
                    handle.send("DELETE", &format!("{pods}/p{number}"), &[], options).await;
                }
            })
        });
        let deleters: Vec<_> = deleters.collect();
        api.delete(N).await.expect(200);
        for deleter in deleters {
            deleter.await.unwrap();
        }
        api.get(N).await.refusal(404, "NotFound");
    }
}

#[tokio::test(start_paused = true)]
async fn ns_8_a_restored_terminating_namespace_is_finalized() {
    let api = Api::with(paced(ControllerTiming::Delayed(Duration::from_secs(10)))).await;
    api.post(NAMESPACES, &namespace("n")).await.expect(201);
    api.post(INSIDE, &config_map("a")).await.expect(201);
    api.delete(N).await.expect(200);
    let terminating = api.server.snapshot();
    tokio::time::sleep(Duration::from_secs(12)).await;
    api.get(N).await.refusal(404, "NotFound");
    api.server.restore(&terminating);
    api.get(&format!("{INSIDE}/a")).await.expect(200);
    let fork = Api::with(paced(ControllerTiming::Delayed(Duration::from_secs(10))).snapshot(terminating)).await;
    tokio::time::sleep(Duration::from_secs(12)).await;
    api.get(N).await.refusal(404, "NotFound");
    fork.get(N).await.refusal(404, "NotFound");
}

/// Creates a namespace with this many objects.
async fn filled_namespace(objects: usize) -> Api {
    let api = Api::start().await;
    api.post(NAMESPACES, &namespace("n")).await.expect(201);
    for number in 0..objects {
        api.post(INSIDE, &config_map(&format!("c{number}"))).await.expect(201);
    }
    api
}

/// On a runtime with one thread, too: a step deletes a thousand objects.
#[tokio::test(start_paused = true)]
async fn ns_7_other_requests_run_while_a_large_namespace_is_emptied() {
    let api = filled_namespace(2100).await;
    let mut deletion = pin!(api.delete(N));
    let mut answered = 0;
    let response = loop {
        tokio::select! {
            biased;
            response = &mut deletion => break response,
            version = api.get("/version") => {
                version.expect(200);
                answered += 1;
            }
        }
    };
    response.expect(200);
    assert_eq!(answered, 2, "one after each step but the last");
    api.get(N).await.refusal(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn ns_7_a_namespace_is_emptied_even_if_its_client_leaves() {
    let api = filled_namespace(1100).await;
    {
        let mut deletion = pin!(api.delete(N));
        let is_pending = poll_fn(|cx| Poll::Ready(deletion.as_mut().poll(cx).is_pending())).await;
        assert!(is_pending, "a part of the objects is left");
    }
    assert_eq!(api.get(INSIDE).await.expect(200)["items"].as_array().unwrap().len(), 100);
    tokio::time::sleep(Duration::from_secs(2)).await;
    api.get(N).await.refusal(404, "NotFound");
}
