//! Content negotiation, and the fallback to JSON.

use evenkeel_core::protobuf::wrap_envelope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::{Binding, ConfigMap, Namespace, Pod};
use serde_json::{Value, json};

use super::super::testing::protobuf;
use super::*;
use crate::api::{Api, ListParams, Patch, WatchParams};
use crate::error::Error;
use crate::wire::Wire;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const BOTH: &str = "application/vnd.kubernetes.protobuf,application/json";
const JSON: &str = "application/json, */*";

const MAP: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"n"},"data":{"k":"v"}}"#;
const MAPS: &str = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}"#;
const GONE: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}"#;

fn json(text: &str) -> ScriptStep {
    ScriptStep::ok().header("content-type", "application/json").body(text.to_owned())
}

fn binary(text: &str) -> ScriptStep {
    ScriptStep::ok().header("content-type", PROTOBUF).body(protobuf(text))
}

fn client(script: &Script, wire: Wire) -> Client {
    script.client_with(|config| config.wire = wire)
}

fn map() -> ConfigMap {
    serde_json::from_str(MAP).unwrap()
}

fn foos() -> Arc<ResourceInfo> {
    Arc::new(ResourceInfo::new("example.com", "v1", "Foo", "foos", true))
}

/// `Accept` and `Content-Type` of each request.
fn encodings(script: &Script) -> Vec<(String, String)> {
    let text = |seen: &Seen, name| seen.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    script.seen().iter().map(|seen| (text(seen, "accept"), text(seen, "content-type"))).collect()
}

fn encoding(script: &Script) -> (String, String) {
    let mut encodings = encodings(script);
    assert_eq!(encodings.len(), 1);
    encodings.remove(0)
}

fn is(found: (String, String), accept: &str, content_type: &str) {
    assert_eq!((found.0.as_str(), found.1.as_str()), (accept, content_type));
}

#[tokio::test(start_paused = true)]
async fn ctn_001_requests_are_json_by_default() {
    for wire in [Wire::Automatic, Wire::Json] {
        let script = Script::new([json(MAP), json(MAP)]);
        let maps = client(&script, wire).api::<ConfigMap>().namespace("n");
        maps.get("a").await.unwrap();
        maps.create(&map()).await.unwrap();
        let [read, written] = encodings(&script).try_into().unwrap();
        is(read, JSON, "");
        is(written, JSON, "application/json");
    }
}

#[tokio::test(start_paused = true)]
async fn ctn_002_built_in_kinds_are_protobuf_in_both_directions() {
    let steps = [binary(MAP), binary(MAP), binary(MAP), binary(MAP), binary(GONE), binary(GONE), binary(MAPS)];
    let script = Script::new(steps);
    let maps = client(&script, Wire::Protobuf).api::<ConfigMap>().namespace("n");
    let read = maps.get("a").await.unwrap();
    assert_eq!((read.key().as_str(), read.kind(), read.api_version()), ("n/a", "ConfigMap", "v1"));
    assert_eq!(read.typed().unwrap().data.as_ref().unwrap()["k"], "v");
    maps.create(&map()).await.unwrap();
    maps.update(&map()).await.unwrap();
    maps.status().update(&map()).await.unwrap();
    maps.delete("a").await.unwrap();
    maps.delete_collection(&ListParams::default()).await.unwrap();
    assert_eq!(maps.list(&ListParams::default()).await.unwrap().resource_version().as_str(), "7");
    let seen = script.seen();
    for (number, seen) in seen.iter().enumerate() {
        assert_eq!(seen.headers["accept"], BOTH);
        let is_sent = (1..=5).contains(&number);
        assert_eq!(seen.headers.get("content-type").is_some_and(|sent| sent == PROTOBUF), is_sent, "{number}");
        assert_eq!(seen.body.starts_with(b"k8s\0"), is_sent, "{number}");
    }
    assert_eq!(seen[1].body, protobuf(MAP));
}

#[tokio::test(start_paused = true)]
async fn ctn_002_an_api_overrides_the_clients_encoding() {
    let script = Script::always(json(MAP));
    let quiet = client(&script, Wire::Automatic).api::<ConfigMap>().namespace("n");
    quiet.wire(Wire::Protobuf).get("a").await.unwrap();
    is(encoding(&script), BOTH, "");
    let loud = client(&script, Wire::Protobuf).api::<ConfigMap>().wire(Wire::Json).namespace("n");
    loud.create(&map()).await.unwrap();
    is(encoding(&script), JSON, "application/json");
    loud.wire(Wire::Protobuf).get("a").with(|request| request.accept("text/plain")).await.unwrap();
    is(encoding(&script), "text/plain", "");
}

