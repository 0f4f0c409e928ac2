//! `find` and `findAll`.

use super::{Evaluated, Library, no_overload};
use crate::error::EvalError;
use crate::regexp;
use crate::value::Value;

pub(super) const LIBRARY: Library = Library {
    since: 0,
    rows: &[
        ("find", find, &[("string_find_string", "string.(string) -> string")]),
        (
            "findAll",
            find_all,
            &[
                ("string_find_all_string", "string.(string) -> list(string)"),
                ("string_find_all_string_int", "string.(string, int) -> list(string)"),
            ],
        ),
    ],
};

fn compiled(pattern: &str) -> Result<std::sync::Arc<regexp::CompiledPattern>, EvalError> {
    regexp::compiled(pattern).map_err(|fault| EvalError::failed(format!("Illegal regex: {fault}")))
}

fn find<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::String(text), Value::String(pattern)] = args else { return Err(no_overload("find", args)) };
    let found = compiled(pattern)?.find_all(text, 1);
    Ok(Value::text(found.first().copied().unwrap_or("")))
}

fn find_all<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let (text, pattern, limit) = match args {
        [Value::String(text), Value::String(pattern)] => (text, pattern, -1),
        [Value::String(text), Value::String(pattern), Value::Int(limit)] => (text, pattern, *limit),
        _ => return Err(no_overload("findAll", args)),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let found = compiled(pattern)?.find_all(text, limit);
    Ok(Value::list(found.into_iter().map(Value::text).collect()))
}
