//! Operators, sizes and membership.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Evaluated, Library, no_overload};
use crate::equality::{compare, equal, same_keys};
use crate::error::EvalError;
use crate::schema::ListIdentity;
use crate::value::{Key, List, Map, Value};

/// The limit of a computed string or list, in bytes or items.
pub(crate) const MAX_COMPUTED: usize = 10 << 20;

macro_rules! comparisons {
    ($prefix:literal) => {
        &[
            (concat!($prefix, "_bool"), "(bool, bool) -> bool"),
            (concat!($prefix, "_int64"), "(int, int) -> bool"),
            (concat!($prefix, "_int64_double"), "(int, double) -> bool"),
            (concat!($prefix, "_int64_uint64"), "(int, uint) -> bool"),
            (concat!($prefix, "_uint64"), "(uint, uint) -> bool"),
            (concat!($prefix, "_uint64_double"), "(uint, double) -> bool"),
            (concat!($prefix, "_uint64_int64"), "(uint, int) -> bool"),
            (concat!($prefix, "_double"), "(double, double) -> bool"),
            (concat!($prefix, "_double_int64"), "(double, int) -> bool"),
            (concat!($prefix, "_double_uint64"), "(double, uint) -> bool"),
            (concat!($prefix, "_string"), "(string, string) -> bool"),
            (concat!($prefix, "_bytes"), "(bytes, bytes) -> bool"),
            (concat!($prefix, "_timestamp"), "(timestamp, timestamp) -> bool"),
            (concat!($prefix, "_duration"), "(duration, duration) -> bool"),
        ]
    };
}

pub(super) const LIBRARY: Library = Library {
    since: 0,
    rows: &[
        // The interpreter evaluates these itself, because they may skip arguments.
        ("_?_:_", strict, &[("conditional", "(bool, A, A) -> A")]),
        ("_&&_", strict, &[("logical_and", "(bool, bool) -> bool")]),
        ("_||_", strict, &[("logical_or", "(bool, bool) -> bool")]),
        ("@not_strictly_false", strict, &[("not_strictly_false", "(bool) -> bool")]),
        ("!_", not, &[("logical_not", "(bool) -> bool")]),
        ("_==_", equals, &[("equals", "(A, A) -> bool")]),
        ("_!=_", not_equals, &[("not_equals", "(A, A) -> bool")]),
        (
            "_+_",
            add,
            &[
                ("add_bytes", "(bytes, bytes) -> bytes"),
                ("add_double", "(double, double) -> double"),
                ("add_duration_duration", "(duration, duration) -> duration"),
                ("add_duration_timestamp", "(duration, timestamp) -> timestamp"),
                ("add_timestamp_duration", "(timestamp, duration) -> timestamp"),
                ("add_int64", "(int, int) -> int"),
                ("add_list", "(list(A), list(A)) -> list(A)"),
                ("add_string", "(string, string) -> string"),
                ("add_uint64", "(uint, uint) -> uint"),
            ],
        ),
        (
            "_-_",
            subtract,
            &[
                ("subtract_double", "(double, double) -> double"),
                ("subtract_duration_duration", "(duration, duration) -> duration"),
                ("subtract_int64", "(int, int) -> int"),
                ("subtract_timestamp_duration", "(timestamp, duration) -> timestamp"),
                ("subtract_timestamp_timestamp", "(timestamp, timestamp) -> duration"),
                ("subtract_uint64", "(uint, uint) -> uint"),
            ],
        ),
        (
            "_*_",
            multiply,
            &[
                ("multiply_double", "(double, double) -> double"),
                ("multiply_int64", "(int, int) -> int"),
                ("multiply_uint64", "(uint, uint) -> uint"),
            ],
        ),
        (
            "_/_",
            divide,
            &[
                ("divide_double", "(double, double) -> double"),
                ("divide_int64", "(int, int) -> int"),
                ("divide_uint64", "(uint, uint) -> uint"),
            ],
        ),
        ("_%_", modulo, &[("modulo_int64", "(int, int) -> int"), ("modulo_uint64", "(uint, uint) -> uint")]),
        ("-_", negate, &[("negate_double", "(double) -> double"), ("negate_int64", "(int) -> int")]),
        ("_<_", less, comparisons!("less")),
        ("_<=_", less_or_equal, comparisons!("less_equals")),
        ("_>_", greater, comparisons!("greater")),
        ("_>=_", greater_or_equal, comparisons!("greater_equals")),
        (
            "_[_]",
            index,
            &[
                ("index_list", "(list(A), int) -> A"),
                ("index_map", "(map(A, B), A) -> B"),
                ("optional_list_index_int", "(optional(list(V)), int) -> optional(V)"),
                ("optional_map_index_value", "(optional(map(K, V)), K) -> optional(V)"),
            ],
        ),
        (
            "_[?_]",
            optional_index,
            &[
                ("list_optindex_optional_int", "(list(V), int) -> optional(V)"),
                ("optional_list_optindex_optional_int", "(optional(list(V)), int) -> optional(V)"),
                ("map_optindex_optional_value", "(map(K, V), K) -> optional(V)"),
                ("optional_map_optindex_optional_value", "(optional(map(K, V)), K) -> optional(V)"),
            ],
        ),
        ("@in", contains, &[("in_list", "(A, list(A)) -> bool"), ("in_map", "(A, map(A, B)) -> bool")]),
        (
            "size",
            size,
            &[
                ("size_bytes", "(bytes) -> int"),
                ("bytes_size", "bytes.() -> int"),
                ("size_list", "(list(A)) -> int"),
                ("list_size", "list(A).() -> int"),
                ("size_map", "(map(A, B)) -> int"),
                ("map_size", "map(A, B).() -> int"),
                ("size_string", "(string) -> int"),
                ("string_size", "string.() -> int"),
            ],
        ),
        (
            "cel.@mapInsert",
            map_insert,
            &[
                ("@mapInsert_map_map", "(map(K, V), map(K, V)) -> map(K, V)"),
                ("@mapInsert_map_key_value", "(map(K, V), K, V) -> map(K, V)"),
            ],
        ),
    ],
};

