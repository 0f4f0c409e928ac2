//! Clusters without a connection.

use evenkeel_apiserver::{Action, Rule};
use k8s_openapi::api::core::v1::Secret;
use tokio::sync::watch;

use super::*;

/// Starts a controller that waits for `go`, and then creates a Secret for each ConfigMap.
fn start_writing(clusters: &Clusters, name: &str, log: &Log, go: &watch::Sender<bool>) -> Running {
    let (log, go) = (log.clone(), go.subscribe());
    start(controller(clusters, name).concurrency(2), move |map, ctx| {
        let (log, mut go) = (log.clone(), go.clone());
        async move {
            let _ = go.wait_for(|go| *go).await;
            let secret: Secret = serde_json::from_value(json!({"metadata": {"name": map.key().name()}}))?;
            let created = ctx.api::<Secret>().namespace("default").create(&secret).await;
            log.note(format!("{} {}", ctx.cluster(), if created.is_ok() { "succeeds" } else { "fails" }));
            created?;
            Ok(Next::done())
        }
    })
}

#[tokio::test(start_paused = true)]
async fn mcl_007_keys_are_parked_after_five_requests_without_a_connection() {
    let (eu, us, log) = (server_with(20).await, server_with(3).await, Log::new());
    let (clusters, go) = (Clusters::new(), watch::Sender::new(false));
    clusters.engage("eu", &eu.client());
    let running = start_writing(&clusters, "mcl-007-park", &log, &go);
    settle().await;
    eu.faults().add(Rule::new(Action::Drop));
    go.send_replace(true);
    settle().await;
    assert_eq!(log.take(), ["eu fails"; 5], "no reconcile follows the fifth");
    let status = clusters.get("eu").unwrap().status();
    assert!(status.is_parked && status.parked_keys >= 14, "{status:?}");
    assert_eq!(status.requests.without_connection, 5);
    let message = status.last_failure.unwrap().message;
    assert!(message.starts_with("POST /api/v1/namespaces/default/secrets: "), "{message}");

    clusters.engage("us", &us.client());
    settle().await;
    assert_eq!(log.take(), ["us succeeds"; 3], "parked keys occupy no worker");

    // The probes: after 1, 3, 7 and 15 seconds.
    sleep(secs(16)).await;
    assert_eq!(clusters.get("eu").unwrap().status().requests.without_connection, 9);
    assert_eq!(log.take(), Vec::<String>::new());
    eu.faults().clear();
    sleep(secs(16)).await;
    let status = clusters.get("eu").unwrap().status();
    assert!(!status.is_parked && status.parked_keys == 0, "{status:?}");
    assert_eq!(log.take(), ["eu succeeds"; 20], "one response releases them all");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn mcl_007_a_response_in_between_parks_nothing() {
    let (eu, log) = (server_with(1).await, Log::new());
    let (clusters, go) = (Clusters::new(), watch::Sender::new(true));
    eu.faults().add(Rule::new(Action::Drop).verb("create").times(4));
    eu.faults().add(
        Rule::new(Action::Status(Box::new(evenkeel_core::Status::failure(
            500,
            evenkeel_core::Reason::INTERNAL_ERROR,
            "for now",
        ))))
        .verb("create")
        .times(1),
    );
    eu.faults().add(Rule::new(Action::Drop).verb("create").times(4));
    clusters.engage("eu", &eu.client());
    let running = start_writing(&clusters, "mcl-007-mixed", &log, &go);
    sleep(secs(30)).await;
    let lines = log.take();
    assert_eq!((lines.len(), lines.last().map(String::as_str)), (10, Some("eu succeeds")));
    let requests = clusters.get("eu").unwrap().status().requests;
    assert_eq!(requests.without_connection, 8);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn mcl_007_a_parked_cluster_can_be_disengaged() {
    let (eu, log) = (server_with(20).await, Log::new());
    let (clusters, go) = (Clusters::new(), watch::Sender::new(true));
    eu.faults().add(Rule::new(Action::Drop).verb("create"));
    eu.faults().add(Rule::new(Action::Hang).verb("get"));
    let before = alive_tasks();
    let running = start_writing(&clusters, "mcl-007-leave", &log, &go);
    settle().await;
    let idle = alive_tasks();
    clusters.engage("eu", &eu.client());
    sleep(secs(60)).await;
    assert!(clusters.get("eu").unwrap().status().is_parked);
    assert!(clusters.disengage("eu").await);
    settle().await;
    assert_eq!(alive_tasks(), idle);
    running.end().await.unwrap();
    settle().await;
    assert_eq!(alive_tasks(), before);
}
