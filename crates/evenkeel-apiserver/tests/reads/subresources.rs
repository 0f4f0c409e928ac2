//! Sub-resources and generations.

use serde_json::{Value, json};

use crate::api::{
    Api, CONFIG_MAPS, DEFINITIONS, PODS, WIDGETS, config_map, generation, name, pod, version, widget, widget_definition,
};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}})
}

fn deployment(name: &str) -> Value {
    json!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": name},
           "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template()}})
}

#[tokio::test(start_paused = true)]
async fn sub_1_a_status_can_be_read_put_and_patched_and_nothing_else() {
    let api = Api::start().await;
    let created = api.post(DEPLOYMENTS, deployment("web")).await.ok();
    let path = format!("{DEPLOYMENTS}/web/status");
    assert_eq!(name(&api.get(&path).await.ok()), "web");
    let mut status = created;
    status["status"] = json!({"replicas": 2});
    assert_eq!(api.put(&path, status).await.ok()["status"]["replicas"], 2);
    assert_eq!(api.patch(&path, json!({"status": {"replicas": 1}})).await.ok()["status"]["replicas"], 1);
    assert_eq!(api.post(&path, json!({})).await.code, 405);
    assert_eq!(api.delete(&path).await.code, 405);
    api.add("a", json!({})).await;
    assert_eq!(api.get(&format!("{CONFIG_MAPS}/a/status")).await.code, 404, "a kind without a status has none");
}

#[tokio::test(start_paused = true)]
async fn sub_2_the_main_endpoint_does_not_write_the_status() {
    let api = Api::start().await;
    let mut sent = deployment("web");
    sent["status"] = json!({"replicas": 9});
    let created = api.post(DEPLOYMENTS, sent).await.ok();
    assert_eq!(created["status"], json!({}), "cleared on create");
    let path = format!("{DEPLOYMENTS}/web");
    api.patch(&format!("{path}/status"), json!({"status": {"replicas": 2}})).await.ok();
    let patched = api.patch(&path, json!({"status": {"replicas": 7}, "spec": {"replicas": 3}})).await.ok();
    assert_eq!((&patched["status"]["replicas"], &patched["spec"]["replicas"]), (&json!(2), &json!(3)));
    let mut put = patched;
    put["status"] = json!({"replicas": 8});
    assert_eq!(api.put(&path, put).await.ok()["status"]["replicas"], 2);
}

