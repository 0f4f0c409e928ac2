use super::*;

#[test]
fn consecutive_values_differ_in_their_high_bits() {
    let mut buckets = [0_u32; 16];
    (0..1600).for_each(|value| buckets[(spread(value) >> 60) as usize] += 1);
    assert!(buckets.iter().all(|count| (90..=110).contains(count)), "{buckets:?}");
}
