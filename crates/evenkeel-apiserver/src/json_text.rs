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
    // Without an early end, so that the compiler compares many bytes at a time.
    let is_plain = text.bytes().fold(true, |plain, byte| plain & (byte >= b' ') & (byte != b'"') & (byte != b'\\'));
    if is_plain {
        bytes.extend_from_slice(text.as_bytes());
    } else {
        let start = bytes.len();
        write_with_serde(bytes, text);
        // Its quotes are written already.
        bytes.pop();
        bytes.remove(start);
    }
}

fn write_with_serde<T: serde::Serialize + ?Sized>(bytes: &mut Vec<u8>, value: &T) {
    // Writing a JSON value to memory cannot fail: keys are strings, and numbers are finite.
    let written = serde_json::to_writer(bytes, value);
    debug_assert!(written.is_ok());
}

#[cfg(test)]
mod tests;
