//! Strings: the functions of the language, and version 2 of the extension.

use super::format_text::format;
use super::operators::bounded;
use super::{Evaluated, Library, no_overload};
use crate::error::EvalError;
use crate::regexp;
use crate::value::{List, Value};

pub(super) const STANDARD: Library = Library {
    since: 0,
    rows: &[
        ("contains", contains, &[("contains_string", "string.(string) -> bool")]),
        ("endsWith", ends_with, &[("ends_with_string", "string.(string) -> bool")]),
        ("startsWith", starts_with, &[("starts_with_string", "string.(string) -> bool")]),
        ("matches", matches, &[("matches", "(string, string) -> bool"), ("matches_string", "string.(string) -> bool")]),
    ],
};

pub(super) const EXTENSION: Library = Library {
    since: 29,
    rows: &[
        ("charAt", char_at, &[("string_char_at_int", "string.(int) -> string")]),
        (
            "indexOf",
            index_of,
            &[
                ("string_index_of_string", "string.(string) -> int"),
                ("string_index_of_string_int", "string.(string, int) -> int"),
            ],
        ),
        (
            "lastIndexOf",
            last_index_of,
            &[
                ("string_last_index_of_string", "string.(string) -> int"),
                ("string_last_index_of_string_int", "string.(string, int) -> int"),
            ],
        ),
        (
            "join",
            join,
            &[("list_join", "list(string).() -> string"), ("list_join_string", "list(string).(string) -> string")],
        ),
        ("lowerAscii", lower, &[("string_lower_ascii", "string.() -> string")]),
        ("upperAscii", upper, &[("string_upper_ascii", "string.() -> string")]),
        (
            "replace",
            replace,
            &[
                ("string_replace_string_string", "string.(string, string) -> string"),
                ("string_replace_string_string_int", "string.(string, string, int) -> string"),
            ],
        ),
        (
            "split",
            split,
            &[
                ("string_split_string", "string.(string) -> list(string)"),
                ("string_split_string_int", "string.(string, int) -> list(string)"),
            ],
        ),
        (
            "substring",
            substring,
            &[
                ("string_substring_int", "string.(int) -> string"),
                ("string_substring_int_int", "string.(int, int) -> string"),
            ],
        ),
        ("trim", trim, &[("string_trim", "string.() -> string")]),
        ("format", format, &[("string_format", "string.(list(dyn)) -> string")]),
        ("strings.quote", quote, &[("strings_quote", "(string) -> string")]),
    ],
};

fn contains<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(text.contains(&**part))),
        _ => Err(no_overload("contains", args)),
    }
}

fn ends_with<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(text.ends_with(&**part))),
        _ => Err(no_overload("endsWith", args)),
    }
}

fn starts_with<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(text.starts_with(&**part))),
        _ => Err(no_overload("startsWith", args)),
    }
}

fn matches<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::String(text), Value::String(pattern)] => match regexp::compiled(pattern) {
            Ok(pattern) => Ok(Value::Bool(pattern.is_match(text))),
            Err(fault) => Err(EvalError::failed(fault.to_string())),
        },
        _ => Err(no_overload("matches", args)),
    }
}

fn out_of_range(index: i64) -> EvalError {
    EvalError::failed(format!("index out of range: {index}"))
}

fn char_at<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::String(text), Value::Int(index)] = args else { return Err(no_overload("charAt", args)) };
    let mut characters = text.chars();
    let at = usize::try_from(*index).map_err(|_| out_of_range(*index))?;
    match characters.nth(at) {
        Some(found) => Ok(Value::text(found.to_string())),
        None if text.chars().count() == at => Ok(Value::text("")),
        None => Err(out_of_range(*index)),
    }
}

fn position(at: usize) -> Value<'static> {
    Value::Int(i64::try_from(at).unwrap_or(i64::MAX))
}

