//! Which elements of two lists are the same one.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;

/// The fields by which Kubernetes merges lists, the usual ones first.
const IDENTITIES: [&str; 11] =
    ["name", "key", "type", "uid", "ip", "mountPath", "devicePath", "topologyKey", "containerPort", "port", "id"];

/// Returns the field that identifies the elements of both lists.
pub(super) fn identity(left: &[Value], right: &[Value]) -> Option<&'static str> {
    IDENTITIES.into_iter().find(|field| is_identity(left, field) && is_identity(right, field))
}

/// Returns whether a field identifies the elements of a list: all of them have it, with a string or a number that no other
/// element has.
pub fn is_identity(list: &[Value], field: &str) -> bool {
    let mut seen = HashSet::with_capacity(list.len());
    list.iter().all(|element| match element.get(field) {
        // The quotes of a string tell it from a number.
        Some(value @ (Value::String(_) | Value::Number(_))) => seen.insert(value.to_string()),
        _ => false,
    })
}

/// Returns, for each element of `after`, the index of the same element in `before`. No index occurs twice.
///
/// Elements are the same if their identities are equal. In lists without identities, equal elements are: those at the front and
/// at the end of both lists, then those in the same place, then the others, which were moved. What is left is matched in order
/// if the lists are equally long, and is new otherwise.
pub(super) fn align(before: &[Value], after: &[Value]) -> Vec<Option<usize>> {
    match identity(before, after) {
        Some(field) => align_by(field, before, after),
        None => align_equal(before, after),
    }
}

fn align_by(field: &str, before: &[Value], after: &[Value]) -> Vec<Option<usize>> {
    let id = |element: &Value| element.get(field).map(Value::to_string);
    let indexes: HashMap<_, _> = before.iter().enumerate().map(|(index, element)| (id(element), index)).collect();
    after.iter().map(|element| indexes.get(&id(element)).copied()).collect()
}

fn align_equal(before: &[Value], after: &[Value]) -> Vec<Option<usize>> {
    let (prefix, suffix) = common_ends(before, after);
    let mut aligned: Vec<Option<usize>> = vec![None; after.len()];
    for (index, same) in aligned.iter_mut().enumerate().take(prefix) {
        *same = Some(index);
    }
    for from_end in 1..=suffix {
        aligned[after.len() - from_end] = Some(before.len() - from_end);
    }
    let mut free: Vec<usize> = (prefix..before.len() - suffix).collect();
    let open = prefix..after.len() - suffix;
    free.retain(|index| {
        let is_same = open.contains(index) && before[*index] == after[*index];
        if is_same {
            aligned[*index] = Some(*index);
        }
        !is_same
    });
    let mut moved: HashMap<String, VecDeque<usize>> = HashMap::new();
    for index in &free {
        moved.entry(before[*index].to_string()).or_default().push_back(*index);
    }
    for (same, element) in aligned.iter_mut().zip(after).filter(|(same, _)| same.is_none()) {
        *same = moved.get_mut(&element.to_string()).and_then(VecDeque::pop_front);
    }
    if before.len() == after.len() {
        let mut rest: Vec<usize> = moved.into_values().flatten().collect();
        rest.sort_unstable();
        let unmatched = aligned.iter_mut().filter(|same| same.is_none());
        unmatched.zip(rest).for_each(|(same, index)| *same = Some(index));
    }
    aligned
}

/// Returns how many elements at the front and at the end of two lists are equal. The two do not overlap.
pub(super) fn common_ends(left: &[Value], right: &[Value]) -> (usize, usize) {
    let prefix = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    let rest = left.len().min(right.len()) - prefix;
    let suffix = left.iter().rev().zip(right.iter().rev()).take(rest).take_while(|(left, right)| left == right).count();
    (prefix, suffix)
}
