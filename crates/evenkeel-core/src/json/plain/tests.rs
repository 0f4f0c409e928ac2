use proptest::prelude::*;

use super::*;

#[test]
fn every_byte_is_classified_at_every_position() {
    for place in 0..20 {
        for byte in 0..=u8::MAX {
            let mut bytes = [b'a'; 20];
            bytes[place] = byte;
            let expected = if matches!(byte, b'"' | b'\\' | 0..0x20) { place } else { 20 };
            assert_eq!(plain_length(&bytes), expected, "{byte:#x} at {place}");
        }
    }
}

proptest! {
    #[test]
    fn plain_length_matches_a_naive_loop(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let naive = bytes.iter().take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..0x20)).count();
        prop_assert_eq!(plain_length(&bytes), naive);
    }
}
