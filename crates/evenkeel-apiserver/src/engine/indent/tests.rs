use proptest::prelude::*;
use serde_json::Value;

use super::*;

#[test]
fn neg_7_members_keep_their_order_and_strings_their_signs() {
    let json = br#"{"kind":"X","apiVersion":"v1","items":[],"a":{"s":"{\"x\":[1,2]} \\"},"n":[1,{}]}"#;
    let expected = "{\n  \"kind\": \"X\",\n  \"apiVersion\": \"v1\",\n  \"items\": [],\n  \"a\": {\n    \"s\": \
                    \"{\\\"x\\\":[1,2]} \\\\\"\n  },\n  \"n\": [\n    1,\n    {}\n  ]\n}";
    assert_eq!(String::from_utf8(indent(json)).unwrap(), expected);
}

proptest! {
    #[test]
    fn indented_json_is_the_same_json(text in "[ -~]{0,20}", number in any::<i64>(), depth in 0usize..20) {
        let mut value = serde_json::json!({"text": text, "number": number, "list": [text, {}, [], null]});
        for _ in 0..depth {
            value = serde_json::json!([{"in": value}]);
        }
        let compact = value.to_string();
        prop_assert_eq!(serde_json::from_slice::<Value>(&indent(compact.as_bytes())).unwrap(), value.clone());
        prop_assert_eq!(indent(compact.as_bytes()), serde_json::to_vec_pretty(&value).unwrap());
    }

    #[test]
    fn anything_is_indented_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        indent(&bytes);
    }
}

#[test]
fn neg_7_pieces_of_any_size_are_indented_like_the_whole() {
    let json = br#"{"kind":"X","items":[],"a":{"s":"{\"x\":[1,2]} \\"},"n":[1,{}],"e":[[[]]]}"#;
    for (size, limit) in [(1, 1), (2, 7), (3, usize::MAX), (100, 1)] {
        let (mut indenter, mut whole) = (Indenter::default(), Vec::new());
        for mut piece in json.chunks(size) {
            while !piece.is_empty() {
                let mut out = Vec::new();
                let read = indenter.write(piece, &mut out, limit);
                piece = &piece[read..];
                whole.extend(out);
            }
        }
        assert_eq!(whole, indent(json));
    }
}
