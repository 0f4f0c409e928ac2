use super::*;
use crate::store::scopes::StoreVersions;

#[test]
fn shr_053_a_write_is_awaited_in_the_places_of_its_namespace() {
    let (mine, other) = (place("team-a"), place("team-b"));
    let middle = mine.max(other);
    let lower: ShardRanges = evenkeel_core::shard::ShardRange::new(0, middle.into()).unwrap().into();
    let upper = ShardRanges::full().difference(&lower);
    let (fast, slow) = if lower.contains(mine) { (lower, upper) } else { (upper, lower) };
    let version = ResourceVersion::new;
    let versions = StoreVersions::PerPlace(Arc::new(PlaceVersions(vec![(fast, version("9")), (slow, version("5"))])));
    assert!(versions.covers(Some("team-a"), &version("8")));
    assert!(!versions.covers(Some("team-b"), &version("8")));
    assert!(versions.covers(Some("team-b"), &version("5")));
    assert!(!versions.covers(None, &version("8")), "the whole store is as slow as its slowest part");
    let outside = StoreVersions::PerPlace(Arc::new(PlaceVersions(vec![(ShardRanges::empty(), version("5"))])));
    assert!(!outside.covers(Some("team-a"), &version("8")) && outside.covers(Some("team-a"), &version("5")));
}
