//! Fairness between tenants.

use super::*;
use crate::{AddOptions, QueueBuilder};

fn fair() -> QueueBuilder<(&'static str, u32)> {
    WorkQueue::builder().fair_by(|key: &(&'static str, u32)| key.0)
}

fn at(priority: i32) -> AddOptions {
    AddOptions::new().priority(priority)
}

fn tenants(queue: &WorkQueue<(&'static str, u32)>, n: usize) -> String {
    (0..n).map(|_| take(queue).0).collect()
}

#[test]
fn ask_33_one_key_of_a_small_tenant_does_not_wait_for_all_of_a_large_one() {
    let queue = fair().build();
    queue.add_all((0..10_000).map(|n| ("a", n)), AddOptions::new());
    assert_eq!(tenants(&queue, 3), "aaa");
    queue.add(("b", 0));
    assert!(tenants(&queue, 2).contains('b'), "after one more at most");
    assert_eq!(queue.len(), 9996);
}

#[test]
fn ask_33_tenants_take_turns_and_each_has_its_own_order() {
    let queue = fair().build();
    queue.add_all((0..6).map(|n| ("a", n)), AddOptions::new());
    queue.add_all((0..2).map(|n| ("b", n)), AddOptions::new());
    queue.add_all((0..3).map(|n| ("c", n)), AddOptions::new());
    let taken = take_all(&queue);
    assert_eq!(taken.iter().map(|key| key.0).collect::<String>(), "abcabcacaaa");
    for tenant in ["a", "b", "c"] {
        assert!(taken.iter().filter(|key| key.0 == tenant).is_sorted());
    }
}

#[test]
fn ask_33_a_returning_tenant_gets_no_extra_turn() {
    let queue = fair().build();
    queue.add_all((0..100).map(|n| ("a", n)), AddOptions::new());
    queue.add_all((0..100).map(|n| ("b", n)), AddOptions::new());
    let mut taken = String::new();
    for n in 0..60 {
        queue.add(("c", n));
        taken.push_str(take(&queue).0);
    }
    for tenant in ['a', 'b', 'c'] {
        assert_eq!(taken.chars().filter(|taken| *taken == tenant).count(), 20);
    }
}

#[test]
fn ask_33_tenants_take_turns_within_a_priority() {
    let queue = fair().share(None).build();
    queue.add_all((0..4).map(|n| ("a", n)), at(0));
    queue.add(("b", 0));
    queue.add_all((10..13).map(|n| ("a", n)), at(5));
    queue.add_all([("b", 10)], at(5));
    assert_eq!(take_all(&queue).iter().map(|key| key.0).collect::<String>(), "abaaabaaa");
}

#[test]
fn ask_33_raising_moves_a_key_from_one_lane_to_another() {
    let queue = fair().share(None).build();
    queue.add_all((0..3).map(|n| ("a", n)), at(0));
    queue.add_all([("b", 0), ("c", 0)], at(0));
    queue.add_all([("b", 0), ("a", 1)], at(1));
    assert_eq!(queue.len(), 5);
    assert_eq!(take_all(&queue), [("b", 0), ("a", 1), ("a", 0), ("c", 0), ("a", 2)]);
    assert!(queue.is_empty());
}

#[test]
fn ask_33_repeated_raising_loses_no_key() {
    let queue = fair().share(None).build();
    let keys = || (0..300).map(|n| (["a", "b", "c"][n as usize % 3], n));
    queue.add_all(keys(), at(-100));
    for priority in 0..10 {
        queue.add_all(keys().filter(|key| key.1 % 2 == priority as u32 % 2), at(priority));
        assert_eq!(queue.len(), 300);
    }
    let mut taken = take_all(&queue);
    taken.sort_unstable_by_key(|key| key.1);
    assert_eq!(taken, keys().collect::<Vec<_>>());
}

#[test]
fn ask_33_the_share_of_low_keys_is_fair_too() {
    let queue = fair().build();
    queue.add_all((0..1000).map(|n| ("a", n)), at(-1));
    queue.add_all([("b", 0)], at(-1));
    queue.add_all((0..1000).map(|n| ("h", n)), at(1));
    let taken = tenants(&queue, 24);
    assert_eq!(taken.matches('h').count(), 21);
    assert_eq!(taken.matches('b').count(), 1, "after one of the large tenant");
}

#[test]
fn ask_33_ten_thousand_tenants_have_one_turn_each() {
    let queue = WorkQueue::<String>::builder().fair_by(|key| key.split('/').next().unwrap_or_default()).build();
    for object in 0..3 {
        queue.add_all((0..10_000).map(|tenant| format!("{tenant}/{object}")), AddOptions::new());
    }
    for object in ["0", "1", "2"] {
        for _ in 0..10_000 {
            assert!(take(&queue).ends_with(object));
        }
    }
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn ask_33_keys_that_become_due_take_turns_too() {
    let queue = fair().build();
    queue.add_all((0..100).map(|n| ("a", n)), AddOptions::new().after(ms(10)));
    queue.add_after(("b", 0), ms(10));
    step(ms(10)).await;
    assert!(tenants(&queue, 2).contains('b'));
}
