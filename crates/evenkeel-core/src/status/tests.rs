use super::*;

#[test]
fn sec_6_messages_have_no_terminal_control_sequences() {
    let status =
        Status::failure(400, Reason::BAD_REQUEST, "a\n\tb\u{1b}]0;pwned\u{7}\u{1b}[2Jé\u{9b}1m\r\u{202e}c".to_owned());
    assert_eq!(status.to_string(), "a\n\tb\\u{1b}]0;pwned\\u{7}\\u{1b}[2Jé\\u{9b}1m\\r\\u{202e}c");
    assert!(status.message.contains('\u{1b}'), "the message itself is unchanged");
    assert_eq!(Status::failure(400, Reason::BAD_REQUEST, "é\n".to_owned()).to_string(), "é\n");
}

#[test]
fn wire_form_of_a_failure() {
    let status = Status::not_found("", "pods", "web-0");
    assert_eq!(
        serde_json::to_value(&status).unwrap(),
        serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 404,
            "message": "pods \"web-0\" not found", "reason": "NotFound",
            "details": {"name": "web-0", "kind": "pods"}
        })
    );
}

#[test]
fn res_008_a_known_reason_overrides_the_code() {
    let odd = Status { reason: Reason::CONFLICT, code: 404, ..Status::default() };
    assert!(odd.is_conflict() && !odd.is_not_found());
    let bare = Status { code: 404, ..Status::default() };
    assert!(bare.is_not_found());
    let foreign = Status { code: 404, reason: "SomethingElse".into(), ..Status::default() };
    assert!(foreign.is_not_found());
}

#[test]
fn res_008_codes_429_and_413_override_any_reason() {
    let odd = |code| Status { reason: Reason::INTERNAL_ERROR, code, ..Status::default() };
    assert!(odd(429).is_too_many_requests() && odd(429).is_internal_error());
    assert!(odd(413).is_request_entity_too_large());
    assert!(!odd(409).is_conflict() && !odd(404).is_not_found());
}

#[test]
fn res_008_already_exists_is_no_conflict() {
    let status = Status::already_exists("", "pods", "a");
    assert!(status.is_already_exists() && !status.is_conflict());
    let bare = Status { code: 409, ..Status::default() };
    assert!(bare.is_conflict() && !bare.is_already_exists());
}

#[test]
fn res_008_expired_is_not_gone_but_both_require_a_relist() {
    let expired = Status::expired("too old");
    assert!(expired.is_expired() && !expired.is_gone());
    let gone = Status { code: 410, ..Status::default() };
    assert!(gone.is_gone() && gone.is_expired());
}

#[test]
fn groups_qualify_the_resource() {
    let status = Status::already_exists("apps", "deployments", "web");
    assert_eq!(status.message, "deployments.apps \"web\" already exists");
}

#[test]
fn unknown_and_missing_fields_are_tolerated() {
    let status: Status =
        serde_json::from_str(r#"{"kind":"Status","code":410,"reason":"Expired","extra":{"a":1}}"#).unwrap();
    assert!(status.is_expired() && !status.is_success());
    assert!(status.retry_after().is_none());
    let odd = r#"{"kind":"Status","apiVersion":"v2","metadata":null,"code":-1,"reason":"NotFound",
                  "details":{"retryAfterSeconds":-5}}"#;
    let status: Status = serde_json::from_str(odd).unwrap();
    assert!(status.is_not_found() && status.code == 0 && status.retry_after().is_none());
}
