use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// Hashes that differ everywhere, or only in few bits.
fn hash(slot: Slot, is_poor: bool) -> u64 {
    let hash = u64::from(slot).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    if is_poor { hash & 0x0300_0000_0300_0000 } else { hash ^ hash >> 29 }
}

fn rehash(is_poor: bool) -> impl Rehash {
    move |slots: &[Slot], hashes: &mut [u64]| {
        slots.iter().zip(hashes).for_each(|(slot, place)| *place = hash(*slot, is_poor));
    }
}

fn holds(index: &Index, slot: Slot, is_poor: bool) -> bool {
    index.find(hash(slot, is_poor), |found| found == slot) == Some(slot)
}

proptest! {
    /// Slots come and go, among them those that leave few bits for tags, or none.
    #[test]
    fn an_index_holds_what_was_put_in_and_not_taken_out(
        steps in prop::collection::vec((0_u32..600, any::<bool>()), 0..3000),
        spread in prop::sample::select(vec![1_u32, 2_000, 50_000, 1 << 20, 3_500_000]),
        is_poor in any::<bool>(),
    ) {
        let (mut index, mut model) = (Index::new(), HashMap::new());
        for (number, come) in steps {
            let slot = number.wrapping_mul(spread);
            let is_here = model.contains_key(&slot);
            prop_assert_eq!(holds(&index, slot, is_poor), is_here);
            if come && !is_here {
                index.insert(hash(slot, is_poor), slot, rehash(is_poor));
                model.insert(slot, ());
            } else if !come && is_here {
                index.remove(hash(slot, is_poor), slot, rehash(is_poor));
                model.remove(&slot);
            }
        }
        for number in 0..600_u32 {
            let slot = number.wrapping_mul(spread);
            prop_assert_eq!(holds(&index, slot, is_poor), model.contains_key(&slot));
        }
        prop_assert_eq!(index.tables[0].len, model.len());
    }
}

#[test]
fn a_large_index_is_many_tables_and_loses_nothing() {
    let mut index = Index::new();
    let count = LARGE as Slot * 3;
    for slot in 0..count {
        index.insert(hash(slot, false), slot, rehash(false));
    }
    assert_eq!(index.tables.len(), 1 << TABLE_BITS);
    assert!((0..count).all(|slot| holds(&index, slot, false)));
    for slot in (0..count).filter(|slot| slot % 100 != 0) {
        index.remove(hash(slot, false), slot, rehash(false));
    }
    assert!((0..count).all(|slot| holds(&index, slot, false) == (slot % 100 == 0)));
}

#[test]
fn an_index_takes_four_bytes_for_a_slot_and_is_more_than_half_full() {
    let mut index = Index::new();
    for slot in 0..1_000_000 {
        index.insert(hash(slot, false), slot, rehash(false));
        if slot > 100_000 && slot.is_multiple_of(10_000) {
            let bytes: usize = index.tables.iter().map(|table| table.lines.len() * size_of::<Line>()).sum();
            assert!(bytes < 8 * slot as usize, "{bytes} bytes for {slot} slots");
        }
    }
}

#[test]
fn what_a_burst_has_left_behind_is_given_back() {
    let mut index = Index::new();
    for slot in 0..10_000 {
        index.insert(hash(slot, false), slot, rehash(false));
    }
    for slot in 0..10_000 {
        index.remove(hash(slot, false), slot, rehash(false));
    }
    assert!(index.tables[0].lines.len() <= FEW_LINES);
}

#[test]
fn coming_and_going_does_not_make_a_table_larger() {
    let mut index = Index::new();
    for slot in 0..100_000_u32 {
        index.insert(hash(slot, false), slot, rehash(false));
        if slot >= 1_000 {
            index.remove(hash(slot - 1_000, false), slot - 1_000, rehash(false));
        }
    }
    assert!(index.tables[0].lines.len() * WORDS <= 2_000, "{}", index.tables[0].lines.len());
}
