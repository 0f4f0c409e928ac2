//! The messages of Go's JSON decoder: syntax errors and the names of value kinds.

use serde_json::Value;

/// Returns the name of a kind of JSON value in Go's messages.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns Go's message for invalid JSON; `None` if the JSON is valid.
pub(crate) fn syntax_error(body: &[u8]) -> Option<String> {
    let mut scanner = Scanner { state: ScannerState::Value, open: Vec::new() };
    for (position, &byte) in body.iter().enumerate() {
        if let Err(context) = scanner.step(byte) {
            if context == TOO_DEEP {
                return Some(TOO_DEEP.to_owned());
            }
            let rest = body.get(position..).unwrap_or_default();
            return Some(format!("invalid character {} {context}", quote_first(rest)));
        }
    }
    // A number at the top ends with the input.
    let complete = scanner.step(b' ').is_ok() && matches!(scanner.state, ScannerState::EndTop);
    (!complete).then(|| "unexpected end of JSON input".to_owned())
}

/// The nesting limit of Go's decoder.
const MAX_NESTING: usize = 10_000;
const TOO_DEEP: &str = "exceeded max depth";

/// The container that the scanner is in.
#[derive(Clone, Copy)]
enum Parse {
    ObjectKey,
    ObjectValue,
    ArrayValue,
}

/// What the scanner expects next.
#[derive(Clone, Copy)]
enum ScannerState {
    Value,
    ValueOrEmpty,
    Key,
    KeyOrEmpty,
    EndValue,
    EndTop,
    InString,
    Escape,
    /// How many digits of `\u` are missing.
    Hex(u8),
    /// A literal and how much of it is read.
    Literal(&'static str, usize),
    Negative,
    Integer,
    /// A leading zero, or the end of the integer part.
    IntegerDone,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

/// Advances the scanner by one byte. An error is the text after the invalid character.
struct Scanner {
    state: ScannerState,
    open: Vec<Parse>,
}

impl Scanner {
    fn step(&mut self, byte: u8) -> Result<(), &'static str> {
        let is_space = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        self.state = match self.state {
            ScannerState::Value
            | ScannerState::ValueOrEmpty
            | ScannerState::Key
            | ScannerState::KeyOrEmpty
            | ScannerState::EndTop
                if is_space =>
            {
                return Ok(());
            }
            ScannerState::ValueOrEmpty if byte == b']' => return self.end_value(byte),
            ScannerState::Value | ScannerState::ValueOrEmpty => match byte {
                b'{' => self.enter(Parse::ObjectKey, ScannerState::KeyOrEmpty)?,
                b'[' => self.enter(Parse::ArrayValue, ScannerState::ValueOrEmpty)?,
                b'"' => ScannerState::InString,
                b'-' => ScannerState::Negative,
                b'0' => ScannerState::IntegerDone,
                b'1'..=b'9' => ScannerState::Integer,
                b't' => ScannerState::Literal("true", 1),
                b'f' => ScannerState::Literal("false", 1),
                b'n' => ScannerState::Literal("null", 1),
                _ => return Err("looking for beginning of value"),
            },
            ScannerState::KeyOrEmpty if byte == b'}' => {
                if let Some(parse) = self.open.last_mut() {
                    *parse = Parse::ObjectValue;
                }
                return self.end_value(byte);
            }
            ScannerState::Key | ScannerState::KeyOrEmpty if byte == b'"' => ScannerState::InString,
            ScannerState::Key | ScannerState::KeyOrEmpty => return Err("looking for beginning of object key string"),
            ScannerState::EndValue => return self.end_value(byte),
            ScannerState::EndTop => return Err("after top-level value"),
            ScannerState::InString => match byte {
                b'"' => ScannerState::EndValue,
                b'\\' => ScannerState::Escape,
                0..=0x1f => return Err("in string literal"),
                _ => ScannerState::InString,
            },
            ScannerState::Escape => match byte {
                b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => ScannerState::InString,
                b'u' => ScannerState::Hex(4),
                _ => return Err("in string escape code"),
            },
            ScannerState::Hex(left) => match (byte.is_ascii_hexdigit(), left) {
                (true, 1) => ScannerState::InString,
                (true, _) => ScannerState::Hex(left - 1),
                (false, _) => return Err("in \\u hexadecimal character escape"),
            },
            ScannerState::Literal(word, read) => {
                if word.as_bytes().get(read) != Some(&byte) {
                    return Err(literal_context(word, read));
                }
                if read + 1 == word.len() { ScannerState::EndValue } else { ScannerState::Literal(word, read + 1) }
            }
            ScannerState::Negative => match byte {
                b'0' => ScannerState::IntegerDone,
                b'1'..=b'9' => ScannerState::Integer,
                _ => return Err("in numeric literal"),
            },
            ScannerState::Integer if byte.is_ascii_digit() => ScannerState::Integer,
            ScannerState::Integer | ScannerState::IntegerDone => match byte {
                b'.' => ScannerState::Point,
                b'e' | b'E' => ScannerState::Exponent,
                _ => return self.end_value(byte),
            },
            ScannerState::Point if byte.is_ascii_digit() => ScannerState::Fraction,
            ScannerState::Point => return Err("after decimal point in numeric literal"),
            ScannerState::Fraction => match byte {
                b'0'..=b'9' => ScannerState::Fraction,
                b'e' | b'E' => ScannerState::Exponent,
                _ => return self.end_value(byte),
            },
            ScannerState::Exponent if matches!(byte, b'+' | b'-') => ScannerState::ExponentSign,
            ScannerState::Exponent | ScannerState::ExponentSign if byte.is_ascii_digit() => {
                ScannerState::ExponentDigits
            }
            ScannerState::Exponent | ScannerState::ExponentSign => return Err("in exponent of numeric literal"),
            ScannerState::ExponentDigits if byte.is_ascii_digit() => ScannerState::ExponentDigits,
            ScannerState::ExponentDigits => return self.end_value(byte),
        };
        Ok(())
    }

    fn enter(&mut self, parse: Parse, state: ScannerState) -> Result<ScannerState, &'static str> {
        if self.open.len() == MAX_NESTING {
            return Err(TOO_DEEP);
        }
        self.open.push(parse);
        Ok(state)
    }

