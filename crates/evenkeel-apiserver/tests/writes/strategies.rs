//! What the strategies of built-in kinds do: metadata through `status`, defaults, and fields that the server sets.

use std::time::Duration;

use evenkeel_apiserver::{ApiServer, ControllerTiming};
use serde_json::{Value, json};

use crate::api::{Api, MERGE, TestEnv, version};
use crate::{
    CONFIG_MAPS, DEFINITIONS, DEPLOYMENTS, NAMESPACES, PODS, WIDGETS, deployment, namespace, pod, widget, widgets,
};

const NODES: &str = "/api/v1/nodes";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";

fn of_kind(api_version: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn node(name: &str) -> Value {
    of_kind("v1", "Node", name, json!({}))
}

/// The metadata that a test writes through `status`.
fn metadata() -> Value {
    json!({"labels": {"l": "1"}, "annotations": {"a": "1"}, "finalizers": ["example.com/f"],
           "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "u"}]})
}

/// Returns which of the fields of [`metadata`] an object has. Objects have labels and finalizers of their own.
fn written(object: &Value) -> Vec<&str> {
    let (has, all) = (&object["metadata"], metadata());
    let is_written = |key: &&str| match &all[*key] {
        Value::Array(items) => has[*key].as_array().is_some_and(|has| items.iter().all(|item| has.contains(item))),
        fields => fields.as_object().unwrap().iter().all(|(name, value)| has[*key].get(name) == Some(value)),
    };
    ["labels", "annotations", "finalizers", "ownerReferences"].into_iter().filter(is_written).collect()
}

#[tokio::test]
async fn sub_3_writes_of_status_change_the_metadata_that_the_kind_allows() {
    // The owner does not exist.
    let builder = ApiServer::builder().env(TestEnv::new()).garbage_collector(ControllerTiming::Off);
    let api = Api::with(builder).await;
    let all = &["labels", "annotations", "finalizers", "ownerReferences"][..];
    let service = of_kind("v1", "Service", "s", json!({"ports": [{"port": 80}]}));
    let attachment = of_kind(
        "storage.k8s.io/v1",
        "VolumeAttachment",
        "v",
        json!({"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}}),
    );
    let claim = of_kind("resource.k8s.io/v1", "ResourceClaim", "c", json!({}));
    let cases = [
        (DEPLOYMENTS, deployment("d"), &all[1..]),
        (PODS, pod("p"), &all[..3]),
        (NODES, node("n"), all),
        ("/api/v1/namespaces/default/services", service, all),
        (NAMESPACES, namespace("ns"), all),
        ("/apis/storage.k8s.io/v1/volumeattachments", attachment, &[]),
        (CLAIMS, claim, &[]),
    ];
    for (path, object, expected) in cases {
        let created = api.post(path, &object).await.expect(201);
        let one = format!("{path}/{}", created["metadata"]["name"].as_str().unwrap());
        assert!(!written(&created).contains(&"finalizers"), "{created}");
        let patched = api.patch(&format!("{one}/status"), &json!({"metadata": metadata()})).await.expect(200);
        assert_eq!(written(&patched), expected, "PATCH {path}");
        assert_eq!(patched["metadata"]["generation"], created["metadata"]["generation"], "{path}");
        assert_eq!(api.get(&one).await.expect(200), patched);

        // A PUT without them removes what a PATCH may add.
        let mut sent = patched.clone();
        for key in all {
            sent["metadata"].as_object_mut().unwrap().remove(*key);
        }
        let replaced = api.put(&format!("{one}/status"), &sent).await.expect(200);
        assert_eq!(written(&replaced), &[""; 0], "PUT {path}");
    }
}

#[tokio::test]
async fn sub_3_status_of_a_custom_resource_leaves_its_metadata() {
    let api = Api::start().await;
    api.post(DEFINITIONS, &widgets()).await.expect(201);
    api.post(WIDGETS, &widget("w")).await.expect(201);
    let patch = json!({"metadata": metadata(), "status": {"ready": true}});
    let patched = api.patch(&format!("{WIDGETS}/w/status"), &patch).await.expect(200);
    assert_eq!(written(&patched), &[""; 0]);
    assert_eq!(patched["status"]["ready"], true);
}

#[tokio::test]
async fn sub_3_an_apply_to_status_writes_and_owns_annotations_of_a_deployment() {
    let api = Api::start().await;
    api.post(DEPLOYMENTS, &deployment("d")).await.expect(201);
    let intent = json!({"apiVersion": "apps/v1", "kind": "Deployment",
                        "metadata": {"name": "d", "annotations": {"a": "1"}, "labels": {"l": "1"}},
                        "status": {"observedGeneration": 1}});
    let path = format!("{DEPLOYMENTS}/d/status?fieldManager=m");
    let applied = api.apply(&path, &intent).await.expect(200);
    assert_eq!(written(&applied), ["annotations"]);
    let entries = applied["metadata"]["managedFields"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["manager"] == "m").unwrap();
    assert_eq!(
        entry["fieldsV1"],
        json!({"f:metadata": {"f:annotations": {"f:a": {}}}, "f:status": {"f:observedGeneration": {}}})
    );
}

#[tokio::test]
async fn sub_3_a_finalizer_that_status_removes_completes_a_deletion() {
    let api = Api::start().await;
    let mut held = node("n");
    held["metadata"]["finalizers"] = json!(["example.com/f"]);
    api.post(NODES, &held).await.expect(201);
    api.delete(&format!("{NODES}/n")).await.expect(200);
    api.patch(&format!("{NODES}/n/status"), &json!({"metadata": {"finalizers": null}})).await.expect(200);
    api.get(&format!("{NODES}/n")).await.expect(404);
}

#[tokio::test]
async fn sub_2_a_new_node_keeps_its_status_and_gets_its_zero_values() {
    let api = Api::start().await;
    let mut sent = node("n");
    sent["status"] = json!({"capacity": {"cpu": "4"}, "nodeInfo": {"kubeletVersion": "v1.37.0"}});
    let created = api.post(NODES, &sent).await.expect(201);
    assert_eq!(created["status"]["capacity"], json!({"cpu": "4"}));
    assert_eq!(created["status"]["allocatable"], json!({"cpu": "4"}));
    assert_eq!(created["status"]["nodeInfo"]["kubeletVersion"], "v1.37.0");
    assert_eq!(created["status"]["nodeInfo"]["architecture"], "");
    assert_eq!(created["status"]["daemonEndpoints"], json!({"kubeletEndpoint": {"Port": 0}}));
    assert_eq!(api.get(&format!("{NODES}/n")).await.expect(200), created);
    let bare = api.post(NODES, &node("bare")).await.expect(201);
    assert_eq!(bare["status"]["daemonEndpoints"], json!({"kubeletEndpoint": {"Port": 0}}));
    assert_eq!(bare["status"]["nodeInfo"]["osImage"], "");
    let mut pod = pod("p");
    pod["status"] = json!({"phase": "Running"});
    assert_eq!(api.post(PODS, &pod).await.expect(201)["status"]["phase"], "Pending", "other kinds do not");
}

#[tokio::test]
async fn obj_14_a_job_without_labels_has_those_of_its_template() {
    let api = Api::start().await;
    let job = |name: &str, labels: Value| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels},
               "spec": {"template": {"metadata": {"labels": {"app": "x"}},
                                     "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}})
    };
    let bare = api.post(JOBS, &job("bare", json!({}))).await.expect(201);
    let labels = &bare["spec"]["template"]["metadata"]["labels"];
    assert_eq!(labels["batch.kubernetes.io/job-name"], "bare");
    assert_eq!(&bare["metadata"]["labels"], labels);
    let labelled = api.post(JOBS, &job("labelled", json!({"app": "x"}))).await.expect(201);
    assert_eq!(labelled["metadata"]["labels"], json!({"app": "x"}), "its own labels are kept as they are");
    let unlabelled = api.patch(&format!("{JOBS}/labelled"), &json!({"metadata": {"labels": null}})).await.expect(200);
    assert_eq!(unlabelled["metadata"]["labels"], unlabelled["spec"]["template"]["metadata"]["labels"]);
}

#[tokio::test]
async fn obj_14_an_annotation_counts_the_templates_of_a_daemon_set() {
    let api = Api::start().await;
    let generation = |set: &Value| {
        let counted = &set["metadata"]["annotations"]["deprecated.daemonset.template.generation"];
        (counted.as_str().unwrap().to_owned(), set["metadata"]["generation"].as_i64().unwrap())
    };
    let mut sent = deployment("d");
    sent["kind"] = "DaemonSet".into();
    let created = api.post(DAEMON_SETS, &sent).await.expect(201);
    assert_eq!(generation(&created), ("1".to_owned(), 1));
    let one = format!("{DAEMON_SETS}/d");
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "other"}]}}}});
    assert_eq!(generation(&api.patch(&one, &image).await.expect(200)), ("2".to_owned(), 2));
    let seconds = json!({"spec": {"minReadySeconds": 5}, "metadata": {"annotations": null}});
    assert_eq!(generation(&api.patch(&one, &seconds).await.expect(200)), ("2".to_owned(), 3), "not of the template");
    let status = json!({"metadata": {"annotations": null}, "status": {"numberReady": 1}});
    assert_eq!(generation(&api.patch(&format!("{one}/status"), &status).await.expect(200)), ("2".to_owned(), 3));
    sent["metadata"] = json!({"name": "e", "annotations": {"deprecated.daemonset.template.generation": "x"}});
    let refused = api.post(DAEMON_SETS, &sent).await;
    assert!(refused.refusal(400, "BadRequest").contains("strconv.ParseInt: parsing \"x\": invalid syntax"));
}

