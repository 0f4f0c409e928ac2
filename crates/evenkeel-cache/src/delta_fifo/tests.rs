use super::*;
use crate::delta_queue::BATCH_LIMIT;
use crate::delta_queue::testing::{Known, TestQueue, drain, missed, object, objects, observed, take, texts, version};

fn list(queue: &mut DeltaFifo, texts: &[&str], known: &Known) {
    queue.replace(objects(texts), version("100"), known);
}

#[test]
fn dfq_001_deltas_of_a_key_have_oldest_and_newest() {
    let mut queue = DeltaFifo::new();
    queue.add(object("foo@1"));
    queue.update(object("foo@2"));
    queue.delete(observed("foo@3"), &Known::default());
    let batch = queue.pop(1).unwrap();
    assert_eq!(texts(&batch), ["Added foo@1", "Updated foo@2", "Deleted foo@3"]);
    assert!(matches!(batch.deltas.first(), Some(Delta::Added(_))));
    assert!(matches!(batch.deltas.last(), Some(Delta::Deleted(_))));
}

#[test]
fn dfq_002_a_key_is_queued_once() {
    let mut queue = DeltaFifo::new();
    for text in ["a@1", "b@2", "a@3", "b@4"] {
        queue.update(object(text));
        let ordered: HashSet<&ObjectKey> = queue.order.iter().collect();
        assert_eq!(ordered.len(), queue.order.len());
        assert_eq!(ordered, queue.entries.keys().collect());
    }
    assert_eq!(queue.len(), 2);
}

#[test]
fn dfq_003_a_queued_key_keeps_its_position() {
    let mut queue = DeltaFifo::new();
    queue.add(object("foo@10"));
    queue.add(object("bar@1"));
    queue.update(object("foo@11"));
    queue.update(object("foo@13"));
    queue.add(object("zab@30"));
    let popped = drain(&mut queue);
    let want = [vec!["Added foo@10", "Updated foo@11", "Updated foo@13"], vec!["Added bar@1"], vec!["Added zab@30"]];
    assert_eq!(popped, want);
}

#[test]
fn dfq_004_all_deltas_of_a_key_are_popped_together() {
    let mut queue = DeltaFifo::new();
    queue.add(object("foo@10"));
    list(&mut queue, &["foo@15"], &Known::default());
    let popped = take(&mut queue, 1).unwrap();
    assert_eq!(popped, ["Added foo@10", "Replaced foo@15"]);
    assert_eq!((queue.len(), queue.pop(1).is_none()), (0, true));
}

#[test]
fn ihc_07_only_deletions_in_a_row_are_merged() {
    let known = Known::of(&["foo@1"]);
    let after = |pushes: &[&dyn Fn(&mut DeltaFifo)]| {
        let mut queue = DeltaFifo::new();
        pushes.iter().for_each(|push| push(&mut queue));
        take(&mut queue, 1).unwrap()
    };
    let (a, b) = (
        |q: &mut DeltaFifo| q.delete(observed("foo@2"), &known),
        |q: &mut DeltaFifo| q.delete(observed("foo@3"), &known),
    );
    let (m, n) =
        (|q: &mut DeltaFifo| q.delete(missed("foo@4"), &known), |q: &mut DeltaFifo| q.delete(missed("foo@5"), &known));
    assert_eq!(after(&[&a, &b]), ["Deleted foo@2"]);
    assert_eq!(after(&[&m, &b]), ["Deleted foo@3"]);
    assert_eq!(after(&[&a, &m]), ["Deleted foo@2"]);
    assert_eq!(after(&[&m, &n]), ["Missed foo@5"]);
    let update = |q: &mut DeltaFifo| q.update(object("foo@6"));
    assert_eq!(after(&[&update, &update]), ["Updated foo@6", "Updated foo@6"]);
}

#[test]
fn dfq_005_a_deletion_after_something_else_is_not_merged() {
    let mut queue = DeltaFifo::new();
    queue.add(object("foo@1"));
    queue.delete(observed("foo@2"), &Known::default());
    queue.add(object("foo@3"));
    queue.add(object("foo@3"));
    queue.delete(observed("foo@4"), &Known::default());
    queue.delete(observed("foo@5"), &Known::default());
    let want = ["Added foo@1", "Deleted foo@2", "Added foo@3", "Added foo@3", "Deleted foo@4"];
    assert_eq!(take(&mut queue, 1).unwrap(), want);
}

