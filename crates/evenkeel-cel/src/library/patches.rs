//! `jsonpatch.escapeKey`.

use super::{Evaluated, Library, no_overload};
use crate::value::Value;

pub(super) const LIBRARY: Library = Library {
    since: 0,
    rows: &[("jsonpatch.escapeKey", escape_key, &[("string_jsonpatch_escapeKey_string", "(string) -> string")])],
};

/// Escapes a key for a JSON pointer.
fn escape_key<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::String(key)] = args else { return Err(no_overload("jsonpatch.escapeKey", args)) };
    Ok(Value::text(key.replace('~', "~0").replace('/', "~1")))
}
