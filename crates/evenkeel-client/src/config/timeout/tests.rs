use super::*;

#[test]
fn kcf_025_timeouts_are_seconds_or_have_units() {
    for (text, time) in [
        ("0", Duration::ZERO),
        ("30", Duration::from_secs(30)),
        ("1m30s", Duration::from_secs(90)),
        ("1.5h", Duration::from_secs(5400)),
        ("200ms", Duration::from_millis(200)),
        ("10µs", Duration::from_micros(10)),
    ] {
        assert_eq!(parse_timeout(text).unwrap(), time, "{text}");
    }
    for odd in ["", "-1", "-1s", "s", "1x", "1s2", "..s", "1e400h", "99999999999999999999h", "+"] {
        assert!(parse_timeout(odd).is_err(), "{odd}");
    }
}
