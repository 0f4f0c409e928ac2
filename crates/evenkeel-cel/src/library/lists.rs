//! Lists: the functions of Kubernetes, and version 3 of the extension.

use std::cmp::Ordering;

use super::operators::bounded;
use super::strings;
use super::{Evaluated, Library, no_overload};
use crate::equality::{compare, equal};
use crate::error::EvalError;
use crate::value::{List, Value};

macro_rules! comparable {
    ($id:literal, $result:literal) => {
        &[
            (concat!("list_int_", $id), concat!("list(int).() -> ", $result, "int")),
            (concat!("list_uint_", $id), concat!("list(uint).() -> ", $result, "uint")),
            (concat!("list_double_", $id), concat!("list(double).() -> ", $result, "double")),
            (concat!("list_bool_", $id), concat!("list(bool).() -> ", $result, "bool")),
            (concat!("list_duration_", $id), concat!("list(duration).() -> ", $result, "duration")),
            (concat!("list_timestamp_", $id), concat!("list(timestamp).() -> ", $result, "timestamp")),
            (concat!("list_string_", $id), concat!("list(string).() -> ", $result, "string")),
            (concat!("list_bytes_", $id), concat!("list(bytes).() -> ", $result, "bytes")),
        ]
    };
}

pub(super) const KUBERNETES: Library = Library {
    since: 0,
    rows: &[
        (
            "isSorted",
            is_sorted,
            &[
                ("list_int_is_sorted_bool", "list(int).() -> bool"),
                ("list_uint_is_sorted_bool", "list(uint).() -> bool"),
                ("list_double_is_sorted_bool", "list(double).() -> bool"),
                ("list_bool_is_sorted_bool", "list(bool).() -> bool"),
                ("list_duration_is_sorted_bool", "list(duration).() -> bool"),
                ("list_timestamp_is_sorted_bool", "list(timestamp).() -> bool"),
                ("list_string_is_sorted_bool", "list(string).() -> bool"),
                ("list_bytes_is_sorted_bool", "list(bytes).() -> bool"),
            ],
        ),
        (
            "sum",
            sum,
            &[
                ("list_int_sum_int", "list(int).() -> int"),
                ("list_uint_sum_uint", "list(uint).() -> uint"),
                ("list_double_sum_double", "list(double).() -> double"),
                ("list_duration_sum_duration", "list(duration).() -> duration"),
            ],
        ),
        ("min", min, comparable!("min", "")),
        ("max", max, comparable!("max", "")),
        ("indexOf", index_of, &[("list_a_index_of_int", "list(A).(A) -> int")]),
        ("lastIndexOf", last_index_of, &[("list_a_last_index_of_int", "list(A).(A) -> int")]),
    ],
};

pub(super) const INCLUDES: Library = Library {
    since: 37,
    rows: &[(
        "includes",
        includes,
        &[("list_a_includes_bool", "list(A).(A) -> bool"), ("dyn_includes_bool", "dyn.(dyn) -> bool")],
    )],
};

pub(super) const EXTENSION: Library = Library {
    since: 34,
    rows: &[
        ("slice", slice, &[("list_slice", "list(T).(int, int) -> list(T)")]),
        (
            "flatten",
            flatten,
            &[("list_flatten", "list(list(T)).() -> list(T)"), ("list_flatten_int", "list(dyn).(int) -> list(dyn)")],
        ),
        ("distinct", distinct, &[("list_distinct", "list(T).() -> list(T)")]),
        ("sort", sort, &[("list_sort", "list(T).() -> list(T)")]),
        ("@sortByAssociatedKeys", sort_by_keys, &[("list_sortByAssociatedKeys", "list(T).(list(U)) -> list(T)")]),
        ("lists.range", range, &[("lists_range", "(int) -> list(int)")]),
        ("reverse", reverse, &[("list_reverse", "list(T).() -> list(T)")]),
        ("first", first, &[("list_first", "list(T).() -> optional(T)")]),
        ("last", last, &[("list_last", "list(T).() -> optional(T)")]),
    ],
};

fn list<'v, 'a>(function: &str, args: &'v [Value<'a>]) -> Result<&'v List<'a>, EvalError> {
    match args.first() {
        Some(Value::List(list)) => Ok(list),
        _ => Err(no_overload(function, args)),
    }
}

fn is_sorted<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let items: Vec<Value<'a>> = list("isSorted", args)?.iter().collect();
    for pair in items.windows(2) {
        if let [a, b] = pair
            && compare(a, b).ok_or_else(EvalError::no_such_overload)? == Ordering::Greater
        {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let mut total: Option<Value<'a>> = None;
    for item in list("sum", args)?.iter() {
        total = Some(match (total, item) {
            (None, item) => item,
            (Some(Value::Int(a)), Value::Int(b)) => {
                Value::Int(a.checked_add(b).ok_or_else(|| EvalError::failed("integer overflow"))?)
            }
            (Some(Value::Uint(a)), Value::Uint(b)) => {
                Value::Uint(a.checked_add(b).ok_or_else(|| EvalError::failed("unsigned integer overflow"))?)
            }
            (Some(Value::Double(a)), Value::Double(b)) => Value::Double(a + b),
            (Some(Value::Duration(a)), Value::Duration(b)) => {
                Value::Duration(a.checked_add(b).ok_or_else(|| EvalError::failed("duration overflow"))?)
            }
            _ => return Err(EvalError::no_such_overload()),
        });
    }
    // The type of an empty list's items is not known here; zero equals zero of any number type.
    Ok(total.unwrap_or(Value::Int(0)))
}

fn extreme<'a>(function: &'static str, args: &[Value<'a>], wanted: Ordering) -> Evaluated<'a> {
    let mut best: Option<Value<'a>> = None;
    for item in list(function, args)?.iter() {
        best = match best {
            None => Some(item),
            Some(known) => {
                let order = compare(&item, &known).ok_or_else(EvalError::no_such_overload)?;
                Some(if order == wanted { item } else { known })
            }
        };
    }
    best.ok_or_else(|| EvalError::failed(format!("{function} called on empty list")))
}

fn min<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    extreme("min", args, Ordering::Less)
}

fn max<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    extreme("max", args, Ordering::Greater)
}

