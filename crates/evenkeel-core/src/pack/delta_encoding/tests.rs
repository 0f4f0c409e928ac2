use proptest::prelude::*;

use super::*;

fn indexed(bytes: &[u8], step: usize) -> WordIndex {
    let mut index = WordIndex::default();
    index.reset(bytes.len() / step);
    index.add(bytes, 0, step);
    index
}

fn written(base: &[u8], context: &[u8], text: &[u8]) -> Vec<u8> {
    let index = indexed(base, 8);
    let mut out = Vec::new();
    DeltaWriter::default().write(DeltaBase { bytes: base, index: &index }, context, text, &mut out);
    out
}

#[track_caller]
fn comes_back(base: &[u8], context: &[u8], text: &[u8]) -> usize {
    let out = written(base, context, text);
    assert_eq!(read(base, [context, b""], &out).as_deref(), Some(text));
    out.len()
}

const BASE: &[u8] = br#"{"metadata":{"name":"web-6f7d9-abcde","uid":"0f7d1c52"},"spec":{"nodeName":"node-17","containers":[{"name":"web"}]}}"#;

#[test]
fn a_text_similar_to_the_base_is_tiny() {
    assert!(comes_back(BASE, b"", BASE) < 12);
    let mut other = BASE.to_vec();
    other[25..30].copy_from_slice(b"xxxxx");
    assert!(comes_back(BASE, b"", &other) < 24, "{}", comes_back(BASE, b"", &other));
}

#[test]
fn values_of_other_lengths_than_in_the_base_are_matched() {
    let text = String::from_utf8_lossy(BASE);
    for (from, to) in [("node-17", "a-much-longer-name"), ("node-17", "n"), (r#""uid":"0f7d1c52""#, "")] {
        let other = text.replace(from, to);
        let size = comes_back(BASE, b"", other.as_bytes());
        assert!(size < 30 + to.len(), "{size}");
    }
}

#[test]
fn values_of_the_context_are_not_repeated() {
    let text = br#"{"uid":"8b1d6f0e-5a3c-4c1b-9a53-0d6e1a2b3c4d","other":"8b1d6f0e-5a3c-4c1b-9a53-0d6e1a2b3c4d"}"#;
    let without = comes_back(b"", b"", text);
    let with = comes_back(b"", b"8b1d6f0e-5a3c-4c1b-9a53-0d6e1a2b3c4d", text);
    assert!(with + 30 < without, "{with} {without}");
}

#[test]
fn hexadecimal_digits_take_half_the_space() {
    for length in [15_usize, 16, 17, 64, 126, 127, 128, 129, 1001] {
        let mut dice = 1_u64;
        let hex: String = (0..length)
            .map(|_| {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                char::from_digit((dice >> 60) as u32, 16).unwrap()
            })
            .collect();
        let size = comes_back(b"", b"", hex.as_bytes());
        let room = if length < 16 { length } else { length.div_ceil(2) + 1 };
        assert!(size <= room + 14, "{length}: {size}");
    }
}

#[test]
fn texts_of_every_length_round_trip() {
    for length in 0..BASE.len() {
        comes_back(BASE, b"web", &BASE[..length]);
        comes_back(BASE, b"web", &BASE[length..]);
        comes_back(&BASE[..length], b"", BASE);
    }
    comes_back(b"", b"", b"");
}

#[test]
fn a_damaged_text_does_not_decode_to_another() {
    let text = String::from_utf8_lossy(BASE).replace("17", "3").replace("0f7d1c52", "a0b1c2d3e4f5a6b7c8d9");
    let whole = written(BASE, b"ctx", text.as_bytes());
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << bit;
            let back = read(BASE, [b"c", b"tx"], &damaged);
            assert!(back.is_none() || back.as_deref() == Some(text.as_bytes()), "byte {at} bit {bit}");
        }
        assert_eq!(read(BASE, [b"c", b"tx"], &whole[..at]), None, "cut at {at}");
    }
    assert_eq!(read(&BASE[1..], [b"ctx", b""], &whole), None, "another base");
    assert_eq!(read(BASE, [b"cty", b""], &whole).filter(|back| back != text.as_bytes()), None, "another context");
}

fn texts() -> impl Strategy<Value = (Vec<u8>, Vec<u8>, Vec<u8>)> {
    let piece = prop_oneof![
        "[a-z]{1,12}".prop_map(String::into_bytes),
        "[0-9a-f]{10,40}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..40),
        Just(BASE.to_vec()),
    ];
    prop::collection::vec(piece, 1..8).prop_flat_map(|pieces| {
        let count = pieces.len();
        let chosen = move || prop::collection::vec(0..count, 0..12);
        (Just(pieces), chosen(), chosen(), chosen()).prop_map(|(pieces, base, context, text)| {
            let join = |chosen: Vec<usize>| chosen.iter().flat_map(|index| pieces[*index].clone()).collect::<Vec<u8>>();
            (join(base), join(context), join(text))
        })
    })
}

proptest! {
    #[test]
    fn every_text_round_trips((base, context, text) in texts()) {
        let out = written(&base, &context, &text);
        prop_assert_eq!(read(&base, [&[], &context], &out), Some(text.clone()));
        prop_assert!(out.len() <= text.len() + text.len() / 16 + 24, "{} became {}", text.len(), out.len());
    }

    #[test]
    fn garbage_is_an_error(base in prop::collection::vec(any::<u8>(), 0..64), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&base, [b"context", b""], &bytes);
    }
}