#[tokio::test(start_paused = true)]
async fn ctn_003_requests_that_client_go_writes_by_hand_are_json() {
    let script = Script::new([
        json(GONE),
        json(GONE),
        json(r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"n"}}"#),
    ]);
    let client = client(&script, Wire::Protobuf);
    let pods = client.api::<Pod>().namespace("n");
    let binding: Binding =
        serde_json::from_value(json!({"metadata": {"name": "p"}, "target": {"name": "n1"}})).unwrap();
    pods.bind(&binding).await.unwrap();
    pods.evict("p").await.unwrap();
    let space: Namespace = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    client.api::<Namespace>().finalize().update(&space).await.unwrap();
    for encoding in encodings(&script) {
        is(encoding, JSON, "application/json");
    }
    pods.logs("p").await.unwrap();
    is(encoding(&script), "text/plain, */*", "");
}

#[tokio::test(start_paused = true)]
async fn pb_015_kinds_without_a_form_are_json() {
    let foo = r#"{"kind":"Foo","apiVersion":"example.com/v1","metadata":{"name":"a","namespace":"n"}}"#;
    let script = Script::always(json(foo));
    let foos = Api::<Value, crate::api::scope::Any>::of(&client(&script, Wire::Protobuf), &foos()).namespace("n");
    foos.get("a").await.unwrap();
    is(encoding(&script), JSON, "");
    foos.delete("a").await.unwrap();
    is(encoding(&script), JSON, "application/json");
}

#[tokio::test(start_paused = true)]
async fn pb_087_patches_and_applied_objects_are_json_with_responses_in_protobuf() {
    let script = Script::always(binary(MAP));
    let maps = client(&script, Wire::Protobuf).api::<ConfigMap>().namespace("n");
    maps.patch("a", &Patch::merge(&json!({}))).await.unwrap();
    maps.apply("a", "me", &map()).await.unwrap();
    let [patched, applied] = encodings(&script).try_into().unwrap();
    is(patched, BOTH, "application/merge-patch+json");
    is(applied, BOTH, "application/apply-patch+yaml");
}

#[tokio::test(start_paused = true)]
async fn dyc_001_kinds_known_at_run_time_are_json_unless_their_api_sets_protobuf() {
    let script = Script::always(json(MAP));
    let client = client(&script, Wire::Protobuf);
    let maps = client.dynamic(&client.resource::<ConfigMap>()).namespace("n");
    maps.get("a").await.unwrap();
    is(encoding(&script), JSON, "");
    maps.status().get("a").await.unwrap();
    is(encoding(&script), JSON, "");
    maps.wire(Wire::Protobuf).get("a").await.unwrap();
    is(encoding(&script), BOTH, "");
}

#[tokio::test(start_paused = true)]
async fn mdc_001_and_mdc_003_metadata_of_any_kind_is_accepted_in_protobuf_and_deletes_are_json() {
    let metadata =
        r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","namespace":"n"}}"#;
    let script = Script::new([binary(metadata), binary(GONE)]);
    let client = client(&script, Wire::Protobuf);
    let foos = client.dynamic(&foos()).namespace("n").metadata();
    let read = foos.get("a").await.unwrap();
    assert_eq!(read.typed().unwrap().metadata.name.as_deref(), Some("a"));
    let accept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                  application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
    is(encoding(&script), accept, "");
    foos.delete("a").await.unwrap();
    is(encoding(&script), JSON, "application/json");
}

#[tokio::test(start_paused = true)]
async fn ctn_004_a_response_in_json_is_decoded() {
    let watch = r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}}"#;
    let script = Script::new([json(MAP), json(MAPS), json(watch)]);
    let maps = client(&script, Wire::Protobuf).api::<ConfigMap>().namespace("n");
    assert_eq!(maps.get("a").await.unwrap().path("data.k").unwrap().unwrap().text(), "v");
    assert!(maps.list(&ListParams::default()).await.unwrap().is_empty());
    let mut events = maps.watch(&WatchParams::default()).await.unwrap();
    assert!(matches!(events.next().await, Some(Ok(_))));
    assert_eq!(encodings(&script).len(), 3, "nothing had to be requests twice");
}

