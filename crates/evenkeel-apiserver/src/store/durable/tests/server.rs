//! A server on a disk that fails.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use serde_json::Value;
use tower_service::Service;

use super::*;
use crate::data_dir::HistoryAfterRestart;
use crate::engine::{ApiEngine, Settings};
use crate::env::Env;
use crate::{ApiServer, InProcess};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Time stands still at a second, and random numbers are counted.
#[derive(Default)]
struct CountingEnv {
    count: AtomicU64,
    second: i64,
}

impl Env for CountingEnv {
    fn wall(&self) -> Timestamp {
        Timestamp::from_second(self.second).unwrap()
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn random(&self) -> u64 {
        evenkeel_base::hash::spread(self.count.fetch_add(1, Ordering::Relaxed))
    }
}

async fn start(disk: &MemoryDisk) -> ApiServer {
    start_with(disk, Settings::default(), CountingEnv::default()).await
}

async fn start_with(disk: &MemoryDisk, settings: Settings, env: CountingEnv) -> ApiServer {
    let log = LogSettings { fsync: Fsync::Always, ..LogSettings::default() };
    let opened = Store::open(settings.history, Arc::new(disk.clone()), log, Arc::default()).unwrap();
    let settings = Settings { opened: Some(Arc::new(opened)), ..settings };
    let engine = Arc::new(ApiEngine::new(settings, Arc::new(env)));
    ApiServer::builder().in_process_only().start_with(engine.clone(), engine).await.unwrap()
}

async fn call(service: &InProcess, method: Method, path: &str, body: &str) -> (u16, String) {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap();
    let response = service.clone().call(request).await.unwrap();
    let status = response.status().as_u16();
    (status, text(&response.into_body().collect().await.unwrap().to_bytes()))
}

fn config_map(name: &str) -> String {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}}).to_string()
}

#[tokio::test]
async fn dur_011_a_failed_disk_refuses_writes_and_serves_reads() {
    let disk = MemoryDisk::default();
    let server = start(&disk).await;
    let service = server.service();
    assert_eq!(call(&service, Method::POST, CONFIG_MAPS, &config_map("kept")).await.0, 201);
    assert_eq!(call(&service, Method::GET, "/readyz", "").await, (200, "ok".into()));
    disk.set_space(50);
    for name in ["lost", "refused"] {
        let (code, body) = call(&service, Method::POST, CONFIG_MAPS, &config_map(name)).await;
        let status: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((code, &status["reason"]), (503, &json!("ServiceUnavailable")));
        assert!(status["message"].as_str().unwrap().starts_with("storage is read-only: "), "{body}");
    }
    let (code, list) = call(&service, Method::GET, CONFIG_MAPS, "").await;
    assert!(code == 200 && list.contains("\"kept\"") && !list.contains("\"lost\""), "{list}");
    let (code, text) = call(&service, Method::GET, "/readyz", "").await;
    assert!(code == 500 && text.contains("[-]storage"), "{text}");
    assert_eq!(call(&service, Method::GET, "/livez", "").await.0, 200);

    let again = start(&disk.after_kill()).await;
    let (_, list) = call(&again.service(), Method::GET, CONFIG_MAPS, "").await;
    assert!(list.contains("\"kept\"") && !list.contains("\"lost\""), "{list}");
    assert_eq!(call(&again.service(), Method::POST, CONFIG_MAPS, &config_map("lost")).await.0, 201);
}

#[tokio::test]
async fn dur_002_a_response_waits_for_the_sync_of_what_it_shows() {
    let disk = MemoryDisk::default();
    let server = start(&disk).await;
    let service = server.service();
    let held = disk.hold_syncs();
    let (created, read) = (config_map("a"), format!("{CONFIG_MAPS}/a"));
    let mut create = Box::pin(call(&service, Method::POST, CONFIG_MAPS, &created));
    let mut get = Box::pin(call(&service, Method::GET, &read, ""));
    for _ in 0..100 {
        tokio::select! {
            biased;
            _ = &mut create => panic!("acknowledged before it is synced"),
            _ = &mut get => panic!("shown before it is synced"),
            () = tokio::task::yield_now() => {}
        }
    }
    drop(held);
    assert_eq!((create.await.0, get.await.0), (201, 200));
}

