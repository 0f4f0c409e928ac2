//! [`Scanner`]: reads a JSON text value by value.

use std::borrow::Cow;
use std::fmt;

use super::compact::{NotCompact, skip_compact};
use super::{JsonError, JsonErrorKind, path_at, plain_length};

/// The nesting limit of arrays and objects, the same as that of serde_json.
pub(crate) const MAX_DEPTH: u8 = 128;

/// The type of a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonType {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    String,
    /// Any number.
    Number,
    /// `true` or `false`
    Bool,
    /// `null`
    Null,
}

impl fmt::Display for JsonType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JsonType::Object => "an object",
            JsonType::Array => "an array",
            JsonType::String => "a string",
            JsonType::Number => "a number",
            JsonType::Bool => "a boolean",
            JsonType::Null => "null",
        })
    }
}

/// A position in a complete JSON text that moves forward only.
///
/// Every method that reads a value skips the whitespace before it, checks the value fully, and advances past it. After an error
/// the position is unspecified.
#[derive(Clone)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    depth: u8,
    /// Errors have no path.
    is_probe: bool,
}

type Result<T> = std::result::Result<T, JsonError>;

impl<'a> Scanner<'a> {
    /// Returns a scanner at the start of a text, which must be UTF-8.
    pub(crate) fn new(text: &'a [u8]) -> Result<Self> {
        match std::str::from_utf8(text) {
            Ok(text) => Ok(Self::of_str(text)),
            Err(error) => {
                let at = error.valid_up_to();
                Err(JsonError::new(at as u64, path_at(text, at), JsonErrorKind::InvalidUtf8))
            }
        }
    }

    /// Returns a scanner at the start of a text.
    pub(crate) fn of_str(text: &'a str) -> Self {
        Scanner { text, at: 0, depth: 0, is_probe: false }
    }

    /// Returns a scanner at the start of a text that may be incomplete. Its errors have no path, which would cost another walk.
    pub(crate) fn probe(text: &'a str) -> Self {
        Scanner { is_probe: true, ..Self::of_str(text) }
    }

    /// Returns the type of the next value without reading it.
    pub(crate) fn value_type(&mut self) -> Result<JsonType> {
        match self.next_byte()? {
            b'{' => Ok(JsonType::Object),
            b'[' => Ok(JsonType::Array),
            b'"' => Ok(JsonType::String),
            b'-' | b'0'..=b'9' => Ok(JsonType::Number),
            b't' | b'f' => Ok(JsonType::Bool),
            b'n' => Ok(JsonType::Null),
            _ => Err(self.unexpected("a value")),
        }
    }

