use super::*;
use crate::delta_queue::BATCH_LIMIT;
use crate::delta_queue::testing::{
    Known, TestQueue, drain, missed, object, objects, observed, take, text, texts, version,
};

fn atomic() -> OrderedQueue {
    OrderedQueue::new(ListMode::Atomic)
}

fn per_item() -> OrderedQueue {
    OrderedQueue::new(ListMode::PerItem)
}

#[test]
fn rfq_001_deltas_leave_the_queue_in_push_order() {
    for mut queue in [atomic(), per_item()] {
        queue.add(object("foo@10"));
        queue.add(object("bar@1"));
        queue.update(object("foo@11"));
        queue.update(object("foo@11"));
        queue.delete(observed("bar@2"), &Known::default());
        queue.delete(missed("bar@2"), &Known::default());
        let want = ["Added foo@10", "Added bar@1", "Updated foo@11", "Updated foo@11", "Deleted bar@2", "Missed bar@2"];
        assert_eq!(drain(&mut queue).concat(), want);
    }
}

#[test]
fn rfq_016_an_atomic_list_is_one_delta() {
    let mut queue = atomic();
    queue.add(object("baz@10"));
    queue.replace(objects(&["foo@5", "bar@6"]), version("7"), &Known::of(&["old@1"]));
    assert_eq!(drain(&mut queue), [["Added baz@10"], ["ReplacedAll[foo@5 bar@6]@7"]]);
}

fn list(queue: &mut OrderedQueue, texts: &[&str], known: &Known) {
    queue.replace(objects(texts), version("100"), known);
}

/// Returns the popped batches, each with whether it is initial.
fn batches(queue: &mut OrderedQueue, limit: usize) -> Vec<(bool, Vec<String>)> {
    let next = || {
        let batch = queue.pop(limit)?;
        queue.processed(batch.count);
        assert_eq!(batch.count, batch.deltas.len());
        Some((batch.initial, texts(&batch)))
    };
    std::iter::from_fn(next).collect()
}

fn sizes(queue: &mut OrderedQueue) -> Vec<usize> {
    batches(queue, BATCH_LIMIT).into_iter().map(|(_, deltas)| deltas.len()).collect()
}

#[test]
fn rfq_002_a_limit_of_one_pops_one_by_one() {
    let mut queue = atomic();
    queue.add(object("foo@1"));
    queue.update(object("bar@2"));
    assert_eq!(queue.pop(1).unwrap().deltas.len(), 1);
    // A limit of zero would make no progress.
    assert_eq!(queue.pop(0).unwrap().deltas.len(), 1);
    assert!(queue.pop(1).is_none());
}

#[test]
fn rfq_003_a_deletion_is_queued_whether_known_or_not() {
    for mut queue in [atomic(), per_item()] {
        queue.delete(observed("unknown@1"), &Known::default());
        let batch = queue.pop(1).unwrap();
        // Applying it finds nothing to delete.
        assert_eq!(batch.deltas[0].key(), Some(&ObjectKey::cluster("unknown")));
        assert!(batch.deltas[0].is_deleted());
    }
}

#[test]
fn ihc_30_b_a_watched_deletion_of_an_unknown_object_has_no_effect_when_applied() {
    let mut queue = atomic();
    queue.delete(observed("never@2"), &Known::default());
    let mut store = Known::of(&["foo@1"]);
    queue.pop(1).unwrap().deltas.into_iter().for_each(|delta| store.apply(delta));
    assert_eq!(store.texts(), ["foo@1"]);
}

#[test]
fn rfq_004_the_mode_determines_whether_the_store_is_read() {
    let known = Known::of(&["b@1"]);
    let mut queue = atomic();
    queue.delete(observed("a@1"), &known);
    queue.replace(objects(&["a@1"]), version("1"), &known);
    queue.resync(&known);
    assert_eq!(drain(&mut queue).concat(), ["Deleted a@1", "ReplacedAll[a@1]@1", "SyncAll"]);
    assert_eq!((atomic().reads_store(), per_item().reads_store()), (false, true));
    assert_eq!(ListMode::default(), ListMode::Atomic);
}