#[test]
fn dfq_006_without_a_store_only_queued_objects_can_be_deleted() {
    let mut queue = DeltaFifo::new();
    queue.delete(observed("unknown@1"), &Known::default());
    assert!(queue.is_empty());
    queue.add(object("foo@1"));
    queue.delete(observed("foo@2"), &Known::default());
    assert_eq!(drain(&mut queue), [["Added foo@1", "Deleted foo@2"]]);
}

#[test]
fn dfq_007_a_deletion_is_dropped_if_the_object_is_neither_queued_nor_known() {
    let known = Known::of(&["foo@5"]);
    let mut queue = DeltaFifo::new();
    queue.delete(observed("foo@6"), &known);
    queue.delete(observed("bar@6"), &known);
    assert_eq!(drain(&mut queue), [["Deleted foo@6"]]);
}

#[test]
fn ihc_30_b_a_watched_deletion_of_an_unknown_object_is_dropped() {
    let mut queue = DeltaFifo::new();
    list(&mut queue, &["foo@1"], &Known::default());
    let known = Known::of(&["foo@1"]);
    drain(&mut queue);
    queue.delete(observed("never@2"), &known);
    assert!(queue.pop(1).is_none());
}

#[test]
fn dfq_008_a_dropped_deletion_still_counts_as_an_event() {
    let mut queue = DeltaFifo::new();
    assert!(!queue.has_synced());
    queue.delete(observed("unknown@1"), &Known::default());
    assert!(queue.has_synced());
}

#[test]
fn dfq_009_a_list_is_queued_in_its_order_even_behind_deletions() {
    let known = Known::of(&["b@1"]);
    let mut queue = DeltaFifo::new();
    queue.delete(observed("b@2"), &known);
    list(&mut queue, &["c@3", "b@4", "a@5"], &known);
    let popped = drain(&mut queue);
    assert_eq!(popped, [vec!["Deleted b@2", "Replaced b@4"], vec!["Replaced c@3"], vec!["Replaced a@5"]]);
}

#[test]
fn ihc_10_deleted_and_listed_again_is_not_collapsed() {
    let known = Known::of(&["foo@1"]);
    let mut queue = DeltaFifo::new();
    queue.delete(observed("foo@1"), &known);
    list(&mut queue, &["foo@2"], &known);
    assert_eq!(drain(&mut queue), [["Deleted foo@1", "Replaced foo@2"]]);
}

#[test]
fn dfq_010_objects_only_queued_are_deleted_with_their_newest_state() {
    let mut queue = DeltaFifo::new();
    queue.add(object("a@1"));
    queue.update(object("a@2"));
    queue.add(object("b@3"));
    queue.delete(observed("b@4"), &Known::default());
    queue.add(object("c@5"));
    queue.delete(missed("c@6"), &Known::default());
    list(&mut queue, &[], &Known::default());
    let popped = drain(&mut queue);
    let want = [
        vec!["Added a@1", "Updated a@2", "Missed a@2"],
        // An observed deletion absorbs the inferred one.
        vec!["Added b@3", "Deleted b@4"],
        // A missed object has its last known state.
        vec!["Added c@5", "Missed c@6"],
    ];
    assert_eq!(popped, want);
}

#[test]
fn dfq_011_known_objects_missing_from_a_list_are_deleted() {
    let mut queue = DeltaFifo::new();
    list(&mut queue, &["foo@5"], &Known::of(&["bar@6", "baz@7", "foo@5"]));
    assert_eq!(drain(&mut queue), [["Replaced foo@5"], ["Missed bar@6"], ["Missed baz@7"]]);
}

#[test]
fn ihc_08_a_list_against_queue_and_store() {
    let known = Known::of(&["foo@5", "bar@6", "baz@7"]);
    let mut queue = DeltaFifo::new();
    queue.add(object("baz@10"));
    list(&mut queue, &["foo@5"], &known);
    let want = [vec!["Added baz@10", "Missed baz@10"], vec!["Replaced foo@5"], vec!["Missed bar@6"]];
    assert_eq!(drain(&mut queue), want);
}

