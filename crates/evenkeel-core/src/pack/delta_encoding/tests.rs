use proptest::prelude::*;

use super::literals::LiteralRun;
use super::*;

/// Encodes against a similar object.
fn written(base: &[u8], context: &[u8], text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let index = BaseIndex::Sparse(&OnceLock::new());
    DeltaWriter::default().write(DeltaBase { bytes: base, index }, context, text, &mut out);
    out
}

/// Encodes against a dictionary.
fn written_densely(base: &[u8], context: &[u8], text: &[u8]) -> Vec<u8> {
    let (mut index, mut out) = (WordIndex::default(), Vec::new());
    index.reset(base.len());
    index.add(base, 0..base.len(), 1);
    DeltaWriter::default().write(DeltaBase { bytes: base, index: BaseIndex::Dense(&index) }, context, text, &mut out);
    out
}

#[track_caller]
fn comes_back(base: &[u8], context: &[u8], text: &[u8]) -> usize {
    let dense = written_densely(base, context, text);
    assert_eq!(read(base, [context, b""], &dense).as_deref(), Some(text));
    let out = written(base, context, text);
    assert_eq!(read(base, [context, b""], &out).as_deref(), Some(text));
    out.len()
}

/// Digits that look random; the same every time.
fn random(length: usize, digits: &[u8]) -> String {
    let mut dice = length as u64;
    let digit = |_| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(digits[(dice >> 33) as usize % digits.len()])
    };
    (0..length).map(digit).collect()
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
    for length in [15_usize, 16, 17, 64, 94, 95, 96, 126, 127, 128, 129, 1001] {
        let hex = random(length, b"0123456789abcdef");
        let size = comes_back(b"", b"", hex.as_bytes());
        let room = if length < 16 { length } else { length.div_ceil(2) + 1 };
        assert!(size <= room + 14, "{length}: {size}");
    }
}

#[test]
fn base64_takes_three_quarters_of_the_space() {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for length in [31_usize, 32, 35, 400, 4001] {
        let text = format!(r#"{{"data":"{}=="}}"#, random(length, DIGITS));
        let size = comes_back(b"", b"", text.as_bytes());
        let room = if length < 32 { length } else { length / 4 * 3 + 3 };
        assert!(size <= room + 32, "{length}: {size}");
    }
}

const UID: &str = "8b1d6f0e-5a3c-4c1b-9a53-0d6e1a2b3c4d";

#[test]
fn a_uid_takes_sixteen_bytes_wherever_it_differs_from_the_base() {
    let text = |uid: &str| format!(r#"{{"metadata":{{"uid":"{uid}","name":"a-name-of-some-length"}}}}"#);
    let base = text(UID);
    for other in [
        "1a2b3c4d-0d6e-4f00-8a11-f0e5a3c4c1b9",
        // The first and the last digits are those of the base.
        "8b1a3c4d-0d6e-4f00-8a11-f0e5a3c4cc4d",
        "8b1d6f04-0d6e-4f00-8a11-f0e5a3c4c1b9",
    ] {
        let size = comes_back(base.as_bytes(), b"", text(other).as_bytes());
        assert!(size <= 16 + 16, "{other}: {size}");
    }
    for almost in [UID.to_uppercase(), UID.replace("-5a3c", "-5a3"), UID.replace('-', "0")] {
        comes_back(base.as_bytes(), b"", text(&almost).as_bytes());
    }
}

#[test]
fn a_uid_is_found_inside_of_other_literals() {
    let text = format!("zzzz!{UID}!zzzz");
    let whole = 0..text.len();
    let found = LiteralRun::next(text.as_bytes(), 0, whole.clone(), text.len());
    assert_eq!(found, Some(LiteralRun::Uuid { range: 5..41, skipped: 0 }));
    assert_eq!(
        LiteralRun::next(text.as_bytes(), 9, 9..text.len(), text.len()),
        Some(LiteralRun::Uuid { range: 9..41, skipped: 4 })
    );
    assert_eq!(LiteralRun::next(text.as_bytes(), 0, 9..text.len(), text.len()), None, "its start is a literal already");
    assert_eq!(LiteralRun::next(text.as_bytes(), 0, 5..39, 40), None, "it ends after the limit");
}

#[test]
fn repeated_parts_of_a_text_are_copied() {
    let element =
        |number: usize| format!(r#"{{"address":"10.64.{number}.7","kind":"Pod","namespace":"prod","zone":"eu-1a"}},"#);
    let text: String = (10..90).map(element).collect();
    let size = written_densely(b"", b"", text.as_bytes()).len();
    assert!(size < element(10).len() + 80 * 12, "{size}");
    comes_back(b"", b"", text.as_bytes());
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
        "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}".prop_map(String::into_bytes),
        "[A-Za-z0-9+/]{20,60}".prop_map(String::into_bytes),
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
        for out in [written(&base, &context, &text), written_densely(&base, &context, &text)] {
            prop_assert_eq!(read(&base, [&[], &context], &out), Some(text.clone()));
            prop_assert!(out.len() <= text.len() + text.len() / 16 + 24, "{} became {}", text.len(), out.len());
        }
    }

    #[test]
    fn garbage_is_an_error(base in prop::collection::vec(any::<u8>(), 0..64), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&base, [b"context", b""], &bytes);
    }
}
