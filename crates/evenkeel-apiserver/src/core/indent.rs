//! JSON for people: the same text with line breaks, its members in the same order.

/// Indents compact JSON by two spaces, as Go's encoder does. What is not JSON comes out spaced oddly, and whole.
pub(super) fn indent(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let mut depth = 0usize;
    let mut in_string = false;
    let mut escaped = false;
    let mut bytes = json.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if in_string {
            out.push(byte);
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => {
                in_string = true;
                out.push(byte);
            }
            b'{' | b'[' => {
                out.push(byte);
                match bytes.next_if(|next| matches!(next, b'}' | b']')) {
                    Some(end) => out.push(end),
                    None => {
                        depth += 1;
                        new_line(&mut out, depth);
                    }
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                new_line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            other => out.push(other),
        }
    }
    out
}

fn new_line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.resize(out.len() + 2 * depth, b' ');
}

#[cfg(test)]
mod tests {
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
}
