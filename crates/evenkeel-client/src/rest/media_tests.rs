//! Media types as servers state them, and the codecs they choose.

use bytes::Bytes;
use evenkeel_core::codec::{EncodeError, EventDecoder, ItemDecoder, Parsed};
use evenkeel_core::{DecodeError, Status};

use super::*;

/// A codec with bytes of its own: JSON behind a prefix.
#[derive(Debug)]
pub(in crate::rest) struct Prefixed;

pub(in crate::rest) const PREFIXED: &str = "application/vnd.kubernetes.protobuf";

impl Codec for Prefixed {
    fn media_type(&self) -> &'static str {
        PREFIXED
    }

    fn encode(&self, value: &dyn erased_serde::Serialize) -> Result<Vec<u8>, EncodeError> {
        Ok([b"k8s\0".as_slice(), &Json.encode(value)?].concat())
    }

    fn decode(&self, bytes: Bytes) -> Result<Parsed, DecodeError> {
        match bytes.strip_prefix(b"k8s\0") {
            Some(rest) => Json.decode(bytes.slice_ref(rest)),
            None => Err(DecodeError::NoMetadata { kind: None }),
        }
    }

    fn decode_status(&self, bytes: &[u8]) -> Option<Status> {
        Json.decode_status(bytes.strip_prefix(b"k8s\0")?)
    }

    fn items(&self) -> Box<dyn ItemDecoder> {
        Json.items()
    }

    fn events(&self) -> Box<dyn EventDecoder> {
        Json.events()
    }
}

pub(in crate::rest) fn two_codecs() -> Codecs {
    Codecs::new(vec![&Json, &Prefixed], &Prefixed)
}

pub(in crate::rest) fn headers(content_type: &str) -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_bytes(content_type.as_bytes()).unwrap())])
}

#[test]
fn ct_001_json_is_preferred_and_anything_is_accepted() {
    assert_eq!(Codecs::default().accept(), "application/json, */*");
    assert_eq!(two_codecs().accept(), "application/vnd.kubernetes.protobuf,application/json");
}

#[test]
fn ct_004_parameters_do_not_matter_and_a_missing_header_means_what_was_preferred() {
    let codecs = two_codecs();
    let chosen = |headers: &HeaderMap| codecs.of_answer(headers).map(|codec| codec.media_type());
    for header in [
        "application/json",
        "Application/JSON",
        " application/json ; charset=utf-8",
        "application/json;charset=\"a;\\\"b\";x=y;",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    ] {
        assert_eq!(chosen(&headers(header)), Ok("application/json"), "{header}");
    }
    assert_eq!(chosen(&headers("application/vnd.kubernetes.protobuf;stream=watch")), Ok(PREFIXED));
    assert_eq!(chosen(&HeaderMap::new()), Ok(PREFIXED));
    assert_eq!(chosen(&headers("")), Ok(PREFIXED));
}

#[test]
fn ct_005_malformed_headers_are_told_from_unknown_types() {
    for header in [
        "application/,x",
        "application/",
        "/json",
        "a/b/c",
        "application/json x",
        ";charset=utf-8",
        "application/json; charset",
        "application/json; charset=",
        "application/json; =utf-8",
        "application/json; charset=\"utf-8",
        "application/json; a=1; A=2",
        "application/json; a=1 b=2",
        "application/jsön",
    ] {
        let error = media_type(&headers(header)).unwrap_err();
        assert!(matches!(error, MediaError::Malformed(_)), "{header}: {error}");
    }
    let latin = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_bytes(b"a/\xe4").unwrap())]);
    assert!(matches!(media_type(&latin), Err(MediaError::Malformed(_))));
    let schema = headers("application/com.github.proto-openapi.spec.v2@v1.0+protobuf");
    assert!(media_type(&schema).is_ok(), "this is what servers say");
}

#[test]
fn ct_006_and_ct_007_an_unknown_type_has_no_codec() {
    let codecs = Codecs::default();
    for header in ["text/html", "json", "application/yaml", PREFIXED] {
        let error = codecs.of_answer(&headers(header)).unwrap_err();
        assert_eq!(error, MediaError::Unknown(header.to_owned()));
        assert_eq!(error.to_string(), format!("its media type is {header}, for which there is no codec"));
    }
}

#[test]
fn wch_004_a_watch_that_does_not_say_is_json() {
    let codecs = two_codecs();
    let chosen = |headers: &HeaderMap| codecs.of_watch(headers).map(|codec| codec.media_type());
    assert_eq!(chosen(&HeaderMap::new()), Ok("application/json"), "whatever is preferred");
    assert_eq!(chosen(&headers("application/vnd.kubernetes.protobuf;stream=watch")), Ok(PREFIXED));
    assert_eq!(chosen(&headers("application/json;stream=watch")), Ok("application/json"));
    assert!(matches!(chosen(&headers("foobar")), Err(MediaError::Unknown(_))));
}
