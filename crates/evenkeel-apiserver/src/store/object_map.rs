//! [`ObjectMap`]: the keys of a table, in chunks that clones share.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::chain::Chain;

/// A chunk with more keys is split.
const MAX_CHUNK: usize = 256;

type Chunk = BTreeMap<Box<str>, Chain>;

/// An ordered map from key to versions.
///
/// A clone costs a pointer per chunk and shares the chunks: a snapshot of a large store holds its lock for a moment only. A
/// change copies the chunk of its key if a clone shares it.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectMap {
    /// The chunks by a lower bound of their keys. No chunk is empty.
    chunks: BTreeMap<Box<str>, Arc<Chunk>>,
}

impl ObjectMap {
    fn chunk_of(&self, key: &str) -> Option<&Arc<Chunk>> {
        self.chunks.range::<str, _>(up_to(key)).next_back().map(|(_, chunk)| chunk)
    }

    pub(super) fn get(&self, key: &str) -> Option<&Chain> {
        self.chunk_of(key)?.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Chain> {
        let (_, chunk) = self.chunks.range_mut::<str, _>(up_to(key)).next_back()?;
        Arc::make_mut(chunk).get_mut(key)
    }

    pub(super) fn insert(&mut self, key: Box<str>, chain: Chain) {
        let Some((_, chunk)) = self.chunks.range_mut::<str, _>(up_to(&key)).next_back() else {
            // The first chunk has no lower bound.
            self.chunks.insert("".into(), Arc::new(Chunk::from([(key, chain)])));
            return;
        };
        let chunk = Arc::make_mut(chunk);
        chunk.insert(key, chain);
        if chunk.len() > MAX_CHUNK
            && let Some(middle) = chunk.keys().nth(MAX_CHUNK / 2).cloned()
        {
            let upper = chunk.split_off(&middle);
            self.chunks.insert(middle, Arc::new(upper));
        }
    }

    pub(super) fn remove(&mut self, key: &str) {
        let Some((bound, chunk)) = self.chunks.range_mut::<str, _>(up_to(key)).next_back() else { return };
        let chunk_left = Arc::make_mut(chunk);
        chunk_left.remove(key);
        if chunk_left.is_empty() {
            let bound = bound.clone();
            self.chunks.remove(&bound);
        }
    }

    /// Returns all entries in the order of their keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Box<str>, &Chain)> {
        self.chunks.values().flat_map(|chunk| chunk.iter())
    }

    /// Returns the entries from a key on.
    pub(super) fn range<'a>(&'a self, from: Bound<&'a str>) -> impl Iterator<Item = (&'a Box<str>, &'a Chain)> {
        let first = match from {
            Bound::Included(key) | Bound::Excluded(key) => {
                self.chunks.range::<str, _>(up_to(key)).next_back().map_or("", |(bound, _)| bound)
            }
            Bound::Unbounded => "",
        };
        let chunks = self.chunks.range::<str, _>((Bound::Included(first), Bound::Unbounded));
        chunks.flat_map(move |(_, chunk)| chunk.range::<str, _>((from, Bound::Unbounded)))
    }
}

fn up_to(key: &str) -> (Bound<&str>, Bound<&str>) {
    (Bound::Unbounded, Bound::Included(key))
}

#[cfg(test)]
mod tests;
