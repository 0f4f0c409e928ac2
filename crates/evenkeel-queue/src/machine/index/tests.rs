//! A table against a list of its entries, with hashes that collide.

use super::*;

#[test]
fn entries_are_found_whatever_the_hashes() {
    for seed in 0..300 {
        let mut rng = fastrand::Rng::with_seed(seed);
        // Few lines and many overflows, also around the end of the table.
        let homes = [1, 2, 3, 64][seed as usize % 4];
        let mut table = Table::default();
        let mut entries: Vec<(u32, Slot)> = Vec::new();
        for slot in 0..600 {
            if rng.u8(..100) < 55 || entries.is_empty() {
                let half = u32::MAX - (rng.u32(..homes) << TABLE_BITS) - rng.u32(..2);
                table.insert(half, slot);
                entries.push((half, slot));
            } else {
                let (half, slot) = entries.swap_remove(rng.usize(..entries.len()));
                table.remove(half, slot);
                assert_eq!(table.find(half, |found| found == slot), None);
            }
            assert_eq!(table.len, entries.len());
            for (half, slot) in &entries {
                assert_eq!(table.find(*half, |found| found == *slot), Some(*slot), "seed {seed}");
            }
        }
        for (half, slot) in entries {
            table.remove(half, slot);
        }
        assert!(table.lines.iter().all(|line| line.entries().next().is_none()));
        assert_eq!(table.find(u32::MAX, |_| true), None);
    }
}

#[test]
fn a_line_is_a_cache_line() {
    assert_eq!((size_of::<Line>(), align_of::<Line>()), (64, 64));
}
