//! Requests to an embedded API server with injected faults.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_apiserver::{Action, ApiServer, Rule};
use evenkeel_client::transport::TransportFault;
use evenkeel_client::{Client, Error, Path, Request};
use evenkeel_core::{ResourceInfo, WatchEvent};
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::time::Instant;

struct Fixture {
    server: ApiServer,
    client: Client,
    info: Arc<ResourceInfo>,
}

impl Fixture {
    async fn new() -> Self {
        let server = ApiServer::start().await.unwrap();
        let client = server.client();
        let info = client.resource::<ConfigMap>();
        Fixture { server, client, info }
    }

    fn path(&self) -> Path<'_> {
        Path::resource(&self.info).namespace("default")
    }

    fn create(&self, name: &str) -> Request {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        self.client.request(Method::POST, self.path()).json(&body)
    }

    fn get(&self, name: &str) -> Request {
        self.client.request(Method::GET, self.path().name(name))
    }

    fn all(&self) -> Request {
        self.client.request(Method::GET, self.path())
    }

    async fn names(&self) -> Vec<String> {
        let list = self.all().list::<ConfigMap>(&self.info).await.unwrap();
        list.into_iter()
            .map(|object| object.key().name().to_owned())
            .filter(|name| name != "kube-root-ca.crt")
            .collect()
    }
}

#[tokio::test(start_paused = true)]
async fn rrt_002_reads_and_writes_survive_a_series_of_429s() {
    let fixture = Fixture::new().await;
    let started = Instant::now();
    fixture.server.faults().fail_next(3, 429, Some(2));
    assert!(fixture.create("a").send().await.unwrap().was_created());
    let took = started.elapsed();
    assert!((Duration::from_secs(6)..Duration::from_secs(7)).contains(&took), "three times two seconds: {took:?}");
    fixture.server.faults().fail_next(2, 503, Some(1));
    assert_eq!(fixture.names().await, ["a"], "created once");
}

#[tokio::test(start_paused = true)]
async fn rrt_001_endless_429s_are_an_error() {
    let fixture = Fixture::new().await;
    fixture.server.faults().fail_next(100, 429, Some(1));
    let error = fixture.create("a").send().await.unwrap_err();
    assert!(error.status().unwrap().is_too_many_requests());
    assert_eq!(fixture.server.faults().report()[0].fired, 11);
    let error = fixture.all().max_retries(1).watch::<ConfigMap>(&fixture.info).await.unwrap_err();
    assert!(error.status().unwrap().is_too_many_requests());
    assert_eq!(fixture.server.faults().report()[0].fired, 13);
}

#[tokio::test(start_paused = true)]
async fn rrt_002_a_failure_without_retry_after_is_final() {
    let fixture = Fixture::new().await;
    fixture.server.faults().fail_next(1, 500, None);
    let error = fixture.get("a").send().await.unwrap_err();
    assert_eq!(error.status().unwrap().code, 500);
    let error = fixture.get("a").send().await.unwrap_err();
    assert!(error.is_not_found(), "the fault was for one request only");
}

#[tokio::test(start_paused = true)]
async fn rrt_010_a_slow_server_exceeds_the_timeout() {
    let fixture = Fixture::new().await;
    fixture.create("a").send().await.unwrap();
    fixture.server.faults().delay(Duration::from_secs(10));
    let started = Instant::now();
    let error = fixture.get("a").timeout(Duration::from_secs(3)).send().await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert_eq!(started.elapsed(), Duration::from_secs(3));
    fixture.get("a").send().await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_secs(13), "without an end it just takes its time");
    let error = fixture.all().timeout(Duration::from_secs(3)).watch::<ConfigMap>(&fixture.info).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "a watch has time to begin: {error}");
}

#[tokio::test(start_paused = true)]
async fn rrt_004_a_read_survives_lost_connections_and_a_write_does_not() {
    let fixture = Fixture::new().await;
    fixture.create("a").send().await.unwrap();
    let started = Instant::now();
    fixture.server.faults().add(Rule::new(Action::Drop).times(3));
    fixture.get("a").send().await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_secs(3), "a second each");

    fixture.server.faults().add(Rule::new(Action::DropBeforeCommit).times(1));
    let error = fixture.create("b").send().await.unwrap_err();
    assert!(matches!(&error, Error::Transport { source, .. } if source.fault() == TransportFault::Closed), "{error}");
    assert_eq!(fixture.names().await, ["a"]);

    // The write happened, and the client cannot know. A retry could repeat it, so there is none.
    fixture.server.faults().add(Rule::new(Action::CommitThenDrop).times(1));
    let error = fixture.create("b").send().await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error}");
    assert_eq!(fixture.names().await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn res_007_a_truncated_response_is_an_error() {
    let fixture = Fixture::new().await;
    fixture.create("a").send().await.unwrap();
    let cut = || fixture.server.faults().add(Rule::new(Action::Reset { after_bytes: 40 }).times(1));
    cut();
    let error = fixture.get("a").send().await.unwrap_err();
    assert!(matches!(&error, Error::Transport { source, .. } if source.fault() == TransportFault::Closed), "{error}");
    cut();
    let error = fixture.all().list::<ConfigMap>(&fixture.info).await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error}");
    assert_eq!(fixture.names().await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn wch_010_a_watch_is_opened_despite_lost_connections() {
    let fixture = Fixture::new().await;
    fixture.create("a").send().await.unwrap();
    fixture.server.faults().add(Rule::new(Action::Drop).watches(true).times(2));
    let mut watch = fixture.all().query("watch", true).watch::<ConfigMap>(&fixture.info).await.unwrap();
    let names: Vec<String> = {
        let mut names = Vec::new();
        while let Ok(Some(Ok(WatchEvent::Added(object)))) =
            tokio::time::timeout(Duration::from_secs(1), watch.next()).await
        {
            names.push(object.key().name().to_owned());
        }
        names
    };
    assert!(names.contains(&"a".to_owned()), "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn rrt_009_both_errors_are_returned_when_a_server_hangs() {
    let fixture = Fixture::new().await;
    fixture.server.faults().add(Rule::new(Action::Drop).times(1));
    fixture.server.faults().add(Rule::new(Action::Hang).times(1));
    let error = fixture.get("a").timeout(Duration::from_secs(5)).send().await.unwrap_err();
    let Error::Timeout { previous: Some(previous), .. } = &error else { panic!("{error:?}") };
    assert!(matches!(**previous, Error::Transport { .. }));
    assert!(fixture.get("a").send().await.unwrap_err().is_not_found());
}
