//! Label and field selectors.

use serde_json::{Value, json};

use crate::api::{Api, CONFIG_MAPS, DEFINITIONS, PODS, WIDGETS, name, pod, widget, widget_definition};

fn encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

async fn labelled(api: &Api, selector: &str) -> Vec<String> {
    let list = api.list(&format!("{CONFIG_MAPS}?labelSelector={}", encode(selector))).await;
    list.names().into_iter().map(str::to_owned).collect()
}

async fn by_field(api: &Api, path: &str, selector: &str) -> Vec<String> {
    let list = api.list(&format!("{path}?fieldSelector={}", encode(selector))).await;
    list.names().into_iter().map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn sel_1_labels() {
    let api = Api::start().await;
    api.add("a", json!({"app": "x", "n": "1"})).await;
    api.add("b", json!({"app": "y", "n": "5"})).await;
    api.add("c", json!({"tier": "db"})).await;
    for (selector, expected) in [
        ("", "a b c"),
        ("app", "a b"),
        ("!app", "c"),
        ("app=x", "a"),
        ("app==x", "a"),
        ("app!=x", "b c"),
        ("app in (x,y)", "a b"),
        ("app in (x)", "a"),
        ("app notin (x)", "b c"),
        ("n>1", "b"),
        ("n<5", "a"),
        ("app=x,n=1", "a"),
        ("app=x,n=5", ""),
        (" app = x , n in ( 1 , 2 ) ", "a"),
        ("app,tier", ""),
    ] {
        assert_eq!(labelled(&api, selector).await.join(" "), expected, "{selector}");
    }
    for bad in ["app in x", "app in (x", "=x", "a==b==c", "n>x", "!", "a b", "a/b/c=d", "app=x,,y"] {
        let response = api.get(&format!("{CONFIG_MAPS}?labelSelector={}", encode(bad))).await;
        assert_eq!((response.code, &response.body["reason"]), (400, &json!("BadRequest")), "{bad}: {}", response.body);
        assert_eq!(api.refused_watch(&format!("{CONFIG_MAPS}?labelSelector={}", encode(bad))).await.code, 400);
    }
}

#[tokio::test(start_paused = true)]
async fn sel_2_fields() {
    let api = Api::start().await;
    for name in ["a", "b", "c"] {
        api.add(name, json!({})).await;
    }
    for (selector, expected) in [
        ("", "a b c"),
        ("metadata.name=a", "a"),
        ("metadata.name==a", "a"),
        ("metadata.name!=a", "b c"),
        ("metadata.name!=a,metadata.name!=b", "c"),
        ("metadata.name=a,metadata.namespace=default", "a"),
        ("metadata.name=a,metadata.namespace=other", ""),
        ("metadata.name=a\\,b", ""),
        ("metadata.name=a\\=b", ""),
        ("metadata.name=a\\\\b", ""),
    ] {
        assert_eq!(by_field(&api, CONFIG_MAPS, selector).await.join(" "), expected, "{selector}");
    }
    for bad in ["metadata.name", "metadata.name=a\\b", "metadata.name>a"] {
        let response = api.get(&format!("{CONFIG_MAPS}?fieldSelector={}", encode(bad))).await;
        assert_eq!(response.code, 400, "{bad}: {}", response.body);
    }
}

#[tokio::test(start_paused = true)]
async fn sel_3_pods_select_on_their_own_fields() {
    let api = Api::start().await;
    let mut first = pod("first");
    first["spec"]["nodeName"] = "n1".into();
    first["spec"]["hostNetwork"] = true.into();
    first["spec"]["restartPolicy"] = "Never".into();
    first["spec"]["schedulerName"] = "mine".into();
    first["spec"]["serviceAccountName"] = "robot".into();
    api.post(PODS, first).await.ok();
    api.post(PODS, pod("second")).await.ok();
    let status = json!({"status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
                                   "nominatedNodeName": "n9"}});
    api.patch(&format!("{PODS}/first/status"), status).await.ok();
    for (field, value) in [
        ("spec.nodeName", "n1"),
        ("spec.host", "n1"),
        ("spec.restartPolicy", "Never"),
        ("spec.schedulerName", "mine"),
        ("spec.serviceAccountName", "robot"),
        ("spec.hostNetwork", "true"),
        ("status.phase", "Running"),
        ("status.podIP", "10.0.0.1"),
        ("status.nominatedNodeName", "n9"),
    ] {
        assert_eq!(by_field(&api, PODS, &format!("{field}={value}")).await, ["first"], "{field}");
        assert_eq!(by_field(&api, PODS, &format!("{field}!={value}")).await, ["second"], "{field}");
    }
    assert_eq!(by_field(&api, PODS, "spec.nodeName=").await, ["second"]);
    assert_eq!(by_field(&api, PODS, "spec.hostNetwork=false").await, ["second"]);
    assert_eq!(by_field(&api, "/api/v1/pods", "spec.nodeName=n1,status.phase=Running").await, ["first"]);
}