    /// Handles the byte after a value.
    fn end_value(&mut self, byte: u8) -> Result<(), &'static str> {
        let is_space = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        self.state = match (self.open.last_mut(), byte) {
            (None, _) if is_space => ScannerState::EndTop,
            (None, _) => return Err("after top-level value"),
            (Some(_), _) if is_space => ScannerState::EndValue,
            (Some(parse @ Parse::ObjectKey), b':') => {
                *parse = Parse::ObjectValue;
                ScannerState::Value
            }
            (Some(Parse::ObjectKey), _) => return Err("after object key"),
            (Some(parse @ Parse::ObjectValue), b',') => {
                *parse = Parse::ObjectKey;
                ScannerState::Key
            }
            (Some(Parse::ArrayValue), b',') => ScannerState::Value,
            (Some(Parse::ObjectValue), b'}') | (Some(Parse::ArrayValue), b']') => {
                self.open.pop();
                if self.open.is_empty() { ScannerState::EndTop } else { ScannerState::EndValue }
            }
            (Some(Parse::ObjectValue), _) => return Err("after object key:value pair"),
            (Some(Parse::ArrayValue), _) => return Err("after array element"),
        };
        Ok(())
    }
}

fn literal_context(word: &str, read: usize) -> &'static str {
    match (word, read) {
        ("true", 1) => "in literal true (expecting 'r')",
        ("true", 2) => "in literal true (expecting 'u')",
        ("true", _) => "in literal true (expecting 'e')",
        ("false", 1) => "in literal false (expecting 'a')",
        ("false", 2) => "in literal false (expecting 'l')",
        ("false", 3) => "in literal false (expecting 's')",
        ("false", _) => "in literal false (expecting 'e')",
        (_, 1) => "in literal null (expecting 'u')",
        _ => "in literal null (expecting 'l')",
    }
}

/// Returns the first character of the bytes in single quotes, escaped like Go.
fn quote_first(bytes: &[u8]) -> String {
    let head = bytes.get(..4).unwrap_or(bytes);
    let character = head.utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next());
    match (character, head.first()) {
        (Some('\''), _) => r"'\''".to_owned(),
        (Some('\\'), _) => r"'\\'".to_owned(),
        (Some('\x07'), _) => r"'\a'".to_owned(),
        (Some('\x08'), _) => r"'\b'".to_owned(),
        (Some('\x0b'), _) => r"'\v'".to_owned(),
        (Some('\x0c'), _) => r"'\f'".to_owned(),
        (Some('\n'), _) => r"'\n'".to_owned(),
        (Some('\r'), _) => r"'\r'".to_owned(),
        (Some('\t'), _) => r"'\t'".to_owned(),
        (Some(printable), _) if is_print(printable) => format!("'{printable}'"),
        (Some(other), _) => match u32::from(other) {
            code @ 0..=0x7f => format!("'\\x{code:02x}'"),
            code @ 0..=0xffff => format!("'\\u{code:04x}'"),
            code => format!("'\\U{code:08x}'"),
        },
        (None, Some(byte)) => format!("'\\x{byte:02x}'"),
        (None, None) => "''".to_owned(),
    }
}

/// Returns whether Go counts the character as printable: letters, marks, numbers, punctuation, symbols and the plain space.
pub(crate) fn is_print(character: char) -> bool {
    match character {
        '\'' | '"' | '\\' => true,
        other => !other.is_control() && other.escape_debug().len() == 1,
    }
}

/// Prints a value as Go's `%+v` prints decoded JSON: `map[a:1 b:[x y]]`.
pub(crate) fn print(value: &Value) -> String {
    let mut text = String::new();
    print_to(value, &mut text);
    text
}

fn print_to(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("<nil>"),
        Value::String(value) => text.push_str(value),
        Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(' ');
                }
                print_to(item, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            text.push_str("map[");
            for (index, (key, value)) in fields.iter().enumerate() {
                if index > 0 {
                    text.push(' ');
                }
                text.push_str(key);
                text.push(':');
                print_to(value, text);
            }
            text.push(']');
        }
    }
}

#[cfg(test)]
mod tests;
