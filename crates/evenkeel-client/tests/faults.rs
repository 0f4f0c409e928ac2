//! Calls to an API server in this process that misbehaves.
#![allow(missing_docs, clippy::unwrap_used)]

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

struct House {
    server: ApiServer,
    client: Client,
    info: Arc<ResourceInfo>,
}

impl House {
    async fn new() -> Self {
        let server = ApiServer::start().await.unwrap();
        let client = server.client();
        let info = client.resource::<ConfigMap>();
        House { server, client, info }
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
async fn rrt_002_a_storm_of_429s_is_weathered_by_reads_and_writes() {
    let house = House::new().await;
    let started = Instant::now();
    house.server.faults().fail_next(3, 429, Some(2));
    assert!(house.create("a").send().await.unwrap().was_created());
    let took = started.elapsed();
    assert!((Duration::from_secs(6)..Duration::from_secs(7)).contains(&took), "three times two seconds: {took:?}");
    house.server.faults().fail_next(2, 503, Some(1));
    assert_eq!(house.names().await, ["a"], "created once");
}

#[tokio::test(start_paused = true)]
async fn rrt_001_a_storm_that_does_not_end_is_given_up() {
    let house = House::new().await;
    house.server.faults().fail_next(100, 429, Some(1));
    let error = house.create("a").send().await.unwrap_err();
    assert!(error.status().unwrap().is_too_many_requests());
    assert_eq!(house.server.faults().report()[0].fired, 11);
    let error = house.all().max_retries(1).watch::<ConfigMap>(&house.info).await.unwrap_err();
    assert!(error.status().unwrap().is_too_many_requests());
    assert_eq!(house.server.faults().report()[0].fired, 13);
}

#[tokio::test(start_paused = true)]
async fn rrt_002_a_failure_that_does_not_say_when_to_come_back_is_final() {
    let house = House::new().await;
    house.server.faults().fail_next(1, 500, None);
    let error = house.get("a").send().await.unwrap_err();
    assert_eq!(error.status().unwrap().code, 500);
    let error = house.get("a").send().await.unwrap_err();
    assert!(error.is_not_found(), "the fault was for one request only");
}

#[tokio::test(start_paused = true)]
async fn rrt_010_a_slow_server_meets_the_calls_end() {
    let house = House::new().await;
    house.create("a").send().await.unwrap();
    house.server.faults().delay(Duration::from_secs(10));
    let started = Instant::now();
    let error = house.get("a").timeout(Duration::from_secs(3)).send().await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert_eq!(started.elapsed(), Duration::from_secs(3));
    house.get("a").send().await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_secs(13), "without an end it just takes its time");
    let error = house.all().timeout(Duration::from_secs(3)).watch::<ConfigMap>(&house.info).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "a watch has time to begin: {error}");
}

#[tokio::test(start_paused = true)]
async fn rrt_004_a_read_survives_lost_connections_and_a_write_does_not() {
    let house = House::new().await;
    house.create("a").send().await.unwrap();
    let started = Instant::now();
    house.server.faults().add(Rule::new(Action::Drop).times(3));
    house.get("a").send().await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_secs(3), "a second each");

    house.server.faults().add(Rule::new(Action::DropBeforeCommit).times(1));
    let error = house.create("b").send().await.unwrap_err();
    assert!(matches!(&error, Error::Transport { source, .. } if source.fault() == TransportFault::Closed), "{error}");
    assert_eq!(house.names().await, ["a"]);

    // The other way round: it was done, and nobody can know. Repeating it could do it twice, so it is not repeated.
    house.server.faults().add(Rule::new(Action::CommitThenDrop).times(1));
    let error = house.create("b").send().await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error}");
    assert_eq!(house.names().await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn res_007_an_answer_that_is_cut_is_an_error_and_not_half_an_answer() {
    let house = House::new().await;
    house.create("a").send().await.unwrap();
    let cut = || house.server.faults().add(Rule::new(Action::Reset { after_bytes: 40 }).times(1));
    cut();
    let error = house.get("a").send().await.unwrap_err();
    assert!(matches!(&error, Error::Transport { source, .. } if source.fault() == TransportFault::Closed), "{error}");
    cut();
    let error = house.all().list::<ConfigMap>(&house.info).await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error}");
    assert_eq!(house.names().await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn wch_010_a_watch_is_opened_in_spite_of_lost_connections() {
    let house = House::new().await;
    house.create("a").send().await.unwrap();
    house.server.faults().add(Rule::new(Action::Drop).watches(true).times(2));
    let mut watch = house.all().query("watch", true).watch::<ConfigMap>(&house.info).await.unwrap();
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
async fn rrt_009_both_errors_are_told_when_a_server_goes_silent() {
    let house = House::new().await;
    house.server.faults().add(Rule::new(Action::Drop).times(1));
    house.server.faults().add(Rule::new(Action::Hang).times(1));
    let error = house.get("a").timeout(Duration::from_secs(5)).send().await.unwrap_err();
    let Error::Timeout { previous: Some(previous), .. } = &error else { panic!("{error:?}") };
    assert!(matches!(**previous, Error::Transport { .. }));
    assert!(house.get("a").send().await.unwrap_err().is_not_found());
}