#[test]
fn ihc_09_tombstones_carry_the_freshest_state() {
    let known = Known::of(&["foo@5", "bar@6", "baz@7"]);
    let mut queue = DeltaFifo::new();
    queue.delete(observed("bar@6"), &known);
    queue.add(object("bar@100"));
    list(&mut queue, &["foo@5"], &known);
    list(&mut queue, &["foo@5"], &known);
    let want = [
        vec!["Deleted bar@6", "Added bar@100", "Missed bar@100"],
        vec!["Replaced foo@5", "Replaced foo@5"],
        vec!["Missed baz@7"],
    ];
    assert_eq!(drain(&mut queue), want);
}

#[test]
fn dfq_012_deletions_follow_replacements() {
    let mut queue = DeltaFifo::new();
    list(&mut queue, &["z@1", "y@2"], &Known::of(&["a@3", "b@4"]));
    let popped = drain(&mut queue).concat();
    assert_eq!(popped, ["Replaced z@1", "Replaced y@2", "Missed a@3", "Missed b@4"]);
}

#[test]
fn dfq_013_without_a_store_a_list_deletes_only_queued_objects() {
    let mut queue = DeltaFifo::new();
    queue.add(object("gone@1"));
    drain(&mut queue);
    queue.add(object("queued@2"));
    list(&mut queue, &["foo@5"], &Known::default());
    assert_eq!(drain(&mut queue), [vec!["Added queued@2", "Missed queued@2"], vec!["Replaced foo@5"]]);
}

#[test]
fn dfq_014_the_version_of_a_list_makes_no_difference() {
    let after = |text: &str| {
        let mut queue = DeltaFifo::new();
        queue.replace(objects(&["foo@5"]), version(text), &Known::default());
        queue.bookmark(version(text));
        drain(&mut queue)
    };
    assert_eq!(after("1"), after(""));
    assert_eq!(after("1"), [["Replaced foo@5"]]);
}

#[test]
fn dfq_015_a_list_is_queued_whole() {
    // Every object has a key, so nothing can fail between the first and the last.
    let names: Vec<String> = (0..500).map(|number| format!("a{number}@1")).collect();
    let mut queue = DeltaFifo::new();
    list(&mut queue, &names.iter().map(String::as_str).collect::<Vec<_>>(), &Known::default());
    assert_eq!(queue.len(), 500);
    let want: Vec<String> = names.iter().map(|name| format!("Replaced {name}")).collect();
    assert_eq!(drain(&mut queue).concat(), want);
}

#[test]
fn dfq_016_a_resync_redelivers_objects_that_are_not_queued() {
    let known = Known::of(&["bar@6", "foo@5"]);
    let mut queue = DeltaFifo::new();
    queue.update(object("foo@7"));
    queue.resync(&known);
    assert_eq!(drain(&mut queue), [["Updated foo@7"], ["Sync bar@6"]]);
    queue.delete(observed("foo@8"), &known);
    queue.resync(&known);
    assert_eq!(drain(&mut queue), [["Deleted foo@8"], ["Sync bar@6"]]);
    queue.resync(&Known::default());
    assert!(queue.is_empty());
}

#[test]
fn dfq_017_a_resync_skips_objects_deleted_in_flight() {
    let mut queue = DeltaFifo::new();
    let store = Known::of(&["bar@1"]).store();
    let in_flight = [(ObjectKey::cluster("bar"), None)].into();
    queue.push(Delta::SyncAll, &StoreView::new(store.table(), Some(&in_flight)));
    assert!(queue.is_empty());
}

