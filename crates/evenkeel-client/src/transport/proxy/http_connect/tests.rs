use super::*;
use proptest::prelude::*;

#[test]
fn a_connect_request_is_sent() {
    let value = HeaderValue::from_static("Basic dTpw");
    assert_eq!(
        request("[::1]:443", Some(&value)).as_slice(),
        b"CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\nProxy-Authorization: Basic dTpw\r\n\r\n"
    );
    assert_eq!(request("h:1", None).as_slice(), b"CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n");
}

#[test]
fn responses_are_parsed_from_any_chunks() {
    let whole = b"HTTP/1.1 200 Connection established\r\nVia: p\r\n\r\nrest";
    let end = whole.len() - 4;
    for cut in 0..end {
        assert_eq!(answer(&whole[..cut]), Answer::Partial, "{cut}");
    }
    for cut in end..=whole.len() {
        assert_eq!(answer(&whole[..cut]), Answer::Head { status: 200, end });
    }
    assert_eq!(answer(b"HTTP/1.0 407\r\n\r\n"), Answer::Head { status: 407, end: 16 });
    for odd in ["SSH-2.0-x", "HTTP/2 200\r\n\r\n", "HTTP/1.1 20\r\n\r\n", "HTTP/1.1 2000 x\r\n\r\n", "\r\n\r\n"] {
        assert_eq!(answer(odd.as_bytes()), Answer::Nonsense, "{odd:?}");
    }
}

#[test]
fn responses_are_bounded() {
    let mut long = b"HTTP/1.1 200 ".to_vec();
    long.resize(MAX_HEAD - 1, b'x');
    assert_eq!(answer(&long), Answer::Partial);
    long.push(b'x');
    assert_eq!(answer(&long), Answer::Nonsense);
    long.extend_from_slice(b"\r\n\r\n");
    assert_eq!(answer(&long), Answer::Nonsense);
}

proptest! {
    #[test]
    fn no_response_causes_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = answer(&bytes);
        let _ = answer(&[b"HTTP/1.1 ", bytes.as_slice()].concat());
    }
}
