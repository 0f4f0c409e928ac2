//! [`Values`]: the index values of the objects of one write, evaluated before it.

use std::cell::Cell as CellOf;
use std::panic::{AssertUnwindSafe, catch_unwind};

use evenkeel_core::Untyped;

use super::index::Index;
use crate::Object;

/// The values of objects in indexes, concatenated: three allocations however many there are.
#[derive(Debug, Default)]
pub(super) struct Values {
    texts: String,
    /// The end of each value in `texts`.
    ends: Vec<usize>,
    /// For each index of each object the end of its values, and whether it is a misfit.
    cells: Vec<(usize, bool)>,
    misfit: bool,
}

/// A buffer of more bytes is not reused.
const MAX_SPARE: usize = 4096;

thread_local! {
    /// The buffers of the last small write of this thread.
    static SPARE: CellOf<Option<Values>> = const { CellOf::new(None) };
}

impl Values {
    pub(super) fn of<'a>(objects: impl IntoIterator<Item = &'a Object>, indexes: &[Index<Untyped>]) -> Self {
        // An index function may write to another store: its values take other buffers.
        let mut values = SPARE.take().unwrap_or_default();
        for object in objects {
            values.add(object, indexes);
        }
        values
    }

    /// Drops the values. The next write of this thread reuses their buffers, unless they are large.
    pub(super) fn recycle(mut self) {
        let bytes = self.texts.capacity() + size_of::<usize>() * (self.ends.capacity() + 2 * self.cells.capacity());
        if bytes <= MAX_SPARE {
            self.clear();
            SPARE.set(Some(self));
        }
    }

    fn clear(&mut self) {
        self.texts.clear();
        self.ends.clear();
        self.cells.clear();
    }

    pub(super) fn add(&mut self, object: &Object, indexes: &[Index<Untyped>]) {
        for index in indexes {
            self.misfit = false;
            index.evaluate(object, self);
            self.cells.push((self.ends.len(), self.misfit));
        }
    }

    /// Calls an index function of the user. If it panics, the object has no value in this index and counts as a misfit.
    pub(super) fn contain(&mut self, index: &str, object: &Object, function: impl FnOnce(&mut Values)) {
        let (texts, ends) = (self.texts.len(), self.ends.len());
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| function(self))) {
            self.texts.truncate(texts);
            self.ends.truncate(ends);
            self.misfit();
            let message = crate::panic_message(&*panic);
            tracing::error!(index, key = %object.key(), message, "index function panicked; object has no value in this index");
        }
    }

    /// Replaces all values by those of one object: for each index its values, and whether it is a misfit.
    pub(super) fn refill<'a>(&mut self, indexes: impl Iterator<Item = (impl Iterator<Item = &'a str>, bool)>) {
        self.clear();
        for (values, misfit) in indexes {
            values.for_each(|value| self.push(value));
            self.cells.push((self.ends.len(), misfit));
        }
    }

    /// Adds a value of the current object.
    pub(super) fn push(&mut self, value: &str) {
        self.texts.push_str(value);
        self.ends.push(self.texts.len());
    }

    /// Marks the current object as a misfit: it cannot be indexed.
    pub(super) fn misfit(&mut self) {
        self.misfit = true;
    }

    /// Returns the values of a cell. Cells are numbered object by object.
    pub(super) fn cell(&self, cell: usize) -> Cell<'_> {
        let begin = cell.checked_sub(1).map_or(0, |before| self.cells[before].0);
        let (end, misfit) = self.cells[cell];
        let start = begin.checked_sub(1).map_or(0, |before| self.ends[before]);
        Cell { texts: &self.texts, start, ends: &self.ends[begin..end], misfit }
    }
}

/// The values of one object in one index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell<'a> {
    texts: &'a str,
    start: usize,
    ends: &'a [usize],
    pub(super) misfit: bool,
}

impl<'a> Cell<'a> {
    /// Returns the value if there is exactly one.
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
