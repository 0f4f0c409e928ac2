//! Equality and order of values.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use crate::schema::ListIdentity;
use crate::value::{List, Map, Value};

/// Returns whether two values are equal. Numbers are equal across types; values of other different types are not.
pub(crate) fn equal(left: &Value<'_>, right: &Value<'_>) -> bool {
    Comparison::default().equal(left, right)
}

/// Returns whether two items of a list have equal values of all keys.
pub(crate) fn same_keys(a: &Value<'_>, b: &Value<'_>, keys: &[String]) -> bool {
    Comparison::default().same_keys(a, b, keys)
}

/// One comparison. It remembers the parts that are equal: an expression makes values that share their parts, and have more of
/// them than could be visited one by one.
#[derive(Default)]
struct Comparison {
    /// Pairs of addresses. All of them are alive during the comparison.
    equal: HashSet<(usize, usize)>,
}

impl Comparison {
    fn equal(&mut self, left: &Value<'_>, right: &Value<'_>) -> bool {
        let pair = shared_address(left).zip(shared_address(right));
        if pair.is_some_and(|pair| self.equal.contains(&pair)) {
            return true;
        }
        let equal = match (left, right) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::String(a), Value::String(b)) => **a == **b,
            (Value::Bytes(a), Value::Bytes(b)) => a == b,
            (Value::Duration(a), Value::Duration(b)) => a == b,
            (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
            (Value::List(a), Value::List(b)) => self.lists_equal(a, b),
            (Value::Map(a), Value::Map(b)) => self.maps_equal(a, b),
            (Value::Type(a), Value::Type(b)) => a.runtime_name() == b.runtime_name(),
            (Value::Optional(a), Value::Optional(b)) => match (a, b) {
                (Some(a), Some(b)) => self.equal(a, b),
                (a, b) => a.is_none() && b.is_none(),
            },
            (Value::Opaque(a), Value::Opaque(b)) => a == b,
            _ => compare_numbers(left, right) == Some(Ordering::Equal),
        };
        // A difference ends the comparison, except that of sets, which are not made by expressions.
        if let Some(pair) = pair.filter(|_| equal) {
            self.equal.insert(pair);
        }
        equal
    }

    fn lists_equal(&mut self, a: &List<'_>, b: &List<'_>) -> bool {
        if a.len() != b.len() {
            return false;
        }
        match a.identity().filter(|identity| **identity != ListIdentity::Atomic) {
            Some(ListIdentity::Set) => a.iter().all(|item| b.iter().any(|other| self.equal(&item, &other))),
            Some(ListIdentity::Map(keys)) => a.iter().all(|item| {
                let other = b.iter().find(|other| self.same_keys(&item, other, keys));
                other.is_some_and(|other| self.equal(&item, &other))
            }),
            _ => a.iter().zip(b.iter()).all(|(a, b)| self.equal(&a, &b)),
        }
    }

    fn same_keys(&mut self, a: &Value<'_>, b: &Value<'_>, keys: &[String]) -> bool {
        let (Value::Map(a), Value::Map(b)) = (a, b) else { return self.equal(a, b) };
        keys.iter().all(|key| {
            let name = crate::schema::escape(key).unwrap_or_default();
            match (a.field(&name), b.field(&name)) {
                (Some(a), Some(b)) => self.equal(&a, &b),
                (a, b) => a.is_none() && b.is_none(),
            }
        })
    }

    fn maps_equal(&mut self, a: &Map<'_>, b: &Map<'_>) -> bool {
        // Objects that expressions made are equal only to those of the same type.
        let made = |map: &Map<'_>| matches!(map, Map::Object(..));
        if let (Map::Object(a, _), Map::Object(b, _)) = (a, b)
            && a != b
        {
            return false;
        }
        made(a) == made(b)
            && a.len() == b.len()
            && a.entries().all(|(key, value)| b.get(&key.to_value()).is_some_and(|other| self.equal(&value, &other)))
    }
}

/// Returns the address of a computed list or map.
fn shared_address(value: &Value<'_>) -> Option<usize> {
    Some(match value {
        Value::List(List::Owned(items)) => Arc::as_ptr(items).addr(),
        Value::Map(Map::Owned(entries) | Map::Object(_, entries)) => Arc::as_ptr(entries).addr(),
        _ => return None,
    })
}

/// Compares two numbers of any types; `None` if one is not a number.
fn compare_numbers(left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
        (Value::Int(a), Value::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Uint(a), Value::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Int(a), Value::Double(b)) => compare_double(i128::from(*a), *b),
        (Value::Uint(a), Value::Double(b)) => compare_double(i128::from(*a), *b),
        (Value::Double(a), Value::Int(b)) => compare_double(i128::from(*b), *a).map(Ordering::reverse),
        (Value::Double(a), Value::Uint(b)) => compare_double(i128::from(*b), *a).map(Ordering::reverse),
        _ => None,
    }
}

fn compare_double(integer: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    // Beyond the range of 64 bits the sign decides; below, the whole part compares exactly.
    if double.abs() > 1.0e20 {
        return Some(if double > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    let whole = double.trunc();
    Some(integer.cmp(&(whole as i128)).then_with(|| 0.0_f64.partial_cmp(&(double - whole)).unwrap_or(Ordering::Equal)))
}

/// Returns the order of two values; `None` if they have none.
pub(crate) fn compare(left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    match (left, right) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::String(a), Value::String(b)) => Some((**a).cmp(&**b)),
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        (Value::Duration(a), Value::Duration(b)) => Some(a.cmp(b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
        _ => compare_numbers(left, right),
    }
}
