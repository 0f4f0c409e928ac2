use super::*;
use crate::error::WireError;

#[test]
fn ctn_020_an_envelope_has_all_four_fields_in_order() {
    let bytes = wrap_envelope("apps/v1", "Deployment", b"raw");
    assert_eq!(bytes, b"k8s\0\x0a\x15\x0a\x07apps/v1\x12\x0aDeployment\x12\x03raw\x1a\x00\x22\x00");
    let envelope = unwrap_envelope(&bytes).unwrap();
    assert_eq!((envelope.api_version, envelope.kind, envelope.raw), ("apps/v1", "Deployment", &b"raw"[..]));
    let long = vec![7; 300];
    let bytes = wrap_envelope("v1", "Pod", &long);
    assert_eq!(unwrap_envelope(&bytes).unwrap().raw, long);
    assert_eq!(bytes.capacity(), bytes.len(), "the room was known");
}

#[test]
fn ctn_020_bytes_without_an_envelope_are_rejected() {
    assert_eq!(unwrap_envelope(b""), Err(ProtobufError::Empty));
    assert_eq!(unwrap_envelope(b"{}"), Err(ProtobufError::NoPrefix));
    assert_eq!(unwrap_envelope(b"k8s"), Err(ProtobufError::NoPrefix));
    assert_eq!(unwrap_envelope(b"k8s\0"), Err(ProtobufError::NothingInside));
    let cut = ProtobufError::Malformed { path: "".into(), source: WireError::Truncated };
    assert_eq!(unwrap_envelope(b"k8s\0\x12\x05ab"), Err(cut));
    assert!(unwrap_envelope(b"k8s\0\x0a\x03\x0a\x01\xff").is_err(), "a version that is no text");
}

#[test]
fn ctn_021_absent_fields_of_an_envelope_are_none() {
    let envelope = unwrap_envelope(b"k8s\0\x12\x01a").unwrap();
    assert_eq!((envelope.api_version, envelope.kind, envelope.raw), ("", "", &b"a"[..]));
}

#[test]
fn pb_020_the_version_precedes_the_kind() {
    let envelope = unwrap_envelope(b"k8s\0\x0a\x09\x12\x03Pod\x0a\x02v1\x22\x01t\x1a\x01e").unwrap();
    let expected = Envelope { api_version: "v1", kind: "Pod", raw: b"", content_encoding: "e", content_type: "t" };
    assert_eq!(envelope, expected, "in any order");
}
