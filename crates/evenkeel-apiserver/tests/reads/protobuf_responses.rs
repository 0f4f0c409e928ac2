//! Responses in Kubernetes' protobuf.

use evenkeel_apiserver::{Action, Rule, WatchAction};
use serde_json::{Value, json};

use crate::api::{
    Api, CONFIG_MAPS, DEFINITIONS, List, PODS, TABLE, WIDGETS, config_map, pass, pod, version, widget,
    widget_definition,
};
use crate::wire::{self, BINARY, BINARY_METADATA, BINARY_METADATA_LIST, PROTOBUF};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const INITIAL: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

impl Api {
    /// Sends JSON and reads protobuf.
    async fn protobuf(&self, method: &str, path: &str, body: Option<&Value>) -> crate::api::TestResponse {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let response = self.http_types(method, path, &[("accept", BINARY), ("content-type", media)], body).await;
        assert_eq!(response.headers["content-type"], PROTOBUF, "{method} {path}");
        response
    }

    /// Reads the same in both forms, which must be equal, and returns it.
    async fn both(&self, path: &str) -> Value {
        let (json, binary) = (self.get(path).await.ok(), self.protobuf("GET", path, None).await.ok());
        assert_eq!(without_nulls(json), binary, "{path}");
        binary
    }
}

/// Removes what only JSON has: null fields and empty lists.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, value)| !value.is_null() && *value != json!([]));
            kept.map(|(key, value)| (key, without_nulls(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

fn deployment(name: &str) -> Value {
    json!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": name},
           "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "a"}},
                    "template": {"metadata": {"labels": {"app": "a"}},
                                 "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

#[tokio::test(start_paused = true)]
async fn bin_1_objects_and_lists_equal_their_json() {
    let api = Api::start().await;
    api.post(PODS, pod("web")).await.ok();
    api.post(DEPLOYMENTS, deployment("web")).await.ok();
    let secret = json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}, "stringData": {"k": "v"}});
    api.post("/api/v1/namespaces/default/secrets", secret).await.ok();
    let service = json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s"},
                         "spec": {"ports": [{"port": 80, "targetPort": "http"}]}});
    api.post("/api/v1/namespaces/default/services", service).await.ok();
    let scaler = json!({"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2", "metadata": {"name": "h"},
                        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}});
    api.post("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", scaler).await.ok();
    let event = json!({"kind": "Event", "apiVersion": "v1", "metadata": {"name": "e"}, "type": "Normal",
                       "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default"}});
    api.post("/api/v1/namespaces/default/events", event).await.ok();
    api.post(DEFINITIONS, widget_definition()).await.ok();
    for (list, name) in [
        (PODS, "web"),
        (DEPLOYMENTS, "web"),
        ("/api/v1/namespaces", "default"),
        ("/api/v1/namespaces/default/secrets", "s"),
        ("/api/v1/namespaces/default/services", "s"),
        ("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", "h"),
        // Two that are shown in another form than they are stored in.
        ("/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", "h"),
        ("/apis/events.k8s.io/v1/namespaces/default/events", "e"),
        ("/api/v1/namespaces/default/events", "e"),
        (DEFINITIONS, "widgets.example.com"),
    ] {
        // Twice: the second read uses the cached message.
        for _ in 0..2 {
            let object = api.both(&format!("{list}/{name}")).await;
            let all = List(api.both(list).await);
            assert!(all.names().contains(&name), "{list}");
            assert!(all.version() >= version(&object));
        }
    }
    assert_eq!(api.both("/api/v1/nodes").await["kind"], "NodeList");
}

#[tokio::test(start_paused = true)]
async fn bin_1_lst_7_pages_of_protobuf_are_those_of_json() {
    let api = Api::start().await;
    for number in 0..10 {
        api.add(&format!("o{number}"), json!({"app": "a"})).await;
    }
    let first = List(api.both(&format!("{CONFIG_MAPS}?limit=4")).await);
    assert_eq!((first.names(), first.remaining()), (vec!["o0", "o1", "o2", "o3"], Some(6)));
    api.add("o35", json!({})).await;
    let next = format!("{CONFIG_MAPS}?limit=4&continue={}", first.next());
    let second = List(api.both(&next).await);
    assert_eq!((second.names(), second.version()), (vec!["o4", "o5", "o6", "o7"], first.version()));
    let selected = List(api.both(&format!("{CONFIG_MAPS}?limit=2&labelSelector=app%3Da")).await);
    assert_eq!((selected.remaining(), selected.next().is_empty()), (None, false));
}

