//! The words of Go's JSON decoder: for syntax errors, and for kinds of values.

use serde_json::Value;

/// The word for a kind of JSON value, as the decoder's messages use it.
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

/// What Go's decoder says of JSON that is none; `None` if there is nothing wrong with it.
pub(crate) fn syntax_error(body: &[u8]) -> Option<String> {
    let mut scanner = Scanner { state: State::Value, open: Vec::new() };
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
    let complete = scanner.step(b' ').is_ok() && matches!(scanner.state, State::EndTop);
    (!complete).then(|| "unexpected end of JSON input".to_owned())
}

/// Go's decoder gives up on what is nested deeper than this.
const MAX_NESTING: usize = 10_000;
const TOO_DEEP: &str = "exceeded max depth";

/// What the scanner is in the middle of.
#[derive(Clone, Copy)]
enum Parse {
    ObjectKey,
    ObjectValue,
    ArrayValue,
}

/// What the scanner waits for.
#[derive(Clone, Copy)]
enum State {
    Value,
    ValueOrEmpty,
    Key,
    KeyOrEmpty,
    EndValue,
    EndTop,
    InString,
    Escape,
    /// How many digits of `\u` are still to come.
    Hex(u8),
    /// A literal and how much of it was read.
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

/// The scanner's transitions, one byte at a time; an error is the words that follow the offending character.
struct Scanner {
    state: State,
    open: Vec<Parse>,
}

impl Scanner {
    fn step(&mut self, byte: u8) -> Result<(), &'static str> {
        let is_space = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        self.state = match self.state {
            State::Value | State::ValueOrEmpty | State::Key | State::KeyOrEmpty | State::EndTop if is_space => {
                return Ok(());
            }
            State::ValueOrEmpty if byte == b']' => return self.end_value(byte),
            State::Value | State::ValueOrEmpty => match byte {
                b'{' => self.enter(Parse::ObjectKey, State::KeyOrEmpty)?,
                b'[' => self.enter(Parse::ArrayValue, State::ValueOrEmpty)?,
                b'"' => State::InString,
                b'-' => State::Negative,
                b'0' => State::IntegerDone,
                b'1'..=b'9' => State::Integer,
                b't' => State::Literal("true", 1),
                b'f' => State::Literal("false", 1),
                b'n' => State::Literal("null", 1),
                _ => return Err("looking for beginning of value"),
            },
            State::KeyOrEmpty if byte == b'}' => {
                if let Some(parse) = self.open.last_mut() {
                    *parse = Parse::ObjectValue;
                }
                return self.end_value(byte);
            }
            State::Key | State::KeyOrEmpty if byte == b'"' => State::InString,
            State::Key | State::KeyOrEmpty => return Err("looking for beginning of object key string"),
            State::EndValue => return self.end_value(byte),
            State::EndTop => return Err("after top-level value"),
            State::InString => match byte {
                b'"' => State::EndValue,
                b'\\' => State::Escape,
                0..=0x1f => return Err("in string literal"),
                _ => State::InString,
            },
            State::Escape => match byte {
                b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => State::InString,
                b'u' => State::Hex(4),
                _ => return Err("in string escape code"),
            },
            State::Hex(left) => match (byte.is_ascii_hexdigit(), left) {
                (true, 1) => State::InString,
                (true, _) => State::Hex(left - 1),
                (false, _) => return Err("in \\u hexadecimal character escape"),
            },
            State::Literal(word, read) => {
                if word.as_bytes().get(read) != Some(&byte) {
                    return Err(literal_context(word, read));
                }
                if read + 1 == word.len() { State::EndValue } else { State::Literal(word, read + 1) }
            }
            State::Negative => match byte {
                b'0' => State::IntegerDone,
                b'1'..=b'9' => State::Integer,
                _ => return Err("in numeric literal"),
            },
            State::Integer if byte.is_ascii_digit() => State::Integer,
            State::Integer | State::IntegerDone => match byte {
                b'.' => State::Point,
                b'e' | b'E' => State::Exponent,
                _ => return self.end_value(byte),
            },
            State::Point if byte.is_ascii_digit() => State::Fraction,
            State::Point => return Err("after decimal point in numeric literal"),
            State::Fraction => match byte {
                b'0'..=b'9' => State::Fraction,
                b'e' | b'E' => State::Exponent,
                _ => return self.end_value(byte),
            },
            State::Exponent if matches!(byte, b'+' | b'-') => State::ExponentSign,
            State::Exponent | State::ExponentSign if byte.is_ascii_digit() => State::ExponentDigits,
            State::Exponent | State::ExponentSign => return Err("in exponent of numeric literal"),
            State::ExponentDigits if byte.is_ascii_digit() => State::ExponentDigits,
            State::ExponentDigits => return self.end_value(byte),
        };
        Ok(())
    }

    fn enter(&mut self, parse: Parse, state: State) -> Result<State, &'static str> {
        if self.open.len() == MAX_NESTING {
            return Err(TOO_DEEP);
        }
        self.open.push(parse);
        Ok(state)
    }

    /// The byte after a value.
    fn end_value(&mut self, byte: u8) -> Result<(), &'static str> {
        let is_space = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        self.state = match (self.open.last_mut(), byte) {
            (None, _) if is_space => State::EndTop,
            (None, _) => return Err("after top-level value"),
            (Some(_), _) if is_space => State::EndValue,
            (Some(parse @ Parse::ObjectKey), b':') => {
                *parse = Parse::ObjectValue;
                State::Value
            }
            (Some(Parse::ObjectKey), _) => return Err("after object key"),
            (Some(parse @ Parse::ObjectValue), b',') => {
                *parse = Parse::ObjectKey;
                State::Key
            }
            (Some(Parse::ArrayValue), b',') => State::Value,
            (Some(Parse::ObjectValue), b'}') | (Some(Parse::ArrayValue), b']') => {
                self.open.pop();
                if self.open.is_empty() { State::EndTop } else { State::EndValue }
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

/// The first character of the bytes between single quotes, escaped as Go does it.
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

/// Whether Go counts the character as printable: letters, marks, numbers, punctuation, symbols and the plain space.
pub(crate) fn is_print(character: char) -> bool {
    match character {
        '\'' | '"' | '\\' => true,
        other => !other.is_control() && other.escape_debug().len() == 1,
    }
}

#[cfg(test)]
mod tests;
