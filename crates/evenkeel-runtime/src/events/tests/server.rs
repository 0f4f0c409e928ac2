//! Against an API server.

use evenkeel_apiserver::{Action, ApiServer, Rule};
use evenkeel_client::{Client, ListParams};
use evenkeel_core::Obj;
use k8s_openapi::api::core::v1::{self as core, Pod};
use k8s_openapi::api::events::v1 as events;

use super::super::EventsApi;
use super::*;

/// A pod in the namespace `default`.
async fn pod(client: &Client) -> Obj<Pod> {
    let pod = serde_json::json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    });
    client.core_v1().pods("default").create(&serde_json::from_value(pod).unwrap()).await.unwrap()
}

async fn old_events(client: &Client) -> Vec<Arc<core::Event>> {
    let listed = client.core_v1().events("default").list(&ListParams::default()).await.unwrap();
    listed.into_iter().map(|event| event.typed().unwrap()).collect()
}

async fn new_events(client: &Client) -> Vec<Arc<events::Event>> {
    let listed = client.api::<events::Event>().namespace("default").list(&ListParams::default()).await.unwrap();
    listed.into_iter().map(|event| event.typed().unwrap()).collect()
}

async fn server() -> ApiServer {
    ApiServer::builder().in_process_only().start().await.unwrap()
}

fn recorder(client: &Client, api: EventsApi) -> EventRecorder {
    EventRecorder::builder(client, "example.com/tester").api(api).clock(clock()).build()
}

#[tokio::test(start_paused = true)]
async fn events_of_v1_are_written_and_counted() {
    let server = server().await;
    let client = server.client();
    let (pod, recorder) = (pod(&client).await, recorder(&client, EventsApi::Core));
    for _ in 0..3 {
        recorder.event(&pod, EventType::Warning, "FailedCreate", "could not create a thing");
        recorder.flush().await;
    }
    let written = old_events(&client).await;
    assert_eq!(written.len(), 1);
    let event = &written[0];
    assert_eq!((event.count, event.message.as_deref()), (Some(3), Some("could not create a thing")));
    assert_eq!(event.involved_object.uid.as_deref(), Some(pod.uid()));
    assert_eq!(event.involved_object.kind.as_deref(), Some("Pod"));
    assert_eq!(event.source.as_ref().unwrap().component.as_deref(), Some("example.com/tester"));
}

#[tokio::test(start_paused = true)]
async fn events_of_the_newer_api_are_written_as_series() {
    let server = server().await;
    let client = server.client();
    let (pod, recorder) = (pod(&client).await, recorder(&client, EventsApi::Events));
    for _ in 0..4 {
        recorder.event(&pod, EventType::Normal, "Created", "x".repeat(2000));
        recorder.flush().await;
    }
    recorder.shutdown().await;
    let written = new_events(&client).await;
    assert_eq!(written.len(), 1);
    let event = &written[0];
    assert_eq!(event.series.as_ref().unwrap().count, 4);
    assert_eq!((event.action.as_deref(), event.note.as_ref().unwrap().len()), (Some("Created"), 1024));
    assert_eq!(event.reporting_controller.as_deref(), Some("example.com/tester"));
    assert_eq!(event.regarding.as_ref().unwrap().name.as_deref(), Some("web"));
}

#[tokio::test(start_paused = true)]
async fn en_017_the_api_is_discovered() {
    let server = server().await;
    let client = server.client();
    let pod = pod(&client).await;
    server.faults().add(Rule::new(Action::Drop).times(1));
    let newer = recorder(&client, EventsApi::Discover);
    newer.event(&pod, EventType::Normal, "Created", "n");
    newer.flush().await;
    assert!(new_events(&client).await[0].event_time.is_some(), "an answer that was lost is asked for again");
    let old = ApiServer::builder().in_process_only().start().await.unwrap();
    let client = old.client();
    let not_found = evenkeel_core::Status::not_found("events.k8s.io", "v1", "");
    old.faults().add(Rule::new(Action::Status(Box::new(not_found))).times(1));
    let older = recorder(&client, EventsApi::Discover);
    older.event(&pod, EventType::Normal, "Created", "n");
    older.flush().await;
    assert!(old_events(&client).await[0].event_time.is_none());
}

#[tokio::test(start_paused = true)]
async fn ev_007_an_event_survives_429_500_503_and_lost_connections() {
    for api in [EventsApi::Core, EventsApi::Events] {
        let server = server().await;
        let client = server.client();
        let (pod, recorder) = (pod(&client).await, recorder(&client, api));
        for (code, after) in [(429, Some(20)), (500, None), (503, Some(1)), (503, None)] {
            server.faults().fail_next(1, code, after);
        }
        server.faults().add(Rule::new(Action::CommitThenDrop).times(1));
        let start = Instant::now();
        recorder.event(&pod, EventType::Warning, "R", "n");
        recorder.flush().await;
        let took = start.elapsed();
        assert!(took >= seconds(50), "the server was given the time that it asked for: {took:?}");
        assert_eq!(old_events(&client).await.len(), 1, "{api:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn ev_007_rejected_events_are_not_retried() {
    let server = server().await;
    let client = server.client();
    for api in [EventsApi::Core, EventsApi::Events] {
        let recorder = recorder(&client, api);
        let start = Instant::now();
        let nowhere = reference("Pod", "web");
        recorder.event(&nowhere, EventType::Warning, "R", "the namespace is not there");
        recorder.flush().await;
        assert_eq!(start.elapsed(), Duration::ZERO, "{api:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn en_015_an_event_without_a_namespace_is_refused() {
    let server = server().await;
    let client = server.client();
    let (old, new) = (core::Event::default(), events::Event::default());
    for error in [
        client.create(&old).await.unwrap_err(),
        client.patch(&old, &Value::Null).await.unwrap_err(),
        client.create(&new).await.unwrap_err(),
        client.patch(&new, &Value::Null).await.unwrap_err(),
    ] {
        assert!(matches!(error, SinkError::Refused { .. }), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_deleted_on_the_server_is_created_again() {
    let server = server().await;
    let client = server.client();
    let (pod, recorder) = (pod(&client).await, recorder(&client, EventsApi::Core));
    recorder.event(&pod, EventType::Warning, "R", "n");
    recorder.flush().await;
    let name = old_events(&client).await[0].metadata.name.clone().unwrap();
    client.core_v1().events("default").delete(&name).await.unwrap();
    recorder.event(&pod, EventType::Warning, "R", "n");
    recorder.flush().await;
    let written = old_events(&client).await;
    assert_eq!((written.len(), written[0].count), (1, Some(2)));
}