fn strict<'a>(_: &[Value<'a>]) -> Evaluated<'a> {
    Err(EvalError::no_such_overload())
}

fn not<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(!value)),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn equals<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [left, right] => Ok(Value::Bool(equal(left, right))),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn not_equals<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [left, right] => Ok(Value::Bool(!equal(left, right))),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn integer_overflow() -> EvalError {
    EvalError::failed("integer overflow")
}

fn unsigned_overflow() -> EvalError {
    EvalError::failed("unsigned integer overflow")
}

fn shifted(at: jiff::Timestamp, nanos: i128) -> Result<jiff::Timestamp, EvalError> {
    jiff::Timestamp::from_nanosecond(at.as_nanosecond() + nanos)
        .ok()
        .filter(|at| *at >= jiff::Timestamp::from_second(-62_135_596_800).unwrap_or(jiff::Timestamp::MIN))
        .ok_or_else(|| EvalError::failed("timestamp overflow"))
}

fn add<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let [left, right] = args else { return Err(EvalError::no_such_overload()) };
    Ok(match (left, right) {
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_add(*b).ok_or_else(integer_overflow)?),
        (Value::Uint(a), Value::Uint(b)) => Value::Uint(a.checked_add(*b).ok_or_else(unsigned_overflow)?),
        (Value::Double(a), Value::Double(b)) => Value::Double(a + b),
        (Value::String(a), Value::String(b)) => {
            bounded(a.len() + b.len())?;
            Value::text([&**a, &**b].concat())
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            bounded(a.len() + b.len())?;
            Value::Bytes([&**a, &**b].concat().into())
        }
        (Value::Duration(a), Value::Duration(b)) => {
            Value::Duration(a.checked_add(*b).ok_or_else(|| EvalError::failed("duration overflow"))?)
        }
        (Value::Timestamp(at), Value::Duration(nanos)) | (Value::Duration(nanos), Value::Timestamp(at)) => {
            Value::Timestamp(shifted(*at, i128::from(*nanos))?)
        }
        (Value::List(a), Value::List(b)) => concatenate(a, b)?,
        _ => return Err(EvalError::no_such_overload()),
    })
}

