//! Media types as servers state them, and the codecs they choose.

use super::*;

pub(in crate::rest) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

pub(in crate::rest) fn headers(content_type: &str) -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_bytes(content_type.as_bytes()).unwrap())])
}

#[test]
fn ctn_001_json_is_preferred_and_anything_is_accepted() {
    assert_eq!(accept(ResponseShape::Full, Codec::Json), "application/json, */*");
}

#[test]
fn ctn_002_protobuf_is_accepted_before_json() {
    assert_eq!(accept(ResponseShape::Full, Codec::Protobuf), "application/vnd.kubernetes.protobuf,application/json");
}

#[test]
fn mdc_001_metadata_is_accepted_in_each_encoding_and_whole_objects_as_a_fallback() {
    assert_eq!(
        accept(ResponseShape::Metadata, Codec::Protobuf),
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
         application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
    );
    assert_eq!(
        accept(ResponseShape::MetadataList, Codec::Protobuf),
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
         application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    );
    assert_eq!(
        accept(ResponseShape::MetadataList, Codec::Json),
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    );
}

#[test]
fn ctn_004_parameters_are_ignored_and_a_missing_header_means_the_preferred_type() {
    let codecs = Codecs::preferring(Codec::Protobuf);
    let chosen = |headers: &HeaderMap| codecs.of_response(headers).map(|codec| codec.media_type());
    for header in [
        "application/json",
        "Application/JSON",
        " application/json ; charset=utf-8",
        "application/json;charset=\"a;\\\"b\";x=y;",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    ] {
        assert_eq!(chosen(&headers(header)), Ok("application/json"), "{header}");
    }
    assert_eq!(chosen(&headers("application/vnd.kubernetes.protobuf;stream=watch")), Ok(PROTOBUF));
    assert_eq!(chosen(&HeaderMap::new()), Ok(PROTOBUF));
    assert_eq!(chosen(&headers("")), Ok(PROTOBUF));
}

#[test]
fn ctn_005_malformed_headers_differ_from_unknown_types() {
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
fn ctn_006_and_ctn_007_an_unknown_type_has_no_codec() {
    let codecs = Codecs::preferring(Codec::Json);
    for header in ["text/html", "json", "application/yaml", "application/cbor"] {
        let error = codecs.of_response(&headers(header)).unwrap_err();
        assert_eq!(error, MediaError::Unknown(header.to_owned()));
        assert_eq!(error.to_string(), format!("its media type is {header}, which is not supported"));
    }
}

#[test]
fn wch_004_a_watch_without_a_content_type_is_json() {
    let codecs = Codecs::preferring(Codec::Protobuf);
    let chosen = |headers: &HeaderMap| codecs.of_watch(headers).map(|codec| codec.media_type());
    assert_eq!(chosen(&HeaderMap::new()), Ok("application/json"), "whatever is preferred");
    assert_eq!(chosen(&headers("application/vnd.kubernetes.protobuf;stream=watch")), Ok(PROTOBUF));
    assert_eq!(chosen(&headers("application/json;stream=watch")), Ok("application/json"));
    assert!(matches!(chosen(&headers("foobar")), Err(MediaError::Unknown(_))));
}
