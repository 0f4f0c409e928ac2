use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[test]
fn syntax_errors_read_as_gos_do() {
    for (body, expected) in [
        ("{not json", "invalid character 'n' looking for beginning of object key string"),
        ("", "unexpected end of JSON input"),
        ("  ", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ("{\"a\":\"b", "unexpected end of JSON input"),
        ("[1, 2", "unexpected end of JSON input"),
        ("tru", "unexpected end of JSON input"),
        ("<x/>", "invalid character '<' looking for beginning of value"),
        ("not json", "invalid character 'o' in literal null (expecting 'u')"),
        ("trxe", "invalid character 'x' in literal true (expecting 'u')"),
        ("falsy", "invalid character 'y' in literal false (expecting 'e')"),
        ("{\"a\" 1}", "invalid character '1' after object key"),
        ("{\"a\":1 \"b\"}", "invalid character '\"' after object key:value pair"),
        ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
        ("[1 2]", "invalid character '2' after array element"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("{} {}", "invalid character '{' after top-level value"),
        ("1x", "invalid character 'x' after top-level value"),
        ("{\"a\":1]", "invalid character ']' after object key:value pair"),
        ("\"a\nb\"", "invalid character '\\n' in string literal"),
        ("\"\\x\"", "invalid character 'x' in string escape code"),
        ("\"\\u12g4\"", "invalid character 'g' in \\u hexadecimal character escape"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1ex", "invalid character 'x' in exponent of numeric literal"),
        ("'a'", "invalid character '\\'' looking for beginning of value"),
        ("\u{e9}", "invalid character '\u{e9}' looking for beginning of value"),
        ("\u{7f}", "invalid character '\\x7f' looking for beginning of value"),
        ("\u{feff}{}", "invalid character '\\ufeff' looking for beginning of value"),
    ] {
        assert_eq!(syntax_error(body.as_bytes()).as_deref(), Some(expected), "{body:?}");
    }
    assert_eq!(syntax_error(b"\x81rest").as_deref(), Some("invalid character '\\x81' looking for beginning of value"));
    assert_eq!(syntax_error(&vec![b'['; 10_001]).as_deref(), Some("exceeded max depth"));
}

#[test]
fn json_has_no_syntax_error() {
    for body in [
        "{}",
        "[]",
        " [ ] ",
        "0",
        "-0.5e+10",
        "12",
        "\"\\u00e9\\n\"",
        "null",
        "{\"a\": [1, {\"b\": true}], \"c\": {}}\n",
    ] {
        assert_eq!(syntax_error(body.as_bytes()), None, "{body}");
    }
}

proptest! {
    #[test]
    fn fuz_1_arbitrary_bytes_never_panic(body in vec(any::<u8>(), 0..80)) {
        syntax_error(&body);
    }

    /// Where the two scanners and serde_json can be compared, they agree.
    #[test]
    fn fuz_1_scanners_agree_with_the_parser(body in "[\\[\\]{}\",:0123eE.+\\- a-ctrue\\\\nl]{0,24}") {
        let parsed = serde_json::from_str::<Value>(&body);
        // Numbers out of range are not a matter of syntax.
        prop_assume!(!parsed.as_ref().is_err_and(|error| error.to_string().contains("number out of range")));
        prop_assert_eq!(parsed.is_ok(), syntax_error(body.as_bytes()).is_none());
    }
}

#[test]
fn values_print_as_go_prints_maps() {
    let value = serde_json::json!({"b": [1, "x", null, true], "a": {"c": {}}});
    assert_eq!(print(&value), "map[a:map[c:map[]] b:[1 x <nil> true]]");
}
