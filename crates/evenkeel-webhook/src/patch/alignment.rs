//! Which elements of two lists are the same one.

use std::collections::HashMap;

use serde_json::Value;

/// The fields by which Kubernetes merges lists, the usual ones first.
const IDENTITIES: [&str; 11] =
    ["name", "key", "type", "uid", "ip", "mountPath", "devicePath", "topologyKey", "containerPort", "port", "id"];

/// Returns the field that identifies the elements of both lists: all of them have it, with a string or a number that no other
/// element of the same list has.
pub(super) fn identity(left: &[Value], right: &[Value]) -> Option<&'static str> {
    IDENTITIES.into_iter().find(|field| is_identity(left, field) && is_identity(right, field))
}

fn is_identity(list: &[Value], field: &str) -> bool {
    let mut seen = HashMap::with_capacity(list.len());
    list.iter().all(|element| identity_of(element, field).is_some_and(|value| seen.insert(value, ()).is_none()))
}

fn identity_of(element: &Value, field: &str) -> Option<String> {
    match element.get(field)? {
        Value::String(text) => Some(format!("s{text}")),
        Value::Number(number) => Some(format!("n{number}")),
        _ => None,
    }
}

/// Returns, for each element of `after`, the index of the same element in `before`.
///
/// Elements are the same if their identities are equal. In lists without identities, equal elements are, from the front and
/// from the end; between these, elements are matched by position if there are as many on both sides, and are new otherwise.
pub(super) fn align(before: &[Value], after: &[Value]) -> Vec<Option<usize>> {
    if let Some(field) = identity(before, after) {
        let indexes: HashMap<_, _> =
            before.iter().enumerate().map(|(index, element)| (identity_of(element, field), index)).collect();
        return after.iter().map(|element| indexes.get(&identity_of(element, field)).copied()).collect();
    }
    let (prefix, suffix) = common_ends(before, after);
    let is_same_length = before.len() == after.len();
    let from_end = |index: usize| before.len() - (after.len() - index);
    let matched = |index: usize| match index {
        _ if is_same_length || index < prefix => Some(index),
        _ if index >= after.len() - suffix => Some(from_end(index)),
        _ => None,
    };
    (0..after.len()).map(matched).collect()
}

/// Returns how many elements at the front and at the end of two lists are equal. The two do not overlap.
pub(super) fn common_ends(left: &[Value], right: &[Value]) -> (usize, usize) {
    let prefix = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    let rest = left.len().min(right.len()) - prefix;
    let suffix = left.iter().rev().zip(right.iter().rev()).take(rest).take_while(|(left, right)| left == right).count();
    (prefix, suffix)
}