/// Fails if a computed value would be too large.
pub(super) fn bounded(length: usize) -> Result<(), EvalError> {
    if length > MAX_COMPUTED { Err(EvalError::failed("the result is too large")) } else { Ok(()) }
}

/// Concatenates lists. Sets and maps of a schema merge: an item of the right replaces the equal one of the left.
pub(crate) fn concatenate<'a>(left: &List<'a>, right: &List<'a>) -> Evaluated<'a> {
    bounded(left.len() + right.len())?;
    let mut items: Vec<Value<'a>> = left.iter().collect();
    match left.identity() {
        Some(ListIdentity::Set) => {
            for item in right.iter() {
                if !items.iter().any(|known| equal(known, &item)) {
                    items.push(item);
                }
            }
        }
        Some(ListIdentity::Map(keys)) => {
            for item in right.iter() {
                match items.iter_mut().find(|known| same_keys(known, &item, keys)) {
                    Some(known) => *known = item,
                    None => items.push(item),
                }
            }
        }
        _ => items.extend(right.iter()),
    }
    Ok(Value::list(items))
}

fn subtract<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let [left, right] = args else { return Err(EvalError::no_such_overload()) };
    Ok(match (left, right) {
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_sub(*b).ok_or_else(integer_overflow)?),
        (Value::Uint(a), Value::Uint(b)) => Value::Uint(a.checked_sub(*b).ok_or_else(unsigned_overflow)?),
        (Value::Double(a), Value::Double(b)) => Value::Double(a - b),
        (Value::Duration(a), Value::Duration(b)) => {
            Value::Duration(a.checked_sub(*b).ok_or_else(|| EvalError::failed("duration overflow"))?)
        }
        (Value::Timestamp(at), Value::Duration(nanos)) => Value::Timestamp(shifted(*at, -i128::from(*nanos))?),
        (Value::Timestamp(a), Value::Timestamp(b)) => Value::Duration(
            i64::try_from(a.as_nanosecond() - b.as_nanosecond())
                .map_err(|_| EvalError::failed("timestamp overflow"))?,
        ),
        _ => return Err(EvalError::no_such_overload()),
    })
}

fn multiply<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(match args {
        [Value::Int(a), Value::Int(b)] => Value::Int(a.checked_mul(*b).ok_or_else(integer_overflow)?),
        [Value::Uint(a), Value::Uint(b)] => Value::Uint(a.checked_mul(*b).ok_or_else(unsigned_overflow)?),
        [Value::Double(a), Value::Double(b)] => Value::Double(a * b),
        _ => return Err(EvalError::no_such_overload()),
    })
}

fn divide<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            return Err(EvalError::failed("division by zero"));
        }
        [Value::Int(a), Value::Int(b)] => Value::Int(a.checked_div(*b).ok_or_else(integer_overflow)?),
        [Value::Uint(a), Value::Uint(b)] => Value::Uint(a / b),
        [Value::Double(a), Value::Double(b)] => Value::Double(a / b),
        _ => return Err(EvalError::no_such_overload()),
    })
}

fn modulo<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            return Err(EvalError::failed("modulus by zero"));
        }
        [Value::Int(a), Value::Int(b)] => Value::Int(a.checked_rem(*b).ok_or_else(integer_overflow)?),
        [Value::Uint(a), Value::Uint(b)] => Value::Uint(a % b),
        _ => return Err(EvalError::no_such_overload()),
    })
}

