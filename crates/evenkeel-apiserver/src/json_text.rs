//! Writes JSON as it is stored: compact, with sorted keys.
//!
//! Gives the bytes of serde_json, which every write would otherwise spend a tenth of its time in: most strings need no escapes,
//! and are copied at once.

use serde_json::{Map, Value};

/// Appends a JSON value.
pub(crate) fn write_value(bytes: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => bytes.extend_from_slice(b"null"),
        Value::Bool(true) => bytes.extend_from_slice(b"true"),
        Value::Bool(false) => bytes.extend_from_slice(b"false"),
        Value::Number(_) => write_with_serde(bytes, value),
        Value::String(text) => write_text(bytes, text),
        Value::Array(items) => {
            bytes.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    bytes.push(b',');
                }
                write_value(bytes, item);
            }
            bytes.push(b']');
        }
        Value::Object(fields) => write_object(bytes, fields),
    }
}

fn write_object(bytes: &mut Vec<u8>, fields: &Map<String, Value>) {
    bytes.push(b'{');
    for (index, (key, value)) in fields.iter().enumerate() {
        if index > 0 {
            bytes.push(b',');
        }
        write_key(bytes, key);
        write_value(bytes, value);
    }
    bytes.push(b'}');
}

/// Appends the key of a member, with its colon.
pub(crate) fn write_key(bytes: &mut Vec<u8>, key: &str) {
    write_text(bytes, key);
    bytes.push(b':');
}

/// Appends a string.
pub(crate) fn write_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.push(b'"');
    write_content(bytes, text);
    bytes.push(b'"');
}

/// Appends a string without its quotes.
pub(crate) fn write_content(bytes: &mut Vec<u8>, text: &str) {
    if is_plain(text.as_bytes()) {
        bytes.extend_from_slice(text.as_bytes());
    } else {
        let start = bytes.len();
        write_with_serde(bytes, text);
        // Its quotes are written already.
        bytes.pop();
        bytes.remove(start);
    }
}

/// Returns whether a string needs no escapes. Eight bytes are compared at a time.
fn is_plain(text: &[u8]) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    // Each is not zero if a byte of the word is below the limit, or zero.
    let has_below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word & HIGH;
    let has = |word: u64, byte: u8| has_below(word ^ (ONES * u64::from(byte)), 1);
    let (words, rest) = text.as_chunks::<8>();
    let is_plain_word = |word: &[u8; 8]| {
        let word = u64::from_ne_bytes(*word);
        has_below(word, b' ') | has(word, b'"') | has(word, b'\\') == 0
    };
    words.iter().all(is_plain_word) && rest.iter().all(|byte| *byte >= b' ' && *byte != b'"' && *byte != b'\\')
}

fn write_with_serde<T: serde::Serialize + ?Sized>(bytes: &mut Vec<u8>, value: &T) {
    // Writing a JSON value to memory cannot fail: keys are strings, and numbers are finite.
    let written = serde_json::to_writer(bytes, value);
    debug_assert!(written.is_ok());
}

#[cfg(test)]
mod tests;