#[tokio::test(start_paused = true)]
async fn bin_1_a_long_list_is_sent_in_chunks() {
    let api = Api::start().await;
    for number in 0..1200 {
        let mut object = config_map(&format!("o{number:04}"), json!({}));
        object["data"] = json!({"text": "x".repeat(1000)});
        api.post(CONFIG_MAPS, object).await.ok();
    }
    let response = api.send("GET", CONFIG_MAPS, &[("accept", BINARY)], None).await;
    assert!(http_body::Body::size_hint(response.body()).exact().is_none(), "it is not held whole");
    let list = List(api.both(CONFIG_MAPS).await);
    assert_eq!(list.names().len(), 1200);
    assert!(list.names().is_sorted());
}

#[tokio::test(start_paused = true)]
async fn bin_2_a_watch_shows_every_kind_of_event() {
    let api = Api::start().await;
    api.add("a", json!({})).await;
    let mut watch = api.watch_as(BINARY, &format!("{CONFIG_MAPS}?{INITIAL}")).await;
    let mut json = api.watch(&format!("{CONFIG_MAPS}?{INITIAL}")).await;
    api.touch("a", "data").await;
    api.add("b", json!({})).await;
    api.remove("a").await;
    pass(61).await;
    for expected in ["ADDED a", "BOOKMARK", "MODIFIED a", "ADDED b", "DELETED a", "BOOKMARK"] {
        let (binary, json) = (watch.ready().unwrap(), json.ready().unwrap());
        assert_eq!(binary.to_string(), expected);
        assert_eq!(binary.ends_initial_events(), json.ends_initial_events());
        assert_eq!(binary.object, without_nulls(json.object));
    }
    assert!(watch.is_silent());
}

#[tokio::test(start_paused = true)]
async fn bin_2_wat_9_a_version_that_is_too_old_is_an_error_event() {
    let api = Api::start().await;
    let old = api.add("a", json!({})).await;
    api.add("b", json!({})).await;
    api.faults().compact_now();
    let mut watch = api.watch_as(BINARY, &format!("{CONFIG_MAPS}?resourceVersion={old}")).await;
    let error = watch.next().await.unwrap();
    assert_eq!((error.kind.as_str(), &error.object["kind"]), ("ERROR", &json!("Status")));
    assert_eq!((&error.object["code"], &error.object["reason"]), (&json!(410), &json!("Expired")));
    assert!(watch.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn bin_3_custom_resources_are_json_but_their_metadata_is_not() {
    let api = Api::start().await;
    api.post(DEFINITIONS, widget_definition()).await.ok();
    let created = api.post(WIDGETS, widget("w", json!({"color": "red"}))).await.ok();
    let one = format!("{WIDGETS}/w");
    let response = api.get_as(BINARY, &one).await;
    assert_eq!(response.headers["content-type"], "application/json");
    assert_eq!(response.ok(), created);
    for path in [one.as_str(), WIDGETS] {
        let refused = api.get_as(PROTOBUF, path).await;
        assert_eq!(refused.headers["content-type"], "application/json");
        assert!(refused.refused(406).starts_with("only the following media types are accepted: application/json, "));
    }
    let metadata = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                          "metadata": created["metadata"]});
    let response = api.get_as(BINARY_METADATA, &one).await;
    assert_eq!(response.headers["content-type"], PROTOBUF);
    assert_eq!(response.ok(), metadata);
    let list = List(api.get_as(BINARY_METADATA_LIST, WIDGETS).await.ok());
    assert_eq!((&list.0["kind"], list.names()), (&json!("PartialObjectMetadataList"), vec!["w"]));
    let mut watch = api.watch_as(BINARY_METADATA, WIDGETS).await;
    assert_eq!(watch.ready().unwrap().object, metadata);
    // An error has no kind that only JSON knows.
    let missing = api.get_as(BINARY, &format!("{WIDGETS}/nothing")).await;
    assert_eq!(missing.headers["content-type"], PROTOBUF);
    assert_eq!(missing.refused(404), "widgets.example.com \"nothing\" not found");
}

