//! [`Properties`]: the declared properties of an object.

use super::Schema;

/// Properties by name. Sorted by length first: every pass over an object searches each of its keys, and most comparisons
/// of a search then compare two numbers.
#[derive(Debug, Default)]
pub(super) struct Properties(Vec<(Box<str>, Schema)>);

impl Properties {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Schema> {
        self.position(name).ok().and_then(|at| self.0.get(at)).map(|(_, schema)| schema)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Schema> {
        self.position(name).ok().and_then(|at| self.0.get_mut(at)).map(|(_, schema)| schema)
    }

    /// Adds a property, unless one of this name exists.
    pub(super) fn add(&mut self, name: &str, schema: Schema) {
        if let Err(at) = self.position(name) {
            self.0.insert(at, (name.into(), schema));
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(Box<str>, Schema)> {
        self.0.iter()
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(candidate, _)| {
            candidate.len().cmp(&name.len()).then_with(|| candidate.as_ref().cmp(name))
        })
    }
}

/// The names must be distinct.
impl FromIterator<(Box<str>, Schema)> for Properties {
    fn from_iter<I: IntoIterator<Item = (Box<str>, Schema)>>(properties: I) -> Self {
        let mut properties: Vec<_> = properties.into_iter().collect();
        properties.sort_unstable_by(|(a, _), (b, _)| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
        Properties(properties)
    }
}
