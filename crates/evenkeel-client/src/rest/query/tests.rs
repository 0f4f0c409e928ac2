use proptest::prelude::*;

use super::*;

#[test]
fn req_012_the_query_is_sorted_by_name_and_keeps_the_order_of_values() {
    let mut query = Query::new();
    query.add("b", "2").add("a", "x y").add("b", "1").add("watch", true);
    assert_eq!(query.url("/p", None), "/p?a=x+y&b=2&b=1&watch=true");
    assert_eq!(Query::new().url("/p", None), "/p");
}

#[test]
fn req_013_options_become_parameters() {
    let mut query = Query::new();
    query
        .add("timeoutSeconds", Some(0_i64))
        .add("limit", None::<i64>)
        .add_unless_default("continue", String::new())
        .add_unless_default("watch", false)
        .add_unless_default("allowWatchBookmarks", true)
        .add("dryRun", ["All", "None"].as_slice())
        .add("sinceTime", "2026-01-02T03:04:05.678Z".parse::<jiff::Timestamp>().unwrap())
        .add("timeout", Duration::from_millis(90_500));
    assert_eq!(
        query.url("", None),
        "?allowWatchBookmarks=true&dryRun=All&dryRun=None&sinceTime=2026-01-02T03%3A04%3A05Z&timeout=1m30.5s\
         &timeoutSeconds=0"
    );
    assert_eq!(query.get("dryRun"), Some("All"));
}

#[test]
fn req_015_the_timeout_parameter_replaces_the_callers() {
    let mut query = Query::new();
    query.add("timeout", "1h").add("z", "1").add("timeout", "2h");
    assert_eq!(query.url("/p", Some(("timeout", "1s".into()))), "/p?timeout=1s&z=1");
}

#[test]
fn sec_36_no_value_can_add_a_parameter() {
    let mut query = Query::new();
    query.add("labelSelector", "a=b,c!=d&watch=true#x");
    assert_eq!(query.url("", None), "?labelSelector=a%3Db%2Cc%21%3Dd%26watch%3Dtrue%23x");
}

#[test]
fn sec_5_debug_shows_names_but_no_values() {
    let mut query = Query::new();
    query.add("continue", "c2VjcmV0").add("limit", 5);
    assert_eq!(format!("{query:?}"), r#"{"continue", "limit"}"#);
}

#[test]
fn durations_have_gos_format() {
    for (duration, text) in [
        (Duration::ZERO, "0s"),
        (Duration::from_nanos(1), "1ns"),
        (Duration::from_nanos(1_100), "1.1µs"),
        (Duration::from_millis(300), "300ms"),
        (Duration::from_micros(2_500), "2.5ms"),
        (Duration::from_millis(1_500), "1.5s"),
        (Duration::from_secs(90), "1m30s"),
        (Duration::from_secs(3_600), "1h0m0s"),
        (Duration::new(3_661, 1), "1h1m1.000000001s"),
    ] {
        assert_eq!(evenkeel_core::duration::to_text(duration), text);
    }
}

proptest! {
    #[test]
    fn sec_36_every_value_round_trips(pairs in prop::collection::vec((".*", ".*"), 0..6)) {
        let mut query = Query::new();
        for (name, value) in &pairs {
            query.add(name.clone(), value);
        }
        let url = query.url("/p", None);
        let encoded = url.split_once('?').map_or("", |(_, query)| query);
        let decoded: Vec<(String, String)> = form_urlencoded::parse(encoded.as_bytes()).into_owned().collect();
        let mut expected = pairs.clone();
        expected.sort_by(|a, b| a.0.cmp(&b.0));
        prop_assert_eq!(decoded, expected);
        prop_assert!(url.is_ascii());
    }
}