#[tokio::test(start_paused = true)]
async fn neg_5_tables_are_json() {
    let api = Api::start().await;
    api.add("a", json!({})).await;
    let accept = format!("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,{TABLE}");
    let response = api.get_as(&accept, CONFIG_MAPS).await;
    assert_eq!(
        (&response.headers["content-type"], &response.body["kind"]),
        (&"application/json".parse().unwrap(), &json!("Table"))
    );
    let one = api.get_as(BINARY_METADATA, &format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(one.headers["content-type"], PROTOBUF);
    let whole = api.get(&format!("{CONFIG_MAPS}/a")).await.ok();
    assert_eq!(one.ok()["metadata"], whole["metadata"]);
    let list = api.get_as(BINARY_METADATA_LIST, &format!("{CONFIG_MAPS}?limit=1")).await;
    assert_eq!(list.headers["content-type"], PROTOBUF);
    assert_eq!(list.ok()["items"], json!([{"metadata": whole["metadata"]}]));
}

#[tokio::test(start_paused = true)]
async fn writes_respond_in_protobuf() {
    let api = Api::start().await;
    let one = format!("{CONFIG_MAPS}/a");
    let dry = api.protobuf("POST", &format!("{CONFIG_MAPS}?dryRun=All"), Some(&config_map("a", json!({})))).await;
    assert_eq!((dry.code, version(&dry.body)), (201, 0), "an object that was not stored has no version");
    let created = api.protobuf("POST", CONFIG_MAPS, Some(&config_map("a", json!({})))).await;
    assert_eq!(created.code, 201);
    assert_eq!(created.body, api.both(&one).await);
    let mut object = created.body;
    object["data"] = json!({"k": "v"});
    let updated = api.protobuf("PUT", &one, Some(&object)).await.ok();
    assert_eq!(updated["data"], json!({"k": "v"}));
    let conflict = api.protobuf("PUT", &one, Some(&object)).await;
    assert_eq!(conflict.body["details"]["name"], "a");
    assert!(conflict.refused(409).starts_with("Operation cannot be fulfilled on configmaps \"a\""));
    let patched = api.protobuf("PATCH", &one, Some(&json!({"data": {"k": "w"}}))).await.ok();
    assert_eq!(patched, api.both(&one).await);
    let deleted = api.protobuf("DELETE", &one, None).await.ok();
    assert_eq!((&deleted["kind"], &deleted["status"]), (&json!("Status"), &json!("Success")));
    assert_eq!(api.protobuf("GET", &one, None).await.refused(404), "configmaps \"a\" not found");
    api.add("b", json!({})).await;
    let all = List(api.protobuf("DELETE", CONFIG_MAPS, None).await.ok());
    assert_eq!(all.names(), ["b"]);
    assert_eq!(api.both(CONFIG_MAPS).await.get("items"), None);
}

#[tokio::test(start_paused = true)]
async fn subresources_respond_in_protobuf() {
    let api = Api::start().await;
    api.post(DEPLOYMENTS, deployment("d")).await.ok();
    let scale = format!("{DEPLOYMENTS}/d/scale");
    let mut shown = api.both(&scale).await;
    assert_eq!((&shown["kind"], &shown["spec"]["replicas"]), (&json!("Scale"), &json!(2)));
    shown["spec"]["replicas"] = json!(5);
    assert_eq!(api.protobuf("PUT", &scale, Some(&shown)).await.ok()["spec"]["replicas"], 5);
    let change = json!({"status": {"replicas": 3}});
    let status = api.protobuf("PATCH", &format!("{DEPLOYMENTS}/d/status"), Some(&change)).await.ok();
    assert_eq!(status["status"]["replicas"], 3);
    api.post(PODS, pod("p")).await.ok();
    let binding = json!({"kind": "Binding", "apiVersion": "v1", "metadata": {"name": "p"},
                         "target": {"kind": "Node", "name": "n"}});
    let bound = api.protobuf("POST", &format!("{PODS}/p/binding"), Some(&binding)).await;
    assert_eq!((bound.code, &bound.body["status"]), (201, &json!("Success")));
    let eviction = json!({"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "p"}});
    let evicted = api.protobuf("POST", &format!("{PODS}/p/eviction"), Some(&eviction)).await;
    assert_eq!((evicted.code, &evicted.body["status"]), (201, &json!("Success")));
    let account = json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "s"}});
    api.post("/api/v1/namespaces/default/serviceaccounts", account).await.ok();
    let request = json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {"audiences": []}});
    let token = api.protobuf("POST", "/api/v1/namespaces/default/serviceaccounts/s/token", Some(&request)).await;
    assert!(token.ok()["status"]["token"].as_str().is_some_and(|token| token.contains('.')));
}

