//! Metric names and buckets.

use std::time::Duration;

use evenkeel_queue::WorkQueue;
use metrics::{counter, histogram, with_local_recorder};

use super::*;

#[tokio::test(start_paused = true)]
async fn whs_013_the_latency_of_webhooks_has_twelve_buckets() {
    let (recorder, metrics) = Prometheus::recorder().unwrap();
    with_local_recorder(&recorder, || {
        histogram!("controller_runtime_webhook_latency_seconds", "webhook" => "/x").record(0.3);
    });
    metrics.upkeep();
    let site = HealthSite { metrics: Some(Box::new(metrics.clone())), ..site(&Health::new()) };
    let (_, text) = get(&site, "/metrics").await;
    let buckets = text.lines().filter(|line| line.starts_with("controller_runtime_webhook_latency_seconds_bucket"));
    let counts: Vec<_> = buckets.filter_map(|line| line.rsplit_once(' ')).map(|(_, count)| count).collect();
    // From 10 ns by ten to 1,000 s, and the rest.
    assert_eq!(counts, [["0"; 8].as_slice(), ["1"; 5].as_slice()].concat(), "{text}");
}

#[tokio::test(start_paused = true)]
async fn co_029_metrics_have_client_go_names_and_buckets() {
    let (recorder, metrics) = Prometheus::recorder().unwrap();
    with_local_recorder(&recorder, || {
        let queue = WorkQueue::rate_limited("foos");
        queue.add("a");
        queue.try_next().unwrap().forget();
        counter!("controller_runtime_reconcile_total", "controller" => "foos", "result" => "success").increment(1);
        histogram!("controller_runtime_reconcile_time_seconds", "controller" => "foos").record(0.3);
        histogram!("rest_client_request_duration_seconds", "verb" => "GET", "host" => "h").record(0.2);
        histogram!("informer_processing_latency_seconds", "name" => "pods").record(0.003);
        histogram!("something_else_seconds").record(Duration::from_secs(1));
    });
    metrics.upkeep();
    let site = HealthSite { metrics: Some(Box::new(metrics.clone())), ..site(&Health::new()) };
    let (code, text) = get(&site, "/metrics").await;
    assert_eq!(code, StatusCode::OK);
    for line in [
        "# TYPE workqueue_adds_total counter",
        "workqueue_adds_total{name=\"foos\"} 1",
        "# TYPE workqueue_depth gauge",
        "# TYPE workqueue_work_duration_seconds histogram",
        "workqueue_work_duration_seconds_bucket{name=\"foos\",le=\"0.00000001\"} 1",
        "workqueue_work_duration_seconds_bucket{name=\"foos\",le=\"1000\"} 1",
        "workqueue_work_duration_seconds_count{name=\"foos\"} 1",
        "controller_runtime_reconcile_total{controller=\"foos\",result=\"success\"} 1",
        "controller_runtime_reconcile_time_seconds_bucket{controller=\"foos\",le=\"0.25\"} 0",
        "controller_runtime_reconcile_time_seconds_bucket{controller=\"foos\",le=\"0.3\"} 1",
        "controller_runtime_reconcile_time_seconds_bucket{controller=\"foos\",le=\"60\"} 1",
        "rest_client_request_duration_seconds_bucket{verb=\"GET\",host=\"h\",le=\"60\"} 1",
        "informer_processing_latency_seconds_bucket{name=\"pods\",le=\"0.005\"} 1",
        "something_else_seconds_bucket{le=\"+Inf\"} 1",
    ] {
        assert!(text.lines().any(|report| report == line), "{line}\nis not in\n{text}");
    }
}

#[test]
fn co_029_reconciles_are_timed_in_controller_runtimes_buckets() {
    let sorted = RECONCILE_TIME_BUCKETS.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(sorted && RECONCILE_TIME_BUCKETS[0] == 0.005 && RECONCILE_TIME_BUCKETS[39] == 60.0);
}