#[tokio::test]
async fn obj_14_defaults_of_stateful_sets_drivers_api_services_and_claims() {
    let api = Api::start().await;
    let mut sent = deployment("s");
    sent["kind"] = "StatefulSet".into();
    let set = api.post(STATEFUL_SETS, &sent).await.expect(201);
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}});
    assert_eq!(set["spec"]["updateStrategy"], strategy);

    let driver = of_kind("storage.k8s.io/v1", "CSIDriver", "d", json!({}));
    let driver = api.post("/apis/storage.k8s.io/v1/csidrivers", &driver).await.expect(201);
    assert_eq!(
        driver["spec"],
        json!({"attachRequired": true, "fsGroupPolicy": "ReadWriteOnceWithFSType", "podInfoOnMount": false,
               "preventPodSchedulingIfMissing": false, "requiresRepublish": false, "seLinuxMount": false,
               "storageCapacity": false, "volumeLifecycleModes": ["Persistent"]})
    );

    let spec = json!({"group": "a.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1,
                      "service": {"namespace": "default", "name": "s"}});
    let service = of_kind("apiregistration.k8s.io/v1", "APIService", "v1.a.example.com", spec);
    let service = api.post("/apis/apiregistration.k8s.io/v1/apiservices", &service).await.expect(201);
    assert_eq!(service["spec"]["service"], json!({"namespace": "default", "name": "s", "port": 443}));

    let requests = json!([
        {"name": "a", "exactly": {"deviceClassName": "c"}},
        {"name": "b", "exactly": {"deviceClassName": "c", "allocationMode": "All"}},
        {"name": "c", "firstAvailable": [{"name": "d", "deviceClassName": "c"}]}]);
    let claim = of_kind("resource.k8s.io/v1", "ResourceClaim", "c", json!({"devices": {"requests": requests}}));
    let claim = api.post(CLAIMS, &claim).await.expect(201);
    assert_eq!(
        claim["spec"]["devices"]["requests"],
        json!([
            {"name": "a", "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}},
            {"name": "b", "exactly": {"deviceClassName": "c", "allocationMode": "All"}},
            {"name": "c", "firstAvailable": [{"name": "d", "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}]}])
    );
}

#[tokio::test(start_paused = true)]
async fn obj_14_a_volume_records_when_its_phase_changes() {
    let api = Api::start().await;
    let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp"}});
    let created = api.post(VOLUMES, &of_kind("v1", "PersistentVolume", "v", spec)).await.expect(201);
    let (start, later) = ("2030-01-01T00:00:00Z", "2030-01-01T00:01:00Z");
    assert_eq!(created["status"], json!({"phase": "Pending", "lastPhaseTransitionTime": start}));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let status = format!("{VOLUMES}/v/status");
    let same = api.patch(&status, &json!({"status": {"message": "m"}})).await.expect(200);
    assert_eq!(same["status"]["lastPhaseTransitionTime"], start);
    let bound = api.patch(&status, &json!({"status": {"phase": "Available"}})).await.expect(200);
    assert_eq!(bound["status"]["lastPhaseTransitionTime"], later);
    let own = json!({"status": {"phase": "Bound", "lastPhaseTransitionTime": "2031-01-01T00:00:00Z"}});
    assert_eq!(api.patch(&status, &own).await.expect(200)["status"]["lastPhaseTransitionTime"], "2031-01-01T00:00:00Z");
}

#[tokio::test]
async fn pat_4_labels_that_are_a_string_are_refused() {
    let api = Api::start().await;
    let created = api.post(CONFIG_MAPS, &crate::config_map("a")).await.expect(201);
    let (one, patch) = (format!("{CONFIG_MAPS}/a"), json!({"metadata": {"labels": "x"}}));
    let merged = api.send("PATCH", &one, &[("content-type", MERGE)], patch.to_string()).await;
    let message = merged.refusal(422, "Invalid");
    assert!(message.starts_with(" \"\" is invalid: patch: Invalid value: \"{"), "{message}");
    assert!(
        message.ends_with(
            "json: cannot unmarshal string into Go struct field ObjectMeta.metadata.labels of type map[string]string"
        ),
        "{message}"
    );
    let strategic = api.strategic(&one, &patch).await;
    assert_eq!(
        strategic.refusal(422, "Invalid"),
        " \"\" is invalid: patch: Invalid value: \"map[metadata:map[labels:x]]\": cannot restore map from string"
    );
    assert_eq!(version(&api.get(&one).await.expect(200)), version(&created));
}

#[tokio::test]
async fn url_9_a_name_with_an_encoded_slash_is_no_resource() {
    let api = Api::start().await;
    for path in [format!("{CONFIG_MAPS}/a%2Fb"), format!("{NODES}/a%2fb"), format!("{PODS}/a%2Fb/status")] {
        let refused = api.get(&path).await;
        assert_eq!(refused.refusal(404, "NotFound"), "the server could not find the requested resource", "{path}");
    }
}
