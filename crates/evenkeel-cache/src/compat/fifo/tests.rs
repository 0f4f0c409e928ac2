use super::*;
use crate::delta_queue::BATCH_LIMIT;
use crate::delta_queue::testing::{Known, TestQueue, drain, object, objects, observed, take, version};

fn list(queue: &mut Fifo, texts: &[&str]) {
    queue.replace(objects(texts), version("100"), &Known::default());
}

#[test]
fn fif_001_the_last_state_keeps_the_first_position() {
    let mut queue = Fifo::new();
    queue.add(object("foo@10"));
    queue.add(object("bar@1"));
    queue.update(object("foo@11"));
    queue.add(object("foo@13"));
    queue.add(object("zab@30"));
    assert_eq!(queue.len(), 3);
    assert_eq!(drain(&mut queue).concat(), ["Updated foo@13", "Updated bar@1", "Updated zab@30"]);
    queue.update(object("foo@14"));
    assert_eq!(drain(&mut queue).concat(), ["Updated foo@14"]);
}

#[test]
fn fif_002_a_deleted_object_is_not_popped() {
    let mut queue = Fifo::new();
    for text in ["a@1", "b@1", "c@1"] {
        queue.add(object(text));
    }
    queue.delete(observed("b@2"), &Known::default());
    queue.delete(observed("unknown@2"), &Known::default());
    assert_eq!(queue.len(), 2);
    assert_eq!(drain(&mut queue).concat(), ["Updated a@1", "Updated c@1"]);
}

#[test]
fn fif_003_an_object_added_again_is_popped_once_at_its_first_position() {
    let mut queue = Fifo::new();
    for text in ["a@1", "b@1", "c@1"] {
        queue.add(object(text));
    }
    for _ in 0..10 {
        queue.delete(observed("b@2"), &Known::default());
        queue.add(object("b@3"));
    }
    assert_eq!(queue.order.len(), 3);
    assert_eq!(drain(&mut queue).concat(), ["Updated a@1", "Updated b@3", "Updated c@1"]);
}

#[test]
fn fif_004_a_list_replaces_the_queue() {
    let mut queue = Fifo::new();
    queue.add(object("foo@10"));
    queue.add(object("gone@1"));
    list(&mut queue, &["z@1", "foo@15", "z@2"]);
    assert_eq!(drain(&mut queue).concat(), ["Updated z@2", "Updated foo@15"]);
}

#[test]
fn fif_005_the_last_state_is_popped_without_history() {
    let mut queue = Fifo::new();
    queue.add(object("foo@10"));
    queue.update(object("foo@11"));
    assert_eq!(take(&mut queue, BATCH_LIMIT).unwrap(), ["Updated foo@11"]);
    assert!(queue.pop(1).is_none());
}

#[test]
fn fif_006_synced_when_the_first_list_is_processed() {
    let mut queue = Fifo::new();
    assert!(!queue.has_synced());
    list(&mut queue, &["a@1", "b@1", "a@1"]);
    assert!(take(&mut queue, 1).is_some() && !queue.has_synced());
    let batch = queue.pop(1).unwrap();
    assert!(batch.initial && !queue.has_synced());
    queue.processed(batch.count);
    assert!(queue.has_synced());

    let pushes: [fn(&mut Fifo); 4] = [
        |queue| queue.add(object("a@1")),
        |queue| queue.update(object("a@1")),
        |queue| queue.delete(observed("a@1"), &Known::default()),
        |queue| list(queue, &[]),
    ];
    for push in pushes {
        let mut queue = Fifo::new();
        push(&mut queue);
        assert!(queue.has_synced());
    }
}

#[test]
fn fif_006_deleted_and_replaced_objects_do_not_delay_the_sync() {
    let mut queue = Fifo::new();
    list(&mut queue, &["a@1", "b@1", "c@1"]);
    queue.delete(observed("b@1"), &Known::default());
    assert!(take(&mut queue, 1).is_some() && !queue.has_synced());
    queue.delete(observed("c@1"), &Known::default());
    assert!(queue.is_empty() && queue.has_synced());

    let mut queue = Fifo::new();
    list(&mut queue, &["a@1", "b@1", "c@1"]);
    let batch = queue.pop(1).unwrap();
    list(&mut queue, &["d@1"]);
    queue.processed(batch.count);
    assert!(!queue.has_synced());
    assert_eq!(take(&mut queue, 1).unwrap(), ["Updated d@1"]);
    assert!(queue.has_synced());
}

#[test]
fn ihc_15_synced_only_after_processing() {
    let mut queue = Fifo::new();
    list(&mut queue, &["a@1"]);
    let batch = queue.pop(1).unwrap();
    assert!(!queue.has_synced());
    queue.processed(batch.count);
    assert!(queue.has_synced());
}

#[test]
fn ihc_16_an_empty_first_list_syncs_at_once() {
    let mut queue = Fifo::new();
    queue.replace(Vec::new(), version("5"), &Known::default());
    assert!(queue.has_synced() && queue.pop(1).is_none());
}

#[test]
fn fif_007_a_resync_finds_nothing_missing() {
    let mut queue = Fifo::new();
    queue.add(object("a@1"));
    queue.resync(&Known::of(&["b@1"]));
    queue.bookmark(version("9"));
    assert_eq!(drain(&mut queue).concat(), ["Updated a@1"]);
    let ordered: std::collections::HashSet<&ObjectKey> = queue.order.iter().collect();
    assert_eq!(ordered, queue.objects.keys().collect());
}

#[test]
fn a_deleted_first_key_leaves_no_entry() {
    let mut queue = Fifo::new();
    for text in ["a@1", "b@1", "c@1"] {
        queue.add(object(text));
    }
    queue.delete(observed("b@1"), &Known::default());
    queue.delete(observed("a@1"), &Known::default());
    assert_eq!((queue.order.len(), queue.objects.len(), queue.len()), (1, 1, 1));
    queue.delete(observed("c@1"), &Known::default());
    assert!(queue.order.is_empty() && queue.objects.is_empty() && queue.pop(1).is_none());
}

#[test]
fn a_batch_ends_with_the_first_list() {
    let mut queue = Fifo::new();
    list(&mut queue, &["a@1", "b@1"]);
    queue.update(object("c@2"));
    let batches: Vec<(bool, usize)> =
        std::iter::from_fn(|| queue.pop(BATCH_LIMIT)).map(|batch| (batch.initial, batch.deltas.len())).collect();
    assert_eq!(batches, [(true, 2), (false, 1)]);
}
