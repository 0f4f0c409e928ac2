use super::*;

/// The bytes of a value of these tests, without and with what the cache adds.
const VALUE: usize = 1000 - OVERHEAD;
const ENTRY: usize = 1000;

/// Addresses are multiples of sixteen.
fn address(number: usize) -> usize {
    0x7000_0000 + number * 192
}

fn remember(cache: &DecodedCache, number: usize) -> Arc<usize> {
    let value = Arc::new(number);
    cache.put(address(number), &value, VALUE);
    value
}

/// Reads the value of an object, and decodes it if it is not cached. Returns whether it was.
fn read(cache: &DecodedCache, number: usize) -> bool {
    let found = cache.get::<usize>(address(number));
    if found.is_none() {
        remember(cache, number);
    }
    found.is_some_and(|value| *value == number)
}

fn cached(cache: &DecodedCache, numbers: std::ops::Range<usize>) -> usize {
    numbers.filter(|number| cache.get::<usize>(address(*number)).is_some()).count()
}

#[test]
fn values_within_the_budget_are_decoded_once() {
    let cache = DecodedCache::new(1000 * ENTRY);
    assert_eq!((0..1000).filter(|number| read(&cache, *number)).count(), 0);
    for _ in 0..3 {
        assert_eq!((0..1000).filter(|number| read(&cache, *number)).count(), 1000);
    }
    assert_eq!(cache.used(), 1000 * ENTRY);
}

#[test]
fn the_budget_is_kept() {
    let cache = DecodedCache::new(100 * ENTRY);
    let values: Vec<_> = (0..10_000)
        .map(|number| {
            assert!(cache.used() <= 100 * ENTRY);
            remember(&cache, number)
        })
        .collect();
    let held = values.iter().filter(|value| Arc::strong_count(value) > 1).count();
    assert_eq!((held, cache.used()), (100, 100 * ENTRY));
    cache.set_budget(10 * ENTRY);
    assert_eq!(cache.used(), 10 * ENTRY, "a smaller budget evicts at once");
    cache.set_budget(0);
    assert_eq!(cache.used(), 0);
    assert!(!read(&cache, 1) && !read(&cache, 1), "without a budget nothing is cached");
}

#[test]
fn a_value_larger_than_the_budget_is_not_cached_and_evicts_nothing() {
    let cache = DecodedCache::new(100 * ENTRY);
    (0..50).for_each(|number| drop(remember(&cache, number)));
    cache.put(address(50), &Arc::new(50_usize), 100 * ENTRY);
    assert!(cache.get::<usize>(address(50)).is_none());
    assert_eq!(cached(&cache, 0..50), 50);
    cache.put(address(51), &Arc::new(51_usize), 90 * ENTRY);
    assert!(cache.get::<usize>(address(51)).is_some(), "one that fits is cached whatever the shards hold");
    assert!(cache.used() <= 100 * ENTRY);
}

#[test]
fn passes_over_all_objects_do_not_evict_those_that_are_read_often() {
    const HOT: usize = 500;
    let cache = DecodedCache::new(1000 * ENTRY);
    for _ in 0..3 {
        (0..HOT).for_each(|number| _ = read(&cache, number));
    }
    for pass in 0..4 {
        // Every object is read once, and some twice in a row, as by two handlers.
        for number in HOT..50_000 {
            read(&cache, number);
            if number % 3 == 0 {
                read(&cache, number);
            }
            // The hot objects are read meanwhile, each about five times in a pass.
            if number % 20 == 0 {
                assert!(read(&cache, number / 20 % HOT), "pass {pass}, object {number}");
            }
        }
    }
    assert_eq!(cached(&cache, 0..HOT), HOT);
}

#[test]
fn a_pass_over_all_objects_leaves_idle_hot_values() {
    const HOT: usize = 500;
    let cache = DecodedCache::new(1000 * ENTRY);
    // They were read while the cache had to evict, so they are protected.
    for number in 0..5_000 {
        read(&cache, HOT + number);
        (0..HOT).filter(|hot| hot % 10 == number % 10).for_each(|hot| _ = read(&cache, hot));
    }
    for number in 10_000..60_000 {
        read(&cache, number);
    }
    assert_eq!(cached(&cache, 0..HOT), HOT);
}

#[test]
fn another_working_set_replaces_the_former() {
    let cache = DecodedCache::new(1000 * ENTRY);
    for _ in 0..5 {
        (0..800).for_each(|number| _ = read(&cache, number));
    }
    // As many other objects, each read now and then.
    let mut hits = 0;
    for round in 0..40_000_usize {
        hits += usize::from(read(&cache, 10_000 + round.wrapping_mul(2_654_435_761) % 800));
    }
    assert!(hits > 30_000, "{hits} of 40,000 reads found a value");
}

#[test]
fn values_are_dropped_with_their_object() {
    let cache = DecodedCache::new(1000 * ENTRY);
    let values: Vec<_> = (0..100).map(|number| remember(&cache, number)).collect();
    (0..100).for_each(|number| cache.remove(address(number)));
    assert!(values.iter().all(|value| Arc::strong_count(value) == 1));
    assert_eq!(cache.used(), 0);
}

#[test]
fn objects_that_are_replaced_forever_do_not_grow_the_queues() {
    let cache = DecodedCache::new(1000 * ENTRY);
    (0..100).for_each(|number| drop(remember(&cache, number)));
    for round in 0..100_000 {
        // The same addresses are used again and again.
        let number = 100 + round % 7;
        remember(&cache, number);
        cache.remove(address(number));
    }
    let queued: usize = (0..SHARDS).map(|index| cache.shard(index).queued()).sum();
    assert!(queued < 3_000, "{queued} entries for 100 values");
    assert_eq!((cached(&cache, 0..100), cache.used()), (100, 100 * ENTRY));
}

#[test]
fn a_value_decoded_twice_has_one_entry() {
    let cache = DecodedCache::new(1000 * ENTRY);
    let first = remember(&cache, 7);
    let second = remember(&cache, 7);
    assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 2));
    assert_eq!(cache.used(), ENTRY);
    assert!(cache.get::<String>(address(7)).is_none(), "a value of another type is not returned");
    cache.remove(address(7));
    assert_eq!((Arc::strong_count(&second), cache.used()), (1, 0));
}