#[tokio::test(start_paused = true)]
async fn errors_without_an_object_are_protobuf_too() {
    let api = Api::start().await;
    let unknown = api.protobuf("GET", "/api/v1/nothings", None).await;
    assert_eq!(unknown.refused(404), "the server could not find the requested resource");
    api.faults().fail_next(1, 429, Some(1));
    let busy = api.protobuf("GET", CONFIG_MAPS, None).await;
    assert_eq!((busy.code, &busy.headers["retry-after"]), (429, &"1".parse().unwrap()));
    let yaml = api.send("GET", &format!("{CONFIG_MAPS}/a"), &[("accept", "application/yaml")], None).await;
    assert_eq!((yaml.status().as_u16(), &yaml.headers()["content-type"]), (404, &"application/yaml".parse().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn flt_4_faults_respect_protobuf_frames() {
    let api = Api::start().await;
    let path = format!("{CONFIG_MAPS}?allowWatchBookmarks=true");
    let fault = |action| Rule::new(Action::Watch(action)).times(1);
    api.add("a", json!({})).await;

    api.faults().add(fault(WatchAction::DuplicateEvent { event: 0 }));
    api.faults().add(fault(WatchAction::CoalesceFrames { events: 2, wait: std::time::Duration::from_secs(1) }));
    let mut watch = api.watch_as(BINARY, CONFIG_MAPS).await;
    assert_eq!(watch.all_ready(), ["ADDED a", "ADDED a"]);

    api.faults().add(fault(WatchAction::NoBookmarks));
    api.faults().add(fault(WatchAction::SplitFrame { sizes: vec![1, 2, 3] }));
    let mut watch = api.watch_as(BINARY, &path).await;
    pass(61).await;
    assert_eq!(watch.all_ready(), ["ADDED a"], "in many pieces, and without the bookmark");

    api.faults()
        .add(fault(WatchAction::ErrorEvent { event: 0, status: Box::new(evenkeel_core::Status::expired("x")) }));
    let mut watch = api.watch_as(BINARY, CONFIG_MAPS).await;
    let error = watch.ready().unwrap();
    assert_eq!((error.kind.as_str(), &error.object["code"]), ("ERROR", &json!(410)));
    assert!(watch.has_ended());

    api.faults().add(fault(WatchAction::TruncateFrame { event: 0, byte: 9 }));
    let mut watch = api.watch_as(BINARY, CONFIG_MAPS).await;
    assert_eq!(watch.frame().await.len(), 9);
    assert!(watch.has_ended());

    api.faults().add(fault(WatchAction::CorruptFrame { event: 0, byte: 40 }));
    let mut watch = api.watch_as(BINARY, CONFIG_MAPS).await;
    let frame = wire::take_frame(&mut bytes::BytesMut::from(watch.frame().await)).unwrap();
    assert_eq!(frame[0] >> 3, 0, "there is no field 0");
    api.touch("a", "x").await;
    assert_eq!(watch.all_ready(), ["MODIFIED a"], "the next frame is valid");
}