#[test]
fn dfq_022_synced_when_the_first_list_is_processed() {
    type Step = fn(&mut DeltaFifo);
    let synced = |steps: &[Step]| {
        let mut queue = DeltaFifo::new();
        steps.iter().for_each(|step| step(&mut queue));
        queue.has_synced()
    };
    let add: Step = |queue| queue.add(object("a@1"));
    let update: Step = |queue| queue.update(object("a@1"));
    let delete: Step = |queue| queue.delete(observed("a@1"), &Known::default());
    let replace: Step = |queue| list(queue, &["a@1", "b@1"], &Known::default());
    let nothing: Step = |queue| list(queue, &[], &Known::default());
    let pop: Step = |queue| assert!(take(queue, 1).is_some());
    assert!(!synced(&[]));
    assert!(synced(&[add]) && synced(&[update]) && synced(&[delete]));
    assert!(synced(&[nothing]));
    assert!(!synced(&[replace]) && !synced(&[replace, pop]));
    assert!(synced(&[replace, pop, pop]));
    assert!(synced(&[add, replace]));
    // Deletions inferred from the list belong to it.
    let gone: Step = |queue| list(queue, &["a@1"], &Known::of(&["b@1"]));
    assert!(!synced(&[gone, pop]));
    assert!(synced(&[gone, pop, pop]));
}

#[test]
fn dfq_023_an_object_that_is_listed_twice_counts_once() {
    let mut queue = DeltaFifo::new();
    list(&mut queue, &["a@1", "a@1"], &Known::default());
    assert!(!queue.has_synced());
    assert_eq!(take(&mut queue, 1).unwrap(), ["Replaced a@1", "Replaced a@1"]);
    assert!(queue.has_synced());
}

#[test]
fn dfq_024_all_of_the_first_list_is_initial_and_nothing_else() {
    let mut queue = DeltaFifo::new();
    list(&mut queue, &["a@1", "b@1"], &Known::default());
    queue.update(object("c@2"));
    let batches: Vec<(bool, usize)> =
        std::iter::from_fn(|| queue.pop(BATCH_LIMIT)).map(|batch| (batch.initial, batch.count)).collect();
    assert_eq!(batches, [(true, 2), (false, 1)]);
}

#[test]
fn dfq_025_synced_only_after_the_last_initial_object_is_processed() {
    let mut queue = DeltaFifo::new();
    list(&mut queue, &["a@1"], &Known::default());
    let batch = queue.pop(BATCH_LIMIT).unwrap();
    assert!(batch.initial && !queue.has_synced());
    queue.processed(batch.count);
    assert!(queue.has_synced());
}

#[test]
fn ihc_16_an_empty_first_list_syncs_at_once() {
    let mut queue = DeltaFifo::new();
    queue.replace(Vec::new(), version("5"), &Known::default());
    assert!(queue.has_synced() && queue.pop(1).is_none());
}

#[test]
fn dfq_026_once_synced_it_stays_synced() {
    let known = Known::of(&["b@1"]);
    let mut queue = DeltaFifo::new();
    queue.resync(&known);
    assert!(!queue.has_synced());
    list(&mut queue, &["b@1"], &known);
    drain(&mut queue);
    assert!(queue.has_synced());
    list(&mut queue, &["b@2", "c@1"], &known);
    queue.resync(&known);
    assert!(queue.has_synced());
    assert!(!queue.pop(1).unwrap().initial);
}

#[test]
fn dfq_030_failed_deltas_are_not_requeued() {
    let mut queue = DeltaFifo::new();
    list(&mut queue, &["a@1"], &Known::default());
    let batch = queue.pop(1).unwrap();
    let count = batch.count;
    drop(batch);
    queue.processed(count);
    assert!(queue.has_synced() && queue.pop(1).is_none());
}

#[test]
fn dfq_034_up_to_the_limit_deltas_are_not_merged() {
    let mut queue = DeltaFifo::new();
    for number in 0..MAX_DELTAS_PER_KEY {
        queue.update(object(&format!("a@{}", number + 1)));
    }
    assert_eq!(take(&mut queue, 1).unwrap().len(), MAX_DELTAS_PER_KEY);
}

#[test]
fn dfq_034_updates_beyond_the_limit_are_merged_to_the_newest() {
    let mut queue = DeltaFifo::new();
    for number in 1..=10 * MAX_DELTAS_PER_KEY {
        queue.update(object(&format!("a@{number}")));
        assert!(queue.entries.values().all(|entry| entry.len() <= MAX_DELTAS_PER_KEY));
    }
    let popped = take(&mut queue, 1).unwrap();
    assert_eq!(popped.last().unwrap(), &format!("Updated a@{}", 10 * MAX_DELTAS_PER_KEY));
}