    /// Skips the next value and returns its text.
    pub(crate) fn skip(&mut self) -> Result<&'a str> {
        self.space();
        let start = self.at;
        self.skip_value()?;
        Ok(self.slice(start, self.at))
    }

    /// Skips the next value of a text that was checked before: it only finds the end.
    pub(crate) fn skip_checked(&mut self) -> Result<()> {
        if !matches!(self.next_byte()?, b'{' | b'[') {
            return self.skip_value();
        }
        let bytes = self.text.as_bytes();
        let mut open = 0;
        loop {
            match bytes.get(self.at) {
                Some(b'"') => drop(self.skip_string()?),
                Some(b'{' | b'[') => {
                    open += 1;
                    self.at += 1;
                }
                Some(b'}' | b']') => {
                    open -= 1;
                    self.at += 1;
                    if open == 0 {
                        return Ok(());
                    }
                }
                Some(_) => self.at += 1,
                None => return Err(self.error(JsonErrorKind::UnexpectedEnd)),
            }
        }
    }

    /// Reads an object, calling `each` with the name of every member and the scanner at its value. The value is skipped unless
    /// `each` reads it.
    pub(crate) fn object(&mut self, mut each: impl FnMut(&mut Self, &str) -> Result<()>) -> Result<()> {
        self.expect(JsonType::Object, "an object")?;
        self.enter()?;
        if self.next_byte()? == b'}' {
            self.leave();
            return Ok(());
        }
        loop {
            let member = self.member()?;
            self.space();
            let start = self.at;
            each(self, &member)?;
            if self.at == start {
                self.skip_value()?;
            }
            if self.comma_or(b'}', "',' or '}'")? {
                return Ok(());
            }
        }
    }

    /// Reads an array, calling `each` at every element. The element is skipped unless `each` reads it.
    pub(crate) fn array(&mut self, mut each: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.expect(JsonType::Array, "an array")?;
        self.enter()?;
        if self.next_byte()? == b']' {
            self.leave();
            return Ok(());
        }
        loop {
            self.space();
            let start = self.at;
            each(self)?;
            if self.at == start {
                self.skip_value()?;
            }
            if self.comma_or(b']', "',' or ']'")? {
                return Ok(());
            }
        }
    }

    /// Advances to the value of a member of the next value. Returns `false` if that is no object or has no such member.
    ///
    /// The scanner cannot leave the object afterwards: this serves to follow one path.
    pub(crate) fn find_member(&mut self, name: &str) -> Result<bool> {
        if self.value_type()? != JsonType::Object {
            return Ok(false);
        }
        self.enter()?;
        if self.next_byte()? == b'}' {
            return Ok(false);
        }
        loop {
            if self.member()? == name {
                return Ok(true);
            }
            self.skip_value()?;
            if self.comma_or(b'}', "',' or '}'")? {
                return Ok(false);
            }
        }
    }

    /// Advances to an element of the next value. Returns `false` if that is no array or too short. The scanner cannot leave the
    /// array afterwards.
    pub(crate) fn find_element(&mut self, index: usize) -> Result<bool> {
        if self.value_type()? != JsonType::Array {
            return Ok(false);
        }
        self.enter()?;
        if self.next_byte()? == b']' {
            return Ok(false);
        }
        for _ in 0..index {
            self.skip_value()?;
            if self.comma_or(b']', "',' or ']'")? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads a string; a slice of the text unless it has escapes.
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>> {
        self.expect(JsonType::String, "a string")?;
        let start = self.at + 1;
        let escaped = self.skip_string()?;
        let raw = self.slice(start, self.at - 1);
        if !escaped {
            return Ok(Cow::Borrowed(raw));
        }
        unescape(raw).map(Cow::Owned).ok_or_else(|| self.error_at(start, JsonErrorKind::InvalidEscape))
    }

    /// Returns the string at these nested members of a text, if the text has one there.
    pub(crate) fn string_at(text: &'a str, members: &[&str]) -> Option<Cow<'a, str>> {
        let mut scanner = Self::of_str(text);
        for member in members {
            if !scanner.find_member(member).ok()? {
                return None;
            }
        }
        scanner.string().ok()
    }

    /// Reads a 64-bit integer.
    pub(crate) fn integer(&mut self) -> Result<i64> {
        self.expect(JsonType::Number, "a number")?;
        let start = self.at;
        self.skip_number()?;
        let text = self.slice(start, self.at);
        text.parse().map_err(|_| self.error_at(start, JsonErrorKind::NumberOutOfRange))
    }

    /// Reads a boolean.
    pub(crate) fn bool(&mut self) -> Result<bool> {
        self.expect(JsonType::Bool, "a boolean")?;
        let start = self.at;
        self.skip_value()?;
        Ok(self.at - start == "true".len())
    }

    /// Reads `null` if it is next.
    pub(crate) fn null(&mut self) -> Result<bool> {
        if self.value_type()? != JsonType::Null {
            return Ok(false);
        }
        self.skip_value()?;
        Ok(true)
    }

    /// Checks that only whitespace follows.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.space();
        if self.at < self.text.len() { Err(self.unexpected("the end")) } else { Ok(()) }
    }

    /// Returns the number of bytes read.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// Returns an error at the current position.
    #[cold]
    pub(crate) fn error(&self, kind: JsonErrorKind) -> JsonError {
        self.error_at(self.at, kind)
    }
}

impl fmt::Debug for Scanner<'_> {
    /// Prints the position, not the text: it may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scanner(byte {} of {})", self.at, self.text.len())
    }
}

