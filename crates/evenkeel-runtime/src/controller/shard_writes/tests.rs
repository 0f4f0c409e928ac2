use super::*;

fn range(start: u64, end: u64) -> ShardRange {
    ShardRange::new(start, u128::from(end)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn shr_036_the_highest_version_of_each_resource_in_a_range_is_told_for_ten_minutes() {
    let writes = ShardWrites::default();
    let now = Instant::now();
    for (place, resource, version) in [(1, "pods", "7"), (2, "pods", "9"), (2, "pods", "8"), (5, "pods", "11")] {
        writes.add(place, resource, version, now);
    }
    writes.add(2, "deployments.apps", "3", now);
    let told = writes.in_range(range(0, 4), now);
    assert_eq!(told, BTreeMap::from([("pods".to_owned(), 9), ("deployments.apps".to_owned(), 3)]));
    assert!(writes.in_range(range(3, 5), now).is_empty());
    let later = now + KEPT;
    writes.add(1, "pods", "12", later);
    assert_eq!(writes.in_range(range(0, 9), later), BTreeMap::from([("pods".to_owned(), 12)]));
}

#[tokio::test(start_paused = true)]
async fn shr_036_dropped_reconciles_and_versions_without_order_are_loose() {
    let writes = ShardWrites::default();
    let now = Instant::now();
    writes.loosen(3, now);
    writes.add(7, "pods", "abc", now);
    assert!(writes.is_loose(range(0, 4)) && writes.is_loose(range(7, 8)));
    assert!(!writes.is_loose(range(4, 7)));
    assert!(writes.in_range(range(0, 9), now + KEPT).is_empty());
    assert!(!writes.is_loose(range(0, 9)), "what was sent ten minutes ago has arrived or will not");
}

#[tokio::test(start_paused = true)]
async fn writes_are_bounded() {
    let writes = ShardWrites::default();
    let now = Instant::now();
    for place in 0..(2 * MOST as u64) {
        writes.add(place, "pods", "1", now);
        writes.loosen(place, now);
    }
    assert!(writes.is_loose(range(0, 1)), "what was forgotten early counts as loose");
    let table = writes.lock();
    assert!(table.entries <= MOST && table.loose.len() <= MOST);
    assert_eq!(table.entries, table.versions.values().map(BTreeMap::len).sum::<usize>());
}
