//! The endpoints of a program, as Prometheus and a kubelet read them.

#![cfg(feature = "prometheus")]
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use evenkeel_apiserver::ApiServer;
use evenkeel_cache::InformerFactory;
use evenkeel_queue::WorkQueue;
use evenkeel_runtime::enqueue_key;
use evenkeel_runtime::health::{Check, Diagnostics, Health, HealthServer, Prometheus, QueueLimits, Source};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn get(server: &HealthServer, path: &str) -> String {
    let mut stream = TcpStream::connect(server.address().unwrap()).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn co_029_metrics_and_probes_have_the_expected_names() {
    let metrics = Prometheus::install().unwrap();
    let again = Prometheus::install().unwrap_err();
    assert_eq!(again.to_string(), "the process already has a metrics recorder");

    let api = ApiServer::start().await.unwrap();
    let client = api.client();
    let informers = InformerFactory::builder(&client).build();
    let maps = informers.of::<ConfigMap>();
    let queue = WorkQueue::rate_limited("maps");
    maps.add_handler(enqueue_key(&queue)).unwrap();
    let (health, diagnostics) = (Health::new(), Diagnostics::new());
    health.ready().add(Check::synced(&maps)).unwrap();
    health.live().add(Check::queue(&queue, QueueLimits::default())).unwrap();
    diagnostics.add(Source::informer(&maps));
    diagnostics.add(Source::queue("maps", &queue));
    let builder = HealthServer::builder(&health).metrics(metrics).diagnostics(&diagnostics);
    let server = builder.address("127.0.0.1:0").start().await.unwrap();

    assert!(get(&server, "/readyz").await.contains("-synced failed: the informer has not synced yet\n"));
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    let map = serde_json::from_value(serde_json::json!({"metadata": {"name": "a"}})).unwrap();
    client.api::<ConfigMap>().namespace("default").create(&map).await.unwrap();
    queue.next().await.unwrap().forget();
    assert!(get(&server, "/readyz").await.ends_with("\r\n\r\nok"));
    assert!(get(&server, "/livez?verbose").await.ends_with("\r\n\r\n[+]queue-maps ok\nlivez check passed\n"));

    let metrics_text = get(&server, "/metrics").await;
    assert!(metrics_text.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics_text}");
    for start in [
        "# HELP workqueue_depth ",
        "workqueue_adds_total{name=\"maps\"} ",
        "workqueue_queue_duration_seconds_bucket{name=\"maps\",le=\"+Inf\"} ",
        "# HELP rest_client_requests_total ",
        "rest_client_requests_total{code=\"201\",method=\"POST\",",
        "rest_client_request_duration_seconds_bucket{",
        "# HELP reflector_lists_total ",
        "reflector_lists_total{name=",
        "informer_store_objects{",
    ] {
        assert!(metrics_text.lines().any(|line| line.starts_with(start)), "{start}\nnot in\n{metrics_text}");
    }
    assert!(!metrics_text.contains("quantile="), "histograms have buckets:\n{metrics_text}");
    let state = get(&server, "/debug/informers").await;
    assert!(state.contains("\"kind\": \"ConfigMap\"") && state.contains("\"synced\": true"), "{state}");
    server.shutdown().await;
}
