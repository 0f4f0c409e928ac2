//! JSON Patch (RFC 6902), as kube-apiserver applies it.
//!
//! Written by hand rather than taken from a crate: the limits (number of operations, copied bytes, depth) must hold while
//! the patch is applied, and kube-apiserver is more lenient than the RFC: `replace` of a missing key adds it; an operation
//! without `value` means `null`; `test` takes a missing key for `null`; a patch that is `null` has no operations.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::OperationError as Why;
use super::PatchError;
use super::tree::{PatchTree, depth};
use crate::go_json::kind_of;

/// The limit of operations of one patch (PAT-5).
pub(crate) const MAX_OPERATIONS: usize = 10_000;

/// The limit of bytes that the `copy` operations of one patch add (PAT-5).
const MAX_COPIED_BYTES: usize = 3 << 20;

/// The nesting limit of the patched object. It is below that of the JSON parser, so that the result can be parsed.
const MAX_DEPTH: usize = 120;

/// Applies the JSON patch in `patch` to `doc`.
///
/// On an error the document contains the operations before the failing one: patch a copy.
pub(crate) fn apply_json_patch(doc: &mut Value, patch: &[u8]) -> Result<(), PatchError> {
    let operations = match serde_json::from_slice(patch).map_err(|_| PatchError::NotJson)? {
        Value::Array(operations) => operations,
        Value::Null => Vec::new(),
        other => {
            return Err(PatchError::Shape(format!(
                "json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
                kind_of(&other)
            )));
        }
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooManyOperations { got: operations.len() });
    }
    let operations: Vec<Operation> = operations.into_iter().map(Operation::decode).collect::<Result<_, _>>()?;
    let mut patcher = Patcher { depth: depth(doc), doc: PatchTree::Plain(std::mem::take(doc)), copied: 0 };
    let mut failed = None;
    for (index, operation) in operations.into_iter().enumerate() {
        let Operation { op, path, from, value } = operation;
        if let Err(why) = patcher.run(&op, &path, &from, value) {
            failed = Some(PatchError::Operation { index, op, path, why });
            break;
        }
    }
    *doc = patcher.doc.into_value();
    failed.map_or(Ok(()), Err)
}

/// One operation of a patch; absent fields are empty.
struct Operation {
    op: String,
    path: String,
    from: String,
    value: Value,
}

impl Operation {
    fn decode(operation: Value) -> Result<Self, PatchError> {
        let mut fields = match operation {
            Value::Object(fields) => fields,
            Value::Null => Map::new(),
            other => {
                return Err(PatchError::Shape(format!(
                    "json: cannot unmarshal {} into Go value of type handlers.jsonPatchOp",
                    kind_of(&other)
                )));
            }
        };
        let mut text = |name: &str| match fields.remove(name) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text),
            Some(other) => Err(PatchError::Shape(format!(
                "json: cannot unmarshal {} into Go struct field jsonPatchOp.{name} of type string",
                kind_of(&other)
            ))),
        };
        Ok(Operation {
            op: text("op")?,
            path: text("path")?,
            from: text("from")?,
            value: fields.remove("value").unwrap_or(Value::Null),
        })
    }
}

/// The document and the used budgets.
struct Patcher {
    doc: PatchTree,
    /// Never less than the depth of the document.
    depth: usize,
    copied: usize,
}

impl Patcher {
    fn run(&mut self, op: &str, path: &str, from: &str, value: Value) -> Result<(), Why> {
        match op {
            "add" => {
                self.deepen(levels(path) + depth(&value))?;
                self.add(path, PatchTree::Plain(value))
            }
            "remove" => self.remove(path).map(drop),
            "replace" => {
                self.deepen(levels(path) + depth(&value))?;
                self.replace(path, value)
            }
            "test" => self.test(path, &value),
            "move" => self.relocate(from, path),
            "copy" => self.copy(from, path),
            _ => Err(Why::UnknownOperation),
        }
    }

    fn add(&mut self, path: &str, value: PatchTree) -> Result<(), Why> {
        let (parent, key) = self.parent(path)?;
        match parent.open() {
            PatchTree::Object(map) => {
                map.insert(key.into_owned(), value);
            }
            PatchTree::List(list) if key == "-" => list.insert(list.len(), value),
            PatchTree::List(list) => {
                // One past the end appends.
                let index = index(&key, list.len() + 1)?;
                list.insert(index, value);
            }
            _ => return Err(Why::Missing),
        }
        Ok(())
    }

    fn remove(&mut self, path: &str) -> Result<PatchTree, Why> {
        let (parent, key) = self.parent(path)?;
        match parent.open() {
            PatchTree::Object(map) => map.remove(&*key).ok_or(Why::Missing),
            PatchTree::List(list) => {
                let index = index(&key, list.len())?;
                list.remove(index).ok_or(Why::BadIndex)
            }
            _ => Err(Why::Missing),
        }
    }

