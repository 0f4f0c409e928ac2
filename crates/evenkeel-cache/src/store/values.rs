//! [`Values`]: what the index functions say of the objects of one write, before it is made.

use super::index::Index;
use crate::Object;
use evenkeel_core::Untyped;

/// The values of some objects under each of some indexes, end to end: three allocations however many there are.
#[derive(Debug, Default)]
pub(super) struct Values {
    texts: String,
    /// Where each value ends in the texts.
    ends: Vec<usize>,
    /// One for each index of each object: where its values end, and whether the object could not be decoded.
    cells: Vec<(usize, bool)>,
    misfit: bool,
}

impl Values {
    pub(super) fn of<'a>(objects: impl IntoIterator<Item = &'a Object>, indexes: &[Index<Untyped>]) -> Self {
        let mut values = Values::default();
        for object in objects {
            values.add(object, indexes);
        }
        values
    }

    pub(super) fn add(&mut self, object: &Object, indexes: &[Index<Untyped>]) {
        for index in indexes {
            self.misfit = false;
            index.evaluate(object, self);
            self.cells.push((self.ends.len(), self.misfit));
        }
    }

    /// The object is found under this value.
    pub(super) fn push(&mut self, value: &str) {
        self.texts.push_str(value);
        self.ends.push(self.texts.len());
    }

    /// The object cannot be decoded.
    pub(super) fn misfit(&mut self) {
        self.misfit = true;
    }

    /// The values in a cell, which are numbered object by object.
    pub(super) fn cell(&self, cell: usize) -> Cell<'_> {
        let begin = cell.checked_sub(1).map_or(0, |before| self.cells[before].0);
        let (end, misfit) = self.cells[cell];
        let start = begin.checked_sub(1).map_or(0, |before| self.ends[before]);
        Cell { texts: &self.texts, start, ends: &self.ends[begin..end], misfit }
    }
}

/// The values of one object under one index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell<'a> {
    texts: &'a str,
    start: usize,
    ends: &'a [usize],
    pub(super) misfit: bool,
}

impl<'a> Cell<'a> {
    /// The value, if there is exactly one.
    pub(super) fn only(&self) -> Option<&'a str> {
        match self.ends {
            [end] => self.texts.get(self.start..*end),
            _ => None,
        }
    }

    pub(super) fn iter(self) -> impl Iterator<Item = &'a str> {
        let mut start = self.start;
        self.ends.iter().map(move |end| {
            let value = &self.texts[start..*end];
            start = *end;
            value
        })
    }
}
