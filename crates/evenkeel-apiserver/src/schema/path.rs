//! The path of the field that a pass is looking at.

use std::fmt::Write;

/// A dotted path that grows and shrinks with the walk, so that the happy case allocates nothing per field.
#[derive(Debug, Default)]
pub(crate) struct Path(String);

/// Where a path was before a step, to go back to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(usize);

impl From<String> for Path {
    fn from(path: String) -> Self {
        Path(path)
    }
}

impl Path {
    /// Steps into a field: `spec` becomes `spec.name`.
    pub(crate) fn push(&mut self, key: &str) -> Mark {
        let mark = Mark(self.0.len());
        if !self.0.is_empty() {
            self.0.push('.');
        }
        self.0.push_str(key);
        mark
    }

    /// Steps into an item: `list` becomes `list[3]`.
    pub(crate) fn push_index(&mut self, index: usize) -> Mark {
        let mark = Mark(self.0.len());
        let _ = write!(self.0, "[{index}]");
        mark
    }

    /// Steps into an entry named in brackets: `properties` becomes `properties[name]`.
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

    /// The path of a field of the place the path stands at.
    pub(crate) fn child(&self, key: &str) -> String {
        if self.0.is_empty() { key.to_owned() } else { format!("{}.{key}", self.0) }
    }

    /// The path for a field error: `<nil>` at the root.
    pub(crate) fn field(&self) -> String {
        if self.0.is_empty() { "<nil>".to_owned() } else { self.0.clone() }
    }
}