pub(super) fn index_of<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let (text, part, offset) = match args {
        [Value::String(text), Value::String(part)] => (text, part, 0),
        [Value::String(text), Value::String(part), Value::Int(offset)] => (text, part, *offset),
        _ => return Err(no_overload("indexOf", args)),
    };
    let from = usize::try_from(offset).map_err(|_| out_of_range(offset))?;
    if part.is_empty() {
        return Ok(position(from));
    }
    let length = text.chars().count();
    if from > length {
        return Err(out_of_range(offset));
    }
    let start = text.char_indices().nth(from).map_or(text.len(), |(start, _)| start);
    let rest = text.get(start..).unwrap_or("");
    Ok(rest
        .find(&**part)
        .map_or(Value::Int(-1), |at| position(from + rest.get(..at).map_or(0, |before| before.chars().count()))))
}

pub(super) fn last_index_of<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let (text, part, offset) = match args {
        [Value::String(text), Value::String(part)] => (text, part, None),
        [Value::String(text), Value::String(part), Value::Int(offset)] => (text, part, Some(*offset)),
        _ => return Err(no_overload("lastIndexOf", args)),
    };
    let length = text.chars().count();
    let limit = match offset {
        None => length,
        Some(offset) => {
            usize::try_from(offset).ok().filter(|at| *at < length.max(1)).ok_or_else(|| out_of_range(offset))?
        }
    };
    if part.is_empty() {
        return Ok(position(limit));
    }
    // The match may start at the limit at the latest.
    let end = text.char_indices().nth(limit).map_or(text.len(), |(start, _)| start);
    let window = text.get(..(end + part.len()).min(text.len())).unwrap_or(text);
    Ok(window
        .rfind(&**part)
        .map_or(Value::Int(-1), |at| position(text.get(..at).map_or(0, |before| before.chars().count()))))
}

fn join<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, &**separator),
        _ => return Err(no_overload("join", args)),
    };
    let mut joined = String::new();
    for (index, item) in list.iter().enumerate() {
        let Value::String(item) = item else { return Err(no_overload("join", args)) };
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(&item);
        bounded(joined.len())?;
    }
    Ok(Value::text(joined))
}

fn lower<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::String(text)] => Ok(Value::text(text.to_ascii_lowercase())),
        _ => Err(no_overload("lowerAscii", args)),
    }
}

fn upper<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::String(text)] => Ok(Value::text(text.to_ascii_uppercase())),
        _ => Err(no_overload("upperAscii", args)),
    }
}

fn trim<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::String(text)] => Ok(Value::text(text.trim())),
        _ => Err(no_overload("trim", args)),
    }
}

fn replace<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let (text, old, new, limit) = match args {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, -1),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(limit)] => (text, old, new, *limit),
        _ => return Err(no_overload("replace", args)),
    };
    let times = usize::try_from(limit).unwrap_or(usize::MAX);
    let most = if old.is_empty() { text.len() + 1 } else { text.matches(&**old).count() };
    bounded(text.len().saturating_add(most.min(times).saturating_mul(new.len())))?;
    Ok(Value::text(text.replacen(&**old, new, times)))
}

fn split<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let (text, separator, limit) = match args {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(limit)] => (text, separator, *limit),
        _ => return Err(no_overload("split", args)),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let parts: Vec<Value<'a>> = if limit == 0 {
        Vec::new()
    } else if separator.is_empty() {
        let mut parts: Vec<String> = text.chars().map(String::from).collect();
        if parts.len() > limit {
            let rest: String = parts.split_off(limit - 1).concat();
            parts.push(rest);
        }
        parts.into_iter().map(Value::text).collect()
    } else {
        text.splitn(limit, &**separator).map(Value::text).collect()
    };
    Ok(Value::List(List::Owned(parts.into())))
}

fn substring<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let (text, start, end) = match args {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(no_overload("substring", args)),
    };
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let last = end.unwrap_or(length);
    if last < start {
        return Err(EvalError::failed(format!("invalid substring range. start: {start}, end: {last}")));
    }
    if !(0..=length).contains(&start) {
        return Err(out_of_range(start));
    }
    if !(0..=length).contains(&last) {
        return Err(out_of_range(last));
    }
    let (start, count) = (usize::try_from(start).unwrap_or(0), usize::try_from(last - start).unwrap_or(0));
    Ok(Value::text(text.chars().skip(start).take(count).collect::<String>()))
}

fn quote<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::String(text)] = args else { return Err(no_overload("strings.quote", args)) };
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    Ok(Value::text(quoted))
}
