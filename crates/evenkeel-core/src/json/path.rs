//! Paths such as `spec.containers[0].image` and `metadata.labels[app.kubernetes.io/name]`: parsed and printed.

use std::borrow::Cow;
use std::fmt::Write as _;

use memchr::memchr2;

/// Longer keys are truncated in the path of an error.
const MAX_KEY_SHOWN: usize = 64;
/// Deeper levels are omitted from the path of an error. Valid texts are less deep.
const MAX_LEVELS_SHOWN: usize = 160;

/// A parsed path to one value.
///
/// The grammar, as kubectl users write it: members (`spec.nodeName`, with or without a leading `.` or `$.`), indexes
/// (`containers[0]`), and keys in brackets, bare (`labels[app.kubernetes.io/name]`) or quoted (`annotations['a/b']`,
/// `annotations["a/b"]`, with `\\` before a quote or a backslash). A key with whitespace, quotes, brackets or
/// one of `*?@\` needs quotes. The empty path is the whole value. Filters, slices and negative indexes are errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonPath<'p> {
    /// Checked by [`parse`](Self::parse).
    text: &'p str,
}

/// One segment of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathSegment<'p> {
    /// The member of an object.
    Member(Cow<'p, str>),
    /// A bare key in brackets: the member of an object, or the element of an array if it is an index.
    Bracketed(Cow<'p, str>, Option<usize>),
    /// `[*]`: every element of an array, or every member of an object.
    Any,
}

impl<'p> JsonPath<'p> {
    /// Parses a path to one value.
    pub(crate) fn parse(text: &'p str) -> Result<Self, PathError> {
        let mut lexer = PathLexer::new(text);
        while let Some(segment) = lexer.next()? {
            if segment == PathSegment::Any {
                return Err(lexer.error(lexer.at - "*]".len(), "an index or a key: [*] matches more than one value"));
            }
        }
        Ok(JsonPath { text })
    }

    pub(crate) fn segments(self) -> impl Iterator<Item = PathSegment<'p>> {
        let mut lexer = PathLexer::new(self.text);
        std::iter::from_fn(move || lexer.next().ok().flatten())
    }
}

impl PathSegment<'_> {
    /// Parses a path that may match several values by `[*]`.
    pub(crate) fn parse_all(text: &str) -> Result<Box<[PathSegment<'static>]>, PathError> {
        let mut lexer = PathLexer::new(text);
        let mut segments = Vec::new();
        while let Some(segment) = lexer.next()? {
            segments.push(segment.into_owned());
        }
        if segments.is_empty() {
            return Err(lexer.error(lexer.at, "a member"));
        }
        Ok(segments.into())
    }

    fn into_owned(self) -> PathSegment<'static> {
        match self {
            PathSegment::Member(name) => PathSegment::Member(Cow::Owned(name.into_owned())),
            PathSegment::Bracketed(key, index) => PathSegment::Bracketed(Cow::Owned(key.into_owned()), index),
            PathSegment::Any => PathSegment::Any,
        }
    }

    /// Returns the member of an object that the segment names.
    pub(crate) fn member(&self) -> Option<&str> {
        match self {
            PathSegment::Member(name) | PathSegment::Bracketed(name, _) => Some(name),
            PathSegment::Any => None,
        }
    }

    /// Returns the element of an array that the segment names.
    pub(crate) fn index(&self) -> Option<usize> {
        match self {
            PathSegment::Bracketed(_, index) => *index,
            PathSegment::Member(_) | PathSegment::Any => None,
        }
    }

    pub(crate) fn matches_member(&self, name: &str) -> bool {
        self.member().is_none_or(|own| own == name)
    }

    pub(crate) fn matches_element(&self, index: usize) -> bool {
        match self {
            PathSegment::Any => true,
            other => other.index() == Some(index),
        }
    }
}

/// A malformed path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The path does not follow the grammar.
    #[error("malformed path {path:?} at byte {position}: expected {expected}")]
    Malformed {
        /// The path.
        path: String,
        /// The byte offset of the error in the path.
        position: usize,
        /// What the grammar requires there.
        expected: &'static str,
    },
    /// A set of paths has too many members.
    #[error("more than {limit} paths")]
    TooMany {
        /// The largest number of paths.
        limit: usize,
    },
}

impl PathError {
    pub(crate) fn path(&self) -> &str {
        match self {
            PathError::Malformed { path, .. } => path,
            PathError::TooMany { .. } => "",
        }
    }
}

/// Splits a path into segments.
struct PathLexer<'p> {
    text: &'p str,
    /// The offset of the next segment.
    at: usize,
}

impl<'p> PathLexer<'p> {
    fn new(text: &'p str) -> Self {
        // `$` is the root, but `$ref` is a member.
        let root = text.strip_prefix('$').is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        PathLexer { text, at: usize::from(root) }
    }

    fn rest(&self) -> &'p str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn next(&mut self) -> Result<Option<PathSegment<'p>>, PathError> {
        let rest = self.rest();
        if rest.is_empty() {
            return Ok(None);
        }
        if rest.starts_with('[') {
            self.at += 1;
            return self.bracketed().map(Some);
        }
        if rest.starts_with('.') {
            self.at += 1;
        } else if self.at > 0 {
            return Err(self.error(self.at, "'.' or '['"));
        }
        let rest = self.rest();
        // Most names are letters.
        let letters = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let (_, after) = rest.split_at(letters);
        let length = letters + after.find(|c| !is_bare(c) || c == '.').unwrap_or(after.len());
        let (name, after) = rest.split_at(length);
        if name.is_empty() {
            return Err(self.error(self.at, "the name of a member"));
        }
        self.at += length;
        if !after.is_empty() && !after.starts_with(['.', '[']) {
            return Err(self.error(self.at, "'.' or '['; quote keys with other characters: ['key']"));
        }
        Ok(Some(PathSegment::Member(Cow::Borrowed(name))))
    }