#[test]
fn dfq_034_a_lagging_consumer_gets_the_first_deletion_and_the_last_state() {
    let mut queue = DeltaFifo::new();
    queue.update(object("a@1"));
    queue.update(object("a@2"));
    for number in 1..=40 {
        queue.delete(observed(&format!("a@{number}0")), &Known::default());
        queue.add(object(&format!("a@{number}1")));
    }
    let popped = take(&mut queue, 1).unwrap();
    // The 65th delta merged the 64 before it.
    assert_eq!(&popped[..3], ["Updated a@2", "Deleted a@10", "Added a@311"]);
    assert_eq!(popped.last().unwrap(), "Added a@401");
    assert!(popped.len() <= MAX_DELTAS_PER_KEY);
}

#[test]
fn a_batch_has_all_deltas_of_each_of_its_objects() {
    let mut queue = DeltaFifo::new();
    for text in ["a@1", "b@2", "c@3", "b@4", "a@5"] {
        queue.update(object(text));
    }
    // Two of a, two of b, one of c.
    assert_eq!(queue.pop(3).unwrap().count, 1);
    let batch = queue.pop(3).unwrap();
    assert_eq!(
        (texts(&batch), batch.count),
        (vec!["Updated b@2".into(), "Updated b@4".into(), "Updated c@3".into()], 2)
    );
    queue.update(object("d@6"));
    queue.update(object("d@7"));
    // More than the limit, if one object alone has more.
    assert_eq!(queue.pop(1).unwrap().deltas.len(), 2);
}

#[test]
fn leg_008_an_object_added_and_deleted_while_queued_is_deleted() {
    let known = Known::of(&["old@1"]);
    let mut queue = DeltaFifo::new();
    queue.add(object("new@2"));
    list(&mut queue, &["old@1"], &known);
    assert_eq!(drain(&mut queue), [vec!["Added new@2", "Missed new@2"], vec!["Replaced old@1"]]);
}

#[test]
fn an_emptied_queue_frees_the_memory_of_a_long_list() {
    let mut queue = DeltaFifo::new();
    let long: Vec<Object> = (0..20_000).map(|number| object(&format!("a{number}@1"))).collect();
    queue.replace(long, version("1"), &Known::default());
    while let Some(batch) = queue.pop(BATCH_LIMIT) {
        queue.recycle(batch.deltas);
    }
    assert!(queue.order.capacity() <= RETAINED_CAPACITY && queue.entries.capacity() <= RETAINED_CAPACITY);
    assert!(queue.spare.is_empty() && queue.spare.capacity() >= BATCH_LIMIT);
}

#[test]
fn dfq_021_deltas_have_the_key_of_their_object() {
    let key = ObjectKey::cluster("foo");
    let about_one = [
        Delta::Added(object("foo@1")),
        Delta::Updated(object("foo@1")),
        Delta::Replaced(object("foo@1")),
        Delta::Sync(object("foo@1")),
        Delta::Deleted(observed("foo@1")),
        Delta::Deleted(Deleted::Missed { key: key.clone(), last_known: None }),
    ];
    assert!(about_one.iter().all(|delta| delta.key() == Some(&key)));
    assert_eq!(about_one.iter().filter(|delta| delta.object().is_none()).count(), 1);
    let all = Delta::ReplacedAll { objects: objects(&["foo@1"]), resource_version: version("1") };
    for delta in [all, Delta::SyncAll, Delta::Bookmark(version("1"))] {
        assert!(delta.key().is_none() && delta.object().is_none());
    }
}

#[test]
fn dfq_019_an_object_is_queued_under_the_key_that_it_is_stored_under() {
    let mut queue = DeltaFifo::new();
    queue.add(object("RENAMED@1"));
    assert_eq!(queue.order, ["RENAMED"].map(ObjectKey::cluster));
    assert_eq!(queue.pop(1).unwrap().deltas[0].key().unwrap().as_str(), "RENAMED");
}

#[test]
fn ihc_27_a_relist_of_renamed_objects_deletes_nothing() {
    let known = Known::of(&["POD1@1"]);
    let mut queue = DeltaFifo::new();
    list(&mut queue, &["POD1@1"], &known);
    assert_eq!(drain(&mut queue), [["Replaced POD1@1"]]);
}