#[test]
fn rfq_005_the_key_of_every_delta_about_one_object_is_known() {
    for delta in [Delta::Added(object("a@1")), Delta::Sync(object("a@1")), Delta::Deleted(missed("a@1"))] {
        assert_eq!(delta.key().unwrap().as_str(), "a", "{}", text(&delta));
    }
    assert!(Delta::SyncAll.key().is_none());
}

#[test]
fn rfq_008_popped_deltas_are_not_retained() {
    let mut queue = atomic();
    let object = object("a@1");
    queue.add(object.clone());
    queue.add(object.clone());
    drop(queue.pop(1));
    let vector = queue.pop(1).unwrap().deltas;
    queue.recycle(vector);
    let info = std::sync::Arc::clone(object.resource());
    drop(object);
    // This reference, and none of the queue.
    assert_eq!((std::sync::Arc::strong_count(&info), queue.len()), (1, 0));
}

#[test]
fn rfq_009_a_list_is_queued_whole() {
    let names: Vec<String> = (0..500).map(|number| format!("a{number}@1")).collect();
    let mut queue = per_item();
    list(&mut queue, &names.iter().map(String::as_str).collect::<Vec<_>>(), &Known::default());
    let want: Vec<String> = names.iter().map(|name| format!("Replaced {name}")).collect();
    assert_eq!(drain(&mut queue).concat(), want);
}

#[test]
fn rfq_010_queued_objects_missing_from_a_list_are_deleted_in_queue_order() {
    let mut queue = per_item();
    for text in ["c@1", "b@2", "a@3", "c@4"] {
        queue.update(object(text));
    }
    queue.delete(observed("b@5"), &Known::default());
    list(&mut queue, &["x@9"], &Known::default());
    let popped = drain(&mut queue).concat();
    assert_eq!(&popped[5..], ["Missed c@4", "Missed a@3", "Replaced x@9"]);
}

#[test]
fn rfq_011_known_objects_missing_from_a_list_are_deleted() {
    let mut queue = per_item();
    list(&mut queue, &["foo@5"], &Known::of(&["bar@6", "baz@7", "foo@5"]));
    assert_eq!(drain(&mut queue).concat(), ["Missed bar@6", "Missed baz@7", "Replaced foo@5"]);
    // Queued objects are not looked up in the store, even if they are about to be deleted.
    queue.delete(observed("bar@8"), &Known::default());
    list(&mut queue, &[], &Known::of(&["bar@6"]));
    assert_eq!(drain(&mut queue).concat(), ["Deleted bar@8"]);
}

#[test]
fn rfq_012_deletions_precede_replacements() {
    let mut queue = per_item();
    queue.delete(observed("z@1"), &Known::default());
    list(&mut queue, &["z@2", "y@3"], &Known::of(&["a@4"]));
    assert_eq!(drain(&mut queue).concat(), ["Deleted z@1", "Missed a@4", "Replaced z@2", "Replaced y@3"]);
}

#[test]
fn ihc_08_a_list_against_queue_and_store() {
    let mut queue = per_item();
    queue.add(object("baz@10"));
    list(&mut queue, &["foo@5"], &Known::of(&["foo@5", "bar@6", "baz@7"]));
    assert_eq!(drain(&mut queue).concat(), ["Added baz@10", "Missed baz@10", "Missed bar@6", "Replaced foo@5"]);
}

#[test]
fn ihc_09_tombstones_carry_the_freshest_state() {
    let known = Known::of(&["foo@5", "bar@6", "baz@7"]);
    let mut queue = per_item();
    queue.delete(observed("bar@6"), &known);
    queue.add(object("bar@100"));
    list(&mut queue, &["foo@5"], &known);
    let first = ["Deleted bar@6", "Added bar@100", "Missed bar@100", "Missed baz@7", "Replaced foo@5"];
    list(&mut queue, &["foo@5"], &known);
    assert_eq!(drain(&mut queue).concat(), [&first[..], &["Replaced foo@5"]].concat());
}

