use proptest::prelude::*;

use super::super::ProtobufError;
use super::*;

fn read(bytes: &[u8]) -> Result<Vec<u32>, WireError> {
    numbers(bytes).map_err(|error| match ProtobufError::from(error) {
        ProtobufError::Malformed { source, .. } => source,
        other => panic!("{other}"),
    })
}

fn numbers(bytes: &[u8]) -> Result<Vec<u32>, BoxedError> {
    let mut reader = Reader::new(bytes);
    let mut numbers = Vec::new();
    while let Some((number, _)) = reader.next()? {
        numbers.push(number);
    }
    Ok(numbers)
}

#[test]
fn pb_036_groups_are_skipped() {
    // Field 3 is a group with a varint, 64 and 32 bits, bytes and a group in it; field 1 follows.
    let group = b"\x1b\x08\x01\x11\0\0\0\0\0\0\0\0\x1d\0\0\0\0\x22\x01a\x2b\x08\x01\x2c\x1c\x08\x05";
    assert_eq!(read(group), Ok(vec![1]));
    assert_eq!(read(b"\x1b\x08\x01"), Err(WireError::Truncated), "a group that does not end");
    assert_eq!(read(b"\x1b\x24"), Err(WireError::EndOfGroup), "a group that another one ends");
    assert_eq!(read(b"\x1c"), Err(WireError::EndOfGroup), "the end of no group");
    let deep = [vec![0x1b; 100_000], vec![0x1c; 100_000]].concat();
    assert_eq!(read(&deep), Ok(vec![]), "depth costs no stack");
}

#[test]
fn pb_036_impossible_tags_are_refused() {
    assert_eq!(read(b"\x00\x01"), Err(WireError::BadTag));
    assert_eq!(read(b"\xff\xff\xff\xff\xff\x01\x01"), Err(WireError::BadTag));
    assert_eq!(read(b"\x0e"), Err(WireError::WireType(6)));
    assert_eq!(read(b"\x0d\x01\x02\x03\x04\x08\x01"), Ok(vec![1]), "32 bits are passed over");
}

#[test]
fn pb_092_truncated_fields_are_rejected() {
    for cut in [&b"\x08"[..], b"\x80", b"\x08\x80", b"\x0a", b"\x0a\x02a", b"\x09\x01\x02", b"\x0d\x01"] {
        assert_eq!(read(cut), Err(WireError::Truncated), "{cut:x?}");
    }
    let endless = b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    assert_eq!(read(endless), Err(WireError::LongNumber));
    assert_eq!(read(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), Err(WireError::Truncated), "longer than memory");
}

proptest! {
    #[test]
    fn numbers_round_trip(value: u64) {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, value);
        prop_assert_eq!(bytes.len(), varint_length(value));
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(reader.varint().unwrap(), value);
        prop_assert!(reader.is_empty());
    }

    #[test]
    fn pb_034_negative_numbers_round_trip(value: i64) {
        let mut bytes = Vec::new();
        put_int(&mut bytes, 1, value);
        let (number, read) = Reader::new(&bytes).next().unwrap().unwrap();
        prop_assert_eq!((number, read.varint().unwrap() as i64), (1, value));
    }

    #[test]
    fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
    }
}