#[tokio::test(start_paused = true)]
async fn sub_2_custom_resources_have_a_status_of_its_own_only_if_declared() {
    let api = Api::start().await;
    let mut definition = widget_definition();
    definition["spec"]["versions"][1].as_object_mut().unwrap().remove("subresources");
    api.post(DEFINITIONS, definition).await.ok();
    let mut sent = widget("w", json!({"color": "red"}));
    sent["status"] = json!({"phase": "sent"});
    assert_eq!(api.post(WIDGETS, sent).await.ok().get("status"), None);
    api.patch(&format!("{WIDGETS}/w"), json!({"status": {"phase": "patched"}})).await.ok();
    assert_eq!(api.get(&format!("{WIDGETS}/w")).await.ok().get("status"), None);
    let other = "/apis/example.com/v2/namespaces/default/widgets/w";
    let patched = api.patch(other, json!({"status": {"phase": "patched"}})).await.ok();
    assert_eq!(patched["status"]["phase"], "patched", "without the subresource the status is a field like others");
    assert_eq!(api.get(&format!("{other}/status")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn sub_3_a_status_write_changes_the_status_alone() {
    let api = Api::start().await;
    api.post(DEFINITIONS, widget_definition()).await.ok();
    api.post(WIDGETS, widget("w", json!({"color": "red"}))).await.ok();
    api.post(DEPLOYMENTS, deployment("web")).await.ok();
    let change = json!({"metadata": {"labels": {"l": "x"}, "annotations": {"a": "x"}, "finalizers": ["example.com/f"]},
                        "spec": {"color": "blue", "replicas": 7}, "status": {"replicas": 1}});
    let written = api.patch(&format!("{WIDGETS}/w/status"), change.clone()).await.ok();
    assert_eq!((&written["spec"], &written["status"]), (&json!({"color": "red"}), &json!({"replicas": 1})));
    for key in ["labels", "annotations", "finalizers"] {
        assert_eq!(written["metadata"].get(key), None, "{key}");
    }
    assert_eq!(written["metadata"]["managedFields"][1]["subresource"], "status");
    let written = api.patch(&format!("{DEPLOYMENTS}/web/status"), change).await.ok();
    assert_eq!((&written["spec"]["replicas"], &written["status"]["replicas"]), (&json!(2), &json!(1)));
    assert_eq!(written["metadata"].get("labels"), None);
    assert_eq!(generation(&written), Some(1));
}

#[tokio::test(start_paused = true)]
async fn sub_4_status_writes_are_checked_like_others_and_create_nothing() {
    let api = Api::start().await;
    let created = api.post(DEPLOYMENTS, deployment("web")).await.ok();
    let path = format!("{DEPLOYMENTS}/web/status");
    api.patch(&path, json!({"status": {"replicas": 1}})).await.ok();
    let stale = api.put(&path, created.clone()).await;
    assert_eq!((stale.code, &stale.body["reason"]), (409, &json!("Conflict")));
    let other = api.patch(&path, json!({"metadata": {"uid": "someone-else"}, "status": {"replicas": 2}})).await;
    assert_eq!(other.code, 422, "{}", other.body);
    let mut absent = created;
    absent["metadata"]["name"] = "absent".into();
    let response = api.put(&format!("{DEPLOYMENTS}/absent/status"), absent).await;
    assert_eq!(response.refused(404), "deployments.apps \"absent\" not found");
    assert_eq!(api.patch(&format!("{DEPLOYMENTS}/absent/status"), json!({"status": {}})).await.code, 404);
    assert_eq!(api.get(&format!("{DEPLOYMENTS}/absent")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn sub_5_a_subresource_write_without_finalizers_completes_the_deletion() {
    let api = Api::with(|builder| builder.namespace_controller(evenkeel_apiserver::ControllerTiming::Off)).await;
    // A status write does not complete a deletion that a finalizer holds.
    let mut held = deployment("held");
    held["metadata"]["finalizers"] = json!(["example.com/f"]);
    api.post(DEPLOYMENTS, held).await.ok();
    api.delete(&format!("{DEPLOYMENTS}/held")).await.ok();
    api.patch(&format!("{DEPLOYMENTS}/held/status"), json!({"status": {"replicas": 1}})).await.ok();
    assert_eq!(api.get(&format!("{DEPLOYMENTS}/held")).await.code, 200);
    // A deleted namespace waits for its specification's finalizers, which a subresource removes.
    api.add_namespace("gone").await;
    api.delete("/api/v1/namespaces/gone").await.ok();
    let mut namespace = api.get("/api/v1/namespaces/gone").await.ok();
    assert_eq!(namespace["status"]["phase"], "Terminating");
    namespace["spec"]["finalizers"] = json!([]);
    api.put("/api/v1/namespaces/gone/finalize", namespace).await.ok();
    assert_eq!(api.get("/api/v1/namespaces/gone").await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn sub_6_every_scalable_kind_has_a_scale() {
    let api = Api::start().await;
    let set = json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template(),
                     "serviceName": "s"});
    let mut replica_set = set.clone();
    replica_set.as_object_mut().unwrap().remove("serviceName");
    let controller = json!({"replicas": 2, "selector": {"app": "web"}, "template": template()});
    for (collection, kind, api_version, spec) in [
        (DEPLOYMENTS, "Deployment", "apps/v1", replica_set.clone()),
        ("/apis/apps/v1/namespaces/default/replicasets", "ReplicaSet", "apps/v1", replica_set),
        ("/apis/apps/v1/namespaces/default/statefulsets", "StatefulSet", "apps/v1", set),
        ("/api/v1/namespaces/default/replicationcontrollers", "ReplicationController", "v1", controller),
    ] {
        let object = json!({"kind": kind, "apiVersion": api_version, "metadata": {"name": "x"}, "spec": spec});
        let created = api.post(collection, object).await.ok();
        let path = format!("{collection}/x/scale");
        let scale = api.get(&path).await.ok();
        let mut metadata = serde_json::Map::new();
        for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            metadata.insert(key.into(), created["metadata"][key].clone());
        }
        assert_eq!(
            scale,
            json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
                   "spec": {"replicas": 2}, "status": {"replicas": 0, "selector": "app=web"}}),
            "{kind}"
        );
        let mut wanted = scale.clone();
        wanted["spec"]["replicas"] = 5.into();
        let scaled = api.put(&path, wanted.clone()).await.ok();
        assert_eq!((&scaled["kind"], &scaled["spec"]["replicas"]), (&json!("Scale"), &json!(5)));
        let object = api.get(&format!("{collection}/x")).await.ok();
        assert_eq!((&object["spec"]["replicas"], generation(&object)), (&json!(5), Some(2)), "{kind}");
        assert_eq!(version(&object), version(&scaled));
        wanted["spec"]["replicas"] = 6.into();
        let stale = api.put(&path, wanted).await;
        assert_eq!((stale.code, &stale.body["reason"]), (409, &json!("Conflict")), "the version is the parent's");
        assert_eq!(api.patch(&path, json!({"spec": {"replicas": 0}})).await.ok()["spec"]["replicas"], 0);
        let negative = api.patch(&path, json!({"spec": {"replicas": -1}})).await;
        assert_eq!(negative.body["details"]["causes"][0]["field"], "spec.replicas", "{kind}: {}", negative.body);
        negative.refused(422);
    }
    let path = format!("{DEPLOYMENTS}/x/scale");
    assert_eq!(
        api.put(&path, deployment("x")).await.refused(400),
        "Deployment in version \"v1\" cannot be handled as a Scale: converting (v1.Deployment) to (autoscaling.Scale): \
         unknown conversion"
    );
    let elsewhere = json!({"metadata": {"name": "x", "namespace": "other"}, "spec": {"replicas": 1}});
    api.put(&path, elsewhere).await.refused(400);
    let absent = api.get(&format!("{DEPLOYMENTS}/absent/scale")).await;
    assert_eq!(absent.refused(404), "deployments.apps \"absent\" not found");
}

#[tokio::test(start_paused = true)]
async fn sub_7_custom_resources_scale_by_the_paths_of_their_definition() {
    let api = Api::start().await;
    api.post(DEFINITIONS, widget_definition()).await.ok();
    api.post(WIDGETS, widget("w", json!({"replicas": 3}))).await.ok();
    let path = format!("{WIDGETS}/w/scale");
    let scale = api.get(&path).await.ok();
    assert_eq!((&scale["spec"], &scale["status"]), (&json!({"replicas": 3}), &json!({"replicas": 0})));
    let status = json!({"status": {"replicas": 2, "selector": "app=web"}});
    api.patch(&format!("{WIDGETS}/w/status"), status).await.ok();
    let mut scale = api.get(&path).await.ok();
    assert_eq!(scale["status"], json!({"replicas": 2, "selector": "app=web"}));
    scale["spec"]["replicas"] = 4.into();
    assert_eq!(api.put(&path, scale.clone()).await.ok()["spec"]["replicas"], 4);
    let stored = api.get(&format!("{WIDGETS}/w")).await.ok();
    assert_eq!((&stored["spec"]["replicas"], generation(&stored)), (&json!(4), Some(2)));
    api.post(WIDGETS, widget("bare", json!({}))).await.ok();
    let missing = api.get(&format!("{WIDGETS}/bare/scale")).await;
    assert_eq!(missing.body["reason"], "InternalError");
    assert_eq!(
        missing.refused(500),
        "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist"
    );
    let empty = json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "w"}, "spec": {}});
    let refused = api.put(&path, empty).await.refused(400);
    assert_eq!(refused, "the spec replicas field \".spec.replicas\" cannot be empty");
}