fn found(at: Option<usize>) -> Value<'static> {
    Value::Int(at.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1))
}

fn index_of<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::List(list), wanted] => Ok(found(list.iter().position(|item| equal(&item, wanted)))),
        _ => strings::index_of(args),
    }
}

fn last_index_of<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::List(list), wanted] => {
            let at = list.iter().enumerate().filter(|(_, item)| equal(item, wanted)).map(|(at, _)| at).last();
            Ok(found(at))
        }
        _ => strings::last_index_of(args),
    }
}

fn includes<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::List(list), wanted] => Ok(Value::Bool(list.iter().any(|item| equal(&item, wanted)))),
        [_, _] => Ok(Value::Bool(false)),
        _ => Err(no_overload("includes", args)),
    }
}

fn slice<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else { return Err(no_overload("slice", args)) };
    let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
    if *start < 0 || *end < 0 {
        return Err(EvalError::failed(format!("cannot slice({start}, {end}), negative indexes not supported")));
    }
    if start > end {
        return Err(EvalError::failed(format!(
            "cannot slice({start}, {end}), start index must be less than or equal to end index"
        )));
    }
    if *end > length {
        return Err(EvalError::failed(format!("cannot slice({start}, {end}), list is length {length}")));
    }
    let (start, count) = (usize::try_from(*start).unwrap_or(0), usize::try_from(end - start).unwrap_or(0));
    Ok(Value::list(list.iter().skip(start).take(count).collect()))
}

fn flatten<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    fn into<'a>(list: &List<'a>, depth: i64, items: &mut Vec<Value<'a>>) {
        for item in list.iter() {
            match item {
                Value::List(inner) if depth > 0 => into(&inner, depth - 1, items),
                other => items.push(other),
            }
        }
    }
    let (list, depth) = match args {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        _ => return Err(no_overload("flatten", args)),
    };
    if depth < 0 {
        return Err(EvalError::failed("level must be non-negative"));
    }
    let mut items = Vec::new();
    into(list, depth.min(300), &mut items);
    Ok(Value::list(items))
}

fn distinct<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let mut items: Vec<Value<'a>> = Vec::new();
    for item in list("distinct", args)?.iter() {
        if !items.iter().any(|known| equal(known, &item)) {
            items.push(item);
        }
    }
    Ok(Value::list(items))
}

fn sorted<'a>(items: &[Value<'a>], keys: &[Value<'a>]) -> Evaluated<'a> {
    if let Some(first) = keys.first() {
        if !compare(first, first).is_some_and(Ordering::is_eq) {
            return Err(EvalError::failed("list elements must be comparable"));
        }
        if keys.iter().any(|key| std::mem::discriminant(key) != std::mem::discriminant(first)) {
            return Err(EvalError::failed("list elements must have the same type"));
        }
    }
    let mut order: Vec<usize> = (0..items.len().min(keys.len())).collect();
    order.sort_by(|a, b| match (keys.get(*a), keys.get(*b)) {
        (Some(a), Some(b)) => compare(a, b).unwrap_or(Ordering::Equal),
        _ => Ordering::Equal,
    });
    Ok(Value::list(order.into_iter().filter_map(|at| items.get(at).cloned()).collect()))
}

fn sort<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let items: Vec<Value<'a>> = list("sort", args)?.iter().collect();
    sorted(&items, &items)
}

fn sort_by_keys<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list), Value::List(keys)] = args else { return Err(no_overload("@sortByAssociatedKeys", args)) };
    let (items, keys): (Vec<Value<'a>>, Vec<Value<'a>>) = (list.iter().collect(), keys.iter().collect());
    sorted(&items, &keys)
}

fn range<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Int(end)] = args else { return Err(no_overload("lists.range", args)) };
    bounded(usize::try_from(*end).unwrap_or(0).saturating_mul(16))?;
    Ok(Value::list((0..*end).map(Value::Int).collect()))
}

fn reverse<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let mut items: Vec<Value<'a>> = list("reverse", args)?.iter().collect();
    items.reverse();
    Ok(Value::list(items))
}

fn first<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(list("first", args)?.get(0).map_or(Value::Optional(None), Value::some))
}

fn last<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let list = list("last", args)?;
    Ok(list.len().checked_sub(1).and_then(|at| list.get(at)).map_or(Value::Optional(None), Value::some))
}