    fn replace(&mut self, path: &str, value: Value) -> Result<(), Why> {
        if path.is_empty() {
            if !value.is_object() && !value.is_array() {
                return Err(Why::ScalarRoot);
            }
            self.doc = PatchTree::Plain(value);
            return Ok(());
        }
        let (parent, key) = self.parent(path)?;
        match parent.open() {
            PatchTree::Object(map) => {
                map.insert(key.into_owned(), PatchTree::Plain(value));
            }
            PatchTree::List(list) => {
                let index = index(&key, list.len())?;
                *list.get_mut(index).ok_or(Why::BadIndex)? = PatchTree::Plain(value);
            }
            _ => return Err(Why::Missing),
        }
        Ok(())
    }

    fn test(&mut self, path: &str, value: &Value) -> Result<(), Why> {
        let found = if path.is_empty() { Some(&self.doc) } else { self.find(path)? };
        let equal = found.map_or(value.is_null(), |found| *found == *value);
        if equal { Ok(()) } else { Err(Why::TestFailed) }
    }

    /// The `move` operation.
    fn relocate(&mut self, from: &str, path: &str) -> Result<(), Why> {
        if path.strip_prefix(from).is_some_and(|rest| rest.starts_with('/')) {
            return Err(Why::IntoItself);
        }
        let value = self.remove(from)?;
        // A moved value is no deeper than the document. Only if that bound is not sufficient is the value walked, and
        // then it is charged like a copy: otherwise moving a large value repeatedly would be unbounded work.
        let bound = levels(path) + self.depth.saturating_sub(levels(from));
        if bound > MAX_DEPTH {
            self.pay(value.size())?;
            self.deepen(levels(path) + value.depth())?;
        } else {
            self.deepen(bound)?;
        }
        self.add(path, value)
    }

    fn copy(&mut self, from: &str, path: &str) -> Result<(), Why> {
        let found = self.find(from)?.ok_or(Why::Missing)?;
        let (size, depth) = (found.size(), found.depth());
        self.pay(size)?;
        self.deepen(levels(path) + depth)?;
        let value = self.find(from)?.ok_or(Why::Missing)?.clone();
        self.add(path, value)
    }

    /// Charges the budget of copies.
    fn pay(&mut self, bytes: usize) -> Result<(), Why> {
        self.copied = self.copied.saturating_add(bytes);
        if self.copied > MAX_COPIED_BYTES {
            return Err(Why::CopiesTooLarge);
        }
        Ok(())
    }

    /// Refuses a value that would nest the document too deeply.
    fn deepen(&mut self, depth: usize) -> Result<(), Why> {
        if depth > MAX_DEPTH {
            return Err(Why::TooDeep);
        }
        self.depth = self.depth.max(depth);
        Ok(())
    }

    /// Returns the value at the path; `None` for a missing key of an existing object.
    fn find(&mut self, path: &str) -> Result<Option<&PatchTree>, Why> {
        let (parent, key) = self.parent(path)?;
        match parent.open() {
            PatchTree::Object(map) => Ok(map.get(&*key)),
            PatchTree::List(list) => {
                let index = index(&key, list.len())?;
                Ok(list.get(index))
            }
            _ => Err(Why::Missing),
        }
    }

    /// Returns the container of the pointer's last token, and that token.
    fn parent<'p>(&mut self, path: &'p str) -> Result<(&mut PatchTree, Cow<'p, str>), Why> {
        let (ancestors, last) = path.rsplit_once('/').ok_or(Why::BadPath)?;
        let mut node = &mut self.doc;
        if !ancestors.is_empty() {
            for token in ancestors.strip_prefix('/').ok_or(Why::BadPath)?.split('/') {
                node = match node.open() {
                    PatchTree::Object(map) => map.get_mut(&*unescape(token)),
                    PatchTree::List(list) => {
                        let index = index(token, list.len())?;
                        list.get_mut(index)
                    }
                    _ => None,
                }
                .ok_or(Why::Missing)?;
            }
        }
        Ok((node, unescape(last)))
    }
}

/// Returns the number of containers along a pointer.
fn levels(path: &str) -> usize {
    path.bytes().filter(|byte| *byte == b'/').count()
}

/// Unescapes a token of a JSON pointer.
fn unescape(token: &str) -> Cow<'_, str> {
    if token.contains('~') { Cow::Owned(token.replace("~1", "/").replace("~0", "~")) } else { Cow::Borrowed(token) }
}

/// Parses a list index below `bound`: decimal digits without a leading zero.
fn index(token: &str, bound: usize) -> Result<usize, Why> {
    let canonical = token == "0" || (token.bytes().all(|byte| byte.is_ascii_digit()) && !token.starts_with('0'));
    match token.parse() {
        Ok(index) if canonical && index < bound => Ok(index),
        _ => Err(Why::BadIndex),
    }
}
