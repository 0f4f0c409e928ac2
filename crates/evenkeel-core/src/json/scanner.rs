//! [`Scanner`]: walks a JSON text from value to value.

use std::borrow::Cow;
use std::fmt;

use super::{JsonError, JsonFault, path_at, plain_length};

/// How deep arrays and objects may nest. serde_json has the same limit.
pub(crate) const MAX_DEPTH: u8 = 128;

/// The type of a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
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

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shape::Object => "an object",
            Shape::Array => "an array",
            Shape::String => "a string",
            Shape::Number => "a number",
            Shape::Bool => "a boolean",
            Shape::Null => "null",
        })
    }
}

/// A place in a complete JSON text, moving forward.
///
/// Every method that reads a value skips the space before it, checks the value fully, and leaves the scanner behind it.
/// After an error the scanner is good for nothing more.
#[derive(Clone)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    depth: u8,
}

type Result<T> = std::result::Result<T, JsonError>;

impl<'a> Scanner<'a> {
    /// A scanner at the start of a text, which must be UTF-8.
    pub(crate) fn new(text: &'a [u8]) -> Result<Self> {
        match std::str::from_utf8(text) {
            Ok(text) => Ok(Self::of_str(text)),
            Err(error) => {
                let at = error.valid_up_to();
                Err(JsonError::new(at as u64, path_at(text, at), JsonFault::InvalidUtf8))
            }
        }
    }

    /// A scanner at the start of a text.
    pub(crate) fn of_str(text: &'a str) -> Self {
        Scanner { text, at: 0, depth: 0 }
    }

    /// The type of the next value, which stays where it is.
    pub(crate) fn shape(&mut self) -> Result<Shape> {
        match self.next_byte()? {
            b'{' => Ok(Shape::Object),
            b'[' => Ok(Shape::Array),
            b'"' => Ok(Shape::String),
            b'-' | b'0'..=b'9' => Ok(Shape::Number),
            b't' | b'f' => Ok(Shape::Bool),
            b'n' => Ok(Shape::Null),
            _ => Err(self.unexpected("a value")),
        }
    }

    /// Skips the next value and returns its text.
    pub(crate) fn skip(&mut self) -> Result<&'a str> {
        self.space();
        let start = self.at;
        self.pass_value()?;
        Ok(self.slice(start, self.at))
    }

    /// Skips the next value of a text that is known to be sound: finds its end and nothing else.
    pub(crate) fn skip_checked(&mut self) -> Result<()> {
        if !matches!(self.next_byte()?, b'{' | b'[') {
            return self.pass_value();
        }
        let bytes = self.text.as_bytes();
        let mut open = 0;
        loop {
            match bytes.get(self.at) {
                Some(b'"') => drop(self.pass_string()?),
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
                None => return Err(self.fault(JsonFault::UnexpectedEnd)),
            }
        }
    }

    /// Reads an object, calling `each` with the name of every member. The scanner then stands at the member's value;
    /// if `each` leaves it there, the value is skipped.
    pub(crate) fn object(&mut self, mut each: impl FnMut(&mut Self, &str) -> Result<()>) -> Result<()> {
        self.expect(Shape::Object, "an object")?;
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
                self.pass_value()?;
            }
            if self.comma_or(b'}', "',' or '}'")? {
                return Ok(());
            }
        }
    }

    /// Reads an array, calling `each` at every element. If `each` leaves the scanner there, the element is skipped.
    pub(crate) fn array(&mut self, mut each: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.expect(Shape::Array, "an array")?;
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
                self.pass_value()?;
            }
            if self.comma_or(b']', "',' or ']'")? {
                return Ok(());
            }
        }
    }

    /// Goes to the value of a member of the next value; `false` if that is no object or has no such member.
    ///
    /// There is no way back out: this is for following one path and reading what is at its end.
    pub(crate) fn find_member(&mut self, name: &str) -> Result<bool> {
        if self.shape()? != Shape::Object {
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
            self.pass_value()?;
            if self.comma_or(b'}', "',' or '}'")? {
                return Ok(false);
            }
        }
    }

    /// Goes to an element of the next value; `false` if that is no array or too short. There is no way back out.
    pub(crate) fn find_element(&mut self, index: usize) -> Result<bool> {
        if self.shape()? != Shape::Array {
            return Ok(false);
        }
        self.enter()?;
        if self.next_byte()? == b']' {
            return Ok(false);
        }
        for _ in 0..index {
            self.pass_value()?;
            if self.comma_or(b']', "',' or ']'")? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads a string; a slice of the text unless it has escapes.
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>> {
        self.expect(Shape::String, "a string")?;
        let start = self.at + 1;
        let escaped = self.pass_string()?;
        let raw = self.slice(start, self.at - 1);
        if !escaped {
            return Ok(Cow::Borrowed(raw));
        }
        unescape(raw).map(Cow::Owned).ok_or_else(|| self.fault_at(start, JsonFault::InvalidEscape))
    }

    /// Reads a whole number of 64 bits.
    pub(crate) fn integer(&mut self) -> Result<i64> {
        self.expect(Shape::Number, "a number")?;
        let start = self.at;
        self.pass_number()?;
        let text = self.slice(start, self.at);
        text.parse().map_err(|_| self.fault_at(start, JsonFault::NumberOutOfRange))
    }

    /// Reads a boolean.
    pub(crate) fn bool(&mut self) -> Result<bool> {
        self.expect(Shape::Bool, "a boolean")?;
        let start = self.at;
        self.pass_value()?;
        Ok(self.at - start == "true".len())
    }

    /// Reads `null` if it is next.
    pub(crate) fn null(&mut self) -> Result<bool> {
        if self.shape()? != Shape::Null {
            return Ok(false);
        }
        self.pass_value()?;
        Ok(true)
    }

    /// Makes sure that nothing but space follows.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.space();
        if self.at < self.text.len() { Err(self.unexpected("the end")) } else { Ok(()) }
    }

    /// How many bytes have been read.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// An error at the place where the scanner stands.
    #[cold]
    pub(crate) fn fault(&self, fault: JsonFault) -> JsonError {
        self.fault_at(self.at, fault)
    }
}

