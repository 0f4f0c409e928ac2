//! [`Properties`]: the declared properties of an object.

use super::Schema;

/// So many bytes of a name are in its [`search_key`].
const KEYED_BYTES: usize = 15;

/// Properties by name. Every pass over an object searches each of its keys, so a search reads a small array of numbers, and a
/// name only if it is long.
#[derive(Debug, Default)]
pub(super) struct Properties {
    /// The [`search_key`] of each property, sorted.
    keys: Vec<u128>,
    /// In the same order; those with the same key are sorted by name.
    properties: Vec<(Box<str>, Schema)>,
}

impl Properties {
    pub(super) fn is_empty(&self) -> bool {
        self.properties.is_empty()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Schema> {
        self.position(name).ok().and_then(|at| self.properties.get(at)).map(|(_, schema)| schema)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Schema> {
        self.position(name).ok().and_then(|at| self.properties.get_mut(at)).map(|(_, schema)| schema)
    }

    /// Adds a property, unless one of this name exists.
    pub(super) fn add(&mut self, name: &str, schema: Schema) {
        if let Err(at) = self.position(name) {
            self.keys.insert(at, search_key(name));
            self.properties.insert(at, (name.into(), schema));
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(Box<str>, Schema)> {
        self.properties.iter()
    }

    /// Returns the position of a property, or the one that it would have.
    fn position(&self, name: &str) -> Result<usize, usize> {
        let key = search_key(name);
        let mut at = self.keys.partition_point(|other| *other < key);
        if name.len() <= KEYED_BYTES {
            // The key is the whole name.
            return if self.keys.get(at) == Some(&key) { Ok(at) } else { Err(at) };
        }
        while self.keys.get(at) == Some(&key) {
            match self.properties.get(at) {
                Some((other, _)) if **other == *name => return Ok(at),
                Some((other, _)) if **other < *name => at += 1,
                _ => break,
            }
        }
        Err(at)
    }
}

/// The names must be distinct.
impl FromIterator<(Box<str>, Schema)> for Properties {
    fn from_iter<I: IntoIterator<Item = (Box<str>, Schema)>>(properties: I) -> Self {
        let mut properties: Vec<_> = properties.into_iter().collect();
        properties.sort_unstable_by(|(a, _), (b, _)| (search_key(a), a).cmp(&(search_key(b), b)));
        Properties { keys: properties.iter().map(|(name, _)| search_key(name)).collect(), properties }
    }
}

/// Returns the length of a name, and its first bytes.
fn search_key(name: &str) -> u128 {
    let mut key = [0; 1 + KEYED_BYTES];
    let (length, start) = key.split_at_mut(1);
    length.fill(u8::try_from(name.len()).unwrap_or(u8::MAX));
    let compared = name.len().min(start.len());
    if let (Some(start), Some(name)) = (start.get_mut(..compared), name.as_bytes().get(..compared)) {
        start.copy_from_slice(name);
    }
    u128::from_be_bytes(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_begin_alike_are_told_apart() {
        let names =
            ["ab", "a", "", "terminationMessagePath", "terminationMessageMode", "terminationGracePeriodSeconds"];
        let property = |name: &str| (Box::from(name), Schema::default());
        let mut properties: Properties = names.into_iter().map(property).collect();
        let long = "x".repeat(300);
        let longer = "x".repeat(301);
        for name in [&long, &longer, &long] {
            properties.add(name, Schema::default());
        }
        assert_eq!(properties.iter().count(), 8);
        for (at, (name, _)) in properties.iter().enumerate() {
            assert_eq!(properties.position(name), Ok(at));
        }
        for absent in ["b", "aa", "terminationMessagePaths", "terminationMessageXath", &"x".repeat(302)] {
            assert!(properties.get(absent).is_none(), "{absent}");
        }
    }
}