/// The grammar.
impl<'a> Scanner<'a> {
    /// Skips one value.
    fn skip_value(&mut self) -> Result<()> {
        match skip_compact(self.text.as_bytes(), self.at, u32::from(MAX_DEPTH - self.depth)) {
            Ok(end) => {
                self.at = end;
                Ok(())
            }
            Err(NotCompact::Cut) if self.is_probe => Err(self.error(JsonErrorKind::UnexpectedEnd)),
            Err(_) => self.skip_any_value(),
        }
    }

    /// Skips one value without recursion. Each open bracket is a bit: 1 for an object, 0 for an array.
    fn skip_any_value(&mut self) -> Result<()> {
        let base = self.depth;
        let mut objects: u128 = 0;
        loop {
            match self.next_byte()? {
                b'{' => {
                    self.enter()?;
                    objects = objects << 1 | 1;
                    if self.next_byte()? != b'}' {
                        self.skip_member()?;
                        continue;
                    }
                    self.leave();
                    objects >>= 1;
                }
                b'[' => {
                    self.enter()?;
                    objects <<= 1;
                    if self.next_byte()? != b']' {
                        continue;
                    }
                    self.leave();
                    objects >>= 1;
                }
                b'"' => drop(self.skip_string()?),
                b'-' | b'0'..=b'9' => self.skip_number()?,
                b't' => self.skip_word("true")?,
                b'f' => self.skip_word("false")?,
                b'n' => self.skip_word("null")?,
                _ => return Err(self.unexpected("a value")),
            }
            loop {
                if self.depth == base {
                    return Ok(());
                }
                let in_object = objects & 1 == 1;
                let ended =
                    if in_object { self.comma_or(b'}', "',' or '}'")? } else { self.comma_or(b']', "',' or ']'")? };
                if !ended {
                    if in_object {
                        self.skip_member()?;
                    }
                    break;
                }
                objects >>= 1;
            }
        }
    }

    /// Skips a comma (`false`) or the closing bracket (`true`).
    fn comma_or(&mut self, close: u8, expected: &'static str) -> Result<bool> {
        match self.next_byte()? {
            b',' => {
                self.at += 1;
                Ok(false)
            }
            byte if byte == close => {
                self.leave();
                Ok(true)
            }
            _ => Err(self.unexpected(expected)),
        }
    }

