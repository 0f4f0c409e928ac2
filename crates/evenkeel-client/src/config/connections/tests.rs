use super::*;

fn with(name: &str, value: &str) -> Connections {
    Connections::from_variables(|asked| (asked == name).then(|| value.to_owned()))
}

#[test]
fn trn_018_http2_unless_it_is_disabled_with_any_value() {
    assert_eq!(Connections::from_variables(|_| None), Connections::default());
    assert_eq!(Connections::default().http, HttpVersions::Any);
    assert_eq!(with("DISABLE_HTTP2", "").http, HttpVersions::Any);
    assert_eq!(with("DISABLE_HTTP2", "false").http, HttpVersions::Http1Only);
}

#[test]
fn trn_018_pings_after_30_s_and_waits_15_s_unless_configured() {
    let after = |value| with("HTTP2_READ_IDLE_TIMEOUT_SECONDS", value).ping_after.map(|after| after.as_secs());
    assert_eq!(
        (after("12"), after("0"), after("soon"), after("-1"), after("")),
        (Some(12), None, Some(30), Some(30), Some(30))
    );
    let timeout = |value| with("HTTP2_PING_TIMEOUT_SECONDS", value).ping_timeout.as_secs();
    assert_eq!((timeout("3"), timeout("0"), timeout("x")), (3, 15, 15));
}
