use super::*;

#[test]
fn tab_7_durations_get_coarser_as_they_grow() {
    for (seconds, text) in [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (5, "5s"),
        (119, "119s"),
        (120, "2m"),
        (190, "3m10s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 5 * MINUTE, "3h5m"),
        (8 * HOUR, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (3 * DAY + 4 * HOUR, "3d4h"),
        (8 * DAY, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + 11 * DAY, "2y11d"),
        (8 * YEAR + DAY, "8y"),
    ] {
        assert_eq!(human_duration(seconds), text);
    }
}

#[test]
fn tab_7_ages_are_measured_from_a_given_now() {
    let now: Timestamp = "2026-01-01T00:01:30.9Z".parse().unwrap();
    assert_eq!(since(Some(&Value::from("2026-01-01T00:00:00Z")), now), "90s");
    assert_eq!(since(Some(&Value::from("2026-01-01T00:00:00.123456Z")), now), "90s");
    assert_eq!(since(Some(&Value::Null), now), "<unknown>");
    assert_eq!(since(None, now), "<unknown>");
}
