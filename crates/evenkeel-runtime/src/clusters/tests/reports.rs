//! Readiness, diagnostics and metrics.

use std::collections::BTreeSet;

use evenkeel_apiserver::{Action, Rule};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::health::{Diagnostics, Health, HealthServer, MetricsSource};

async fn ready(health: &Health) -> Option<String> {
    health.ready().run_all(&BTreeSet::new()).await.into_iter().find_map(|check| check.failure)
}

#[tokio::test(start_paused = true)]
async fn mcl_008_readiness_counts_the_home_cluster_alone() {
    let (home, eu, log) = (server_with(1).await, server().await, Log::new());
    let (clusters, health) = (Clusters::home(&home.client()), Health::new());
    health.ready().add(clusters.home_check()).unwrap();
    assert_eq!(ready(&health).await, None, "no controller runs, as in a standby");
    for server in [&home, &eu] {
        server.faults().fail_next(u64::MAX, 503, None);
    }
    clusters.engage("eu", &eu.client());
    let running = start_recording(controller(&clusters, "mcl-008"), &log);
    settle().await;
    assert_eq!(ready(&health).await.unwrap(), "the caches have not synced");
    sleep(secs(30)).await;
    let reason = ready(&health).await.unwrap();
    assert!(reason.starts_with("the caches have not synced: controller mcl-008: caches not synced"), "{reason}");
    home.faults().clear();
    sleep(secs(60)).await;
    assert_eq!(ready(&health).await, None, "the other cluster does not count");
    assert!(!clusters.get("eu").unwrap().status().is_synced);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn mcl_008_diagnostics_show_each_cluster_until_it_is_disengaged() {
    let (eu, us, log) = (server_with(3).await, server().await, Log::new());
    let (clusters, diagnostics) = (Clusters::new(), Diagnostics::new());
    clusters.engage("eu", &eu.client());
    clusters.diagnostics(&diagnostics);
    us.faults().add(Rule::new(Action::Hang));
    clusters.engage("us", &us.client());
    let running = start_recording(controller(&clusters, "mcl-008-debug"), &log);
    sleep(secs(30)).await;
    settle().await;
    let section = diagnostics.section("clusters").unwrap();
    let eu_report = &section["eu"];
    assert_eq!(
        (&eu_report["engaged"], &eu_report["synced"], &eu_report["keys_parked"]),
        (&true.into(), &true.into(), &0.into())
    );
    assert_eq!(eu_report["engaged_seconds_ago"].as_f64().map(f64::floor), Some(30.0));
    assert_eq!(eu_report["last_error"], Value::Null);
    let cache = &eu_report["controllers"]["mcl-008-debug"]["caches"]["mcl-008-debug@eu/configmaps"];
    assert_eq!(*cache, json!({"objects": 3, "synced": true}));
    let us_report = &section["us"];
    assert_eq!(us_report["synced"], false);
    assert_eq!(us_report["controllers"]["mcl-008-debug"]["phase"], "waiting to try again");
    assert!(us_report["last_error"]["message"].as_str().unwrap().contains("caches not synced within 30s"), "{section}");

    clusters.disengage("eu").await;
    assert_eq!(diagnostics.section("clusters").unwrap().as_object().unwrap().keys().collect::<Vec<_>>(), ["us"]);
    running.end().await.unwrap();
    drop(clusters);
    assert_eq!(diagnostics.section("clusters"), None);
}

#[tokio::test]
async fn mcl_008_the_health_server_has_debug_clusters() {
    let eu = server().await;
    let (clusters, diagnostics) = (Clusters::new(), Diagnostics::new());
    clusters.diagnostics(&diagnostics);
    clusters.engage("eu", &eu.client());
    let server = HealthServer::builder(&Health::new()).diagnostics(&diagnostics).address("127.0.0.1:0");
    let server = server.start().await.unwrap();
    let mut stream = TcpStream::connect(server.address().unwrap()).await.unwrap();
    stream.write_all(b"GET /debug/clusters HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["eu"]["engaged"], true);
}

#[tokio::test(start_paused = true)]
async fn mcl_011_metrics_have_the_label_cluster_and_go_with_it() {
    let (eu, us, log) = (server_with(3).await, server_with(1).await, Log::new());
    let clusters = Clusters::new();
    clusters.engage("eu", &eu.client());
    clusters.engage("us", &us.client());
    let running = start_recording(controller(&clusters, "mcl-011"), &log);
    settle().await;
    let metrics = clusters.metrics(|| "up 1".to_owned());
    let text = metrics.render();
    for line in [
        "up 1",
        "# TYPE cluster_cache_objects gauge",
        "cluster_cache_objects{cluster=\"eu\",controller=\"mcl-011\",informer=\"mcl-011@eu/configmaps\"} 3",
        "cluster_engaged{cluster=\"us\"} 1",
        "cluster_synced{cluster=\"us\"} 1",
        "cluster_queue_depth{cluster=\"eu\",controller=\"mcl-011\"} 0",
        "cluster_queue_adds_total{cluster=\"eu\",controller=\"mcl-011\"} 3",
        "cluster_requests_total{cluster=\"eu\",result=\"no_connection\"} 0",
    ] {
        assert!(text.lines().any(|known| known == line), "{line} is not in\n{text}");
    }
    clusters.disengage("eu").await;
    let text = metrics.render();
    assert!(!text.contains("\"eu\"") && text.contains("\"us\""), "{text}");
    running.end().await.unwrap();
    drop(clusters);
    assert_eq!(metrics.render(), "up 1\n");
}

#[tokio::test(start_paused = true)]
async fn mcl_011_the_metrics_of_the_controller_are_the_sums_over_its_clusters() {
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    let recorder = DebuggingRecorder::new();
    let (eu, us, log) = (server_with(3).await, server_with(2).await, Log::new());
    let clusters = Clusters::new();
    clusters.engage("eu", &eu.client());
    let built = controller(&clusters, "mcl-011-sums").concurrency(3);
    let _installed = ::metrics::set_default_local_recorder(&recorder);
    let running = start_recording(built, &log);
    settle().await;
    clusters.engage("us", &us.client());
    settle().await;
    let snapshot = recorder.snapshotter().snapshot().into_vec();
    let value = |name: &str| {
        let wanted = snapshot.iter().filter(|(key, ..)| key.key().name() == name);
        let values = wanted.map(|(key, _, _, value)| {
            let labels: Vec<_> = key.key().labels().map(|label| (label.key(), label.value())).collect();
            assert_eq!(labels, [("controller", "mcl-011-sums")], "one series for all clusters");
            match value {
                DebugValue::Counter(count) => *count as f64,
                DebugValue::Gauge(value) => value.into_inner(),
                DebugValue::Histogram(values) => values.len() as f64,
            }
        });
        values.collect::<Vec<_>>()
    };
    assert_eq!(value("controller_runtime_max_concurrent_reconciles"), [3.0]);
    assert_eq!(value("controller_runtime_active_workers"), [0.0]);
    assert_eq!(value("controller_runtime_reconcile_time_seconds"), [5.0]);
    running.end().await.unwrap();
}
