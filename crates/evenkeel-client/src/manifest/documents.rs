//! Splits a text into documents, and parses them.

use serde_json::Value;
use serde_saphyr::Error as YamlError;

use super::{MAX_BYTES, MAX_OBJECTS, ManifestError};
use crate::yaml;

/// A parsed document.
pub(super) struct FoundDocument {
    pub(super) value: Value,
    /// The number in the text, from 1.
    pub(super) document: usize,
    /// The line in which it starts, from 1.
    pub(super) line: usize,
}

pub(super) fn read(text: &str) -> Result<Vec<FoundDocument>, ManifestError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut found = Vec::new();
    let mut document = 0;
    for (line, part) in split(text) {
        if !has_content(part) {
            continue;
        }
        for (offset, value) in parse(part, line, document + 1)? {
            document += 1;
            if document > MAX_OBJECTS {
                return Err(ManifestError::TooLarge { what: "documents", limit: MAX_OBJECTS });
            }
            if !value.is_null() {
                found.push(FoundDocument { value, document, line: line + offset });
            }
        }
    }
    Ok(found)
}

/// Splits at the lines that start a document. In YAML a line that starts with `---` does so everywhere, even within a
/// block of text. Returns the number of each part's first line.
fn split(text: &str) -> Vec<(usize, &str)> {
    let (mut parts, mut from, mut from_line, mut at) = (Vec::new(), 0, 1, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let starts =
            line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if starts && at > from {
            parts.push((from_line, text.get(from..at).unwrap_or_default()));
            (from, from_line) = (at, number + 1);
        }
        at += line.len();
    }
    parts.push((from_line, text.get(from..).unwrap_or_default()));
    parts
}

/// Returns whether a part has more than comments, directives and markers.
fn has_content(part: &str) -> bool {
    part.lines().any(|line| {
        let line = line.strip_prefix("---").unwrap_or(line);
        let is_marker = line == "..." || line.starts_with('%');
        let line = line.trim_start();
        !line.is_empty() && !line.starts_with('#') && !is_marker
    })
}

/// Parses a part: values in JSON, or one in YAML. Returns the lines before each as well.
fn parse(part: &str, line: usize, document: usize) -> Result<Vec<(usize, Value)>, ManifestError> {
    if part.trim_start().starts_with('{')
        && let Some(values) = parse_json(part)
    {
        return Ok(values);
    }
    let value = serde_saphyr::from_str_with_options::<Value>(part, yaml::options(MAX_BYTES)).map_err(|error| {
        let at = error.location().and_then(|location| usize::try_from(location.line()).ok()).unwrap_or(0);
        ManifestError::Syntax { document, line: line + at.saturating_sub(1), problem: problem(&error) }
    })?;
    Ok(vec![(0, value)])
}

/// Parses values in JSON, one after the other; `None` if they are not JSON.
fn parse_json(part: &str) -> Option<Vec<(usize, Value)>> {
    let mut values = serde_json::Deserializer::from_str(part).into_iter::<Value>();
    let mut found = Vec::new();
    loop {
        let rest = part.get(values.byte_offset()..)?;
        let start = part.len() - rest.trim_start().len();
        match values.next() {
            None => return Some(found),
            Some(value) => {
                let lines = part.get(..start)?.bytes().filter(|byte| *byte == b'\n').count();
                found.push((lines, value.ok()?));
            }
        }
    }
}

/// Names the kind of an error without quoting the document.
fn problem(error: &YamlError) -> String {
    match error {
        YamlError::DuplicateMappingKey { .. } => "a mapping has a key twice".into(),
        YamlError::UnknownAnchor { .. } => "an alias has no anchor".into(),
        YamlError::Budget { .. }
        | YamlError::AliasReplayLimitExceeded { .. }
        | YamlError::AliasExpansionLimitExceeded { .. }
        | YamlError::AliasReplayStackDepthExceeded { .. } => {
            "it is nested too deeply, or its aliases expand too far".into()
        }
        YamlError::AliasError { error, .. } | YamlError::WithSnippet { error, .. } => problem(error),
        _ => "it is neither YAML nor JSON".into(),
    }
}