fn negate<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Int(value)] => value.checked_neg().map(Value::Int).ok_or_else(integer_overflow),
        [Value::Double(value)] => Ok(Value::Double(-value)),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn ordered<'a>(args: &[Value<'a>], holds: fn(Ordering) -> bool) -> Evaluated<'a> {
    let [left, right] = args else { return Err(EvalError::no_such_overload()) };
    match compare(left, right) {
        Some(order) => Ok(Value::Bool(holds(order))),
        None if matches!(left, Value::Double(_)) || matches!(right, Value::Double(_)) => {
            Err(EvalError::failed("NaN values cannot be ordered"))
        }
        None => Err(EvalError::no_such_overload()),
    }
}

fn less<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    ordered(args, Ordering::is_lt)
}

fn less_or_equal<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    ordered(args, Ordering::is_le)
}

fn greater<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    ordered(args, Ordering::is_gt)
}

fn greater_or_equal<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    ordered(args, Ordering::is_ge)
}

fn index<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Optional(None), _] => Ok(Value::Optional(None)),
        [Value::Optional(Some(_)), _] => optional_index(args),
        [container, key] => element(container, key),
        _ => Err(EvalError::no_such_overload()),
    }
}

/// Returns the item of a list or the value of a map.
pub(crate) fn element<'a>(container: &Value<'a>, key: &Value<'a>) -> Evaluated<'a> {
    match (container, key) {
        (Value::List(list), key) => {
            let position = match key {
                Value::Int(at) => *at,
                Value::Uint(at) => i64::try_from(*at).unwrap_or(i64::MAX),
                Value::Double(at) if at.fract() == 0.0 => *at as i64,
                other => {
                    let name = other.type_of().runtime_name().to_owned();
                    return Err(EvalError::failed(format!("unsupported index type '{name}' in list")));
                }
            };
            usize::try_from(position)
                .ok()
                .and_then(|at| list.get(at))
                .ok_or_else(|| EvalError::failed(format!("index out of bounds: {position}")))
        }
        (Value::Map(map), key) => map.get(key).ok_or_else(|| no_such_key(key)),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn no_such_key(key: &Value<'_>) -> EvalError {
    EvalError::failed(format!("no such key: {}", super::conversions::display(key)))
}

fn optional_index<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let [container, key] = args else { return Err(EvalError::no_such_overload()) };
    let container = match container {
        Value::Optional(None) => return Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => inner,
        other => other,
    };
    match element(container, key) {
        Ok(value) => Ok(Value::some(value)),
        Err(EvalError::Failed(_)) => Ok(Value::Optional(None)),
        Err(other) => Err(other),
    }
}

fn contains<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [item, Value::List(list)] => Ok(Value::Bool(list.iter().any(|other| equal(item, &other)))),
        [key, Value::Map(map)] => Ok(Value::Bool(map.get(key).is_some())),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn size<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let length = match args {
        [Value::String(text)] => text.chars().count(),
        [Value::Bytes(bytes)] => bytes.len(),
        [Value::List(list)] => list.len(),
        [Value::Map(map)] => map.len(),
        _ => return Err(no_overload("size", args)),
    };
    Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))
}

fn map_insert<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let Some(Value::Map(map)) = args.first() else { return Err(no_overload("cel.@mapInsert", args)) };
    let mut entries = match map {
        Map::Owned(entries) => Arc::unwrap_or_clone(Arc::clone(entries)),
        other => other.entries().collect(),
    };
    let added: Vec<(Key, Value<'a>)> = match args.get(1..) {
        Some([Value::Map(added)]) => added.entries().collect(),
        Some([key, value]) => {
            let key = Key::of(key).ok_or_else(|| EvalError::failed("unsupported key type"))?;
            vec![(key, value.clone())]
        }
        _ => return Err(no_overload("cel.@mapInsert", args)),
    };
    for (key, value) in added {
        if entries.contains_key(&key) {
            let shown = super::conversions::display(&key.to_value());
            return Err(EvalError::failed(format!("insert failed: key {shown} already exists")));
        }
        entries.insert(key, value);
    }
    Ok(Value::map(entries))
}
