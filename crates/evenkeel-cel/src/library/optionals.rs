//! Optional values.

use super::{Evaluated, Library, no_overload};
use crate::error::EvalError;
use crate::value::Value;

pub(super) const LIBRARY: Library = Library {
    since: 28,
    rows: &[
        ("optional.of", of, &[("optional_of", "(V) -> optional(V)")]),
        ("optional.ofNonZeroValue", of_non_zero, &[("optional_ofNonZeroValue", "(V) -> optional(V)")]),
        ("optional.none", none, &[("optional_none", "() -> optional(V)")]),
        ("value", value, &[("optional_value", "optional(V).() -> V")]),
        ("hasValue", has_value, &[("optional_hasValue", "optional(V).() -> bool")]),
        // The interpreter evaluates these itself, because they may skip arguments.
        ("or", none, &[("optional_or_optional", "optional(V).(optional(V)) -> optional(V)")]),
        ("orValue", none, &[("optional_orValue_value", "optional(V).(V) -> V")]),
    ],
};

fn of<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [value] => Ok(Value::some(value.clone())),
        _ => Err(no_overload("optional.of", args)),
    }
}

fn of_non_zero<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let [value] = args else { return Err(no_overload("optional.ofNonZeroValue", args)) };
    let is_zero = match value {
        Value::Null | Value::Bool(false) | Value::Int(0) | Value::Uint(0) | Value::Duration(0) => true,
        Value::Double(value) => *value == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(list) => list.len() == 0,
        Value::Map(map) => map.len() == 0,
        Value::Optional(value) => value.is_none(),
        _ => false,
    };
    Ok(if is_zero { Value::Optional(None) } else { Value::some(value.clone()) })
}

fn none<'a>(_: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Optional(None))
}

fn value<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Optional(Some(value))] => Ok((**value).clone()),
        [Value::Optional(None)] => Err(EvalError::failed("optional.none() dereference")),
        _ => Err(no_overload("value", args)),
    }
}

fn has_value<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Optional(value)] => Ok(Value::Bool(value.is_some())),
        _ => Err(no_overload("hasValue", args)),
    }
}
