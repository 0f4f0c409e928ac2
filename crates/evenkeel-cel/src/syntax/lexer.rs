//! Tokens of an expression, with the errors of cel-go's lexer.

use crate::source::{Issue, Source};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    End,
    /// An operator, a bracket, or one of the words `in`, `true`, `false`, `null`.
    Symbol(&'static str),
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Ident,
    EscapedIdent,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'s> {
    pub(super) kind: TokenKind,
    pub(super) text: &'s str,
    /// The offset in code points.
    pub(super) offset: u32,
}

impl Token<'_> {
    pub(super) fn is(&self, symbol: &str) -> bool {
        matches!(self.kind, TokenKind::Symbol(own) if own == symbol)
    }

    /// Returns the token as error messages print it.
    pub(super) fn shown(&self) -> String {
        let text = if self.kind == TokenKind::End { "<EOF>" } else { self.text };
        format!("'{}'", text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t"))
    }
}

/// Longer symbols are before their prefixes.
const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "+", "*",
    "/", "%",
];

const WORDS: [&str; 4] = ["in", "true", "false", "null"];

/// Splits a source into tokens; the last is the end.
pub(super) fn tokens<'s>(source: &'s Source, issues: &mut Vec<Issue>) -> Vec<Token<'s>> {
    let mut found = Vec::new();
    let (mut rest, mut offset) = (source.text(), 0u32);
    while let Some(first) = rest.chars().next() {
        if let Some(length) = skipped(rest) {
            offset += count(rest, length);
            rest = after(rest, length);
            continue;
        }
        let Some((kind, length)) = token(rest) else {
            let length = unrecognized(rest).max(first.len_utf8());
            let text = rest.get(..length).unwrap_or(rest);
            let shown = text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
            let message = format!("Syntax error: token recognition error at: '{shown}'");
            issues.push(Issue { location: source.location(offset), message });
            offset += count(rest, length);
            rest = after(rest, length);
            continue;
        };
        found.push(Token { kind, text: rest.get(..length).unwrap_or(rest), offset });
        offset += count(rest, length);
        rest = after(rest, length);
    }
    found.push(Token { kind: TokenKind::End, text: "", offset });
    found
}

fn after(text: &str, length: usize) -> &str {
    text.get(length..).unwrap_or("")
}

fn count(text: &str, length: usize) -> u32 {
    u32::try_from(text.get(..length).unwrap_or(text).chars().count()).unwrap_or(u32::MAX)
}

/// Returns the length of white space or of a comment.
fn skipped(text: &str) -> Option<usize> {
    let blank = text.len() - text.trim_start_matches(['\t', ' ', '\r', '\n', '\x0c']).len();
    if blank > 0 {
        return Some(blank);
    }
    text.starts_with("//").then(|| text.find('\n').unwrap_or(text.len()))
}

/// Returns how much of the text belongs to a token that does not end.
fn unrecognized(text: &str) -> usize {
    let quote = text.trim_start_matches(['r', 'R', 'b', 'B']);
    let prefix = text.len() - quote.len();
    if prefix <= 2 && quote.starts_with(['"', '\'']) {
        return quote.find(['\n', '\r']).map_or(text.len(), |end| prefix + end);
    }
    // A single `&`, `|` or `=` is read with the character after it.
    if text.starts_with(['&', '|', '=']) {
        return text.chars().take(2).map(char::len_utf8).sum();
    }
    0
}

