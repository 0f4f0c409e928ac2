use super::*;

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("team", name)
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn two_reconciles_of_one_key_at_once_overlap_and_one_after_the_other_do_not() {
    let mut record = ReconcileRecord::default();
    record.enter(&key("a"), 1);
    record.exit(&key("a"), 1);
    record.enter(&key("a"), 2);
    record.enter(&key("b"), 1);
    assert_eq!((record.overlaps(), record.reconciles()), (0, 3));
    record.enter(&key("a"), 3);
    record.exit(&key("a"), 2);
    record.enter(&key("a"), 2);
    let described: Vec<_> = record.described_overlaps().iter().map(|overlap| overlap.replicas).collect();
    assert_eq!((record.overlaps(), described), (2, vec![(2, 3), (3, 2)]));
    assert_eq!((record.reconciles_of(1), record.reconciles_of(2)), (2, 2));
}

#[test]
fn a_gap_lasts_from_the_change_to_its_reconcile_and_is_that_of_moved_keys_if_another_replica_took_it() {
    let mut record = ReconcileRecord::default();
    for (number, name) in (1..).zip(["a", "b", "c"]) {
        record.changed(&key(name), 7, ms(number));
        record.finish(&key(name), 1, 7, ms(5));
    }
    record.start_phase();
    record.changed(&key("a"), 8, ms(100));
    assert!(record.is_pending(&key("a")));
    record.finish(&key("a"), 1, 7, ms(150));
    assert!(record.is_pending(&key("a")), "an older state of the object is no reconcile of the change");
    record.finish(&key("a"), 2, 8, ms(400));
    record.changed(&key("b"), 8, ms(100));
    record.finish(&key("b"), 1, 8, ms(120));
    let gaps = Gaps { moved: 1, median: ms(300), longest: ms(300), others: ms(20) };
    assert_eq!(record.gaps(), gaps);
    assert_eq!(record.reconciled_since(ms(100)), (3, 2));
    record.changed(&key("c"), 8, ms(200));
    assert_eq!(record.pending().collect::<Vec<_>>(), [&key("c")]);
    record.start_phase();
    assert_eq!(record.gaps(), Gaps::default());
}
