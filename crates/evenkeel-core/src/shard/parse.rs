//! Parses the selectors that API servers print.

use super::error::ShardSelectorError;
use super::ranges::ShardRange;
use super::selector::{ShardField, ShardSelector};

/// The number of digits of every bound but 2^64.
const DIGITS: usize = 16;

/// Parses ranges joined by `||`.
pub(super) fn selector(text: &str) -> Result<ShardSelector, ShardSelectorError> {
    if text.trim().is_empty() {
        return Err(ShardSelectorError::Empty);
    }
    let mut parser = Parser { text, at: 0 };
    let mut ranges = vec![parser.range()?];
    while parser.take("||") {
        ranges.push(parser.range()?);
    }
    parser.skip_space();
    if parser.at < text.len() {
        return Err(parser.expected("`||` or the end"));
    }
    ShardSelector::of(&ranges)
}

/// Parses a bound; `bound` is its name in errors.
///
/// # Errors
///
/// The text is neither `0x` with 16 lower-case digits nor 2^64.
pub fn parse_bound(bound: &'static str, text: &str) -> Result<u128, ShardSelectorError> {
    let Some(digits) = text.strip_prefix("0x") else {
        return Err(ShardSelectorError::MissingPrefix { bound, text: text.to_owned() });
    };
    if digits.is_empty() {
        return Err(ShardSelectorError::MissingDigits { bound });
    }
    if digits.len() > DIGITS + 1 {
        return Err(ShardSelectorError::TooManyDigits { bound, digits: digits.to_owned() });
    }
    let is_digit = |character: &char| matches!(character, '0'..='9' | 'a'..='f');
    if let Some(character) = digits.chars().find(|character| !is_digit(character)) {
        return Err(ShardSelectorError::InvalidDigit { bound, character: character.into(), text: text.to_owned() });
    }
    if digits.len() < DIGITS {
        return Err(ShardSelectorError::TooFewDigits { bound, text: text.to_owned() });
    }
    match u128::from_str_radix(digits, 16) {
        Ok(value) if digits.len() == DIGITS || value == super::PLACES => Ok(value),
        _ => Err(ShardSelectorError::TooLarge { bound, text: text.to_owned() }),
    }
}

/// Returns the range between two parsed bounds.
///
/// # Errors
///
/// It is empty.
pub fn range_of(start: u128, end: u128) -> Result<ShardRange, ShardSelectorError> {
    let empty = ShardSelectorError::EmptyRange { start, end };
    ShardRange::new(u64::try_from(start).map_err(|_| empty)?, end)
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Skips white space and one symbol, if it follows.
    fn take(&mut self, symbol: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(symbol);
        if found {
            self.at += symbol.len();
        }
        found
    }

    fn expect(&mut self, symbol: &'static str) -> Result<(), ShardSelectorError> {
        if self.take(symbol) { Ok(()) } else { Err(self.expected(symbol)) }
    }

    fn expected(&self, expected: &'static str) -> ShardSelectorError {
        ShardSelectorError::Syntax { at: self.at, expected }
    }

    fn range(&mut self) -> Result<(ShardField, ShardRange), ShardSelectorError> {
        self.expect("shardRange")?;
        self.expect("(")?;
        self.skip_space();
        let path = self.until(|byte| !byte.is_ascii_alphanumeric() && byte != b'.' && byte != b'_');
        let field = path.parse()?;
        self.expect(",")?;
        let start = parse_bound("hexStart", self.quoted()?)?;
        self.expect(",")?;
        let end = parse_bound("hexEnd", self.quoted()?)?;
        self.expect(")")?;
        Ok((field, range_of(start, end)?))
    }

    /// Reads a text in single or double quotes. Escapes are not needed for bounds, and not read.
    fn quoted(&mut self) -> Result<&'t str, ShardSelectorError> {
        let quote = if self.take("'") {
            b'\''
        } else if self.take("\"") {
            b'"'
        } else {
            return Err(self.expected("a quoted bound"));
        };
        let inner = self.until(|byte| byte == quote);
        self.at += 1;
        if self.at > self.text.len() {
            self.at = self.text.len();
            return Err(self.expected("a closing quote"));
        }
        Ok(inner)
    }

    /// Reads up to the first byte for which `ends` is true, or to the end of the text.
    fn until(&mut self, ends: impl Fn(u8) -> bool) -> &'t str {
        let rest = self.rest();
        let length = rest.bytes().position(ends).unwrap_or(rest.len());
        self.at += length;
        rest.get(..length).unwrap_or("")
    }
}
