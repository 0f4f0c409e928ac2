//! The JSON patch (RFC 6902) that leads from one value to another.

use serde::Serialize;
use serde_json::Value;

use super::alignment::{common_ends, identity};

/// How a patch changes lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListPatch {
    /// Element by element, from the end. The indexes hold for exactly the object that was compared.
    Elements,
    /// As a whole, whatever another client may have done to the list.
    Whole,
}

/// Longer lists are replaced as a whole where their elements moved: finding the shortest way takes the product of both lengths.
const MAX_ALIGNED: usize = 1 << 16;

/// An operation of a JSON patch.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum PatchOperation<'a> {
    /// Adds a member, or inserts an element.
    Add {
        /// Where, as a JSON pointer.
        path: String,
        /// The new value.
        value: &'a Value,
    },
    /// Removes a member or an element.
    Remove {
        /// Where, as a JSON pointer.
        path: String,
    },
    /// Replaces a value.
    Replace {
        /// Where, as a JSON pointer.
        path: String,
        /// The new value.
        value: &'a Value,
    },
}

/// Returns the operations that make `from` equal to `to`. There is none for what is equal.
pub fn json_patch<'a>(from: &Value, to: &'a Value, lists: ListPatch) -> Vec<PatchOperation<'a>> {
    let mut comparison = Comparison { lists, path: String::new(), operations: Vec::new() };
    comparison.compare(from, to);
    comparison.operations
}

/// The operations so far, and the path of the values that are compared.
struct Comparison<'a> {
    lists: ListPatch,
    path: String,
    operations: Vec<PatchOperation<'a>>,
}

impl<'a> Comparison<'a> {
    fn compare(&mut self, from: &Value, to: &'a Value) {
        match (from, to) {
            (Value::Object(from), Value::Object(to)) => {
                for key in from.keys().filter(|key| !to.contains_key(*key)) {
                    self.operations.push(PatchOperation::Remove { path: joined(&self.path, key) });
                }
                for (key, value) in to {
                    match from.get(key) {
                        None => self.operations.push(PatchOperation::Add { path: joined(&self.path, key), value }),
                        Some(old) => self.within(key, |inner| inner.compare(old, value)),
                    }
                }
            }
            (Value::Array(from), Value::Array(to)) if self.lists == ListPatch::Elements => self.compare_lists(from, to),
            _ if from == to => {}
            _ => self.operations.push(PatchOperation::Replace { path: self.path.clone(), value: to }),
        }
    }

    /// Compares lists from the end: an operation leaves the indexes before it as they were.
    fn compare_lists(&mut self, from: &[Value], to: &'a [Value]) {
        let (prefix, suffix) = common_ends(from, to);
        let (old, new) = (&from[prefix..from.len() - suffix], &to[prefix..to.len() - suffix]);
        for step in steps(old, new).into_iter().rev() {
            match step {
                ListStep::Keep(old_index, new_index) => {
                    self.within(&(prefix + old_index).to_string(), |inner| {
                        inner.compare(&old[old_index], &new[new_index]);
                    });
                }
                ListStep::Remove(index) => {
                    let path = joined(&self.path, &(prefix + index).to_string());
                    self.operations.push(PatchOperation::Remove { path });
                }
                ListStep::Insert { before, index } => {
                    let path = joined(&self.path, &(prefix + before).to_string());
                    self.operations.push(PatchOperation::Add { path, value: &new[index] });
                }
            }
        }
    }

    /// Calls a function with the path of a member.
    fn within(&mut self, key: &str, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        push(&mut self.path, key);
        visit(self);
        self.path.truncate(length);
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