impl fmt::Debug for Scanner<'_> {
    /// Where it stands, not what it reads: the text may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scanner(byte {} of {})", self.at, self.text.len())
    }
}

/// The grammar.
impl<'a> Scanner<'a> {
    /// Passes one value without recursion; the kinds of the open brackets are the bits of a number.
    fn pass_value(&mut self) -> Result<()> {
        let base = self.depth;
        let mut objects: u128 = 0;
        loop {
            match self.next_byte()? {
                b'{' => {
                    self.enter()?;
                    objects = objects << 1 | 1;
                    if self.next_byte()? != b'}' {
                        self.pass_member()?;
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
                b'"' => drop(self.pass_string()?),
                b'-' | b'0'..=b'9' => self.pass_number()?,
                b't' => self.pass_word("true")?,
                b'f' => self.pass_word("false")?,
                b'n' => self.pass_word("null")?,
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
                        self.pass_member()?;
                    }
                    break;
                }
                objects >>= 1;
            }
        }
    }

    /// Passes a comma (`false`) or the closing bracket (`true`).
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
        let mut name = self.clone();
        self.pass_member()?;
        name.string()
    }

    /// Passes the name of a member and the colon after it.
    fn pass_member(&mut self) -> Result<()> {
        if self.next_byte()? != b'"' {
            return Err(self.unexpected("the name of a member"));
        }
        self.pass_string()?;
        if self.next_byte()? != b':' {
            return Err(self.unexpected("':'"));
        }
        self.at += 1;
        Ok(())
    }

    /// Passes a string and says whether it has escapes in it.
    fn pass_string(&mut self) -> Result<bool> {
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
                    self.pass_escape()?;
                }
                Some(_) => return Err(self.fault(JsonFault::ControlCharacter)),
                None => return Err(self.fault(JsonFault::UnexpectedEnd)),
            }
        }
    }

    fn pass_escape(&mut self) -> Result<()> {
        let rest = self.text.as_bytes().get(self.at + 1..).unwrap_or_default();
        let length = match rest {
            [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            [b'u', digits @ ..] => {
                if !digits.get(..4).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                    return Err(self.fault(JsonFault::InvalidEscape));
                }
                6
            }
            [] => return Err(self.fault(JsonFault::UnexpectedEnd)),
            _ => return Err(self.fault(JsonFault::InvalidEscape)),
        };
        self.at += length;
        Ok(())
    }

    fn pass_number(&mut self) -> Result<()> {
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
            return Err(self.fault_at(start, JsonFault::InvalidNumber));
        }
        self.at = at;
        Ok(())
    }

    fn pass_word(&mut self, word: &'static str) -> Result<()> {
        if !self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            return Err(self.unexpected("a value"));
        }
        self.at += word.len();
        Ok(())
    }

    fn enter(&mut self) -> Result<()> {
        if self.depth == MAX_DEPTH {
            return Err(self.fault(JsonFault::TooDeep { limit: MAX_DEPTH }));
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
        self.at += 1;
    }

    fn expect(&mut self, shape: Shape, expected: &'static str) -> Result<()> {
        let found = self.shape()?;
        if found == shape { Ok(()) } else { Err(self.fault(JsonFault::WrongType { found, expected })) }
    }

    fn space(&mut self) {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// The next byte that is not space, left in place.
    fn next_byte(&mut self) -> Result<u8> {
        self.space();
        match self.text.as_bytes().get(self.at) {
            Some(byte) => Ok(*byte),
            None => Err(self.fault(JsonFault::UnexpectedEnd)),
        }
    }

    pub(crate) fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }

    #[cold]
    fn unexpected(&self, expected: &'static str) -> JsonError {
        match self.text.as_bytes().get(self.at) {
            Some(&found) => self.fault(JsonFault::Unexpected { found, expected }),
            None => self.fault(JsonFault::UnexpectedEnd),
        }
    }

    #[cold]
    fn fault_at(&self, at: usize, fault: JsonFault) -> JsonError {
        JsonError::new(at as u64, path_at(self.text.as_bytes(), at), fault)
    }
}

/// The text of a string whose escapes have been checked to be escapes; `None` if surrogates do not pair up.
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