#[tokio::test(start_paused = true)]
async fn ctn_011_and_pb_069_a_response_of_another_kind_is_an_error_and_a_status_its_failure() {
    let pod = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n"}}"#;
    let failure =
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Conflict","code":409}"#;
    let refused = ScriptStep::code(409).header("content-type", PROTOBUF).body(protobuf(failure));
    let script = Script::new([binary(pod), binary(failure), refused]);
    let maps = client(&script, Wire::Protobuf).api::<ConfigMap>().namespace("n");
    let error = maps.get("a").await.unwrap_err();
    assert!(error.to_string().ends_with("expected v1 ConfigMap, found v1 Pod"), "{error}");
    assert!(maps.get("a").await.unwrap_err().is_conflict());
    assert!(maps.get("a").await.unwrap_err().is_conflict());
    assert_eq!(encodings(&script).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn ctn_016_and_ctn_017_a_415_is_retried_in_json_and_later_requests_are_json() {
    let script = Script::new([ScriptStep::code(415), json(MAP), json(MAP), json(MAP)]);
    let client = client(&script, Wire::Protobuf);
    let maps = client.api::<ConfigMap>().namespace("n");
    maps.create(&map()).await.unwrap();
    maps.update(&map()).await.unwrap();
    client.clone().api::<ConfigMap>().namespace("n").get("a").await.unwrap();
    let seen = script.seen();
    assert_eq!(seen[0].headers["content-type"], PROTOBUF);
    let sent: Value = serde_json::from_slice(&seen[1].body).unwrap();
    assert_eq!(sent, serde_json::from_str::<Value>(MAP).unwrap(), "the same object");
    for seen in &seen[1..3] {
        assert_eq!(
            (&seen.headers["content-type"], &seen.headers["accept"]),
            (&"application/json".parse().unwrap(), &JSON.parse().unwrap())
        );
    }
    assert_eq!(seen[3].headers["accept"], JSON, "nothing is requests for either");
}

#[tokio::test(start_paused = true)]
async fn ctn_016_a_406_is_retried_in_json_and_later_requests_are_json() {
    let watch = r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}}"#;
    for open in 0..3 {
        let script = Script::new([ScriptStep::code(406), json([MAP, MAPS, watch][open]), json(MAP)]);
        let maps = client(&script, Wire::Protobuf).api::<ConfigMap>().namespace("n");
        match open {
            0 => drop(maps.get("a").await.unwrap()),
            1 => drop(maps.list_stream(&ListParams::default()).await.unwrap()),
            _ => assert!(maps.watch(&WatchParams::default()).await.unwrap().next().await.unwrap().is_ok()),
        }
        maps.get("a").await.unwrap();
        let requests: Vec<_> = encodings(&script).into_iter().map(|(accept, _)| accept).collect();
        assert_eq!(requests, [BOTH, JSON, JSON]);
    }
}

#[tokio::test(start_paused = true)]
async fn ctn_016_a_server_that_rejects_json_as_well_causes_no_fallback() {
    let script = Script::new([ScriptStep::code(406), ScriptStep::code(406), json(MAP)]);
    let maps = client(&script, Wire::Protobuf).api::<ConfigMap>().namespace("n");
    assert!(maps.get("a").await.unwrap_err().is_not_acceptable());
    maps.get("a").await.unwrap();
    let requests: Vec<_> = encodings(&script).into_iter().map(|(accept, _)| accept).collect();
    assert_eq!(requests, [BOTH, JSON, BOTH], "once more, not for ever; and nothing is held against it");
}

#[tokio::test(start_paused = true)]
async fn ctn_016_a_write_that_may_have_happened_is_not_retried_and_the_next_one_is_json() {
    let script = Script::new([ScriptStep::code(406), json(MAP)]);
    let maps = client(&script, Wire::Protobuf).api::<ConfigMap>().namespace("n");
    assert!(maps.create(&map()).await.unwrap_err().is_not_acceptable());
    maps.create(&map()).await.unwrap();
    let [first, second] = encodings(&script).try_into().unwrap();
    is(first, BOTH, PROTOBUF);
    is(second, JSON, "application/json");
}

#[tokio::test(start_paused = true)]
async fn ctn_016_a_rejection_of_another_media_type_is_returned() {
    let script = Script::new([ScriptStep::code(415), ScriptStep::code(406), json(MAP)]);
    let maps = client(&script, Wire::Protobuf).api::<ConfigMap>().namespace("n");
    let patched = maps.patch("a", &Patch::strategic(&json!({}))).await.unwrap_err();
    assert!(patched.is_unsupported_media_type(), "it was sent as JSON: {patched}");
    let own = maps.get("a").with(|request| request.accept("text/html"));
    assert!(own.await.unwrap_err().is_not_acceptable());
    maps.get("a").await.unwrap();
    let requests: Vec<_> = encodings(&script).into_iter().map(|(accept, _)| accept).collect();
    assert_eq!(requests, [BOTH, "text/html", BOTH]);
}

