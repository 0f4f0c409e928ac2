use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[test]
fn expired_entries_are_removed_in_one_round_and_their_memory_in_the_next() {
    let mut map = ExpiringMap::new();
    for key in 0..10_000 {
        *map.get_or_insert(&key, || false) = key != 7;
    }
    let buckets = map.table.num_buckets();
    for _ in 0..buckets.div_ceil(STRIDE) {
        map.sweep(|over| *over);
    }
    assert_eq!(map.len(), 1);
    assert_eq!(map.get(&7), Some(&false));
    map.sweep(|over| *over);
    assert!(map.table.num_buckets() < 16, "{}", map.table.num_buckets());
    assert!(map.remove(&7) && !map.remove(&7));
    map.sweep(|over| *over);
    assert_eq!(map.len(), 0);
}

#[test]
fn a_full_sweep_keeps_live_entries() {
    let mut map = ExpiringMap::new();
    for key in 0..1000 {
        map.get_or_insert(&key, || key);
    }
    map.sweep_all(|value| *value >= 10);
    assert_eq!(map.len(), 10);
    assert!((0..10).all(|key| map.get(&key) == Some(&key)));
    assert!(map.table.num_buckets() <= 32);
}

#[test]
fn short_lived_keys_use_memory_of_the_live_ones_only() {
    let mut map = ExpiringMap::new();
    for now in 0..100_000_u32 {
        map.sweep(|end| *end < now);
        map.get_or_insert(&now, || now + 1000);
        assert!(map.len() < 1600, "{} at {now}", map.len());
    }
}

proptest! {
    #[test]
    fn the_map_matches_a_hash_map(steps in vec((0..4_u8, 0..64_u32, 0..8_u32), 0..400)) {
        let (mut map, mut model) = (ExpiringMap::new(), BTreeMap::new());
        for (step, key, value) in steps {
            match step {
                0 | 1 => {
                    *map.get_or_insert(&key, || value) = value;
                    model.insert(key, value);
                }
                2 => prop_assert_eq!(map.remove(&key), model.remove(&key).is_some()),
                _ => {
                    map.sweep(|held| *held == value);
                    model.retain(|key, held| *held != value || map.get(key).is_some());
                }
            }
            prop_assert_eq!(map.len(), model.len());
            prop_assert_eq!(map.get(&key), model.get(&key));
            prop_assert_eq!(map.get_mut(&key), model.get_mut(&key));
        }
        prop_assert!(model.iter().all(|(key, value)| map.get(key) == Some(value)));
    }
}
