use super::*;
use crate::queue::testing::{Known, drain, missed, object, objects, observed, take, text, texts, version};
use crate::queue::{BATCH_LIMIT, NothingKnown};

fn atomic() -> OrderedQueue {
    OrderedQueue::new(Mode::Atomic)
}

fn per_item() -> OrderedQueue {
    OrderedQueue::new(Mode::PerItem)
}

#[test]
fn rfq_001_everything_comes_out_in_the_order_it_came() {
    for mut queue in [atomic(), per_item()] {
        queue.add(object("foo@10"));
        queue.add(object("bar@1"));
        queue.update(object("foo@11"));
        queue.update(object("foo@11"));
        queue.delete(observed("bar@2"), &NothingKnown);
        queue.delete(missed("bar@2"), &NothingKnown);
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
