use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{Obj, ResourceInfo, Untyped};

fn range(start: u64, end: u128) -> ShardRange {
    ShardRange::new(start, end).unwrap()
}

fn ranges<const N: usize>(bounds: [(u64, u128); N]) -> ShardRanges {
    bounds.into_iter().map(|(start, end)| range(start, end)).collect()
}

fn uids(ranges: impl Into<ShardRanges>) -> ShardSelector {
    ShardSelector::new(ShardField::Uid, ranges)
}

fn error(text: &str) -> String {
    text.parse::<ShardSelector>().unwrap_err().to_string()
}

#[test]
fn shd_006_and_shd_007_places_are_those_of_api_servers() {
    assert_eq!(place(""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(place("abc"), 0xe71f_a219_0541_574b);
    assert_eq!(place("default"), 0xebad_a516_8620_c5fe);
    assert_eq!(place("kube-system"), 0xdf65_c7bc_1d82_b35e);
    assert_eq!(place("095a6c60-f005-4022-85c3-8ad3115e13b8"), 0xdef8_6662_793c_a349);
}

#[test]
fn shd_006_and_shd_008_the_place_of_an_object_is_that_of_its_field() {
    let info = std::sync::Arc::new(ResourceInfo::of::<k8s_openapi::api::core::v1::Pod>());
    let json = r#"{"metadata": {"namespace": "default", "name": "a", "uid": "095a6c60-f005-4022-85c3-8ad3115e13b8"}}"#;
    let pod = Obj::<Untyped>::from_json(&info, json).unwrap();
    assert_eq!(ShardField::Uid.place_of(pod.header()), 0xdef8_6662_793c_a349);
    assert_eq!(ShardField::Namespace.place_of(pod.header()), 0xebad_a516_8620_c5fe);
    let node = Obj::<Untyped>::from_json(&info, r#"{"metadata": {"name": "node-1"}}"#).unwrap();
    assert_eq!(ShardField::Namespace.place_of(node.header()), place(""));
}

#[test]
fn shd_009_similar_namespaces_are_close_to_each_other() {
    for index in 0..10 {
        assert_eq!(place(&format!("ns-{index}")) >> 48, 0x4a82);
    }
}

#[test]
fn shd_005_a_range_ends_before_its_end_and_may_end_at_two_to_the_64() {
    let half = range(1 << 63, PLACES);
    assert!(half.contains(1 << 63) && half.contains(u64::MAX) && !half.contains((1 << 63) - 1));
    assert_eq!((half.start(), half.end(), half.width()), (1 << 63, PLACES, 1 << 63));
    let one = range(7, 8);
    assert!(one.contains(7) && !one.contains(8));
    for (start, end) in [(0, 0), (8, 8), (9, 8), (0, PLACES + 1), (u64::MAX, u128::from(u64::MAX))] {
        assert!(ShardRange::new(start, end).is_err(), "{start} {end}");
    }
    assert_eq!(range(u64::MAX, PLACES).width(), 1);
}

#[test]
fn shd_010_ranges_that_overlap_or_touch_are_one() {
    let merged = ranges([(40, 50), (0, 10), (10, 20), (15, 30), (16, 17)]);
    assert_eq!(merged.iter().collect::<Vec<_>>(), [range(0, 30), range(40, 50)]);
    assert!(ranges([(5, PLACES), (0, 5)]).is_full());
    assert!(!ranges([(5, PLACES), (0, 4)]).is_full());
    assert_eq!(
        format!("{merged:?}"),
        "{[0x0000000000000000, 0x000000000000001e), [0x0000000000000028, 0x0000000000000032)}"
    );
}

#[test]
fn parts_of_a_range_are_a_partition_of_it() {
    for count in [1, 3, 16, 1000] {
        let parts: Vec<ShardRange> = (0..count).map(|index| ShardRange::FULL.part(index, count).unwrap()).collect();
        assert!(parts.windows(2).all(|pair| pair[0].end() == u128::from(pair[1].start())));
        assert!(parts.iter().copied().collect::<ShardRanges>().is_full());
        let widths = || parts.iter().map(|part| part.width());
        assert!(widths().max().unwrap() - widths().min().unwrap() <= 1);
    }
    assert_eq!(ShardRange::FULL.part(2, 2), None);
    assert_eq!(range(0, 2).part(0, 3), None, "the part has no place");
    assert_eq!(range(4, 9).split_at(4), None);
    assert_eq!(range(4, 9).split_at(9), None);
    assert_eq!(range(4, 9).split_at(5), Some([range(4, 5), range(5, 9)]));
    assert_eq!(ShardRange::FULL.split_at(u64::MAX), Some([range(0, u128::from(u64::MAX)), range(u64::MAX, PLACES)]));
}

#[test]
fn shd_013_a_selector_prints_as_api_servers_print_it_and_parses_what_they_print() {
    let both = uids(ranges([(0, 1 << 63), ((1 << 63) + 1, PLACES)]));
    let text = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000') || \
                shardRange(object.metadata.uid, '0x8000000000000001', '0x10000000000000000')";
    assert_eq!(both.to_string(), text);
    assert_eq!(text.parse(), Ok(both));
    let other = "shardRange(object.metadata.uid,\"0x8000000000000000\",\"0x10000000000000000\")||\n shardRange ( \
                 object.metadata.uid , '0x0000000000000000' , '0x8000000000000000' ) ";
    assert_eq!(other.parse(), Ok(uids(ShardRanges::full())), "ranges are compared, not texts");
}

#[test]
fn shd_023_errors_of_bounds_and_fields_have_the_text_of_api_servers() {
    let full = "'0x0000000000000000', '0x10000000000000000'";
    let of = |bounds: &str| error(&format!("shardRange(object.metadata.uid, {bounds})"));
    assert_eq!(error(" \t"), "empty shard selector is not allowed; omit the parameter for unfiltered lists");
    assert_eq!(
        error(&format!("shardRange(object.metadata.name, {full})")),
        "unsupported field path \"object.metadata.name\"; supported: object.metadata.uid, object.metadata.namespace"
    );
    assert_eq!(
        error(&format!("shardRange(metadata.uid, {full})")),
        "unsupported field path \"metadata.uid\"; supported: object.metadata.uid, object.metadata.namespace"
    );
    assert_eq!(
        of("'0x0', '0x8000000000000000'"),
        "hexStart must be a 0x-prefixed 16-digit hex value, got \"0x0\" (did you mean \"0x0000000000000000\"?)"
    );
    assert_eq!(
        of("'0x0000000000000000', '0xff'"),
        "hexEnd must be a 0x-prefixed 16-digit hex value, got \"0xff\" (did you mean \"0x00000000000000ff\"?)"
    );
    assert_eq!(of("'0000000000000000', '0x0'"), "hexStart must have '0x' prefix, got \"0000000000000000\"");
    assert_eq!(of("'0x', '0x0'"), "hexStart: hex value is required after '0x'");
    assert_eq!(of("'0x00000000000000FF', '0x0'"), "hexStart: invalid hex character \"F\" in \"0x00000000000000FF\"");
    assert_eq!(
        of("'0x0000000000000000', '0x10000000000000001'"),
        "hexEnd: 17-digit hex value must be '0x10000000000000000' (2^64), got \"0x10000000000000001\""
    );
    assert_eq!(
        of("'0x0000000000000000', '0x100000000000000000'"),
        "hexEnd: hex value too long (18 chars, max 17): \"100000000000000000\""
    );
    assert_eq!(
        of("'0x8000000000000000', '0x8000000000000000'"),
        "shard range start 0x8000000000000000 must be less than end 0x8000000000000000"
    );
    assert_eq!(
        of("'0x10000000000000000', '0x10000000000000000'"),
        "shard range start 0x10000000000000000 must be less than end 0x10000000000000000"
    );
    assert_eq!(
        error(&format!("shardRange(object.metadata.uid, {full}) || shardRange(object.metadata.namespace, {full})")),
        "all shard ranges must use the same field, got \"object.metadata.uid\" and \"object.metadata.namespace\""
    );
}

#[test]
fn malformed_texts_are_errors_with_their_offset() {
    for (text, at) in [
        ("shard", 0),
        ("shardRange", 10),
        ("shardRange(object.metadata.uid '", 31),
        ("shardRange(object.metadata.uid, 0", 32),
        ("shardRange(object.metadata.uid, '0x0000000000000000', 'é", 57),
        ("shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000') &&", 76),
        ("shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000') || ", 79),
    ] {
        let error = text.parse::<ShardSelector>().unwrap_err();
        assert!(matches!(error, ShardSelectorError::Syntax { at: found, .. } if found == at), "{text}: {error:?}");
    }
}

#[test]
fn shd_037_a_full_selector_needs_no_parameter() {
    assert_eq!(uids(ShardRanges::full()).requested(), None);
    let half = uids(range(0, 1 << 63));
    assert_eq!(half.requested(), Some(half));
    let none = uids(ShardRanges::empty()).requested().unwrap();
    assert_eq!(none.to_string(), "shardRange(object.metadata.uid, '0x0000000000000000', '0x0000000000000001')");
}

#[test]
fn shd_037_a_parameter_has_at_most_64_ranges_and_includes_the_smallest_gaps() {
    // The gaps after the first 36 ranges have one place, the other gaps have two.
    let mut start = 5;
    let many: ShardRanges = (0..100)
        .map(|index| {
            let range = range(start, u128::from(start) + 10);
            start += if index < 36 { 11 } else { 12 };
            range
        })
        .collect();
    let requested = uids(many.clone()).requested().unwrap();
    assert_eq!(requested.ranges().iter().len(), 64);
    assert!(requested.ranges().covers(&many));
    assert_eq!(requested.ranges().difference(&many).width(), 36, "only the gaps of one place are included");
    assert!(!requested.ranges().contains(4), "the places before the first range are no gap");
    let just: ShardRanges = (0..64).map(|index| range(index * 10, u128::from(index) * 10 + 1)).collect();
    assert_eq!(uids(just.clone()).requested().unwrap().ranges(), &just);
}

/// The places that a set has in a space of 16 places, which are the upper four bits of real ones.
fn model(set: &ShardRanges) -> BTreeSet<u64> {
    let places: BTreeSet<u64> = (0..16).filter(|place| set.contains(place << 60)).collect();
    // The set is made of whole sixteenths.
    assert!(places.iter().all(|place| set.contains((place << 60) | (u64::MAX >> 4))));
    places
}

fn sets() -> impl Strategy<Value = ShardRanges> {
    proptest::collection::vec((0_u64..16, 1_u128..=16), 0..6).prop_map(|bounds| {
        let range = |(start, end): (u64, u128)| ShardRange::new(start << 60, end << 60).ok();
        bounds.into_iter().filter_map(range).collect()
    })
}

proptest! {
    #[test]
    fn sets_of_ranges_behave_as_sets_of_places(a in sets(), b in sets()) {
        let (left, right) = (model(&a), model(&b));
        prop_assert_eq!(model(&a.union(&b)), left.union(&right).copied().collect());
        prop_assert_eq!(model(&a.intersection(&b)), left.intersection(&right).copied().collect());
        prop_assert_eq!(model(&a.difference(&b)), left.difference(&right).copied().collect());
        prop_assert_eq!(a.covers(&b), right.is_subset(&left));
        prop_assert_eq!(a.intersects(&b), !left.is_disjoint(&right));
        prop_assert_eq!(a.is_full(), left.len() == 16);
        prop_assert_eq!(a.is_empty(), left.is_empty());
        prop_assert_eq!(a.width(), (left.len() as u128) << 60);
        prop_assert_eq!(a == b, left == right);
        for set in [a.union(&b), a.intersection(&b), a.difference(&b)] {
            let ranges: Vec<_> = set.iter().collect();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end() < u128::from(pair[1].start())), "not merged: {:?}", ranges);
        }
    }

    #[test]
    fn printed_selectors_parse_to_themselves(set in sets()) {
        let selector = ShardSelector::new(ShardField::Namespace, set);
        prop_assume!(!selector.ranges().is_empty());
        prop_assert_eq!(selector.to_string().parse(), Ok(selector));
    }

    #[test]
    fn parsing_never_panics(text in "(shardRange|object.metadata.uid|'0x[0-9a-f]{15,18}'|[ (),|'é\"]){0,12}") {
        let _ = text.parse::<ShardSelector>();
    }
}

/// An object with a namespace, a uid and owners.
fn owned(metadata: &str) -> Obj<Untyped> {
    let info = std::sync::Arc::new(ResourceInfo::of::<k8s_openapi::api::core::v1::Pod>());
    Obj::<Untyped>::from_json(&info, format!(r#"{{"metadata": {{{metadata}}}}}"#)).unwrap()
}

#[test]
fn shr_045_places_are_by_namespace_by_uid_or_by_key() {
    let object = owned(r#""namespace": "default", "name": "a", "uid": "u-1""#);
    let place_of = |key: ShardKey| key.place_of(object.header());
    assert_eq!(place_of(ShardKey::Namespace), place("default"));
    assert_eq!(place_of(ShardKey::Uid), place("u-1"));
    assert_eq!(place_of(ShardKey::Key), place("default/a"));
    let node = owned(r#""name": "node-1", "uid": "u-2""#);
    assert_eq!(ShardKey::Key.place_of(node.header()), place("node-1"));
    assert_eq!(ShardKey::Namespace.place_of(node.header()), place(""));
    // The server filters by the first two; by the key only the client can.
    assert_eq!(ShardKey::Namespace.field(), Some(ShardField::Namespace));
    assert_eq!(ShardKey::Uid.field(), Some(ShardField::Uid));
    assert_eq!(ShardKey::Key.field(), None);
    assert!([ShardKey::Namespace, ShardKey::Name, ShardKey::Key].into_iter().all(ShardKey::is_by_name));
    assert!(!ShardKey::Uid.is_by_name() && !ShardKey::OwnerUid.is_by_name());
    for field in [ShardField::Namespace, ShardField::Uid] {
        assert_eq!(ShardKey::from(field).place_of(object.header()), field.place_of(object.header()));
        assert_eq!(ShardKey::from(field).field(), Some(field));
    }
}

#[test]
fn shr_047_an_owned_object_has_the_place_of_its_controlling_owner() {
    let owner = |name: &str, uid: &str, controller: bool| {
        format!(
            r#"{{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "{name}", "uid": "{uid}", "controller": {controller}}}"#
        )
    };
    let owners = [owner("other", "u-8", false), owner("set", "u-9", true)].join(",");
    let child = owned(&format!(r#""namespace": "default", "name": "a", "uid": "u-1", "ownerReferences": [{owners}]"#));
    assert_eq!(ShardKey::OwnerUid.place_of(child.header()), place("u-9"));
    assert_eq!(ShardKey::Uid.place_of(child.header()), place("u-1"));
    // Without a controller it is alone.
    let shared = owned(&format!(
        r#""namespace": "default", "name": "b", "uid": "u-2", "ownerReferences": [{}]"#,
        owner("other", "u-8", false)
    ));
    assert_eq!(ShardKey::OwnerUid.place_of(shared.header()), place("u-2"));
    assert_eq!(ShardKey::OwnerUid.field(), None);
    assert!(!ShardKey::OwnerUid.is_fixed());
    assert!([ShardKey::Namespace, ShardKey::Name, ShardKey::Uid, ShardKey::Key].into_iter().all(ShardKey::is_fixed));
}

#[test]
fn shr_051_a_namespace_has_the_place_of_what_is_in_it() {
    let namespaces = ResourceInfo::new("", "v1", "Namespace", "namespaces", false);
    let key = ShardKey::Namespace.of_kind(&namespaces);
    let namespace = owned(r#""name": "default", "uid": "u-1""#);
    let inside = owned(r#""namespace": "default", "name": "a", "uid": "u-2""#);
    assert_eq!(key.place_of(namespace.header()), ShardKey::Namespace.place_of(inside.header()));
    // The server would use the empty text.
    assert_eq!(key.field(), None);
    assert_eq!(ShardKey::Uid.of_kind(&namespaces), ShardKey::Uid);
    let others = [
        ResourceInfo::new("", "v1", "Pod", "pods", true),
        ResourceInfo::new("", "v1", "Node", "nodes", false),
        ResourceInfo::new("example.com", "v1", "Namespace", "namespaces", false),
    ];
    for other in &others {
        assert_eq!(ShardKey::Namespace.of_kind(other), ShardKey::Namespace);
    }
}
