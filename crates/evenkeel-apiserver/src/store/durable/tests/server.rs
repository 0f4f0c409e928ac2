//! A server on a disk that fails.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use serde_json::Value;
use tower_service::Service;

use super::*;
use crate::engine::{ApiEngine, Settings};
use crate::env::Env;
use crate::{ApiServer, InProcess};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Time stands still, and random numbers are counted.
#[derive(Default)]
struct CountingEnv(AtomicU64);

impl Env for CountingEnv {
    fn wall(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn random(&self) -> u64 {
        evenkeel_base::hash::spread(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

async fn start(disk: &MemoryDisk) -> ApiServer {
    let opened = Store::open(History::default(), Arc::new(disk.clone()), Fsync::Always, false, Arc::default()).unwrap();
    let settings = Settings { opened: Some(Arc::new(opened)), ..Settings::default() };
    let engine = Arc::new(ApiEngine::new(settings, Arc::new(CountingEnv::default())));
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
