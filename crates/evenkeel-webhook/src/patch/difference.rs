//! The JSON patch (RFC 6902) that leads from one value to another.

use serde::Serialize;
use serde_json::Value;

use super::alignment::{common_ends, identity};

/// Longer lists are replaced as a whole where their elements moved: finding the shortest way takes the product of both lengths.
const MAX_ALIGNED: usize = 1 << 16;

/// An operation of a JSON patch.
#[derive(Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub(super) enum PatchOperation<'a> {
    Add { path: String, value: &'a Value },
    Remove { path: String },
    Replace { path: String, value: &'a Value },
}

/// Returns the operations that make `from` equal to `to`. There is none for what is equal.
pub(super) fn difference<'a>(from: &Value, to: &'a Value) -> Vec<PatchOperation<'a>> {
    let mut operations = Vec::new();
    compare(from, to, &mut String::new(), &mut operations);
    operations
}

fn compare<'a>(from: &Value, to: &'a Value, path: &mut String, operations: &mut Vec<PatchOperation<'a>>) {
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            for key in from.keys().filter(|key| !to.contains_key(*key)) {
                operations.push(PatchOperation::Remove { path: joined(path, key) });
            }
            for (key, value) in to {
                match from.get(key) {
                    None => operations.push(PatchOperation::Add { path: joined(path, key), value }),
                    Some(old) => within(path, key, |path| compare(old, value, path, operations)),
                }
            }
        }
        (Value::Array(from), Value::Array(to)) => compare_lists(from, to, path, operations),
        _ if from == to => {}
        _ => operations.push(PatchOperation::Replace { path: path.clone(), value: to }),
    }
}

/// Compares lists from the end: an operation leaves the indexes before it as they were.
fn compare_lists<'a>(from: &[Value], to: &'a [Value], path: &mut String, operations: &mut Vec<PatchOperation<'a>>) {
    let (prefix, suffix) = common_ends(from, to);
    let (old, new) = (&from[prefix..from.len() - suffix], &to[prefix..to.len() - suffix]);
    for step in steps(old, new).into_iter().rev() {
        match step {
            ListStep::Keep(old_index, new_index) => {
                within(path, &(prefix + old_index).to_string(), |path| {
                    compare(&old[old_index], &new[new_index], path, operations);
                });
            }
            ListStep::Remove(index) => {
                operations.push(PatchOperation::Remove { path: joined(path, &(prefix + index).to_string()) });
            }
            ListStep::Insert { before, index } => {
                let path = joined(path, &(prefix + before).to_string());
                operations.push(PatchOperation::Add { path, value: &new[index] });
            }
        }
    }
}

/// A step from one list to another, in the order of the lists. Indexes of the old list are those before all steps.
#[derive(Debug)]
enum ListStep {
    /// The old element becomes the new one.
    Keep(usize, usize),
    Remove(usize),
    /// The new element `index` is inserted before the old element `before`.
    Insert {
        before: usize,
        index: usize,
    },
}

/// Returns the steps from one list to another: along a longest common subsequence of elements that are the same one.
fn steps(old: &[Value], new: &[Value]) -> Vec<ListStep> {
    let by_position = old.len() == new.len() && identity(old, new).is_none();
    if by_position || old.is_empty() || new.is_empty() || old.len().saturating_mul(new.len()) > MAX_ALIGNED {
        return steps_by_position(old.len(), new.len());
    }
    let field = identity(old, new);
    let is_same = |old: &Value, new: &Value| match field {
        Some(field) => old.get(field) == new.get(field),
        None => old == new,
    };
    // `longest[i][j]`: the length of a longest common subsequence of `old[i..]` and `new[j..]`.
    let width = new.len() + 1;
    let mut longest = vec![0_usize; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i * width + j] = if is_same(&old[i], &new[j]) {
                longest[(i + 1) * width + j + 1] + 1
            } else {
                longest[(i + 1) * width + j].max(longest[i * width + j + 1])
            };
        }
    }
    let mut steps = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && is_same(&old[i], &new[j]) {
            steps.push(ListStep::Keep(i, j));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && longest[(i + 1) * width + j] >= longest[i * width + j + 1]) {
            steps.push(ListStep::Remove(i));
            i += 1;
        } else {
            steps.push(ListStep::Insert { before: i, index: j });
            j += 1;
        }
    }
    steps
}

fn steps_by_position(old: usize, new: usize) -> Vec<ListStep> {
    let both = old.min(new);
    let kept = (0..both).map(|index| ListStep::Keep(index, index));
    let removed = (both..old).map(ListStep::Remove);
    // Steps run from the last to the first, so that every insertion is before the same old element.
    let inserted = (both..new).map(|index| ListStep::Insert { before: both, index });
    kept.chain(removed).chain(inserted).collect()
}

/// Calls a function with the path of a member.
fn within(path: &mut String, key: &str, visit: impl FnOnce(&mut String)) {
    let length = path.len();
    push(path, key);
    visit(path);
    path.truncate(length);
}

fn joined(path: &str, key: &str) -> String {
    let mut path = path.to_owned();
    push(&mut path, key);
    path
}

fn push(path: &mut String, key: &str) {
    path.push('/');
    for c in key.chars() {
        match c {
            '~' => path.push_str("~0"),
            '/' => path.push_str("~1"),
            c => path.push(c),
        }
    }
}
