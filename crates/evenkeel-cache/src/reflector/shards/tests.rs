use evenkeel_core::Reason;
use evenkeel_core::shard::{ShardField, ShardRange, ShardRanges, place};

use super::*;
use crate::reflector::testing::{Logs, pod_from, pods};

/// A selector of the namespace `in`.
fn selector() -> ShardSelector {
    let start = place("in");
    ShardSelector::new(ShardField::Namespace, ShardRange::new(start, u128::from(start) + 1).unwrap())
}

fn shards() -> Shards {
    Shards::new(selector(), &pods())
}

fn object(namespace: &str) -> crate::Object {
    pod_from(&format!(r#"{{"metadata": {{"namespace": "{namespace}", "name": "a"}}}}"#))
}

fn failure(code: u16, message: &str) -> SourceError {
    Status::failure(code, Reason::default(), message).into()
}

#[tokio::test(start_paused = true)]
async fn shd_034_support_follows_what_responses_tell() {
    let (logs, _guard) = Logs::listen();
    let shards = shards();
    let mut request = shards.request(Instant::now());
    assert_eq!(request.sent, Some(selector()));
    // The text may differ from that of the request.
    let told = selector().to_string().replace(' ', "").replace('\'', "\"");
    shards.told(None, &request);
    shards.told(Some("something else"), &request);
    shards.told(Some(&ShardSelector::new(ShardField::Uid, ShardRange::FULL).to_string()), &request);
    assert_eq!(shards.server.lock().support, ShardSupport::Unknown);
    shards.told(Some(&told), &request);
    shards.completed(&request);
    assert_eq!(shards.server.lock().support, ShardSupport::Confirmed);

    shards.dropped(object("out").header(), &mut request);
    shards.dropped(object("out").header(), &mut request);
    shards.told(Some(&told), &request);
    shards.completed(&request);
    assert_eq!((shards.server.lock().support, request.dropped), (ShardSupport::Absent, 2));

    let later = shards.request(Instant::now());
    shards.completed(&later);
    assert_eq!(shards.server.lock().support, ShardSupport::Unknown);
    shards.told(Some(&told), &later);
    assert_eq!(shards.server.lock().support, ShardSupport::Confirmed);
    assert_eq!(
        logs.lines(),
        [
            "INFO the server filters by shard selector",
            "INFO the server does not filter by shard selector; dropping objects out of range",
            "INFO not known whether the server filters by shard selector",
            "INFO the server filters by shard selector",
        ],
        "one line for each change"
    );
}

#[tokio::test(start_paused = true)]
async fn shd_036_a_refused_selector_is_not_sent_for_ten_minutes() {
    for code in [400, 422, 500] {
        let (logs, _guard) = Logs::listen();
        let shards = shards();
        let now = Instant::now();
        let error = failure(code, "invalid shard selector: x");
        assert!(!shards.refused(&error, None, now), "the request had no selector");
        assert!(shards.refused(&error, Some(&selector()), now));
        assert_eq!(shards.requested(now + WITHDRAWN - Duration::from_secs(1)), None);
        assert_eq!(shards.requested(now + WITHDRAWN), Some(selector()));
        assert_eq!(logs.lines(), ["WARN shard selector refused; continuing without it"]);
    }
    for error in [
        failure(500, "etcd is not reachable"),
        failure(503, "shards are not ready"),
        failure(410, "too old resource version of the shard"),
        SourceError::Connection("shard".into()),
    ] {
        let shards = shards();
        assert!(!shards.refused(&error, Some(&selector()), Instant::now()), "{error}");
        assert_eq!(shards.requested(Instant::now()), Some(selector()));
    }
}

#[test]
fn shd_037_an_object_in_a_gap_that_is_requested_is_dropped_and_tells_nothing() {
    let gap = place("out");
    let far = (0..65).map(|step| (step << 50, 10));
    let ranges = far.chain([(gap - 10, 10), (gap + 1, 10)]);
    let ranges: ShardRanges =
        ranges.map(|(start, width)| ShardRange::new(start, u128::from(start) + width).unwrap()).collect();
    let shards = Shards::new(ShardSelector::new(ShardField::Namespace, ranges), &pods());
    let object = object("out");
    let mut request = RequestShards { sent: shards.requested(Instant::now()), ..RequestShards::default() };
    assert!(!shards.admits(object.header()));
    assert!(request.sent.as_ref().unwrap().matches(object.header()), "the smallest gap is requested");
    shards.dropped(object.header(), &mut request);
    assert_eq!((shards.server.lock().support, request.dropped), (ShardSupport::Unknown, 1));
}

#[test]
fn shr_053_events_that_a_place_has_reached_are_repeated() {
    let (a, b) = (place("a"), place("b"));
    let only = |place: u64| ShardRanges::from(place..=place);
    let both = only(a).union(&only(b));
    let shards = Shards::by(ShardKey::Namespace, only(a), &pods());
    let at = |namespace: &str, version: u64| {
        pod_from(&format!(
            r#"{{"metadata": {{"namespace": "{namespace}", "name": "x", "resourceVersion": "{version}"}}}}"#
        ))
    };
    assert!(!shards.admits(at("b", 1).header()));
    shards.widen(&both, [(only(a), ResourceVersion::new("20")), (only(b), ResourceVersion::new("9"))]);
    assert_eq!(shards.highest_floor(), Some(ResourceVersion::new("20")));
    let is_repeated = |namespace, version| shards.is_repeated(at(namespace, version).header());
    assert!(shards.admits(at("b", 1).header()) && is_repeated("a", 20) && is_repeated("b", 9));
    assert!(!is_repeated("a", 21) && !is_repeated("b", 10));
    // What is lost meanwhile changes nothing for the others.
    shards.shrink(&only(a));
    assert!(is_repeated("a", 20) && !shards.admits(at("b", 30).header()));
    shards.reached("9");
    assert!(is_repeated("a", 20) && !is_repeated("b", 9));
    shards.reached("20");
    assert_eq!((is_repeated("a", 20), shards.highest_floor()), (false, None));
    shards.widen(&both, [(only(a), ResourceVersion::new("30"))]);
    shards.relisted();
    assert!(!is_repeated("a", 30));
}

#[tokio::test(start_paused = true)]
async fn shr_051_keys_that_the_server_does_not_know_have_no_selector() {
    let range = ShardRange::new(0, 1 << 63).unwrap();
    for (key, is_sent) in [(ShardKey::Uid, true), (ShardKey::Namespace, true), (ShardKey::Name, false)] {
        let shards = Shards::by(key, range.into(), &pods());
        assert_eq!(shards.requested(Instant::now()).is_some(), is_sent, "{key:?}");
        assert_eq!(shards.sibling(ShardRange::FULL.into()).requested(Instant::now()), None);
    }
}
