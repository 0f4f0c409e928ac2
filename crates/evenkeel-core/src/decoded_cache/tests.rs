use super::*;

fn remember(decoded_cache: &DecodedCache, id: u64) -> Arc<u64> {
    let value = Arc::new(id);
    decoded_cache.put(id, &value);
    value
}

#[test]
fn the_cache_keeps_the_last_values_only() {
    let decoded_cache = DecodedCache::default();
    let values: Vec<Arc<u64>> = (0..16 * VALUES).map(|_| remember(&decoded_cache, decoded_cache.next_id())).collect();
    let held = values.iter().filter(|value| Arc::strong_count(value) > 1).count();
    assert_eq!(held, VALUES);
    let newest = 16 * VALUES as u64 - 1;
    assert_eq!(decoded_cache.get::<u64>(newest).as_deref(), Some(&newest));
    assert_eq!(decoded_cache.get::<u64>(0), None, "its place was taken");
    assert_eq!(decoded_cache.get::<String>(newest), None, "a value of another type is not returned");
    decoded_cache.remove(newest);
    assert_eq!(decoded_cache.get::<u64>(newest), None);
}

#[test]
fn a_hundred_objects_fit_whatever_their_ids() {
    for step in [1, 2, 7, 64, 100, 256, 1000, 4096, 10_007] {
        let decoded_cache = DecodedCache::default();
        let ids = (0..100).map(|index| 12_345 + index * step);
        let _values: Vec<_> = ids.clone().map(|id| remember(&decoded_cache, id)).collect();
        let held = ids.filter(|id| decoded_cache.get::<u64>(*id).is_some()).count();
        assert_eq!(held, 100, "numbers that are {step} apart");
    }
}

#[test]
fn recently_used_values_stay_cached() {
    let decoded_cache = DecodedCache::default();
    let _kept = remember(&decoded_cache, 0);
    for id in 1..100 * VALUES as u64 {
        remember(&decoded_cache, id);
        assert!(decoded_cache.get::<u64>(0).is_some(), "after {id}");
    }
}

#[test]
fn free_entries_are_used_before_evicting() {
    let decoded_cache = DecodedCache::default();
    let ids: Vec<u64> = (0..100).collect();
    let _values: Vec<_> = ids.iter().map(|id| remember(&decoded_cache, *id)).collect();
    // Objects that are repeatedly replaced by newer ones, and read in between.
    for newer in 100..10_000 {
        decoded_cache.remove(newer - 1);
        remember(&decoded_cache, newer);
    }
    let held = ids.iter().filter(|id| decoded_cache.get::<u64>(**id).is_some()).count();
    assert_eq!(held, 99, "all but the one that was forgotten");
}

#[test]
fn a_value_decoded_twice_has_one_entry() {
    let decoded_cache = DecodedCache::default();
    let first = remember(&decoded_cache, 7);
    let second = remember(&decoded_cache, 7);
    assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 2));
    decoded_cache.remove(7);
    assert_eq!(Arc::strong_count(&second), 1);
}