#[tokio::test]
async fn dur_001_a_server_continues_with_its_definitions_and_finishes_deletions() {
    let disk = MemoryDisk::default();
    let server = start(&disk).await;
    let service = server.service();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                          "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(call(&service, Method::POST, definitions, &definition.to_string()).await.0, 201);
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = json!({"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "w"}, "spec": {"n": 1}});
    assert_eq!(call(&service, Method::POST, widgets, &widget.to_string()).await.0, 201);
    let paths = [definitions.to_owned(), widgets.to_owned(), "/api/v1/namespaces".to_owned()];
    let mut before = Vec::new();
    for path in &paths {
        before.push(call(&service, Method::GET, path, "").await);
    }
    server.shutdown().await;
    assert_eq!(call(&service, Method::POST, widgets, &widget.to_string()).await.0, 503, "the directory is released");

    let again = start(&disk).await;
    for (path, before) in paths.iter().zip(before) {
        assert_eq!(call(&again.service(), Method::GET, path, "").await, before, "{path}");
    }
    let (code, _) = call(&again.service(), Method::DELETE, &format!("{definitions}/widgets.example.com"), "").await;
    assert_eq!(code, 200);
    assert_eq!(call(&again.service(), Method::GET, widgets, "").await.0, 404);
}

fn value((code, body): (u16, String)) -> (u16, Value) {
    (code, serde_json::from_str(&body).unwrap())
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn dur_007_continue_tokens_and_exact_lists_work_after_a_restart() {
    let disk = MemoryDisk::default();
    let server = start(&disk).await;
    let service = server.service();
    for name in ["a", "b", "c", "d", "e"] {
        assert_eq!(call(&service, Method::POST, CONFIG_MAPS, &config_map(name)).await.0, 201);
    }
    let (_, first) = value(call(&service, Method::GET, &format!("{CONFIG_MAPS}?limit=2"), "").await);
    let version = first["metadata"]["resourceVersion"].as_str().unwrap();
    let next = format!("{CONFIG_MAPS}?limit=2&continue={}", first["metadata"]["continue"].as_str().unwrap());
    let exact = format!("{CONFIG_MAPS}?resourceVersion={version}&resourceVersionMatch=Exact");
    assert_eq!(call(&service, Method::DELETE, &format!("{CONFIG_MAPS}/c"), "").await.0, 200);
    assert_eq!(call(&service, Method::POST, CONFIG_MAPS, &config_map("bb")).await.0, 201);
    let mut before = Vec::new();
    for path in [&next, &exact] {
        before.push(call(&service, Method::GET, path, "").await);
    }
    let killed = disk.after_kill();
    server.shutdown().await;

    for disk in [&killed, &disk] {
        let again = start(&disk.after_kill()).await;
        for (path, before) in [&next, &exact].into_iter().zip(&before) {
            assert_eq!(&call(&again.service(), Method::GET, path, "").await, before, "{path}");
        }
        let (_, page) = value(call(&again.service(), Method::GET, &next, "").await);
        assert_eq!(names(&page), ["c", "d"], "as at the first page");

        let settings = Settings { history: History { events: 1, ..History::default() }, ..Settings::default() };
        let short = start_with(&disk.after_kill(), settings, CountingEnv::default()).await;
        let (code, status) = value(call(&short.service(), Method::GET, &exact, "").await);
        assert_eq!((code, &status["reason"]), (410, &json!("Expired")), "LST-8: {status}");
        let (code, status) = value(call(&short.service(), Method::GET, &next, "").await);
        assert_eq!((code, &status["reason"]), (410, &json!("Expired")), "LST-9: {status}");
        let rest = format!("{CONFIG_MAPS}?continue={}", status["metadata"]["continue"].as_str().unwrap());
        let (code, list) = value(call(&short.service(), Method::GET, &rest, "").await);
        assert_eq!((code, names(&list)), (200, vec!["bb", "d", "e"]), "the rest, of now");
    }
}

#[tokio::test]
async fn dur_006_a_restart_may_drop_the_history() {
    let disk = MemoryDisk::default();
    let server = start(&disk).await;
    let (_, created) = value(call(&server.service(), Method::POST, CONFIG_MAPS, &config_map("a")).await);
    let version = created["metadata"]["resourceVersion"].as_str().unwrap();
    let exact = format!("{CONFIG_MAPS}?resourceVersion={version}&resourceVersionMatch=Exact");
    let watch = format!("{CONFIG_MAPS}?watch=true&resourceVersion={version}");
    server.shutdown().await;

    let settings = Settings { history_after_restart: HistoryAfterRestart::Drop, ..Settings::default() };
    let dropped = start_with(&disk, settings, CountingEnv::default()).await;
    let check = async |server: &ApiServer| {
        assert_eq!(call(&server.service(), Method::GET, &exact, "").await.0, 410);
        let (_, event) = value(call(&server.service(), Method::GET, &watch, "").await);
        assert_eq!(event["object"]["code"], 410, "the version of the latest write, too: {event}");
        let (code, list) = value(call(&server.service(), Method::GET, CONFIG_MAPS, "").await);
        assert_eq!((code, names(&list)), (200, vec!["a"]));
    };
    check(&dropped).await;
    let killed = disk.after_kill();
    drop(dropped);
    check(&start(&killed).await).await;
}

#[tokio::test]
async fn dur_004_a_restart_continues_the_deletion_of_a_namespace() {
    let disk = MemoryDisk::default();
    let server = start(&disk).await;
    let service = server.service();
    let namespaces = "/api/v1/namespaces";
    let (namespace, inside) = (format!("{namespaces}/n"), format!("{namespaces}/n/configmaps"));
    let sent = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "n"}}).to_string();
    assert_eq!(call(&service, Method::POST, namespaces, &sent).await.0, 201);
    for number in 0..1010 {
        let object = config_map(&format!("c{number}"));
        assert_eq!(call(&service, Method::POST, &inside, &object).await.0, 201);
    }
    let mut deletion = Box::pin(call(&service, Method::DELETE, &namespace, ""));
    assert!(poll_fn(|cx| Poll::Ready(deletion.as_mut().poll(cx).is_pending())).await, "some steps are left");
    // A response shows what is durable.
    let (_, list) = value(call(&service, Method::GET, &inside, "").await);
    assert_eq!(names(&list).len(), 10);
    let again = start(&disk.after_kill()).await;
    let (_, list) = value(call(&again.service(), Method::GET, &inside, "").await);
    assert_eq!(names(&list), [""; 0]);
    assert_eq!(call(&again.service(), Method::GET, &namespace, "").await.0, 404);
}

