//! `fieldPath` of rules: `.a.b`, `.a['x']` (CEL-015).

use serde_json::Value;

use crate::schema::path::Path;

/// Returns the path as errors print it; `None` if it does not lead to a declared field.
pub(super) fn resolve(source: &str, schema: &Value) -> Option<String> {
    let (mut rest, mut schema) = (source, schema);
    let mut path = Path::default();
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix("['") {
            let end = quote_end(after)?;
            name = unescape(after.get(..end)?)?;
            rest = after.get(end..)?.strip_prefix("']")?;
        } else {
            let after = rest.strip_prefix('.')?;
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            name = after.get(..end).filter(|name| !name.is_empty())?.to_owned();
            rest = after.get(end..)?;
        }
        if let Some(properties) = schema.get("properties") {
            schema = properties.get(&name)?;
            path.push(&name);
        } else {
            schema = schema.get("additionalProperties").filter(|values| values.is_object())?;
            path.push_key(&name);
        }
    }
    Some(path.as_str().to_owned())
}

/// Returns where a quoted name ends.
fn quote_end(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            '\'' if !escaped => return Some(at),
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    None
}

fn unescape(text: &str) -> Option<String> {
    let mut name = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        name.push(match character {
            '\\' => match characters.next()? {
                'a' => '\x07',
                'b' => '\x08',
                'f' => '\x0c',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\x0b',
                other @ ('\'' | '\\') => other,
                _ => return None,
            },
            other => other,
        });
    }
    Some(name)
}
