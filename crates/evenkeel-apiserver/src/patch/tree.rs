//! The object while a JSON patch is applied: a tree in which inserting into a long list does not move the list.
//!
//! A [`PatchTree`] starts as the plain value. A container is opened when a pointer passes through it, once; the rest stays
//! plain. An opened list is a sequence of chunks, so that an insertion moves one chunk and not all items after it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::limits::json_size;

/// The length of a chunk after a split; a chunk has at most twice as many items.
const CHUNK: usize = 512;

/// A value, opened as far as pointers have passed through it.
#[derive(Clone, Debug)]
pub(super) enum PatchTree {
    Plain(Value),
    Object(BTreeMap<String, PatchTree>),
    List(ChunkedList),
}

impl PatchTree {
    /// Opens the value if it is a plain container.
    pub(super) fn open(&mut self) -> &mut Self {
        match self {
            PatchTree::Plain(Value::Object(map)) => {
                let fields = std::mem::take(map).into_iter();
                *self = PatchTree::Object(fields.map(|(name, value)| (name, PatchTree::Plain(value))).collect());
            }
            PatchTree::Plain(Value::Array(list)) => {
                *self = PatchTree::List(ChunkedList::new(std::mem::take(list)));
            }
            _ => {}
        }
        self
    }

    /// Returns the value as JSON.
    pub(super) fn into_value(self) -> Value {
        match self {
            PatchTree::Plain(value) => value,
            PatchTree::Object(fields) => {
                Value::Object(fields.into_iter().map(|(name, value)| (name, value.into_value())).collect())
            }
            PatchTree::List(list) => {
                let mut items = Vec::with_capacity(list.len);
                items.extend(list.chunks.into_iter().flatten().map(PatchTree::into_value));
                Value::Array(items)
            }
        }
    }

    /// Returns the nesting of containers: 0 for a scalar, 1 for a flat object.
    pub(super) fn depth(&self) -> usize {
        match self {
            PatchTree::Plain(value) => depth(value),
            PatchTree::Object(fields) => 1 + fields.values().map(PatchTree::depth).max().unwrap_or(0),
            PatchTree::List(list) => 1 + list.iter().map(PatchTree::depth).max().unwrap_or(0),
        }
    }

    /// Returns about the length of the value as JSON.
    pub(super) fn size(&self) -> usize {
        match self {
            PatchTree::Plain(value) => json_size(value),
            PatchTree::Object(fields) => {
                fields.iter().map(|(name, value)| name.len() + 4 + value.size()).sum::<usize>() + 2
            }
            PatchTree::List(list) => list.iter().map(|item| item.size() + 1).sum::<usize>() + 2,
        }
    }
}

impl PartialEq<Value> for PatchTree {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (PatchTree::Plain(value), other) => value == other,
            (PatchTree::Object(fields), Value::Object(other)) => {
                fields.len() == other.len()
                    && fields.iter().all(|(name, value)| other.get(name).is_some_and(|other| *value == *other))
            }
            (PatchTree::List(list), Value::Array(other)) => {
                list.len == other.len() && list.iter().zip(other).all(|(item, other)| *item == *other)
            }
            _ => false,
        }
    }
}

/// A list in chunks. No chunk is empty.
#[derive(Clone, Debug)]
pub(super) struct ChunkedList {
    chunks: Vec<Vec<PatchTree>>,
    len: usize,
}

impl ChunkedList {
    fn new(items: Vec<Value>) -> Self {
        let len = items.len();
        let mut chunks = Vec::with_capacity(len.div_ceil(CHUNK));
        let mut items = items.into_iter().map(PatchTree::Plain).peekable();
        while items.peek().is_some() {
            chunks.push(items.by_ref().take(CHUNK).collect());
        }
        ChunkedList { chunks, len }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn iter(&self) -> impl Iterator<Item = &PatchTree> {
        self.chunks.iter().flatten()
    }

    /// Returns the chunk that has an item, and the item's position there. The index of the end is in the last chunk.
    fn locate(&self, index: usize) -> (usize, usize) {
        let mut rest = index;
        for (position, chunk) in self.chunks.iter().enumerate() {
            if rest < chunk.len() {
                return (position, rest);
            }
            rest -= chunk.len();
        }
        match self.chunks.last() {
            Some(last) => (self.chunks.len() - 1, last.len() + rest),
            None => (0, rest),
        }
    }

    pub(super) fn get(&self, index: usize) -> Option<&PatchTree> {
        let (chunk, position) = self.locate(index);
        self.chunks.get(chunk)?.get(position)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut PatchTree> {
        let (chunk, position) = self.locate(index);
        self.chunks.get_mut(chunk)?.get_mut(position)
    }

    /// Inserts an item before the index, which is at most the length.
    pub(super) fn insert(&mut self, index: usize, item: PatchTree) {
        let (chunk, position) = self.locate(index.min(self.len));
        if self.chunks.is_empty() {
            self.chunks.push(Vec::new());
        }
        if let Some(items) = self.chunks.get_mut(chunk) {
            items.insert(position.min(items.len()), item);
            self.len += 1;
            if items.len() > 2 * CHUNK {
                let rest = items.split_off(CHUNK);
                self.chunks.insert(chunk + 1, rest);
            }
        }
    }

    /// Removes the item at the index.
    pub(super) fn remove(&mut self, index: usize) -> Option<PatchTree> {
        let (chunk, position) = self.locate(index);
        let items = self.chunks.get_mut(chunk).filter(|items| position < items.len())?;
        let removed = items.remove(position);
        self.len -= 1;
        if items.is_empty() {
            self.chunks.remove(chunk);
        }
        Some(removed)
    }

    /// Returns how many items an insertion at the index moves, for tests.
    #[cfg(test)]
    pub(super) fn cost_of_insert(&self, index: usize) -> usize {
        let (chunk, position) = self.locate(index);
        self.chunks.get(chunk).map_or(0, Vec::len) - position + self.chunks.len()
    }
}

/// Returns the nesting of containers: 0 for a scalar, 1 for a flat object. The values are no deeper than the limit of
/// patches or that of the JSON parser, which bounds the recursion.
pub(super) fn depth(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