#[tokio::test]
async fn dur_008_addresses_stay_assigned_and_events_expire_by_the_time_of_day() {
    let disk = MemoryDisk::default();
    let server = start(&disk).await;
    let services = "/api/v1/namespaces/default/services";
    let service = |name: &str| {
        let spec = json!({"type": "NodePort", "ports": [{"port": 80}]});
        json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec}).to_string()
    };
    let assigned =
        |service: &Value| (service["spec"]["clusterIP"].clone(), service["spec"]["ports"][0]["nodePort"].clone());
    let (_, first) = value(call(&server.service(), Method::POST, services, &service("first")).await);
    let events = "/api/v1/namespaces/default/events";
    let involved = json!({"kind": "Pod", "namespace": "default", "name": "p"});
    let event = json!({"kind": "Event", "apiVersion": "v1", "metadata": {"name": "e"}, "involvedObject": involved});
    assert_eq!(call(&server.service(), Method::POST, events, &event.to_string()).await.0, 201);
    server.shutdown().await;

    // The random numbers are those of the first server.
    let later = |second| start_with(&disk, Settings::default(), CountingEnv { second, ..CountingEnv::default() });
    let soon = later(30 * 60).await;
    let (code, second) = value(call(&soon.service(), Method::POST, services, &service("second")).await);
    assert_eq!(code, 201, "{second}");
    let ((address, port), (other_address, other_port)) = (assigned(&first), assigned(&second));
    assert!(address.is_string() && port.is_u64(), "{first}");
    assert!(address != other_address && port != other_port, "{second}");
    soon.shared.handler.tick();
    assert_eq!(call(&soon.service(), Method::GET, &format!("{events}/e"), "").await.0, 200);
    soon.shutdown().await;

    let late = later(2 * 60 * 60).await;
    late.shared.handler.tick();
    assert_eq!(call(&late.service(), Method::GET, &format!("{events}/e"), "").await.0, 404);
}
