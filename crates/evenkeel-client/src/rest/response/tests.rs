//! Successful responses: objects, lists, and what only looks like them.

use evenkeel_core::DecodeError;
use http::Method;
use http::header::WARNING;
use k8s_openapi::api::apps::v1::Deployment;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::media::tests::PROTOBUF;
use super::super::testing::{BodyStep, ReaderFixture, Script, protobuf, response, with_header};
use super::*;
use crate::transport::{TransportError, TransportFault};

const JSON: &str = "application/json";
const WEB: &str = r#"{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"web","namespace":"default"}}"#;

fn deployments() -> Arc<ResourceInfo> {
    Arc::new(ResourceInfo::of::<Deployment>())
}

async fn object(response: http::Response<Body>) -> Result<evenkeel_core::Obj<Deployment>, Error> {
    ReaderFixture::new(Method::GET).reader().whole(response).await?.object(&deployments())
}

async fn list(response: http::Response<Body>) -> Result<List<Deployment>, Error> {
    ReaderFixture::new(Method::GET).reader().list(&deployments(), response).await.map(|(list, _)| list)
}

#[tokio::test]
async fn an_object_is_decoded_from_the_response_bytes() {
    let read = object(response(200, JSON, WEB)).await.unwrap();
    assert_eq!(read.key().as_str(), "default/web");
    let unstated = object(response(200, JSON, r#"{"metadata":{"name":"web"}}"#)).await.unwrap();
    assert_eq!(unstated.kind(), "Deployment", "an object without a kind is accepted");
}

#[tokio::test]
async fn ctn_004_chc_06_a_body_without_a_media_type_has_the_preferred_type() {
    let mut fixture = ReaderFixture::new(Method::GET);
    fixture.codecs = Codecs::preferring(Codec::Protobuf);
    let read = async |received| fixture.reader().whole(received).await.unwrap().object::<Deployment>(&deployments());
    let error = read(response(200, "", WEB)).await.unwrap_err();
    assert!(matches!(error, Error::Decode { .. }), "never a silent success: {error}");
    assert!(read(response(200, JSON, WEB)).await.is_ok());
    assert!(read(response(200, PROTOBUF, protobuf(WEB))).await.is_ok());
    assert!(object(response(200, "", WEB)).await.is_ok(), "JSON is preferred unless another codec is");
}

#[tokio::test]
async fn ctn_006_a_body_without_a_codec_is_available_as_bytes_only() {
    let fixture = ReaderFixture::new(Method::GET);
    let received = fixture.reader().whole(response(200, "text/plain; charset=utf-8", "ok")).await.unwrap();
    assert_eq!(received.bytes(), "ok");
    assert_eq!(received.content_type(), Some("text/plain; charset=utf-8"));
    for error in [
        received.json::<Value>().unwrap_err(),
        received.decode_status().unwrap_err(),
        received.object::<Deployment>(&deployments()).unwrap_err(),
        list(response(200, "text/plain", "ok")).await.unwrap_err(),
    ] {
        assert!(error.to_string().ends_with("its media type is text/plain, which is not supported"), "{error}");
    }
}

#[tokio::test]
async fn ctn_011_an_object_of_another_kind_is_an_error() {
    // Better than client-go, where the caller's object is unchanged and there is no error.
    let pod = WEB.replace("Deployment", "Pod").replace("apps/v1", "v1");
    let error = object(response(200, JSON, pod)).await.unwrap_err();
    assert!(matches!(&error, Error::Decode { source: DecodeError::OtherKind { .. }, .. }), "{error:?}");
    assert!(error.to_string().ends_with("expected apps/v1 Deployment, found v1 Pod"), "{error}");
    let old = WEB.replace("apps/v1", "apps/v1beta1");
    assert!(object(response(200, JSON, old)).await.is_err(), "another version has other fields");

    let metadata = WEB.replace("Deployment", "PartialObjectMetadata").replace("apps/v1", "meta.k8s.io/v1");
    assert!(object(response(200, JSON, metadata)).await.is_ok(), "the metadata of one may stand for it");
    let scale = WEB.replace("Deployment", "Scale").replace("apps/v1", "autoscaling/v1");
    assert!(object(response(200, JSON, scale.clone())).await.is_err());
    let mut fixture = ReaderFixture::new(Method::GET);
    fixture.target.subresource = "scale".into();
    let received = fixture.reader().whole(response(200, JSON, scale)).await.unwrap();
    assert!(received.object::<Deployment>(&deployments()).is_ok(), "a subresource may be of any kind");
}

#[tokio::test]
async fn ctn_011_a_failure_status_in_a_successful_response_is_an_error() {
    let failure =
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"NotFound","code":404}"#;
    assert!(object(response(200, JSON, failure)).await.unwrap_err().is_not_found());
    let success = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}"#;
    let error = object(response(200, JSON, success)).await.unwrap_err();
    assert!(
        matches!(error, Error::Decode { .. }) && error.to_string().contains("Status has no metadata.name"),
        "{error}"
    );

    let outcome =
        async |body: &'static str| ReaderFixture::new(Method::DELETE).reader().whole(response(200, JSON, body)).await;
    assert!(outcome(failure).await.unwrap().decode_status().unwrap_err().is_not_found());
    assert!(outcome(success).await.unwrap().decode_status().unwrap().unwrap().is_success());
    assert!(outcome(WEB).await.unwrap().decode_status().unwrap().is_none());
    let error = list(response(200, JSON, failure)).await.unwrap_err();
    assert!(error.to_string().ends_with("expected a list, found Status"), "{error}");
}