    /// Reads the name of a member and the colon after it.
    fn member(&mut self) -> Result<Cow<'a, str>> {
        self.space();
        let start = self.at + 1;
        let (escaped, end) = self.skip_member()?;
        let raw = self.slice(start, end);
        if !escaped {
            return Ok(Cow::Borrowed(raw));
        }
        unescape(raw).map(Cow::Owned).ok_or_else(|| self.error_at(start, JsonErrorKind::InvalidEscape))
    }

    /// Skips the name of a member and the colon after it. Returns whether the name contains escapes, and its end.
    fn skip_member(&mut self) -> Result<(bool, usize)> {
        if self.next_byte()? != b'"' {
            return Err(self.unexpected("the name of a member"));
        }
        let escaped = self.skip_string()?;
        let end = self.at - 1;
        if self.next_byte()? != b':' {
            return Err(self.unexpected("':'"));
        }
        self.at += 1;
        Ok((escaped, end))
    }

    /// Skips a string and returns whether it contains escapes.
    fn skip_string(&mut self) -> Result<bool> {
        let bytes = self.text.as_bytes();
        let mut escaped = false;
        self.at += 1;
        loop {
            let rest = bytes.get(self.at..).unwrap_or_default();
            self.at += plain_length(rest);
            match bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    self.skip_escape()?;
                }
                Some(_) => return Err(self.error(JsonErrorKind::ControlCharacter)),
                None => return Err(self.error(JsonErrorKind::UnexpectedEnd)),
            }
        }
    }

    fn skip_escape(&mut self) -> Result<()> {
        let rest = self.text.as_bytes().get(self.at + 1..).unwrap_or_default();
        let length = match rest {
            [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            [b'u', digits @ ..] => {
                if !digits.get(..4).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                    return Err(self.error(JsonErrorKind::InvalidEscape));
                }
                6
            }
            [] => return Err(self.error(JsonErrorKind::UnexpectedEnd)),
            _ => return Err(self.error(JsonErrorKind::InvalidEscape)),
        };
        self.at += length;
        Ok(())
    }

    fn skip_number(&mut self) -> Result<()> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let digits = |at: &mut usize| {
            let from = *at;
            while bytes.get(*at).is_some_and(u8::is_ascii_digit) {
                *at += 1;
            }
            *at - from
        };
        let mut at = start + usize::from(bytes.get(start) == Some(&b'-'));
        let leading_zero = bytes.get(at) == Some(&b'0');
        let whole = digits(&mut at);
        let mut good = whole == 1 || whole > 1 && !leading_zero;
        if bytes.get(at) == Some(&b'.') {
            at += 1;
            good &= digits(&mut at) > 0;
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            at += 1;
            at += usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
            good &= digits(&mut at) > 0;
        }
        if !good {
            return Err(self.error_at(start, JsonErrorKind::InvalidNumber));
        }
        self.at = at;
        Ok(())
    }

    fn skip_word(&mut self, word: &'static str) -> Result<()> {
        if !self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            return Err(self.unexpected("a value"));
        }
        self.at += word.len();
        Ok(())
    }

    fn enter(&mut self) -> Result<()> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(JsonErrorKind::TooDeep { limit: MAX_DEPTH }));
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
        self.at += 1;
    }

    fn expect(&mut self, wanted: JsonType, expected: &'static str) -> Result<()> {
        let found = self.value_type()?;
        if found == wanted { Ok(()) } else { Err(self.error(JsonErrorKind::WrongType { found, expected })) }
    }

    fn space(&mut self) {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Skips whitespace and returns the next byte without consuming it.
    fn next_byte(&mut self) -> Result<u8> {
        self.space();
        match self.text.as_bytes().get(self.at) {
            Some(byte) => Ok(*byte),
            None => Err(self.error(JsonErrorKind::UnexpectedEnd)),
        }
    }

    pub(crate) fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }

    #[cold]
    fn unexpected(&self, expected: &'static str) -> JsonError {
        match self.text.as_bytes().get(self.at) {
            Some(&found) => self.error(JsonErrorKind::Unexpected { found, expected }),
            None => self.error(JsonErrorKind::UnexpectedEnd),
        }
    }

    #[cold]
    fn error_at(&self, at: usize, kind: JsonErrorKind) -> JsonError {
        let path = if self.is_probe { String::new() } else { path_at(self.text.as_bytes(), at) };
        JsonError::new(at as u64, path, kind)
    }
}

/// Returns the text of a string whose escape sequences were checked, or `None` if surrogates do not pair up.
fn unescape(raw: &str) -> Option<String> {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((plain, escape)) = rest.split_once('\\') {
        out.push_str(plain);
        let (c, length) = match escape.as_bytes().first()? {
            b'b' => ('\u{8}', 1),
            b'f' => ('\u{c}', 1),
            b'n' => ('\n', 1),
            b'r' => ('\r', 1),
            b't' => ('\t', 1),
            b'u' => {
                let unit = |text: &str| u16::from_str_radix(text.get(1..5)?, 16).ok();
                let first = unit(escape)?;
                match char::from_u32(first.into()) {
                    Some(c) => (c, 5),
                    None => {
                        let second = unit(escape.get(5..)?.strip_prefix('\\').filter(|next| next.starts_with('u'))?)?;
                        (char::decode_utf16([first, second]).next()?.ok()?, 11)
                    }
                }
            }
            &other => (char::from(other), 1),
        };
        out.push(c);
        rest = escape.get(length..)?;
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests;
