//! Tests of the annotation of a member Lease.

use super::*;

#[test]
fn shr_003_the_record_of_a_member_is_read_back() {
    let range = ShardRange::FULL.part(1, 3).unwrap();
    let record = MemberRecord {
        speaks: vec![1],
        by: "namespace/fnv1a64/15s".into(),
        seen: 8131,
        holds: vec![range, ShardRange::FULL.part(2, 3).unwrap()],
        warm: vec![range],
        leaving: true,
        capacity: 2,
        load: vec![SliceLoad { start: range.start(), objects: 7, busy: 0.25, median: Some(u64::MAX) }],
        build: "1.4.0".into(),
        written: vec![WrittenVersions { range, versions: [("pods".to_owned(), 77)].into(), loose: false }],
    };
    let text = record.encode();
    assert_eq!(MemberRecord::decode(&text).unwrap(), record);
    assert!(
        text.contains(r#""holds":["5555555555555555-aaaaaaaaaaaaaaa9","aaaaaaaaaaaaaaaa-ffffffffffffffff"]"#),
        "{text}"
    );
}

#[test]
fn shr_003_fields_of_newer_and_older_programs_are_tolerated() {
    let record = MemberRecord::decode(r#"{"speaks":[1,2],"seen":3,"invented":true}"#).unwrap();
    assert_eq!((record.seen, record.leaving, record.capacity), (3, false, 0));
    assert!(MemberRecord::decode(r#"{"holds":["9-1"]}"#).is_err(), "an empty range");
    assert!(MemberRecord::decode("").is_err());
}

#[test]
fn shr_023_an_unknown_fence_counts_as_an_eviction() {
    assert_eq!(FenceCause::of("expired after 15s"), FenceCause::Expired);
    assert_eq!(FenceCause::of("evicted"), FenceCause::Evicted);
    assert_eq!(FenceCause::of("by hand"), FenceCause::Evicted);
}