#[tokio::test(start_paused = true)]
async fn sel_3_other_kinds_select_on_theirs() {
    let api = Api::start().await;
    let node = |name: &str, unschedulable: bool| json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}, "spec": {"unschedulable": unschedulable}});
    let secret = json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}, "type": "example.com/x"});
    let service = json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "svc"},
                         "spec": {"type": "ExternalName", "externalName": "example.com"}});
    let template = json!({"metadata": {"labels": {"app": "web"}},
                          "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "nginx"}]}});
    let job =
        json!({"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "j"}, "spec": {"template": template}});
    let event = json!({"kind": "Event", "apiVersion": "v1", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default", "uid": "u", "apiVersion": "v1",
                           "resourceVersion": "7", "fieldPath": "spec"},
        "reason": "Tested", "type": "Normal", "source": {"component": "tester"}});
    let request = json!({"kind": "CertificateSigningRequest", "apiVersion": "certificates.k8s.io/v1",
        "metadata": {"name": "r"}, "spec": {"request": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K",
        "signerName": "example.com/s", "usages": ["client auth"]}});
    let mut always = template.clone();
    always["spec"]["restartPolicy"] = "Always".into();
    let controller = json!({"kind": "ReplicationController", "apiVersion": "v1", "metadata": {"name": "rc"},
                            "spec": {"selector": {"app": "web"}, "template": always}});
    api.post("/apis/certificates.k8s.io/v1/certificatesigningrequests", request).await.ok();
    api.post("/api/v1/namespaces/default/replicationcontrollers", controller).await.ok();
    api.post("/api/v1/nodes", node("up", false)).await.ok();
    api.post("/api/v1/nodes", node("down", true)).await.ok();
    api.post("/api/v1/namespaces/default/secrets", secret).await.ok();
    api.post("/api/v1/namespaces/default/services", service).await.ok();
    api.post("/apis/batch/v1/namespaces/default/jobs", job).await.ok();
    api.post("/api/v1/namespaces/default/events", event).await.ok();
    for (path, selector, expected) in [
        ("/api/v1/nodes", "spec.unschedulable=true", vec!["down"]),
        ("/api/v1/nodes", "spec.unschedulable=false", vec!["up"]),
        ("/api/v1/namespaces", "status.phase=Terminating", vec![]),
        ("/api/v1/namespaces", "metadata.name=default,status.phase=Active", vec!["default"]),
        ("/api/v1/secrets", "type=example.com/x", vec!["s"]),
        ("/api/v1/secrets", "type=Opaque", vec![]),
        ("/api/v1/services", "spec.type=ExternalName", vec!["svc"]),
        ("/api/v1/services", "spec.clusterIP=None", vec![]),
        ("/apis/batch/v1/jobs", "status.successful=0", vec!["j"]),
        ("/apis/batch/v1/jobs", "status.successful=1", vec![]),
        ("/api/v1/replicationcontrollers", "status.replicas=0", vec!["rc"]),
        ("/api/v1/replicationcontrollers", "status.replicas=1", vec![]),
        ("/apis/certificates.k8s.io/v1/certificatesigningrequests", "spec.signerName=example.com/s", vec!["r"]),
        ("/apis/certificates.k8s.io/v1/certificatesigningrequests", "spec.signerName!=example.com/s", vec![]),
        ("/api/v1/events", "involvedObject.kind=Pod,involvedObject.name=p,involvedObject.uid=u", vec!["e"]),
        ("/api/v1/events", "involvedObject.namespace=default,involvedObject.apiVersion=v1", vec!["e"]),
        ("/api/v1/events", "involvedObject.resourceVersion=7,involvedObject.fieldPath=spec", vec!["e"]),
        ("/api/v1/events", "reason=Tested,type=Normal,source=tester", vec!["e"]),
        ("/api/v1/events", "type=Warning", vec![]),
        ("/apis/events.k8s.io/v1/events", "regarding.kind=Pod,regarding.name=p,reason=Tested,type=Normal", vec!["e"]),
        ("/apis/events.k8s.io/v1/events", "regarding.name=q", vec![]),
    ] {
        assert_eq!(by_field(&api, path, selector).await, expected, "{path} {selector}");
    }
}

#[tokio::test(start_paused = true)]
async fn sel_3_custom_resources_select_on_what_their_definition_names() {
    let api = Api::start().await;
    api.post(DEFINITIONS, widget_definition()).await.ok();
    api.post(WIDGETS, widget("red", json!({"color": "red"}))).await.ok();
    api.post(WIDGETS, widget("plain", json!({}))).await.ok();
    assert_eq!(by_field(&api, WIDGETS, "spec.color=red").await, ["red"]);
    assert_eq!(by_field(&api, WIDGETS, "spec.color!=red").await, ["plain"]);
    assert_eq!(by_field(&api, WIDGETS, "spec.color=").await, ["plain"], "an absent field is empty");
    assert_eq!(by_field(&api, "/apis/example.com/v2/widgets", "spec.color=red").await, ["red"]);
    let mut watch = api.watch(&format!("{WIDGETS}?fieldSelector=spec.color%3Dred")).await;
    assert_eq!(watch.all_ready(), ["ADDED red"]);
    api.patch(&format!("{WIDGETS}/plain"), json!({"spec": {"color": "red"}})).await.ok();
    api.patch(&format!("{WIDGETS}/red"), json!({"spec": {"color": "blue"}})).await.ok();
    assert_eq!(watch.all_ready(), ["ADDED plain", "DELETED red"]);
    let refused = api.get(&format!("{WIDGETS}?fieldSelector=spec.replicas%3D1")).await;
    assert_eq!(refused.refused(400), "field label not supported: spec.replicas");
}

#[tokio::test(start_paused = true)]
async fn sel_4_each_kind_refuses_unknown_fields_with_its_own_message() {
    let api = Api::start().await;
    let refusal =
        async |path: &str, field: &str| api.get(&format!("{path}?fieldSelector={field}%3Dx")).await.refused(400);
    let only = |field: &str| {
        format!("\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    };
    assert_eq!(refusal(PODS, "spec.color").await, "field label not supported: spec.color");
    assert_eq!(refusal("/api/v1/nodes", "metadata.namespace").await, "field label not supported: metadata.namespace");
    assert_eq!(refusal(CONFIG_MAPS, "data.k").await, only("data.k"));
    assert_eq!(refusal("/apis/apps/v1/deployments", "spec.replicas").await, only("spec.replicas"));
    assert_eq!(
        refusal("/apis/batch/v1/jobs", "status.failed").await,
        "field label \"status.failed\" not supported for Job"
    );
    assert_eq!(refusal("/api/v1/events", "regarding.name").await, "field label not supported: regarding.name");
    // Cluster-scoped kinds have the field, and it is empty.
    let volumes = "/api/v1/persistentvolumes";
    assert_eq!(by_field(&api, volumes, "metadata.namespace=x").await, Vec::<String>::new());
    let watch = api.refused_watch(&format!("{CONFIG_MAPS}?fieldSelector=data.k%3Dx")).await;
    assert_eq!(watch.refused(400), only("data.k"));
}

#[tokio::test(start_paused = true)]
async fn sel_5_a_name_may_be_selected_but_not_against_the_path() {
    let api = Api::start().await;
    api.add_namespace("other").await;
    api.add("a", json!({})).await;
    api.add("ab", json!({})).await;
    api.add_to("other", "a", json!({})).await;
    assert_eq!(by_field(&api, CONFIG_MAPS, "metadata.name=a").await, ["a"]);
    let everywhere = api.list("/api/v1/configmaps?fieldSelector=metadata.name%3Da").await;
    let namespaces: Vec<&Value> =
        everywhere.0["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["namespace"]).collect();
    assert_eq!(namespaces, ["default", "other"]);
    assert_eq!(by_field(&api, CONFIG_MAPS, "metadata.name=a,metadata.name!=a").await, Vec::<String>::new());
    let watch = "/api/v1/watch/namespaces/default/configmaps/a?fieldSelector=metadata.name%3D";
    assert_eq!(
        api.get(&format!("{watch}b")).await.refused(400),
        "fieldSelector metadata.name doesn't match requested name"
    );
    assert_eq!(api.send("GET", &format!("{watch}a"), &[], None).await.status(), 200);
    let deleted = api.get("/api/v1/namespaces?fieldSelector=metadata.name%3Dother").await.ok();
    assert_eq!(name(&deleted["items"][0]), "other");
}
