//! The path of the current field in a pass.

use std::fmt::Write;

/// A dotted path that grows and shrinks during the traversal, so that valid fields allocate nothing.
#[derive(Debug, Default)]
pub(crate) struct Path(String);

/// The length of a path before a push, to restore it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(usize);

impl From<String> for Path {
    fn from(path: String) -> Self {
        Path(path)
    }
}

impl Path {
    /// Appends a field: `spec` becomes `spec.name`.
    pub(crate) fn push(&mut self, key: &str) -> Mark {
        let mark = Mark(self.0.len());
        if !self.0.is_empty() {
            self.0.push('.');
        }
        self.0.push_str(key);
        mark
    }

    /// Appends an index: `list` becomes `list[3]`.
    pub(crate) fn push_index(&mut self, index: usize) -> Mark {
        let mark = Mark(self.0.len());
        let _ = write!(self.0, "[{index}]");
        mark
    }

    /// Appends a key in brackets: `properties` becomes `properties[name]`.
    pub(crate) fn push_key(&mut self, key: &str) -> Mark {
        let mark = Mark(self.0.len());
        let _ = write!(self.0, "[{key}]");
        mark
    }

    pub(crate) fn back(&mut self, mark: Mark) {
        self.0.truncate(mark.0);
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the path of a field of the current value.
    pub(crate) fn child(&self, key: &str) -> String {
        if self.0.is_empty() { key.to_owned() } else { format!("{}.{key}", self.0) }
    }

    /// Returns the path for a field error: `<nil>` at the root.
    pub(crate) fn field(&self) -> String {
        if self.0.is_empty() { "<nil>".to_owned() } else { self.0.clone() }
    }
}
