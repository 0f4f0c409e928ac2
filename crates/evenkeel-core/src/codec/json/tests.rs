use crate::codec::{ApiKind, Codec};
use crate::json::JsonValue;

const POD: ApiKind<'_> = ApiKind { api_version: "v1", kind: "Pod" };

#[test]
fn ctn_010_bodies_are_compact_and_end_with_a_newline() {
    let value = serde_json::json!({"a": [1, "é"], "n": i64::MAX});
    assert_eq!(Codec::Json.encode(&value, POD).unwrap(), "{\"a\":[1,\"é\"],\"n\":9223372036854775807}\n".as_bytes());
}

#[test]
fn ctn_008_an_object_is_encoded_with_kind_and_version() {
    let pod = k8s_openapi::api::core::v1::Pod::default();
    let bytes = Codec::Json.encode(&pod, POD).unwrap();
    let text = std::str::from_utf8(&bytes).unwrap();
    let member = |path| JsonValue::at_path(text, path).unwrap().map(|value| value.text().into_owned());
    assert_eq!((member("kind").as_deref(), member("apiVersion").as_deref()), (Some("Pod"), Some("v1")));
    assert_eq!(pod, Default::default());
}

#[test]
fn encode_errors_contain_no_contents() {
    struct Odd;
    impl serde::Serialize for Odd {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("bad value \"hunter2\""))
        }
    }
    let error = Codec::Json.encode(&Odd, POD).unwrap_err();
    assert_eq!(error.to_string(), "cannot encode the value as application/json: bad value");
}

#[test]
fn res_005_a_status_states_its_kind() {
    let read = |text: &str| Codec::Json.decode_status(text.as_bytes());
    let status = read(r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Gone","x":1}"#).unwrap();
    assert_eq!(status.reason, crate::Reason::GONE);
    assert!(read(r#"{"kind":"Status","status":"Failure"}"#).is_some(), "the version may be left out");
    for text in [
        r#"{"apiVersion":"v1","status":"Failure","code":404}"#,
        r#"{"kind":"Pod","apiVersion":"v1","status":"Failure"}"#,
        r#"{"kind":"Status","apiVersion":"v2","status":"Failure"}"#,
        r#"{"kind":"Status""#,
        "{}",
        "",
        "Status",
    ] {
        assert!(read(text).is_none(), "{text}");
    }
    assert!(Codec::Json.decode_status(b"\xff").is_none());
}

#[test]
fn sec_43_a_status_with_duplicate_members_is_none() {
    for twice in [r#""reason":"NotFound","reason":"Gone""#, r#""code":1,"code":2"#, r#""kind":"Status""#] {
        let text = format!(r#"{{"kind":"Status","status":"Failure",{twice}}}"#);
        assert!(Codec::Json.decode_status(text.as_bytes()).is_none(), "{text}");
    }
    let deep = format!(r#"{{"kind":"Status","status":"Failure","x":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    assert!(Codec::Json.decode_status(deep.as_bytes()).is_none(), "too deep");
}
