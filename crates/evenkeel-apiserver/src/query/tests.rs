use super::*;

fn query(text: &str) -> Query {
    Query::parse(Some(text))
}

#[test]
fn pairs_are_decoded_and_may_repeat() {
    let query = query("labelSelector=a%3Db%2Cc+d&dryRun=All&dryRun=None&empty&bad=%zz&x=1;y=2");
    assert_eq!(query.get("labelSelector"), Some("a=b,c d"));
    assert_eq!(query.all("dryRun").collect::<Vec<_>>(), ["All", "None"]);
    assert_eq!((query.get("empty"), query.non_empty("empty")), (Some(""), None));
    assert_eq!((query.get("bad"), query.get("x")), (None, None));
    assert_eq!(Query::parse(None), Query::default());
}

#[test]
fn url_3_watch_is_on_unless_false_or_zero() {
    for on in ["watch", "watch=", "watch=true", "watch=1", "watch=yes"] {
        assert!(query(on).is_watch(), "{on}");
    }
    for off in ["", "watch=false", "watch=0", "watch=False"] {
        assert!(!query(off).is_watch(), "{off}");
    }
}

#[test]
fn url_10_timeout_is_a_go_duration() {
    let timeout = |text: &str| query(&format!("timeout={text}")).timeout();
    for (text, millis) in [
        ("32s", 32_000),
        ("1m30s", 90_000),
        ("1.5h", 5_400_000),
        (".5s", 500),
        ("250ms", 250),
        ("0", 0),
        ("-0s", 0),
        ("%2B1s", 1_000),
        ("1500us", 1),
    ] {
        assert_eq!(timeout(text).unwrap().map(|d| d.as_millis()), Some(millis), "{text}");
    }
    for text in ["abc", "5", "1x", "-3s", "s", ".", "9999999999h", "1s2", "-"] {
        let status = timeout(text).unwrap_err();
        assert!(status.is_bad_request());
        assert!(status.message.starts_with("invalid timeout specified in the request URL"), "{status}");
    }
    assert_eq!(query("").timeout().unwrap(), None);
}

#[test]
fn url_14_bad_values_of_known_options_are_bad_requests() {
    assert_eq!(query("force=T").bool("force").unwrap(), Some(true));
    assert_eq!(query("force").bool("force").unwrap(), Some(true));
    assert_eq!(query("").bool("force").unwrap(), None);
    let status = query("force=yes").bool("force").unwrap_err();
    assert_eq!((status.code, status.message.as_str()), (400, "strconv.ParseBool: parsing \"yes\": invalid syntax"));
    assert_eq!(query("limit=500").int("limit").unwrap(), Some(500));
    assert_eq!(query("limit=").int("limit").unwrap(), None);
    let status = query("limit=five").int("limit").unwrap_err();
    assert_eq!(status.message, "strconv.ParseInt: parsing \"five\": invalid syntax");
    let status = query("limit=99999999999999999999").int("limit").unwrap_err();
    assert!(status.message.ends_with("value out of range"), "{status}");
}

proptest::proptest! {
    #[test]
    fn url_14_no_query_breaks_the_parser(text in "(timeout=|limit=|force=)?[-+.0-9a-zµ%&=;]{0,24}") {
        let query = query(&text);
        let _ = (query.timeout(), query.int("limit"), query.bool("force"), query.is_watch());
    }
}