#[test]
fn ihc_10_deleted_and_listed_again_is_not_collapsed() {
    let known = Known::of(&["foo@1"]);
    let mut queue = per_item();
    queue.delete(observed("foo@1"), &known);
    list(&mut queue, &["foo@2"], &known);
    assert_eq!(sizes(&mut queue), [1, 1]);
}

#[test]
fn rfq_013_a_list_is_replaced_never_sync() {
    let mut queue = per_item();
    list(&mut queue, &["a@1"], &Known::of(&["a@1"]));
    assert_eq!(drain(&mut queue).concat(), ["Replaced a@1"]);
}

#[test]
fn rfq_014_a_resync_redelivers_objects_that_are_not_queued() {
    let known = Known::of(&["bar@6", "foo@5"]);
    let mut queue = per_item();
    queue.update(object("foo@7"));
    queue.resync(&known);
    assert_eq!(drain(&mut queue).concat(), ["Updated foo@7", "Sync bar@6"]);
    queue.delete(observed("foo@8"), &known);
    queue.delete(observed("unknown@8"), &known);
    queue.resync(&known);
    assert_eq!(drain(&mut queue).concat(), ["Deleted foo@8", "Deleted unknown@8", "Sync bar@6"]);
}

#[test]
fn rfq_018_every_list_is_queued_even_an_equal_one() {
    let mut queue = atomic();
    for _ in 0..2 {
        queue.replace(objects(&["a@1"]), version("7"), &Known::default());
    }
    queue.replace(Vec::new(), version("8"), &Known::default());
    assert_eq!(drain(&mut queue).concat(), ["ReplacedAll[a@1]@7", "ReplacedAll[a@1]@7", "ReplacedAll[]@8"]);
}

#[test]
fn rfq_016_a_list_is_moved_not_copied() {
    let mut queue = atomic();
    let list = vec![object("a@1"); 50_000];
    let place = list.as_ptr();
    queue.replace(list, version("7"), &Known::default());
    let batch = queue.pop(BATCH_LIMIT).unwrap();
    assert!(matches!(&batch.deltas[..], [Delta::ReplacedAll { objects, .. }] if objects.as_ptr() == place));
}

#[test]
fn rfq_019_a_resync_is_one_delta_whatever_is_queued() {
    let mut queue = atomic();
    queue.update(object("foo@1"));
    queue.resync(&Known::of(&["foo@1", "bar@2"]));
    queue.resync(&Known::default());
    assert_eq!(drain(&mut queue).concat(), ["Updated foo@1", "SyncAll", "SyncAll"]);
}

#[test]
fn rfq_020_bookmarks_are_queued_in_atomic_mode_only_and_are_not_events() {
    let mut queue = atomic();
    queue.bookmark(version("9"));
    assert!(!queue.has_synced());
    assert_eq!(drain(&mut queue).concat(), ["Bookmark 9"]);
    assert!(!queue.has_synced());
    let mut queue = per_item();
    queue.bookmark(version("9"));
    assert!(queue.is_empty() && !queue.has_synced());
}

#[test]
fn rfq_021_the_length_is_right_after_every_push() {
    let mut queue = atomic();
    let mut lengths = Vec::new();
    queue.bookmark(version("9"));
    lengths.push(queue.len());
    queue.add(object("a@1"));
    lengths.push(queue.len());
    queue.replace(objects(&["a@1", "b@2"]), version("9"), &Known::default());
    lengths.push(queue.len());
    queue.resync(&Known::default());
    lengths.push(queue.len());
    drop(queue.pop(1));
    lengths.push(queue.len());
    assert_eq!(lengths, [1, 2, 3, 4, 3]);
}

