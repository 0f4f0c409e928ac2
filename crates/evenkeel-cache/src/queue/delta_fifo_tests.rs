use super::*;
use crate::queue::NothingKnown;
use crate::queue::testing::{Known, drain, missed, object, objects, observed, take, texts, version};

fn list(queue: &mut DeltaFifo, texts: &[&str], known: &dyn KnownObjects) {
    queue.replace(objects(texts), version("100"), known);
}

#[test]
fn dfq_001_deltas_of_one_key_have_two_ends() {
    let mut queue = DeltaFifo::new();
    queue.add(object("foo@1"));
    queue.update(object("foo@2"));
    queue.delete(observed("foo@3"), &NothingKnown);
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
fn dfq_003_no_line_jumping() {
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
fn dfq_004_all_deltas_of_a_key_come_at_once() {
    let mut queue = DeltaFifo::new();
    queue.add(object("foo@10"));
    list(&mut queue, &["foo@15"], &NothingKnown);
    let popped = take(&mut queue, 1).unwrap();
    assert_eq!(popped, ["Added foo@10", "Replaced foo@15"]);
    assert_eq!((queue.len(), queue.pop(1).is_none()), (0, true));
}

#[test]
fn hc_07_only_deletions_in_a_row_are_merged() {
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
