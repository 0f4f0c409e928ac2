//! Responses of an API server: errors, warnings, lists, watches and their ends.

use std::sync::{Arc, Mutex};

use evenkeel_apiserver::{ApiServer, ExpireForm, Rule, WatchAction};
use evenkeel_client::rest::{Warning, WarningHandler};
use evenkeel_client::{Client, Error, Path, Request, WatchEnd, WatchStream};
use evenkeel_core::{DecodeError, ResourceInfo, WatchEvent};
use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};

fn maps() -> Arc<ResourceInfo> {
    Arc::new(ResourceInfo::of::<ConfigMap>())
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

fn collection(client: &Client, method: Method) -> Request {
    client.request(method, Path::resource(&maps()).namespace("default"))
}

fn one(client: &Client, method: Method, name: &str) -> Request {
    client.request(method, Path::resource(&maps()).namespace("default").name(name))
}

async fn create(client: &Client, name: &str) {
    collection(client, Method::POST).json(&map(name)).send().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn res_008_errors_match_their_predicates() {
    let server = ApiServer::start().await.unwrap();
    let client = server.client();
    create(&client, "a").await;
    let refused = async |request: Request| request.send().await.unwrap_err();

    assert!(refused(one(&client, Method::GET, "b")).await.is_not_found());
    assert!(refused(collection(&client, Method::POST).json(&map("a"))).await.is_already_exists());
    let mut stale = map("a");
    stale["metadata"]["resourceVersion"] = json!("1");
    assert!(refused(one(&client, Method::PUT, "a").json(&stale)).await.is_conflict());
    let invalid = refused(collection(&client, Method::POST).json(&map("Not A Name"))).await;
    assert!(
        invalid.is_invalid() && invalid.status().unwrap().details.as_ref().unwrap().causes[0].field.contains("name")
    );
    assert!(refused(one(&client, Method::POST, "a").json(&map("a"))).await.is_method_not_supported());
    assert!(refused(collection(&client, Method::GET).accept("text/html")).await.is_not_acceptable());
    let odd = collection(&client, Method::POST).body("x", "text/html");
    assert!(refused(odd).await.is_unsupported_media_type());
    assert!(refused(collection(&client, Method::POST).body("{", "application/json")).await.is_bad_request());

    server.faults().fail_next(1, 500, None);
    let error = refused(one(&client, Method::GET, "a")).await;
    assert!(error.is_internal_error() && error.suggests_delay().is_none(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn res_003_an_unknown_path_is_an_error_with_its_code() {
    let server = ApiServer::start().await.unwrap();
    let client = server.client();
    let foos = ResourceInfo::new("no.example", "v1", "Foo", "foos", true);
    let path = Path::resource(&foos).namespace("default").name("a");
    let error = client.request(Method::GET, path).send().await.unwrap_err();
    assert!(error.is_not_found() && error.is_unexpected_server_error());
    let details = error.status().unwrap().details.clone().unwrap();
    assert_eq!((&*details.group, &*details.kind, &*details.name), ("no.example", "foos", "a"));
    let text = error.to_string();
    assert!(text.contains("could not find the requested resource (get foos.no.example a)"), "{text}");
    assert!(text.ends_with("install the CustomResourceDefinition foos.no.example with version v1"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn ctn_011_an_object_of_another_kind_is_an_error() {
    let server = ApiServer::start().await.unwrap();
    let client = server.client();
    create(&client, "a").await;
    create(&client, "b").await;
    let answer = one(&client, Method::GET, "a").send().await.unwrap();
    let error = answer.object::<Secret>(&client.resource::<Secret>()).unwrap_err();
    assert!(matches!(&error, Error::Decode { source: DecodeError::OtherKind { .. }, .. }), "{error:?}");
    assert!(error.to_string().ends_with("expected v1 Secret, found v1 ConfigMap"), "{error}");
    let pages = collection(&client, Method::GET).query("limit", "1").list::<ConfigMap>(&maps()).await.unwrap();
    assert!(pages.len() == 1 && pages.continue_token().is_some());
}

#[derive(Debug, Default)]
struct Heard(Mutex<Vec<String>>);

impl WarningHandler for Heard {
    fn warning(&self, warning: &Warning) {
        self.0.lock().unwrap().push(warning.text.clone());
    }
}

#[tokio::test(start_paused = true)]
async fn wrn_005_warnings_reach_the_handler_and_the_response() {
    let server = ApiServer::start().await.unwrap();
    let client = server.client();
    let mut odd = map("a");
    odd["dta"] = json!({});
    let heard = Arc::new(Heard::default());
    let request = collection(&client, Method::POST).query("fieldValidation", "Warn").json(&odd);
    let answer = request.warnings(Arc::clone(&heard) as _).send().await.unwrap();
    assert_eq!(*heard.0.lock().unwrap(), ["unknown field \"dta\""]);
    let warnings = answer.warnings();
    assert_eq!((warnings.len(), warnings[0].code, &*warnings[0].text), (1, 299, "unknown field \"dta\""));
}

async fn watched(action: WatchAction) -> (ApiServer, Client, WatchStream<ConfigMap>) {
    let server = ApiServer::start().await.unwrap();
    let client = server.client();
    let list = collection(&client, Method::GET).list::<ConfigMap>(&maps()).await.unwrap();
    server.faults().add(Rule::watch(action).times(1));
    let watch = collection(&client, Method::GET)
        .query("watch", "true")
        .query("resourceVersion", list.resource_version().as_str());
    let stream = watch.watch(&maps()).await.unwrap();
    create(&client, "a").await;
    create(&client, "b").await;
    (server, client, stream)
}

fn name(event: Option<Result<WatchEvent<ConfigMap>, Error>>) -> String {
    match event {
        Some(Ok(WatchEvent::Added(object))) => object.key().name().to_owned(),
        Some(Ok(WatchEvent::Error(status))) => format!("error {}", status.code),
        Some(Err(_)) => "broken".to_owned(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn wch_013_a_watch_ended_by_the_server_is_no_connection_error() {
    let (_server, _, mut stream) = watched(WatchAction::CloseAfterEvents(1)).await;
    assert_eq!(name(stream.next().await), "a");
    assert!(stream.next().await.is_none());
    assert!(matches!(stream.end(), Some(WatchEnd::Closed)), "{:?}", stream.end());

    let (_server, _, mut stream) = watched(WatchAction::TruncateFrame { event: 1, byte: 20 }).await;
    assert_eq!(name(stream.next().await), "a");
    assert!(stream.next().await.is_none());
    assert!(matches!(stream.end(), Some(WatchEnd::Truncated(_))), "{:?}", stream.end());

    let (_server, _, mut stream) = watched(WatchAction::CloseMidFrame { event: 1, byte: 20 }).await;
    assert_eq!(name(stream.next().await), "a");
    assert!(stream.next().await.is_none());
    assert!(matches!(stream.end(), Some(WatchEnd::Lost(_))), "{:?}", stream.end());
}

#[tokio::test(start_paused = true)]
async fn wch_011_an_expired_version_is_an_event() {
    let (_server, _, mut stream) = watched(WatchAction::Expire { event: 1, form: ExpireForm::Event }).await;
    assert_eq!(name(stream.next().await), "a");
    assert_eq!(name(stream.next().await), "error 410");
    assert!(stream.next().await.is_none());
    assert!(matches!(stream.end(), Some(WatchEnd::Closed)), "{:?}", stream.end());
}

#[tokio::test(start_paused = true)]
async fn wch_008_a_broken_event_loses_only_itself() {
    let (_server, client, mut stream) = watched(WatchAction::CorruptFrame { event: 0, byte: 60 }).await;
    assert_eq!(name(stream.next().await), "broken");
    assert_eq!(name(stream.next().await), "b");
    create(&client, "c").await;
    assert_eq!(name(stream.next().await), "c");
    stream.stop();
    assert!(matches!(stream.end(), Some(WatchEnd::Stopped)));
}

#[tokio::test(start_paused = true)]
async fn chc_11_a_watch_in_pieces_of_one_byte_is_the_same_watch() {
    let (_server, _, mut stream) = watched(WatchAction::SplitFrame { sizes: Vec::new() }).await;
    assert_eq!(name(stream.next().await), "a");
    assert_eq!(name(stream.next().await), "b");
}
