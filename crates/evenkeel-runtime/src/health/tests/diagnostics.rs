//! Reports on informers, queues and errors.

use std::time::Duration;

use evenkeel_apiserver::ApiServer;
use evenkeel_cache::{Event, InformerFactory};
use evenkeel_queue::WorkQueue;
use k8s_openapi::api::core::v1::Secret;
use serde_json::json;
use tokio::time::{Instant, advance};

use super::super::diagnostics::ErrorRing;
use super::*;

#[tokio::test(start_paused = true)]
async fn queue_diagnostics_show_sizes_and_ages() {
    let queue = WorkQueue::rate_limited("foos");
    let diagnostics = Diagnostics::new();
    diagnostics.add(Source::queue("foos", &queue));
    queue.add("ready");
    queue.add_after("later", Duration::from_secs(60));
    queue.add_rate_limited("failed");
    advance(Duration::from_millis(1)).await;
    let report = &diagnostics.report()["queues"]["foos"];
    for (member, value) in [("ready", 1), ("waiting", 2), ("failing", 1), ("processing", 0), ("adds", 1)] {
        assert_eq!(report[member], value, "{member}");
    }
    assert_eq!(report["oldest_ready_seconds"], 0.001);
    assert_eq!(report["longest_running_seconds"], json!(null));
    assert_eq!(report["shutting_down"], false);
    assert!(diagnostics.remove("queues", "foos"));
    assert!(!diagnostics.remove("queues", "foos"));
    assert_eq!(diagnostics.report(), json!({"errors": []}));
}

#[tokio::test]
async fn informer_diagnostics_show_state_and_no_object_contents() {
    let server = ApiServer::builder().in_process_only().start().await.unwrap();
    let client = server.client();
    let secret: Secret =
        serde_json::from_value(json!({"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}})).unwrap();
    client.api::<Secret>().namespace("default").create(&secret).await.unwrap();
    let informers = InformerFactory::builder(&client).build();
    let secrets = informers.of::<Secret>();
    secrets.add_handler(|_: Event<Secret>| {}).unwrap();
    let diagnostics = Diagnostics::new();
    diagnostics.add(Source::informer(&secrets));
    let name = secrets.name().to_owned();
    assert_eq!(diagnostics.report()["informers"][&name]["last_received_seconds_ago"], json!(null));
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();

    let report = diagnostics.report();
    let report = &report["informers"][&name];
    assert_eq!((&report["kind"], &report["api_version"]), (&json!("Secret"), &json!("v1")));
    assert_eq!((&report["synced"], &report["objects"]), (&json!(true), &json!(1)));
    assert_eq!((&report["relists"], &report["failures"], &report["last_error"]), (&json!(0), &json!(0), &json!(null)));
    assert!(report["last_received_seconds_ago"].is_number());
    assert_eq!(report["resource_version"], secrets.indexer().resource_version().as_str());
    assert_eq!(report["handlers"].as_object().unwrap().len(), 1);
    let text = report.to_string();
    assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{text}");
}

#[tokio::test]
async fn a_panicking_source_does_not_affect_others() {
    let diagnostics = Diagnostics::new();
    diagnostics.add(Source::new("own", "bad", || panic!("oh no")));
    diagnostics.add(Source::new("own", "good", || json!(1)));
    diagnostics.add(Source::new("own", "good", || json!(2)));
    assert_eq!(diagnostics.section("own"), Some(json!({"bad": {"error": "looking at this panicked"}, "good": 2})));
    assert_eq!(format!("{diagnostics:?}"), r#"{"own": ["bad", "good"]}"#);
}

#[tokio::test(start_paused = true)]
async fn the_last_errors_are_kept_and_repeated_ones_counted() {
    let now = Instant::now();
    let mut ring = ErrorRing::default();
    for number in 0..200 {
        ring.push(now, "foos", &format!("default/{number}"), "broken");
    }
    for _ in 0..3 {
        ring.push(now + Duration::from_secs(1), "foos", "default/last", &format!("b\n{}", "x".repeat(5000)));
    }
    let report = ring.report(now + Duration::from_secs(3));
    let report = report.as_array().unwrap();
    assert_eq!(report.len(), 100);
    assert_eq!((&report[0]["key"], &report[0]["count"]), (&json!("default/last"), &json!(3)));
    assert_eq!((&report[0]["controller"], &report[0]["seconds_ago"]), (&json!("foos"), &json!(2.0)));
    assert_eq!(report[0]["error"].as_str().unwrap().len(), 1024 + "…".len());
    assert_eq!(report[99]["key"], "default/101");
}