    /// Reads the rest of a segment after its opening bracket.
    fn bracketed(&mut self) -> Result<PathSegment<'p>, PathError> {
        let rest = self.rest();
        let (segment, length) = match rest.chars().next() {
            Some('*') => (PathSegment::Any, 1),
            Some(quote @ ('\'' | '"')) => {
                let (key, length) = self.quoted(quote)?;
                (PathSegment::Member(key), length)
            }
            _ => {
                let length = rest.find(|c| !is_bare(c)).unwrap_or(rest.len());
                let key = rest.get(..length).unwrap_or_default();
                if key.is_empty() || is_slice_or_negative(key) {
                    return Err(self.error(self.at, "an index, a key or '*'"));
                }
                (PathSegment::Bracketed(Cow::Borrowed(key), key.parse().ok()), length)
            }
        };
        self.at += length;
        if !self.rest().starts_with(']') {
            let is_quoted = matches!(segment, PathSegment::Member(_));
            return Err(
                self.error(self.at, if is_quoted { "']'" } else { "']'; quote keys with other characters: ['key']" })
            );
        }
        self.at += 1;
        Ok(segment)
    }

    /// Reads a quoted key, and returns it with its length in the path.
    fn quoted(&self, quote: char) -> Result<(Cow<'p, str>, usize), PathError> {
        let inner = self.rest().get(1..).unwrap_or_default();
        let mut unescaped: Option<String> = None;
        let mut chars = inner.char_indices();
        while let Some((at, c)) = chars.next() {
            if c == quote {
                let key = unescaped.map_or_else(|| Cow::Borrowed(inner.get(..at).unwrap_or_default()), Cow::Owned);
                return Ok((key, at + 2));
            }
            if c == '\\' {
                let unescaped = unescaped.get_or_insert_with(|| inner.get(..at).unwrap_or_default().to_owned());
                match chars.next() {
                    Some((_, escaped @ ('\\' | '\'' | '"'))) => unescaped.push(escaped),
                    _ => return Err(self.error(self.at + 2 + at, "a quote or a backslash after '\\'")),
                }
            } else if let Some(unescaped) = &mut unescaped {
                unescaped.push(c);
            }
        }
        Err(self.error(self.text.len(), "a closing quote"))
    }

    #[cold]
    fn error(&self, position: usize, expected: &'static str) -> PathError {
        PathError::Malformed { path: self.text.into(), position, expected }
    }
}

/// Returns whether a key looks like a slice (`0:2`) or a negative index.
fn is_slice_or_negative(key: &str) -> bool {
    key.parse::<i64>().is_ok_and(|index| index < 0)
        || (key.contains(':') && key.chars().all(|c| c.is_ascii_digit() || matches!(c, ':' | '-')))
}

/// Returns whether a character may be part of a key without quotes.
fn is_bare(c: char) -> bool {
    !c.is_whitespace() && !c.is_control() && !"[]{}()'\"\\*?@".contains(c)
}

enum Level<'a> {
    Object { key: Option<&'a [u8]>, in_key: bool },
    Array { index: usize },
}

/// Returns the path of the innermost value that is open, or has just ended, after `consumed` bytes of `text`. The text need not
/// be well-formed.
pub(crate) fn path_at(text: &[u8], consumed: usize) -> String {
    let text = text.get(..consumed).unwrap_or(text);
    let mut levels: Vec<Level<'_>> = Vec::new();
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => {
                let Some(length) = string_length(after) else { break };
                let (string, after) = after.split_at(length);
                if let Some(Level::Object { key, in_key: true }) = levels.last_mut() {
                    *key = Some(string);
                }
                rest = after.get(1..).unwrap_or_default();
            }
            b':' => {
                if let Some(Level::Object { in_key, .. }) = levels.last_mut() {
                    *in_key = false;
                }
            }
            b',' => match levels.last_mut() {
                Some(Level::Object { key, in_key }) => (*key, *in_key) = (None, true),
                Some(Level::Array { index }) => *index += 1,
                None => {}
            },
            b'{' if levels.len() < MAX_LEVELS_SHOWN => levels.push(Level::Object { key: None, in_key: true }),
            b'[' if levels.len() < MAX_LEVELS_SHOWN => levels.push(Level::Array { index: 0 }),
            b'{' | b'[' => break,
            b'}' | b']' => drop(levels.pop()),
            _ => {}
        }
    }
    let mut path = String::new();
    for level in &levels {
        match level {
            Level::Object { key: Some(key), .. } => push_member(&mut path, &String::from_utf8_lossy(key)),
            Level::Object { key: None, .. } => {}
            Level::Array { index } => {
                let _ = write!(path, "[{index}]");
            }
        }
    }
    path
}

/// Appends a member so that [`JsonPath::parse`] reads it back.
fn push_member(path: &mut String, key: &str) {
    let shown: String = key.chars().take(MAX_KEY_SHOWN).collect();
    let is_name = |c: char| is_bare(c) && !matches!(c, '.' | '/');
    if !key.is_empty() && key.chars().all(is_name) {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(&shown);
    } else if !key.is_empty() && key.chars().all(is_bare) {
        let _ = write!(path, "[{shown}]");
    } else {
        let escaped: String = shown.chars().flat_map(char::escape_debug).collect();
        let _ = write!(path, "['{escaped}']");
    }
}

/// Returns the number of bytes before the closing quote.
fn string_length(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let found = at + memchr2(b'"', b'\\', text.get(at..)?)?;
        if text.get(found) == Some(&b'"') {
            return Some(found);
        }
        at = found + 2;
    }
}

#[cfg(test)]
mod tests;