#[tokio::test(start_paused = true)]
async fn ctn_016_a_fallback_affects_its_group_only() {
    let deployment = r#"{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"a","namespace":"n"}}"#;
    let script = Script::new([ScriptStep::code(406), json(deployment), binary(MAP)]);
    let client = client(&script, Wire::Protobuf);
    client.api::<Deployment>().namespace("n").get("a").await.unwrap();
    client.api::<ConfigMap>().namespace("n").get("a").await.unwrap();
    let requests: Vec<_> = encodings(&script).into_iter().map(|(accept, _)| accept).collect();
    assert_eq!(requests, [BOTH, JSON, BOTH]);
}

#[tokio::test(start_paused = true)]
async fn ctn_016_without_retries_the_error_is_returned_and_the_next_request_is_json() {
    let script = Script::new([ScriptStep::code(406), json(MAP)]);
    let client = script.client_with(|config| {
        config.wire = Wire::Protobuf;
        config.retry.max_retries = 0;
    });
    let maps = client.api::<ConfigMap>().namespace("n");
    assert!(maps.get("a").await.unwrap_err().is_not_acceptable());
    maps.get("a").await.unwrap();
    assert_eq!(encodings(&script)[1].0, JSON);
}

#[tokio::test(start_paused = true)]
async fn undecodable_protobuf_is_an_error_and_the_next_request_is_json() {
    let step = |bytes: Vec<u8>| ScriptStep::ok().header("content-type", PROTOBUF).body(bytes);
    let unknown = |kind| step(wrap_envelope("example.com/v1", kind, b""));
    let garbage = || step([b"k8s\0".as_slice(), &[0xff; 16]].concat());
    for (read, step) in [
        (0, unknown("Foo")),
        (1, unknown("FooList")),
        (2, unknown("FooList")),
        (0, garbage()),
        (1, garbage()),
        (2, garbage()),
        (3, garbage()),
    ] {
        let script = Script::new([step, json(MAPS)]);
        let maps = client(&script, Wire::Protobuf).api::<ConfigMap>().namespace("n");
        match read {
            0 => assert!(matches!(maps.get("a").await, Err(Error::Decode { .. }))),
            1 => assert!(matches!(maps.list(&ListParams::default()).await, Err(Error::Stream { .. }))),
            2 => {
                let mut items = maps.list_stream(&ListParams::default()).await.unwrap();
                assert!(matches!(items.next().await, Some(Err(Error::Stream { .. }))));
            }
            _ => {
                let mut events = maps.watch(&WatchParams::default()).await.unwrap();
                assert!(events.next().await.is_none());
                assert!(matches!(events.end(), Some(WatchEnd::Garbled(_))), "{:?}", events.end());
            }
        }
        maps.list(&ListParams::default()).await.unwrap();
        let requests: Vec<_> = encodings(&script).into_iter().map(|(accept, _)| accept).collect();
        assert_eq!(requests, [BOTH, JSON], "{read}");
    }
}

#[tokio::test(start_paused = true)]
async fn reviews_are_sent_and_received_in_protobuf() {
    let review = r#"{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{},"status":{"allowed":true}}"#;
    let script = Script::new([binary(review)]);
    let client = client(&script, Wire::Protobuf);
    let requests = SelfSubjectAccessReview::default();
    let answer = client.authorization_v1().self_subject_access_reviews().create(&requests).await.unwrap();
    assert!(answer.status.unwrap().allowed);
    is(encoding(&script), BOTH, PROTOBUF);
}

#[tokio::test(start_paused = true)]
async fn ctn_017_one_oversized_event_affects_its_resource_only_and_expires() {
    let huge = ScriptStep::ok()
        .header("content-type", "application/vnd.kubernetes.protobuf;stream=watch")
        .body(vec![0x7f; 64]);
    let pod = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n"}}"#;
    let script = Script::new([huge, binary(pod), json(MAP), binary(MAP)]);
    let client = client(&script, Wire::Protobuf);
    let maps = client.api::<ConfigMap>().namespace("n");
    let mut events = maps.watch(&WatchParams::default()).await.unwrap();
    assert!(events.next().await.is_none());
    assert!(matches!(events.end(), Some(WatchEnd::Garbled(_))), "{:?}", events.end());
    client.api::<Pod>().namespace("n").get("a").await.unwrap();
    maps.get("a").await.unwrap();
    tokio::time::advance(Duration::from_secs(600)).await;
    maps.get("a").await.unwrap();
    let accepted: Vec<_> = encodings(&script).into_iter().skip(1).map(|(accept, _)| accept).collect();
    assert_eq!(accepted, [BOTH, JSON, BOTH]);
}
