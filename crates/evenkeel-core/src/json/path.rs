//! Paths such as `spec.containers[0].image` and `metadata.labels[app.kubernetes.io/name]`: written and read.

use std::fmt::Write as _;

use memchr::memchr2;

/// Keys longer than this are cut in a path that a person is to read.
const KEY_SHOWN: usize = 64;
/// Levels beyond this are left out of a path; valid texts never come so far.
const LEVELS_SHOWN: usize = 160;

/// One step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment<'a> {
    /// The member of an object.
    Member(&'a str),
    /// What stands in brackets: the index of an array, or a member whose name has dots in it.
    Bracketed(&'a str),
}

/// The steps of a path; `None` in their midst where the path is not well-formed.
pub(crate) fn segments(path: &str) -> impl Iterator<Item = Option<Segment<'_>>> {
    let mut rest = path;
    let mut first = true;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let bracketed = rest.strip_prefix('[');
        if let Some(inner) = bracketed {
            first = false;
            let Some((inside, after)) = inner.split_once(']') else {
                rest = "";
                return Some(None);
            };
            rest = after;
            return Some(Some(Segment::Bracketed(inside)));
        }
        let member = if std::mem::take(&mut first) { Some(rest) } else { rest.strip_prefix('.') };
        let Some(member) = member else {
            rest = "";
            return Some(None);
        };
        let end = member.find(['.', '[']).unwrap_or(member.len());
        let (name, after) = member.split_at(end);
        rest = after;
        Some((!name.is_empty()).then_some(Segment::Member(name)))
    })
}

enum Level<'a> {
    Object { key: Option<&'a [u8]>, in_key: bool },
    Array { index: usize },
}

/// The path of the innermost value that is open, or has just ended, after `consumed` bytes of `text`.
///
/// Works on any text, well-formed or not, as errors are what it is for.
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
            b'{' if levels.len() < LEVELS_SHOWN => levels.push(Level::Object { key: None, in_key: true }),
            b'[' if levels.len() < LEVELS_SHOWN => levels.push(Level::Array { index: 0 }),
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

fn push_member(path: &mut String, key: &str) {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$');
    let shown: String = key.chars().take(KEY_SHOWN).flat_map(char::escape_debug).collect();
    if !key.is_empty() && key.chars().all(plain) {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(&shown);
    } else {
        let _ = write!(path, "[{shown}]");
    }
}

/// How many bytes stand before the closing quote.
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
