//! The path of the current field in a pass.
//!
//! Passes of which most objects have no fault keep their path in the frames of the recursion ([`PathStep`]), so that a valid
//! field costs nothing. Passes that read their path often build it as they go ([`Path`]).

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

/// The last step of a path, with a reference to the step before it. The text is made when it is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathStep<'a> {
    parent: Option<&'a PathStep<'a>>,
    element: StepElement<'a>,
}

#[derive(Clone, Copy, Debug)]
enum StepElement<'a> {
    Root,
    /// A field of a struct.
    Field(&'a str),
    /// A key of a map.
    Key(&'a str),
    Index(usize),
}

impl PathStep<'static> {
    /// The path of the whole value.
    pub(crate) const ROOT: PathStep<'static> = PathStep { parent: None, element: StepElement::Root };
}

impl<'a> PathStep<'a> {
    /// Returns the path of a field of a struct.
    pub(crate) fn field(&'a self, name: &'a str) -> PathStep<'a> {
        PathStep { parent: Some(self), element: StepElement::Field(name) }
    }

    /// Returns the path of a value of a map.
    pub(crate) fn key(&'a self, key: &'a str) -> PathStep<'a> {
        PathStep { parent: Some(self), element: StepElement::Key(key) }
    }

    /// Returns the path of an item of a list.
    pub(crate) fn index(&'a self, index: usize) -> PathStep<'a> {
        PathStep { parent: Some(self), element: StepElement::Index(index) }
    }

    /// Returns the whole path, such as `spec.containers[0].name`.
    pub(crate) fn to_path(self) -> Path {
        let mut path = Path::default();
        self.write(true, &mut path);
        path
    }

    /// Returns the path as in Go's JSON errors, which name the fields of structs only: `spec.containers.name`.
    pub(crate) fn to_go_path(self) -> Path {
        let mut path = Path::default();
        self.write(false, &mut path);
        path
    }

    fn write(&self, whole: bool, path: &mut Path) {
        if let Some(parent) = self.parent {
            parent.write(whole, path);
        }
        match self.element {
            StepElement::Root => {}
            StepElement::Field(name) => {
                path.push(name);
            }
            StepElement::Key(key) if whole => {
                path.push(key);
            }
            StepElement::Index(index) if whole => {
                path.push_index(index);
            }
            StepElement::Key(_) | StepElement::Index(_) => {}
        }
    }
}
