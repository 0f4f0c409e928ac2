use super::*;
use percent_encoding::percent_decode_str;
use proptest::prelude::*;

#[test]
fn trn_006_extra_keys_are_escaped() {
    assert_eq!(escape("test.example.com/thing"), "test.example.com%2fthing");
    assert_eq!(escape("100%"), "100%25");
    assert_eq!(escape("a b\u{e4}\r\n"), "a%20b%c3%a4%0d%0a");
    assert_eq!(escape("!#$&'*+-.^_`|~09azAZ"), "!#$&'*+-.^_`|~09azaz");
}

proptest! {
    #[test]
    fn trn_006_sec_37_every_extra_key_round_trips_except_for_its_case(key in "\\PC{0,40}|[\\x00-\\x7f]{0,40}") {
        let name = HeaderName::from_bytes(format!("impersonate-extra-{}", escape(&key)).as_bytes()).unwrap();
        let back = percent_decode_str(&name.as_str()["impersonate-extra-".len()..]).decode_utf8().unwrap();
        prop_assert_eq!(back.into_owned(), key.to_ascii_lowercase());
    }
}
