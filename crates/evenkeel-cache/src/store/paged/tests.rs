use std::collections::HashSet;

use super::*;

#[test]
fn a_hash_table_finds_exactly_its_entries() {
    let mut table = HashTable::new();
    let mut inside = HashSet::new();
    // Few hashes and many numbers: long runs, which wrap around the end.
    let hash = |number: u32| (number % 7).wrapping_mul(0x9e37_79b9) | 0xc;
    for step in 0..4_000_u32 {
        let number = step.wrapping_mul(2_654_435_761) % 600;
        if inside.remove(&number) {
            table.remove(hash(number), number);
        } else {
            inside.insert(number);
            table.insert(hash(number), number);
        }
    }
    for number in 0..600 {
        let found = table.find(hash(number), |found| found == number).is_some();
        assert_eq!(found, inside.contains(&number), "{number}");
    }
    assert_eq!(table.used as usize, inside.len());
    for number in inside {
        table.remove(hash(number), number);
    }
    assert!(table.places.iter().all(|page| page.iter().all(|entry| *entry == 0)));
}

#[test]
fn a_clone_does_not_see_later_writes() {
    let mut numbers = Paged::<u32, 4>::new();
    (0..10).for_each(|place| *numbers.place(place) = place);
    let before = numbers.clone();
    *numbers.place(5) = 99;
    assert_eq!((before.get(5), numbers.get(5)), (Some(&5), Some(&99)));
    assert!(Arc::ptr_eq(&before.pages[0], &numbers.pages[0]), "what was not written is shared");
    assert_eq!(numbers.get(12), None);
}