#[tokio::test]
async fn ctn_012_an_empty_body_is_no_object_and_no_list() {
    let error = object(response(200, JSON, "")).await.unwrap_err();
    assert!(
        error.to_string().ends_with("the response cannot be decoded: 0-length body instead of Deployment"),
        "{error}"
    );
    let error = list(response(200, JSON, "")).await.unwrap_err();
    assert!(error.to_string().contains("0-length body"), "{error}");
    let received = ReaderFixture::new(Method::GET).reader().whole(response(204, "", "")).await.unwrap();
    assert!(received.bytes().is_empty() && received.json::<Value>().unwrap_err().to_string().contains("0-length"));
}

#[tokio::test]
async fn ctn_009_and_ctn_010_decoded_objects_keep_the_response_bytes() {
    // Better than client-go, which removes kind and version from decoded objects.
    let text = r#"{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"web","generation":9007199254740993},
        "Spec":{"replicas":3},"unknown":true}"#;
    let read = object(response(200, JSON, text)).await.unwrap();
    assert_eq!(read.raw().unwrap(), text);
    assert_eq!((read.header().kind(), read.header().api_version()), (Some("Deployment"), Some("apps/v1")));
    let typed = read.typed().unwrap();
    assert_eq!(typed.spec.replicas, None, "names are case-sensitive, and unknown ones are no fault");
    assert_eq!(typed.metadata.generation, Some(9007199254740993), "whole numbers keep all their digits");
}

#[tokio::test]
async fn res_010_only_201_is_created() {
    for code in [200, 201, 202] {
        let received = ReaderFixture::new(Method::POST).reader().whole(response(code, JSON, WEB)).await.unwrap();
        assert_eq!(received.was_created(), code == 201);
    }
}

#[tokio::test]
async fn res_007_a_truncated_body_names_the_fault() {
    for (fault, text) in [(TransportFault::StreamReset, "broke off the request"), (TransportFault::Closed, "closed")] {
        let broken = || {
            let fail = BodyStep::Fail(Box::new(TransportError::bare(fault, "api.test")));
            http::Response::new(Script::body([BodyStep::Chunk("{\"kind\"".into()), fail]).0)
        };
        for error in [object(broken()).await.unwrap_err(), list(broken()).await.unwrap_err()] {
            let Error::Transport { source, .. } = &error else { panic!("{error:?}") };
            assert_eq!(source.fault(), fault);
            assert!(error.to_string().contains(text), "{error}");
        }
    }
    let odd = http::Response::new(Script::body([BodyStep::Fail("odd".into())]).0);
    let Error::Transport { source, .. } = object(odd).await.unwrap_err() else { panic!() };
    assert_eq!((source.fault(), source.host()), (TransportFault::Other, "api.test"));
}

#[tokio::test]
async fn res_012_and_sec_4_bodies_are_shown_by_their_size_alone() {
    let secret = WEB.replace("web", "hunter2");
    let received = ReaderFixture::new(Method::GET).reader().whole(response(200, JSON, secret.clone())).await.unwrap();
    assert_eq!(
        format!("{received:?}"),
        format!("Response(GET /apis/apps/v1/namespaces/default/deployments/web: 200 OK, {} bytes)", secret.len())
    );
    let error = received.json::<u32>().unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
}

#[tokio::test]
async fn a_broken_item_fails_the_list_and_is_named() {
    let text = r#"{"kind":"DeploymentList","apiVersion":"apps/v1","metadata":{"resourceVersion":"7"},"items":[
        {"metadata":{"name":"a","namespace":"ns"}},{"metadata":{"name":"b","namespace":"ns","labels":7}}]}"#;
    let error = list(response(200, JSON, text)).await.unwrap_err();
    assert!(error.to_string().contains("ns/b: cannot decode Deployment"), "{error}");
    assert!(error.to_string().contains("items[1].metadata.labels"), "{error}");
}

