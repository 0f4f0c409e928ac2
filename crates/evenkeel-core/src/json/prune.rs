//! [`JsonPaths`]: removes values from a JSON text, or all other values.

use std::fmt;

use super::{JsonError, JsonType, PathError, PathSegment, Scanner};

/// A set of paths, one bit each.
pub(crate) type ActivePaths = u128;

/// The limit on the number of paths.
const MAX_PATHS: usize = ActivePaths::BITS as usize;

/// A set of paths such as `metadata.managedFields`, `metadata.annotations[example.com/big]` or `spec.containers[*].env`, to
/// remove from objects ([`Obj::without`](crate::Obj::without)) or to keep alone ([`Obj::only`](crate::Obj::only)).
///
/// The grammar is that of [`Obj::path`](crate::Obj::path); in addition `[*]` matches every element of an array and every member
/// of an object. Paths are parsed once, when the set is created.
///
/// ```
/// use evenkeel_core::json::JsonPaths;
///
/// let heavy = JsonPaths::new(["metadata.managedFields", "spec.containers[*].env"])?;
/// # assert!(JsonPaths::new(["spec..x"]).is_err());
/// # drop(heavy);
/// # Ok::<(), evenkeel_core::json::PathError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct JsonPaths {
    paths: Vec<Box<[PathSegment<'static>]>>,
}

/// Whether the matched values are removed or kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PruneMode {
    /// Removes the matched values.
    Remove,
    /// Removes all other values.
    Keep,
}

/// How a set of paths matches one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathMatch {
    /// Neither the value nor anything inside it.
    None,
    /// The value itself.
    Exact,
    /// Values inside it, by these paths.
    Inside(ActivePaths),
}

impl JsonPaths {
    /// Parses a set of at most 128 paths.
    pub fn new(paths: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, PathError> {
        let paths: Vec<_> =
            paths.into_iter().map(|path| PathSegment::parse_all(path.as_ref())).collect::<Result<_, _>>()?;
        if paths.len() > MAX_PATHS {
            return Err(PathError::TooMany { limit: MAX_PATHS });
        }
        Ok(JsonPaths { paths })
    }

    /// Returns whether a path matches one of these members of the object or of its `metadata`.
    pub(crate) fn may_reach(&self, of_object: &[&str], of_metadata: &[&str]) -> bool {
        let matches_one =
            |segment: &PathSegment<'_>, names: &[&str]| names.iter().any(|name| segment.matches_member(name));
        self.paths.iter().any(|segments| match &**segments {
            [first, ..] if matches_one(first, of_object) => true,
            [first] => first.matches_member("metadata"),
            [first, second, ..] => first.matches_member("metadata") && matches_one(second, of_metadata),
            [] => false,
        })
    }

    /// Returns the pruned text, or `None` if nothing matched. The text must be an object whose header was read before.
    pub(crate) fn prune(&self, text: &str, mode: PruneMode) -> Result<Option<Vec<u8>>, JsonError> {
        let mut pruner = JsonPruner { paths: self, mode, text, removed: Vec::new() };
        let all = self.all();
        let mut scanner = Scanner::of_str(text);
        // The usual case. There is only one metadata, and the members after it need no scan.
        if mode == PruneMode::Remove && self.all_inside("metadata") {
            let mut inside = scanner.clone();
            if inside.find_member("metadata")? && inside.value_type()? == JsonType::Object {
                pruner.value(&mut inside, all, 1)?;
                return Ok(pruner.finish());
            }
        }
        pruner.value(&mut scanner, all, 0)?;
        Ok(pruner.finish())
    }

    /// Returns the set of all paths.
    pub(crate) fn all(&self) -> ActivePaths {
        ActivePaths::MAX.checked_shr((MAX_PATHS - self.paths.len()) as u32).unwrap_or(0)
    }

    /// Returns how the `active` paths match a value at `depth`; `matches` tests their next segment.
    pub(crate) fn match_at(
        &self,
        active: ActivePaths,
        depth: usize,
        matches: impl Fn(&PathSegment<'_>) -> bool,
    ) -> PathMatch {
        let mut inside: ActivePaths = 0;
        let mut rest = active;
        while rest != 0 {
            let index = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let Some([segment, further @ ..]) = self.paths.get(index).and_then(|segments| segments.get(depth..)) else {
                continue;
            };
            if matches(segment) {
                if further.is_empty() {
                    return PathMatch::Exact;
                }
                inside |= 1 << index;
            }
        }
        if inside == 0 { PathMatch::None } else { PathMatch::Inside(inside) }
    }

    /// Returns whether all paths match only values inside this member.
    fn all_inside(&self, name: &str) -> bool {
        self.paths.iter().all(|segments| match &**segments {
            [PathSegment::Member(first) | PathSegment::Bracketed(first, _), _, ..] => **first == *name,
            _ => false,
        })
    }
}

/// Scans a text and records the ranges to remove.
struct JsonPruner<'a> {
    paths: &'a JsonPaths,
    mode: PruneMode,
    text: &'a str,
    /// Ranges of the text, in order and not adjacent.
    removed: Vec<(usize, usize)>,
}

impl<'a> JsonPruner<'a> {
    /// Scans the next value, in which `active` paths match at `depth`.
    fn value(&mut self, scanner: &mut Scanner<'a>, active: ActivePaths, depth: usize) -> Result<(), JsonError> {
        let value_type = scanner.value_type()?;
        // After the bracket.
        let mut siblings = SiblingCursor { end: scanner.offset() + 1, has_kept: false, is_first: true };
        match value_type {
            JsonType::Object => scanner.object(|scanner, name| {
                let found = self.paths.match_at(active, depth, |segment| segment.matches_member(name));
                self.member(scanner, &mut siblings, found, depth)
            }),
            JsonType::Array => {
                let mut index = 0;
                scanner.array(|scanner| {
                    let found = self.paths.match_at(active, depth, |segment| segment.matches_element(index));
                    index += 1;
                    self.member(scanner, &mut siblings, found, depth)
                })
            }
            _ => scanner.skip().map(drop),
        }
    }

