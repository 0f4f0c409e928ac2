//! A reader of JSON that accepts everything: valid JSON gives itself, and anything else something similar.
//!
//! A mutation of JSON is rarely JSON. Targets whose subject begins after the parser read their inputs with this one, so that every
//! mutation reaches it, and inputs are still files that people can read and write.

use serde_json::{Map, Number, Value};

/// Values that are nested deeper are null: below the limits of all parsers.
const MAX_DEPTH: usize = 48;

/// Takes a value from the start of a text. The end of the text closes what is open, and is null if nothing is.
pub(crate) fn take_value(rest: &mut &[u8]) -> Value {
    value(rest, 0)
}

fn value(rest: &mut &[u8], depth: usize) -> Value {
    skip(rest, |byte| byte.is_ascii_whitespace() || matches!(byte, b',' | b':' | b'}' | b']'));
    match rest.first() {
        None => Value::Null,
        Some(b'{' | b'[') if depth == MAX_DEPTH => {
            advance(rest);
            Value::Null
        }
        Some(b'{') => {
            advance(rest);
            object(rest, depth)
        }
        Some(b'[') => {
            advance(rest);
            list(rest, depth)
        }
        Some(b'"') => Value::String(string(rest)),
        Some(_) => match word(rest) {
            "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            other => other.parse::<Number>().map_or_else(|_| other.into(), Value::Number),
        },
    }
}

fn object(rest: &mut &[u8], depth: usize) -> Value {
    let mut members = Map::new();
    loop {
        skip(rest, |byte| byte.is_ascii_whitespace() || matches!(byte, b',' | b':' | b']'));
        let name = match rest.first() {
            None => break,
            Some(b'}') => {
                advance(rest);
                break;
            }
            Some(b'"') => string(rest),
            Some(b'{' | b'[') => String::new(),
            Some(_) => word(rest).to_owned(),
        };
        skip(rest, |byte| byte.is_ascii_whitespace());
        let has_value = rest.first() == Some(&b':') || matches!(rest.first(), Some(b'{' | b'['));
        let value = if has_value { member_value(rest, depth) } else { Value::Null };
        members.insert(name, value);
    }
    Value::Object(members)
}

/// Takes the value after a colon; null if the object ends, or continues with the next member.
fn member_value(rest: &mut &[u8], depth: usize) -> Value {
    skip(rest, |byte| byte.is_ascii_whitespace() || byte == b':');
    if matches!(rest.first(), Some(b'}' | b',' | b']')) { Value::Null } else { value(rest, depth + 1) }
}

fn list(rest: &mut &[u8], depth: usize) -> Value {
    let mut items = Vec::new();
    loop {
        skip(rest, |byte| byte.is_ascii_whitespace() || matches!(byte, b',' | b':' | b'}'));
        match rest.first() {
            None => break,
            Some(b']') => {
                advance(rest);
                break;
            }
            Some(_) => items.push(value(rest, depth + 1)),
        }
    }
    Value::Array(items)
}

/// Takes a string in quotes. If it is not valid JSON, its text is taken as it is.
fn string(rest: &mut &[u8]) -> String {
    let mut escaped = false;
    let end = rest.iter().enumerate().skip(1).find_map(|(index, byte)| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends.then_some(index)
    });
    let quoted = &rest[..end.map_or(rest.len(), |end| end + 1)];
    *rest = &rest[quoted.len()..];
    serde_json::from_slice(quoted).unwrap_or_else(|_| {
        let text = quoted[1..].strip_suffix(b"\"").unwrap_or(&quoted[1..]);
        String::from_utf8_lossy(text).into_owned()
    })
}

/// Takes the characters up to the next one with a meaning.
fn word<'a>(rest: &mut &'a [u8]) -> &'a str {
    let is_end =
        |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'{' | b'}' | b'[' | b']' | b',' | b':' | b'"');
    let end = rest.iter().position(is_end).unwrap_or(rest.len());
    let (word, after) = rest.split_at(end);
    *rest = after;
    match std::str::from_utf8(word) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&word[..error.valid_up_to()]).unwrap_or_default(),
    }
}

fn advance(rest: &mut &[u8]) {
    *rest = &rest[1..];
}

fn skip(rest: &mut &[u8], is_skipped: impl Fn(u8) -> bool) {
    let end = rest.iter().position(|byte| !is_skipped(*byte)).unwrap_or(rest.len());
    *rest = &rest[end..];
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Value {
        take_value(&mut text.as_bytes())
    }

    #[test]
    fn json_is_read_as_itself() {
        for text in [
            r#"{"a": [1, -2.5e3, "x\n\u00e9", true, false, null, {}], "b": {"c": []}, "": ""}"#,
            "[[], [[]], {\"a\": {}}]",
            "\"a\\\"b\"",
            "18446744073709551615",
        ] {
            assert_eq!(read(text), serde_json::from_str::<Value>(text).unwrap(), "{text}");
        }
    }

    #[test]
    fn anything_else_is_read_as_something_similar() {
        assert_eq!(read("{a: b, c, d: [1 2"), json!({"a": "b", "c": null, "d": [1, 2]}));
        assert_eq!(read("}],[\"x"), json!(["x"]));
        assert_eq!(read(""), Value::Null);
        assert!(read(&"[".repeat(100_000))[0][0].is_array());
    }

    #[test]
    fn one_value_is_taken_after_another() {
        let mut rest = &b"{\"a\": 1}\n[2]\nx"[..];
        assert_eq!([(); 4].map(|()| take_value(&mut rest)), [json!({"a": 1}), json!([2]), json!("x"), Value::Null]);
    }
}
