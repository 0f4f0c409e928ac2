use super::*;

#[test]
fn lst_10_a_token_is_base64url_json_with_the_last_key() {
    let token = ContinueToken { revision: Some(42), after: "o3".into() };
    let text = token.encode();
    let json: Value = serde_json::from_slice(&BASE64.decode(&text).unwrap()).unwrap();
    assert_eq!(json, json!({"v": "meta.k8s.io/v1", "rv": 42, "start": "o3\u{0}"}));
    assert_eq!(ContinueToken::decode(&text).unwrap(), token);
    let open = ContinueToken { revision: None, after: "ns/a".into() };
    assert_eq!(ContinueToken::decode(&open.encode()).unwrap(), open);
}

#[test]
fn lst_11_bad_tokens_are_refused() {
    let encode = |value: Value| BASE64.encode(value.to_string());
    for bad in [
        "%%%".to_owned(),
        "garbage".to_owned(),
        encode(json!({"v": "meta.k8s.io/v1", "rv": 0, "start": "a\u{0}"})),
        encode(json!({"v": "meta.k8s.io/v1", "rv": 3, "start": ""})),
        encode(json!({"v": "meta.k8s.io/v1", "rv": 3, "start": "../b\u{0}"})),
        encode(json!({"v": "v0", "rv": 3, "start": "a\u{0}"})),
    ] {
        let status = ContinueToken::decode(&bad).unwrap_err();
        assert!(status.is_bad_request(), "{bad}");
        assert!(status.message.starts_with("invalid continue token: "), "{}", status.message);
    }
}
