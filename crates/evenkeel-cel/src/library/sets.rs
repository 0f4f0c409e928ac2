//! `sets.contains`, `sets.equivalent`, `sets.intersects`.

use super::{Evaluated, Library, no_overload};
use crate::equality::equal;
use crate::value::{List, Value};

pub(super) const LIBRARY: Library = Library {
    since: 29,
    rows: &[
        ("sets.contains", contains, &[("list_sets_contains_list", "(list(T), list(T)) -> bool")]),
        ("sets.equivalent", equivalent, &[("list_sets_equivalent_list", "(list(T), list(T)) -> bool")]),
        ("sets.intersects", intersects, &[("list_sets_intersects_list", "(list(T), list(T)) -> bool")]),
    ],
};

fn has_all(list: &List<'_>, wanted: &List<'_>) -> bool {
    wanted.iter().all(|item| list.iter().any(|other| equal(&item, &other)))
}

fn contains<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::List(list), Value::List(wanted)] => Ok(Value::Bool(has_all(list, wanted))),
        _ => Err(no_overload("sets.contains", args)),
    }
}

fn equivalent<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::List(a), Value::List(b)] => Ok(Value::Bool(has_all(a, b) && has_all(b, a))),
        _ => Err(no_overload("sets.equivalent", args)),
    }
}

fn intersects<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::List(a), Value::List(b)] => {
            Ok(Value::Bool(a.iter().any(|item| b.iter().any(|other| equal(&item, &other)))))
        }
        _ => Err(no_overload("sets.intersects", args)),
    }
}