#[tokio::test]
async fn a_list_has_its_page_metadata() {
    let text = r#"{"kind":"DeploymentList","apiVersion":"apps/v1","metadata":{"resourceVersion":"7","continue":"t"},
        "items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}"#;
    let page = list(response(200, JSON, text)).await.unwrap();
    assert_eq!((page.len(), page.is_empty()), (2, false));
    assert_eq!((page.resource_version().as_str(), page.continue_token()), ("7", Some("t")));
    assert_eq!(page.iter().map(|object| object.key().name()).collect::<Vec<_>>(), ["a", "b"]);
    let last = list(response(200, JSON, r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#)).await.unwrap();
    assert_eq!((last.is_empty(), last.continue_token()), (true, None));
}

#[tokio::test]
async fn sec_44_reads_stop_at_the_limit_and_content_length_allocates_nothing() {
    let mut fixture = ReaderFixture::new(Method::GET);
    (fixture.limits.object, fixture.limits.list, fixture.limits.frame) = (100, 200, 50);
    let error = fixture.reader().whole(response(200, JSON, WEB.repeat(2))).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: 100, .. }), "{error}");
    let item = r#"{"metadata":{"name":"a"}}"#;
    let items = |count| {
        format!(
            r#"{{"metadata":{{"remainingItemCount":9000000000000000000}},"items":[{}]}}"#,
            [item].repeat(count).join(",")
        )
    };
    let read =
        async |text: String| fixture.reader().list::<Deployment>(&deployments(), response(200, JSON, text)).await;
    assert_eq!(read(items(2)).await.unwrap().0.len(), 2);
    assert!(matches!(read(items(9)).await.unwrap_err(), Error::TooLarge { limit: 200, .. }));
    let large = format!(r#"{{"items":[{{"metadata":{{"name":"{}"}}}}]}}"#, "a".repeat(50));
    let error = read(large).await.unwrap_err();
    assert!(
        matches!(&error, Error::Stream { source: evenkeel_core::StreamError::TooLarge { limit: 50, .. }, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn sec_43_numbers_beyond_64_bits_and_bytes_beyond_utf_8_are_errors() {
    let large = WEB.replace("\"name\"", "\"generation\":9223372036854775808,\"name\"");
    assert!(object(response(200, JSON, large)).await.is_err());
    let latin: Vec<u8> = WEB.bytes().map(|byte| if byte == b'w' { 0xe4 } else { byte }).collect();
    assert!(object(response(200, JSON, latin)).await.is_err());
    let deep = WEB.replace("\"metadata\"", &format!("\"x\":{}{},\"metadata\"", "[".repeat(200), "]".repeat(200)));
    assert!(object(response(200, JSON, deep)).await.unwrap_err().to_string().contains("nested deeper"));
}

#[tokio::test]
async fn wrn_005_warnings_are_delivered_once_per_decodable_response() {
    let warn = |response| with_header(with_header(response, WARNING, "299 - \"a\""), WARNING, "299 - \"b\"");
    let info = deployments();
    let fixture = ReaderFixture::new(Method::GET);
    let received = fixture.reader().whole(warn(response(200, JSON, WEB))).await.unwrap();
    assert_eq!(fixture.warnings.texts(), ["a", "b"]);
    assert_eq!(received.warnings().iter().map(|warning| warning.text.as_str()).collect::<Vec<_>>(), ["a", "b"]);

    for (code, content_type, count) in [(404, JSON, 2), (502, "text/html", 0), (200, "application/,x", 0)] {
        let fixture = ReaderFixture::new(Method::GET);
        fixture.reader().whole(warn(response(code, content_type, "x"))).await.unwrap_err();
        assert_eq!(fixture.warnings.texts().len(), count, "{code} {content_type}");
    }

    let fixture = ReaderFixture::new(Method::GET);
    fixture.reader().watch::<Deployment>(&info, warn(response(200, JSON, ""))).await.unwrap();
    assert_eq!(fixture.warnings.texts().len(), 2, "when the watch opens");
    fixture.reader().stream(warn(response(200, "text/plain", ""))).await.unwrap();
    assert_eq!(fixture.warnings.texts().len(), 4, "when the stream opens");
}

proptest! {
    #[test]
    fn a_body_does_not_depend_on_its_chunks(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..8)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let body = Script::chunks(chunks.iter().map(Vec::as_slice));
        let received = runtime.block_on(ReaderFixture::new(Method::GET).reader().whole(http::Response::new(body))).unwrap();
        prop_assert_eq!(received.bytes(), &chunks.concat());
        let error = runtime.block_on(BodyReader::new(&ReaderFixture::new(Method::GET).request, "", Script::chunks(chunks.iter().map(Vec::as_slice))).prefix(40)).unwrap();
        prop_assert!(error.len() <= 40 && chunks.concat().starts_with(&error));
    }
}

#[tokio::test]
async fn json_is_read_into_any_type() {
    let received =
        ReaderFixture::new(Method::GET).reader().whole(response(200, JSON, r#"{"major":"1"}"#)).await.unwrap();
    assert_eq!(received.json::<Value>().unwrap(), json!({"major": "1"}));
    let error = received.json::<Vec<u8>>().unwrap_err();
    assert!(error.to_string().contains("it is no alloc::vec::Vec<u8>"), "{error}");
    let text = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":200}"#;
    let received =
        ReaderFixture::new(Method::GET).reader().whole(response(200, PROTOBUF, protobuf(text))).await.unwrap();
    let status = received.json::<Value>().unwrap();
    assert_eq!((&status["kind"], &status["code"]), (&json!("Status"), &json!(200)), "whatever the form");
    let received = ReaderFixture::new(Method::GET).reader().whole(response(200, PROTOBUF, text)).await.unwrap();
    assert!(matches!(received.json::<Value>(), Err(Error::Unreadable { .. })), "the content type is wrong");
}