    /// Scans a member or an element, and keeps or removes it.
    fn member(
        &mut self,
        scanner: &mut Scanner<'a>,
        siblings: &mut SiblingCursor,
        found: PathMatch,
        depth: usize,
    ) -> Result<(), JsonError> {
        let (is_removed, inside) = match (self.mode, found) {
            (PruneMode::Remove, PathMatch::None) | (PruneMode::Keep, PathMatch::Exact) => (false, None),
            (PruneMode::Remove, PathMatch::Exact) | (PruneMode::Keep, PathMatch::None) => (true, None),
            (PruneMode::Remove, PathMatch::Inside(paths)) => (false, Some(paths)),
            // The path continues into a scalar, so it matches nothing.
            (PruneMode::Keep, PathMatch::Inside(paths)) => {
                let has_inside = matches!(scanner.value_type()?, JsonType::Object | JsonType::Array);
                (!has_inside, has_inside.then_some(paths))
            }
        };
        let is_first = std::mem::take(&mut siblings.is_first);
        if !is_removed && !std::mem::replace(&mut siblings.has_kept, true) && !is_first {
            // Everything before it was removed, so the comma must go as well. Only whitespace precedes the comma.
            let comma = self.text.get(siblings.end..).and_then(|rest| rest.find(',')).unwrap_or(0);
            self.remove(siblings.end, siblings.end + comma + 1);
        }
        match inside {
            Some(paths) => self.value(scanner, paths, depth + 1)?,
            None => scanner.skip_checked()?,
        }
        let end = scanner.offset();
        if is_removed {
            // From the end of the previous sibling, so that the comma between them is removed too.
            self.remove(siblings.end, end);
        }
        siblings.end = end;
        Ok(())
    }

    fn remove(&mut self, start: usize, end: usize) {
        match self.removed.last_mut() {
            Some((_, last)) if *last == start => *last = end,
            _ => self.removed.push((start, end)),
        }
    }

    /// Returns the remaining text.
    fn finish(self) -> Option<Vec<u8>> {
        if self.removed.is_empty() {
            return None;
        }
        let removed: usize = self.removed.iter().map(|(start, end)| end - start).sum();
        let mut rest = Vec::with_capacity(self.text.len() - removed);
        let mut at = 0;
        for (start, end) in self.removed.into_iter().chain([(self.text.len(), self.text.len())]) {
            rest.extend_from_slice(self.text.as_bytes().get(at..start).unwrap_or_default());
            at = end;
        }
        Some(rest)
    }
}

/// The position among the members of an object or the elements of an array.
struct SiblingCursor {
    /// The end of the previous member or element, or of the bracket.
    end: usize,
    has_kept: bool,
    is_first: bool,
}

impl fmt::Display for JsonPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, segments) in self.paths.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            for (depth, segment) in segments.iter().enumerate() {
                match segment {
                    PathSegment::Member(name) if name.contains(['.', '\'', '"', '\\', '[']) => write!(f, "[{name:?}]")?,
                    PathSegment::Member(name) if depth == 0 => f.write_str(name)?,
                    PathSegment::Member(name) => write!(f, ".{name}")?,
                    PathSegment::Bracketed(key, _) => write!(f, "[{key}]")?,
                    PathSegment::Any => f.write_str("[*]")?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