#[tokio::test(start_paused = true)]
async fn sub_8_discovery_lists_the_other_sub_resources() {
    let api = Api::start().await;
    let served = async |path: &str| -> Vec<String> {
        let list = api.get(path).await.ok();
        let names = list["resources"].as_array().unwrap().iter().map(|resource| resource["name"].as_str().unwrap());
        names.filter(|name| name.contains('/')).map(str::to_owned).collect()
    };
    let core = served("/api/v1").await;
    for name in [
        "pods/binding",
        "pods/eviction",
        "pods/log",
        "pods/exec",
        "pods/attach",
        "pods/portforward",
        "pods/proxy",
        "pods/ephemeralcontainers",
        "pods/resize",
        "pods/status",
        "services/proxy",
        "nodes/proxy",
        "namespaces/status",
        "namespaces/finalize",
        "serviceaccounts/token",
    ] {
        assert!(core.iter().any(|served| served == name), "{name}: {core:?}");
    }
    assert!(served("/apis/apps/v1").await.contains(&"deployments/scale".to_owned()));
    assert!(served("/apis/certificates.k8s.io/v1").await.contains(&"certificatesigningrequests/approval".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn sub_8_approval_writes_the_conditions_of_a_signing_request() {
    let api = Api::start().await;
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let request = json!({"kind": "CertificateSigningRequest", "apiVersion": "certificates.k8s.io/v1",
        "metadata": {"name": "r"}, "spec": {"request": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K",
        "signerName": "example.com/s", "usages": ["client auth"]}});
    let mut created = api.post(requests, request).await.ok();
    let approved = json!([{"type": "Approved", "status": "True", "reason": "Test"}]);
    created["status"] = json!({"conditions": approved, "certificate": "LS0tLS0K"});
    let response = api.put(&format!("{requests}/r/approval"), created).await.ok();
    assert_eq!(response["status"]["conditions"][0]["type"], "Approved");
    assert_eq!(response["status"].get("certificate"), None, "only the status endpoint writes it");
}

#[tokio::test(start_paused = true)]
async fn sub_9_generations_count_changes_of_the_specification() {
    let api = Api::start().await;
    let networking = "/apis/networking.k8s.io/v1/namespaces/default";
    let batch = "/apis/batch/v1/namespaces/default";
    let job = {
        let mut template = template();
        template["spec"]["restartPolicy"] = "Never".into();
        json!({"template": template})
    };
    let apps = |kind: &str| {
        json!({"kind": kind, "apiVersion": "apps/v1", "metadata": {"name": "x"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template(), "serviceName": "s"}})
    };
    let mut daemon_set = apps("DaemonSet");
    daemon_set["spec"].as_object_mut().unwrap().remove("serviceName");
    let mut replica_set = daemon_set.clone();
    replica_set["kind"] = "ReplicaSet".into();
    for (collection, object, change) in [
        (DEPLOYMENTS.to_owned(), deployment("x"), json!({"spec": {"replicas": 9}})),
        ("/apis/apps/v1/namespaces/default/replicasets".into(), replica_set, json!({"spec": {"replicas": 9}})),
        ("/apis/apps/v1/namespaces/default/statefulsets".into(), apps("StatefulSet"), json!({"spec": {"replicas": 9}})),
        ("/apis/apps/v1/namespaces/default/daemonsets".into(), daemon_set, json!({"spec": {"minReadySeconds": 9}})),
        (
            format!("{batch}/jobs"),
            json!({"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "x"}, "spec": job}),
            json!({"spec": {"parallelism": 3}}),
        ),
        (
            format!("{batch}/cronjobs"),
            json!({"kind": "CronJob", "apiVersion": "batch/v1", "metadata": {"name": "x"},
                   "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job}}}),
            json!({"spec": {"suspend": true}}),
        ),
        (
            BUDGETS.into(),
            json!({"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "metadata": {"name": "x"},
                   "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "none"}}}}),
            json!({"spec": {"minAvailable": 2}}),
        ),
        (
            format!("{networking}/networkpolicies"),
            json!({"kind": "NetworkPolicy", "apiVersion": "networking.k8s.io/v1", "metadata": {"name": "x"},
                   "spec": {"podSelector": {}}}),
            json!({"spec": {"podSelector": {"matchLabels": {"a": "b"}}}}),
        ),
        (
            format!("{networking}/ingresses"),
            json!({"kind": "Ingress", "apiVersion": "networking.k8s.io/v1", "metadata": {"name": "x"},
                   "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}),
            json!({"spec": {"ingressClassName": "c"}}),
        ),
        (PODS.into(), pod("x"), json!({"spec": {"activeDeadlineSeconds": 9}})),
    ] {
        let created = api.post(&collection, object).await.ok();
        assert_eq!(generation(&created), Some(1), "{collection}");
        let path = format!("{collection}/x");
        let labelled = api.patch(&path, json!({"metadata": {"labels": {"l": "x"}}})).await.ok();
        assert_eq!(generation(&labelled), Some(1), "{collection}: labels are not the specification");
        let changed = api.patch(&path, change).await.ok();
        assert_eq!(generation(&changed), Some(2), "{collection}");
        api.patch(&path, json!({"metadata": {"finalizers": ["example.com/f"]}})).await.ok();
        api.delete(&path).await.ok();
        let deleting = api.get(&path).await.ok();
        assert_eq!(generation(&deleting), Some(3), "{collection}: the mark for deletion counts");
        api.delete(&path).await.ok();
        assert_eq!(generation(&api.get(&path).await.ok()), Some(3), "{collection}: once");
    }
    for (collection, object) in [
        (CONFIG_MAPS, config_map("x", json!({}))),
        (
            "/api/v1/namespaces/default/services",
            json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}]}}),
        ),
        ("/api/v1/nodes", json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "x"}})),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            json!({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": "x"}}),
        ),
    ] {
        assert_eq!(generation(&api.post(collection, object).await.ok()), None, "{collection}");
    }
}

#[tokio::test(start_paused = true)]
async fn sub_9_kinds_with_their_own_generation_rules() {
    let api = Api::start().await;
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let class = json!({"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "metadata": {"name": "x"},
                       "value": 5});
    assert_eq!(generation(&api.post(classes, class).await.ok()), Some(1));
    let described = api.patch(&format!("{classes}/x"), json!({"description": "new"})).await.ok();
    assert_eq!(generation(&described), Some(1), "at creation only");
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slice = json!({"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "metadata": {"name": "x"},
                       "addressType": "IPv4", "endpoints": []});
    assert_eq!(generation(&api.post(slices, slice).await.ok()), Some(1));
    let labelled = api.patch(&format!("{slices}/x"), json!({"metadata": {"labels": {"l": "x"}}})).await.ok();
    assert_eq!(generation(&labelled), Some(2), "labels count");
    let definition = api.post(DEFINITIONS, widget_definition()).await.ok();
    assert_eq!(generation(&definition), Some(1));
    let path = format!("{DEFINITIONS}/widgets.example.com");
    assert_eq!(generation(&api.get(&path).await.ok()), Some(1), "writes of the server to the status do not");
    let renamed = api.patch(&path, json!({"spec": {"names": {"categories": ["all"]}}})).await.ok();
    assert_eq!(generation(&renamed), Some(2));
    let drivers = "/apis/storage.k8s.io/v1/csidrivers";
    let driver = json!({"kind": "CSIDriver", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": "x"},
                        "spec": {"attachRequired": true}});
    assert_eq!(generation(&api.post(drivers, driver).await.ok()), None, "at updates only");
    let changed = api.patch(&format!("{drivers}/x"), json!({"spec": {"storageCapacity": true}})).await.ok();
    assert_eq!(generation(&changed), Some(1));
}

#[tokio::test(start_paused = true)]
async fn sub_10_other_changes_that_increment_the_generation() {
    let api = Api::start().await;
    api.post(DEPLOYMENTS, deployment("web")).await.ok();
    let path = format!("{DEPLOYMENTS}/web");
    let annotated = api.patch(&path, json!({"metadata": {"annotations": {"a": "b"}}})).await.ok();
    assert_eq!(generation(&annotated), Some(2), "annotations count for Deployments");
    let mut definition = widget_definition();
    definition["spec"]["versions"][1].as_object_mut().unwrap().remove("subresources");
    api.post(DEFINITIONS, definition).await.ok();
    api.post(WIDGETS, widget("w", json!({"color": "red"}))).await.ok();
    let path = format!("{WIDGETS}/w");
    let annotated = api.patch(&path, json!({"metadata": {"annotations": {"a": "b"}}})).await.ok();
    assert_eq!(generation(&annotated), Some(1));
    let status = api.patch(&format!("{path}/status"), json!({"status": {"x": 1}})).await.ok();
    assert_eq!(generation(&status), Some(1));
    assert_eq!(generation(&api.patch(&path, json!({"spec": {"color": "blue"}})).await.ok()), Some(2));
    let whole = "/apis/example.com/v2/namespaces/default/widgets/w";
    let status = api.patch(whole, json!({"status": {"x": 2}})).await.ok();
    assert_eq!(generation(&status), Some(3), "a status that is a field like others counts");
}

#[tokio::test(start_paused = true)]
async fn dry_4_sub_6_a_scale_is_held_to_its_schema() {
    let api = Api::start().await;
    api.post(DEPLOYMENTS, deployment("web")).await.ok();
    let path = format!("{DEPLOYMENTS}/web/scale");
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"},
                       "spec": {"replicas": 4, "bogus": 1}});
    let strict = api.put(&format!("{path}?fieldValidation=Strict"), scale.clone()).await.refused(400);
    assert_eq!(
        strict,
        "Scale in version \"v1\" cannot be handled as a Scale: strict decoding error: unknown field \"spec.bogus\""
    );
    let warned = api.put(&path, scale.clone()).await;
    assert_eq!(warned.headers["warning"], "299 - \"unknown field \\\"spec.bogus\\\"\"");
    assert_eq!(warned.ok()["spec"], json!({"replicas": 4}));
    let ignored = api.put(&format!("{path}?fieldValidation=Ignore"), scale).await;
    assert!(!ignored.headers.contains_key("warning"));
    let change = json!({"spec": {"bogus": 1}});
    assert_eq!(api.patch(&format!("{path}?fieldValidation=Strict"), change).await.code, 422);
    let change = json!({"spec": {"replicas": "many"}});
    assert_eq!(api.patch(&path, change).await.code, 422);
}
