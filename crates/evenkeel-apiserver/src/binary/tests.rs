use super::*;

#[test]
fn bin_1_an_envelope_names_version_and_kind_and_ends_in_two_empty_fields() {
    let whole = envelope("v1", "Pod", b"message");
    assert_eq!(&whole[..], b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x07message\x1a\0\x22\0");
    assert_eq!(whole.len(), envelope_size("v1", "Pod", 7));
}

#[test]
fn bin_2_a_frame_is_a_length_and_an_event_around_an_envelope() {
    let frame = event("ADDED", "v1", "Pod", b"message");
    let (length, event) = frame.split_first_chunk().unwrap();
    assert_eq!(u32::from_be_bytes(*length) as usize, event.len());
    let object = envelope("v1", "Pod", b"message");
    let inner = u8::try_from(object.len()).unwrap();
    let head = [b"\x0a\x05ADDED\x12".as_slice(), &[inner + 2, 0x0a, inner]].concat();
    assert_eq!(event, [&head[..], &object[..]].concat());
}

#[test]
fn lengths_take_as_many_bytes_as_they_need() {
    for length in [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 300_000_000] {
        let mut out = Vec::new();
        put_header(&mut out, 2, length);
        assert_eq!(out.len() + length, field_size(length), "{length}");
        let (number, decoded) = out.split_first().unwrap();
        let decoded = decoded.iter().rev().fold(0, |sum, byte| sum << 7 | usize::from(byte & 0x7f));
        assert_eq!((*number, decoded), (0x12, length));
        assert!(out.iter().skip(1).rev().skip(1).all(|byte| byte & 0x80 != 0) && out[out.len() - 1] & 0x80 == 0);
    }
}