#[test]
fn rfq_022_synced_when_everything_queued_with_the_first_list_is_processed() {
    for queue in [atomic, per_item] {
        let pushes: [fn(&mut OrderedQueue); 3] = [
            |queue| queue.add(object("a@1")),
            |queue| queue.update(object("a@1")),
            |queue| queue.delete(observed("a@1"), &Known::default()),
        ];
        for push in pushes {
            let mut queue = queue();
            assert!(!queue.has_synced());
            push(&mut queue);
            assert!(queue.has_synced());
        }
    }
    // Tombstones count.
    let mut queue = per_item();
    list(&mut queue, &["a@1", "b@1"], &Known::of(&["c@1"]));
    let synced: Vec<bool> = (0..3).map(|_| take(&mut queue, 1).is_some() && queue.has_synced()).collect();
    assert_eq!(synced, [false, false, true]);
    // So do earlier bookmarks.
    let mut queue = atomic();
    queue.bookmark(version("1"));
    list(&mut queue, &["a@1"], &Known::default());
    queue.add(object("b@2"));
    let synced: Vec<bool> = (0..2).map(|_| take(&mut queue, 1).is_some() && queue.has_synced()).collect();
    assert_eq!(synced, [false, true]);
}

#[test]
fn rfq_023_an_empty_first_list() {
    let mut queue = per_item();
    list(&mut queue, &[], &Known::default());
    assert!(queue.has_synced());
    let mut queue = atomic();
    list(&mut queue, &[], &Known::default());
    assert!(!queue.has_synced());
    drain(&mut queue);
    assert!(queue.has_synced());
}

#[test]
fn ihc_16_an_empty_first_list_sets_the_version() {
    let mut queue = atomic();
    queue.replace(Vec::new(), version("5"), &Known::default());
    assert!(!queue.has_synced());
    assert_eq!(take(&mut queue, BATCH_LIMIT).unwrap(), ["ReplacedAll[]@5"]);
    assert!(queue.has_synced() && queue.is_empty());
}

#[test]
fn rfq_024_an_object_that_is_listed_twice_counts_twice() {
    let mut queue = per_item();
    list(&mut queue, &["a@1", "a@1"], &Known::default());
    let synced: Vec<bool> = (0..2).map(|_| take(&mut queue, BATCH_LIMIT).is_some() && queue.has_synced()).collect();
    assert_eq!(synced, [false, true]);
}

#[test]
fn rfq_025_synced_only_after_the_last_initial_delta_is_processed() {
    for mut queue in [atomic(), per_item()] {
        list(&mut queue, &["a@1"], &Known::default());
        let batch = queue.pop(BATCH_LIMIT).unwrap();
        assert!(!queue.has_synced());
        // Independent of the outcome.
        let count = batch.count;
        drop(batch);
        queue.processed(count);
        assert!(queue.has_synced());
    }
}

#[test]
fn rfq_026_deltas_of_the_first_list_are_initial() {
    let mut queue = per_item();
    list(&mut queue, &["a@1", "b@1"], &Known::default());
    list(&mut queue, &["a@1", "b@1"], &Known::default());
    let initial: Vec<bool> = batches(&mut queue, 1).into_iter().map(|(initial, _)| initial).collect();
    assert_eq!(initial, [true, true, false, false]);
    let mut queue = atomic();
    queue.bookmark(version("1"));
    assert!(queue.pop(1).unwrap().initial);
    queue.add(object("a@1"));
    assert!(!queue.pop(1).unwrap().initial);
}

#[test]
fn rfq_027_a_batch_has_at_most_a_thousand_deltas_and_no_collection_delta() {
    assert_eq!(BATCH_LIMIT, 1000);
    let mut queue = atomic();
    for number in 0..1001 {
        queue.add(object(&format!("a{number}@1")));
    }
    assert_eq!(sizes(&mut queue), [1000, 1]);

    queue.add(object("a@1"));
    queue.update(object("b@1"));
    queue.delete(observed("c@1"), &Known::default());
    queue.resync(&Known::default());
    queue.add(object("a@2"));
    queue.bookmark(version("3"));
    list(&mut queue, &["a@2"], &Known::default());
    queue.add(object("d@2"));
    queue.add(object("e@2"));
    assert_eq!(sizes(&mut queue), [3, 1, 1, 1, 1, 2]);
}