fn token(text: &str) -> Option<(TokenKind, usize)> {
    let first = text.chars().next()?;
    if let Some(found) = string(text) {
        return Some(found);
    }
    if first.is_ascii_digit() || (first == '.' && after(text, 1).starts_with(|next: char| next.is_ascii_digit())) {
        return Some(number(text));
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let length = text.find(|next: char| !next.is_ascii_alphanumeric() && next != '_').unwrap_or(text.len());
        let word = text.get(..length).unwrap_or(text);
        let kind = WORDS.iter().find(|known| **known == word).map_or(TokenKind::Ident, |word| TokenKind::Symbol(word));
        return Some((kind, length));
    }
    if first == '`' {
        let end = after(text, 1).find('`').filter(|end| *end > 0)?;
        let inner = text.get(1..=end).unwrap_or("");
        let known = |next: char| next.is_ascii_alphanumeric() || matches!(next, '_' | '.' | '-' | '/' | ' ');
        return inner.chars().all(known).then_some((TokenKind::EscapedIdent, end + 2));
    }
    let symbol = SYMBOLS.iter().find(|symbol| text.starts_with(**symbol))?;
    Some((TokenKind::Symbol(symbol), symbol.len()))
}

fn digits(text: &str) -> usize {
    text.find(|next: char| !next.is_ascii_digit()).unwrap_or(text.len())
}

fn number(text: &str) -> (TokenKind, usize) {
    let suffixed = |length: usize, kind: TokenKind| {
        if kind == TokenKind::Int && after(text, length).starts_with(['u', 'U']) {
            (TokenKind::Uint, length + 1)
        } else {
            (kind, length)
        }
    };
    if let Some(hex) = text.strip_prefix("0x") {
        let length = hex.find(|next: char| !next.is_ascii_hexdigit()).unwrap_or(hex.len());
        if length > 0 {
            return suffixed(length + 2, TokenKind::Int);
        }
    }
    let (mut length, mut kind) = (digits(text), TokenKind::Int);
    let fraction = after(text, length).strip_prefix('.').map_or(0, digits);
    if fraction > 0 {
        length += 1 + fraction;
        kind = TokenKind::Float;
    }
    if let Some(exponent) = after(text, length).strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        let value = digits(after(exponent, sign));
        if value > 0 {
            length += 1 + sign + value;
            kind = TokenKind::Float;
        }
    }
    suffixed(length, kind)
}

/// Returns the string or bytes literal at the start.
fn string(text: &str) -> Option<(TokenKind, usize)> {
    let (kind, prefix) = match text.strip_prefix(['b', 'B']) {
        Some(rest) if rest.starts_with(['"', '\'', 'r', 'R']) => (TokenKind::Bytes, 1),
        _ => (TokenKind::String, 0),
    };
    let rest = after(text, prefix);
    let (raw, rest, prefix) = match rest.strip_prefix(['r', 'R']) {
        Some(rest) => (true, rest, prefix + 1),
        None => (false, rest, prefix),
    };
    let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let triple: String = [quote; 3].iter().collect();
    let long = rest.starts_with(&triple);
    let open = if long { 3 } else { 1 };
    let body = after(rest, open);
    let mut at = 0;
    loop {
        let here = after(body, at);
        let next = here.chars().next()?;
        if long && here.starts_with(&triple) {
            return Some((kind, prefix + open + at + 3));
        }
        if !long && next == quote {
            return Some((kind, prefix + open + at + 1));
        }
        if !long && matches!(next, '\n' | '\r') {
            return None;
        }
        at += if next == '\\' && !raw { escape_length(here)? } else { next.len_utf8() };
    }
}

/// Returns the length of an escape sequence, if it is one.
fn escape_length(text: &str) -> Option<usize> {
    let all = |from: usize, length: usize, known: fn(&char) -> bool| {
        let digits = text.get(from..from + length)?;
        digits.chars().all(|digit| known(&digit)).then_some(from + length)
    };
    match text.chars().nth(1)? {
        'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`' => Some(2),
        '0'..='3' => all(2, 2, |digit| ('0'..='7').contains(digit)),
        'x' | 'X' => all(2, 2, char::is_ascii_hexdigit),
        'u' => all(2, 4, char::is_ascii_hexdigit),
        'U' => all(2, 8, char::is_ascii_hexdigit),
        _ => None,
    }
}