#[test]
fn rfq_028_a_batch_ends_before_a_repeated_object() {
    let mut queue = atomic();
    for text in ["a@1", "b@2", "a@3", "c@4", "c@5"] {
        queue.update(object(text));
    }
    assert_eq!(sizes(&mut queue), [2, 2, 1]);
    assert!(queue.keys.is_empty());
}

#[test]
fn ihc_12_batches() {
    fn of(texts: &[&str], initial: bool) -> (bool, Vec<String>) {
        (initial, texts.iter().map(|text| (*text).into()).collect())
    }
    let mut queue = per_item();
    list(&mut queue, &["o1@1", "o2@1", "o3@1"], &Known::default());
    queue.update(object("o4@2"));
    let want =
        [of(&["Replaced o1@1", "Replaced o2@1"], true), of(&["Replaced o3@1"], true), of(&["Updated o4@2"], false)];
    assert_eq!(batches(&mut queue, 2), want);

    let mut queue = per_item();
    list(&mut queue, &["o1@1", "o2@1"], &Known::default());
    queue.update(object("o2@2"));
    queue.update(object("o3@2"));
    let want = [of(&["Replaced o1@1", "Replaced o2@1"], true), of(&["Updated o2@2", "Updated o3@2"], false)];
    assert_eq!(batches(&mut queue, BATCH_LIMIT), want);

    let mut queue = per_item();
    list(&mut queue, &["o1@1"], &Known::default());
    queue.update(object("o1@2"));
    queue.update(object("o1@3"));
    assert_eq!(sizes(&mut queue), [1, 1, 1]);
}

#[test]
fn rfq_029_collection_deltas_are_popped_alone() {
    let mut queue = atomic();
    queue.bookmark(version("1"));
    queue.add(object("a@2"));
    assert_eq!(sizes(&mut queue), [1, 1]);
}

#[test]
fn rfq_030_singly_or_in_batches_the_effect_is_the_same() {
    let applied = |limit: usize| {
        let mut queue = per_item();
        let mut store = Known::of(&["a@1", "z@1"]);
        list(&mut queue, &["a@2", "b@2"], &store.clone());
        queue.update(object("b@3"));
        queue.delete(observed("a@4"), &Known::default());
        while let Some(batch) = queue.pop(limit) {
            batch.deltas.into_iter().for_each(|delta| store.apply(delta));
        }
        store.texts()
    };
    assert_eq!(applied(1), ["b@3"]);
    assert_eq!(applied(BATCH_LIMIT), applied(1));
}

#[test]
fn rfq_031_a_batch_counts_for_all_its_deltas() {
    let mut queue = per_item();
    list(&mut queue, &["a@1", "b@1", "c@1"], &Known::default());
    let batch = queue.pop(2).unwrap();
    queue.processed(batch.count);
    assert!(!queue.has_synced());
    let batch = queue.pop(2).unwrap();
    assert_eq!((batch.count, batch.initial), (1, true));
    queue.processed(batch.count);
    assert!(queue.has_synced());
}

#[test]
fn an_emptied_queue_frees_the_memory_of_a_long_list() {
    let mut queue = per_item();
    queue.replace((0..20_000).map(|number| object(&format!("a{number}@1"))).collect(), version("1"), &Known::default());
    while let Some(batch) = queue.pop(BATCH_LIMIT) {
        queue.recycle(batch.deltas);
    }
    assert!(queue.deltas.capacity() <= RETAINED_CAPACITY);
    assert!(queue.spare.is_empty() && queue.spare.capacity() >= BATCH_LIMIT);
}

#[test]
fn ihc_27_a_relist_of_renamed_objects_deletes_nothing() {
    let known = Known::of(&["POD1@1"]);
    let mut queue = per_item();
    list(&mut queue, &["POD1@1"], &known);
    assert_eq!(drain(&mut queue), [["Replaced POD1@1"]]);
    let mut queue = atomic();
    list(&mut queue, &["POD1@1"], &known);
    assert_eq!(drain(&mut queue), [["ReplacedAll[POD1@1]@100"]]);
}

#[test]
fn a_delta_is_a_cache_line() {
    assert!(size_of::<Delta>() <= 64, "{}", size_of::<Delta>());
}
